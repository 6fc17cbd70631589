"""The plug is pulled: what was synced is there, of the rest any part may be missing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest
from fault_tools import a_memory, scaled
from tests.requirement import requirement

from reasonbank.errors import ReasonBankError
from reasonbank.ledger.events import Event, EventType, lesson
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.model import new_id

SECTOR = 512


@dataclass
class Disk:
    """What of one file is safe, and what is still on its way, in order."""

    safe: bytes | None = None
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        self.safe = self.after(self.pending)
        self.pending = []

    def after(self, writes: list[tuple[int, bytes | None]]) -> bytes:
        image = bytearray(self.safe or b"")
        for offset, data in writes:
            if data is None:
                del image[offset:]
            else:
                image.extend(bytes(max(0, offset - len(image))))
                image[offset : offset + len(data)] = data
        return bytes(image)

    def after_a_cut(self, rng: random.Random, how: str) -> bytes | None:
        match how:
            case "nothing more":
                kept = []
            case "in order":
                kept = self.pending[: rng.randint(0, len(self.pending))]
            case "any":
                kept = [write for write in self.pending if rng.random() < 0.5]
            case _:
                kept = [part for write in self.pending for part in torn(write)
                        if rng.random() < 0.5]  # fmt: skip
        return self.after(kept) if kept or self.safe is not None else None


def torn(write: tuple[int, bytes | None]) -> list[tuple[int, bytes | None]]:
    offset, data = write
    if data is None:
        return [write]
    return [(offset + at, data[at : at + SECTOR]) for at in range(0, len(data), SECTOR)]


class Unplugged(apsw.VFS):
    """Passes everything on, and remembers per file what was not synced yet."""

    def __init__(self, name: str) -> None:
        self.disks: dict[str, Disk] = {}
        self.watch: Callable[[], None] = lambda: None
        super().__init__(name=name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        plain = name.filename() if isinstance(name, apsw.URIFilename) else name
        disk = self.disks.setdefault(plain, Disk()) if plain else Disk()
        return Watched(name, flags, self, disk)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self.disks.pop(name, None)


class Watched(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], vfs: Unplugged, disk: Disk) -> None:
        self._vfs = vfs
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.pending.append((offset, bytes(data)))
        self._vfs.watch()

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._disk.pending.append((size, None))
        self._vfs.watch()

    def xSync(self, flags: int) -> None:
        self._vfs.watch()
        super().xSync(flags)
        self._disk.sync()
        self._vfs.watch()


@dataclass
class Cut:
    """The moment the power went: what the disks held, and who had been told what."""

    images: dict[str, bytes]
    acknowledged: list[str]


def recorded(ledger: SQLiteLedger) -> str:
    memory = a_memory(content="x" * 300)

    def work(txn: Any) -> str:
        txn.append(
            Event(
                id=new_id(), type=EventType.RECORDED, subject=memory.id, workspace="w",
                at=txn.stamp(), origin=ledger.bank_id, author="a", surface="test",
                payload={"lesson": lesson(memory)},
            )
        )  # fmt: skip
        return memory.id

    return ledger.write(work)


def lived_until_the_cut(folder: Path, vfs: Unplugged, seed: int, synchronous: str) -> Cut:
    """Write, checkpoint and reopen; the power goes at a random look at the disk."""
    rng = random.Random(seed)
    acknowledged: list[str] = []
    cut: list[Cut] = []
    left = rng.randrange(1, 300)
    how = rng.choice(["nothing more", "in order", "any", "torn", "torn"])

    def watch() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            images = {name: disk.after_a_cut(rng, how) for name, disk in vfs.disks.items()}
            kept = {name: image for name, image in images.items() if image is not None}
            cut.append(Cut(kept, list(acknowledged)))

    vfs.disks.clear()
    vfs.watch = lambda: None
    path = folder / "bank.db"
    if rng.random() < 0.75:  # Else the power may go while the bank is being made.
        SQLiteLedger(path, vfs=vfs.vfs_name, synchronous=synchronous).close()
    vfs.watch = watch
    while not cut:
        ledger = SQLiteLedger(path, vfs=vfs.vfs_name, synchronous=synchronous)
        ledger.db.handle.pragma("wal_autocheckpoint", rng.choice([1, 8, 40, 1000]))
        for _ in range(rng.randint(2, 12)):
            acknowledged.append(recorded(ledger))
            if rng.random() < 0.08:
                ledger.scrub()
            if cut:
                break
        vfs.watch = watch if not cut else lambda: None
        ledger.close()
    return cut[0]


def lost_after_the_cut(folder: Path, cut: Cut) -> int:
    """Open what the disks held, as the next start of the machine would; count what is gone."""
    for name, image in cut.images.items():
        (folder / Path(name).name).write_bytes(image)
    ledger = SQLiteLedger(folder / "bank.db")
    try:
        assert ledger.check() == []
        reading = ledger.read()
        there = {row[0] for row in reading.db.all("select id from memories")}
        logged = {row[0] for row in reading.db.all("select subject from events")}
        assert there == logged, "half-written"
        recorded(ledger)
        return len(set(cut.acknowledged) - there)
    finally:
        ledger.close()


@pytest.fixture
def vfs() -> Any:
    vfs = Unplugged("reasonbank-unplugged")
    vfs.vfs_name = "reasonbank-unplugged"
    yield vfs
    vfs.unregister()


def lost_over(seeds: range, folder: Path, vfs: Unplugged, synchronous: str) -> tuple[int, int]:
    lost = acknowledged = 0
    for seed in seeds:
        live, dead = folder / "live", folder / "dead"
        live.mkdir()
        dead.mkdir()
        cut = lived_until_the_cut(live, vfs, seed, synchronous)
        acknowledged += len(cut.acknowledged)
        try:
            lost += lost_after_the_cut(dead, cut)
        except (AssertionError, ReasonBankError, apsw.Error) as error:
            raise AssertionError(f"seed {seed} ({synchronous}): {error!r}") from error
        shutil.rmtree(live)
        shutil.rmtree(dead)
    return lost, acknowledged


@pytest.mark.slow
@requirement("MEM-8")
def test_power_loss_takes_nothing_that_was_acknowledged(memory_disk: Path, vfs: Unplugged) -> None:
    seeds = scaled("REASONBANK_TEST_SEEDS", 1000)
    lost, acknowledged = lost_over(range(seeds), memory_disk, vfs, "full")
    assert acknowledged > seeds
    assert lost == 0


@pytest.mark.slow
@requirement("MEM-8")
def test_the_power_loss_test_sees_what_a_lesser_setting_loses(
    memory_disk: Path, vfs: Unplugged
) -> None:
    seeds = max(50, scaled("REASONBANK_TEST_SEEDS", 1000) // 10)
    lost, _ = lost_over(range(seeds), memory_disk, vfs, "normal")
    assert lost > 0, "the simulation is blind"

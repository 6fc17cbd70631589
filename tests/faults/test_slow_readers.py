"""Whoever reads slowly keeps nobody from writing and forgetting."""

from __future__ import annotations

import io
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from fault_tools import a_memory, child, imported, open_bank, where_found
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Forgotten
from reasonbank.ledger.sqlite.connection import WAL_BYTES

MANY = 400
TEXT = "word " * 400


@pytest.fixture
def marker() -> str:
    return "zqxj" + "".join(chr(ord("a") + byte % 26) for byte in secrets.token_bytes(12))


class Stalled(io.StringIO):
    """A reader that looks at the first lines and goes to lunch."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.lines = 0

    def write(self, text: str) -> int:
        self.lines += 1
        if self.lines == 3:
            self.reached.set()
            assert self.go_on.wait(60)
        return super().write(text)


@pytest.fixture
def full(bank: Bank) -> Bank:
    for number in range(MANY):
        bank.record(a_memory(f"Lesson {number}", content=TEXT))
    return bank


@pytest.fixture
def stalled(full: Bank) -> Iterator[tuple[Stalled, threading.Thread]]:
    file = Stalled()
    thread = threading.Thread(target=full.export, args=(file,))
    thread.start()
    assert file.reached.wait(60)
    yield file, thread
    file.go_on.set()
    thread.join(60)


def open_readings(path: Path) -> bool:
    """Whether anybody reads an older state: SQLite then cannot empty its log."""
    db = apsw.Connection(str(path))
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return True
    finally:
        db.close()
    return False


@requirement("MEM-9")
def test_a_stalled_export_holds_nothing_that_writers_wait_for(
    full: Bank, stalled: tuple[Stalled, threading.Thread], path: Path, marker: str
) -> None:
    file, thread = stalled
    memory = full.record(a_memory(marker))
    full.forget(memory.id)
    assert where_found(marker, path) == []
    assert not open_readings(path)
    file.go_on.set()
    thread.join(60)
    assert marker not in file.getvalue(), "an export ends where the log ended when it began"
    with open_bank(path.with_name("copy.db")) as copy:
        imported(copy, file.getvalue())
        assert copy.statistics().memories == MANY


@requirement("MEM-6")
def test_what_is_forgotten_during_an_export_does_not_come_back_with_it(
    full: Bank, stalled: tuple[Stalled, threading.Thread], path: Path
) -> None:
    """Also what was written to the file before it was forgotten."""
    file, thread = stalled
    oldest_first = list(reversed(full.memories(limit=MANY)))
    gone = [oldest_first[0], oldest_first[-1]]
    for memory in gone:
        full.forget(memory.id)
    file.go_on.set()
    thread.join(60)
    assert gone[1].title not in file.getvalue()
    with open_bank(path.with_name("copy.db")) as copy:
        imported(copy, file.getvalue())
        assert copy.statistics().memories == MANY - 2
        for memory in gone:
            with pytest.raises(Forgotten):
                copy.get(memory.id)


def test_a_log_is_read_in_pages_that_miss_and_repeat_nothing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        bank.record(a_memory(f"Here {number}"))
        bank.within("/elsewhere").record(a_memory(f"Elsewhere {number}"))
        if number % 3 == 0:
            bank.forget(bank.record(a_memory()).id)
    reading = bank.store.ledger.read()
    for workspace in (None, bank.view.workspace):
        monkeypatch.undo()
        whole = [event.id for event in reading.events(workspace)]
        assert len(whole) == len(set(whole)) > 10
        for page in (1, 2, 3, 7):
            monkeypatch.setattr("reasonbank.ledger.queries.log.PAGE", page)
            assert [event.id for event in reading.events(workspace)] == whole


def read_and_wait(path: Path, pipe: object) -> None:
    """Another program that keeps a transaction open: a backup, or somebody in a shell."""
    db = apsw.Connection(str(path))
    db.execute("begin; select count(*) from events")
    pipe.send("reading")  # type: ignore[attr-defined]
    pipe.recv()  # type: ignore[attr-defined]
    db.execute("commit")
    db.close()
    pipe.send("gone")  # type: ignore[attr-defined]


@pytest.fixture
def another_reader(path: Path, bank: Bank) -> Iterator[object]:
    from fault_tools import processes

    bank.record(a_memory("There before"))
    ours, theirs = processes.Pipe()
    with child(read_and_wait, path, theirs):
        assert ours.recv() == "reading"
        yield ours


def leave(reader: object) -> None:
    reader.send("go")  # type: ignore[attr-defined]
    assert reader.recv() == "gone"  # type: ignore[attr-defined]


@requirement("MEM-6")
@pytest.mark.parametrize("how", ["the next write", "the next forgetting", "closing", "opening"])
def test_what_is_forgotten_while_others_read_is_gone_from_the_files_when_they_are(
    bank: Bank, path: Path, marker: str, another_reader: object, how: str
) -> None:
    other = bank.record(a_memory("Another"))
    id = bank.record(a_memory(marker)).id
    bank.forget(id)
    with pytest.raises(Forgotten):
        bank.get(id)
    assert where_found(marker, path), "the reader may still look at it"
    assert any("forgotten" in problem for problem in problems(bank))
    leave(another_reader)
    with open_bank(path) as second:  # As long as it is open, closing empties nothing by itself.
        if how == "the next write":
            bank.store.ledger.retry_after = 0.0
            bank.record(a_memory("Next"))
        elif how == "the next forgetting":
            bank.forget(other.id)
        elif how == "closing":
            bank.close()
        assert where_found(marker, path) == []
        if how != "closing":
            assert problems(bank) == problems(second) == []


def problems(bank: Bank) -> list[str]:
    return [check.found for check in bank.health().checks if check.name == "forgotten"]


def test_a_forgetting_that_waits_for_readers_keeps_no_writer_waiting(
    bank: Bank, path: Path, another_reader: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes between its attempts: neither the turn nor SQLite's lock is held."""
    written = []
    pause = "reasonbank.ledger.sqlite.ledger.pause"

    def write_meanwhile(seconds: float) -> None:
        thread = threading.Thread(target=lambda: written.append(bank.record(a_memory("Meanwhile"))))
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), "the writer waits for the reader"
        other = apsw.Connection(str(path))
        other.execute("begin immediate; rollback")  # Not a moment's patience is needed.
        other.close()

    monkeypatch.setattr(pause, write_meanwhile)
    bank.forget(bank.record(a_memory()).id)
    assert written


def test_the_log_of_writes_stays_small_while_an_export_is_stalled(
    full: Bank, stalled: tuple[Stalled, threading.Thread], path: Path
) -> None:
    for number in range(MANY):
        full.record(a_memory(f"Later {number}", content=TEXT))
    assert path.with_name(f"{path.name}-wal").stat().st_size < 3 * WAL_BYTES


def test_a_log_of_writes_that_had_to_grow_is_made_small_again(
    bank: Bank, path: Path, another_reader: object
) -> None:
    log = path.with_name(f"{path.name}-wal")
    for number in range(2 * MANY):
        bank.record(a_memory(f"Later {number}", content=TEXT))
    assert log.stat().st_size > 3 * WAL_BYTES, "the reader keeps it"
    leave(another_reader)
    for number in range(MANY):
        bank.record(a_memory(f"Last {number}", content=TEXT))
    assert log.stat().st_size < 3 * WAL_BYTES


@requirement("MEM-6", "MEM-9")
def test_a_command_whose_output_nobody_reads_stops_nobody(path: Path, marker: str) -> None:
    """`reasonbank export - | less`, and then a `forget` in another window."""
    environment = os.environ | {
        "REASONBANK_URL": f"sqlite:///{path}",
        "REASONBANK_EMBED_MODEL": "hashed",
    }
    command = [sys.executable, "-m", "reasonbank.surfaces.cli", "--workspace", "/project"]
    with open_bank(path) as bank:
        for number in range(MANY):
            bank.record(a_memory(f"Lesson {number}", content=TEXT))
        id = bank.record(a_memory(marker)).id
    with subprocess.Popen(
        [*command, "export", "-"], env=environment, stdout=subprocess.PIPE
    ) as less:
        assert less.stdout is not None
        less.stdout.read(100)  # The pipe is full long before the export ends.
        done = subprocess.run(
            [*command, "forget", id, "--yes"], env=environment, timeout=50, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert where_found(marker, path) == []
        rest = less.stdout.read().decode()
    assert less.returncode == 0
    assert marker not in rest

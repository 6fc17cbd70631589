"""A full disk refuses what does not fit, loses nothing, and is forgiven once there is room."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from fault_tools import a_memory, open_bank
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import StorageFull
from reasonbank.jobs.learner import tasks
from reasonbank.jobs.worker import Effects, Work, Worker
from reasonbank.ledger.port import LONGEST_PAUSE
from reasonbank.model import Memory, Outcome, Trace
from reasonbank.testing import Scripted

BIG = "word " * 2000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def record_until_full(bank: Bank) -> list[Memory]:
    stored: list[Memory] = []
    try:
        while len(stored) < 2000:
            stored.append(bank.record(a_memory(f"Number {len(stored)}", content=BIG)))
    except StorageFull:
        return stored
    raise AssertionError("it never got full")


def fill_up(ballast: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(10_000_000))


def check_all_there(bank: Bank, stored: list[Memory]) -> None:
    assert len(stored) > 3
    assert [bank.get(memory.id) for memory in stored] == stored
    assert bank.statistics().memories == len(stored)
    assert bank.store.ledger.check() == []


def test_a_full_disk_keeps_what_was_acknowledged_and_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    path = small_disk / "bank.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    with open_bank(path) as bank:
        stored = record_until_full(bank)
        check_all_there(bank, stored)
        for _ in range(3):  # It stays refused, and nothing piles up.
            with pytest.raises(StorageFull, match="no room left"):
                bank.record(a_memory(content=BIG * 3))
        ballast.unlink()
        stored.append(bank.record(a_memory("After")))
        check_all_there(bank, stored)
    with open_bank(path) as bank:
        check_all_there(bank, stored)


def test_a_search_answers_on_a_full_disk(small_disk: Path) -> None:
    with open_bank(small_disk / "bank.db") as bank:
        stored = record_until_full(bank)
        fill_up(small_disk / "ballast")
        found = bank.search(stored[0].title, limit=100)
        assert stored[0].id in {hit.memory.id for hit in found}


def test_a_bank_on_a_disk_without_a_byte_left_says_so_and_opens_when_there_is_room(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "bank.db", small_disk / "ballast"
    with open_bank(path) as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(5)]
    fill_up(ballast)
    with pytest.raises(StorageFull):
        open_bank(path)
    ballast.unlink()
    with open_bank(path) as bank:
        check_all_there(bank, stored)


def test_a_new_bank_on_a_full_disk_is_refused_and_made_when_there_is_room(
    small_disk: Path,
) -> None:
    ballast = small_disk / "ballast"
    fill_up(ballast)
    with pytest.raises(StorageFull):
        open_bank(small_disk / "bank.db")
    ballast.unlink()
    with open_bank(small_disk / "bank.db") as bank:
        bank.record(a_memory())


@pytest.fixture
def limited(path: Path) -> Iterator[tuple[Bank, Callable[[int], None]]]:
    """A bank whose file may not grow: a full disk that needs no root."""
    with open_bank(path) as bank:
        db = bank.store.ledger.db.handle
        pages = db.pragma("page_count")

        def grow(more: int) -> None:
            db.pragma("max_page_count", pages + more)

        grow(40)
        yield bank, grow


def test_what_was_used_is_shown_on_a_full_disk_and_counted_once_there_is_room(
    limited: tuple[Bank, Callable[[int], None]],
) -> None:
    bank, grow = limited
    stored = record_until_full(bank)
    hit = bank.search(stored[0].title, limit=1)[0]
    assert bank.get(hit.memory.id).content == hit.memory.content
    grow(400)
    assert bank.get(hit.memory.id).usage_count == 1


def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(
    limited: tuple[Bank, Callable[[int], None]],
) -> None:
    bank, grow = limited
    stored = record_until_full(bank)
    check_all_there(bank, stored)
    grow(400)
    stored.append(bank.record(a_memory("After")))
    check_all_there(bank, stored)


def test_a_workspace_that_did_not_fit_is_visible_when_it_is_made_later(
    limited: tuple[Bank, Callable[[int], None]],
) -> None:
    """What a failed transaction made up must not be remembered."""
    bank, grow = limited
    record_until_full(bank)
    other = bank.within("/other")
    with pytest.raises(StorageFull):
        other.record(a_memory(content=BIG * 3))
    grow(400)
    third = bank.within("/third").record(a_memory("Third"))
    mine = other.record(a_memory("Mine"))
    assert [m.id for m in other.memories()] == [mine.id]
    assert [m.id for m in bank.within("/third").memories()] == [third.id]


def test_a_commit_that_failed_leaves_no_partition_behind_in_memory(bank: Bank) -> None:
    """The same when it is the commit itself that fails, not a statement in it."""
    db = bank.store.ledger.db.handle
    db.set_commit_hook(lambda: True)
    with pytest.raises(Exception):  # noqa: B017  (whatever SQLite says about it)
        bank.record(a_memory("Lost"))
    db.set_commit_hook(None)
    elsewhere = bank.within("/elsewhere").record(a_memory("Elsewhere"))
    mine = bank.record(a_memory("Mine"))
    assert [m.id for m in bank.memories()] == [mine.id]
    assert [m.id for m in bank.within("/elsewhere").memories()] == [elsewhere.id]
    assert bank.get(mine.id) == mine


def test_what_was_counted_on_a_full_disk_is_stored_once_there_is_room(small_disk: Path) -> None:
    path = small_disk / "bank.db"
    ballast = small_disk / "ballast"
    with open_bank(path) as bank:
        bank.record(a_memory())
        bank.embed_new()
        bank.store.ledger.scrub()  # What is to be written next needs room.
        fill_up(ballast)
        bank.search("zebra")
        bank.search("wait for the port")
        with pytest.raises(StorageFull):
            bank.store.flush()
        assert bank.statistics().searches.answered == 2
        ballast.unlink()
        assert bank.statistics().searches.answered == 2
    with open_bank(path) as bank:
        assert bank.statistics().searches.answered == 2


@requirement("DIS-2")
def test_a_disk_that_fills_while_a_session_is_learned_from_loses_and_doubles_nothing(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "bank.db", small_disk / "ballast"
    lessons = [{"title": f"Lesson {n}", "description": "When full", "content": chr(97 + n) * 1400,
                "tags": [], "first_step": 1, "last_step": 1} for n in range(3)]  # fmt: skip
    model = Scripted(lambda _: {"memories": lessons})
    with open_bank(path) as bank:
        job = bank.distil(Trace(task="fill the disk", outcome=Outcome.SUCCESS))
        bank.store.ledger.scrub()

        async def learn() -> int:
            worker = Worker(bank.context, tasks(model), slots=1, max_attempts=100)
            work = worker._tasks["distil"]

            async def filling(task: Work) -> Effects:
                effects = await work(task)
                fill_up(ballast)
                return effects

            worker._tasks = {"distil": filling}
            return await worker.run(until_empty=True)

        assert anyio.run(learn) == 0
        assert bank.memories() == [] and bank.trace(job.subject).memories_learned == ()
        ballast.unlink()
        later = bank.store.clock() + 2 * LONGEST_PAUSE
        bank.store.clock = lambda: later
        worker = Worker(bank.context, tasks(model), slots=1, max_attempts=100)
        assert anyio.run(lambda: worker.run(until_empty=True)) == 1
        assert len(bank.memories()) == len(bank.trace(job.subject).memories_learned) == 3
    assert len(model.calls) == 1, "what was paid for is kept"


READING = (
    ["export", "-"], ["export", "-", "--format", "markdown"], ["list"], ["search", "number"],
    ["stats"], ["audit"],
)  # fmt: skip


def command(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"REASONBANK_URL": f"sqlite:///{path}", "REASONBANK_EMBED_MODEL": "hashed"}
    return subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "--workspace", "/project", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def check_all_can_be_read(path: Path, stored: list[Memory], outside: Path) -> None:
    """By commands, each in a process of its own, and into a file on another disk."""
    for arguments in (*READING, ["show", stored[0].id], ["export", str(outside)]):
        done = command(path, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    with open_bank(outside.with_name("copy.db")) as copy:
        copy.import_(io.StringIO(outside.read_text()), trusted=True)
        assert {m.id for m in copy.memories(limit=2000)} == {m.id for m in stored}


@requirement("MEM-10")
def test_a_bank_on_a_full_disk_is_exported_with_what_waits_to_be_written(small_disk: Path) -> None:
    with open_bank(small_disk / "bank.db") as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(5)]
        bank.store.ledger.scrub()
        fill_up(small_disk / "ballast")
        bank.search("number")
        for form in ("jsonl", "markdown"):
            file = io.StringIO()
            assert bank.export(file, format=form) >= len(stored)
            assert stored[-1].title in file.getvalue()


@requirement("MEM-10")
def test_commands_read_a_bank_on_a_disk_without_a_byte_left(
    small_disk: Path, tmp_path: Path
) -> None:
    path, ballast = small_disk / "bank.db", small_disk / "ballast"
    with open_bank(path) as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(20)]
    fill_up(ballast)
    check_all_can_be_read(path, stored, tmp_path / "out.jsonl")
    refused = command(path, "feedback", stored[0].id, "--helpful")
    assert refused.returncode == 5 and "no room left" in refused.stderr
    ballast.unlink()
    assert command(path, "feedback", stored[0].id, "--helpful").returncode == 0


def test_commands_read_what_a_killed_process_left_in_the_log_of_a_full_disk(
    small_disk: Path, tmp_path: Path
) -> None:
    path, ballast = small_disk / "bank.db", small_disk / "ballast"
    with open_bank(tmp_path / "whole" / "bank.db") as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(20)]
        for end in ("", "-wal"):  # As a process that is killed leaves them.
            data = subprocess.check_output(["cat", f"{bank.store.ledger.path}{end}"])
            path.with_name(path.name + end).write_bytes(data)
    assert path.with_name("bank.db-wal").stat().st_size
    fill_up(ballast)
    check_all_can_be_read(path, stored, tmp_path / "out.jsonl")


def test_commands_read_a_bank_that_others_use_on_a_full_disk(
    small_disk: Path, tmp_path: Path
) -> None:
    path = small_disk / "bank.db"
    with open_bank(path) as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(20)]
        fill_up(small_disk / "ballast")
        check_all_can_be_read(path, stored, tmp_path / "out.jsonl")


def test_commands_read_a_bank_on_a_read_only_file_system(small_disk: Path, tmp_path: Path) -> None:
    path = small_disk / "bank.db"
    with open_bank(path) as bank:
        stored = [bank.record(a_memory(f"Number {i}")) for i in range(20)]
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    check_all_can_be_read(path, stored, tmp_path / "out.jsonl")
    refused = command(path, "feedback", stored[0].id, "--helpful")
    assert refused.returncode == 5 and "not writable" in refused.stderr


def test_a_reader_on_a_full_disk_sees_what_others_write_once_there_is_room(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "bank.db", small_disk / "ballast"
    with open_bank(path) as bank:
        bank.record(a_memory("First"))
    fill_up(ballast)
    with open_bank(path, read_only=True) as reader:
        assert [m.title for m in reader.memories()] == ["First"]
        ballast.unlink()
        with open_bank(path) as bank:
            bank.record(a_memory("Second"))
            assert {m.title for m in reader.memories()} == {"First", "Second"}
            assert {hit.memory.title for hit in reader.search("Second")} >= {"Second"}

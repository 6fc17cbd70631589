"""Many processes and threads on one bank: nothing is lost, and no lock reaches a caller."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from fault_tools import (
    a_memory,
    exported,
    imported,
    log_length,
    open_bank,
    processes,
    projections,
    unlike_its_log,
)
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput, Refused, StorageError
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.model import Scope

PROCESSES = 8
EACH = 12


def work_together(path: Path, start: Any, pipe: Any, number: int) -> None:
    """Open when all are ready; record, rate, find, change and forget side by side."""
    try:
        start.wait(60)
        with open_bank(path) as bank:
            ids = []
            for i in range(EACH):
                memory = bank.record(a_memory(f"Process {number} memory {i}"))
                bank.feedback(memory.id, helpful=True)
                ids.append(memory.id)
            found = bank.search(f"Process {number} memory 0", limit=100)
            assert ids[0] in {hit.memory.id for hit in found}, "did not find its own memory"
            bank.update(ids[1], title=f"Changed by {number}")
            bank.archive(ids[2])
            bank.forget(ids[3])
            pipe.send((bank.store.ledger.bank_id, ids, None))
    except BaseException as error:
        pipe.send(("", [], repr(error)))
        raise


@requirement("MEM-9")
@pytest.mark.parametrize("new", [True, False], ids=["a new bank", "a bank that is there"])
def test_eight_processes_share_a_bank_without_losing_or_failing(path: Path, new: bool) -> None:
    if not new:
        with open_bank(path) as bank:
            bank.record(a_memory("The first"))
    start = processes.Barrier(PROCESSES)
    pipes, started = [], []
    for number in range(PROCESSES):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(
            target=work_together, args=(path, start, theirs, number), daemon=True
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        started.append(process)
    told = [pipe.recv() if pipe.poll(90) else ("", [], "no answer") for pipe in pipes]
    for process in started:
        process.join(60)
    assert [error for _, _, error in told if error] == []
    assert len({bank_id for bank_id, _, _ in told}) == 1
    with open_bank(path) as bank:
        assert bank.store.ledger.check() == []
        for number, (_, ids, _) in enumerate(told):
            assert bank.get(ids[0]).confidence > 0.8
            assert bank.get(ids[1]).title == f"Changed by {number}"
            assert bank.get(ids[2]).state == "archived"
            for id in ids[4:]:
                assert len(bank.evidence(id)) >= 1
        assert bank.statistics().memories == PROCESSES * (EACH - 1) + (not new)
    assert unlike_its_log(path) == {}


def open_and_tell(path: Path, start: Any, pipe: Any) -> None:
    start.wait(60)
    try:
        with open_bank(path) as bank:
            pipe.send(bank.store.ledger.bank_id)
    except BaseException as error:
        pipe.send(repr(error))
        raise


@requirement("MEM-9")
def test_two_processes_that_make_a_bank_at_once_make_one(memory_disk: Path) -> None:
    for round in range(15):
        path = memory_disk / str(round) / "bank.db"
        start = processes.Barrier(2)
        pipes, started = [], []
        for _ in range(2):
            ours, theirs = processes.Pipe(duplex=False)
            process = processes.Process(
                target=open_and_tell, args=(path, start, theirs), daemon=True
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            started.append(process)
        told = {pipe.recv() for pipe in pipes}
        for process in started:
            process.join(60)
        assert len(told) == 1 and "Error" not in next(iter(told))


def test_eight_threads_record_and_search_at_once(bank: Bank) -> None:
    def work(number: int) -> list[str]:
        ids = []
        for i in range(20):
            memory = bank.record(a_memory(f"Thread {number} memory {i}"))
            ids.append(memory.id)
            if i % 5 == 0:
                found = bank.search(f"Thread {number} memory {i}", limit=100)
                assert memory.id in {hit.memory.id for hit in found}
                bank.feedback(memory.id, helpful=True)
        return ids

    with ThreadPoolExecutor(8) as pool:
        ids = [id for part in pool.map(work, range(8)) for id in part]
    assert len(set(ids)) == 160
    assert {bank.get(id).id for id in ids} == set(ids)
    before = projections(bank)
    bank.rebuild()
    assert projections(bank)["memories"] == before["memories"]


class Group:
    """Holds the turn until all jobs are in the queue, so that one commit takes them all."""

    def __init__(self, ledger: SQLiteLedger) -> None:
        self.ledger = ledger

    def run(self, calls: list[Any]) -> list[Any]:
        results: list[Any] = [None] * len(calls)

        def call(number: int) -> None:
            try:
                results[number] = calls[number]()
            except BaseException as error:  # noqa: BLE001
                results[number] = error

        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(calls))]
        with self.ledger.commits.turn:
            for thread in threads:
                thread.start()
            while len(self.ledger.commits.waiting) < len(calls):
                threading.Event().wait(0.001)
        for thread in threads:
            thread.join(60)
        return results


def test_one_failure_leaves_the_others_of_its_group_alone(bank: Bank) -> None:
    there = bank.record(a_memory("There already"))
    new = [a_memory(f"New {i}") for i in range(6)]
    calls = [lambda m=m: bank.record(m) for m in new]
    calls.insert(3, lambda: bank.record(a_memory(id=there.id)))
    results = Group(bank.store.ledger).run(calls)
    assert isinstance(results.pop(3), Refused)
    assert [bank.get(m.id).title for m in new] == [r.title for r in results]


def test_an_error_of_sqlite_in_one_job_leaves_the_others_alone(bank: Bank) -> None:
    def broken(txn: Any) -> None:
        txn.db.execute("insert into realms (key) values (null)")

    new = [a_memory(f"New {i}") for i in range(4)]
    calls: list[Any] = [lambda m=m: bank.record(m) for m in new]
    calls.insert(2, lambda: bank.store.ledger.write(broken))
    results = Group(bank.store.ledger).run(calls)
    assert isinstance(results[2], Exception)
    assert {m.title for m in bank.memories()} == {m.title for m in new}


def test_an_interrupted_thread_does_not_interrupt_the_others_of_its_group(bank: Bank) -> None:
    times = iter([KeyboardInterrupt])

    def interrupted(txn: Any) -> None:
        for error in times:
            raise error

    ledger = bank.store.ledger
    new = [a_memory(f"New {i}") for i in range(4)]
    calls: list[Any] = [lambda m=m: bank.record(m) for m in new]
    calls.insert(2, lambda: ledger.write(interrupted))
    results = Group(ledger).run(calls)
    titles = {m.title for m in bank.memories()}
    for title, result in zip([m.title for m in new], results[:2] + results[3:], strict=True):
        # The signal reaches whoever holds the turn; nobody is told a thing that is not so.
        assert (title in titles) == (not isinstance(result, BaseException))
    assert sum(isinstance(result, KeyboardInterrupt) for result in results) == 1


def test_more_waiting_threads_than_one_commit_takes_are_all_served(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasonbank.ledger.commits.BATCH", 4)
    new = [a_memory(f"New {i}") for i in range(40)]
    results = Group(bank.store.ledger).run([lambda m=m: bank.record(m) for m in new])
    assert [r.id for r in results] == [m.id for m in new]
    assert bank.statistics().memories == 40


def test_a_partition_that_another_process_made_is_found(path: Path) -> None:
    with open_bank(path) as one, open_bank(path) as two:
        one.record(a_memory("One"))
        one.maintain()  # Looks for team and org memories: there are none yet.
        two.record(a_memory("Two", scope=Scope.TEAM))
        one.record(a_memory("Three", scope=Scope.TEAM))
        assert {m.title for m in two.memories()} == {"One", "Two", "Three"}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files through /proc")
def test_a_thread_that_ends_leaves_no_open_file(bank: Bank) -> None:
    id = bank.record(a_memory()).id

    def look() -> None:
        bank.get(id)

    def in_a_thread() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    in_a_thread()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        in_a_thread()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_new_thread_sees_what_was_recorded_since_the_last_one(bank: Bank) -> None:
    """Threads are numbered anew when others end; the index must still be brought up to date."""
    for number in range(12):
        memory = bank.record(a_memory(f"Numbered {number}"))
        parts: list[Any] = []

        def look(number: int = number, id: str = memory.id, parts: list[Any] = parts) -> None:
            found = bank.search(f"Numbered {number}", limit=50, explain=True)
            parts.extend(hit.parts for hit in found if hit.memory.id == id)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert parts and "cosine" in parts[0], f"thread {number} searched an old index"


def test_a_closed_bank_says_so(path: Path) -> None:
    bank = open_bank(path)
    id = bank.record(a_memory()).id
    bank.close()
    bank.close()
    for call in (lambda: bank.record(a_memory()), lambda: bank.get(id), lambda: bank.search("x")):
        with pytest.raises(StorageError, match="closed"):
            call()


def test_the_same_id_in_another_workspace_is_refused_not_swallowed(bank: Bank) -> None:
    memory = bank.record(a_memory())
    elsewhere = bank.within("/elsewhere")
    before = log_length(bank)
    with pytest.raises((Refused, InvalidInput)):
        elsewhere.record(a_memory("Mine", id=memory.id))
    assert log_length(bank) == before
    assert bank.get(memory.id) == memory


def test_a_clock_that_goes_back_does_not_reorder_the_past(path: Path, memory_disk: Path) -> None:
    now = 2_000_000_000_000_000
    with open_bank(path, clock=lambda: now) as bank:
        with open_bank(memory_disk / "old.db", clock=lambda: now - 10**12) as old:
            old.record(a_memory("Old"))
            before = exported(old)
        id = bank.record(a_memory()).id
        bank.update(id, content="Second")
        imported(bank, before)
        now -= 10**9
        bank.update(id, content="Third")
        assert bank.get(id).content == "Third"
        imported(bank, before)
        bank.update(id, content="Fourth")
        assert [r.memory.content for r in bank.history(id)][1:] == ["Second", "Third", "Fourth"]


@requirement("MEM-9")
def test_a_bank_that_another_program_keeps_locked_says_so_and_recovers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasonbank.ledger.sqlite.connection.BUSY_SECONDS", 0.2)
    with open_bank(path) as bank:
        memory = bank.record(a_memory())
        other = apsw.Connection(str(path))
        other.execute("begin immediate")
        with pytest.raises(StorageError, match="locked"):
            bank.record(a_memory("Too late"))
        assert bank.get(memory.id) == memory
        other.execute("rollback")
        bank.record(a_memory("In time"))
        assert {m.title for m in bank.memories()} == {memory.title, "In time"}

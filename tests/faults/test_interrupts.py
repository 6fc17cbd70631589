"""Control-C at any step of a write hurts nobody but the caller who is told of it."""

from __future__ import annotations

import collections
import contextlib
import dis
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fault_tools import a_memory, log_length, open_bank
from tests.requirement import requirement

from reasonbank import flag
from reasonbank.bank import Bank
from reasonbank.ledger import commits
from reasonbank.ledger.sqlite import SQLiteLedger

OTHERS = 3


def put(name: str) -> Any:
    return lambda txn: txn.db.execute("insert into told values (?)", (name,))


@pytest.fixture
def ledger(bank: Bank) -> SQLiteLedger:
    ledger = bank.store.ledger
    assert isinstance(ledger, SQLiteLedger)
    ledger.write(lambda txn: txn.db.execute("create table told (name)"))
    return ledger


def told(ledger: SQLiteLedger) -> collections.Counter[str]:
    return collections.Counter(name for (name,) in ledger.read().db.all("select name from told"))


class Interrupt:
    """Raises KeyboardInterrupt before the given step of the code that a caller runs."""

    def __init__(self, step: int) -> None:
        self.left = step
        self.happened = False

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in (commits.__file__, flag.__file__):
            return None
        frame.f_trace_opcodes = True
        # Python looks for signals after calls and jumps, never between a value and its return.
        returns = frame.f_code.co_code[frame.f_lasti] == dis.opmap["RETURN_VALUE"]
        if event == "opcode" and not returns:
            self.left -= 1
            if self.left == 0:
                self.happened = True
                raise KeyboardInterrupt
        return self


def write_together(ledger: SQLiteLedger, step: int) -> tuple[bool, BaseException | None]:
    """Four jobs in one group; the main thread, which hands in the first, is interrupted."""
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            ledger.write(put(f"{step} of thread {number}"))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(OTHERS)]
    left = threading.Event()

    def hold() -> None:
        with ledger.commits.turn:
            held.set()
            while len(ledger.commits.waiting) < 1 and not left.is_set():
                left.wait(0.0005)
            for thread in threads:
                thread.start()
            while len(ledger.commits.waiting) < OTHERS:
                left.wait(0.0005)

    held = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    interrupt, mine = Interrupt(step), None
    traced = sys.gettrace()
    sys.settrace(interrupt)
    try:
        ledger.commits.run(put(f"{step} of main"))
    except KeyboardInterrupt as error:
        mine = error
    finally:
        sys.settrace(traced)
        left.set()
    for thread in (holder, *threads):
        thread.join(30)
        assert not thread.is_alive(), f"somebody waits for ever after step {step}"
    assert errors == [], f"step {step} hurt somebody else"
    return interrupt.happened, mine


@requirement("MEM-8")
def test_control_c_at_any_step_leaves_each_work_done_once_or_not_at_all(
    ledger: SQLiteLedger,
) -> None:
    step, outcomes = 0, set()
    while True:
        step += 1
        happened, error = write_together(ledger, step)
        if not happened:
            break
        assert error is not None
        here = told(ledger)
        assert [here[f"{step} of thread {n}"] for n in range(OTHERS)] == [1] * OTHERS
        stored = here[f"{step} of main"]
        assert stored == getattr(error, "stored", False), f"step {step} says what is not so"
        outcomes.add(stored)
    assert told(ledger)[f"{step} of main"] == 1
    assert step > 50 and outcomes == {0, 1}, "it was interrupted before and after the commit"


def test_control_c_takes_back_what_is_still_waiting(ledger: SQLiteLedger) -> None:
    with ledger.commits.turn:
        step = 0
        while not told(ledger) and step < 40:
            step += 1
            sys.settrace(Interrupt(step))
            try:
                with pytest.raises(KeyboardInterrupt):
                    ledger.commits.run(put("main"))
            finally:
                sys.settrace(None)
    ledger.write(put("after"))
    assert told(ledger) == {"after": 1}


def test_control_c_ends_a_long_work_at_its_next_statement_and_spares_the_others(
    ledger: SQLiteLedger,
) -> None:
    """As an import that takes minutes: nothing of it is stored, and nobody waits for its end."""
    statements = []

    def long(txn: Any) -> None:
        for number in range(100_000):
            txn.db.execute("insert into told values (?)", (f"long {number}",))
            statements.append(number)
            if number == 10:
                running.set()
                assert interrupted.wait(30)

    running, interrupted = threading.Event(), threading.Event()
    job = commits.Job(long)
    ledger.commits.waiting.append(job)
    other = threading.Thread(target=ledger.write, args=(put("other"),))
    other.start()
    assert running.wait(30)
    job.cancelled = True
    interrupted.set()
    job.wait()
    other.join(30)
    assert isinstance(job.error, KeyboardInterrupt) and len(statements) == 11
    assert told(ledger) == {"other": 1}


def test_a_flag_that_was_being_set_when_control_c_came_still_works() -> None:
    step, interrupt = 0, Interrupt(0)
    while step == 0 or interrupt.happened:
        step += 1
        news, interrupt = flag.Flag(), Interrupt(step)
        sys.settrace(interrupt)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                news.set()
        finally:
            sys.settrace(None)
        news.set()
        assert news.is_set() and news.taken(0) and not news.taken(0) and not news.is_set()
        news.clear()
        assert not news.is_set()
    assert step > 5


def test_uses_that_were_stored_before_control_c_are_not_stored_again(bank: Bank) -> None:
    """What searches found waits to be written with the next commit, whoever makes it."""
    memory = bank.record(a_memory())
    bank.search(memory.title, session="task")
    write = bank.store.ledger.commits.run

    def run(work: Any) -> Any:
        write(work)
        error = KeyboardInterrupt()
        error.stored = True  # type: ignore[attr-defined]
        raise error

    bank.store.ledger.commits.run = run
    with pytest.raises(KeyboardInterrupt):
        bank.feedback(memory.id, helpful=True)
    bank.store.ledger.commits.run = write
    before = log_length(bank)
    bank.store.flush()
    assert log_length(bank) == before
    assert bank.get(memory.id).usage_count == 1


STORM = """
import json, random, signal, sys, threading, time
sys.path.insert(0, {tools!r})
from fault_tools import a_memory, open_bank
from pathlib import Path

told, interrupts = [], 0
rng = random.Random(7)
with open_bank(Path({path!r})) as bank:
    # Python's own import is not safe from Control-C: what is loaded late is loaded here.
    bank.record(a_memory("The first"))
    bank.embed_new()
    stop = threading.Event()

    def write(number):
        count = 0
        while not stop.is_set():
            title = f"thread {{number}} memory {{count}}"
            bank.record(a_memory(title))
            told.append(title)
            count += 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    attempts = 0
    while interrupts < 200:
        attempts += 1
        title = f"main memory {{attempts}}"
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.random() * 0.01)
            bank.record(a_memory(title))
            told.append(title)
            time.sleep(1)
        except KeyboardInterrupt:
            interrupts += 1
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    there = [m.title for m in bank.memories(limit=1_000_000)]
print(json.dumps([told, there]))
"""


@requirement("MEM-8")
def test_two_hundred_real_signals_lose_and_double_nothing(path: Path) -> None:
    script = STORM.format(tools=str(Path(__file__).parent), path=str(path))
    handler = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
    done = subprocess.run(
        [sys.executable, "-c", handler + script],
        env=os.environ, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, there = json.loads(done.stdout)
    assert len(there) == len(set(there))
    assert set(told) <= set(there)
    assert {title for title in set(there) - set(told) if title[:4] == "thre"} == set()
    with open_bank(path) as bank:
        assert bank.store.ledger.check() == []

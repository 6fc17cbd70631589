"""The log is the truth: every table can be made anew from it, and nothing changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_tools import DAY, a_memory, child, differences, open_bank, projections
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Refused
from reasonbank.model import ErrorContext, LinkType, Outcome, Scope, Step, Trace
from reasonbank.settings import BeliefSettings
from reasonbank.trust.belief import WHOLE


class Clock:
    """Starts 100 days ago, and takes an hour at every look."""

    def __init__(self, start: int = 20_000 * DAY) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += DAY // 24
        return self.now


def lived(bank: Bank, rng: random.Random, steps: int = 120) -> None:
    """A random history that uses everything a bank can do."""
    alive: list[str] = []
    elsewhere = Bank(bank.within("/other").context.seen_by(whole=True))
    for number in range(steps):
        one, two = (rng.choice(alive), rng.choice(alive)) if alive else ("", "")
        session = rng.choice([None, "s1", "s2", "s3"])
        match rng.randrange(15) if len(alive) > 3 else 0:
            case 0 | 1 | 2:
                memory = a_memory(
                    f"Lesson {number} {rng.choice('abc')}",
                    tags=tuple(rng.sample(["x", "y", "z"], 2)),
                    parents=(one,) if one and rng.random() < 0.4 else (),
                    scope=rng.choice(list(Scope)),
                    outcome=rng.choice(list(Outcome)),
                    domain=rng.choice([None, "sql"]),
                    error_context=ErrorContext(
                        error_type="TimeoutError",
                        failure_pattern="sleep(1)",
                        corrective_guidance="poll",
                    )
                    if rng.random() < 0.3
                    else None,
                )
                alive.append(bank.record(memory).id)
            case 3:
                bank.update(one, content=f"Changed at {number}", tags=("x", f"t{number}"))
            case 4:
                bank.archive(one)
            case 5:
                bank.restore(one)
            case 6:
                try:
                    bank.undo(one, to=rng.choice([None, 1]))
                except Refused:
                    pass
            case 7:
                bank.feedback(one, helpful=rng.random() < 0.5, session=session, comment="so")
            case 8:
                bank.outcome(one, succeeded=rng.random() < 0.5, session=session)
            case 9:
                bank.search(f"Lesson {number}", session=session)
            case 10 if one != two:
                bank.link(one, two, type=rng.choice(list(LinkType)), strength=rng.random())
            case 11:
                step = Step(iteration=1, action="think", content=f"I used {bank.get(one).title}")
                bank.store_trace(
                    Trace(task="t", outcome=Outcome.MIXED, trajectory=(step,), memories_used=(one,))
                )
            case 12:
                bank.forget(one)
                alive.remove(one)
            case 13:
                shared = [m.id for m in elsewhere.memories() if m.workspace == bank.view.workspace]
                if shared:
                    elsewhere.update(shared[0], content=f"Changed from elsewhere at {number}")
                    elsewhere.outcome(shared[-1], succeeded=True, session=session)
                if len(shared) > 1:
                    elsewhere.link(shared[0], shared[1], type=LinkType.SIMILAR)
            case 14:
                elsewhere.record(a_memory(f"Elsewhere {number}"))
                if rng.random() < 0.2:
                    bank.delete_workspace(elsewhere.view.workspace, confirm=True)
    bank.name_workspace(bank.view.workspace, "home")
    bank.purge_traces(older_than_days=1)


@pytest.mark.parametrize("seed", range(6))
def test_tables_made_anew_from_the_log_are_the_same(path: Path, seed: int) -> None:
    with open_bank(path, clock=Clock()) as bank:
        lived(bank, random.Random(seed))
        bank.store.flush()
        before = projections(bank)
        assert before["words"] and before["memories"] and not before["orphans"]
        bank.rebuild()
        assert differences(before, projections(bank)) == {}


def test_a_rebuild_after_a_roll_up_counts_the_same_evidence(path: Path) -> None:
    with open_bank(path, clock=(clock := Clock())) as bank:
        lived(bank, random.Random(7))
        clock.now += 60 * DAY
        bank.maintain()
        before = projections(bank)
        bank.rebuild()
        after = projections(bank)
        assert before["tallies"] == after["tallies"]
        assert differences(before, after) == {}


@pytest.mark.parametrize("seed", range(4))
def test_verifying_a_bank_that_was_lived_in_gives_no_false_alarm(path: Path, seed: int) -> None:
    with open_bank(path, clock=(clock := Clock())) as bank:
        lived(bank, random.Random(seed))
        assert bank.verify().faults == ()
        clock.now += 60 * DAY
        bank.maintain()
        bank.credit("s1", succeeded=True)
        batch = bank.revert(session="s2").batch
        assert batch is not None and bank.verify().faults == ()
        bank.undo_batch(batch)
        assert bank.verify().faults == ()


def test_a_rebuild_keeps_workspaces_apart_in_a_bank_that_was_open_meanwhile(path: Path) -> None:
    with open_bank(path, "/gone") as gone, open_bank(path, "/kept") as kept:
        gone.record(a_memory("Gone"))
        secret = kept.record(a_memory("Kept"))
        assert [m.title for m in gone.memories()] == ["Gone"]
        assert [m.title for m in kept.memories()] == ["Kept"]
        gone.delete_workspace(gone.view.workspace, confirm=True)
        kept.rebuild()
        assert gone.memories() == []
        assert [m.id for m in kept.memories()] == [secret.id]


@requirement("WSP-4")
def test_a_deleted_workspace_leaves_what_it_did_to_the_memories_of_others(bank: Bank) -> None:
    one, two = (bank.record(a_memory(f"Shared {n}", scope=Scope.TEAM)) for n in range(2))
    elsewhere = Bank(bank.within("/elsewhere").context.seen_by(whole=True))
    elsewhere.record(a_memory("Its own"))
    elsewhere.update(one.id, content="Better")
    elsewhere.link(one.id, two.id, type=LinkType.SIMILAR)
    elsewhere.feedback(one.id, helpful=False)
    bank.delete_workspace(elsewhere.view.workspace, confirm=True)
    before = projections(bank)
    bank.rebuild()
    assert differences(before, projections(bank)) == {}
    assert [r.memory.content for r in bank.history(one.id)][1:] == ["Better"]
    assert bank.undo(one.id).content == one.content
    assert len(bank.links(one.id)) == 1
    assert bank.get(one.id).confidence == one.confidence


def test_search_works_right_after_a_rebuild(bank: Bank) -> None:
    memory = bank.record(a_memory("Zebra crossing"))
    bank.search("zebra")
    bank.rebuild()
    assert [hit.memory.id for hit in bank.search("zebra crossing")] == [memory.id]


def rated(bank: Bank, clock: Clock, count: int) -> list[str]:
    ids = [bank.record(a_memory(f"Rated {i}")).id for i in range(3)]
    for number in range(count):
        bank.feedback(ids[number % 3], helpful=number % 4 != 0, session=f"s{number}")
        bank.outcome(ids[number % 3], succeeded=number % 5 != 0, session=f"s{number}")
    clock.now += 31 * DAY
    return ids


def exact(bank: Bank, ids: list[str]) -> list[float]:
    reading = bank.store.ledger.read()
    return [bank.context.confidence(reading, reading.row(bank.view, id)) for id in ids]


@requirement("CON-6")
def test_a_roll_up_changes_no_confidence_and_a_second_one_changes_nothing(path: Path) -> None:
    clock = Clock()
    with open_bank(path, clock=clock) as bank:
        ids = rated(bank, clock, 40)
        clock.now = clock.now // DAY * DAY  # The same day before and after.
        before, counted = exact(bank, ids), projections(bank)["tallies"]
        assert bank.maintain().rolled_up == 80
        assert exact(bank, ids) == pytest.approx(before, abs=1e-9)
        assert projections(bank)["tallies"] == counted
        rolled = projections(bank)
        assert bank.maintain().rolled_up == 0
        assert differences(rolled, projections(bank)) == {}


def roll_up_a_little(path: Path, before: int, batches: int) -> None:
    import os

    from reasonbank.ledger.sqlite import SQLiteLedger

    ledger = SQLiteLedger(path)
    for _ in range(batches):
        ledger.write(lambda txn: txn.roll_up(before, 7))

    def die(txn: object) -> None:
        txn.roll_up(before, 7)  # type: ignore[attr-defined]
        os._exit(9)

    ledger.write(die)


@requirement("CON-6")
def test_a_roll_up_that_is_killed_half_way_counts_nothing_twice(path: Path) -> None:
    clock = Clock()
    with open_bank(path, clock=clock) as bank:
        ids = rated(bank, clock, 30)
        before, counted = exact(bank, ids), projections(bank)["tallies"]
    for batches in range(8):
        with child(roll_up_a_little, path, clock.now, batches % 2) as process:
            process.join(30)
            assert process.exitcode == 9
        with open_bank(path, clock=clock) as bank:
            assert projections(bank)["tallies"] == counted
            assert exact(bank, ids) == pytest.approx(before, abs=0.01)
    with open_bank(path, clock=clock) as bank:
        assert bank.maintain().rolled_up == 60 - 4 * 7
        assert projections(bank)["tallies"] == counted


@requirement("CON-11")
def test_evidence_told_twice_in_a_session_counts_once_also_after_the_roll_up(path: Path) -> None:
    clock = Clock()
    with open_bank(path, clock=clock) as bank:
        id = bank.record(a_memory()).id

        def tell() -> None:
            bank.feedback(id, helpful=True, session="s")
            bank.outcome(id, succeeded=False, session="s")
            bank.stability(id, kept=True, session="s")

        tell()
        once, events = projections(bank), bank.statistics().events
        tell()
        assert differences(once, projections(bank)) == {}
        clock.now += 31 * DAY
        bank.maintain()
        rolled = projections(bank)
        tell()
        assert differences(rolled, projections(bank)) == {}
        assert bank.statistics().events == events


@requirement("CON-11")
def test_a_changed_mind_replaces_the_rolled_up_rating(path: Path) -> None:
    clock = Clock()
    with open_bank(path, clock=clock) as bank:
        id = bank.record(a_memory()).id
        bank.feedback(id, helpful=True, session="s")
        clock.now += 31 * DAY
        bank.maintain()
        bank.feedback(id, helpful=False, session="s")
        assert [(row[2], row[4]) for row in projections(bank)["tallies"]] == [(0, WHOLE)]
        bank.rebuild()
        assert [(row[2], row[4]) for row in projections(bank)["tallies"]] == [(0, WHOLE)]


def test_another_half_life_folds_all_beliefs_anew(path: Path) -> None:
    from dataclasses import replace

    from fault_tools import HASHED

    slow = replace(HASHED, belief=BeliefSettings(half_life_days=360.0))
    clock = Clock()
    with open_bank(path, clock=clock) as bank:
        ids = rated(bank, clock, 9)
    with open_bank(path, clock=clock, settings=slow) as bank:
        other = projections(bank)["memories"]
        bank.rebuild()
        assert projections(bank)["memories"] == other
        assert len(ids) == 3

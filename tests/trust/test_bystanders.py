"""Where only a task's outcome is told, what it was given takes it between them, and no more."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from tests.conftest import Clock, Opener
from tests.engines.older import AFTER_TWELVE
from tests.requirement import requirement

from reasonbank import Bank, Kind, Settings
from reasonbank.ledger.events import Event
from reasonbank.ledger.port import PACKED_EVIDENCE
from reasonbank.settings import BeliefSettings, Embed, Search
from reasonbank.testing.builders import a_memory
from reasonbank.trust import belief

PLAIN = Settings(embed=Embed(model="hashed"), search=Search(threshold=0.0))
QUESTION = "retry uploads"


def three(bank: Bank) -> list[str]:
    """Memories that read alike."""
    return [bank.record(a_memory(title=f"Retry uploads, way {way}")).id for way in "abc"]


def given(bank: Bank, session: str) -> list[str]:
    return [hit.memory.id for hit in bank.search(QUESTION, session=session, limit=10)]


def blame(bank: Bank, id: str) -> float:
    """What speaks against a memory beyond what it was recorded with."""
    reading = bank.context.read()
    row = reading.row(bank.view, id)
    assert row is not None
    return bank.context.trust(reading).belief(row).beta - belief.prior(0.8)[1]


def standings(bank: Bank) -> dict[str, tuple[float, ...]]:
    """To the last bit."""
    reading = bank.context.read()
    rows = [reading.row(bank.view, memory.id) for memory in bank.memories()]
    return {row.id: (*row.masses, *row.track_record, row.newest_day) for row in rows if row}


def confidences(bank: Bank) -> dict[str, float | None]:
    return {memory.id: memory.confidence for memory in bank.memories()}


@requirement("CON-2")
def test_three_that_were_given_lose_between_them_what_one_loses_that_is_told_of(
    open_bank: Opener,
) -> None:
    bank = open_bank(settings=PLAIN)
    three(bank)
    shown = given(bank, "task")
    assert bank.credit("task", succeeded=False) == len(shown) == 3
    shared = [blame(bank, id) for id in shown]
    lost = [0.8 - (bank.get(id).confidence or 0.0) for id in shown]

    bank.outcome(shown[2], succeeded=False, session="task")
    in_full = blame(bank, shown[2])
    assert sum(shared) == pytest.approx(in_full, rel=0.002)
    assert [part / in_full for part in shared] == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.001)
    assert sum(lost) == pytest.approx(0.8 - (bank.get(shown[2]).confidence or 0.0), rel=0.1)


@requirement("CON-2")
@pytest.mark.parametrize("model", ["contextual", "bayesian", "additive", "safla"])
@pytest.mark.parametrize("succeeded", [True, False])
def test_told_of_the_memory_itself_an_outcome_says_more_than_a_share_of_it(
    open_bank: Opener, model: str, succeeded: bool
) -> None:
    bank = open_bank(settings=replace(PLAIN, belief=BeliefSettings(model=model)))
    three(bank)
    shown = given(bank, "task")
    before = bank.get(shown[2]).confidence or 0.0
    bank.credit("task", succeeded=succeeded)
    shared = bank.get(shown[2]).confidence or 0.0
    bank.outcome(shown[2], succeeded=succeeded, session="task")
    in_full = bank.get(shown[2]).confidence or 0.0
    if succeeded:
        assert in_full > shared > before
    else:
        assert in_full < shared < before


def test_whole_tasks_are_what_people_are_told(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    three(bank)
    for number, succeeded in enumerate((True, True, False)):
        given(bank, f"task {number}")
        bank.credit(f"task {number}", succeeded=succeeded)
    advice = bank.recommend(QUESTION)
    assert advice.successful_uses == 2
    assert "2 of 3 tasks that used it succeeded" in advice.reasoning
    assert (advice.tried, advice.worked) == (3, 2)
    assert type(advice.successful_uses) is int


def lived(bank: Bank, clock: Clock) -> None:
    """Tasks that were told as a whole, of one memory, both, and corrected."""
    ids = three(bank)
    for number in range(6):
        session = f"task {number}"
        given(bank, session)
        bank.credit(session, succeeded=number % 2 == 0)
        clock.advance(days=1)
    bank.search(QUESTION, session="task 1", limit=1)
    bank.outcome(ids[1], succeeded=True, session="task 3")
    bank.feedback(ids[0], helpful=True, session="task 4")
    bank.credit("task 4", succeeded=False)
    bank.credit("unseen", succeeded=False)
    given(bank, "unseen")
    bank.store.flush()


def lines_of(bank: Bank) -> list[str]:
    file = io.StringIO()
    bank.export(file)
    return file.getvalue().splitlines()


@requirement("CON-5")
@requirement("CON-6")
@pytest.mark.parametrize("seed", range(6))
def test_neither_order_of_arrival_nor_roll_up_nor_rebuild_changes_a_bit(
    open_bank: Opener, clock: Clock, seed: int
) -> None:
    bank = open_bank(settings=PLAIN)
    lived(bank, clock)
    expected = standings(bank)
    assert any(mass % 1 for mass in (sum(each[:8]) for each in expected.values()))

    copy = open_bank("copy", settings=PLAIN)
    events = [Event.from_json(json.loads(line)) for line in lines_of(bank)[1:-1]]
    rng = random.Random(seed)
    rng.shuffle(events)
    for event in events:
        copy.store.ledger.write(lambda txn, event=event: txn.take([event]))
        if rng.random() < 0.5:
            copy.store.ledger.write(lambda txn: txn.roll_up(clock.now + 1, 100))
    assert standings(copy) == expected

    clock.advance(days=40)
    today = confidences(bank)
    assert bank.maintain().rolled_up > 0
    assert (standings(bank), confidences(bank)) == (expected, today)
    bank.rebuild()
    assert (standings(bank), confidences(bank)) == (expected, today)
    assert confidences(copy) == today


@requirement("MEM-8")
def test_a_bank_that_counted_every_outcome_in_full_is_weighed_anew(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank(settings=PLAIN)
    lived(bank, clock)
    clock.advance(days=40)
    bank.maintain()
    expected, today = standings(bank), confidences(bank)
    bank.close()
    as_it_was_counted_before(open_bank.folder / "bank.db")

    again = open_bank(settings=PLAIN)
    assert (standings(again), confidences(again)) == (expected, today)
    assert again.maintain().rolled_up > 0
    assert (standings(again), confidences(again)) == (expected, today)
    weights = again.statistics().evidence_weights
    again.rebuild()
    assert standings(again) == expected
    assert again.statistics().evidence_weights == weights


def as_it_was_counted_before(path: Path) -> None:
    """All in full, as the eleventh step left it."""
    db = apsw.Connection(str(path))
    db.execute("delete from tally")
    db.execute(
        "insert into tally select num, workspace, kind, positive, at / 86400000000, count(*)"
        " from evidence where rolled = 1 group by 1, 2, 3, 4, 5"
    )
    for num, packed in [*db.execute("select num, standing from memories")]:
        tally = {
            (Kind(kind), bool(positive), day): count * belief.WHOLE
            for kind, positive, day, count in db.execute(
                "select kind, positive, at / 86400000000, count(*) from evidence where num = ?"
                " group by 1, 2, 3",
                (num,),
            )
        }
        numbers = PACKED_EVIDENCE.unpack(packed)
        full = PACKED_EVIDENCE.pack(*belief.masses(tally), *numbers[8:])
        assert full != packed
        db.execute("update memories set standing = ? where num = ?", (full, num))
    for later in AFTER_TWELVE:
        db.execute(later)
    db.pragma("user_version", 11)
    db.close()

"""Trust in context: a memory is believed where it helped, and its author as far as they proved
right."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import Clock, Opener
from tests.requirement import requirement

from reasonbank import Bank, Filter, Settings
from reasonbank.search.estimate import crowded_out, trust_in
from reasonbank.settings import BeliefSettings, Embed, Search
from reasonbank.testing.builders import a_memory

PLAIN = Settings(embed=Embed(model="hashed"), search=Search(threshold=0.0))
BUILD = "the nightly build fails without a commit"
LOGIN = "users are logged out after one minute"


def ways(bank: Bank) -> tuple[str, str]:
    """Two memories that read alike."""
    first = bank.record(a_memory(title="Clear the cache", description="When something fails"))
    second = bank.record(a_memory(title="Pin the versions", description="When something fails"))
    return first.id, second.id


def told(bank: Bank, id: str, question: str, succeeded: bool, session: str) -> None:
    bank.search(question, session=session, limit=10)
    bank.outcome(id, succeeded=succeeded, session=session)


def order(bank: Bank, question: str) -> list[str]:
    return [hit.memory.id for hit in bank.search(question)]


def test_a_memory_leads_where_it_helped_and_not_where_it_failed(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    cache, pin = ways(bank)
    for number in range(4):
        told(bank, cache, BUILD, False, f"build {number}")
        told(bank, pin, BUILD, True, f"build {number}")
        told(bank, cache, LOGIN, True, f"login {number}")
        told(bank, pin, LOGIN, False, f"login {number}")
    assert order(bank, BUILD)[0] == pin
    assert order(bank, LOGIN)[0] == cache
    assert bank.get(cache).confidence == bank.get(pin).confidence


def test_under_the_bayesian_model_all_outcomes_count_alike(open_bank: Opener) -> None:
    bank = open_bank(settings=replace(PLAIN, belief=BeliefSettings(model="bayesian")))
    cache, pin = ways(bank)
    for number in range(4):
        told(bank, cache, BUILD, False, f"build {number}")
        told(bank, cache, LOGIN, True, f"login {number}")
    scores = {hit.memory.id: hit.parts for hit in bank.search(BUILD, explain=True)}
    assert scores[cache]["fit"] == scores[pin]["fit"] == 0.0


def test_one_failure_on_this_very_question_lowers_a_memory_here(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    cache, pin = ways(bank)
    before = {hit.memory.id: hit.expected for hit in bank.search(BUILD)}
    told(bank, order(bank, BUILD)[0], BUILD, False, "one")
    after = {hit.memory.id: hit.expected for hit in bank.search(BUILD, min_confidence=0.0)}
    blamed = min(after, key=lambda id: after[id] or 0.0)
    assert (after[blamed] or 0.0) < (before[blamed] or 0.0)
    assert order(bank, BUILD)[0] != blamed
    assert {cache, pin} == set(after)


@requirement("RET-4")
def test_a_score_is_multiplied_by_the_forecast_as_far_as_anything_speaks(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    cache, _ = ways(bank)

    def told_of_it() -> tuple[float, float, float]:
        """What its score is multiplied by, its confidence and its forecast."""
        hits = bank.search(BUILD, min_confidence=0.0, explain=True)
        hit = next(hit for hit in hits if hit.memory.id == cache)
        by = hit.parts["score"] / hit.parts["composite"] / hit.parts["scope"] / hit.parts["boost"]
        return by, hit.memory.confidence, hit.expected or 0.0

    by, confidence, expected = told_of_it()
    assert by == pytest.approx(confidence, rel=0.01) and expected != pytest.approx(by, rel=0.1)
    for number in range(6):
        told(bank, cache, BUILD, False, f"build {number}")
    by, confidence, expected = told_of_it()
    assert expected < by < expected + 0.25 * (confidence - expected)


def test_an_outcome_fades_half_as_fast_as_a_rating(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=PLAIN)
    cache, _ = ways(bank)
    told(bank, cache, BUILD, True, "one")

    def fit() -> float:
        hits = bank.search(BUILD, min_confidence=0.0, explain=True)
        return next(hit.parts["fit"] for hit in hits if hit.memory.id == cache)

    fresh = fit()
    clock.advance(days=2 * PLAIN.belief.half_life_days)
    # Half of its strength is left, so its doubt is twice as large: 2 / (2 + 2) for 2 / (2 + 1),
    # where it was small; 2 / (2 + 8) for 2 / (2 + 4), where it was large.
    assert 0.6 < fit() / fresh < 0.75


def test_the_order_of_arrival_does_not_matter(open_bank: Opener, clock: Clock) -> None:
    """The outcome of a task may come in before the search that led to it."""
    bank = open_bank(settings=PLAIN)
    cache, pin = ways(bank)
    for number in range(3):
        told(bank, cache, BUILD, number != 1, f"build {number}")
        told(bank, pin, BUILD, False, f"build {number}")
        clock.advance(days=1)
    bank.search(BUILD, session="whole", limit=10)
    bank.credit("whole", succeeded=True)
    told(bank, cache, BUILD, False, "both")
    clock.advance(days=1)
    bank.search(LOGIN, session="both", limit=10)
    bank.credit("both", succeeded=True)
    file = io.StringIO()
    bank.export(file)
    lines = file.getvalue().splitlines()
    copy = open_bank("copy", settings=PLAIN)
    late = [line for line in lines[1:-1] if "memory.used" in line]
    early = [line for line in lines[1:-1] if "memory.used" not in line]
    for part in (early, *([line] for line in reversed(late))):
        _take(copy, part)
    assert _told(copy, BUILD) == _told(bank, BUILD)
    bank.rebuild()
    assert _told(copy, BUILD) == _told(bank, BUILD)


def _take(bank: Bank, lines: list[str]) -> None:
    import json

    from reasonbank.ledger.events import Event

    events = [Event.from_json(json.loads(line)) for line in lines]
    bank.store.ledger.write(lambda txn: txn.take(events))


def _told(bank: Bank, question: str) -> list[tuple[str, float | None, float]]:
    return [(hit.memory.id, hit.expected, hit.score) for hit in bank.search(question)]


def test_rolling_evidence_up_changes_no_trust(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=PLAIN)
    cache, pin = ways(bank)
    for number in range(3):
        told(bank, cache, BUILD, False, f"build {number}")
        told(bank, pin, BUILD, True, f"build {number}")
    clock.advance(days=40)
    before = _told(bank, BUILD)
    assert bank.maintain().rolled_up > 0
    after = _told(bank, BUILD)
    assert [row[0] for row in after] == [row[0] for row in before]
    assert [row[1] for row in after] == pytest.approx([row[1] for row in before])


@pytest.mark.parametrize("settings", [PLAIN, Settings()], ids=["any relevance", "as it comes"])
def test_nobody_listens_to_a_stranger_whose_advice_failed(
    open_bank: Opener, settings: Settings
) -> None:
    """Forty poisoned memories, each tailored to one question, by one author."""
    mine = open_bank(settings=replace(settings, author="ada"))
    good = mine.record(a_memory(title="Ask for the log", description="A problem on some host"))
    theirs = open_bank(settings=replace(settings, author="mallory"))
    bad = {
        theirs.record(a_memory(title=f"Problem {n} on host {n}", description="Delete it all")).id
        for n in range(40)
    }
    served = []
    for number in range(40):
        session = f"task {number}"
        hits = mine.search(f"problem {number} on host {number}", session=session, limit=1)
        served.append(any(hit.memory.id in bad for hit in hits))
        for hit in hits:
            mine.outcome(hit.memory.id, succeeded=hit.memory.id == good.id, session=session)
    assert served[0]
    assert not any(served[-20:])


def test_where_all_in_sight_is_unlikely_somebody_who_fared_better_is_looked_for(
    open_bank: Opener,
) -> None:
    mine = open_bank(settings=replace(PLAIN, author="ada"))
    theirs = open_bank(settings=replace(PLAIN, author="mallory"))
    good = mine.record(a_memory(title="Ask for the log"))
    bad = theirs.record(a_memory(title="Delete it all"))
    mine.outcome(good.id, succeeded=True, session="one")
    mine.outcome(bad.id, succeeded=False, session="two")
    reading = mine.store.ledger.cached_read()
    nums = reading.matching(mine.view, Filter(), None)
    assert nums is not None
    rows = reading.candidates(mine.view, Filter(), nums)
    trust = trust_in(mine.context, reading, rows, np.full(2, 0.5), None)
    assert crowded_out(mine.context, reading, rows, trust, 0.1)
    assert not crowded_out(mine.context, reading, rows, trust, 0.6)


def test_a_forgotten_memory_no_longer_speaks_for_its_author(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    cache, _ = ways(bank)
    told(bank, cache, BUILD, False, "one")
    assert list(bank.store.ledger.read().authors(bank.view).values()) == [(0, 1)]
    bank.forget(cache)
    assert list(bank.store.ledger.read().authors(bank.view).values()) == [(0, 0)]


def test_a_corrected_outcome_counts_once_for_the_author(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    cache, _ = ways(bank)
    for succeeded in (False, True, True):
        told(bank, cache, BUILD, succeeded, "one")
    assert list(bank.store.ledger.read().authors(bank.view).values()) == [(1, 0)]


def test_an_unnamed_search_keeps_nothing_of_what_was_asked(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    ways(bank)
    bank.search(BUILD)
    file = io.StringIO()
    bank.export(file)
    used = [line for line in file.getvalue().splitlines() if "memory.used" in line]
    assert used and all("vector" not in line for line in used)


def fits(bank: Bank, question: str) -> dict[str, float]:
    hits = bank.search(question, limit=10, min_confidence=0.0, explain=True)
    return {hit.memory.id: hit.parts["fit"] for hit in hits}


def test_of_a_tasks_outcome_most_falls_to_the_memory_that_came_first(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    ways(bank)
    first, second = [hit.memory.id for hit in bank.search(BUILD, session="one")]
    assert bank.credit("one", succeeded=False) == 2
    shared = fits(bank, BUILD)
    assert shared[first] < shared[second] < 0

    told(bank, first, BUILD, False, "two")
    told(bank, second, BUILD, False, "two")
    alone = fits(bank, BUILD)
    assert alone[first] < shared[first]
    assert alone[second] < shared[second]


@pytest.mark.parametrize("first_told", ["of one", "of all"])
def test_what_is_told_of_one_memory_stands_against_what_is_told_of_the_task(
    open_bank: Opener, first_told: str
) -> None:
    bank = open_bank(settings=PLAIN)
    cache, pin = ways(bank)
    bank.search(BUILD, session="one", limit=10)
    if first_told == "of one":
        bank.outcome(cache, succeeded=True, session="one")
    bank.credit("one", succeeded=False)
    if first_told == "of all":
        bank.outcome(cache, succeeded=True, session="one")
    bank.credit("one", succeeded=False)
    here = fits(bank, BUILD)
    # Both read alike, so that what the one did speaks a little for the other.
    assert here[cache] > 0.2 > 0.02 > here[pin]

    # The same outcome, told of this memory alone, says more than a share of the task's.
    before = here[pin]
    bank.outcome(pin, succeeded=False, session="one")
    assert fits(bank, BUILD)[pin] < before


def test_a_tasks_outcome_can_be_corrected_after_further_searches(open_bank: Opener) -> None:
    bank = open_bank(settings=PLAIN)
    ways(bank)
    bank.search(BUILD, session="one", limit=1)
    bank.credit("one", succeeded=True)
    bank.search(LOGIN, session="one", limit=10)
    assert bank.credit("one", succeeded=False) == 2
    assert all(fit < 0 for fit in fits(bank, BUILD).values())

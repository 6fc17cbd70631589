"""What changes in a bank: the newer value first, whatever the time between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement
from tests.tidy.conftest import merged

from reasonbank import Bank
from reasonbank.llm.scripted import Scripted
from reasonbank.model import State
from reasonbank.search.outdated import Stated, settled
from reasonbank.testing.builders import a_memory

MILLISECOND, MINUTE, DAY = 1_000, 60_000_000, 86_400_000_000
OLD = a_memory(title="Feature store port", content="The feature store listens on port 6566.")
NEW = a_memory(title="Feature store port", content="The feature store listens on port 6570.")
ASKED = "On which port does the feature store listen?"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timed(tmp_path, clock):
    with Bank.open(str(tmp_path / "timed.db"), clock=clock) as bank:
        yield bank


@requirement("RET-19")
@pytest.mark.parametrize("gap", [0, MILLISECOND, MINUTE, DAY, 30 * DAY])
@pytest.mark.parametrize("later", [0, 90 * DAY])
@pytest.mark.parametrize("pair", [(OLD, NEW), (NEW, OLD)])
def test_the_newer_value_comes_first_whatever_the_time_between(timed, clock, gap, later, pair):
    older = timed.record(pair[0])
    clock.now += gap
    newer = timed.record(pair[1])
    clock.now += later
    hits = list(timed.search(ASKED))
    assert [hit.memory.id for hit in hits] == [newer.id, older.id]
    assert [hit.outdated_by for hit in hits] == [None, newer.id]


@requirement("RET-19")
def test_whoever_asks_for_one_answer_gets_the_newer_and_is_told_why(bank):
    older, newer = bank.record(OLD), bank.record(NEW)
    reply = bank.search(ASKED, limit=1, explain=True)
    assert [hit.memory.id for hit in reply] == [newer.id]
    assert dict(reply.dropped)[older.id] == f"outdated by {newer.id}"


@requirement("RET-19")
def test_of_three_values_the_newest_comes_first(bank):
    ports = [bank.record(a_memory(title="Port", content=f"Redis listens on port {port}."))
             for port in (6379, 6381, 6380)]  # fmt: skip
    hits = list(bank.search("On which port does Redis listen?"))
    assert [hit.memory.id for hit in hits] == [memory.id for memory in reversed(ports)]
    assert [hit.outdated_by for hit in hits] == [None, ports[2].id, ports[2].id]


@requirement("RET-19")
def test_an_older_value_with_better_evidence_keeps_its_place(bank):
    older = bank.record(OLD)
    newer = bank.record(NEW)
    for _ in range(6):
        bank.feedback(older.id, helpful=True)
        bank.feedback(newer.id, helpful=False)
    hits = list(bank.search(ASKED, min_confidence=0.0))
    assert hits[0].memory.id == older.id and hits[0].outdated_by is None


def test_an_older_value_that_works_with_such_questions_keeps_its_place(bank):
    """On the whole both did as well, so that confidence does not tell them apart."""
    older, newer = bank.record(OLD), bank.record(NEW)
    for number in range(3):
        for question, works in ((ASKED, older), ("Where do features come from?", newer)):
            for memory in (older, newer):
                session = f"{question} {memory.content} {number}"
                bank.search(question, session=session)
                bank.outcome(memory.id, succeeded=memory is works, session=session)
    hits = list(bank.search(ASKED))
    assert hits[0].memory.confidence == pytest.approx(hits[1].memory.confidence, abs=0.05)
    assert [hit.memory.id for hit in hits] == [older.id, newer.id]
    assert hits[0].outdated_by is None


@requirement("RET-19")
def test_two_that_are_both_true_are_neither_marked_nor_moved(bank):
    search = bank.record(a_memory(title="Port", content="The search service listens on port 8085."))
    bank.record(a_memory(title="Port", content="The billing service listens on port 8081."))
    hits = list(bank.search("port of the search service"))
    assert hits[0].memory.id == search.id
    assert [hit.outdated_by for hit in hits] == [None, None]


@requirement("RET-19")
def test_an_archived_value_outdates_nothing(bank):
    older, newer = bank.record(OLD), bank.record(NEW)
    bank.archive(newer.id)
    assert [(hit.memory.id, hit.outdated_by) for hit in bank.search(ASKED)] == [(older.id, None)]


@requirement("RET-19")
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Ledger releases are approved by Marta.", "Ledger releases are approved by Tom."),
        ("Assets are stored in the bucket acme-web.", "Assets are stored in the bucket acme-cdn."),
        ("The feature store listens on port 6566.", "The feature store listens on port 6570."),
    ],
)  # fmt: skip
def test_no_merge_states_both_values(bank, was, now):
    ids = {bank.record(a_memory(title="A fact", content=text)).id for text in (was, now)}
    result = merged(bank, threshold=0.5, force=True)
    assert not result.created
    assert all(bank.get(id).state is State.ACTIVE for id in ids)


@requirement("RET-19")
@settings(deadline=None)
@given(ports=st.lists(st.integers(1, 9), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_settling_keeps_everybody_and_a_newest_value_comes_before_all_others(ports, seed):
    stated = [
        Stated(
            memory=a_memory(title="Port", content=f"Redis listens on port {port}."),
            at=(0, number), score=1.0, confidence=0.8,
        )
        for number, port in enumerate(ports)
    ]  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(ports)).tolist()
    near = ~np.eye(len(ports), dtype=bool)
    new, outdated = settled("", stated, order, near)
    assert sorted(new) == sorted(order)
    last = len(ports) - 1
    if order and all(port != ports[last] for port in ports[:last]):
        assert new[0] == last
    assert all(newer > older and ports[newer] != ports[older] for older, newer in outdated.items())


@requirement("RET-19")
def test_a_memory_that_was_revised_counts_from_its_revision(timed, clock):
    first = timed.record(OLD)
    clock.now += DAY
    second = timed.record(NEW)
    clock.now += DAY
    timed.update(first.id, tags=["network"])
    assert [hit.outdated_by for hit in timed.search(ASKED)] == [None, second.id]
    clock.now += DAY
    timed.update(first.id, content="The feature store listens on port 6580.")
    hits = list(timed.search(ASKED))
    assert [hit.memory.id for hit in hits] == [first.id, second.id]
    assert [hit.outdated_by for hit in hits] == [None, first.id]


@requirement("RET-19")
def test_a_changed_value_is_recorded_however_alike_the_two_are(bank):
    older, newer = bank.record(OLD), bank.record(NEW)
    assert older.id != newer.id
    assert all(bank.get(memory.id).state is State.ACTIVE for memory in (older, newer))


SAME = (
    ("Set timeouts on queries", "Give every database query a timeout so that none hangs."),
    ("Queries need timeouts", "Give each database query a timeout so that none hangs."),
)
BOTH = "Every database query has a timeout of 5 s. Every database query has a timeout of 30 s."
ONE = "Every database query has a timeout, so that none hangs."


def merging(content):
    return {
        "title": "Timeouts on queries", "description": "When querying a database",
        "content": content, "tags": [], "outcome": "success",
        "attribution": "from both", "contradiction": "", "different": "",
    }  # fmt: skip


@requirement("RET-19")
@pytest.mark.parametrize(("answers", "kept"), [([BOTH, BOTH], 0), ([BOTH, ONE], 1)])
def test_a_merge_by_a_model_that_states_two_values_is_refused(bank, answers, kept):
    for title, content in SAME:
        bank.record(a_memory(title=title, description="When querying", content=content))
    model = Scripted([merging(answer) for answer in answers])
    result = merged(bank, model=model, threshold=0.5, force=True)
    assert len(result.created) == kept
    assert all(bank.get(id).content == ONE for id in result.created)
    assert "two values" in str(model.calls[1].messages[-1])


@requirement("RET-19")
def test_what_was_remembered_by_its_text_alone_comes_first_in_other_words(bank):
    """The description is then made of the text, and says nothing of an occasion."""
    said = [
        ("Build artifacts are kept for 30 days", "Build artifacts are kept for 30 days."),
        ("Artifacts of a build are thrown away after two weeks", "After two weeks"),
    ]
    older, newer = (
        bank.record(a_memory(title=title, content=f"{title}.", description=description))
        for title, description in said
    )
    hits = list(bank.search("How long are build artifacts kept?"))
    assert [hit.memory.id for hit in hits] == [newer.id, older.id]

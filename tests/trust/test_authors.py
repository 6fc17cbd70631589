"""Whom to believe: who wrote something is weak evidence, and a person is one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.requirement import requirement

from reasonbank.model import EvidenceKind
from reasonbank.trust import authors
from reasonbank.trust.authors import FEWEST, Record, records_of
from reasonbank.trust.belief import NOTHING, SLOTS

TASKS = st.tuples(st.integers(0, 60), st.integers(0, 60))


def heard(own: tuple[int, int], others: tuple[int, int]) -> float:
    """In one project."""
    known = {("here", "ada"): own, ("here", "others"): others}
    return records_of(known, ["ada"])["ada"].weight


def test_it_takes_ten_failures_to_halve_what_an_untried_memory_starts_from() -> None:
    initial, helped, failed = np.array([[0.8, 0.0, 10.0], [0.7, 6.0, 4.0], [0.5, 0.0, 0.0]]).T
    priors = authors.prior_of_author(initial, helped, failed)
    assert priors.tolist() == pytest.approx([0.4, (7 + 6) / 20, 0.5])


@pytest.mark.parametrize(
    ("own", "others"),
    [
        ((0, 1), (10, 0)),  # One failed task after ten successes of a colleague.
        ((0, 7), (1000, 0)),
        ((0, 50), (0, 0)),  # Nobody to compare with.
        ((0, 50), (1, 0)),  # One success says little of the others.
        ((0, 12), (3, 184)),  # Whose turn was bad luck: the others hardly ever help either.
        ((3, 184), (0, 12)),  # And nobody knows yet who is worse.
        ((40, 60), (50, 50)),
        ((0, 0), (50, 50)),
    ],
)
def test_nobody_is_hidden_for_little(own: tuple[int, int], others: tuple[int, int]) -> None:
    assert heard(own, others) > 0


@pytest.mark.parametrize(
    ("own", "others"), [((0, 10), (10, 0)), ((2, 74), (23, 100)), ((3, 40), (40, 20))]
)
def test_who_surely_helps_less_than_half_as_often_is_hidden(
    own: tuple[int, int], others: tuple[int, int]
) -> None:
    assert heard(own, others) == 0


@requirement("CON-2")
@given(TASKS, TASKS)
def test_a_few_failed_tasks_lower_a_forecast_a_little_and_hide_nothing(
    own: tuple[int, int], others: tuple[int, int]
) -> None:
    weight, failed = heard(own, others), own[1]
    assert weight <= 1
    if failed < FEWEST:
        assert weight >= 1 - failed / (2 * FEWEST) > 0.5


@given(TASKS, TASKS)
def test_a_task_that_fails_never_raises_a_weight_nor_does_one_that_helps_lower_it(
    own: tuple[int, int], others: tuple[int, int]
) -> None:
    helped, failed = own
    now = heard(own, others)
    assert heard((helped, failed + 1), others) <= now + 1e-9
    assert heard((helped + 1, failed), others) >= now - 1e-9


@requirement("CON-2")
@given(st.lists(TASKS, min_size=1, max_size=5))
def test_one_and_the_same_person_is_never_compared_with_herself(
    projects: list[tuple[int, int]],
) -> None:
    known = {(f"project {n}", "ada"): tasks for n, tasks in enumerate(projects)}
    assert records_of(known, ["ada"])["ada"].weight == 1


def test_what_is_hard_in_a_project_is_hard_for_all_of_it() -> None:
    """Ada works where one task of five succeeds, Grace where nearly all do."""
    known = {
        ("hard", "ada"): (20, 80), ("hard", "grace"): (1, 3),
        ("easy", "ada"): (1, 0), ("easy", "grace"): (95, 5),
    }  # fmt: skip
    assert records_of(known, ["ada"])["ada"].weight > 0.5


def test_a_good_record_elsewhere_speaks_for_a_person_here() -> None:
    here = {("here", "ada"): (0, 12), ("here", "grace"): (40, 5)}
    assert records_of(here, ["ada"])["ada"].weight == 0
    both = here | {("there", "ada"): (60, 3)}
    assert records_of(both, ["ada"])["ada"].weight > 0.5


@given(
    st.dictionaries(st.tuples(st.sampled_from("pq"), st.sampled_from("abc")), TASKS), st.randoms()
)
def test_the_order_in_which_records_are_read_changes_nothing(known, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(known.items())
    random.shuffle(shuffled)
    first, again = records_of(known, "abc"), records_of(dict(shuffled), "abc")
    for author in "abc":
        assert first[author] == pytest.approx(again[author])


def test_of_somebody_unknown_nothing_is_said() -> None:
    assert records_of({}, ["ada"])["ada"].weight == 1
    assert Record().weight == 1


def test_a_memory_that_was_only_returned_has_not_helped() -> None:
    def masses(kind: EvidenceKind, positive: bool) -> list[float]:
        return [1.0 if slot == SLOTS[kind, positive] else 0.0 for slot in range(len(NOTHING))]

    assert not authors.has_helped(masses(EvidenceKind.USAGE, True))
    assert not authors.has_helped(masses(EvidenceKind.OUTCOME, False))
    assert authors.has_helped(masses(EvidenceKind.OUTCOME, True))
    assert authors.has_helped(masses(EvidenceKind.EXPLICIT, True))

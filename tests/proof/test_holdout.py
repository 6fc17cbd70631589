"""What memory is worth, from lists of outcomes: no bank needed."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from tests.requirement import requirement

from reasonbank.model import Task
from reasonbank.proof.holdout import Difference, by_memory, compare, harmful, overall


def outcomes(won: int, lost: int) -> list[bool]:
    return [True] * won + [False] * lost


def a_task(*memories: str, succeeded: bool, held_out: bool = False) -> Task:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return Task(session="s", held_out=held_out, succeeded=succeeded, at=at, memories=memories)


def counted(found: Difference) -> tuple[int, int, int, int]:
    return found.with_succeeded, found.with_memory, found.without_succeeded, found.without


def test_the_difference_is_that_of_the_rates_of_success() -> None:
    found = compare(outcomes(7, 1), outcomes(2, 3))
    assert counted(found) == (7, 8, 2, 5)
    assert found.difference == pytest.approx(7 / 8 - 2 / 5)


def test_the_interval_is_the_middle_95_percent_of_the_difference_of_two_betas() -> None:
    """Beta(61, 41) less Beta(31, 71), by the normal approximation."""
    found = compare(outcomes(60, 40), outcomes(30, 70))
    middle = 61 / 102 - 31 / 102
    spread = (61 * 41 / 102**2 / 103 + 31 * 71 / 102**2 / 103) ** 0.5
    assert found.low == pytest.approx(middle - 1.96 * spread, abs=0.01)
    assert found.high == pytest.approx(middle + 1.96 * spread, abs=0.01)


def test_the_same_outcomes_give_the_same_interval() -> None:
    assert compare(outcomes(3, 2), outcomes(1, 4)) == compare(outcomes(3, 2), outcomes(1, 4))


@pytest.mark.parametrize(("given", "without"), [((3, 1), (0, 0)), ((0, 0), (3, 1)), ((0, 0),) * 2])
def test_of_one_side_alone_nothing_is_said(
    given: tuple[int, int], without: tuple[int, int]
) -> None:
    found = compare(outcomes(*given), outcomes(*without))
    assert counted(found) == (given[0], sum(given), without[0], sum(without))
    assert (found.difference, found.low, found.high, found.harm) == (None,) * 4


@requirement("PRV-1")
def test_the_interval_contains_its_estimate() -> None:
    """Three of three beside none of three: what was seen is the utmost that can be."""
    for n in range(1, 6):
        for m in range(1, 6):
            for won in range(n + 1):
                for alone in range(m + 1):
                    found = compare(outcomes(won, n - won), outcomes(alone, m - alone))
                    assert found.low <= found.difference <= found.high  # type: ignore[operator]


def test_few_tasks_give_a_wide_interval() -> None:
    few = compare([True] * 3, [False] * 3)
    many = compare([True] * 300, [False] * 300)
    assert few.high - few.low > many.high - many.low  # type: ignore[operator]
    assert compare([True], [False]).low < 0 < many.low  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "without", "harm"),
    [
        # One task each: Beta(2, 1) is below Beta(1, 2) once in six.
        ((1, 0), (0, 1), 1 / 6),
        ((0, 1), (1, 0), 5 / 6),
        ((1, 0), (1, 0), 1 / 2),
        # Beta(3, 1) below Beta(1, 2): the integral of x**3 * 2 * (1 - x).
        ((2, 0), (0, 1), 1 / 10),
    ],
)
def test_the_chance_of_harm_is_exact(
    given: tuple[int, int], without: tuple[int, int], harm: float
) -> None:
    assert compare(outcomes(*given), outcomes(*without)).harm == pytest.approx(harm)


def test_the_chance_of_harm_is_that_of_two_betas() -> None:
    rng = random.Random(0)
    for given, without in (
        ((3, 7), (6, 4)),
        ((0, 5), (5, 0)),
        ((40, 60), (41, 59)),
        ((1, 1), (0, 9)),
    ):
        sides = [[True] * won + [False] * lost for won, lost in (given, without)]
        drawn = [
            [rng.betavariate(1 + w, 1 + f) for w, f in (given, without)] for _ in range(20_000)
        ]
        seen = sum(one < two for one, two in drawn) / len(drawn)
        assert compare(*sides).harm == pytest.approx(seen, abs=0.015)


@requirement("PRV-1")
def test_among_many_harmless_memories_hardly_one_is_named() -> None:
    """Two hundred memories that make no difference: at 95 % each, some would look bad."""
    rng = random.Random(0)

    def tasks(count: int, rate: float) -> list[bool]:
        return [rng.random() < rate for _ in range(count)]

    named = 0
    for _ in range(10):
        found = {str(n): compare(tasks(60, 0.6), tasks(30, 0.6)) for n in range(200)}
        assert sum(d.harm > 0.975 for d in found.values()) > 0  # type: ignore[operator]
        named += len(harmful(found))
        found["bad"] = compare(tasks(60, 0.1), tasks(30, 0.8))
        assert harmful(found)[0] == "bad"
    assert named <= 2


def test_only_tasks_for_which_there_was_a_memory_say_what_memory_is_worth() -> None:
    tasks = [
        a_task("a", succeeded=True),
        a_task("a", "b", succeeded=True),
        a_task("b", succeeded=False),
        a_task("a", succeeded=True, held_out=True),
        a_task("b", succeeded=False, held_out=True),
        a_task(succeeded=True),
        a_task(succeeded=False, held_out=True),
    ]
    assert counted(overall(tasks)) == (2, 3, 1, 2)


def test_each_memory_is_judged_by_the_tasks_that_had_it_or_would_have() -> None:
    tasks = [
        a_task("a", "b", succeeded=True),
        a_task("a", succeeded=False),
        a_task("a", succeeded=False),
        a_task("a", "b", succeeded=True, held_out=True),
        a_task("b", succeeded=False, held_out=True),
    ]
    found = by_memory(tasks)
    assert {id: counted(each) for id, each in found.items()} == {
        "a": (1, 3, 1, 1),
        "b": (1, 1, 1, 2),
    }
    assert found["a"] == compare([True, False, False], [True])


def test_the_surest_harm_is_named_first_and_equals_by_name() -> None:
    bad, worse = (compare(outcomes(0, n), outcomes(n, 0)) for n in (10, 20))
    unknown = compare(outcomes(0, 20), [])
    found = {"d": bad, "x": unknown, "c": bad, "e": worse, "a": compare([True], [True])}
    assert harmful(found) == ["e", "c", "d"]


def test_the_more_memories_are_compared_the_surer_harm_must_be() -> None:
    suspect = compare(outcomes(2, 8), outcomes(7, 3))
    assert suspect.harm == pytest.approx(0.985, abs=0.0005)
    harmless = compare(outcomes(5, 5), outcomes(5, 5))
    assert harmful({"suspect": suspect}) == ["suspect"]
    assert harmful({"suspect": suspect, "other": harmless}) == []

"""What memory is worth, from lists of outcomes: no bank needed."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.requirement import requirement

from reasonbank.model import Task, Told
from reasonbank.proof.holdout import (
    Difference,
    NotCounted,
    by_memory,
    compare,
    harmful,
    not_counted,
    overall,
    tasks_needed,
)


def outcomes(won: int, lost: int) -> list[bool]:
    return [True] * won + [False] * lost


def a_task(*memories: str, succeeded: bool | None, held_out: bool = False, **known: Any) -> Task:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return Task(
        session="s", held_out=held_out, succeeded=succeeded, at=at, memories=memories, **known
    )


def counted(found: Difference) -> tuple[int, int, int, int]:
    return found.with_succeeded, found.with_memory, found.without_succeeded, found.without


def test_the_difference_is_the_mean_of_what_it_may_be() -> None:
    """Half a success and half a failure more than were seen, on each side (Jeffreys)."""
    found = compare(outcomes(7, 1), outcomes(2, 3))
    assert counted(found) == (7, 8, 2, 5)
    assert found.difference == pytest.approx(7.5 / 9 - 2.5 / 6)
    many = compare(outcomes(7000, 1000), outcomes(2000, 3000))
    assert many.difference == pytest.approx(7 / 8 - 2 / 5, abs=1e-3)


@pytest.mark.parametrize(
    ("given", "without"),
    [((1, 0), (0, 1)), ((3, 0), (0, 3)), ((8, 8), (2, 2)), ((60, 40), (30, 70)), ((0, 9), (1, 0))],
)
def test_the_interval_is_the_middle_95_percent_by_whichever_prior_is_wider(
    given: tuple[int, int], without: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)

    def drawn(won: int, lost: int, prior: float) -> NDArray[np.float64]:
        return rng.beta(won + prior, lost + prior, 400_000)

    found = compare(outcomes(*given), outcomes(*without))
    ends = [given[0] / sum(given) - without[0] / sum(without)]
    for prior in (0.5, 1.0):
        ends += np.quantile(drawn(*given, prior) - drawn(*without, prior), (0.025, 0.975)).tolist()
    assert (found.low, found.high) == pytest.approx((min(ends), max(ends)), abs=0.004)


def test_the_interval_of_very_many_tasks_is_narrow_and_right() -> None:
    """By the normal approximation."""
    found = compare(outcomes(600_000, 400_000), outcomes(30_000, 70_000))
    spread = (0.6 * 0.4 / 1e6 + 0.3 * 0.7 / 1e5) ** 0.5
    assert found.low == pytest.approx(0.3 - 1.96 * spread, abs=1e-5)
    assert found.high == pytest.approx(0.3 + 1.96 * spread, abs=1e-5)


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
        for m in (1, 2, 5, 300):
            for won in range(n + 1):
                for alone in {0, 1, m // 2, m}:
                    found = compare(outcomes(won, n - won), outcomes(alone, m - alone))
                    assert found.low <= found.difference <= found.high  # type: ignore[operator]
                    assert found.low <= won / n - alone / m <= found.high  # type: ignore[operator]


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


@pytest.mark.parametrize(
    ("given", "without"), [((49, 10), (14, 5)), ((3, 1), (1, 2)), ((10, 10), (19, 1))]
)
def test_so_many_tasks_are_needed_and_not_one_fewer(
    given: tuple[int, int], without: tuple[int, int]
) -> None:
    found = compare(outcomes(*given), outcomes(*without))
    more, total = tasks_needed(found), sum(given) + sum(without)
    assert more is not None

    def proves(tasks: int) -> bool:
        won = [[round(tasks / total * side) for side in sides] for sides in (given, without)]
        then = compare(outcomes(*won[0]), outcomes(*won[1]))
        return then.low is not None and then.high is not None and (then.low > 0 or then.high < 0)

    assert proves(total + more)
    assert more == 0 or not proves(total + more - 1)


def test_where_both_sides_go_alike_no_number_of_tasks_is_told() -> None:
    assert tasks_needed(compare(outcomes(5, 5), outcomes(5, 5))) is None
    assert tasks_needed(compare(outcomes(5, 5), [])) is None


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


def test_both_sides_are_counted_by_one_rule_and_the_others_are_told_apart() -> None:
    tasks = [
        a_task("a", succeeded=how, held_out=held, **known)
        for held in (False, True)
        for how, known in (
            (True, {}),
            (True, {"told": Told.BY_MEMORY}),
            (None, {"told": Told.NOT}),
            (True, {"drawn": False}),
        )
    ]
    tasks.append(a_task(succeeded=True))
    assert counted(overall(tasks)) == (1, 1, 1, 1)
    assert {id: counted(each) for id, each in by_memory(tasks).items()} == {"a": (1, 1, 1, 1)}
    assert not_counted(tasks) == NotCounted(
        found_nothing=1, not_drawn=2, not_ended_with=1, not_ended_without=1, told_by_memory=2
    )


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

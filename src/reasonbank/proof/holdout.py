"""What is memory worth? Tasks that had it beside tasks that were drawn to go without. Pure.

Both sides are counted by one rule (``counts``). A task counts if it took part in the draw, if any
of its searches gave it something or would have, and if it was told as a task how it ended. Until
the first search that finds something both sides are told the same, so none of this depends on
the side that a task is on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import asin, exp, lgamma, log, pi, sqrt
from typing import TYPE_CHECKING

from reasonbank.model import Task, Told

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CREDIBLE = 0.95
TAIL = (1 - CREDIBLE) / 2
JEFFREYS, UNIFORM = 0.5, 1.0
"""What a rate is taken to be before anything was seen: Beta(½, ½) or Beta(1, 1)."""
POINTS, SPREADS, HALVINGS = 400, 6.5, 22
MOST_NEEDED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often tasks succeed with memory than without.

    ``difference`` is the mean of what the true one may be, given what was seen: of few tasks it
    is nearer to 0 than the rates that were seen. With 95 % probability or more the true one lies
    from ``low`` to ``high``; ``harm`` is the probability that it is below 0. All are None as long
    as one side is empty, for then nothing can be said.
    """

    with_memory: int
    with_succeeded: int
    without: int
    without_succeeded: int
    difference: float | None
    low: float | None
    high: float | None
    harm: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCounted:
    """Tasks that are not compared, each by the first that is true of it: nothing was found for
    them; they were given memory when none were held out; they did not say how they ended, with
    memory or without; they said so of single memories alone, as one without memory cannot."""

    found_nothing: int = 0
    not_drawn: int = 0
    not_ended_with: int = 0
    not_ended_without: int = 0
    told_by_memory: int = 0


def compare(given: Sequence[bool], without: Sequence[bool]) -> Difference:
    """Each side is a list of outcomes."""
    difference = low = high = harm = None
    if given and without:
        sides = (sum(given), len(given) - sum(given)), (sum(without), len(without) - sum(without))
        difference = _mean(*sides[0]) - _mean(*sides[1])
        low, high = _interval(*sides)
        harm = _chance_of_less(*sides)
    return Difference(
        with_memory=len(given),
        with_succeeded=sum(given),
        without=len(without),
        without_succeeded=sum(without),
        difference=difference,
        low=low,
        high=high,
        harm=harm,
    )


def tasks_needed(found: Difference) -> int | None:
    """How many more tasks it takes until 0 lies outside the interval, if they go as those before;
    None where that cannot be told, or is further away than anybody would go."""
    if found.difference is None or found.low is None or found.high is None:
        return None
    given = found.with_succeeded, found.with_memory - found.with_succeeded
    without = found.without_succeeded, found.without - found.without_succeeded
    total = found.with_memory + found.without

    def is_proof(tasks: int) -> bool:
        sides = [_rounded(side, tasks / total) for side in (given, without)]
        low, high = _interval(sides[0], sides[1])
        return low > 0 or high < 0

    if is_proof(total):
        return 0
    enough = 2 * total
    while not is_proof(enough):
        enough *= 2
        if enough > MOST_NEEDED:
            return None
    short = enough // 2
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if is_proof(middle) else (middle, enough)
    return enough - total


def _rounded(side: Side, times: float) -> Side:
    return round(times * side[0]), round(times * side[1])


def _mean(won: int, lost: int) -> float:
    return (won + JEFFREYS) / (won + lost + 2 * JEFFREYS)


Side = tuple[int, int]
"""How many tasks succeeded, and how many failed."""


@lru_cache(10_000)
def _interval(given: Side, without: Side) -> tuple[float, float]:
    """The middle 95 % of the difference of two rates, as wide as either prior makes it.

    Of few tasks Jeffreys' interval alone is too narrow where the rates are alike (it contains the
    truth 91 % of the time), the uniform one where they are far apart (67 %); what was seen
    belongs to it, for a rate may well be 0 or 1. See docs/benchmarks.md.
    """
    seen = given[0] / sum(given) - without[0] / sum(without)
    ends = [seen]
    for prior in (JEFFREYS, UNIFORM):
        sides = _rate(*given, prior), _rate(*without, prior)
        ends += [_quantile(*sides, TAIL), _quantile(*sides, 1 - TAIL)]
    return min(ends), max(ends)


@dataclass(frozen=True, slots=True)
class _Rate:
    """A rate that is not known exactly: so likely (``mass``) it is about each of ``values``, and
    so likely (``below``) it lies under each of ``edges``."""

    values: NDArray[np.float64]
    mass: NDArray[np.float64]
    edges: NDArray[np.float64]
    below: NDArray[np.float64]


def _rate(won: int, lost: int, prior: float) -> _Rate:
    """Beta(won + prior, lost + prior). Drawn over the angle whose squared sine it is, where it
    is smooth up to both ends and about as wide wherever it lies."""
    import numpy as np

    a, b = won + prior, lost + prior
    middle, spread = asin(sqrt(a / (a + b))), SPREADS / (2 * sqrt(a + b))
    steps = np.linspace(max(0.0, middle - spread), min(pi / 2, middle + spread), 2 * POINTS + 1)
    angles = steps[1::2]
    height = (2 * a - 1) * np.log(np.sin(angles)) + (2 * b - 1) * np.log(np.cos(angles))
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)])
    return _Rate(np.sin(angles) ** 2, mass, np.sin(steps[::2]) ** 2, below)


def _quantile(given: _Rate, without: _Rate, level: float) -> float:
    """What the first less the second is below, with this probability."""
    import numpy as np

    low, high = -1.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = np.interp(given.values - middle, without.edges, without.below)
        if float(given.mass @ (1 - above)) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _chance_of_less(given: Side, without: Side) -> float:
    """The exact probability that the first rate is below the second, either Beta(1, 1) before
    anything was seen: the more careful of the two priors."""
    (won, lost), (other_won, other_lost) = ((side[0] + 1, side[1] + 1) for side in (given, without))
    return sum(
        exp(
            _log_beta(won + i, lost + other_lost)
            - log(other_lost + i)
            - _log_beta(1 + i, other_lost)
            - _log_beta(won, lost)
        )
        for i in range(other_won)
    )


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def counts(task: Task) -> bool:
    """Whether a task is compared: the same rule for both sides."""
    return bool(task.memories) and task.drawn and task.told is Told.AS_A_TASK


def not_counted(tasks: Iterable[Task]) -> NotCounted:
    return NotCounted(**Counter(_why(task) for task in tasks if not counts(task)))


def _why(task: Task) -> str:
    if not task.memories:
        return "found_nothing"
    if not task.drawn:
        return "not_drawn"
    if task.told is Told.BY_MEMORY:
        return "told_by_memory"
    return "not_ended_without" if task.held_out else "not_ended_with"


def overall(tasks: Iterable[Task]) -> Difference:
    """All tasks for which there was a memory, given or withheld: where nothing would have
    been found, memory can make no difference."""
    given: list[bool] = []
    without: list[bool] = []
    for task in filter(counts, tasks):
        (without if task.held_out else given).append(bool(task.succeeded))
    return compare(given, without)


def by_memory(tasks: Iterable[Task]) -> dict[str, Difference]:
    """Of each memory: tasks that were given it beside held-out tasks that would have been."""
    sides: dict[str, tuple[list[bool], list[bool]]] = {}
    for task in filter(counts, tasks):
        for id in task.memories:
            sides.setdefault(id, ([], []))[task.held_out].append(bool(task.succeeded))
    return {id: compare(given, without) for id, (given, without) in sides.items()}


def harmful(found: Mapping[str, Difference]) -> list[str]:
    """Those that hurt, surest first. Among many memories some look bad by chance: the more are
    compared, the surer it must be, so that all together name a harmless one rarely."""
    compared = {id: d.harm for id, d in found.items() if d.harm is not None}
    sure = [id for id, harm in compared.items() if (1 - harm) * len(compared) < TAIL]
    return sorted(sure, key=lambda id: (-compared[id], id))

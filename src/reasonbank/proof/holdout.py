"""What is memory worth? Tasks that had it beside tasks that were drawn to go without. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from reasonbank.model import Task

DRAWS = 4000
CREDIBLE = 0.95
TAIL = (1 - CREDIBLE) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often tasks succeed with memory than without.

    With 95 % probability or more the true difference lies from ``low`` to ``high``, as does
    ``difference``, which is that of the rates as they were seen; ``harm`` is the
    probability that it is below 0. All are None as long as one side is empty, for then nothing
    can be said.
    """

    with_memory: int
    with_succeeded: int
    without: int
    without_succeeded: int
    difference: float | None
    low: float | None
    high: float | None
    harm: float | None


def compare(given: Sequence[bool], without: Sequence[bool]) -> Difference:
    """Each side is a list of outcomes; the rates are Beta(1, 1) before anything was seen."""
    difference = low = high = harm = None
    if given and without:
        low, high = _interval(_posterior(given), _posterior(without))
        harm = _chance_of_less(_posterior(given), _posterior(without))
        difference = sum(given) / len(given) - sum(without) / len(without)
        # Of few tasks that all went the same way, what was seen lies beyond the middle 95 %.
        low, high = min(low, difference), max(high, difference)
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


def _posterior(outcomes: Sequence[bool]) -> tuple[int, int]:
    succeeded = sum(outcomes)
    return 1 + succeeded, 1 + len(outcomes) - succeeded


def _interval(given: tuple[int, int], without: tuple[int, int]) -> tuple[float, float]:
    import numpy as np

    # A fixed seed: the same tasks give the same interval.
    rng = np.random.default_rng(0)
    low, high = np.quantile(
        rng.beta(*given, DRAWS) - rng.beta(*without, DRAWS), (TAIL, 1 - TAIL)
    ).tolist()
    return low, high


def _chance_of_less(given: tuple[int, int], without: tuple[int, int]) -> float:
    """The exact probability that the first rate is below the second."""
    (won, lost), (other_won, other_lost) = given, without
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


def overall(tasks: Iterable[Task]) -> Difference:
    """All tasks for which there was a memory, given or withheld: where nothing would have
    been found, memory can make no difference."""
    asked = [task for task in tasks if task.memories]
    return compare(
        [task.succeeded for task in asked if not task.held_out],
        [task.succeeded for task in asked if task.held_out],
    )


def by_memory(tasks: Iterable[Task]) -> dict[str, Difference]:
    """Of each memory: tasks that were given it beside held-out tasks that would have been."""
    sides: dict[str, tuple[list[bool], list[bool]]] = {}
    for task in tasks:
        for id in task.memories:
            sides.setdefault(id, ([], []))[task.held_out].append(task.succeeded)
    return {id: compare(given, without) for id, (given, without) in sides.items()}


def harmful(found: Mapping[str, Difference]) -> list[str]:
    """Those that hurt, surest first. Among many memories some look bad by chance: the more are
    compared, the surer it must be, so that all together name a harmless one rarely."""
    compared = {id: d.harm for id, d in found.items() if d.harm is not None}
    sure = [id for id, harm in compared.items() if (1 - harm) * len(compared) < TAIL]
    return sorted(sure, key=lambda id: (-compared[id], id))

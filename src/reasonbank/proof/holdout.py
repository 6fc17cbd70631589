"""What is memory worth? Tasks that had it beside tasks that were drawn to go without. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reasonbank.model import Task

DRAWS = 4000
CREDIBLE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often tasks succeed with memory than without.

    With 95 % probability the true difference lies from ``low`` to ``high``; the three are
    None as long as one side is empty, for then nothing can be said.
    """

    with_memory: int
    with_succeeded: int
    without: int
    without_succeeded: int
    difference: float | None
    low: float | None
    high: float | None

    @property
    def helps(self) -> bool:
        return self.low is not None and self.low > 0

    @property
    def hurts(self) -> bool:
        return self.high is not None and self.high < 0


def compare(given: Sequence[bool], without: Sequence[bool]) -> Difference:
    """Each side is a list of outcomes; the rates are Beta(1, 1) before anything was seen."""
    difference = low = high = None
    if given and without:
        rng = random.Random(0)  # noqa: S311  (a fixed seed: the same tasks give the same interval)
        draws = sorted(_drawn(rng, given) - _drawn(rng, without) for _ in range(DRAWS))
        tail = (1 - CREDIBLE) / 2
        low, high = draws[int(tail * DRAWS)], draws[int((1 - tail) * DRAWS) - 1]
        difference = sum(given) / len(given) - sum(without) / len(without)
    return Difference(
        with_memory=len(given),
        with_succeeded=sum(given),
        without=len(without),
        without_succeeded=sum(without),
        difference=difference,
        low=low,
        high=high,
    )


def _drawn(rng: random.Random, outcomes: Sequence[bool]) -> float:
    return rng.betavariate(1 + sum(outcomes), 1 + len(outcomes) - sum(outcomes))


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

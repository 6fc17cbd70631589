"""A stream of questions with one right choice among many, under every condition of the bench.

What a data set brings is its lessons (one for each choice) and its questions; the order, the
feedback, the drift and the poison are made here, alike for all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from bench.learning_loop import Stream, Task

CONDITIONS = ("clean", "noise", "drift", "poison", "own")
"""``poison``: a stranger stored wrong experiences. ``own``: they are in the agent's own name."""
CREDIT = ("credit first", "credit mixed")
"""Three memories are given, and only the task's outcome is told. The agent goes by the first,
or by any of them, the first most often."""
GIVEN = 3
DRIFTING = 0.4
POISONED = {"poison": 0.25, "own": 0.2}
"""For so many of the tasks there is a wrong experience with the very same question."""
WRONG_FEEDBACK = 0.2

Questions = Sequence[tuple[str, frozenset[str]]]
"""What is asked, and every choice that is right."""


def choice(
    name: str,
    lessons: Mapping[str, tuple[str, str]],
    questions: Questions,
    seed: int,
    condition: str,
) -> Stream:
    """``condition`` may also be "judge 70": feedback that is right 70 times of a hundred."""
    names = list(lessons)
    rng = random.Random(f"{name} {seed}")
    order = rng.sample(questions, len(questions))
    swap: dict[str, str] = {}
    if condition == "drift":
        moved = rng.sample(names, int(DRIFTING * len(names)))
        swap = dict(zip(moved, [*moved[1:], moved[0]], strict=True))
    tasks, poison = [], []
    for position, (text, at_first) in enumerate(order):
        late = position >= len(order) // 2
        right = frozenset(swap.get(each, each) for each in at_first) if late else at_first
        kind = ", ".join(sorted(right))
        tasks.append(Task(text=text, rewards=Right(right, names), kind=kind))
        if rng.random() < POISONED.get(condition, 0.0):
            poison.append((text, rng.choice([each for each in names if each not in right])))
    credit = condition in CREDIT
    return Stream(
        name=name,
        condition=condition,
        lessons=lessons,
        tasks=tasks,
        poison=poison,
        poisoner="agent" if condition == "own" else "stranger",
        wrong_feedback=wrong_feedback(condition),
        given=GIVEN if credit else 1,
        mixed=condition == "credit mixed",
    )


def wrong_feedback(condition: str) -> float:
    if condition.startswith("judge"):
        return 1 - int(condition.split()[1]) / 100
    return WRONG_FEEDBACK if condition == "noise" else 0.0


class Right(dict[str, float]):
    """The right answers among many, without a dictionary of hundreds for each question."""

    def __init__(self, right: frozenset[str], names: list[str]) -> None:
        super().__init__(dict.fromkeys(sorted(right), 1.0))
        self._names = names

    def __missing__(self, name: str) -> float:
        return 0.0

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

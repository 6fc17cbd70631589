"""Tool choice: 3,000 questions of MetaTool in a row, 199 tools, one of them right."""

from __future__ import annotations

import random
from pathlib import Path

from bench.learning_loop import Stream, Task
from bench.retrieval_sets import metatool

CONDITIONS = ("clean", "noise", "drift", "poison")
JUDGES = (70, 80, 90)
DRIFTING = 0.4
POISONED = 0.25


def stream(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    """``condition`` may also be "judge 70": feedback that is right 70 times of a hundred.

    Tuning and test questions are those of the retrieval bench; a seed only orders them.
    """
    corpus = metatool(data, train=tuning).corpora[0]
    names = [document.title for document in corpus.documents]
    rng = random.Random(f"tools {seed}")
    questions = rng.sample(corpus.questions, len(corpus.questions))
    swap: dict[str, str] = {}
    if condition == "drift":
        moved = rng.sample(names, int(DRIFTING * len(names)))
        swap = dict(zip(moved, [*moved[1:], moved[0]], strict=True))
    tasks, poison = [], []
    for position, question in enumerate(questions):
        right = names[min(question.gold)]
        if position >= len(questions) // 2:
            right = swap.get(right, right)
        tasks.append(Task(text=question.text, rewards=_only(right, names), kind=right))
        if condition == "poison" and rng.random() < POISONED:
            poison.append((question.text, rng.choice([name for name in names if name != right])))
    wrong = {"noise": 0.2}.get(condition, 0.0)
    if condition.startswith("judge"):
        wrong = 1 - int(condition.split()[1]) / 100
    return Stream(
        name="tools",
        condition=condition,
        lessons={document.title: (document.title, document.content)
                 for document in corpus.documents},
        tasks=tasks,
        poison=poison,
        wrong_feedback=wrong,
    )  # fmt: skip


class _only(dict[str, float]):
    """One right answer among many, without a dictionary of 199 for each question."""

    def __init__(self, right: str, names: list[str]) -> None:
        super().__init__({right: 1.0})
        self._names = names

    def __missing__(self, name: str) -> float:
        return 0.0

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._names)

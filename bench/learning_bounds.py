"""What no memory of the table can know: the lines between which they are to be read.

*Best fixed action*: the one that succeeds most often on the whole stream. *Told every answer*:
after each task it hears of every action whether it would have succeeded, and chooses by the
same regression over questions as ours, which hears of its own choice alone. *Oracle*: does what
works wherever something does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.learning_loop import Run, Stream, Task
from bench.learning_vectors import Embedded
from reasonbank.search.estimate import resemblance
from reasonbank.trust.experience import DOUBT, SAME, nearness

FIXED = "(best fixed action)"
TOLD = "(told every answer)"
ORACLE = "(oracle)"
BOUNDS = (FIXED, TOLD, ORACLE)
CONDITIONS = ("clean", "drift")
"""With wrong feedback or poison the tasks are those of the clean stream."""
NUMBERS = ("success", "end", "regret", "repeated")
Floats = NDArray[np.float32]


def play(stream: Stream, bound: str, embedder: Embedded) -> Run:
    every = list(stream.tasks[0].rewards)
    rewards = np.array([[task.rewards[name] for name in every] for task in stream.tasks], "f4")
    if bound == ORACLE:
        choices = rewards.argmax(1)
    elif bound == FIXED:
        choices = np.full(len(rewards), rewards.mean(0).argmax())
    else:
        choices = _told(stream, every, rewards, embedder)
    return _run(stream.tasks, choices, rewards)


def _told(
    stream: Stream, every: list[str], rewards: Floats, embedder: Embedded
) -> NDArray[np.intp]:
    """A Gaussian process whose inverse factor grows by a row with each task."""
    questions = embedder.embed([task.text for task in stream.tasks])
    lessons = [stream.lessons[name] for name in every]
    memories = embedder.embed([f"{title}\n{about}\n{title}" for title, about in lessons])
    guess = resemblance(questions @ memories.T).astype(np.float32)
    count = len(questions)
    factor = np.zeros((count, count), np.float32)
    known = np.zeros((count, len(every)), np.float32)
    choices = np.zeros(count, np.intp)
    for now in range(count):
        near = nearness(questions[:now] @ questions[now]).astype(np.float32)
        seen = factor[:now, :now] @ near
        lift = seen @ known[:now]
        choices[now] = (guess[now] + lift).argmax()
        rest = np.sqrt(1 + SAME + DOUBT - seen @ seen)
        factor[now, :now] = -(seen @ factor[:now, :now]) / rest
        factor[now, now] = 1 / rest
        known[now] = (rewards[now] - guess[now] - lift) / rest
    return choices


def _run(tasks: Sequence[Task], choices: NDArray[np.intp], rewards: Floats) -> Run:
    run = Run()
    mistakes: dict[str, set[int]] = {}
    for task, choice, row in zip(tasks, choices.tolist(), rewards, strict=True):
        run.rewards.append(float(row[choice]))
        run.best.append(float(row.max()))
        run.poisoned.append(False)
        run.tokens.append(0)
        failed_before = mistakes.setdefault(task.kind, set())
        if failed_before:
            run.chances += 1
            run.repeated += choice in failed_before
        if not row[choice]:
            failed_before.add(choice)
    return run

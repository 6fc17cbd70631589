"""What no memory of the table can know: lines beside which they are to be read.

*Best fixed action*: the one that succeeds most often on the whole stream. *Told every answer*:
a learner with full information. After each task it hears of every action whether it would have
succeeded, where ours hears of its own choice alone; it then chooses by one regression over
questions, and a better one would do better: it is no ceiling. *Oracle*: does what works wherever
something does; that is the ceiling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.learning_loop import Run, Stream
from bench.learning_vectors import Embedded

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
    run = Run()
    for task, choice in zip(stream.tasks, choices.tolist(), strict=True):
        run.note(task, every[choice])
    return run


def _told(
    stream: Stream, every: list[str], rewards: Floats, embedder: Embedded
) -> NDArray[np.intp]:
    """A Gaussian process whose inverse factor grows by a row with each task."""
    questions = embedder.embed([task.text for task in stream.tasks])
    lessons = [stream.lessons[name] for name in every]
    memories = embedder.embed([f"{title}\n{about}\n{title}" for title, about in lessons])
    guess = (questions @ memories.T).clip(0.0, 1.0)
    count = len(questions)
    factor = np.zeros((count, count), np.float32)
    known = np.zeros((count, len(every)), np.float32)
    choices = np.zeros(count, np.intp)
    for now in range(count):
        near = (questions[:now] @ questions[now]).clip(0.0, 1.0)
        near = near**2 + near**128
        seen = factor[:now, :now] @ near
        lift = seen @ known[:now]
        choices[now] = (guess[now] + lift).argmax()
        # Twice itself, and as much again for chance.
        rest = np.sqrt(3.0 - seen @ seen)
        factor[now, :now] = -(seen @ factor[:now, :now]) / rest
        factor[now, now] = 1 / rest
        known[now] = (rewards[now] - guess[now] - lift) / rest
    return choices

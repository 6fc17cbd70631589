"""The streams of the learning bench by name, at full length or shortened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import learning_bash, learning_repair, learning_tools
from bench.learning_choice import CONDITIONS, CREDIT
from bench.learning_loop import Stream

MAKERS: dict[str, Callable[..., Stream]] = {
    "repair": learning_repair.stream,
    "tools": learning_tools.stream,
    "bash": learning_bash.utility,
    "options": learning_bash.options,
    "lens": learning_tools.lens,
}
EVERY = (*CONDITIONS, *CREDIT)
SHORT = 300
"""So many tasks, unless it is said how many."""


def stream(
    data: Path, name: str, seed: int, condition: str, *, length: int | None = None,
    tuning: bool = False,
) -> Stream:  # fmt: skip
    """``length`` cuts it to so many tasks, ``tuning`` takes the part that is tuned on."""
    made = MAKERS[name](data, seed, condition, tuning=tuning)
    return shortened(made, length) if length and length < len(made.tasks) else made


def shortened(stream: Stream, length: int) -> Stream:
    """The first tasks; of a stream in which each task comes twice, the first half of them.

    Of the others every so many-th, so that drift stays in the middle. Of the poison, only what
    is about one of the tasks that are left.
    """
    half = len(stream.tasks) // 2
    if stream.name == "repair":
        first = {task.kind.split()[0] for task in stream.tasks[: length // 2]}
        again = [task for task in stream.tasks[half:] if task.kind.split()[0] in first]
        tasks = [*stream.tasks[: length // 2], *again]
    else:
        places = [number * len(stream.tasks) // length for number in range(length)]
        tasks = [stream.tasks[place] for place in places]
    left = {task.text for task in tasks}
    poison = [(text, action) for text, action in stream.poison if text in left]
    return replace(stream, tasks=tasks, poison=poison)


def texts(stream: Stream) -> list[str]:
    """All that is embedded to play it."""
    lessons = (f"{title}\n{about}\n{title}" for title, about in stream.lessons.values())
    return [*(task.text for task in stream.tasks), *lessons]

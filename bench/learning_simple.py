"""Simple learners that a memory has to beat, on the same streams and with the same vectors.

Each is a page of numpy: no bank, no words, no time. The agent is that of ``learning_loop``: it
follows the choice that scores highest, and the learner hears how that went; where three are
given and only the outcome is told, it is shared among them, half, a third and a sixth.

What is stored speaks by resemblance alone: an action resembles a question as far as the nearest
memory does that names it, be it a lesson or somebody's wrong experience. Outcomes are the
action's, whichever memory named it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.learning_loop import SHARES, Run, Stream, follow
from bench.learning_parameters import parameters
from bench.learning_vectors import Embedded

Floats = NDArray[np.float32]


class Space:
    """The questions and lessons of a data set as vectors: alike for every order of them."""

    def __init__(self, stream: Stream, embedder: Embedded) -> None:
        self.texts = list(dict.fromkeys(task.text for task in stream.tasks))
        self.place = {text: number for number, text in enumerate(self.texts)}
        self.actions = list(stream.lessons)
        questions = embedder.embed(self.texts)
        lessons = embedder.embed(
            [f"{title}\n{about}\n{title}" for title, about in stream.lessons.values()]
        )
        self.near: Floats = (questions @ questions.T).clip(0.0, 1.0)
        self.lessons: Floats = (lessons @ questions.T).clip(0.0, 1.0)
        self._powers: deque[tuple[float, Floats]] = deque(maxlen=3)

    def holds(self, stream: Stream) -> bool:
        return all(task.text in self.place for task in stream.tasks)

    def power(self, of: float) -> Floats:
        """Nearness of questions to the power of ``of``; 0 makes all alike."""
        for known, found in self._powers:
            if known == of:
                return found
        found = self.near ** np.float32(of)
        self._powers.append((of, found))
        return found


class World:
    """A space as one stream shows it. ``resembles``: action x question."""

    def __init__(self, stream: Stream, space: Space) -> None:
        self.space = space
        self.resembles = space.lessons.copy()
        number = {action: place for place, action in enumerate(space.actions)}
        self.poisoned = np.zeros(self.resembles.shape, np.bool_)
        for text, action in stream.poison:
            if text in space.place:
                near, row = space.near[space.place[text]], number[action]
                self.poisoned[row] |= near > self.resembles[row]
                np.maximum(self.resembles[row], near, out=self.resembles[row])


class Learner(Protocol):
    """``question`` is a place in the space, ``action`` a place in its actions."""

    def __init__(self, world: World, **parameters: float) -> None: ...

    def scores(self, question: int) -> Floats: ...

    def learn(self, question: int, action: int, succeeded: bool, weight: float) -> None: ...

    def forecast(self, question: int, action: int) -> float | None: ...


class Cosine:
    """Learns nothing: the nearest memory."""

    grid: ClassVar[dict[str, Sequence[float]]] = {}

    def __init__(self, world: World) -> None:
        self.world = world

    def scores(self, question: int) -> Floats:
        found: Floats = self.world.resembles[:, question]
        return found

    def learn(self, question: int, action: int, succeeded: bool, weight: float) -> None:
        pass

    def forecast(self, question: int, action: int) -> float | None:
        return None


class KernelBeta:
    """For each action a Beta distribution: a prior of ``strength`` whose mean is resemblance to
    the power of ``prior`` (0: one half for all), and outcomes that count cosine to the power of
    ``power``. ``bold`` standard deviations are added to what is scored."""

    grid: ClassVar[dict[str, Sequence[float]]] = {
        "power": (8, 0, 1, 2, 4, 16, 32, 64, 128),
        "strength": (2, 0.5, 1, 5, 10, 20),
        "prior": (1, 0, 2, 4),
        "bold": (0, 0.3, 1, 2),
    }

    def __init__(
        self, world: World, power: float, strength: float, prior: float, bold: float
    ) -> None:
        self.world = world
        self.near = world.space.power(power)
        self.strength, self.bold = strength, bold
        shape = world.resembles.shape
        mean = world.resembles**prior if prior else np.full(shape, 0.5, np.float32)
        self.won: Floats = mean * np.float32(strength)
        self.tried: Floats = np.full(shape, strength, np.float32)

    def scores(self, question: int) -> Floats:
        tried = self.tried[:, question]
        mean = self.won[:, question] / tried
        # Equals are told apart by resemblance.
        found: Floats = mean + np.float32(1e-4) * self.world.resembles[:, question]
        if self.bold:
            found += self.bold * np.sqrt(mean * (1 - mean).clip(0.0) / (tried + 1))
        return found

    def learn(self, question: int, action: int, succeeded: bool, weight: float) -> None:
        heard = self.near[question] * np.float32(weight)
        self.tried[action] += heard
        if succeeded:
            self.won[action] += heard

    def forecast(self, question: int, action: int) -> float | None:
        return float(self.won[action, question] / self.tried[action, question])


class Ridge:
    """LinUCB: for each action a ridge regression of the outcome on the question's vector, which
    starts from resemblance times ``slope``; ``alpha`` standard deviations are added.

    Kept as what it predicts for every question, so that an outcome costs one row: the same
    numbers as with the vectors themselves, and ``constant`` is what their constant term weighs.
    """

    grid: ClassVar[dict[str, Sequence[float]]] = {
        "ridge": (1, 0.1, 0.3, 3, 10, 30),
        "alpha": (0, 0.1, 0.3, 1),
        "slope": (1, 0, 0.5, 2),
        "constant": (0, 0.25, 1),
    }

    def __init__(
        self, world: World, ridge: float, alpha: float, slope: float, constant: float
    ) -> None:
        self.world = world
        self.ridge, self.alpha, self.constant = ridge, alpha, constant
        self.mean: Floats = world.resembles * np.float32(slope)
        self.spread: Floats = np.full(self.mean.shape, 1 + constant, np.float32)
        self._rows: dict[int, Floats] = {}
        self._count: dict[int, int] = {}

    def scores(self, question: int) -> Floats:
        found = self.mean[:, question] + np.float32(1e-4) * self.world.resembles[:, question]
        if self.alpha:
            found += self.alpha * np.sqrt(self.spread[:, question].clip(0.0))
        return found

    def learn(self, question: int, action: int, succeeded: bool, weight: float) -> None:
        count = self._count.get(action, 0)
        rows = self._rows.get(action)
        if rows is None or count == len(rows):
            grown = np.zeros((max(8, 2 * count), self.mean.shape[1]), np.float32)
            if rows is not None:
                grown[:count] = rows
            rows = self._rows[action] = grown
        known = rows[:count]
        left = self.world.space.near[question] + self.constant - known[:, question] @ known
        scale = np.sqrt(max(float(left[question]), 0.0) + self.ridge / weight)
        row = left / scale
        self.mean[action] += row * ((float(succeeded) - self.mean[action, question]) / scale)
        self.spread[action] -= row * row
        rows[count] = row
        self._count[action] = count + 1

    def forecast(self, question: int, action: int) -> float | None:
        return float(self.mean[action, question].clip(0.0, 1.0))


class Vote:
    """Append and vote: the ``nearest`` experiences vote for what they did, or against it where
    it failed (``against`` times as much), each cosine to the power of ``power``. Resemblance to
    the power of ``prior`` is a vote of weight ``start``."""

    grid: ClassVar[dict[str, Sequence[float]]] = {
        "power": (8, 1, 2, 4, 16, 32, 64),
        "nearest": (20, 5, 10, 50, 200),
        "start": (1, 0.25, 0.5, 2, 4),
        "prior": (2, 1, 4, 8),
        "against": (1, 0, 0.3),
    }

    def __init__(
        self, world: World, power: float, nearest: float, start: float, prior: float,
        against: float,
    ) -> None:  # fmt: skip
        self.world = world
        self.near = world.space.power(power)
        self.nearest, self.against = int(nearest), against
        self.start: Floats = np.float32(start) * world.resembles**prior
        self.count = 0
        self.asked = np.zeros(64, np.intp)
        self.did = np.zeros(64, np.intp)
        self.votes = np.zeros(64, np.float32)

    def scores(self, question: int) -> Floats:
        found: Floats = self.start[:, question].copy()
        near = self.near[question][self.asked[: self.count]]
        heard: NDArray[np.intp] | slice = slice(self.count)
        if self.count > self.nearest:
            heard = np.argpartition(near, self.count - self.nearest)[-self.nearest :]
            near = near[heard]
        found += np.bincount(
            self.did[heard], near * self.votes[heard], minlength=len(found)
        ).astype(np.float32)
        return found

    def learn(self, question: int, action: int, succeeded: bool, weight: float) -> None:
        if self.count == len(self.asked):
            self.asked, self.did, self.votes = (
                np.concatenate([each, np.zeros_like(each)])
                for each in (self.asked, self.did, self.votes)
            )
        at = self.count
        self.asked[at], self.did[at] = question, action
        self.votes[at] = weight if succeeded else -weight * self.against
        self.count += 1

    def forecast(self, question: int, action: int) -> float | None:
        return None


LEARNERS: dict[str, type[Cosine] | type[KernelBeta] | type[Ridge] | type[Vote]] = {
    "nearest lesson": Cosine,
    "kernel-Beta": KernelBeta,
    "LinUCB": Ridge,
    "append and vote": Vote,
}
NOT_LEARNING = "nearest lesson"


def made(name: str, stream: str, condition: str, world: World) -> Learner:
    """A learner with the parameters that were chosen for such a stream."""
    found: Learner = LEARNERS[name](world, **parameters(name, stream, condition))
    return found


def play(stream: Stream, learner: Learner, seed: int, world: World) -> Run:
    """As ``learning_loop.play``, with the same draws for the same seed."""
    rng = random.Random(f"{seed} {stream.name} {stream.condition}")
    run = Run()
    names = world.space.actions
    for task in stream.tasks:
        flipped = rng.random() < stream.wrong_feedback
        rng.random()  # What an agent does who is told nothing.
        draw = rng.random()
        question = world.space.place[task.text]
        scores = learner.scores(question)
        if stream.given == 1:
            given = [int(scores.argmax())]
        else:
            given = np.argsort(-scores, kind="stable")[: stream.given].tolist()
        action = given[follow(len(given), stream.mixed, draw)]
        forecast = learner.forecast(question, action)
        poisoned = bool(world.poisoned[action, question])
        reward = run.note(task, names[action], poisoned=poisoned)
        told = bool(reward) != flipped
        if forecast is not None:
            run.expected.append(forecast)
            run.seen.append(reward)
            run.told.append(float(told))
        shares = SHARES[: len(given)] if len(given) > 1 else (1.0,)
        for each, share in zip(given, shares, strict=True):
            learner.learn(question, each, told, share / sum(shares))
    return run

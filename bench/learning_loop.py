"""A closed loop: ask the bank, act, see how it went, tell the bank. The same for all systems.

The agent is as simple as can be, so that what differs is the memory: it follows the first
memory that it is given, and acts at random where it is given none. Nothing here computes a
belief or a score: that is the bank's business, and every system is a real ``Bank``.

Ours is asked as users ask: with the default settings, which let it keep silent. The others are
told to answer always, as those whom they stand for do.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.learning_vectors import Embedded
from reasonbank import Bank, ErrorContext, Hit, Memory, Outcome, Settings, Source
from reasonbank.search.text import tokens_in
from reasonbank.store.vectors import embedding_text

START = 1_767_225_600_000_000  # 2026-01-01
PAUSE = 8_640_000_000  # Ten tasks a day.
LAST = 0.2
"""The last fifth of a stream is its end."""
SHARES = (1 / 2, 1 / 3, 1 / 6)
"""How often an agent that mixes goes by the first memory, the second and the third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``rewards`` says of each action whether it would succeed; ``kind`` names tasks on which
    the same mistake is the same mistake."""

    text: str
    rewards: Mapping[str, float]
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """``lessons``: what every system knows at the start, action -> (title, description).

    ``poison``: (text, action) pairs that ``poisoner`` stored before, each one wrong.
    ``wrong_feedback``: how often the agent is told the opposite of what happened.
    ``given``: so many memories the agent hears; if there are several, it does not say which it
    followed, but only how the task went. It is the first, or with ``mixed`` any of them: half
    of the time the first, a third the second, else the third.
    """

    name: str
    condition: str
    lessons: Mapping[str, tuple[str, str]]
    tasks: Sequence[Task]
    poison: Sequence[tuple[str, str]] = ()
    poisoner: str = "stranger"
    wrong_feedback: float = 0.0
    given: int = 1
    mixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """``appends``: every experience becomes a memory of its own. ``reports``: outcomes are told.
    ``defaults``: it is asked as users ask."""

    name: str
    model: str = "bayesian"
    similarity: float = 0.6
    recency: float = 0.3
    error_match: float = 0.1
    remembers: bool = True
    appends: bool = False
    reports: bool = False
    defaults: bool = False

    @property
    def settings(self) -> Settings:
        plain = Settings()
        if self.defaults:
            return replace(plain, author="agent")
        return replace(
            plain,
            author="agent",
            search=replace(
                plain.search,
                similarity=self.similarity,
                recency=self.recency,
                error_match=self.error_match,
                # The agent must act in any case, so it hears the best guess.
                threshold=0.0,
            ),
            belief=replace(plain.belief, model=self.model),
        )


OURS = "ours"
UNTOLD = "ours, never told"
APPEND_ONLY = "append-only, top 1"
SYSTEMS = (
    System(name="no memory", remembers=False),
    System(name=APPEND_ONLY, appends=True, similarity=1, recency=0, error_match=0),
    System(name="cosine only", similarity=1, recency=0, error_match=0),
    System(name="recency only", appends=True, similarity=0, recency=1, error_match=0),
    System(name="Bayesian (contextd)", reports=True),
    System(name="additive", model="additive", reports=True),
    System(name="SAFLA", model="safla", reports=True),
    System(name=UNTOLD, defaults=True),
    System(name=OURS, defaults=True, reports=True),
)


@dataclass(slots=True)
class Run:
    """What happened, task by task."""

    rewards: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    """Of tasks with a memory: how likely it was said to help."""
    seen: list[float] = field(default_factory=list)
    """Of the same tasks: how they went."""
    told: list[float] = field(default_factory=list)
    """And what was told of that, which is all that a memory can know."""
    poisoned: list[bool] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    silent: list[bool] = field(default_factory=list)
    chances: int = 0
    repeated: int = 0
    _mistakes: dict[str, set[str]] = field(default_factory=dict)

    def note(
        self, task: Task, action: str, *, poisoned: bool = False, tokens: int = 0,
        silent: bool = False,
    ) -> float:  # fmt: skip
        """The agent did ``action``; returns how that went."""
        reward = task.rewards[action]
        self.rewards.append(reward)
        self.best.append(max(task.rewards.values()))
        self.poisoned.append(poisoned)
        self.tokens.append(tokens)
        self.silent.append(silent)
        failed_before = self._mistakes.setdefault(task.kind, set())
        if failed_before:
            self.chances += 1
            self.repeated += action in failed_before
        if not reward:
            failed_before.add(action)
        return reward

    def numbers(self) -> dict[str, float]:
        count = len(self.rewards)
        end = slice(count - max(1, int(LAST * count)), None)
        rewards = np.array(self.rewards)
        ece, brier = calibration(self.expected, self.told)
        hidden, _ = calibration(self.expected, self.seen)
        return {
            "success": float(rewards.mean()),
            "end": float(rewards[end].mean()),
            "regret": float((np.array(self.best) - rewards).sum()),
            "repeated": self.repeated / self.chances if self.chances else float("nan"),
            "poisoned": float(np.mean(self.poisoned[end])),
            "ece": ece,
            "ece_hidden": hidden,
            "brier": brier,
            "tokens": float(np.mean(self.tokens)),
            "silent": float(np.mean(self.silent)),
        }

    def curve(self, points: int = 50) -> list[float]:
        parts = np.array_split(np.array(self.best) - np.array(self.rewards), points)
        return [round(float(total), 1) for total in np.cumsum([part.sum() for part in parts])]


def calibration(expected: Sequence[float], seen: Sequence[float]) -> tuple[float, float]:
    from reasonbank.proof.calibration import calibrated

    if not expected:
        return float("nan"), float("nan")
    found = calibrated([(e, bool(s)) for e, s in zip(expected, seen, strict=True)])
    assert found.expected_error is not None and found.brier is not None
    return found.expected_error, found.brier


class Memories:
    """A bank as the agent holds it: lessons in, an action out."""

    def __init__(self, system: System, stream: Stream, folder: Path, embedder: Embedded) -> None:
        self.system = system
        self.embedder = embedder
        self.given = stream.given
        self.now = START
        self._fixed: dict[str, list[Hit]] = {}
        url = f"sqlite:///{folder / 'bank.db'}"
        settings = system.settings

        def opened(author: str) -> Bank:
            return Bank.open(
                url, workspace=folder, settings=replace(settings, author=author),
                embedder=embedder, clock=lambda: self.now,
            )  # fmt: skip

        self.actions: dict[str, str] = {}
        self.poison: set[str] = set()
        if stream.poison:
            with opened(stream.poisoner) as other:
                for text, action in stream.poison:
                    stored = other.record(self.lesson(text, action, succeeded=True))
                    self.actions[stored.id] = action
                    self.poison.add(stored.id)
                other.embed_new()
        self.bank = opened("agent")
        for action, (title, description) in stream.lessons.items():
            stored = self.bank.record(
                Memory(title=title, description=description, content=title, outcome=Outcome.SUCCESS)
            )
            self.actions[stored.id] = action
        self.bank.embed_new()

    def search(self, text: str, session: str) -> list[Hit]:
        """What the agent is given, best first."""
        # A bank that never changes gives the same answer again.
        if text in self._fixed:
            return self._fixed[text]
        if self.system.defaults:
            limit = self.given if self.given > 1 else None
            reply = list(self.bank.search(text, limit=limit, session=session))
        else:
            reply = list(
                self.bank.search(text, limit=self.given, min_confidence=0.0, session=session)
            )
        if not self.system.appends and not self.system.reports:
            self._fixed[text] = reply
        return reply

    def learn(self, task: Task, action: str, hit: Hit | None, session: str, told: bool) -> None:
        if self.system.reports and self.given > 1:
            self.bank.credit(session, succeeded=told)
        elif self.system.reports and hit is not None and self.actions[hit.memory.id] == action:
            self.bank.outcome(hit.memory.id, succeeded=told, session=session)
        if self.system.appends:
            stored = self.bank.record(self.lesson(task.text, action, succeeded=told))
            self.actions[stored.id] = action

    def lesson(self, text: str, action: str, *, succeeded: bool) -> Memory:
        memory = lesson(text, action, succeeded=succeeded)
        self.embedder.found_by(embedding_text(memory), text)
        return memory


def lesson(text: str, action: str, *, succeeded: bool) -> Memory:
    """What an agent writes down after a task, by rule: the task, what it did, how it went."""
    error = None
    if not succeeded:
        error = ErrorContext(
            error_type="WrongChoice",
            failure_pattern=f"{action} was tried",
            corrective_guidance=f"Do not use {action} here.",
        )
    return Memory(
        title=f"{action} {'worked' if succeeded else 'failed'}",
        description=text[:1000],
        content=action or "no option",
        outcome=Outcome.SUCCESS if succeeded else Outcome.FAILURE,
        error_context=error,
        # Both start from 0.7 then: an append-only memory has no confidence to differ by.
        source=Source.DISTILLED if succeeded else Source.SOLVED,
    )


def play(stream: Stream, system: System, seed: int, embedder: Embedded) -> Run:
    """One system on one stream, from an empty bank; the same seed gives the same run."""
    rng = random.Random(f"{seed} {stream.name} {stream.condition}")
    run = Run()
    every = list(stream.tasks[0].rewards)
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        memories = Memories(system, stream, Path(folder), embedder) if system.remembers else None
        for number, task in enumerate(stream.tasks):
            # Drawn for every system alike, whatever it does with them.
            flipped = rng.random() < stream.wrong_feedback
            guess, draw = rng.random(), rng.random()
            session = f"task {number}"
            given = memories.search(task.text, session) if memories else []
            hit, action = chosen(given, memories, every, guess, draw if stream.mixed else 0.0)
            reward = run.note(
                task, action,
                poisoned=bool(hit and memories and hit.memory.id in memories.poison),
                tokens=tokens_in(hit.memory.format_for_prompt()) if hit else 0,
                silent=bool(memories) and hit is None,
            )  # fmt: skip
            told = bool(reward) != flipped
            if memories is None:
                continue
            if hit and not hit.warning and hit.expected is not None:
                run.expected.append(hit.expected)
                run.seen.append(reward)
                run.told.append(float(told))
            memories.learn(task, action, hit, session, told=told)
            memories.now += PAUSE
        if memories:
            memories.bank.close()
    return run


def follow(count: int, mixed: bool, draw: float) -> int:
    """By which of ``count`` memories the agent goes."""
    if not mixed or count < 2:
        return 0
    shares = SHARES[:count]
    so_far = 0.0
    for place, share in enumerate(shares):
        so_far += share / sum(shares)
        if draw < so_far:
            return place
    return len(shares) - 1


def chosen(
    given: Sequence[Hit], memories: Memories | None, every: Sequence[str], guess: float,
    draw: float,
) -> tuple[Hit | None, str]:  # fmt: skip
    """Do what a memory says; not what another warns of; without one, anything.

    Returns the memory that was followed, or else the first warning. With a ``draw`` it may be
    any of those given.
    """
    if memories is None:
        return None, every[int(guess * len(every))]
    advice = [hit for hit in given if not hit.warning]
    if advice:
        hit = advice[follow(len(advice), draw > 0.0, draw)]
        return hit, memories.actions[hit.memory.id]
    warned = {memories.actions[hit.memory.id] for hit in given}
    open_to = [action for action in every if action not in warned] or list(every)
    return (given[0] if given else None), open_to[int(guess * len(open_to))]


def quick_folder() -> str | None:
    """Memory-backed where there is one: thousands of commits are no test of a disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None

"""Memory-aware test-time scaling: how many attempts, made how, and which of them is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import anyio

from reasonbank.agent.attempts import Attempt, leaders
from reasonbank.agent.thinking import Thinking
from reasonbank.errors import ModelError
from reasonbank.model import Hit, Outcome

MOST_ATTEMPTS = 5
# Relevance times trust: from here on a known strategy is as good as an answer, or a help.
SURE, HELPFUL = 0.6, 0.35


class Difficulty(StrEnum):
    """How hard a task is. Memories say it in words of their own."""

    SIMPLE = "simple"
    MODERATE = "moderate"
    COMPLEX = "complex"


_WORDS = {
    Difficulty.SIMPLE: "simple easy trivial basic low beginner",
    Difficulty.MODERATE: "moderate medium intermediate normal average",
    Difficulty.COMPLEX: "complex hard difficult advanced expert high challenging",
}
_MEANT = {word: difficulty for difficulty, words in _WORDS.items() for word in words.split()}
_MORE = {Difficulty.SIMPLE: -1, Difficulty.MODERATE: 0, Difficulty.COMPLEX: 1}


class Mode(StrEnum):
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    ADAPTIVE = "adaptive"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlan:
    """How many attempts, and why so many."""

    k: int
    sequential: bool
    reason: str


def plan(
    mode: Mode, k: int, hits: Sequence[Hit], difficulty: Difficulty | None = None
) -> AttemptPlan:
    """``difficulty`` is what the caller says; else it is that of the memories in sight."""
    if mode is Mode.ADAPTIVE:
        chosen, reason = _adapted(k, hits, difficulty)
        return AttemptPlan(k=chosen, sequential=False, reason=reason)
    if mode is Mode.OFF:
        return AttemptPlan(k=1, sequential=False, reason="scaling is off")
    return AttemptPlan(k=k, sequential=mode is Mode.SEQUENTIAL, reason=f"{k} were asked for")


def _adapted(most: int, hits: Sequence[Hit], told: Difficulty | None) -> tuple[int, str]:
    """Few attempts where the bank knows what worked, many where it knows of trouble, or nothing;
    one step fewer for a simple task, one more for a complex one."""
    need, because = _needed(hits)
    difficulty = told or difficulty_of(hits)
    if difficulty is not None:
        source = "as was said" if told else "as tasks like it were"
        because += f"; the task is {difficulty}, {source}"
        need = max(0, min(2, need + _MORE[difficulty]))
    k = min((1, 3, MOST_ATTEMPTS)[need], most)
    return k, f"{k}: {because}"


def _needed(hits: Sequence[Hit]) -> tuple[int, str]:
    """0 for one attempt, 1 for a few, 2 for many; and why."""

    def strongest(chosen: Sequence[Hit]) -> tuple[float, str]:
        known = [(_weight(h), h) for h in chosen]
        weight, hit = max(known, key=lambda pair: pair[0], default=(0.0, None))
        if hit is None:
            return 0.0, ""
        return weight, f"relevance {hit.relevance:.2f}, confidence {hit.memory.confidence:.2f}"

    worked, said = strongest([h for h in hits if h.memory.outcome is Outcome.SUCCESS])
    failed, warned = strongest([h for h in hits if h.memory.outcome is not Outcome.SUCCESS])
    if worked == failed == 0:
        return 2, "the bank knows nothing of such a task"
    if failed >= worked:
        return 2, f"what the bank knows is mostly of failure ({warned})"
    if worked >= SURE:
        return 0, f"the task is close to one that succeeded ({said})"
    if worked >= HELPFUL:
        return 1, f"the bank knows something that may help ({said})"
    return 2, f"the bank is not confident about such a task ({said})"


def _weight(hit: Hit) -> float:
    trust = hit.memory.confidence or 0.0
    if hit.tried and hit.expected is not None:
        trust = min(trust, hit.expected)
    return hit.relevance * trust


def difficulty_of(hits: Sequence[Hit]) -> Difficulty | None:
    """What most of the memories in sight say of tasks like this, by how much each counts."""
    votes: dict[Difficulty, float] = {}
    for hit in hits:
        meant = _MEANT.get((hit.memory.difficulty or "").strip().lower())
        if meant is not None:
            votes[meant] = votes.get(meant, 0.0) + _weight(hit)
    # Of equals the harder: an attempt too many costs less than a task that fails.
    return max(votes, key=lambda one: (votes[one], _MORE[one]), default=None)


async def parallel(thinking: Thinking, k: int) -> None:
    """``k`` attempts at once; one that fails leaves the others alone."""
    failures: list[ModelError] = []

    async def one(number: int) -> None:
        try:
            await thinking.think(number, k)
        except ModelError as error:
            failures.append(error)
            thinking.failed(number, 1, error)
            await thinking.report(f"attempt {number}: failed", thinking.attempts[number], done=1)

    try:
        async with anyio.create_task_group() as group:
            for number in range(1, k + 1):
                group.start_soon(one, number)
    except ExceptionGroup as errors:
        # Not the model's side: a caller that is told of one is told enough.
        raise errors.exceptions[0] from None
    if not any(attempt.text for attempt in thinking.attempts.values()):
        raise failures[0]


async def sequential(thinking: Thinking, k: int, *, enough: float) -> None:
    """One line of thought, looked at again up to ``k`` times.

    It ends early when it is good enough, or says again what it said before.
    """
    line = [await thinking.think(1)]
    while len(line) < k and not done(line[-1], enough):
        line.append(await thinking.recheck(line, number=len(line) + 1))


async def refined(
    thinking: Thinking, chosen: Attempt, *, iterations: int, enough: float
) -> Attempt:
    """Refine the best attempt there is, until it is good enough or goes round in a circle."""
    for iteration in range(2, iterations + 1):
        if done(chosen, enough):
            break
        number = max(thinking.attempts) + 1
        new = await thinking.refine(chosen, number=number, iteration=iteration)
        if new.repeats is not None:
            break
        chosen = await selected(thinking, [chosen, new])
    return chosen


def done(attempt: Attempt, enough: float) -> bool:
    if attempt.repeats is not None or attempt.passed:
        return True
    return attempt.passed is None and attempt.score is not None and attempt.score >= enough


async def selected(thinking: Thinking, attempts: Sequence[Attempt]) -> Attempt:
    """By the verifier, then by score, then by comparing those that are equal."""
    equals = leaders(attempts)
    # A line of thought has more attempts than a question has names for; the latest know most.
    return equals[0] if len(equals) == 1 else await thinking.best_of(equals[-MOST_ATTEMPTS:])

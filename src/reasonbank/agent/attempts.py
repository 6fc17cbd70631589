"""What came of thinking about a task: attempts, and which of them is the best."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reasonbank.model import Outcome, Step
from reasonbank.safety.patterns import compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One solution that was thought of.

    ``score`` is None as long as nobody could say; ``passed`` is what the verifier said, where
    there is one. ``refines`` and ``repeats`` are numbers of earlier attempts.
    """

    number: int
    iteration: int
    text: str = ""
    notes: str | None = None
    score: float | None = None
    feedback: str | None = None
    passed: bool | None = None
    used: tuple[str, ...] | None = None
    """The memories that it says it went by; None when it did not say."""
    refines: int | None = None
    repeats: int | None = None
    error: str | None = None
    """Why there is no solution: what the model's side said."""
    at: datetime | None = None
    evaluated_at: datetime | None = None

    def steps(self) -> tuple[Step, ...]:
        """The attempt as steps of a trace."""
        n = self.iteration
        action = "think" if self.refines is None else "refine"
        if self.error is not None and not self.text:
            return (Step(iteration=n, action="fail", feedback=self.error, at=self.at),)
        steps = [Step(iteration=n, action=action, content=self.text, at=self.at)]
        if self.notes:
            steps.insert(0, Step(iteration=n, action="note", content=self.notes, at=self.at))
        if self.score is not None or self.feedback is not None:
            steps.append(
                Step(iteration=n, action="evaluate", score=self.score, feedback=self.feedback,
                     at=self.evaluated_at)
            )  # fmt: skip
        return tuple(steps)

    def outcome(self, enough: float) -> Outcome | None:
        if self.passed is not None:
            return Outcome.SUCCESS if self.passed else Outcome.FAILURE
        if self.score is None:
            return None if self.text else Outcome.FAILURE
        return Outcome.SUCCESS if self.score >= enough else Outcome.FAILURE


def digest(text: str) -> str:
    """Equal for attempts that differ in blanks only."""
    return hashlib.sha256(re.sub(r"\s+", " ", text).strip().encode()).hexdigest()


def rank_key(attempt: Attempt) -> tuple[bool, bool, float]:
    """What an attempt is ranked by: any solution, then the verifier, then the score."""
    return (
        bool(attempt.text),
        bool(attempt.passed),
        -1.0 if attempt.score is None else attempt.score,
    )


def leaders(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts that no other outranks, each text once, the earliest first."""
    ranked = [a for a in attempts if a.text and a.repeats is None]
    top = max(map(rank_key, ranked), default=None)
    return [a for a in ranked if rank_key(a) == top]


def best(attempts: Sequence[Attempt]) -> Attempt | None:
    """The best of all; of equals the latest, which had the most to go by."""
    found = leaders(attempts)
    return found[-1] if found else None


_USED = compile(r"(?im)^[ \t>*_`]{0,40}used memories[*_`]{0,40}:(.*)$\n?")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOTES = re.compile(r"<(/?)notes>", re.IGNORECASE)


def declared(reply: str) -> tuple[str, tuple[str, ...] | None]:
    """The reply without the line that says which memories were used, and their ids."""
    line = _USED.search(reply)
    if line is None:
        return reply, None
    return _USED.sub("", reply, count=1), tuple(dict.fromkeys(_ID.findall(line[1].lower())))


def parted(reply: str) -> tuple[str, str | None]:
    """A solution, and the notes that came with it."""
    noted, kept = [], []
    position, begun = 0, None
    for mark in _NOTES.finditer(reply):
        if not mark[1]:
            begun = mark if begun is None else begun
        elif begun is not None:
            noted.append(reply[begun.end() : mark.start()].strip())
            kept.append(reply[position : begun.start()])
            position, begun = mark.end(), None
    notes = "\n".join(noted)
    rest = "".join((*kept, reply[position:])).strip()
    # Notes alone are no solution; then the reply is taken as it is.
    return (rest, notes or None) if rest else (reply.strip(), None)

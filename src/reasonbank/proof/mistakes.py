"""Repeated mistakes: how often did a failure happen again that a warning was there for? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reasonbank.model import Memory, Outcome, Trace
from reasonbank.search.text import error_match

SAME = 0.8
"""From this match of error type or pattern on, it is the same mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """``failures`` counts all; ``warned`` those whose like was stored as a warning before.

    ``by_warning`` says which warnings were not heeded, and how often.
    """

    failures: int
    warned: int
    by_warning: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> float | None:
        return self.warned / self.failures if self.failures else None


def repeated(memories: Iterable[Memory], traces: Sequence[Trace]) -> Repeated:
    """Failures are the failed tasks that were traced, and the warnings that were recorded
    (but not those that a failed trace was turned into: that was one failure)."""
    learned = {id for trace in traces for id in trace.memories_learned}
    warnings = [memory for memory in memories if memory.error_context and memory.created_at]
    failures = [(*_told(memory), memory.id) for memory in warnings if memory.id not in learned]
    failures += [
        (trace.created_at, _text(trace), "")
        for trace in traces
        if trace.outcome is Outcome.FAILURE and trace.created_at
    ]
    counts: dict[str, int] = {}
    warned = 0
    for at, text, own in failures:
        again = [w.id for w in warnings if w.id != own and _before(w, at) and _matches(w, text)]
        warned += bool(again)
        for id in again:
            counts[id] = counts.get(id, 0) + 1
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return Repeated(failures=len(failures), warned=warned, by_warning=tuple(ranked))


def _told(memory: Memory) -> tuple[datetime, str]:
    assert memory.error_context is not None and memory.created_at is not None
    error = memory.error_context
    parts = (error.error_type, error.failure_pattern, error.error_message)
    return memory.created_at, "\n".join(part for part in parts if part)


def _text(trace: Trace) -> str:
    steps = (part for step in trace.trajectory for part in (step.content, step.feedback) if part)
    return "\n".join((trace.task, *steps))


def _before(warning: Memory, at: datetime) -> bool:
    return warning.created_at is not None and warning.created_at < at


def _matches(warning: Memory, text: str) -> bool:
    error = warning.error_context
    assert error is not None
    return error_match(text, error.error_type, error.failure_pattern) >= SAME

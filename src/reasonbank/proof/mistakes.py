"""Repeated mistakes: how often did a failure happen again that a warning was there for? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reasonbank.learn import session
from reasonbank.learn.failures import is_same
from reasonbank.learn.outcome import passed
from reasonbank.learn.session import Command
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """How often sessions met a failure that a warning was stored for before.

    ``again``: a command failed like that; ``although_shown``: and the warning had been shown in
    that session before. ``avoided``: the warning was shown, work went on, and the failure did not
    come. A session counts once, however often it tried; the one that a warning was learned from
    does not.
    """

    again: int = 0
    although_shown: int = 0
    avoided: int = 0

    def __add__(self, other: Met) -> Met:
        return Met(
            again=self.again + other.again,
            although_shown=self.although_shown + other.although_shown,
            avoided=self.avoided + other.avoided,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InSessions:
    """What sessions met in all, and warning by warning."""

    all: Met = Met()
    by_warning: tuple[tuple[str, Met], ...] = ()


def in_sessions(
    memories: Iterable[Memory],
    traces: Iterable[Trace],
    shown: Mapping[str, Mapping[str, datetime]],
) -> InSessions:
    """``shown``: by trace, which memories its session was given, and when first."""
    warnings = [memory for memory in memories if memory.error_context and memory.created_at]
    found: dict[str, Met] = {}
    for trace in traces if warnings else ():
        ran = list(_ran(trace))
        failed = [(at, command) for at, command in ran if passed(command) is False]
        given = shown.get(trace.id, {})
        for warning in warnings:
            if warning.id not in trace.memories_learned:
                met = _met(warning, ran, failed, given.get(warning.id))
                found[warning.id] = found.get(warning.id, Met()) + met
    ranked = sorted(found.items(), key=lambda entry: (-entry[1].again, entry[0]))
    return InSessions(
        all=sum(found.values(), Met()),
        by_warning=tuple((id, met) for id, met in ranked if met != Met()),
    )


def _ran(trace: Trace) -> Iterator[tuple[datetime, Command]]:
    """What was run, and when: where no step says so, when the session was stored."""
    latest = None
    for step, entry in zip(trace.trajectory, session.of_trace(trace).entries, strict=True):
        latest = step.at or latest
        at = latest or trace.created_at
        if isinstance(entry, Command) and at is not None:
            yield at, entry


def _met(
    warning: Memory, ran: Sequence[tuple[datetime, Command]],
    failed: Iterable[tuple[datetime, Command]], shown: datetime | None,
) -> Met:  # fmt: skip
    again = (
        at for at, command in failed
        if _before(warning, at) and is_same(warning.error_context, command)
    )  # fmt: skip
    if first := next(again, None):
        return Met(again=1, although_shown=int(shown is not None and shown <= first))
    went_on = shown is not None and any(at >= shown for at, _ in ran)
    return Met(avoided=int(went_on))


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

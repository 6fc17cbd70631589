"""What can happen to a bank, and how a replay applies it.

The log of events is the truth; every table is a projection of it. This module is
pure: it names the events and folds those of one memory into how the memory stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from reasonbank.errors import InvalidInput
from reasonbank.model import (
    JSON,
    LESSON,
    ErrorContext,
    Memory,
    Outcome,
    Revision,
    Scope,
    Source,
    State,
    from_micros,
)


class EventType(StrEnum):
    RECORDED = "memory.recorded"
    REVISED = "memory.revised"
    ARCHIVED = "memory.archived"
    RESTORED = "memory.restored"
    UNDONE = "memory.undone"
    FORGOTTEN = "memory.forgotten"
    USED = "memory.used"
    OBSERVED = "evidence.observed"
    LINKED = "link.drawn"
    UNLINKED = "link.removed"
    WITHHELD = "task.withheld"
    ENDED = "task.ended"
    TRACED = "trace.stored"
    LEARNED = "trace.learned"
    PURGED = "trace.purged"
    JOINED = "workspace.joined"
    NAMED = "workspace.named"
    MOVED = "workspace.moved"
    DELETED = "workspace.deleted"
    IMPORTED = "bank.imported"
    RESET = "statistics.reset"
    RETRIED = "job.retried"
    DROPPED = "job.dropped"
    GAPS_FORGOTTEN = "gaps.forgotten"
    ADMITTED = "token.created"
    REVOKED = "token.revoked"
    APPLIED = "batch.applied"
    REVERTED = "batch.reverted"


CHANGES = frozenset(
    {
        EventType.RECORDED,
        EventType.REVISED,
        EventType.ARCHIVED,
        EventType.RESTORED,
        EventType.UNDONE,
    }
)
"""The events that a memory's standing is folded from."""

NOTES = frozenset(
    {
        EventType.IMPORTED,
        EventType.RESET,
        EventType.RETRIED,
        EventType.DROPPED,
        EventType.GAPS_FORGOTTEN,
        EventType.ADMITTED,
        EventType.REVOKED,
    }
)
"""Said for the audit only: they have no payload, are not replayed and never leave the bank."""
BATCHES = frozenset({EventType.APPLIED, EventType.REVERTED})
"""What was done to several memories in one go, and is taken back in one go.

Each step of a batch is one ``APPLIED`` event about the batch's id, in the transaction of what
it did: the memory that was created, those archived into it, the links drawn. The log is the
only place where batches are kept.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``subject`` is the memory, trace or workspace it is about. ``at`` is in
    microseconds, and later than every event that its bank had seen. ``origin`` is the
    bank it was first written in; with author and surface it is set by the program,
    never by what a caller sends."""

    id: str
    type: EventType
    subject: str
    workspace: str
    at: int
    origin: str
    author: str
    surface: str
    payload: JSON

    @property
    def order(self) -> tuple[int, str, str]:
        """The same on every replica."""
        return (self.at, self.origin, self.id)

    def to_json(self) -> JSON:
        return {
            "event": str(self.type),
            "id": self.id,
            "subject": self.subject,
            "workspace": self.workspace,
            "at": self.at,
            "origin": self.origin,
            "author": self.author,
            "surface": self.surface,
            "payload": self.payload,
        }

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        try:
            type = EventType(data["event"])
            texts = {
                name: data[name]
                for name in ("id", "subject", "workspace", "origin", "author", "surface")
            }
            at, payload = data["at"], data["payload"]
        except KeyError as missing:
            raise InvalidInput(str(missing.args[0]), "is missing from an event") from None
        except ValueError:
            raise InvalidInput(
                "event", f"{str(data['event'])[:80]!r} is unknown; a newer program may know it"
            ) from None
        if not all(isinstance(value, str) for value in texts.values()):
            raise InvalidInput("event", "its ids and names must be texts")
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < 1 << 62:
            raise InvalidInput("at", f"{at!r} is not a time in microseconds")
        if not isinstance(payload, dict):
            raise InvalidInput("payload", "must be an object")
        return cls(type=type, at=at, payload=payload, **texts)


def lesson(memory: Memory) -> JSON:
    """The part of a memory that its author wrote, as it goes into the log."""
    found: JSON = {}
    for name in LESSON:
        if value := getattr(memory, name):
            found[name] = value
    if memory.error_context:
        found["error_context"] = memory.error_context.to_json()
    return found


@dataclass(frozen=True, slots=True)
class _Version:
    lesson: JSON
    state: State
    merged_into: str | None


def revisions(events: Iterable[Event]) -> list[Revision]:
    """How one memory stood after each change, oldest first; any order of ``events`` will do.

    An undo steps back from the change before it, and a second undo one further.
    """
    return _replayed(events)[0]


def can_undo(events: Iterable[Event]) -> bool:
    """Whether a change of this memory is left that an undo could take back."""
    return len(_replayed(events)[1]) > 1


def _replayed(events: Iterable[Event]) -> tuple[list[Revision], list[_Version]]:
    stack: list[_Version] = []
    versions: list[_Version] = []
    result: list[Revision] = []
    first: Event | None = None
    for event in sorted((e for e in events if e.type in CHANGES), key=lambda e: e.order):
        if event.type is EventType.RECORDED:
            if stack:
                continue  # The same memory, recorded by a replica as well.
            stack, first = [_Version(event.payload["lesson"], State.ACTIVE, None)], event
        elif not stack:
            continue  # Its recording is not here (yet).
        else:
            _apply(event, stack, versions)
        versions.append(stack[-1])
        assert first is not None
        result.append(_revision(first, event, stack[-1], len(versions)))
    return result, stack


def _apply(event: Event, stack: list[_Version], versions: list[_Version]) -> None:
    now = stack[-1]
    match event.type:
        case EventType.REVISED:
            changed = {k: v for k, v in (now.lesson | event.payload["changes"]).items() if v}
            stack.append(_Version(changed, now.state, now.merged_into))
        case EventType.ARCHIVED:
            stack.append(_Version(now.lesson, State.ARCHIVED, event.payload.get("merged_into")))
        case EventType.RESTORED:
            stack.append(_Version(now.lesson, State.ACTIVE, None))
        case EventType.UNDONE:
            to = event.payload.get("to")
            if to is None:
                if len(stack) > 1:
                    stack.pop()
            elif 1 <= to <= len(versions):
                stack.append(versions[to - 1])


def _revision(first: Event, event: Event, version: _Version, number: int) -> Revision:
    memory = memory_of(
        version.lesson,
        id=first.subject,
        state=version.state,
        merged_into=version.merged_into,
        revision=number,
        stage=int(first.payload.get("stage", 0)),
        workspace=first.workspace,
        author=first.author,
        created_at=from_micros(first.payload.get("created_at", first.at)),
    )
    return Revision(
        number=number,
        change=event.type.partition(".")[2],
        at=from_micros(event.at),
        author=event.author,
        surface=event.surface,
        memory=memory,
    )


# A lookup costs a tenth of an enum's call.
_OUTCOMES = {str(outcome): outcome for outcome in Outcome}
_SCOPES = {str(scope): scope for scope in Scope}
_SOURCES = {str(source): source for source in Source}


def memory_of(lesson: JSON, **known: Any) -> Memory:
    """The memory that a lesson of the log describes."""
    fields = lesson | {"outcome": _OUTCOMES[lesson["outcome"]]}
    if "scope" in fields:
        fields["scope"] = _SCOPES[fields["scope"]]
    if "source" in fields:
        fields["source"] = _SOURCES[fields["source"]]
    if "tags" in fields:
        fields["tags"] = tuple(fields["tags"])
    if "parents" in fields:
        fields["parents"] = tuple(fields["parents"])
    if "source_span" in fields:
        fields["source_span"] = tuple(fields["source_span"])
    if "error_context" in fields:
        fields["error_context"] = ErrorContext(**fields["error_context"])
    return Memory(**fields, **known)


def encode(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def evidence_key(memory_id: str, kind: str, rater: str, session: str) -> bytes:
    """The same observation has the same key, wherever and however often it is reported."""
    text = "\0".join((memory_id, kind, rater, session))
    return hashlib.sha256(text.encode()).digest()[:16]

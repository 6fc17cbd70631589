"""What can happen to a bank, and how a replay applies it.

The log of events is the truth; every table is a projection of it. This module is
pure: it names the events and folds those of one memory into how the memory stands.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from reasonbank.errors import InvalidInput
from reasonbank.fields import choice
from reasonbank.model import (
    JSON,
    LESSON,
    REVISABLE,
    ErrorContext,
    EvidenceKind,
    Memory,
    Outcome,
    Principal,
    Revision,
    Scope,
    Source,
    Standing,
    State,
    from_micros,
)
from reasonbank.values import valueclass


class EventType(StrEnum):
    RECORDED = "memory.recorded"
    REVISED = "memory.revised"
    ARCHIVED = "memory.archived"
    RESTORED = "memory.restored"
    UNDONE = "memory.undone"
    ACCEPTED = "memory.accepted"
    FORGOTTEN = "memory.forgotten"
    USED = "memory.used"
    OBSERVED = "evidence.observed"
    LINKED = "link.drawn"
    UNLINKED = "link.removed"
    WITHHELD = "task.withheld"
    ENDED = "task.ended"
    JUDGED = "task.judged"
    TRACED = "trace.stored"
    LEARNED = "trace.learned"
    PURGED = "trace.purged"
    JOINED = "workspace.joined"
    NAMED = "workspace.named"
    MOVED = "workspace.moved"
    MERGED = "workspace.merged"
    DELETED = "workspace.deleted"
    IMPORTED = "bank.imported"
    RESET = "statistics.reset"
    RETRIED = "job.retried"
    DROPPED = "job.dropped"
    GAPS_FORGOTTEN = "gaps.forgotten"
    ADMITTED = "token.created"
    REVOKED = "token.revoked"
    INVITED = "peer.invited"
    UNINVITED = "peer.uninvited"
    MET = "peer.met"
    TRUSTED = "peer.trusted"
    DOUBTED = "peer.doubted"
    CUT_OFF = "peer.cut_off"
    APPLIED = "batch.applied"
    REVERTED = "batch.reverted"


CHANGES = frozenset(
    {
        EventType.RECORDED,
        EventType.REVISED,
        EventType.ARCHIVED,
        EventType.RESTORED,
        EventType.UNDONE,
        EventType.ACCEPTED,
    }
)
"""The events that a memory's standing is folded from."""

OBSERVATIONS = frozenset({EventType.USED, EventType.OBSERVED})
"""The events that evidence about a memory is folded from."""

NOTES = frozenset(
    {
        EventType.IMPORTED,
        EventType.RESET,
        EventType.RETRIED,
        EventType.DROPPED,
        EventType.GAPS_FORGOTTEN,
        EventType.ADMITTED,
        EventType.REVOKED,
        EventType.INVITED,
        EventType.UNINVITED,
        EventType.MET,
        EventType.TRUSTED,
        EventType.DOUBTED,
        EventType.CUT_OFF,
    }
)
"""Said for the audit only: they have no payload, are not replayed and never leave the bank."""
BATCHES = frozenset({EventType.APPLIED, EventType.REVERTED})
"""What was done to several memories in one go, and is taken back in one go.

Each step of a batch is one ``APPLIED`` event about the batch's id, in the transaction of what
it did: the memory that was created, those archived into it, the links drawn. The log is the
only place where batches are kept.

A step may name earlier events that count for nothing while it stands. They stay where they are.
"""
REVERT = "revert"
"""The kind of a batch whose steps take back what somebody wrote."""
LINKS = frozenset({EventType.LINKED, EventType.UNLINKED})
REVERTIBLE = (
    CHANGES | OBSERVATIONS | BATCHES | LINKS | {EventType.ENDED, EventType.JUDGED, EventType.TRACED}
)
"""What can be taken back; of a trace, that which was learned from it."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``subject`` is the memory, trace, task or workspace it is about.

    ``origin`` is the bank it was first written in; ``counter`` is greater than that of every event
    which that bank had seen, and with the id the only order there is. ``at`` is what a clock said
    (microseconds): data, for clocks are wrong. ``author`` and ``principal`` say who acted,
    ``surface`` through what, ``batch`` as part of what; all of this is set by the program, never
    by what a caller sends.

    ``digest`` is a salted hash of the payload, and ``prev`` the link of the event that its bank
    wrote before: a chain. What is forgotten loses payload and salt (``redacted``), and the chain
    still holds. A payload without its salt was changed on purpose: a quotation was taken out.
    """

    id: str
    type: EventType
    subject: str
    workspace: str
    at: int
    origin: str
    author: str
    surface: str
    payload: JSON
    counter: int = 0
    principal: Principal = Principal.AGENT
    batch: str | None = None
    prev: str | None = None
    digest: str | None = None
    salt: str | None = None
    redacted: bool = False
    taken_back: bool = False
    """Whether it counts for nothing, as this bank has it (``taken_back``)."""

    @property
    def order(self) -> tuple[int, str]:
        """The same on every replica."""
        return (self.counter, self.id)

    def sealed(self, counter: int, prev: str) -> Self:
        """As the next event of its bank's chain."""
        salt = os.urandom(16).hex()
        digest = payload_digest(salt, encode(self.payload))
        return replace(self, counter=counter, prev=prev, salt=salt, digest=digest)

    @property
    def link(self) -> str:
        """What the next event of the same bank names as its ``prev``."""
        told = (self.prev, self.digest, self.id, self.type, self.subject, self.workspace,
                self.counter, self.at, self.origin, self.author, self.principal, self.surface,
                self.batch)  # fmt: skip
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def intact(self) -> bool:
        """Whether the payload is the one that was written; nothing is said against one that
        was taken out or changed on purpose, or that is older than the chain."""
        if self.redacted or self.salt is None:
            return True
        return self.digest == payload_digest(self.salt, encode(self.payload))

    def to_json(self) -> JSON:
        told: JSON = {
            "event": str(self.type),
            "id": self.id,
            "subject": self.subject,
            "workspace": self.workspace,
            "counter": self.counter,
            "at": self.at,
            "origin": self.origin,
            "author": self.author,
            "principal": str(self.principal),
            "surface": self.surface,
            "payload": None if self.redacted else self.payload,
        }
        for name in ("batch", "prev", "digest", "salt"):
            if (value := getattr(self, name)) is not None:
                told[name] = value
        return told

    @classmethod
    def from_json(cls, data: JSON) -> Self:
        try:
            type = EventType(data["event"])
            texts = {name: data[name] for name in _TEXTS}
            at, payload = data["at"], data["payload"]
        except KeyError as missing:
            raise InvalidInput(str(missing.args[0]), "is missing from an event") from None
        except ValueError:
            raise InvalidInput(
                "event", f"{str(data['event'])[:80]!r} is unknown; a newer program may know it"
            ) from None
        principal = choice(Principal, data.get("principal", Principal.AGENT), "principal")
        maybe: JSON = {name: data.get(name) for name in ("batch", "prev", "digest", "salt")}
        if not all(isinstance(value, str) for value in texts.values()) or not all(
            value is None or isinstance(value, str) for value in maybe.values()
        ):
            raise InvalidInput("event", "its ids and names must be texts")
        # Before there was a counter, times were made to grow from event to event.
        counter: Any = data.get("counter", at)
        if not (_is_number(at) and at < END_OF_TIME):
            raise InvalidInput("at", f"{at!r} is not a time in microseconds")
        if not _is_number(counter):
            raise InvalidInput("counter", f"{counter!r} is not a whole number from 0 to 2^62")
        if payload is not None and not isinstance(payload, dict):
            raise InvalidInput("payload", "must be an object")
        return cls(
            type=type, at=at, counter=counter, payload=payload or {}, redacted=payload is None,
            principal=principal, **texts, **maybe,
        )  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


END_OF_TIME = 253_402_300_800_000_000
"""The year 10,000: no calendar of ours goes further."""
_TEXTS = ("id", "subject", "workspace", "origin", "author", "surface")


def payload_digest(salt: str, payload: str) -> str:
    return hashlib.sha256(f"{salt}\0{payload}".encode()).hexdigest()


def homes(merges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Where what was written in each merged workspace belongs, by what was said in this order.

    Of two that merged one workspace the first is right, and none is merged into itself by a detour.
    """
    into: dict[str, str] = {}
    for source, target in merges:
        if source not in into and _end(into, target) != source:
            into[source] = target
    return {source: _end(into, source) for source in into}


def _end(into: dict[str, str], workspace: str) -> str:
    while workspace in into:
        workspace = into[workspace]
    return workspace


def taken_back(batches: Iterable[Event]) -> dict[str, tuple[int, str]]:
    """What counts for nothing, and since which event: events by their ids, and memories, of which
    nothing counts that was observed before.

    An event can only name what came before it. So the last word is known, and from there on
    backwards which of the others stand.
    """
    found: dict[str, tuple[int, str]] = {}
    for event in sorted(batches, key=lambda e: e.order, reverse=True):
        if event.id not in found:
            named = [*event.payload.get("events", ()), *event.payload.get("steps", ())]
            if event.payload.get("kind") == REVERT:
                named += event.payload["archived"]
            found |= {id: event.order for id in named if id not in found}
    return found


def sessions_of(event: Event) -> set[str]:
    """The names of the session that an event is of, as far as it says so."""
    payload = event.payload
    names = {payload.get("session")}
    match event.type:
        case EventType.ENDED | EventType.JUDGED:
            names.add(event.subject)
        case EventType.RECORDED:
            names.add(payload["lesson"].get("source_session"))
        case EventType.TRACED:
            names |= {event.subject, payload["trace"].get("metadata", {}).get("session")}
    return {name for name in names if isinstance(name, str)}


HANDS = {Principal.MODEL: Principal.AGENT}
"""What a model wrote, the agent that it works for wrote."""


PEERS = f"{Principal.PEER}:"
"""What the hands of other banks begin with."""


def hand(principal: Principal, who: str) -> str:
    """One of those whose word counts by itself: a person, an agent they run, a token."""
    return f"{HANDS.get(principal, principal)}:{who}"


def hand_of(event: Event) -> str:
    """Whose word an event is. A name that an account of this machine gave itself is not asked."""
    return hand(event.principal, event.payload.get("who", event.author))


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
    standing: Standing = Standing.CONFIRMED
    put: Event | None = None
    """What put it on probation."""
    since: int = 0
    """What is older than the event with this counter says nothing of it."""
    idle: bool = False
    """Whether the change that led here was taken back, so that it stands as before."""


def revisions(events: Iterable[Event]) -> list[Revision]:
    """How one memory stood after each change, oldest first; any order of ``events`` will do.

    An undo steps back from the change before it, and a second undo one further.
    """
    return _replayed(events)[0]


def put_on_probation(events: Iterable[Event]) -> tuple[Event | None, int]:
    """The event that put a memory on probation, if it stands there, and the counter of the one
    since which it has been as it is."""
    stack = _replayed(events)[1]
    return (stack[-1].put, stack[-1].since) if stack else (None, 0)


def steps_back(events: Iterable[Event]) -> int:
    """How many undos it takes until the memory stands as before its last change; 0 if none is left.

    What was taken back is stepped over.
    """
    stack = _replayed(events)[1]
    steps = 1
    while steps < len(stack) and stack[-steps].idle:
        steps += 1
    return steps if steps < len(stack) else 0


def _replayed(events: Iterable[Event]) -> tuple[list[Revision], list[_Version]]:
    stack: list[_Version] = []
    versions: list[_Version] = []
    result: list[Revision] = []
    first: Event | None = None
    for event in sorted((e for e in events if e.type in CHANGES), key=lambda e: e.order):
        if event.type is EventType.RECORDED:
            if stack:
                continue  # The same memory, recorded by a replica as well.
            began = _Version(event.payload["lesson"], State.ACTIVE, None)
            stack, first = [_put(began, event)], event
        elif not stack:
            continue  # Its recording is not here (yet).
        elif event.taken_back:
            # It has its place all the same: whoever undid it meant this one, and no other.
            stack.append(replace(stack[-1], idle=True))
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
            stack.append(_put(replace(now, lesson=changed, idle=False), event))
        case EventType.ARCHIVED:
            into = event.payload.get("merged_into")
            stack.append(replace(now, state=State.ARCHIVED, merged_into=into, idle=False))
        case EventType.RESTORED:
            stack.append(replace(now, state=State.ACTIVE, merged_into=None, idle=False))
        case EventType.ACCEPTED:
            of = event.payload.get("of")
            if of is None or of == text_digest(now.lesson):
                now = replace(now, standing=Standing.CONFIRMED, put=None, since=0)
            # Else its text is another by now: one who writes it may say that it was so before.
            stack.append(replace(now, idle=False))
        case EventType.UNDONE:
            to = event.payload.get("to")
            if to is None:
                if len(stack) > 1:
                    stack.pop()
            elif 1 <= to <= len(versions):
                stack.append(replace(versions[to - 1], idle=False))
            if event.principal is not Principal.PERSON and stack[-1].lesson != now.lesson:
                # What was said meanwhile was said of other words.
                stack[-1] = replace(stack[-1], since=event.counter)


def _put(version: _Version, event: Event) -> _Version:
    """On probation, if the event says so. What a peer adds harms no less for what was there."""
    if (told := event.payload.get("standing")) is None:
        return version
    standing = Standing(told)
    if event.principal is Principal.PEER:
        standing = Standing.least((version.standing, standing))
    since = max(event.counter, event.payload.get("heard", 0))
    return replace(version, standing=standing, put=event, since=since)


def text_digest(told: JSON) -> str:
    """Of what somebody reads who accepts it; ``told`` is a lesson."""
    whole = lesson(Memory.from_json(told))
    said = {name: value for name, value in whole.items() if name in REVISABLE}
    return hashlib.sha256(encode(said).encode()).hexdigest()[:32]


def _revision(first: Event, event: Event, version: _Version, number: int) -> Revision:
    memory = memory_of(
        version.lesson,
        id=first.subject,
        state=version.state,
        standing=version.standing,
        merged_into=version.merged_into,
        revision=number,
        stage=int(first.payload.get("stage", 0)),
        workspace=first.workspace,
        author=first.author,
        created_at=from_micros(first.payload.get("created_at", first.at)),
    )
    return Revision(
        number=number,
        change=event.type.partition(".")[2] + (", taken back" if event.taken_back else ""),
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


def encode(value: JSON | str) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def evidence_key(workspace: str, memory_id: str, kind: str, rater: str, session: str) -> bytes:
    """The same observation has the same key, wherever and however often it is reported.

    It was made in ``workspace``, in whose words ``session`` names a task. Only of a rating
    does it matter who gave it.
    """
    text = "\0".join((workspace, memory_id, kind, rater if kind == RATING else "", session))
    return hashlib.sha256(text.encode()).digest()[:16]


RATING = str(EvidenceKind.EXPLICIT)

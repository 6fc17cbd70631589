"""What each event says, as rules: whatever comes from elsewhere must be what a bank could write.

Names that are not here pass: a later version may say more. Lower limits in the settings do not
count: what was allowed once can be imported.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from reasonbank.errors import InvalidInput
from reasonbank.fields import (
    LIMITS,
    SHARE,
    Id,
    Json,
    Limits,
    Many,
    Rule,
    Text,
    Whole,
    check_payload,
    checked,
    choice,
    parse_id,
    text,
)
from reasonbank.ledger.events import NOTES, Event, EventType
from reasonbank.model import (
    JSON,
    REVISABLE,
    EvidenceKind,
    LinkType,
    Memory,
    Outcome,
    Standing,
    Trace,
)
from reasonbank.values import valueclass

LARGEST_VECTOR = 8192

Ids = Annotated[tuple[str, ...], Many(Id())]
MaybeId = Annotated[str, Id()] | None
Name = Annotated[str, Text(LIMITS.label)]
MaybeName = Annotated[str, Text(LIMITS.label, blank=True)] | None
MaybePath = Annotated[str, Text(4096, blank=True)] | None
Reason = Annotated[str, Text("content", blank=True)] | None


@dataclass(frozen=True, slots=True)
class Table(Rule):
    """An object whose names keep ``key`` and whose values keep ``value``."""

    value: Rule
    key: Rule | None = None

    def check(self, value: Any, name: str, limits: Limits) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidInput(name, "must be an object")
        for key, item in value.items():
            if self.key is not None:
                self.key.check(key, name, limits)
            self.value.check(item, name, limits)
        return value


class RevisedFields(Rule):
    """Fields of a lesson with their new values; None takes away what may be left out."""

    _whole: ClassVar[JSON] = {"title": "-", "description": "-", "content": "-", "outcome": "mixed"}

    def check(self, value: Any, name: str, limits: Limits) -> JSON:
        if not isinstance(value, dict):
            raise InvalidInput(name, "must be an object")
        for part, new in value.items():
            if part not in REVISABLE or (new is None and part in self._whole):
                raise InvalidInput(f"{name}.{part}", "cannot be changed like this")
        given = {part: new for part, new in value.items() if new is not None}
        checked(Memory.from_json(self._whole | given), limits)
        return value


class Digest(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> str:
        if not isinstance(value, str) or len(value) != 32 or set(value) - set("0123456789abcdef"):
            raise InvalidInput(name, "must be 32 hexadecimal digits")
        return value


class Vector(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> str:
        told = text(value, name, 4 * LARGEST_VECTOR // 3 + 4)
        try:
            size = len(base64.b64decode(told))
        except binascii.Error:
            size = 0
        if not 1 <= size <= LARGEST_VECTOR:
            raise InvalidInput(name, f"must hold 1 to {LARGEST_VECTOR:,} bytes in base64")
        return told


class Edge(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> Any:
        if not isinstance(value, list | tuple) or len(value) != 3:
            raise InvalidInput(name, "must be lists of a source, a target and a type")
        parse_id(value[0], name)
        parse_id(value[1], name)
        choice(LinkType, value[2], name)
        return value


@valueclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    pass


@valueclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    of: Annotated[str, Digest()] | None = None
    """Its text, as it was read."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    lesson: Memory
    stage: Annotated[int, Whole(0, 1_000_000)] = 0
    created_at: Annotated[int, Whole(0)] = 0
    initial: Annotated[float, SHARE] = 0.5
    standing: Standing | None = None
    who: MaybeName = None
    heard: Annotated[int, Whole(0)] = 0
    """The counter of this bank when it heard it of another: what it said before is not of this."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Revised:
    changes: Annotated[JSON, RevisedFields()]
    standing: Standing | None = None
    who: MaybeName = None
    heard: Annotated[int, Whole(0)] = 0
    """The counter of this bank when it heard it of another: what it said before is not of this."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Archived:
    reason: Reason = None
    merged_into: MaybeId = None
    rejected: bool = False


@valueclass(frozen=True, slots=True, kw_only=True)
class Undone:
    to: Annotated[int, Whole(1, 1_000_000)] | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Several:
    """What a search returned, or what went with a workspace or a purge."""

    ids: Ids
    session: MaybeName = None
    weak: Ids = ()
    """Those of ``ids`` that came as weak matches."""
    times: Annotated[Mapping[str, int], Table(Whole(1, 1 << 40))] = field(default_factory=dict)
    expected: Annotated[Mapping[str, float], Table(SHARE, Id())] = field(default_factory=dict)
    vector: Annotated[str, Vector()] | None = None
    model: Name | None = None
    drawn: Annotated[float, SHARE] | None = None
    """Which share of the tasks went without memory then; not known of what is older."""
    paths: Annotated[Mapping[str, str], Table(Text(64), Text(64))] = field(default_factory=dict)

    def check_together(self) -> None:
        if self.vector is not None and self.model is None:
            raise InvalidInput("model", "is missing; a vector needs it")


@valueclass(frozen=True, slots=True, kw_only=True)
class Observed:
    kind: EvidenceKind
    positive: bool
    key: Annotated[str, Digest()] | None = None
    session: MaybeName = None
    rater: MaybeName = None
    comment: Annotated[str, Text(LIMITS.comment, blank=True)] | None = None
    witnessed: bool = False
    share: Annotated[float, SHARE] | None = None
    """In the outcome of a task of another bank."""
    who: MaybeName = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Linked:
    target: Annotated[str, Id()]
    type: LinkType
    strength: Annotated[float, SHARE] = 1.0


@valueclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    ids: Ids
    drawn: Annotated[float, SHARE] | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Ended:
    succeeded: bool
    who: MaybeName = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """``after`` so many steps of the trace that is stored already it goes on; ``learned`` of all
    these steps were learned from before, though they may stand elsewhere than they did."""

    trace: Trace
    at: Annotated[int, Whole(0)]
    after: Annotated[int, Whole(0)] | None = None
    learned: Annotated[int, Whole(0)] | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """``confirmed`` are the memories that said the same already."""

    ids: Ids
    confirmed: Ids = ()
    outcome: Outcome | None = None
    score: Annotated[float, SHARE] | None = None
    by: MaybeName = None
    reason: Reason = None
    steps: Annotated[int, Whole(0)] | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a workspace is, or what it is called."""

    path: MaybePath = None
    digest: MaybePath = None
    old_digest: MaybePath = None
    heir: MaybePath = None
    team: Name = "-"
    org: Name = "-"
    name: Name = "-"


@valueclass(frozen=True, slots=True, kw_only=True)
class Merged:
    into: Name


@valueclass(frozen=True, slots=True, kw_only=True)
class Applied:
    kind: Annotated[str, Text(64)]
    created: MaybeId
    archived: Ids
    links: Annotated[tuple[Any, ...], Many(Edge())]
    events: Ids = ()
    """Those that it takes back."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    steps: Ids
    events: Ids = ()


_ID, _SESSION, _ANY = Id(), Text(LIMITS.label), Rule()
PAYLOADS: dict[EventType, tuple[Rule, type[Any]]] = {
    EventType.RECORDED: (_ID, Recorded),
    EventType.REVISED: (_ID, Revised),
    EventType.ARCHIVED: (_ID, Archived),
    EventType.RESTORED: (_ID, Nothing),
    EventType.UNDONE: (_ID, Undone),
    EventType.ACCEPTED: (_ID, Accepted),
    EventType.FORGOTTEN: (_ID, Nothing),
    EventType.USED: (_ANY, Several),
    EventType.OBSERVED: (_ID, Observed),
    EventType.LINKED: (_ID, Linked),
    EventType.UNLINKED: (_ID, Linked),
    EventType.WITHHELD: (_SESSION, Withheld),
    EventType.ENDED: (_SESSION, Ended),
    EventType.JUDGED: (_SESSION, Ended),
    EventType.TRACED: (_ID, Traced),
    EventType.LEARNED: (_ID, Learned),
    EventType.PURGED: (_ANY, Several),
    EventType.JOINED: (_ANY, Located),
    EventType.NAMED: (_ANY, Located),
    EventType.MOVED: (_ANY, Located),
    EventType.MERGED: (_ANY, Merged),
    EventType.DELETED: (_ANY, Several),
    EventType.APPLIED: (_ID, Applied),
    EventType.REVERTED: (_ID, Reverted),
}
"""The rules of each event's subject and payload."""


def check_event(event: Event) -> None:
    """An event that this program could have written, or an error that names the field."""
    Json(LIMITS.nesting + 4).check(event.payload, "payload", LIMITS)
    parse_id(event.id)
    if event.type in NOTES:
        raise InvalidInput("event", f"{event.type} is never exported; somebody else wrote this")
    for name in ("workspace", "origin", "author", "surface"):
        text(getattr(event, name), name, LIMITS.label)
    for name in ("batch", "prev", "digest", "salt"):
        if (value := getattr(event, name)) is not None:
            text(value, name, 64, blank=True)
    subject, payload = PAYLOADS[event.type]
    subject.check(event.subject, "subject", LIMITS)
    if event.redacted:
        return
    if not event.intact:
        raise InvalidInput("payload", "is not what was written; somebody changed it")
    check_payload(payload, event.payload)
    if event.type is EventType.RECORDED and event.payload.get("created_at", 0) > event.at:
        raise InvalidInput("created_at", "is later than its event")

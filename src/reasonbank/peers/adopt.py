"""What this bank makes of what others said.

Their words are kept as they signed them, to be passed on. In this bank's own log stands what it
makes of them: who wrote is the peer, whatever the entry claims; a lesson is on probation, and its
confidence begins where a stranger's does; nobody changes, forgets or links what they did not
record; and what they observed counts as theirs alone. Of a peer that a person trusts, and of this
bank's own logs that it lost, all of it counts as it stands.

The same entries make the same events, in whatever order they come, as often as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from reasonbank.errors import InvalidInput
from reasonbank.fields import parse_id
from reasonbank.ledger.events import BATCHES, CHANGES, END_OF_TIME, LINKS, Event, EventType
from reasonbank.ledger.payloads import check_event
from reasonbank.ledger.port import LogEntry, PeerLog, Writing
from reasonbank.model import (
    JSON,
    Memory,
    Principal,
    Scope,
    Source,
    Standing,
    derived_id,
    up_to_a_slash,
)
from reasonbank.peers.publish import PROJECT
from reasonbank.peers.wire import Entry, said
from reasonbank.store.context import Context
from reasonbank.store.probation import unheard_of
from reasonbank.store.transfer import without_secrets

DAY = 86_400_000_000
SURFACE = "bus"
SHORT = 16
"""Digits of a key that tell peers apart."""
MOST_BEFORE = 100
"""Entries of a log about a memory among which the one that records it is looked for."""
MOST_CHANGES = 1_000
"""Of one memory, by one stranger; what is said then is kept and passed on. How a memory stands is
told from all its changes, whenever there is another."""
_SCOPES = {"team": Scope.TEAM, "org": Scope.ORG, "project": Scope.PROJECT}
_ALWAYS = frozenset({
    EventType.RECORDED, EventType.REVISED, EventType.ARCHIVED, EventType.RESTORED,
    EventType.UNDONE, EventType.FORGOTTEN, EventType.OBSERVED, EventType.JOINED, *LINKS, *BATCHES,
})  # fmt: skip
_BRINGS_BACK = (EventType.RESTORED, EventType.UNDONE, EventType.REVISED)
_header = msgspec.msgpack.Decoder(Entry).decode


def adopt(context: Context, txn: Writing, own_key: str, subjects: Iterable[str]) -> int:
    """Bring what is told of these memories, workspaces and batches into this bank's log; returns
    how many events are new here."""
    told = txn.peers.about(dict.fromkeys(subjects))
    return txn.take(_Adopting(context, txn, own_key, told).events())


def adopt_new(
    context: Context, txn: Writing, own_key: str, log: PeerLog, rows: Sequence[LogEntry]
) -> int:
    """The same, of what has just been kept, which costs the same however much is known already:
    only with the first word of who recorded a memory does what was said of it before count."""
    told = [(log, row) for row in rows if log.fork is None or row.seq < log.fork]
    subjects = {row.subject for _, row in told}
    known = txn.peers.recorders(subjects).keys()
    # Of what was forgotten before it came here, the logs alone know who recorded it.
    recorded: dict[str, tuple[PeerLog, LogEntry]] = {}
    for each in txn.peers.first_about(log.key, subjects - known, MOST_BEFORE):
        if _header(each[1].header).type == EventType.RECORDED:
            recorded.setdefault(each[1].subject, each)
    new = {row.event for row in rows}
    before = [each for each in recorded.values() if each[1].event not in new]
    count = txn.take(_Adopting(context, txn, own_key, [*before, *told]).events())
    born = [id for id, (_, row) in recorded.items() if row.event in new]
    return count + (adopt(context, txn, own_key, born) if born else 0)


def entry_of(row: LogEntry) -> Entry:
    """As it travels."""
    return msgspec.structs.replace(_header(row.header), salt=row.salt, payload=row.payload)


def told_by(key: str) -> str:
    """How a peer is named where its word counts."""
    return key[:SHORT]


class _Adopting:
    def __init__(
        self, context: Context, txn: Writing, own_key: str, told: list[tuple[PeerLog, LogEntry]]
    ) -> None:
        self.context = context
        self.txn = txn
        self.own_key = own_key
        self.told = told
        self.peers = {peer.key: peer for peer in txn.peers.all()}
        self.projects = txn.peers.projects()
        self.own_ids = txn.peers.own_ids()
        ids = {row.subject for _, row in told}
        for _, row in told:
            if row.payload is not None and b'"target"' in row.payload:
                with suppress(ValueError, InvalidInput):
                    ids.add(parse_id(said(row.payload).get("target", "")))
        self.recorders = txn.peers.recorders(ids)
        self.rejected = txn.peers.rejected(ids)
        self.changed = txn.peers.changed(ids)
        self.latest = context.now() + DAY
        self.heard = txn.last_counter()

    def events(self) -> list[Event]:
        found = list(self._all())
        # A memory belongs to whoever recorded it, of several strangers to the first.
        for event in sorted(found, key=lambda event: event.order):
            if event.type is EventType.RECORDED:
                self.recorders.setdefault(event.subject, {event.origin})
        # What was said in the others was forgotten, or left out: then its owner tells it later.
        return [event for event in found if not event.redacted and self._may(event)]

    def _all(self) -> Iterator[Event]:
        for log, row in self.told:
            if not self._is_heard(log):
                continue
            try:
                event = self._event(log, entry_of(row))
                if event is not None:
                    check_event(event)
                    yield without_secrets(self.context, event)
            except (InvalidInput, KeyError, TypeError, ValueError, AttributeError):
                continue  # It is kept and passed on; this program has no use for it.

    def _is_heard(self, log: PeerLog) -> bool:
        if log.key == self.own_key:
            return True
        for key in (log.key, log.via):
            peer = self.peers.get(key)
            if peer is not None and peer.revoked_at is not None:
                return False
        return True

    def _counts_as_it_stands(self, key: str) -> bool:
        peer = self.peers.get(key)
        return key == self.own_key or (peer is not None and peer.trusted)

    def _event(self, log: PeerLog, entry: Entry) -> Event | None:
        type = EventType(entry.type)
        # A counter runs far behind any clock; one that does not would push all others up to it.
        if entry.counter > self.latest or entry.at >= END_OF_TIME:
            return None
        event = Event(
            id=entry.id, type=type, subject=entry.subject, workspace=entry.workspace,
            counter=entry.counter, at=entry.at, origin=log.key, author=entry.author,
            principal=Principal(entry.principal), surface=entry.surface,
            payload={} if entry.payload is None else said(entry.payload),
            redacted=entry.payload is None and type is not EventType.FORGOTTEN,
        )  # fmt: skip
        if (home := self._home(log.channel)) is not None and type in CHANGES:
            event = replace(event, workspace=home)
        elif log.channel.startswith(PROJECT) and home is None:
            return None  # Nobody here has said which folder that is.
        if not _fits(event, log.channel):
            return None
        if self._counts_as_it_stands(log.key):
            return event
        return self._as_a_strangers(event, home) if type in _ALWAYS else None

    def _home(self, channel: str) -> str | None:
        if not channel.startswith(PROJECT):
            return None
        return self.projects.get(channel.removeprefix(PROJECT))

    def _as_a_strangers(self, event: Event, home: str | None) -> Event:
        key = event.origin
        workspace = event.workspace
        if workspace != home:
            # Folders of two machines may well have the same path.
            workspace = derived_id("workspace", key, workspace)
        subject = event.subject
        if event.type is EventType.JOINED:
            subject = workspace = derived_id("workspace", key, event.subject)
        author = f"{event.author[:100]}@{told_by(key)}"
        event = replace(
            event, workspace=workspace, subject=subject, author=author, principal=Principal.PEER,
            surface=SURFACE,
        )  # fmt: skip
        return event if event.redacted else replace(event, payload=self._contained(event))

    def _contained(self, event: Event) -> JSON:
        p, who = event.payload, told_by(event.origin)
        match event.type:
            case EventType.RECORDED:
                lesson = _given({k: v for k, v in p["lesson"].items() if k != "parents"})
                lesson["source"] = str(Source.PEER)
                standing = self._standing(lesson)
                kept: JSON = {k: v for k, v in p.items() if k in ("created_at", "stage")}
                return kept | {
                    "lesson": lesson, "standing": standing, "who": who, "heard": self.heard,
                }  # fmt: skip
            case EventType.REVISED:
                changes = dict(p["changes"])
                whole = {"title": "-", "description": "-", "content": "-", "outcome": "mixed"}
                new = {k: v for k, v in changes.items() if v is not None}
                return {
                    "changes": changes, "standing": self._standing(whole | new), "who": who,
                    "heard": self.heard,
                }  # fmt: skip
            case EventType.OBSERVED:
                kept = {k: p[k] for k in ("kind", "positive", "session", "comment", "share")
                        if p.get(k) is not None}  # fmt: skip
                return kept | {"who": who}
            case EventType.ARCHIVED:
                return {k: p[k] for k in ("reason", "merged_into") if k in p}
            case EventType.JOINED:
                return {"path": None, "team": p["team"], "org": p["org"]}
            case EventType.APPLIED:
                return _given(p) | {"created": p["created"]}
            case EventType.REVERTED:
                return _given(p)
        return p

    def _standing(self, lesson: JSON) -> str:
        memory = Memory.from_json(lesson)
        risky = any(unheard_of(self.context, self.txn, memory))
        return str(Standing.WAITING if risky else Standing.UNTESTED)

    def _may(self, event: Event) -> bool:
        """Nobody but a memory's recorder says what it is, unless a person trusts them."""
        key = event.origin
        if self._counts_as_it_stands(key):
            return True
        if event.type in BATCHES:
            return self._takes_back_its_own(event)
        if event.type in (EventType.OBSERVED, EventType.JOINED):
            return True
        if event.type in _BRINGS_BACK and event.subject in self.rejected:
            return False
        if (
            event.type is not EventType.FORGOTTEN
            and self.changed.get((event.subject, key), 0) >= MOST_CHANGES
        ):
            return False
        named = [event.subject]
        if event.type in LINKS and not event.redacted:
            named.append(event.payload["target"])
        return all(self.recorders.get(id) == {key} for id in named)

    def _takes_back_its_own(self, event: Event) -> bool:
        p, key = event.payload, event.origin
        named = {*p.get("events", ()), *p.get("steps", ())}
        archived = {*p.get("archived", ())}
        own = {row.subject for log, row in self.txn.peers.about(archived) if log.key == key}
        others = [o for o in self.txn.peers.recorders(archived).values() if o != {key}]
        return named <= self.txn.peers.said(key, None, named) and archived <= own and not others


def _given(payload: JSON) -> JSON:
    """Where nothing is said, nothing stands: a list that is None is one to those who check it, and
    none to those who read it."""
    return {name: value for name, value in payload.items() if value is not None}


def _fits(event: Event, channel: str) -> bool:
    """Whether an event belongs into a channel: a team's is not told in an org's, nor another's."""
    kind, _, place = channel.partition(":")
    if event.type is EventType.JOINED and not event.redacted:
        told: Any = event.payload
        if kind == "team":
            return f"{up_to_a_slash(told['org'])}/{told['team']}" == place
        return kind == "org" and str(told["org"]) == place
    if event.type is EventType.RECORDED and not event.redacted:
        scope = event.payload["lesson"].get("scope", str(Scope.PROJECT))
        return bool(scope == _SCOPES.get(kind))
    return True

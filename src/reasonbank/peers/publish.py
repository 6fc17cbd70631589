"""What this bank tells others: its own events about memories that are shared with them.

Each channel has a log of its own, since not everybody may hear everything. What does not travel:
vectors, traces, sessions, paths, project memories unless their project is named, and what waits
for a person. How a task ended is told as what it says of each shared memory it used.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from reasonbank.ledger.events import (
    CHANGES,
    LINKS,
    Event,
    EventType,
    encode,
)
from reasonbank.ledger.port import LogEntry, PeerLog, PeerReading, PeerWriting, Writing
from reasonbank.model import JSON, EvidenceKind, derived_id, new_id
from reasonbank.peers import merge, wire
from reasonbank.peers.identity import Identity
from reasonbank.peers.wire import Entry, Log
from reasonbank.store.context import Store

AT_ONCE = 200
"""Events that are looked through in one transaction."""
LONGEST_AUTHOR = 256
PROJECT = "project:"
_EVERY, _HEAVY = 32, 128 * 1024
"""A signature vouches for so many entries, or so many bytes, at most."""
_ABOUT_MEMORIES = CHANGES | LINKS | {EventType.OBSERVED, EventType.FORGOTTEN}
_TOLD_LATE = CHANGES | {EventType.OBSERVED}
_PRIVATE = frozenset({"who", "rater", "key"})
_NEVER_IN_A_LESSON = ("source_session", "source_span")


class Grown(NamedTuple):
    """A log of this bank that has new entries from ``first`` on."""

    log: Log
    first: int


def publish(store: Store, identity: Identity, channels: Collection[str]) -> list[Grown]:
    """Put what is new into this bank's logs of these channels."""
    grown: dict[Log, Grown] = {}
    for channel in sorted(channels):
        while _is_behind(store, identity, channel):
            told = store.write(partial(_go_on, store, identity, channel))
            if told is not None:
                grown.setdefault(told.log, told)
    return list(grown.values())


def _go_on(store: Store, identity: Identity, channel: str, txn: Writing) -> Grown | None:
    return _Publishing(store, identity, txn, channel).go_on()


def _is_behind(store: Store, identity: Identity, channel: str) -> bool:
    reading = store.ledger.read()
    if realm_of(channel, reading.peers.projects()) is None:
        return False  # Nobody here has said which folder that is.
    epoch = epoch_of(store)
    log = reading.peers.log(identity.key.hex(), epoch, channel) if epoch else None
    return log is None or log.read_to < reading.last_seq()


def epoch_of(store: Store, peers: PeerReading | None = None) -> str | None:
    """Under which this bank writes its logs; None: the next time it writes, it begins anew."""
    reading = peers or store.ledger.read().peers
    epoch, _, bank = (reading.state("epoch") or " ").partition(" ")
    # A copy, or what was brought back from a backup, goes on under another id.
    return epoch if bank == store.ledger.bank_id else None


def begin_anew(store: Store, peers: PeerWriting) -> str:
    """A new epoch: others know more of the old one than this bank does, or something else."""
    epoch = new_id()
    peers.set_state("epoch", f"{epoch} {store.ledger.bank_id}")
    return epoch


def realm_of(channel: str, projects: Mapping[str, str]) -> str | None:
    """A project is shared by its name, and is another folder on each machine."""
    if not channel.startswith(PROJECT):
        return channel
    workspace = projects.get(channel.removeprefix(PROJECT))
    return None if workspace is None else PROJECT + workspace


class _Publishing:
    """One channel, in one transaction."""

    def __init__(self, store: Store, identity: Identity, txn: Writing, channel: str) -> None:
        self.txn = txn
        self.peers = txn.peers
        self.identity = identity
        self.key = identity.key.hex()
        self.channel = channel
        self.realm = realm_of(channel, self.peers.projects())
        epoch = epoch_of(store, self.peers) or begin_anew(store, self.peers)
        found = self.peers.log(self.key, epoch, channel)
        self.log = found or self.peers.begin(self.key, epoch, channel, via=self.key)
        self.wire = Log(identity.key, epoch, channel)
        self.own = self.peers.own_ids()
        self.rows: list[Entry] = []
        self.told: set[str] = set()
        self.joined: set[str] = set()

    def go_on(self) -> Grown | None:
        """So many events at a time: others who write wait no longer than that takes."""
        found = self.peers.written_here(self.own, self.log.read_to, AT_ONCE)
        self._look_through([event for _, event in found])
        seen = found[-1][0] if len(found) == AT_ONCE else self.txn.last_seq()
        self.peers.looked_through(self.log.num, seen)
        if not self.rows:
            return None
        self.peers.extend(self.log, list(self._signed()))
        return Grown(self.wire, self.log.length)

    def _look_through(self, events: list[Event]) -> None:
        named = {event.subject for event in events if event.type in _ABOUT_MEMORIES}
        shared = self._shared(named)
        known = {entry.subject for log, entry in self.peers.about(named) if self._is_ours(log)}
        said = self.peers.said(self.key, self.channel, [event.id for event in events])
        for event in events:
            if event.id not in said:
                self._tell(event, shared, known)

    def _tell(self, event: Event, shared: set[str], known: set[str]) -> None:
        match event.type:
            case EventType.JOINED:
                self._tell_all_in(event.subject, event)
            case EventType.MERGED:
                self._tell_all_in(event.payload["into"], event)
            case EventType.USED | EventType.ENDED:
                self._tell_credits(event)
            case EventType.DELETED:
                for id in event.payload["ids"]:
                    self._tell_forgotten(event, id)
            case EventType.FORGOTTEN:
                if event.subject in known:
                    self._put(event, {})
            case EventType.APPLIED | EventType.REVERTED:
                self._tell_taken_back(event)
            case _ if event.subject in shared:
                if event.type in CHANGES:
                    self._tell_all_of([event.subject])
                elif event.type in LINKS and event.payload["target"] not in self._shared(
                    [event.payload["target"]]
                ):
                    return
                self._put(event, _fit_to_tell(event))
            case EventType.ARCHIVED if event.subject in known:
                self._put(event, _fit_to_tell(event))  # Also what waits, or has left the channel.

    def _shared(self, ids: Iterable[str]) -> set[str]:
        return {id for id, realm in self.peers.shared(ids).items() if realm == self.realm}

    def _is_ours(self, log: PeerLog) -> bool:
        return (log.key, log.channel) == (self.key, self.channel)

    def _tell_all_in(self, workspace: str, event: Event) -> None:
        """The team of what ``event`` is about may be another one now."""
        ids = sorted(self._shared(self.peers.of_workspace(workspace)))
        if ids:
            self._tell_place(event.subject, event, event.id)
        for first in range(0, len(ids), AT_ONCE):
            self._tell_all_of(ids[first : first + AT_ONCE])

    def _tell_all_of(self, ids: Collection[str]) -> None:
        """They may have been written, changed or rated before they were shared, or while they
        waited for a person."""
        own = [each for each in self.txn.about(ids, _TOLD_LATE)
               if each.origin in self.own and not each.taken_back]  # fmt: skip
        said = self.peers.said(self.key, self.channel, [each.id for each in own])
        for event in own:
            if event.id not in said:
                self._put(event, _fit_to_tell(event))

    def _tell_credits(self, event: Event) -> None:
        session = event.subject if event.type is EventType.ENDED else event.payload.get("session")
        if session is None:
            return
        found = self.peers.credited(event.workspace, session)
        shared = self._shared(id for _, id, *_ in found)
        for told, id, positive, share, at in found:
            if id in shared:
                payload = {
                    "kind": str(EvidenceKind.OUTCOME), "positive": positive, "session": session,
                    "share": share,
                }  # fmt: skip
                self._put_as(event, derived_id("credit", told, id), EventType.OBSERVED, id,
                             payload, at=at)  # fmt: skip

    def _tell_forgotten(self, event: Event, id: str) -> None:
        if any(self._is_ours(log) for log, _ in self.peers.about([id])):
            self._put_as(event, derived_id("gone", event.id, id), EventType.FORGOTTEN, id, {})

    def _tell_taken_back(self, event: Event) -> None:
        """Of what this bank took back, that which others were told by it."""
        events = [*event.payload.get("events", ()), *event.payload.get("steps", ())]
        ids = event.payload.get("archived", ())
        told = self.peers.said(self.key, self.channel, events) | (self.told & {*events})
        shared = {
            entry.subject for log, entry in self.peers.about(ids) if self._is_ours(log)
        }  # fmt: skip
        if not told:
            return
        if event.type is EventType.APPLIED:
            payload: JSON = {
                "kind": event.payload["kind"], "created": None,
                "archived": [id for id in ids if id in shared], "links": [],
                "events": [id for id in event.payload["events"] if id in told],
            }  # fmt: skip
        else:
            payload = {
                name: [id for id in event.payload.get(name, ()) if id in told]
                for name in ("steps", "events")
            }
        self._put(event, payload)

    def _tell_place(self, workspace: str, event: Event, *change: str) -> None:
        """In which team a workspace is; not where. ``change`` is what put it there: it may have
        been there before."""
        if (workspace in self.joined and not change) or self.channel.startswith(PROJECT):
            return
        self.joined.add(workspace)
        team, org = self.txn.place(workspace) or ("", "")
        id = derived_id("place", self.key, workspace, team, org, *change)
        if team and not self.peers.said(self.key, self.channel, [id]):
            payload = {"path": None, "team": team, "org": org}
            self._put_as(event, id, EventType.JOINED, workspace, payload)

    def _put(self, event: Event, payload: JSON) -> None:
        self._put_as(event, event.id, event.type, event.subject, payload)

    def _put_as(
        self, event: Event, id: str, type: EventType, subject: str, payload: JSON,
        at: int | None = None,
    ) -> None:  # fmt: skip
        if id in self.told or self.peers.said(self.key, self.channel, [id]):
            return
        if type is EventType.RECORDED:
            self._tell_place(event.workspace, event)
        data = encode(payload).encode()
        if len(data) > merge.LONGEST_PAYLOAD:
            return
        salt = os.urandom(merge.SALT)
        author = event.author.replace("\0", "")[:LONGEST_AUTHOR]
        seq = self.log.length + len(self.rows)
        prev = self.log.link if not self.rows else merge.link_of(self.wire, self.rows[-1])
        entry = Entry(
            seq=seq, prev=prev, digest=merge.digest_of(salt, data), id=id, type=str(type),
            subject=subject, workspace=event.workspace, counter=event.counter,
            at=event.at if at is None else at, author=author,
            principal=str(event.principal), surface=event.surface, salt=salt, payload=data,
        )  # fmt: skip
        if not wire.can_be_read(entry):
            return  # One that nobody reads would be the end of the log: others follow from it.
        self.told.add(id)
        self.rows.append(entry)

    def _signed(self) -> Iterator[LogEntry]:
        waiting, size = 0, 0
        for number, entry in enumerate(self.rows, 1):
            link = merge.link_of(self.wire, entry)
            waiting, size = waiting + 1, size + len(entry.payload or b"")
            is_last = number == len(self.rows)
            signature = None
            if is_last or waiting >= _EVERY or size >= _HEAVY:
                signature = merge.signed(self.identity, link)
                waiting, size = 0, 0
            yield row_of(entry, link, signature)


def _fit_to_tell(event: Event) -> JSON:
    payload = {name: value for name, value in event.payload.items() if name not in _PRIVATE}
    if event.type is EventType.RECORDED:
        payload["lesson"] = {
            name: value
            for name, value in payload["lesson"].items()
            if name not in _NEVER_IN_A_LESSON
        }
    return payload


def row_of(entry: Entry, link: bytes, signature: bytes | None) -> LogEntry:
    """As it is kept: apart from what may have to be forgotten."""
    header = msgspec.msgpack.encode(msgspec.structs.replace(entry, salt=None, payload=None))
    return LogEntry(
        seq=entry.seq, event=entry.id, subject=entry.subject, link=link, signature=signature,
        header=header, salt=entry.salt, payload=entry.payload,
    )  # fmt: skip

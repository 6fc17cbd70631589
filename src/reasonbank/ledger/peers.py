"""Other banks, and what all of them said as they signed it; no part of this bank's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from reasonbank.ledger.database import Database, columns, record, records
from reasonbank.ledger.events import BATCHES, CHANGES, LINKS, Event, EventType
from reasonbank.ledger.identity import own_ids
from reasonbank.ledger.port import Invitation, LogEntry, Peer, PeerLog, TaskOffer
from reasonbank.ledger.queries.base import EVENT_AT_HOME, event_of, texts
from reasonbank.model import Principal, Standing, State

_PEER, _INVITATION, _LOG, _OFFER = map(columns, (Peer, Invitation, PeerLog, TaskOffer))
_ENTRY = ", ".join(LogEntry._fields)
_STATE = "peers."
"""What the keys of ``meta`` begin with that say something of this bank's part in all this."""
TRAVELS = (
    CHANGES
    | BATCHES
    | LINKS
    | {EventType.OBSERVED, EventType.USED, EventType.ENDED, EventType.FORGOTTEN}
    | {EventType.DELETED, EventType.JOINED, EventType.MERGED}
)
"""What others are told of, though not of all of it, and not always in these words."""
DONE = "done"
"""The state of an offer that nothing more will be spent on."""


class PeerBook:
    """The part that writes is only valid inside a transaction of its ledger."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # Who they are

    def all(self) -> list[Peer]:
        found = self._db.all(f"select {_PEER} from peers order by name")
        return records(Peer, _PEER, found)

    def peer(self, key: str) -> Peer | None:
        return record(Peer, _PEER, self._db.one(f"select {_PEER} from peers where key = ?", (key,)))

    def named(self, name: str) -> Peer | None:
        row = self._db.one(f"select {_PEER} from peers where name = ?", (name,))
        return record(Peer, _PEER, row)

    def put(self, peer: Peer) -> None:
        self._put("peers", _PEER, "key", peer)

    def invitations(self) -> list[Invitation]:
        found = self._db.all(f"select {_INVITATION} from invitations order by created_at, id")
        return records(Invitation, _INVITATION, found)

    def invitation(self, id: str) -> Invitation | None:
        row = self._db.one(f"select {_INVITATION} from invitations where id = ?", (id,))
        return record(Invitation, _INVITATION, row)

    def put_invitation(self, invitation: Invitation) -> None:
        self._put("invitations", _INVITATION, "id", invitation)

    # What this bank has to say

    def own_ids(self) -> list[str]:
        return own_ids(self._db)

    def written_here(
        self, origins: Sequence[str], after: int, limit: int
    ) -> list[tuple[int, Event]]:
        among = self._db.dialect.texts(list(origins))
        found = self._db.all(
            f"select {EVENT_AT_HOME}, seq from events where seq > ? and origin in {among.sql}"
            f" and what in {texts(TRAVELS)} and payload != '' order by seq limit ?",
            (after, *among.values, limit),
        )
        return [(row[-1], event_of(row[:-1])) for row in found]

    def shared(self, ids: Iterable[str]) -> dict[str, str]:
        """By memory: the realm that it is known in, unless it waits for a person."""
        wanted = self._db.dialect.texts([*ids])
        found = self._db.all(
            "select id, key from memories join realms on realms.num = realm"
            f" where id in {wanted.sql} and probation < ?",
            (*wanted.values, Standing.WAITING.level),
        )
        return {id: key.removeprefix(f"{State.ARCHIVED}:") for id, key in found}

    def of_workspace(self, workspace: str) -> list[str]:
        found = self._db.all("select id from memories where workspace = ?", (workspace,))
        return [id for (id,) in found]

    def credited(self, workspace: str, session: str) -> list[tuple[str, str, bool, float, int]]:
        """What the outcome of a task says of the memories it used: the event that told it, the
        memory, how it went, the memory's share in it, and when."""
        found = self._db.all(
            "select event, id, positive, share, at from evidence join memories using (num)"
            " where evidence.workspace = ? and session = ? and kind = 'outcome'"
            " and share is not null order by id",
            (workspace, session),
        )
        return [(event, id, bool(positive), share, at) for event, id, positive, share, at in found]

    # What they said

    def logs(self, channels: Sequence[str] | None = None) -> list[PeerLog]:
        where, values = "", ()
        if channels is not None:
            among = self._db.dialect.texts(list(channels))
            where, values = f"where channel in {among.sql}", among.values
        found = self._db.all(f"select {_LOG} from logs {where} order by num", values)
        return records(PeerLog, _LOG, found)

    def log(self, key: str, epoch: str, channel: str) -> PeerLog | None:
        row = self._db.one(
            f"select {_LOG} from logs where key = ? and epoch = ? and channel = ?",
            (key, epoch, channel),
        )
        return record(PeerLog, _LOG, row)

    def begin(self, key: str, epoch: str, channel: str, *, via: str) -> PeerLog:
        self._db.execute(
            "insert into logs (key, epoch, channel, link, via) values (?, ?, ?, ?, ?)",
            (key, epoch, channel, bytes(32), via),
        )
        log = self.log(key, epoch, channel)
        assert log is not None
        return log

    def extend(self, log: PeerLog, entries: Sequence[LogEntry]) -> PeerLog:
        self._db.many(
            f"insert into log_entries (log, {_ENTRY}) values (?{', ?' * len(LogEntry._fields)})",
            [(log.num, *entry) for entry in entries],
        )
        size = sum(len(entry.header) + len(entry.payload or b"") for entry in entries)
        longer = replace(
            log, length=entries[-1].seq + 1, link=entries[-1].link, size=log.size + size
        )
        self._db.execute(
            "update logs set length = ?, link = ?, size = ? where num = ?",
            (longer.length, longer.link, longer.size, log.num),
        )
        return longer

    def comes_through(self, log: int, via: str) -> None:
        self._db.execute("update logs set via = ? where num = ?", (via, log))

    def looked_through(self, log: int, seq: int) -> None:
        self._db.execute("update logs set read_to = ? where num = ?", (seq, log))

    def cut(self, log: PeerLog, fork: int, proof: bytes) -> list[str]:
        # What comes before it is proven by the next signature only.
        row = self._db.one(
            "select min(seq) from log_entries where log = ? and seq >= ? and signature is not null",
            (log.num, fork - 1),
        )
        length = log.length if row is None or row[0] is None else int(row[0]) + 1
        gone = self._db.all(
            "select event from log_entries where log = ? and seq >= ?", (log.num, fork)
        )
        length = length if fork else 0
        self._db.execute("delete from log_entries where log = ? and seq >= ?", (log.num, length))
        last = self.entry(log.num, length - 1)
        self._db.execute(
            "update logs set fork = ?, proof = ?, length = ?, link = ?, size = (select"
            " coalesce(sum(length(header) + coalesce(length(payload), 0)), 0) from log_entries"
            " where log = num) where num = ?",
            (fork, proof, length, last.link if last else bytes(32), log.num),
        )
        return [event for (event,) in gone]

    def entries(self, log: int, first: int, limit: int) -> list[LogEntry]:
        found = self._db.all(
            f"select {_ENTRY} from log_entries where log = ? and seq >= ? order by seq limit ?",
            (log, first, limit),
        )
        return [LogEntry(*row) for row in found]

    def entry(self, log: int, seq: int) -> LogEntry | None:
        row = self._db.one(
            f"select {_ENTRY} from log_entries where log = ? and seq = ?", (log, seq)
        )
        return LogEntry(*row) if row else None

    def about(self, subjects: Iterable[str]) -> list[tuple[PeerLog, LogEntry]]:
        wanted = self._db.dialect.texts([*subjects])
        found = self._db.all(
            f"select log, {_ENTRY} from log_entries where subject in {wanted.sql}"
            " order by log, seq",
            wanted.values,
        )
        return self._told(found)

    def first_about(
        self, key: str, subjects: Iterable[str], most: int
    ) -> list[tuple[PeerLog, LogEntry]]:
        wanted = self._db.dialect.texts([*subjects])
        found = self._db.all(
            f"select log, {_ENTRY} from (select log_entries.*, row_number() over"
            " (partition by subject order by log, seq) as place from log_entries"
            f" where subject in {wanted.sql} and log in (select num from logs where key = ?))"
            " as first where place <= ? order by log, seq",
            (*wanted.values, key, most),
        )
        return self._told(found)

    def _told(self, found: list[Any]) -> list[tuple[PeerLog, LogEntry]]:
        logs = {log.num: log for log in self.logs()} if found else {}
        told = [(logs[row[0]], LogEntry(*row[1:])) for row in found]
        return [(log, entry) for log, entry in told if log.fork is None or entry.seq < log.fork]

    def blank(self, key: str) -> list[tuple[PeerLog, int]]:
        found = self._db.all(
            "select log, min(seq) from log_entries join logs on logs.num = log"
            " where key = ? and payload is null and (fork is null or seq < fork)"
            " and subject not in (select id from tombstones) group by log order by log",
            (key,),
        )
        logs = {log.num: log for log in self.logs()} if found else {}
        return [(logs[log], first) for log, first in found]

    def empty(self, log: int, first: int, last: int) -> dict[int, bytes]:
        found = self._db.all(
            "select seq, link from log_entries where log = ? and seq between ? and ?"
            " and payload is null and subject not in (select id from tombstones)",
            (log, first, last),
        )
        return {seq: bytes(link) for seq, link in found}

    def fill(self, log: int, entries: Sequence[LogEntry]) -> None:
        empty = self.empty(log, entries[0].seq, entries[-1].seq)
        new = [each for each in entries if empty.get(each.seq) == each.link]
        self._db.many(
            "update log_entries set salt = ?, payload = ? where log = ? and seq = ?",
            [(each.salt, each.payload, log, each.seq) for each in new],
        )
        more = sum(len(each.payload or b"") for each in new)
        self._db.execute("update logs set size = size + ? where num = ?", (more, log))

    def said(self, key: str, channel: str | None, events: Iterable[str]) -> set[str]:
        wanted = self._db.dialect.texts([*events])
        found = self._db.all(
            "select event from log_entries join logs on logs.num = log_entries.log"
            f" where key = ? and channel = coalesce(?, channel) and event in {wanted.sql}"
            " and (fork is null or seq < fork)",
            (key, channel, *wanted.values),
        )
        return {event for (event,) in found}

    def brought_by(self, via: str) -> tuple[int, int]:
        row = self._db.one("select count(*), sum(size) from logs where via = ?", (via,))
        return (row[0], row[1] or 0) if row else (0, 0)

    def changed(self, ids: Iterable[str]) -> dict[tuple[str, str], int]:
        wanted = self._db.dialect.texts([*ids])
        found = self._db.all(
            f"select subject, origin, count(*) from events where subject in {wanted.sql}"
            f" and what in {texts(CHANGES | LINKS)} group by subject, origin",
            wanted.values,
        )
        return {(id, origin): count for id, origin, count in found}

    def recorders(self, ids: Iterable[str]) -> dict[str, set[str]]:
        wanted = self._db.dialect.texts([*ids])
        found: dict[str, set[str]] = {}
        for id, origin in self._db.all(
            f"select subject, origin from events where subject in {wanted.sql} and what = ?",
            (*wanted.values, EventType.RECORDED),
        ):
            found.setdefault(id, set()).add(origin)
        return found

    def rejected(self, ids: Iterable[str]) -> set[str]:
        wanted = self._db.dialect.texts([*ids])
        found = self._db.all(
            f"select distinct subject from events where subject in {wanted.sql} and what = ?"
            f" and principal = ? and {self._db.dialect.contains('payload', '?')}",
            (*wanted.values, EventType.ARCHIVED, Principal.PERSON, '"rejected":true'),
        )
        return {id for (id,) in found}

    def on_probation(self, hand: str) -> list[str]:
        found = self._db.all(
            "select id from memories where hand = ? and probation > 0 order by num", (hand,)
        )
        return [id for (id,) in found]

    def waiting(self, hand: str) -> int:
        row = self._db.one(
            "select count(*) from memories where hand = ? and probation > 0 and state = ?",
            (hand, State.ACTIVE),
        )
        return int(row[0]) if row else 0

    # What this bank shares, and does for others

    def projects(self) -> dict[str, str]:
        return dict(self._db.all("select name, workspace from shared_projects"))

    def share_project(self, name: str, workspace: str) -> None:
        self._db.execute(
            "insert into shared_projects values (?, ?)"
            " on conflict (name) do update set workspace = excluded.workspace",
            (name, workspace),
        )

    def offer(self, id: str) -> TaskOffer | None:
        row = self._db.one(f"select {_OFFER} from offers where id = ?", (id,))
        return record(TaskOffer, _OFFER, row)

    def offers(self) -> list[TaskOffer]:
        found = self._db.all(f"select {_OFFER} from offers order by expires_at, id")
        return records(TaskOffer, _OFFER, found)

    def put_offer(self, offer: TaskOffer) -> None:
        self._put("offers", _OFFER, "id", offer)

    def drop_offers(self, state: str, before: int) -> None:
        self._db.execute(
            "delete from offers where ours = 0 and state = ? and expires_at <= ?", (state, before)
        )

    def spent_by(self, peer: str) -> int:
        row = self._db.one(
            "select sum(case when state = ? then spent else most end) from offers"
            " where ours = 1 and peer = ?",
            (DONE, peer),
        )
        return int(row[0] or 0) if row else 0

    def state(self, name: str) -> str | None:
        row = self._db.one("select value from meta where key = ?", (_STATE + name,))
        return None if row is None else str(row[0])

    def set_state(self, name: str, value: str) -> None:
        self._db.execute(
            "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value",
            (_STATE + name, value),
        )

    def _put(self, table: str, names: str, key: str, value: Any) -> None:
        columns = names.split(", ")
        new = ", ".join(f"{name} = excluded.{name}" for name in columns if name != key)
        self._db.execute(
            f"insert into {table} ({names}) values ({', '.join('?' * len(columns))})"
            f" on conflict ({key}) do update set {new}",
            [getattr(value, name) for name in columns],
        )

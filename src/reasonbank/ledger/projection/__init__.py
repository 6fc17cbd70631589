"""How events change the tables: one handler for each kind of event."""

from __future__ import annotations

import json
from collections.abc import Iterable

from reasonbank.ledger.events import CHANGES, Event, EventType, encode
from reasonbank.ledger.port import SINCE, Token
from reasonbank.ledger.projection.forgetting import OF_THE_MEMORY, Forgetting
from reasonbank.ledger.queries.administration import TOKEN
from reasonbank.ledger.queries.base import EVENT, event_of

# Realms are not among them: readers everywhere remember the numbers.
_PROJECTIONS = (
    "memories", "tags", "evidence", "tally", "weights",
    "links", "kin", "tombstones", "traces", "workspaces", "paths", "questions", "tasks",
    "authors",
)  # fmt: skip


class Writer(Forgetting):
    """``Writing``, over any ``Database``; only valid inside a transaction of its ledger."""

    def forget_cached(self) -> None:
        """After a rollback, realms that it made are gone."""
        self._realms.clear()
        self._keys.clear()

    def stamp(self) -> int:
        last = self.db.one("select at from events order by seq desc limit 1")
        return max(self._clock(), (last[0] if last else 0) + 1, self._seen() + 1)

    def _seen(self) -> int:
        """The latest time of any event that came from elsewhere."""
        row = self.db.one("select value from meta where key = 'clock'")
        return int(row[0]) if row else 0

    def append(self, event: Event) -> None:
        self._insert(event)
        self._project(event)

    def _insert(self, event: Event, payload: str | None = None) -> None:
        self.db.execute(
            "insert into events (id, what, subject, workspace, at, origin, author, surface,"
            " payload) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (event.id, event.type, event.subject, event.workspace, event.at, event.origin,
             event.author, event.surface,
             encode(event.payload) if payload is None else payload),
        )  # fmt: skip

    def take(self, events: Iterable[Event]) -> int:
        events = sorted(events, key=lambda e: e.order)
        last = self.db.one("select at, seq from events order by seq desc limit 1") or (0, 0)
        new: list[Event] = []
        deleted: dict[str, int] = {}
        for event in events:
            if self.db.one(
                "select 1 from events where subject = ? and id = ?", (event.subject, event.id)
            ):
                continue
            if event.workspace not in deleted:
                deleted[event.workspace] = self._deleted_at(event.workspace)
            if event.type is EventType.DELETED:
                deleted[event.workspace] = max(deleted[event.workspace], event.at)
            elif event.type not in OF_THE_MEMORY and event.at <= deleted[event.workspace]:
                if event.type is EventType.RECORDED:
                    self._bury(event.subject, event.at)
                continue
            if self.forgotten(event.subject):
                continue
            self._insert(event)
            self._project(event)
            new.append(event)
        self._revisit({e.subject for e in new if e.type is EventType.RECORDED}, last[1])
        if events:
            self.db.execute(
                "insert into meta values ('clock', ?)"
                " on conflict (key) do update set value = excluded.value",
                (str(max(last[0], events[-1].at, self._seen())),),
            )
        return len(new)

    def _deleted_at(self, workspace: str) -> int:
        """When the workspace was deleted last; what happened in it before is out of date."""
        row = self.db.one(
            "select max(at) from events where subject = ? and what = ?",
            (workspace, EventType.DELETED),
        )
        return (row and row[0]) or 0

    def _revisit(self, recorded: set[str], last: int) -> None:
        """What happened to these memories may have come in before they did."""
        if not recorded or not last:
            return
        for id in recorded:
            if len(events := self._events_about(id)) > 1:
                self._stand(events[0])
        for row in self.db.all(
            f"select {EVENT} from events where seq <= ? and what in (?, ?) and payload != ''",
            (last, EventType.OBSERVED, EventType.USED),
        ):
            event = event_of(row)
            if event.type is EventType.USED:
                self._used(event, recorded)
            elif event.subject in recorded:
                self._observed(event)

    def _project(self, event: Event) -> None:
        match event.type:
            case (
                EventType.RECORDED
                | EventType.REVISED
                | EventType.ARCHIVED
                | EventType.RESTORED
                | EventType.UNDONE
            ):
                self._stand(event)
            case EventType.OBSERVED:
                self._observed(event)
            case EventType.USED:
                self._used(event)
            case EventType.WITHHELD:
                ids = encode(event.payload["ids"])
                first = "withheld = coalesce(tasks.withheld, excluded.withheld)"
                self._task(event, first, ids, None)
            case EventType.ENDED:
                succeeded = event.payload["succeeded"]
                # Of two reports the later stands, whichever came in first.
                self._task(
                    event,
                    "succeeded = case when tasks.succeeded is null or tasks.at <= excluded.at"
                    " then excluded.succeeded else tasks.succeeded end,"
                    " at = case when tasks.at > excluded.at then tasks.at else excluded.at end",
                    None,
                    succeeded,
                )
            case EventType.FORGOTTEN:
                self._forgotten(event)
            case EventType.LINKED | EventType.UNLINKED:
                self._linked(event)
            case EventType.TRACED:
                self.db.execute(
                    "insert into traces values (?, ?, ?, ?, null) on conflict do nothing",
                    (event.subject, event.workspace, event.payload["at"], self._seq(event)),
                )
                self._judge(event.subject)
            case EventType.LEARNED:
                self._judge(event.subject)
            case EventType.PURGED:
                self._purged(event)
            case EventType.JOINED:
                self._joined(event)
            case EventType.NAMED:
                self._named(event)
            case EventType.MOVED:
                self._moved(event)
            case EventType.DELETED:
                self._deleted(event)

    def _linked(self, event: Event) -> None:
        """Of all that was said about a link the latest stands, whichever came in first."""
        link = (event.subject, event.payload["target"], event.payload["type"])
        said = self.db.all(
            f"select {EVENT} from events where subject = ? and what in (?, ?) and payload != ''",
            (event.subject, EventType.LINKED, EventType.UNLINKED),
        )
        last = max(
            (
                e
                for e in map(event_of, said)
                if (e.payload["target"], e.payload["type"]) == link[1:]
            ),
            key=lambda e: e.order,
        )
        self.db.execute("delete from links where source = ? and target = ? and type = ?", link)
        if last.type is EventType.LINKED and not self.forgotten(link[1]):
            self.db.execute(
                "insert into links values (?, ?, ?, ?)", (*link, last.payload["strength"])
            )

    def _joined(self, event: Event) -> None:
        p = event.payload
        old = self.db.one("select team, org from workspaces where id = ?", (event.subject,))
        self.db.execute(
            "insert into workspaces (id, path, team, org) values (?, ?, ?, ?)"
            " on conflict (id) do update set team = excluded.team, org = excluded.org,"
            " path = coalesce(workspaces.path, excluded.path)",
            (event.subject, p.get("path"), p["team"], p["org"]),
        )
        if old != (p["team"], p["org"]):
            for (id,) in self.db.all(
                "select id from memories where workspace = ?", (event.subject,)
            ):
                self._stand(self._events_about(id)[0])
        if old is None:
            for row in self.db.all(
                f"select {EVENT} from events where subject = ? and what in (?, ?)"
                " and payload != '' and at > ? order by at",
                (event.subject, EventType.NAMED, EventType.MOVED, event.at),
            ):
                self._project(event_of(row))  # These came in before it did.

    def _moved(self, event: Event) -> None:
        """The new path leads here from now on, and the old one to a workspace of its own."""
        p = event.payload
        self.db.execute("update workspaces set path = ? where id = ?", (p["path"], event.subject))
        for digest, workspace in ((p["digest"], event.subject), (p["old_digest"], p["heir"])):
            if digest:
                self.db.execute(
                    "insert into paths values (?, ?)"
                    " on conflict (digest) do update set workspace = excluded.workspace",
                    (digest, workspace),
                )

    def _named(self, event: Event) -> None:
        """Of two workspaces with one name, the one that was named last has it."""
        later = self.db.one(
            "select 1 from events where what = ? and (subject = ? or payload = ?)"
            " and (at, origin, id) > (?, ?, ?)",
            (EventType.NAMED, event.subject, encode(event.payload), *event.order),
        )
        if later is None:
            name = event.payload["name"]
            self.db.execute("update workspaces set name = null where name = ?", (name,))
            self.db.execute("update workspaces set name = ? where id = ?", (name, event.subject))

    def add_meters(self, cells: Iterable[tuple[str, int, int]]) -> None:
        self.db.many(
            "insert into meters values (?, ?, ?)"
            " on conflict (name, cell) do update set amount = meters.amount + excluded.amount",
            cells,
        )
        self.db.execute(
            "insert into meters values (?, -1, ?) on conflict do nothing", (SINCE, self._clock())
        )

    def reset_meters(self) -> None:
        self.db.execute("delete from meters")
        self.add_meters(())

    def note(self, event: Event) -> None:
        """Without a payload it is read by the audit alone: not replayed, not exported."""
        self._insert(event, "")

    def put_token(self, token: Token) -> None:
        places = None if token.workspaces is None else json.dumps(token.workspaces)
        names = TOKEN.split(", ")
        self.db.execute(
            f"insert into tokens ({TOKEN}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id)"
            f" do update set {', '.join(f'{name} = excluded.{name}' for name in names)}",
            [places if name == "workspaces" else getattr(token, name) for name in names],
        )

    def rebuild(self) -> None:
        """Throw every table away and make it anew from the log (vectors are embedded anew)."""
        for (num,) in self.db.all("select distinct num from vectors"):
            self._follow_vectors(num, None)
        for table in _PROJECTIONS:
            self.db.execute(f"delete from {table}")
        self.db.full_text.clear()
        events = sorted(self.events(None), key=lambda e: e.order)
        for event in events:
            if event.type in CHANGES and self.forgotten(event.subject):
                continue
            self._project(event)

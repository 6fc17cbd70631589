"""How events change the tables: one handler for each kind of event."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from reasonbank.ledger.events import CHANGES, OBSERVATIONS, Event, EventType, encode
from reasonbank.ledger.migrations import APART_BEFORE, REFOLD_BEFORE, REWEIGH_BEFORE
from reasonbank.ledger.port import SINCE, Token
from reasonbank.ledger.projection.taking_back import TakingBack
from reasonbank.ledger.queries.administration import TOKEN
from reasonbank.ledger.queries.base import COUNTS, EVENT, event_of

# Realms are not among them: readers everywhere remember the numbers.
_OF_THE_LOG = (
    "evidence", "tally", "weights", "links", "tombstones", "traces", "purged", "workspaces",
    "paths", "questions", "tasks", "authors", "author_tasks", "awaited",
    "opinions", "shared_evidence", "taken_back",
)  # fmt: skip
# What is stored in the workspace that it was written in, or in the one that this was merged into.
_BELONGING = OBSERVATIONS | {EventType.RECORDED, EventType.ENDED, EventType.WITHHELD}


# Each is projected by itself; the others with all that was said of the same memory or link.
_ONCE = OBSERVATIONS | {EventType.ENDED}


class Writer(TakingBack):
    """``Writing``, over any ``Database``; only valid inside a transaction of its ledger."""

    def forget_cached(self) -> None:
        """After a rollback, realms that it made are gone."""
        self._realms.clear()
        self._keys.clear()

    def stamp(self) -> int:
        """What the clock says."""
        return self._clock()

    def append(self, event: Event) -> Event:
        """Write an event of this bank, as the next of its chain."""
        counter, head, notes = self._tip()
        event = event.sealed(counter + 1, head)
        self._remember(event.counter, event.link, notes)
        self._insert(event)
        self._project(event, live=True)
        return event

    def note(self, event: Event) -> None:
        """Without a payload it is read by the audit alone: not replayed, not exported. Notes
        have a chain of their own, so that the one that is exported has no gaps. A digest that
        it has already stays, and is held by the chain."""
        counter, head, notes = self._tip()
        sealed = event.sealed(counter + 1, notes)
        event = replace(sealed, digest=event.digest or sealed.digest)
        self._remember(event.counter, head, event.link)
        self._insert(replace(event, salt=None, redacted=True))

    def _remember(self, counter: int, head: str, notes: str) -> None:
        self.db.execute(
            "insert into meta values ('log', ?)"
            " on conflict (key) do update set value = excluded.value",
            (f"{counter} {head} {notes}",),
        )

    def _insert(self, event: Event) -> None:
        self.db.execute(
            f"insert into events ({EVENT})"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (event.id, event.type, event.subject, event.workspace, event.counter, event.at,
             event.origin, event.author, event.principal, event.surface, event.batch, event.prev,
             event.digest, event.salt, "" if event.redacted else encode(event.payload)),
        )  # fmt: skip

    def take(
        self, events: Iterable[Event], progress: Callable[[int, int], None] | None = None
    ) -> int:
        events = sorted(events, key=lambda e: e.order)
        with self._refolding_once():
            new = self._take(events, progress)
        if events:
            counter, head, notes = self._tip()
            self._remember(max(counter, events[-1].counter), head, notes)
        return new

    def _take(self, events: Sequence[Event], progress: Callable[[int, int], None] | None) -> int:
        new: list[Event] = []
        known: list[Event] = []
        deleted: dict[str, tuple[int, str]] = {}
        later: dict[tuple[str, ...], Event] = {}
        for done, event in enumerate(events, 1):
            if progress is not None:
                progress(done, len(events))
            if self.db.one(
                "select 1 from events where subject = ? and id = ?", (event.subject, event.id)
            ):
                known.append(event)
                continue
            new.append(event)
            if event.redacted or self._is_doomed(event, deleted):
                self._take_redacted(event)
            else:
                self._insert(event)
                if (whole := self._part_of(event)) is None:
                    self._project(event)
                else:
                    # Any would do, but of what was forgotten it stays when it was last.
                    later[whole] = max(event, later.get(whole, event), key=lambda e: e.at)
            if event.type is EventType.DELETED:
                deleted.clear()
        for event in later.values():
            self._project(event)
        self._observe_awaited(e.subject for e in new if e.type is EventType.RECORDED)
        for event in known:
            if event.type in (EventType.TRACED, EventType.LEARNED) and not event.redacted:
                self._join_quotes(event)
        return len(new)

    def _part_of(self, event: Event) -> tuple[str, ...] | None:
        """What is folded anew from all that was ever said of it, and is so once for all that comes
        together: else who says much of one thing makes everybody wait. None: nothing that is here.
        """
        match event.type:
            case EventType.APPLIED | EventType.REVERTED if "events" in event.payload:
                return ("batches",)
            case EventType.LINKED | EventType.UNLINKED:
                return ("link", event.subject, event.payload["target"], event.payload["type"])
            case EventType.FORGOTTEN if self.forgotten(event.subject):
                return ("forgotten", event.subject)
            case EventType.JOINED if self.place(self.home(event.subject)) is not None:
                return ("workspace", event.subject)
            case _ if event.type in CHANGES and self.db.one(
                "select 1 from memories where id = ?", (event.subject,)
            ):
                return ("memory", event.subject)
        return None

    def _take_redacted(self, event: Event) -> None:
        self._insert(replace(event, redacted=True, salt=None))
        if event.type is EventType.RECORDED:
            deleted = self.db.one(
                "select max(at) from events where subject = ? and what = ?"
                " and (counter, id) > (?, ?)",
                (event.workspace, EventType.DELETED, *event.order),
            )
            if deleted is not None and deleted[0] is not None:
                self._forgotten(event.subject, deleted[0])

    def _project(self, event: Event, *, live: bool = False) -> None:
        """``live``: nothing that is here can be later than this, nor can it be out of date."""
        if event.type in _BELONGING:
            event = replace(event, workspace=self.home(event.workspace))
        if not live and event.type in _ONCE and self._is_taken_back(event.id):
            return
        match event.type:
            case (
                EventType.RECORDED
                | EventType.REVISED
                | EventType.ARCHIVED
                | EventType.RESTORED
                | EventType.UNDONE
                | EventType.ACCEPTED
            ):
                new = live and event.type is EventType.RECORDED
                self._stand(event.subject, event if new else None)
                if new:
                    self._observe_awaited([event.subject])
            case EventType.OBSERVED:
                self._observed(event, live=live)
            case EventType.USED:
                self._used(event, live=live)
            case EventType.WITHHELD:
                self._withheld(event)
            case EventType.ENDED:
                self._ended(event)
            case EventType.FORGOTTEN:
                self._forgotten(event.subject, event.at)
            case EventType.LINKED | EventType.UNLINKED:
                self._linked(event)
            case EventType.TRACED:
                self._trace_anew(event.subject)
            case EventType.LEARNED:
                self._judge(event.subject)
            case EventType.PURGED:
                self._purged(event)
            case EventType.JOINED | EventType.MOVED | EventType.NAMED:
                self._joined_or_moved(event)
            case EventType.MERGED:
                self._merged()
            case EventType.DELETED:
                self._deleted(event)
            case EventType.APPLIED | EventType.REVERTED:
                if "events" in event.payload and not self._replaying:
                    self._batches_told()

    def _linked(self, event: Event) -> None:
        """Of all that was said about a link the latest stands, whichever came in first."""
        link = (event.subject, event.payload["target"], event.payload["type"])
        said = self.db.all(
            f"select {EVENT} from events where subject = ? and what in (?, ?) and {COUNTS}"
            f" and {self.db.dialect.contains('payload', '?')}",
            (event.subject, EventType.LINKED, EventType.UNLINKED, encode(link[1])),
        )
        last = max(
            (
                e
                for e in map(event_of, said)
                if (e.payload["target"], e.payload["type"]) == link[1:]
            ),
            key=lambda e: e.order,
            default=None,
        )
        self.db.execute("delete from links where source = ? and target = ? and type = ?", link)
        if last is not None and last.type is EventType.LINKED and not self.forgotten(link[1]):
            self.db.execute(
                "insert into links values (?, ?, ?, ?)", (*link, last.payload["strength"])
            )

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

    def put_token(self, token: Token) -> None:
        lists = {
            name: None if (value := getattr(token, name)) is None else json.dumps(value)
            for name in ("workspaces", "may")
        }
        names = TOKEN.split(", ")
        new = ", ".join(f"{name} = excluded.{name}" for name in names)
        self.db.execute(
            f"insert into tokens ({TOKEN}) values ({', '.join('?' * len(names))})"
            f" on conflict (id) do update set {new}",
            [lists[name] if name in lists else getattr(token, name) for name in names],
        )

    def upgraded(self, version: int) -> None:
        """Make anew what follows from the log by other rules than in a bank of this version."""
        if version < REFOLD_BEFORE:
            self.refold()
            return
        if version < REWEIGH_BEFORE:
            self.refold_all()
        if version < APART_BEFORE:
            self._tell_orgs_apart()

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Throw every table away and make it anew from the log (vectors are embedded anew)."""
        for (num,) in self.db.all("select distinct num from vectors"):
            self._follow_vectors(num, None)
        for table in ("memories", "tags", "kin", *_OF_THE_LOG):
            self.db.execute(f"delete from {table}")
        self.db.full_text.clear()
        self._replay(tuple(EventType), progress)

    def refold(self) -> None:
        """Make all but the memories anew: their words and vectors stay."""
        for table in _OF_THE_LOG:
            self.db.execute(f"delete from {table}")
        self.db.execute(
            "update memories set usage_count = 0, last_used = null, standing = null,"
            " probation = entered"
        )
        self.db.execute(
            "insert into authors select workspace, author, count(*), 0, 0"
            " from memories group by 1, 2"
        )
        self._replay(tuple(type for type in EventType if type not in CHANGES))

    def _replay(
        self, types: Container[EventType], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Observations come last: that a memory exists does not depend on when it was used."""
        self._fold_merges()
        self._fold_taken_back()
        events = sorted(self.events(None), key=lambda e: (e.type in OBSERVATIONS, e.order))
        self._replaying = True
        try:
            for done, event in enumerate(events, 1):
                gone = event.type in CHANGES and self.forgotten(event.subject)
                if event.type in types and not gone:
                    self._project(event)
                if progress is not None:
                    progress(done, len(events))
        finally:
            self._replaying = False

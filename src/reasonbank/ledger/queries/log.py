"""The log, and what is read from it alone: history, batches, traces, the audit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reasonbank.ledger.database import columns, records
from reasonbank.ledger.events import (
    BATCHES,
    END_OF_TIME,
    NOTES,
    OBSERVATIONS,
    REVERT,
    REVERTIBLE,
    Event,
    EventType,
    encode,
    hand_of,
    sessions_of,
)
from reasonbank.ledger.identity import chains_of, own_ids
from reasonbank.ledger.port import Break, Wanted, Written
from reasonbank.ledger.queries.base import (
    AT_HOME,
    COUNTS,
    EVENT,
    EVENT_AT_HOME,
    IS_TAKEN_BACK,
    OF_WORKSPACE,
    ORDER,
    Queries,
    event_of,
    texts,
)
from reasonbank.ledger.sessions import trace_of
from reasonbank.model import Change, Principal, Trace, View

_CHANGE = columns(Change)


def _break(event: Event, found: str) -> Break:
    return Break(event=event.id, origin=event.origin, at=event.at, found=found)


def _readable(row: Sequence[Any]) -> Event:
    """An event as the program writes them, whatever somebody else put into its row."""
    event = event_of(row)
    if not isinstance(event.payload, dict):
        raise TypeError(event.payload)
    if not (isinstance(event.at, int) and 0 <= event.at < END_OF_TIME):
        raise ValueError(event.at)
    if not isinstance(event.counter, int):
        raise TypeError(event.counter)
    return event


PAGE = 200
ERASING = frozenset({EventType.FORGOTTEN, EventType.DELETED, EventType.PURGED})


class LogQueries(Queries):
    def batch(self, view: View, id: str) -> list[Event]:
        found = self.db.all(
            f"select {EVENT}, {IS_TAKEN_BACK} from events where subject = ? and {OF_WORKSPACE}"
            f" and what in {texts(BATCHES)} and payload != '' order by {ORDER}",
            (id, view.workspace, view.workspace),
        )
        return [event_of(row) for row in found]

    def batches(self, view: View) -> list[Event]:
        found = self.db.all(
            f"select {EVENT}, {IS_TAKEN_BACK} from events where {OF_WORKSPACE}"
            f" and what in {texts(BATCHES)} and payload != '' order by {ORDER}",
            (view.workspace, view.workspace),
        )
        return [event_of(row) for row in found]

    def written(self, wanted: Written) -> list[Event]:
        parts = [
            "payload != ''",
            f"what in {texts(REVERTIBLE)}",
            # A revert is taken back by undoing it, not by another.
            "(batch is null or batch not in (select subject from events where what = ? and"
            f" {self.db.dialect.contains('payload', '?')}))",
        ]
        values: list[Any] = [EventType.APPLIED, f'"kind":"{REVERT}"']
        for test, value in (
            ("batch = ?", wanted.batch),
            ("at >= ?", wanted.since),
        ):
            if value is not None:
                parts.append(test)
                values.append(value)
        for column, chosen in (("origin", wanted.origins), ("id", wanted.events)):
            if chosen:
                among = self.db.dialect.texts(list(chosen))
                parts.append(f"{column} in {among.sql}")
                values += among.values
        contains = self.db.dialect.contains("payload", "?")
        if wanted.author is not None:
            who = wanted.author.partition(":")[2]
            parts.append(f"(author in (?, ?) or {contains})")
            values += [wanted.author, who, f'"who":{encode(who)}']
        if wanted.session is not None:
            parts.append(f"(subject = ? or {contains})")
            values += [wanted.session, encode(wanted.session)]
        if wanted.workspace is not None:
            mine = "subject in (select id from memories where workspace = ?)"
            parts.append(f"({OF_WORKSPACE} or {mine})")
            values += [wanted.workspace] * 3
        found = self.db.all(
            f"select {EVENT_AT_HOME}, {IS_TAKEN_BACK} from events where {' and '.join(parts)}"
            f" order by {ORDER}",
            values,
        )
        return [
            event
            for event in map(event_of, found)
            if (wanted.session is None or wanted.session in sessions_of(event))
            and (wanted.author is None or wanted.author in (event.author, hand_of(event)))
        ]

    def taken_back_through(self, origin: str, through: str) -> list[Event]:
        contains = self.db.dialect.contains("payload", "?")
        found = self.db.all(
            f"select {EVENT}, {IS_TAKEN_BACK} from events where what in {texts(BATCHES)}"
            f" and {contains} and {contains} and payload != '' order by {ORDER}",
            (f'"origin":"{origin}"', f'"through":"{through}"'),
        )
        return [event for event in map(event_of, found) if not event.taken_back]

    def about(self, subjects: Iterable[str], types: frozenset[EventType]) -> list[Event]:
        wanted = self.db.dialect.texts([*subjects])
        found = self.db.all(
            f"select {EVENT_AT_HOME}, {IS_TAKEN_BACK} from events where subject in {wanted.sql}"
            f" and what in {texts(types)} and payload != '' order by {ORDER}",
            wanted.values,
        )
        return [event_of(row) for row in found]

    def uses_noted(self, view: View, subjects: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        wanted = self.db.dialect.texts(subjects)
        found = self.db.all(
            f"select subject, payload from events where subject in {wanted.sql} and what = ?"
            f" and {OF_WORKSPACE} and payload != '' order by {ORDER}",
            (*wanted.values, EventType.USED, view.workspace, view.workspace),
        )
        return [(subject, tuple(json.loads(payload)["ids"])) for subject, payload in found]

    def trace(self, view: View, id: str) -> Trace | None:
        known = self.db.one(
            "select 1 from traces where id = ? and workspace = ?", (id, view.workspace)
        )
        return self._trace(id, view.workspace) if known else None

    def trace_taken(self, id: str) -> bool:
        return self.db.one("select 1 from traces where id = ?", (id,)) is not None

    def _trace(self, id: str, workspace: str) -> Trace:
        """A trace, with what was added to it and found out about it since it was stored."""
        found = self.db.all(
            "select what, payload from events where subject = ? and payload != ''"
            f" and (what = ? or what = ? and {OF_WORKSPACE}) order by {ORDER}",
            (id, EventType.LEARNED, EventType.TRACED, workspace, workspace),
        )
        trace = trace_of((what, json.loads(payload)) for what, payload in found)
        assert trace is not None
        return trace

    def traces(self, view: View, limit: int, before: str | None = None) -> list[Trace]:
        older = "" if before is None else " and (at, id) < (select at, id from traces where id = ?)"
        found = self.db.all(
            f"select id from traces where workspace = ?{older} order by at desc, id desc limit ?",
            (view.workspace, *([] if before is None else [before]), limit),
        )
        return [self._trace(row[0], view.workspace) for row in found]

    def ran_well(self, view: View, text: str, limit: int) -> Iterator[str]:
        found = self.db.all(
            f"select payload from events where what = ? and {OF_WORKSPACE} and {COUNTS}"
            f" and principal in (?, ?) and {self.db.dialect.contains('payload', '?')}"
            " order by seq desc limit ?",
            (EventType.TRACED, view.workspace, view.workspace, Principal.MODEL, Principal.PERSON,
             encode(text)[1:-1], limit),
        )  # fmt: skip
        for (payload,) in found:
            for step in json.loads(payload)["trace"].get("trajectory", ()):
                ended_well = str(step.get("feedback")).startswith("exit code 0\n")
                if step["action"] == "command" and ended_well and text in step["content"]:
                    yield step["content"]

    def trace_count(self, view: View) -> int:
        return self._count("traces where workspace = ?", values=(view.workspace,))

    def traces_before(self, view: View, at: int) -> list[str]:
        found = self.db.all(
            "select id from traces where workspace = ? and at < ?", (view.workspace, at)
        )
        return [row[0] for row in found]

    def committed(self, view: View, since: int) -> list[Trace]:
        found = self.db.all(
            "select id from traces where workspace = ? and at >= ? and exists (select 1 from events"
            f" where subject = traces.id and {self.db.dialect.contains('payload', '?')})"
            " order by at",
            (view.workspace, since, '"commits"'),
        )
        traces = [self._trace(row[0], view.workspace) for row in found]
        return [trace for trace in traces if trace.metadata.get("commits")]

    def audit(self, wanted: Wanted) -> list[Change]:
        parts: list[str] = ["1 = 1"]
        values: list[Any] = []
        uses = f"what = '{EventType.USED}'"
        if wanted.subject is not None:
            parts.append(f"(subject = ? or {uses} and {self.db.dialect.contains('payload', '?')})")
            values += [wanted.subject] * 2
        for test, value in (
            ("seq < ?", wanted.before),
            ("author = ?", wanted.author),
            ("surface = ?", wanted.surface),
        ):
            if value is not None:
                parts.append(test)
                values.append(value)
        if not wanted.uses:
            parts.append(f"not {uses}")
        if wanted.workspace is not None:
            # What others did to a memory of this workspace is this workspace's business too; what
            # they observed of it is theirs.
            parts.append(
                f"({OF_WORKSPACE} or what not in {texts(OBSERVATIONS)} and exists"
                " (select 1 from events first where first.subject = events.subject"
                f" and first.what = '{EventType.RECORDED}' and first.{OF_WORKSPACE}))"
            )
            values += [wanted.workspace] * 4
        found = self.db.all(
            f"select {_CHANGE} from events where {' and '.join(parts)} order by seq desc limit ?",
            (*values, wanted.limit),
        )
        return records(Change, _CHANGE, found)

    def changes_after(self, seq: int, limit: int) -> list[Change]:
        at_home = _CHANGE.replace("workspace", AT_HOME)
        found = self.db.all(
            f"select {at_home} from events where seq > ? order by seq limit ?", (seq, limit)
        )
        return records(Change, _CHANGE, found)

    def _tip(self) -> tuple[int, str, str]:
        """The highest counter seen, and the ends of this bank's chains of events and notes."""
        row = self.db.one("select value from meta where key = 'log'")
        if row is None:
            return (0, "", "")
        counter, head, notes = row[0].split(" ")
        return (int(counter), head, notes)

    def events(self, workspace: str | None, *, redacted: bool = False) -> Iterator[Event]:
        """The log as far as it goes now, in the order of arrival.

        Nothing is held between two pages: whoever takes long over them keeps nobody waiting.
        What is erased meanwhile is missing, or its erasure comes last.
        """
        which, values = self._of_the_log(workspace, redacted)
        last = self.last_seq()
        yield from self._pages(which, values, 0, last)
        which += f" and what in {texts(ERASING)}"
        yield from self._pages(which, values, last, self.last_seq())

    def event_count(self, workspace: str | None, *, redacted: bool = False) -> int:
        which, values = self._of_the_log(workspace, redacted)
        return self._count(f"events where {which}", values=values)

    def _of_the_log(self, workspace: str | None, redacted: bool) -> tuple[str, Sequence[str]]:
        which = f"what not in {texts(NOTES)}" if redacted else "payload != ''"
        if workspace is None:
            return which, ()
        return f"{which} and {OF_WORKSPACE}", (workspace, workspace)

    def last_counter(self) -> int:
        return self._tip()[0]

    def last_seq(self) -> int:
        return self._count("events", "max(seq)")

    def _pages(self, which: str, values: Sequence[Any], seq: int, last: int) -> Iterator[Event]:
        yield from map(event_of, self._rows(which, values, seq, last))

    def _rows(
        self, which: str, values: Sequence[Any], seq: int, last: int
    ) -> Iterator[Sequence[Any]]:
        while rows := self.db.all(
            f"select seq, {EVENT} from events where seq > ? and seq <= ? and {which}"
            " order by seq limit ?",
            (seq, last, *values, PAGE),
        ):
            yield from (row[1:] for row in rows)
            seq = rows[-1][0]

    def broken_chain(self) -> list[Break]:
        """Of other banks' events only some may be here: their gaps are nothing to complain of."""
        wanted = chains_of(self.db)
        ends = dict.fromkeys(wanted, "")
        own = self.db.one("select value from meta where key = 'bank_id'")
        # Of what it wrote under an earlier id others may know more, which then comes later.
        whole = {chain for chain, end in wanted.items() if not end and [chain[0]] != [*(own or ())]}
        ours = frozenset(own_ids(self.db))
        wrong: list[Break] = []
        # What this bank wrote arrived in the order of the chain.
        for row in self._rows("digest is not null", (), 0, self.last_seq()):
            try:
                event = _readable(row)
            except (LookupError, TypeError, ValueError, RecursionError):
                # Nothing that comes behind it can be told from it either.
                found = f"event {row[0]} is nothing that the program writes"
                return [*wrong, Break(event=str(row[0]), origin=str(row[6]), found=found)]
            if not event.intact or (
                event.salt is None and event.origin in ours and not self._may_be_bare(event)
            ):
                wrong.append(_break(event, f"event {event.id} is not what was written"))
            chain = (event.origin, event.type in NOTES)
            if chain in wanted and chain not in whole:
                if event.prev != ends[chain]:
                    wrong.append(_break(event, f"the log was changed before event {event.id}"))
                ends[chain] = event.link
                if event.link == wanted[chain] and own is not None and event.origin != own[0]:
                    whole.add(chain)
            if len(wrong) >= 5:
                return wrong
        cut = sorted({chain[0] for chain, end in wanted.items() if ends[chain] != end})
        found = "the end of the log was changed"
        return wrong + [Break(origin=origin, found=found) for origin in cut]

    def _may_be_bare(self, event: Event) -> bool:
        """Whether there is a reason that an event of this bank has no salt any more: what it says
        was forgotten, purged or deleted with its workspace, or something was taken out of a trace
        that quoted what was forgotten. Notes never had one."""
        if event.type in NOTES or self.db.one(
            "select 1 from tombstones where id = ?", (event.subject,)
        ):
            return True
        if event.type in (EventType.TRACED, EventType.LEARNED):
            which = "tombstones" if not event.redacted else "purged where id = ?"
            values = (event.subject,) if event.redacted else ()
            if self.db.one(f"select 1 from {which} limit 1", values):
                return True
        return event.redacted and bool(
            self.db.one(
                "select 1 from events where subject = ? and what = ?",
                (event.workspace, EventType.DELETED),
            )
        )

    def from_the_future(self, now: int) -> tuple[int, int]:
        # What is no time at all is named by who looks at the chain.
        row = self.db.one(
            "select count(*), max(at) from events where at > ? and at < ?", (now, END_OF_TIME)
        )
        return (row[0], row[1] or 0) if row else (0, 0)

"""The log, and what is read from it alone: history, batches, traces, the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reasonbank.ledger.database import columns, records
from reasonbank.ledger.events import BATCHES, NOTES, OBSERVATIONS, Event, EventType
from reasonbank.ledger.port import Wanted
from reasonbank.ledger.queries.base import EVENT, ORDER, Queries, event_of, texts
from reasonbank.model import Change, Outcome, Trace, View

_CHANGE = columns(Change)
PAGE = 200
ERASING = frozenset({EventType.FORGOTTEN, EventType.DELETED, EventType.PURGED})


class LogQueries(Queries):
    def batch(self, view: View, id: str) -> list[Event]:
        found = self.db.all(
            f"select {EVENT} from events where subject = ? and workspace = ?"
            f" and what in {texts(BATCHES)} and payload != '' order by {ORDER}",
            (id, view.workspace),
        )
        return [event_of(row) for row in found]

    def batches(self, view: View) -> list[Event]:
        found = self.db.all(
            f"select {EVENT} from events where workspace = ? and what in {texts(BATCHES)}"
            f" and payload != '' order by {ORDER}",
            (view.workspace,),
        )
        return [event_of(row) for row in found]

    def trace(self, view: View, id: str) -> Trace | None:
        row = self.db.one(
            "select payload from traces join events on seq = event"
            " where traces.id = ? and traces.workspace = ?",
            (id, view.workspace),
        )
        return self._trace(row[0]) if row else None

    def trace_taken(self, id: str) -> bool:
        return self.db.one("select 1 from traces where id = ?", (id,)) is not None

    def _trace(self, payload: str) -> Trace:
        """A trace, with what was found out about it since it was stored."""
        trace = Trace.from_json(json.loads(payload)["trace"])
        for (told,) in self.db.all(
            "select payload from events where subject = ? and what = ? and payload != ''"
            f" order by {ORDER}",
            (trace.id, EventType.LEARNED),
        ):
            found = json.loads(told)
            learned = dict.fromkeys((*trace.memories_learned, *found["ids"]))
            trace = replace(trace, memories_learned=tuple(learned))
            if found.get("confirmed"):
                trace = replace(trace, metadata={**trace.metadata, "confirmed": found["confirmed"]})
            if trace.outcome is None and found.get("outcome"):
                judged = {name: found[name] for name in ("by", "reason") if found.get(name)}
                trace = replace(
                    trace,
                    outcome=Outcome(found["outcome"]),
                    final_score=found.get("score")
                    if trace.final_score is None
                    else trace.final_score,
                    metadata={**trace.metadata, "judged": judged},
                )
        return trace

    def traces(self, view: View, limit: int) -> list[Trace]:
        found = self.db.all(
            "select payload from traces join events on seq = event"
            " where traces.workspace = ? order by traces.at desc limit ?",
            (view.workspace, limit),
        )
        return [self._trace(row[0]) for row in found]

    def traces_before(self, view: View, at: int) -> list[str]:
        found = self.db.all(
            "select id from traces where workspace = ? and at < ?", (view.workspace, at)
        )
        return [row[0] for row in found]

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
                f"(workspace = ? or what not in {texts(OBSERVATIONS)} and exists"
                " (select 1 from events first where first.subject = events.subject"
                f" and first.what = '{EventType.RECORDED}' and first.workspace = ?))"
            )
            values += [wanted.workspace] * 2
        found = self.db.all(
            f"select {_CHANGE} from events where {' and '.join(parts)} order by seq desc limit ?",
            (*values, wanted.limit),
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
        which = f"what not in {texts(NOTES)}" if redacted else "payload != ''"
        if workspace is not None:
            which += " and workspace = ?"
        values = () if workspace is None else (workspace,)
        last = self._newest()
        yield from self._pages(which, values, 0, last)
        which += f" and what in {texts(ERASING)}"
        yield from self._pages(which, values, last, self._newest())

    def _newest(self) -> int:
        return self._count("events", "max(seq)")

    def _pages(self, which: str, values: Sequence[Any], seq: int, last: int) -> Iterator[Event]:
        while rows := self.db.all(
            f"select seq, {EVENT} from events where seq > ? and seq <= ? and {which}"
            " order by seq limit ?",
            (seq, last, *values, PAGE),
        ):
            yield from (event_of(row[1:]) for row in rows)
            seq = rows[-1][0]

    def broken_chain(self) -> list[str]:
        """Of other banks' events only some may be here: their gaps are nothing to complain of."""
        _, head, notes = self._tip()
        ends = {False: "", True: ""}
        wrong: list[str] = []
        own = self.db.one("select value from meta where key = 'bank_id'")
        # What this bank wrote arrived in the order of the chain.
        for event in self._pages("digest is not null", (), 0, self._newest()):
            if not event.intact:
                wrong.append(f"event {event.id} is not what was written")
            if own is not None and event.origin == own[0]:
                note = event.type in NOTES
                if event.prev != ends[note]:
                    wrong.append(f"the log was changed before event {event.id}")
                ends[note] = event.link
            if len(wrong) >= 5:
                return wrong
        if ends != {False: head, True: notes}:
            wrong.append("the end of the log was changed")
        return wrong

    def from_the_future(self, now: int) -> tuple[int, int]:
        row = self.db.one("select count(*), max(at) from events where at > ?", (now,))
        return (row[0], row[1] or 0) if row else (0, 0)

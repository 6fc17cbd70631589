"""Forgetting: what is taken out of the log itself, and out of all that quotes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from reasonbank.ledger.events import PEERS, Event, EventType, encode, revisions
from reasonbank.ledger.projection.places import Places
from reasonbank.ledger.queries.base import AT_HOME, BEFORE, OF_WORKSPACE, ORDER, texts
from reasonbank.model import JSON, ErrorContext, Memory, Scope

# Whoever did it, it belongs to the memory that it was done to, and goes with it.
OF_THE_MEMORY = frozenset({
    EventType.REVISED, EventType.ARCHIVED, EventType.RESTORED, EventType.UNDONE,
    EventType.FORGOTTEN, EventType.LINKED, EventType.UNLINKED,
})  # fmt: skip
# What a deleted workspace leaves in the log: that things are gone must be known for ever.
LEFT_BEHIND = OF_THE_MEMORY | {EventType.DELETED, EventType.PURGED, EventType.MERGED}
TRACES = (EventType.TRACED, EventType.LEARNED)
FORGOTTEN_TEXT = "[forgotten]"
# A shorter line may well be anybody's.
QUOTED = 12


class Forgetting(Places):
    def _forgotten(self, id: str, at: int) -> None:
        found = self.db.one(
            "select num, lesson, realm, workspace, author, scope, hand from memories where id = ?",
            (id,),
        )
        seen_in, places = "1 = 1", tuple[str, ...]()
        if found is not None:
            num, text, realm, workspace, author, scope, hand = found
            seen_in, places = self._seen_in(workspace, scope)
            # A stranger who quotes this bank and then forgets the quotation takes nothing with it.
            if not str(hand).startswith(PEERS):
                versions = [r.memory for r in revisions(self._events_about(id))]
                self._scrub_quotes(id, versions, seen_in, places)
            self._follow_vectors(num, None)
            self._disown(num, workspace, author)
            self._drop_words(num, text, realm)
            self._drop_tags(num, text)
            for table in ("evidence", "tally", "shared_evidence", "memories"):
                self.db.execute(f"delete from {table} where num = ?", (num,))
        if not self._replaying:
            # What a model answered, to be stored: it may well say the same again.
            self.db.execute(
                f"update jobs set checkpoint = null where checkpoint is not null and {seen_in}",
                places,
            )
        # That it was forgotten is told on, in an entry that says nothing else.
        self.db.execute(
            "update log_entries set salt = null, payload = null"
            " where subject = ? and length(payload) > 2",
            (id,),
        )
        self._bury(id, at)
        self.db.execute("delete from links where source = ? or target = ?", (id, id))
        self.db.execute("delete from kin where child = ?", (id,))

    def _seen_in(self, workspace: str, scope: str) -> tuple[str, tuple[str, ...]]:
        """The workspaces that may have seen a memory, as a condition: what is forgotten is taken
        out of what they wrote. Nobody takes anything out of what strangers wrote."""
        place = self.place(workspace)
        if scope == Scope.PROJECT or place is None:
            return OF_WORKSPACE, (workspace, workspace)
        # One that has stored nothing yet is in no team so far.
        others = "team != ? or org != ?" if scope == Scope.TEAM else "org != ?"
        among = place if scope == Scope.TEAM else place[1:]
        strangers = f"select id from workspaces where {others}"
        return (
            f"workspace not in ({strangers})"
            f" and workspace not in (select workspace from merged where home in ({strangers}))",
            among * 2,
        )

    def _bury(self, id: str, at: int) -> None:
        self.db.execute(
            "insert into tombstones values (?, ?) on conflict (id) do update set"
            " at = case when tombstones.at > excluded.at then tombstones.at else excluded.at end",
            (id, at),
        )
        self.db.execute("delete from awaited where id = ?", (id,))
        self._redact("subject = ? and what != ?", (id, EventType.FORGOTTEN))

    def _redact(self, which: str, values: Sequence[Any]) -> None:
        """An empty payload marks an event whose content was removed; its digest stays."""
        self.db.execute(
            f"update events set payload = '', salt = null where payload != '' and {which}", values
        )

    def _is_doomed(self, event: Event, deleted: dict[str, tuple[int, str]]) -> bool:
        """Whether what this event says was forgotten before it came in."""
        if event.type is not EventType.FORGOTTEN and self.forgotten(event.subject):
            return True
        if event.type in TRACES and event.order < self._purged_at(event.subject):
            return True
        if event.type in LEFT_BEHIND:
            return False
        if event.workspace not in deleted:
            deleted[event.workspace] = self._deleted_at(event.workspace)
        return event.order < deleted[event.workspace]

    def _deleted_at(self, workspace: str) -> tuple[int, str]:
        """When the workspace was deleted last; what happened in it before is out of date."""
        row = self.db.one(
            "select counter, id from events where subject = ? and what = ?"
            " order by counter desc, id desc limit 1",
            (workspace, EventType.DELETED),
        )
        return (row[0], row[1]) if row else (-1, "")

    def _scrub_quotes(
        self, id: str, versions: Sequence[Memory], seen_in: str, places: Sequence[str]
    ) -> None:
        """Traces that used the memory may quote it, whole or line by line; so may questions."""
        texts = {text for memory in versions for text in _texts_of(memory)}
        lines = {line.strip() for text in texts for line in text.splitlines()}
        quotes = sorted(texts | {line for line in lines if len(line) >= QUOTED}, key=len)[::-1]
        long = [quote for quote in quotes if len(quote) >= QUOTED]
        self.unanswered.drop_quoting(long, seen_in, places)
        contains = self.db.dialect.contains
        wanted = self.db.dialect.texts([_in_json(quote) for quote in long])
        for seq, payload in self.db.all(
            f"select seq, payload from events where what in (?, ?) and"
            f" ({contains('payload', '?')} or {seen_in} and exists"
            f" (select 1 from {wanted.sql} quote where {contains('payload', 'quote.value')}))",
            (EventType.TRACED, EventType.LEARNED, id, *places, *wanted.values),
        ):
            told = json.loads(payload)
            part = told.get("trace", told)
            for name in ("task", "trajectory", "metadata", "reason"):
                if name in part:
                    part[name] = _without(quotes, part[name])
            self._alter(seq, told)

    def _alter(self, seq: int, payload: JSON) -> None:
        """Without its salt, nobody can tell what the payload was before."""
        self.db.execute(
            "update events set payload = ?, salt = null where seq = ?", (encode(payload), seq)
        )

    def _join_quotes(self, event: Event) -> None:
        """Another bank may have taken quotations out of a trace that is still whole here."""
        row = self.db.one(
            "select seq, payload from events where subject = ? and id = ? and payload != ''",
            (event.subject, event.id),
        )
        if row is None or row[1] == encode(event.payload):
            return
        both = _joined(json.loads(row[1]), event.payload)
        if encode(both) != row[1]:
            self._alter(row[0], both)
            self._judge(event.subject)

    def _trace_anew(self, id: str) -> None:
        """Of two that stored one trace, the first."""
        self.db.execute("delete from traces where id = ?", (id,))
        row = self.db.one(
            f"select seq, {AT_HOME}, payload from events where subject = ? and what = ?"
            f" and payload != '' order by {ORDER} limit 1",
            (id, EventType.TRACED),
        )
        if row is not None:
            seq, workspace, payload = row
            self.db.execute(
                "insert into traces values (?, ?, ?, ?, null)",
                (id, workspace, json.loads(payload)["at"], seq),
            )
            self._judge(id)

    def _judge(self, trace: str) -> None:
        """How the task went: as it was stored, else as who found out said."""
        row = self.db.one("select workspace from traces where id = ?", (trace,))
        if row is not None:
            outcome = self._trace(trace, row[0]).outcome
            self.db.execute("update traces set outcome = ? where id = ?", (outcome, trace))

    def _purged(self, event: Event) -> None:
        """A trace that is stored anew after that stays."""
        for id in event.payload["ids"]:
            if event.order > self._purged_at(id):
                self.db.execute(
                    "insert into purged values (?, ?, ?) on conflict (id) do update set"
                    " counter = excluded.counter, event = excluded.event",
                    (id, *event.order),
                )
                self._redact(
                    f"subject = ? and what in (?, ?) and {BEFORE}",
                    (id, *TRACES, *event.order),
                )
                self._trace_anew(id)

    def _purged_at(self, trace: str) -> tuple[int, str]:
        row = self.db.one("select counter, event from purged where id = ?", (trace,))
        return (row[0], row[1]) if row else (-1, "")

    def _deleted(self, event: Event) -> None:
        """Forget all that belonged to the workspace until then, and its name and path."""
        place = event.subject
        home = self.home(place)
        recorded = self.db.all(
            f"select distinct subject from events where workspace = ? and what = ? and {BEFORE}",
            (place, EventType.RECORDED, *event.order),
        )
        for memory in sorted({*(row[0] for row in recorded), *event.payload["ids"]}):
            self._forgotten(memory, event.at)
        observed = self._observed_in([home])
        self._redact(
            f"workspace = ? and {BEFORE} and what not in {texts(LEFT_BEHIND)}",
            (place, *event.order),
        )
        if not self._replaying:
            self.queue.drop_all(place)
            self.unanswered.drop_all(place, event.at)
        for (trace,) in self.db.all("select id from traces where workspace = ?", (home,)):
            self._trace_anew(trace)
        self.db.execute(
            "delete from questions where workspace = ?"
            " and id in (select seq from events where payload = '')",
            (home,),
        )
        self._tell_tasks_anew([home])
        self._observe_anew(observed)
        self._place(home)
        self._lead_paths()
        self._name_all()


def _texts_of(memory: Memory) -> Iterable[str]:
    yield from (memory.title, memory.description, memory.content)
    if error := memory.error_context:
        yield from (text for f in fields(ErrorContext) if (text := getattr(error, f.name)))


def _in_json(text: str) -> str:
    return encode({"": text})[5:-2]


def _joined(one: Any, other: Any) -> Any:
    """What is left when both have taken something out; the same whichever comes first."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _joined(one[key], other[key]) for key in one}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_joined(*pair) for pair in zip(one, other, strict=True)]
    if not (isinstance(one, str) and isinstance(other, str)):
        return min(one, other, key=repr)
    if (FORGOTTEN_TEXT in one) is (FORGOTTEN_TEXT in other):
        return FORGOTTEN_TEXT if FORGOTTEN_TEXT in one else min(one, other)
    return one if FORGOTTEN_TEXT in one else other


def _without(quotes: Sequence[str], value: Any) -> Any:
    """Only what was written is looked at: a short title must not eat the structure."""
    if isinstance(value, str):
        for quote in quotes:
            if quote in value:
                # Within a word, a short one is no quotation.
                pattern = re.escape(quote)
                if len(quote) < QUOTED:
                    pattern = rf"(?<!\w){pattern}(?!\w)"
                value = re.sub(pattern, FORGOTTEN_TEXT, value)
        return value
    if isinstance(value, list):
        return [_without(quotes, item) for item in value]
    if isinstance(value, dict):
        return {key: _without(quotes, item) for key, item in value.items()}
    return value

"""Forgetting: what is taken out of the log itself, and out of all that quotes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from reasonbank.ledger.events import Event, EventType, encode, revisions
from reasonbank.ledger.projection.memories import MemoryProjection
from reasonbank.ledger.queries.base import EVENT, event_of, texts
from reasonbank.model import ErrorContext, Memory
from reasonbank.trust.belief import NOTHING

# Whoever did it, it belongs to the memory that it was done to, and goes with it.
OF_THE_MEMORY = frozenset({
    EventType.REVISED, EventType.ARCHIVED, EventType.RESTORED, EventType.UNDONE,
    EventType.FORGOTTEN, EventType.LINKED, EventType.UNLINKED,
})  # fmt: skip
# A shorter line may well be anybody's.
QUOTED = 12


class Forgetting(MemoryProjection):
    def _forgotten(self, event: Event) -> None:
        id = event.subject
        found = self.db.one("select num, lesson, realm from memories where id = ?", (id,))
        if found is not None:
            num, text, realm = found
            self._scrub_quotes(id, [r.memory for r in revisions(self._events_about(id))])
            self._follow_vectors(num, None)
            self._learn(num, NOTHING)
            self._drop_words(num, text, realm)
            self._drop_tags(num, text)
            self._drop_evidence(num)
            self.db.execute("delete from memories where num = ?", (num,))
        # What a model answered, to be stored: it may well say the same again.
        self.db.execute("update jobs set checkpoint = null where checkpoint is not null")
        self._bury(id, event.at)
        self.db.execute("delete from links where source = ? or target = ?", (id, id))
        self.db.execute("delete from kin where child = ?", (id,))

    def _bury(self, id: str, at: int) -> None:
        self.db.execute("insert into tombstones values (?, ?) on conflict do nothing", (id, at))
        # An empty payload marks an event whose content was removed.
        self.db.execute(
            "update events set payload = '' where subject = ? and what != ?",
            (id, EventType.FORGOTTEN),
        )

    def _scrub_quotes(self, id: str, versions: Sequence[Memory]) -> None:
        """Traces that used the memory may quote it, whole or line by line; so may questions."""
        texts = {text for memory in versions for text in _texts_of(memory)}
        lines = {line.strip() for text in texts for line in text.splitlines()}
        quotes = sorted(texts | {line for line in lines if len(line) >= QUOTED}, key=len)[::-1]
        long = [quote for quote in quotes if len(quote) >= QUOTED]
        self.unanswered.drop_quoting(long)
        contains = self.db.dialect.contains
        wanted = self.db.dialect.texts([_in_json(quote) for quote in long])
        for seq, payload in self.db.all(
            f"select seq, payload from events where what in (?, ?) and"
            f" ({contains('payload', '?')} or exists"
            f" (select 1 from {wanted.sql} quote where {contains('payload', 'quote.value')}))",
            (EventType.TRACED, EventType.LEARNED, id, *wanted.values),
        ):
            told = json.loads(payload)
            part = told.get("trace", told)
            for name in ("task", "trajectory", "metadata", "reason"):
                if name in part:
                    part[name] = _without(quotes, part[name])
            self.db.execute("update events set payload = ? where seq = ?", (encode(told), seq))

    def _judge(self, trace: str) -> None:
        """How the task went: as it was stored, else as the first who found out said."""
        row = self.db.one(
            "select payload from traces join events on seq = event where traces.id = ?", (trace,)
        )
        if row is None:
            return
        outcome = json.loads(row[0])["trace"].get("outcome") if row[0] else None
        if outcome is None:
            told = self.db.all(
                "select payload from events where subject = ? and what = ? and payload != ''"
                " order by at, origin, id",
                (trace, EventType.LEARNED),
            )
            found = (json.loads(payload).get("outcome") for (payload,) in told)
            outcome = next((each for each in found if each is not None), None)
        self.db.execute("update traces set outcome = ? where id = ?", (outcome, trace))

    def _purged(self, event: Event) -> None:
        ids = self.db.dialect.texts(event.payload["ids"])
        self.db.execute(
            f"update events set payload = '' where what in (?, ?) and subject in {ids.sql}",
            (EventType.TRACED, EventType.LEARNED, *ids.values),
        )
        self.db.execute(f"delete from traces where id in {ids.sql}", ids.values)

    def _deleted(self, event: Event) -> None:
        """Forget all that belonged to the workspace until then, and its name and path."""
        id = event.subject
        found = self.db.all(
            "select id from memories where workspace = ? and created_at <= ?", (id, event.at)
        )
        for memory in {*(row[0] for row in found), *event.payload["ids"]}:
            self._forgotten(replace(event, type=EventType.FORGOTTEN, subject=memory, payload={}))
        observed = self._observed_by(id, event.at)
        self.db.execute(
            "update events set payload = '' where workspace = ? and at <= ?"
            f" and what not in {texts(OF_THE_MEMORY | {EventType.DELETED})}",
            (id, event.at),
        )
        for memory in observed:
            self._observe_anew(memory)
        self.queue.drop_all(id)
        self.unanswered.drop_all(id, event.at)
        for table, column in (("traces", "event"), ("questions", "id")):
            self.db.execute(
                f"delete from {table} where workspace = ?"
                f" and {column} in (select seq from events where payload = '')",
                (id,),
            )
        self.db.execute("delete from tasks where workspace = ? and at <= ?", (id, event.at))
        again = "select 1 from events where subject = ? and what = ? and at > ?"
        if self.db.one(again, (id, EventType.JOINED, event.at)) is None:
            for table, column in (("weights", "workspace"), ("paths", "workspace"),
                                  ("workspaces", "id")):  # fmt: skip
                self.db.execute(f"delete from {table} where {column} = ?", (id,))

    def _observed_by(self, workspace: str, until: int) -> list[str]:
        """The memories of others that evidence of this workspace is about."""
        about: set[str] = set()
        for subject, payload in self.db.all(
            "select subject, payload from events"
            " where workspace = ? and at <= ? and what in (?, ?) and payload != ''",
            (workspace, until, EventType.OBSERVED, EventType.USED),
        ):
            about.update(json.loads(payload).get("ids", (subject,)))
        wanted = self.db.dialect.texts([*about])
        found = self.db.all(f"select id from memories where id in {wanted.sql}", wanted.values)
        return [id for (id,) in found]

    def _observe_anew(self, id: str) -> None:
        """Fold the evidence about a memory from what the log still has of it."""
        row = self.db.one("select num from memories where id = ?", (id,))
        assert row is not None
        self._drop_evidence(row[0])
        self.db.execute("update memories set usage_count = 0, last_used = null where num = ?", row)
        self._refold(row[0])
        for values in self.db.all(
            f"select {EVENT} from events where payload != '' and"
            f" (what = ? and subject = ? or what = ? and"
            f" {self.db.dialect.contains('payload', '?')})",
            (EventType.OBSERVED, id, EventType.USED, id),
        ):
            event = event_of(values)
            if event.type is EventType.USED:
                self._used(event, {id})
            else:
                self._observed(event)


def _texts_of(memory: Memory) -> Iterable[str]:
    yield from (memory.title, memory.description, memory.content)
    if error := memory.error_context:
        yield from (text for f in fields(ErrorContext) if (text := getattr(error, f.name)))


def _in_json(text: str) -> str:
    return encode({"": text})[5:-2]


def _without(quotes: Sequence[str], value: Any) -> Any:
    """Only what was written is looked at: a short title must not eat the structure."""
    if isinstance(value, str):
        for quote in quotes:
            if quote in value:
                # Within a word, a short one is no quotation.
                pattern = re.escape(quote)
                if len(quote) < QUOTED:
                    pattern = rf"(?<!\w){pattern}(?!\w)"
                value = re.sub(pattern, "[forgotten]", value)
        return value
    if isinstance(value, list):
        return [_without(quotes, item) for item in value]
    if isinstance(value, dict):
        return {key: _without(quotes, item) for key, item in value.items()}
    return value

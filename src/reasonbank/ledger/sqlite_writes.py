"""How events change the tables of the SQLite ledger: one handler for each kind of event."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import apsw

from reasonbank.ledger.events import (
    CHANGES,
    Event,
    What,
    day_of,
    encode,
    evidence_key,
    lesson,
    memory_of,
    revisions,
)
from reasonbank.ledger.port import SINCE, STANDING, Token
from reasonbank.ledger.sqlite_reads import _EVENT, _OF_TOKENS, Reader, _event, realm_word
from reasonbank.model import ErrorContext, Memory, Outcome, View, to_micros
from reasonbank.trust import belief, experience

# Realms are not among them: readers everywhere remember the numbers.
_PROJECTIONS = (
    "memories", "tags", "evidence", "tally", "weights",
    "links", "kin", "tombstones", "traces", "workspaces", "paths", "questions", "tasks",
    "authors",
)  # fmt: skip


# Whoever did it, it belongs to the memory that it was done to, and goes with it.
_OF_THE_MEMORY = (
    What.REVISED, What.ARCHIVED, What.RESTORED, What.UNDONE, What.FORGOTTEN,
    What.LINKED, What.UNLINKED,
)  # fmt: skip
# A shorter line may well be anybody's.
QUOTED = 12


class Writer(Reader):
    """Only valid inside a transaction of its ledger."""

    def __init__(
        self, db: apsw.Connection, bank_id: str, clock: Callable[[], int], half_life: float
    ) -> None:
        super().__init__(db)
        self.bank_id = bank_id
        self._clock = clock
        self._half_life = half_life

    def forget_cached(self) -> None:
        """After a rollback, realms that it made are gone."""
        self._realms.clear()
        self._keys.clear()

    def stamp(self) -> int:
        last = self._one("select at from events order by seq desc limit 1")
        seen = self._one("select value from meta where key = 'clock'")
        return max(self._clock(), (last[0] if last else 0) + 1, (int(seen[0]) if seen else 0) + 1)

    def append(self, event: Event) -> None:
        self._insert(event)
        self._project(event)

    def _insert(self, event: Event, payload: str | None = None) -> None:
        self._db.execute(
            "insert into events (id, what, subject, workspace, at, origin, author, surface,"
            " payload) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (event.id, event.what, event.subject, event.workspace, event.at, event.origin,
             event.author, event.surface,
             encode(event.payload) if payload is None else payload),
        )  # fmt: skip

    def take(self, events: Iterable[Event]) -> int:
        events = sorted(events, key=lambda e: e.order)
        last = self._one("select at, seq from events order by seq desc limit 1") or (0, 0)
        new: list[Event] = []
        deleted: dict[str, int] = {}
        for event in events:
            if self._one(
                "select 1 from events where subject = ? and id = ?", (event.subject, event.id)
            ):
                continue
            if event.workspace not in deleted:
                deleted[event.workspace] = self._deleted_at(event.workspace)
            if event.what is What.DELETED:
                deleted[event.workspace] = max(deleted[event.workspace], event.at)
            elif event.what not in _OF_THE_MEMORY and event.at <= deleted[event.workspace]:
                if event.what is What.RECORDED:
                    self._bury(event.subject, event.at)
                continue
            if self.forgotten(event.subject):
                continue
            self._insert(event)
            self._project(event)
            new.append(event)
        self._revisit({e.subject for e in new if e.what is What.RECORDED}, last[1])
        if events:
            self._db.execute(
                "insert into meta values ('clock', ?) on conflict (key) do update"
                " set value = max(cast(value as integer), cast(excluded.value as integer))",
                (max(last[0], events[-1].at),),
            )
        return len(new)

    def _deleted_at(self, workspace: str) -> int:
        """When the workspace was deleted last; what happened in it before is out of date."""
        row = self._one(
            "select max(at) from events where subject = ? and what = ?", (workspace, What.DELETED)
        )
        return (row and row[0]) or 0

    def _revisit(self, recorded: set[str], last: int) -> None:
        """What happened to these memories may have come in before they did."""
        if not recorded or not last:
            return
        for id in recorded:
            if len(events := self._events_about(id)) > 1:
                self._stand(events[0])
        for row in self._all(
            f"select {_EVENT} from events where seq <= ? and what in (?, ?) and payload != ''",
            (last, What.OBSERVED, What.USED),
        ):
            event = _event(row)
            if event.what is What.USED:
                ids = [id for id in event.payload["ids"] if id in recorded]
                self._used(replace(event, payload=event.payload | {"ids": ids}))
            elif event.subject in recorded:
                self._observed(event)

    def _project(self, event: Event) -> None:
        match event.what:
            case What.RECORDED | What.REVISED | What.ARCHIVED | What.RESTORED | What.UNDONE:
                self._stand(event)
            case What.OBSERVED:
                self._observed(event)
            case What.USED:
                self._used(event)
            case What.WITHHELD:
                ids = encode(event.payload["ids"])
                self._task(event, "withheld = coalesce(withheld, excluded.withheld)", ids, None)
            case What.ENDED:
                succeeded = event.payload["succeeded"]
                # Of two reports the later stands, whichever came in first.
                self._task(
                    event,
                    "succeeded = iif(succeeded is null or at <= excluded.at, excluded.succeeded,"
                    " succeeded), at = max(at, excluded.at)",
                    None,
                    succeeded,
                )
            case What.FORGOTTEN:
                self._forgotten(event)
            case What.LINKED:
                p = event.payload
                if self.forgotten(p["target"]):
                    return
                self._db.execute(
                    "insert into links values (?, ?, ?, ?) on conflict do update"
                    " set strength = excluded.strength",
                    (event.subject, p["target"], p["type"], p["strength"]),
                )
            case What.UNLINKED:
                self._db.execute(
                    "delete from links where source = ? and target = ? and type = ?",
                    (event.subject, event.payload["target"], event.payload["type"]),
                )
            case What.TRACED:
                self._db.execute(
                    "insert or ignore into traces select ?1, ?2, ?3, seq, null from events"
                    " where subject = ?1 and id = ?4",
                    (event.subject, event.workspace, event.payload["at"], event.id),
                )
                self._judge(event.subject)
            case What.LEARNED:
                self._judge(event.subject)
            case What.PURGED:
                self._purged(event)
            case What.JOINED:
                self._joined(event)
            case What.NAMED:
                self._named(event)
            case What.MOVED:
                self._moved(event)
            case What.DELETED:
                self._deleted(event)

    # Memories

    def _stand(self, event: Event) -> None:
        """Fold all that happened to the memory, and store how it stands."""
        old = self._one(
            "select num, lesson, realm, created_at from memories where id = ?", (event.subject,)
        )
        new = old is None and event.what is What.RECORDED
        if not (history := revisions([event] if new else self._events_about(event.subject))):
            return
        memory = history[-1].memory
        text = encode(lesson(memory))
        realm = self._realm_of(memory)
        if old is None:
            num = self._insert_memory(memory, history[0].memory.outcome, text, realm)
        else:
            num = old[0]
            self._db.execute(
                "update memories set realm = ?, state = ?, outcome = ?, revision = ?,"
                " merged_into = ?, domain = ?, agent = ?, task_type = ?, error_type = ?,"
                " failure_pattern = ?, lesson = ? where num = ?",
                (realm, memory.state, memory.outcome, memory.revision, memory.merged_into,
                 memory.domain, memory.agent, memory.task_type, *_error(memory), text, num),
            )  # fmt: skip
            self._drop_tags(num, old[1])
        if memory.tags:
            self._db.executemany(
                "insert or ignore into tags values (?, ?)", [(tag, num) for tag in memory.tags]
            )
        if old is None or text != old[1] or realm != old[2]:
            if old is not None:
                self._drop_words(num, old[1], old[2])
            self._db.execute(
                "insert into words (rowid, title, description, content, tags, realm)"
                " values (?, ?, ?, ?, ?, ?)",
                (num, *_words(memory, realm)),
            )
        if old is not None and text != old[1]:
            self._drop_vectors(num)
        elif old is not None and realm != old[2]:
            self._replace_vectors("?2, vector", num, realm)

    def _insert_memory(self, memory: Memory, first: Outcome, text: str, realm: int) -> int:
        """``first`` is the outcome it was recorded with: no later revision moves its prior."""
        assert memory.created_at is not None
        recorded = self._all(
            "select seq, payload ->> 'initial' from events where subject = ? and what = ?"
            " and payload != '' order by at, origin, id",
            (memory.id, What.RECORDED),
        )
        num = min(int(seq) for seq, _ in recorded)
        # What was made from others begins where they stood.
        initial = recorded[0][1] if memory.parents else None
        if initial is None:
            initial = belief.initial_confidence(memory.source, first)
        self._db.execute(
            "insert into memories (num, id, realm, workspace, scope, state, outcome, source,"
            " created_at, initial, revision, stage, merged_into, domain, agent, task_type,"
            " error_type, failure_pattern, author, lesson)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (num, memory.id, realm, memory.workspace, memory.scope, memory.state, memory.outcome,
             memory.source, to_micros(memory.created_at), initial, memory.revision,
             memory.stage, memory.merged_into, memory.domain, memory.agent, memory.task_type,
             *_error(memory), memory.author, text),
        )  # fmt: skip
        self._db.execute(
            "insert or ignore into authors values (?, ?, 0, 0)", (memory.workspace, memory.author)
        )
        if memory.parents:
            self._db.executemany(
                "insert or ignore into kin values (?, ?)",
                [(memory.id, parent) for parent in memory.parents],
            )
        return num

    def _realm_of(self, memory: Memory) -> int:
        place = self._one("select team, org from workspaces where id = ?", (memory.workspace,))
        team, org = place or ("default", "local")
        key = View(workspace=memory.workspace or "", team=team, org=org).realm(
            memory.scope, memory.state
        )
        if (num := self._realm(key)) is None:
            # Another process may have made it since it was looked for here.
            self._db.execute("insert or ignore into realms (key) values (?)", (key,))
            del self._realms[key]
            num = self._realm(key)
            assert num is not None
        return num

    def _drop_tags(self, num: int, text: str) -> None:
        self._db.executemany(
            "delete from tags where tag = ? and num = ?",
            [(tag, num) for tag in json.loads(text).get("tags", ())],
        )

    def _drop_words(self, num: int, text: str, realm: int) -> None:
        """Full-text keeps no copy of what it indexed, so it is told again."""
        self._db.execute(
            "insert into words (words, rowid, title, description, content, tags, realm)"
            " values ('delete', ?, ?, ?, ?, ?, ?)",
            (num, *_words(memory_of(json.loads(text)), realm)),
        )

    # Vectors

    def _replace_vectors(self, columns: str, num: int, realm: int | None = None) -> None:
        """Write the row's vectors anew, so that their numbers grow and an index follows."""
        self._db.execute(
            f"insert or replace into vectors (num, model, realm, vector)"
            f" select num, model, {columns} from vectors where num = ?1",
            (num,) if realm is None else (num, realm),
        )

    def _drop_vectors(self, num: int) -> None:
        self._replace_vectors("realm, null", num)
        self._db.execute("update memories set embedded = null where num = ?", (num,))

    def put_vectors(self, model: str, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        self._db.execute("insert or ignore into models (name) values (?)", (model,))
        model_num = self._model(model)
        for num, revision, vector in vectors:
            row = self._one("select realm, revision from memories where num = ?", (num,))
            if row is None or row[1] != revision:
                continue  # Changed while it was being embedded: its turn comes again.
            self._db.execute(
                "insert or replace into vectors (num, model, realm, vector) values (?, ?, ?, ?)",
                (num, model_num, row[0], vector),
            )
            self._db.execute("update memories set embedded = ? where num = ?", (model_num, num))

    def drop_vectors(self, except_model: str) -> int:
        keep = self._model(except_model) or 0
        self._db.execute("delete from vectors where model != ?", (keep,))
        gone = self._db.changes()
        self._db.execute("update memories set embedded = null where embedded != ?", (keep,))
        self._db.execute("delete from models where num != ?", (keep,))
        return gone

    # Evidence

    def _observed(self, event: Event) -> None:
        p = event.payload
        self._observe(
            event.subject, p["kind"], p["positive"], event.at, p.get("session"),
            p.get("rater", event.author), p.get("comment"), bytes.fromhex(p["key"]),
            # Until it is known among how many.
            share=1.0 if p.get("shared") else None,
        )  # fmt: skip

    def _task(self, event: Event, change: str, withheld: str | None, succeeded: object) -> None:
        self._db.execute(
            "insert into tasks (workspace, session, at, withheld, succeeded)"
            f" values (?, ?, ?, ?, ?) on conflict do update set {change}",
            (event.workspace, event.subject, event.at, withheld, succeeded),
        )

    def _asked(self, event: Event) -> int | None:
        """Keep what was asked, so that outcomes can be told by what they were about."""
        p = event.payload
        if p.get("vector") is None:
            return None
        self._db.execute(
            "insert or ignore into questions select seq, ?, ?, ? from events"
            " where subject = ? and id = ?",
            (event.workspace, p["model"], base64.b64decode(p["vector"]), event.subject, event.id),
        )
        row = self._one(
            "select seq from events where subject = ? and id = ?", (event.subject, event.id)
        )
        return row[0] if row else None

    def _used(self, event: Event) -> None:
        session = event.payload.get("session")
        question = self._asked(event)
        expected = event.payload.get("expected", {})
        times = event.payload.get("times", {})
        ids = event.payload["ids"]
        for place, id in enumerate(ids):
            self._db.execute(
                "update memories set usage_count = usage_count + ?,"
                " last_used = max(coalesce(last_used, 0), ?) where id = ?",
                (times.get(id, 1), event.at, id),
            )
            if self._db.changes():
                key = evidence_key(id, "usage", "", session or f"day {day_of(event.at)}")
                self._observe(
                    id, "usage", True, event.at, session, None, None, key, question,
                    expected.get(id), experience.share(place, len(ids)) if session else None,
                )  # fmt: skip

    def _observe(
        self, id: str, kind: str, positive: bool, at: int, session: str | None,
        rater: str | None, comment: str | None, key: bytes, question: int | None = None,
        expected: float | None = None, share: float | None = None,
    ) -> None:  # fmt: skip
        """Count an observation once, in whatever order it comes in.

        Of two reports the later stands, since it corrects the other; of two uses the earlier.
        What is told of one memory stands against what is told of the whole task.
        """
        found = self._one("select num from memories where id = ?", (id,))
        if found is None:
            return
        num = found[0]
        old = self._one("select positive, at, rolled, share from evidence where key = ?", (key,))
        if old is None:
            self._db.execute(
                "insert into evidence (key, num, kind, positive, at, session, rater, comment,"
                " question, expected, share) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, num, kind, positive, at, session, rater, comment, question, expected, share),
            )
            self._speak(num, kind, positive, 1)
        elif _stands(kind, at=(old[1], at), share=(old[3], share)):
            return
        else:
            self._db.execute(
                "update evidence set positive = ?, at = ?, comment = ?, rolled = 0, share = ?,"
                " question = coalesce(?, question), expected = coalesce(?, expected) where key = ?",
                (positive, at, comment, share, question, expected, key),
            )
            self._speak(num, kind, bool(old[0]), -1)
            self._speak(num, kind, positive, 1)
            if old[2]:
                self._db.execute(
                    "update tally set count = count - 1"
                    " where num = ? and kind = ? and positive = ? and day = ?",
                    (num, kind, old[0], day_of(old[1])),
                )
        if session is not None:
            self._connect(num, session)
        self._refold(num)

    def _speak(self, num: int, kind: str, positive: bool, count: int) -> None:
        """Count it for the author as well."""
        if kind == "usage":
            return
        side = "helped" if positive else "failed"
        self._db.execute(
            f"update authors set {side} = {side} + ? where (workspace, author) ="
            " (select workspace, author from memories where num = ?)",
            (count, num),
        )

    def _drop_evidence(self, num: int) -> None:
        for (kind, positive, _), count in self.tallies([num])[num].items():
            self._speak(num, kind, positive, -count)
        for table in ("evidence", "tally"):
            self._db.execute(f"delete from {table} where num = ?", (num,))

    def _connect(self, num: int, session: str) -> None:
        """Say of each observation which question it belongs to and what share of the task's
        outcome it is, whichever came in first."""
        self._db.execute(
            "update evidence set question = asked.question,"
            " share = case when evidence.share is not null then coalesce(asked.share, 1.0) end"
            " from (select question, share from evidence"
            " where session = ?1 and num = ?2 and kind = 'usage' and question is not null) asked"
            " where session = ?1 and num = ?2 and kind != 'usage'",
            (session, num),
        )

    def _refold(self, num: int) -> None:
        """Store what the memory's evidence amounts to; all of it can be made anew."""
        tally = self.tallies([num])[num]
        lessons = belief.rating_lessons(tally)
        packed = None
        if tally:
            packed = STANDING.pack(*belief.masses(tally, self._half_life), *lessons)
        self._learn(num, lessons)
        self._db.execute("update memories set standing = ? where num = ?", (packed, num))

    def _learn(self, num: int, lessons: tuple[int, ...]) -> None:
        """Put a memory's lessons in place of those it taught its project before."""
        row = self._one("select standing, workspace from memories where num = ?", (num,))
        assert row is not None
        packed, workspace = row
        before = STANDING.unpack(packed)[8:] if packed else (0.0,) * 8
        if lessons == before:
            return
        total = [
            was - int(gone) + new
            for was, gone, new in zip(self.lessons(workspace), before, lessons, strict=True)
        ]
        self._db.execute(
            "insert or replace into weights values (?, ?)", (workspace, json.dumps(total))
        )

    def refold_all(self) -> None:
        """After the half-life was changed."""
        for (num,) in self._all("select distinct num from evidence"):
            self._refold(num)
        self._db.execute(
            "update meta set value = ? where key = 'half_life'", (str(self._half_life),)
        )

    def roll_up(self, before: int, limit: int) -> int:
        """Turn evidence older than ``before`` into daily counts: no belief changes by it."""
        found = self._all(
            "select key, num, kind, positive, at from evidence"
            " where rolled = 0 and at < ? order by at limit ?",
            (before, limit),
        )
        for key, num, kind, positive, at in found:
            self._db.execute(
                "insert into tally values (?, ?, ?, ?, 1)"
                " on conflict do update set count = count + 1",
                (num, kind, positive, day_of(at)),
            )
            self._db.execute(
                "update evidence set rolled = 1, rater = null, comment = null where key = ?",
                (key,),
            )
        return len(found)

    # Forgetting

    def _forgotten(self, event: Event) -> None:
        id = event.subject
        found = self._one("select num, lesson, realm from memories where id = ?", (id,))
        if found is not None:
            num, text, realm = found
            self._scrub_quotes(id, [r.memory for r in revisions(self._events_about(id))])
            self._replace_vectors("realm, null", num)
            self._learn(num, (0,) * 8)
            self._drop_words(num, text, realm)
            self._drop_tags(num, text)
            self._drop_evidence(num)
            self._db.execute("delete from memories where num = ?", (num,))
        # What a model answered, to be stored: it may well say the same again.
        self._db.execute("update jobs set checkpoint = null where checkpoint is not null")
        self._bury(id, event.at)
        self._db.execute("delete from links where source = ?1 or target = ?1", (id,))
        self._db.execute("delete from kin where child = ?", (id,))

    def _bury(self, id: str, at: int) -> None:
        self._db.execute("insert or ignore into tombstones values (?, ?)", (id, at))
        # An empty payload marks an event whose content was removed.
        self._db.execute(
            "update events set payload = '' where subject = ? and what != ?", (id, What.FORGOTTEN)
        )

    def _scrub_quotes(self, id: str, versions: Sequence[Memory]) -> None:
        """Traces that used the memory may quote it, whole or line by line; so may questions."""
        texts = {text for memory in versions for text in _texts_of(memory)}
        lines = {line.strip() for text in texts for line in text.splitlines()}
        quotes = sorted(texts | {line for line in lines if len(line) >= QUOTED}, key=len)[::-1]
        self.misses.drop_quoting(q for q in quotes if len(q) >= QUOTED)
        wanted = json.dumps([_in_json(q) for q in quotes if len(q) >= QUOTED])
        for seq, payload in self._all(
            "select seq, payload from events where what in (?, ?) and (instr(payload, ?)"
            " or exists (select 1 from json_each(?) where instr(payload, value)))",
            (What.TRACED, What.LEARNED, id, wanted),
        ):
            told = json.loads(payload)
            part = told.get("trace", told)
            for name in ("task", "trajectory", "metadata", "reason"):
                if name in part:
                    part[name] = _without(quotes, part[name])
            self._db.execute("update events set payload = ? where seq = ?", (encode(told), seq))

    def _judge(self, trace: str) -> None:
        """How the task went: as it was stored, else as the first who found out said."""
        self._db.execute(
            "update traces set outcome = coalesce("
            " (select payload ->> '$.trace.outcome' from events"
            "  where seq = event and payload != ''),"
            " (select payload ->> '$.outcome' from events where subject = traces.id and what = ?"
            "  and payload != '' and payload ->> '$.outcome' is not null"
            "  order by at, origin, id limit 1)) where id = ?",
            (What.LEARNED, trace),
        )

    def _purged(self, event: Event) -> None:
        ids = json.dumps(event.payload["ids"])
        self._db.execute(
            "update events set payload = '' where what in (?, ?)"
            " and subject in (select value from json_each(?))",
            (What.TRACED, What.LEARNED, ids),
        )
        self._db.execute("delete from traces where id in (select value from json_each(?))", (ids,))

    # Workspaces

    def _joined(self, event: Event) -> None:
        p = event.payload
        old = self._one("select team, org from workspaces where id = ?", (event.subject,))
        self._db.execute(
            "insert into workspaces (id, path, team, org) values (?, ?, ?, ?)"
            " on conflict do update set team = excluded.team, org = excluded.org,"
            " path = coalesce(path, excluded.path)",
            (event.subject, p.get("path"), p["team"], p["org"]),
        )
        if old != (p["team"], p["org"]):
            for (id,) in self._all("select id from memories where workspace = ?", (event.subject,)):
                self._stand(self._events_about(id)[0])
        if old is None:
            for row in self._all(
                f"select {_EVENT} from events where subject = ? and what in (?, ?)"
                " and payload != '' and at > ? order by at",
                (event.subject, What.NAMED, What.MOVED, event.at),
            ):
                self._project(_event(row))  # These came in before it did.

    def _moved(self, event: Event) -> None:
        """The new path leads here from now on, and the old one to a workspace of its own."""
        p = event.payload
        self._db.execute("update workspaces set path = ? where id = ?", (p["path"], event.subject))
        for digest, workspace in ((p["digest"], event.subject), (p["old_digest"], p["heir"])):
            if digest:
                self._db.execute("insert or replace into paths values (?, ?)", (digest, workspace))

    def _named(self, event: Event) -> None:
        """Of two workspaces with one name, the one that was named last has it."""
        later = self._one(
            "select 1 from events where what = ? and (subject = ? or payload = ?)"
            " and (at, origin, id) > (?, ?, ?)",
            (What.NAMED, event.subject, encode(event.payload), *event.order),
        )
        if later is None:
            name = event.payload["name"]
            self._db.execute("update workspaces set name = null where name = ?", (name,))
            self._db.execute("update workspaces set name = ? where id = ?", (name, event.subject))

    def _deleted(self, event: Event) -> None:
        """Forget all that belonged to the workspace until then, and its name and path."""
        id = event.subject
        found = self._all(
            "select id from memories where workspace = ? and created_at <= ?", (id, event.at)
        )
        for memory in {*(row[0] for row in found), *event.payload["ids"]}:
            self._forgotten(replace(event, what=What.FORGOTTEN, subject=memory, payload={}))
        observed = self._observed_by(id, event.at)
        self._db.execute(
            "update events set payload = '' where workspace = ? and at <= ?"
            " and what not in (select value from json_each(?))",
            (id, event.at, json.dumps([What.DELETED, *_OF_THE_MEMORY])),
        )
        for memory in observed:
            self._observe_anew(memory)
        self.queue.drop_all(id)
        self.misses.drop_all(id, event.at)
        for table, column in (("traces", "event"), ("questions", "id")):
            self._db.execute(
                f"delete from {table} where workspace = ?"
                f" and {column} in (select seq from events where payload = '')",
                (id,),
            )
        self._db.execute("delete from tasks where workspace = ? and at <= ?", (id, event.at))
        again = "select 1 from events where subject = ? and what = ? and at > ?"
        if self._one(again, (id, What.JOINED, event.at)) is None:
            for table, column in (("weights", "workspace"), ("paths", "workspace"),
                                  ("workspaces", "id")):  # fmt: skip
                self._db.execute(f"delete from {table} where {column} = ?", (id,))

    def _observed_by(self, workspace: str, until: int) -> list[str]:
        """The memories of others that evidence of this workspace is about."""
        found = self._all(
            "select id from memories where id in ("
            " select subject from events"
            " where workspace = ?1 and at <= ?2 and what = ?3 and payload != ''"
            " union select value from events, json_each(payload, '$.ids')"
            " where workspace = ?1 and at <= ?2 and what = ?4 and payload != '')",
            (workspace, until, What.OBSERVED, What.USED),
        )
        return [id for (id,) in found]

    def _observe_anew(self, id: str) -> None:
        """Fold the evidence about a memory from what the log still has of it."""
        row = self._one("select num from memories where id = ?", (id,))
        assert row is not None
        self._drop_evidence(row[0])
        self._db.execute("update memories set usage_count = 0, last_used = null where num = ?", row)
        self._refold(row[0])
        for values in self._all(
            f"select {_EVENT} from events where payload != '' and"
            " (what = ? and subject = ? or what = ? and instr(payload, ?))",
            (What.OBSERVED, id, What.USED, id),
        ):
            event = _event(values)
            if event.what is What.USED:
                self._used(replace(event, payload=event.payload | {"ids": [id]}))
            else:
                self._observed(event)

    # What is not in the log

    def add_meters(self, cells: Iterable[tuple[str, int, int]]) -> None:
        self._db.executemany(
            "insert into meters values (?, ?, ?)"
            " on conflict do update set amount = amount + excluded.amount",
            cells,
        )
        self._db.execute("insert or ignore into meters values (?, -1, ?)", (SINCE, self._clock()))

    def reset_meters(self) -> None:
        self._db.execute("delete from meters")
        self.add_meters(())

    def note(self, event: Event) -> None:
        """Without a payload it is read by the audit alone: not replayed, not exported."""
        self._insert(event, "")

    def put_token(self, token: Token) -> None:
        places = None if token.workspaces is None else json.dumps(token.workspaces)
        self._db.execute(
            f"insert or replace into tokens ({_OF_TOKENS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (token.id, token.name, token.scope, places, token.digest, token.created_at,
             token.created_by, token.expires_at, token.last_used, token.revoked_at),
        )  # fmt: skip

    def rebuild(self) -> None:
        """Throw every table away and make it anew from the log (vectors are embedded anew)."""
        for (num,) in self._all("select distinct num from vectors"):
            self._replace_vectors("realm, null", num)
        for table in _PROJECTIONS:
            self._db.execute(f"delete from {table}")
        self._db.execute("insert into words (words) values ('delete-all')")
        events = sorted(self.events(None), key=lambda e: e.order)
        for event in events:
            if event.what in CHANGES and self.forgotten(event.subject):
                continue
            self._project(event)


def _words(memory: Memory, realm: int) -> tuple[str, ...]:
    content = memory.content
    if error := memory.error_context:
        parts = (error.error_type, error.failure_pattern, error.corrective_guidance,
                 error.error_message)  # fmt: skip
        content = "\n".join((content, *(part for part in parts if part)))
    tags = " ".join((*memory.tags, memory.domain or ""))
    return (memory.title, memory.description, content, tags, realm_word(realm))


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


def _error(memory: Memory) -> tuple[str | None, str | None]:
    error = memory.error_context
    return (error.error_type, error.failure_pattern) if error else (None, None)


def _stands(kind: str, *, at: tuple[int, int], share: tuple[float | None, float | None]) -> bool:
    """Whether the first of two observations under one key stands against the second."""
    if kind != "usage" and (share[0] is None) is not (share[1] is None):
        return share[0] is None
    return at[0] == at[1] or (at[0] < at[1]) is (kind == "usage")

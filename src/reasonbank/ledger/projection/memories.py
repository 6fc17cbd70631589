"""Memories: how each stands after all that happened to it, with its words and vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reasonbank.ledger.events import Event, EventType, encode, lesson, memory_of, revisions
from reasonbank.ledger.projection.evidence import EvidenceProjection
from reasonbank.model import Memory, Outcome, View, filtered, to_micros
from reasonbank.trust import belief


class MemoryProjection(EvidenceProjection):
    def _stand(self, event: Event) -> None:
        """Fold all that happened to the memory, and store how it stands."""
        old = self.db.one(
            "select num, lesson, realm, created_at from memories where id = ?", (event.subject,)
        )
        new = old is None and event.type is EventType.RECORDED
        if not (history := revisions([event] if new else self._events_about(event.subject))):
            return
        memory = history[-1].memory
        text = encode(lesson(memory))
        realm = self._realm_of(memory)
        if old is None:
            num = self._insert_memory(memory, history[0].memory.outcome, text, realm)
        else:
            num = old[0]
            self.db.execute(
                "update memories set realm = ?, state = ?, outcome = ?, revision = ?,"
                f" merged_into = ?, {', '.join(f'{n} = ?' for n in filtered())}, error_type = ?,"
                " failure_pattern = ?, lesson = ? where num = ?",
                (realm, memory.state, memory.outcome, memory.revision, memory.merged_into,
                 *_filed(memory), *_error(memory), text, num),
            )  # fmt: skip
            self._drop_tags(num, old[1])
        if memory.tags:
            self.db.many(
                "insert into tags values (?, ?) on conflict do nothing",
                [(tag, num) for tag in memory.tags],
            )
        if old is None or text != old[1] or realm != old[2]:
            if old is not None:
                self._drop_words(num, old[1], old[2])
            self.db.full_text.put(num, _words(memory), realm)
        if old is not None and text != old[1]:
            self._drop_vectors(num)
        elif old is not None and realm != old[2]:
            self._follow_vectors(num, realm)

    def _insert_memory(self, memory: Memory, first: Outcome, text: str, realm: int) -> int:
        """``first`` is the outcome it was recorded with: no later revision moves its prior."""
        assert memory.created_at is not None
        recorded = self.db.all(
            "select seq, payload from events where subject = ? and what = ?"
            " and payload != '' order by at, origin, id",
            (memory.id, EventType.RECORDED),
        )
        num = min(int(seq) for seq, _ in recorded)
        # What was made from others begins where they stood.
        initial = json.loads(recorded[0][1]).get("initial") if memory.parents else None
        if initial is None:
            initial = belief.initial_confidence(memory.source, first)
        self.db.execute(
            "insert into memories (num, id, realm, workspace, scope, state, outcome, source,"
            f" created_at, initial, revision, stage, merged_into, {', '.join(filtered())},"
            " error_type, failure_pattern, author, lesson)"
            f" values ({', '.join('?' * (17 + len(filtered())))})",
            (num, memory.id, realm, memory.workspace, memory.scope, memory.state, memory.outcome,
             memory.source, to_micros(memory.created_at), initial, memory.revision, memory.stage,
             memory.merged_into, *_filed(memory), *_error(memory), memory.author, text),
        )  # fmt: skip
        self.db.execute(
            "insert into authors values (?, ?, 0, 0) on conflict do nothing",
            (memory.workspace, memory.author),
        )
        if memory.parents:
            self.db.many(
                "insert into kin values (?, ?) on conflict do nothing",
                [(memory.id, parent) for parent in memory.parents],
            )
        return num

    def _realm_of(self, memory: Memory) -> int:
        place = self.db.one("select team, org from workspaces where id = ?", (memory.workspace,))
        team, org = place or ("default", "local")
        key = View(workspace=memory.workspace or "", team=team, org=org).realm(
            memory.scope, memory.state
        )
        if (num := self._realm(key)) is None:
            # Another process may have made it since it was looked for here.
            self.db.execute("insert into realms (key) values (?) on conflict do nothing", (key,))
            del self._realms[key]
            num = self._realm(key)
            assert num is not None
        return num

    def _drop_tags(self, num: int, text: str) -> None:
        self.db.many(
            "delete from tags where tag = ? and num = ?",
            [(tag, num) for tag in json.loads(text).get("tags", ())],
        )

    def _drop_words(self, num: int, text: str, realm: int) -> None:
        self.db.full_text.drop(num, _words(memory_of(json.loads(text))), realm)

    # Vectors

    def _follow_vectors(self, num: int, realm: int | None) -> None:
        """Write the row's vectors anew, so that their numbers grow and an index follows.

        With None they are gone.
        """
        found = self.db.all("select model, realm, vector from vectors where num = ?", (num,))
        self.db.execute("delete from vectors where num = ?", (num,))
        for model, before, vector in found:
            self._put_vector(
                num,
                model,
                before if realm is None else realm,
                None if realm is None else vector,
            )

    def _put_vector(self, num: int, model: int, realm: int, vector: bytes | None) -> None:
        self.db.execute(
            "insert into vectors (num, model, realm, vector) values (?, ?, ?, ?)",
            (num, model, realm, vector),
        )

    def _drop_vectors(self, num: int) -> None:
        self._follow_vectors(num, None)
        self.db.execute("update memories set embedded = null where num = ?", (num,))

    def put_vectors(self, model: str, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        self.db.execute("insert into models (name) values (?) on conflict do nothing", (model,))
        model_num = self._model(model)
        assert model_num is not None
        for num, revision, vector in vectors:
            row = self.db.one("select realm, revision from memories where num = ?", (num,))
            if row is None or row[1] != revision:
                continue  # Changed while it was being embedded: its turn comes again.
            self.db.execute("delete from vectors where num = ? and model = ?", (num, model_num))
            self._put_vector(num, model_num, row[0], vector)
            self.db.execute("update memories set embedded = ? where num = ?", (model_num, num))

    def drop_vectors(self, except_model: str) -> int:
        keep = self._model(except_model) or 0
        gone = self.db.execute("delete from vectors where model != ?", (keep,))
        self.db.execute("update memories set embedded = null where embedded != ?", (keep,))
        self.db.execute("delete from models where num != ?", (keep,))
        return gone


def _words(memory: Memory) -> tuple[str, ...]:
    content = memory.content
    if error := memory.error_context:
        parts = (error.error_type, error.failure_pattern, error.corrective_guidance,
                 error.error_message)  # fmt: skip
        content = "\n".join((content, *(part for part in parts if part)))
    tags = " ".join((*memory.tags, memory.domain or ""))
    return (memory.title, memory.description, content, tags)


def _filed(memory: Memory) -> list[str | None]:
    return [getattr(memory, name) for name in filtered()]


def _error(memory: Memory) -> tuple[str | None, str | None]:
    error = memory.error_context
    return (error.error_type, error.failure_pattern) if error else (None, None)

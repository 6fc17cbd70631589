"""Memories: how each stands after all that happened to it, with its words and vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reasonbank.ledger.events import (
    Event,
    EventType,
    encode,
    hand_of,
    lesson,
    memory_of,
    put_on_probation,
    revisions,
)
from reasonbank.ledger.projection.evidence import EvidenceProjection
from reasonbank.ledger.vectors import PackedVector
from reasonbank.model import JSON, Memory, View, filtered, to_micros
from reasonbank.trust import belief
from reasonbank.trust.belief import NOTHING


class MemoryProjection(EvidenceProjection):
    def _stand(self, id: str, only: Event | None = None) -> None:
        """Fold all that happened to the memory, and store how it stands; ``only`` is all that
        happened to a new one."""
        old = self.db.one(
            "select num, lesson, realm, workspace, author from memories where id = ?", (id,)
        )
        events = [only] if only is not None and old is None else self._events_about(id)
        if not (history := revisions(events)):
            return
        memory = history[-1].memory
        text = encode(lesson(memory))
        first = min(events, key=_recorded_first)
        put = put_on_probation(events) if memory.standing.level else None
        values = self._columns(memory, first, history[0].memory, text)
        values["since"] = 0 if put is None else max(put.counter, put.payload.get("heard", 0))
        # Whoever's words it has last, where nobody has confirmed these.
        values["hand"] = hand_of(put or first)
        num = self._write(id, old, memory, values)
        self._confirm(num)
        if memory.tags:
            self.db.many(
                "insert into tags values (?, ?) on conflict do nothing",
                [(tag, num) for tag in memory.tags],
            )
        realm = values["realm"]
        if old is None or text != old[1] or realm != old[2]:
            if old is not None:
                self._drop_words(num, old[1], old[2])
            self.db.full_text.put(num, words_of(memory), realm)
        if old is not None and text != old[1]:
            self._drop_vectors(num)
        elif old is not None and realm != old[2]:
            self._follow_vectors(num, realm)

    def _columns(self, memory: Memory, recorded: Event, first: Memory, text: str) -> JSON:
        """``first`` is as it was recorded: no later revision moves its prior."""
        assert memory.created_at is not None
        # What was made from others begins where they stood.
        initial = recorded.payload.get("initial") if memory.parents else None
        if initial is None:
            initial = belief.initial_confidence(first.source, first.outcome)
        error = memory.error_context
        return {
            "id": memory.id, "realm": self._realm_of(memory), "workspace": memory.workspace,
            "scope": memory.scope, "state": memory.state, "outcome": memory.outcome,
            "source": memory.source, "created_at": to_micros(memory.created_at),
            "initial": initial, "revision": memory.revision, "stage": memory.stage,
            "merged_into": memory.merged_into,
            **{name: getattr(memory, name) for name in filtered()},
            "error_type": error.error_type if error else None,
            "failure_pattern": error.failure_pattern if error else None,
            "author": memory.author, "lesson": text,
            "entered": memory.standing.level,
        }  # fmt: skip

    def _write(self, id: str, old: tuple[Any, ...] | None, memory: Memory, values: JSON) -> int:
        owner = (values["workspace"], values["author"])
        num: int
        if old is None:
            # The number is that of the event which came in first: the same after a rebuild.
            [(num,)] = self.db.all(
                f"insert into memories (num, {', '.join(values)})"
                f" values ((select min(seq) from events where subject = ? and what = ?"
                f" and payload != ''){', ?' * len(values)}) returning num",
                (id, EventType.RECORDED, *values.values()),
            )
            self._author(*owner, 1)
        else:
            num = old[0]
            self._drop_tags(num, old[1])
            moved = owner != old[3:]
            if moved:
                # An earlier event has come in later: somebody else had recorded it before.
                self._disown(num, old[3], old[4])
            self.db.execute(
                f"update memories set {', '.join(f'{name} = ?' for name in values)} where num = ?",
                (*values.values(), num),
            )
            if moved:
                self._author(*owner, 1)
                self._own(num)
            if '"parents"' in old[1]:
                self.db.execute("delete from kin where child = ?", (id,))
        if memory.parents:
            self.db.many(
                "insert into kin values (?, ?) on conflict do nothing",
                [(id, parent) for parent in memory.parents],
            )
        return num

    def _disown(self, num: int, workspace: str, author: str) -> None:
        """Take what evidence says of a memory from its author and its project."""
        self._speak_all(num, -1)
        self._learn(num, NOTHING)
        self.db.execute("update memories set standing = null where num = ?", (num,))
        for table in ("opinions", "shared_evidence"):
            self.db.execute(f"delete from {table} where num = ?", (num,))
        self._author(workspace, author, -1)

    def _own(self, num: int) -> None:
        self._speak_all(num, 1)
        self._refold(num)

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
        self.db.full_text.drop(num, words_of(memory_of(json.loads(text))), realm)

    # Vectors

    def _follow_vectors(self, num: int, realm: int | None) -> None:
        """Write the row's vectors anew, so that their numbers grow and an index follows.

        With None they are gone.
        """
        found = self.db.all("select model, realm, vector from vectors where num = ?", (num,))
        self.db.execute("delete from vectors where num = ?", (num,))
        if realm is None:
            self.db.execute("delete from passages where num = ?", (num,))
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

    def put_vectors(
        self,
        model: str,
        vectors: Sequence[PackedVector],
        *,
        replacing: Sequence[str] = (),
    ) -> None:
        self.db.execute("insert into models (name) values (?) on conflict do nothing", (model,))
        model_num = self._model(model)
        assert model_num is not None
        replaced = [each for each in self._models_like(replacing) if each != model_num]
        for num, revision, vector, passages in vectors:
            row = self.db.one("select realm, revision from memories where num = ?", (num,))
            if row is None or row[1] != revision:
                continue  # Changed while it was being embedded: its turn comes again.
            for table in ("vectors", "passages"):
                there = f"delete from {table} where num = ? and model = ?"
                self.db.execute(there, (num, model_num))
            for other in replaced:
                self._retire(num, other, row[0])
            self._put_vector(num, model_num, row[0], vector)
            if passages:
                self.db.execute(
                    "insert into passages (num, model, vectors) values (?, ?, ?)",
                    (num, model_num, passages),
                )
            # The newest model that it has a vector of: two that are in use at once do not take
            # turns to embed what the other has embedded.
            self.db.execute(
                "update memories set embedded = ? where num = ?"
                " and (embedded is null or embedded < ?)",
                (model_num, num, model_num),
            )

    def _retire(self, num: int, model: int, realm: int) -> None:
        """What follows that model learns that its vector is gone."""
        there = "num = ? and model = ? and vector is not null"
        if self.db.changed(f"delete from vectors where {there}", (num, model)):
            self._put_vector(num, model, realm, None)
            self.db.execute("delete from passages where num = ? and model = ?", (num, model))

    def drop_vectors(self, except_model: str) -> int:
        keep = self._model(except_model) or 0
        if keep:
            self._keep_graves(keep)
        gone = self.db.changed("delete from vectors where model != ?", (keep,))
        self.db.execute("delete from passages where model != ?", (keep,))
        self.db.execute(
            "update memories set embedded = (select model from vectors"
            " where vectors.num = memories.num and vector is not null) where embedded != ?",
            (keep,),
        )
        self.db.execute("delete from models where num != ?", (keep,))
        return gone

    def _keep_graves(self, model: int) -> None:
        """An index of this model may hold another's vector of a row that is gone, and must still
        learn of it."""
        gone = self.db.all(
            "select num, max(realm) from vectors where model != ? and vector is null"
            " and num not in (select num from vectors where model = ?) group by num",
            (model, model),
        )
        for num, realm in gone:
            self._put_vector(num, model, realm, None)


def words_of(memory: Memory) -> tuple[str, ...]:
    """What full text is told of a memory."""
    content = memory.content
    if error := memory.error_context:
        parts = (error.error_type, error.failure_pattern, error.corrective_guidance,
                 error.error_message)  # fmt: skip
        content = "\n".join((content, *(part for part in parts if part)))
    tags = " ".join((*memory.tags, memory.domain or ""))
    return (memory.title, memory.description, content, tags)


def _recorded_first(event: Event) -> tuple[bool, int, str]:
    return (event.type is not EventType.RECORDED, *event.order)

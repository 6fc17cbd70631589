"""Questions that found nothing, in the SQLite ledger; no part of its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from reasonbank.ledger.port import Miss
from reasonbank.ledger.sqlite_rows import Rows

QUIET = 3_600_000_000
"""Microseconds. Whoever forgot something may search for it, to see that it is gone; so long after
a memory was forgotten no question is kept."""


class SQLiteMisses(Rows):
    """The part that writes is only valid inside a transaction of its ledger."""

    def of(self, workspace: str) -> list[Miss]:
        found = self._all(
            "select question, first, last, asked, model, vector from misses"
            " where workspace = ? order by last desc, question",
            (workspace,),
        )
        return [
            Miss(
                workspace=workspace, question=question, first=first, last=last, asked=asked,
                model=model, vector=vector,
            )
            for question, first, last, asked, model, vector in found
        ]  # fmt: skip

    def put(self, misses: Sequence[Miss], *, keep: int) -> None:
        forgotten = self._one("select max(at) from tombstones")
        if forgotten and forgotten[0]:
            misses = [miss for miss in misses if miss.last > forgotten[0] + QUIET]
        for miss in misses:
            self._db.execute(
                "insert into misses values (?, ?, ?, ?, ?, ?, ?) on conflict do update set"
                " asked = asked + excluded.asked, last = max(last, excluded.last),"
                " model = coalesce(excluded.model, model),"
                " vector = coalesce(excluded.vector, vector)",
                (miss.workspace, miss.question, miss.asked, miss.first, miss.last, miss.model,
                 miss.vector),
            )  # fmt: skip
        for workspace in {miss.workspace for miss in misses}:
            self._db.execute(
                "delete from misses where workspace = ?1 and (last, question) <= ("
                " select last, question from misses where workspace = ?1"
                " order by last desc, question desc limit 1 offset ?2)",
                (workspace, keep),
            )

    def drop(self, workspace: str, questions: Iterable[str]) -> int:
        self._db.execute(
            "delete from misses where workspace = ?"
            " and question in (select value from json_each(?))",
            (workspace, json.dumps([*questions])),
        )
        return self._db.changes()

    def drop_before(self, at: int) -> int:
        self._db.execute("delete from misses where last < ?", (at,))
        return self._db.changes()

    def drop_all(self, workspace: str, until: int) -> None:
        self._db.execute("delete from misses where workspace = ? and last <= ?", (workspace, until))

    def drop_quoting(self, texts: Iterable[str]) -> None:
        """Those that say what one of these says, or a part of it."""
        self._db.execute(
            "delete from misses where exists (select 1 from json_each(?)"
            " where instr(lower(question), lower(value)) or instr(lower(value), lower(question)))",
            (json.dumps([*texts]),),
        )

"""Questions that found nothing; no part of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reasonbank.ledger.database import Database, columns, records
from reasonbank.ledger.port import UnansweredQuestion

QUIET = 3_600_000_000
"""Microseconds. Whoever forgot something may search for it, to see that it is gone; so long after
a memory was forgotten no question is kept."""
_COLUMNS = columns(UnansweredQuestion)


class UnansweredQuestions:
    """The part that writes is only valid inside a transaction of its ledger."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, workspace: str) -> list[UnansweredQuestion]:
        found = self._db.all(
            f"select {_COLUMNS} from misses where workspace = ? order by last desc, question",
            (workspace,),
        )
        return records(UnansweredQuestion, _COLUMNS, found)

    def put(self, unanswered: Sequence[UnansweredQuestion], *, keep: int) -> None:
        forgotten = self._db.one("select max(at) from tombstones")
        if forgotten and forgotten[0]:
            unanswered = [entry for entry in unanswered if entry.last > forgotten[0] + QUIET]
        self._put(unanswered)
        for workspace in {entry.workspace for entry in unanswered}:
            self._db.execute(
                "delete from misses where workspace = ? and (last, question) <= ("
                " select last, question from misses where workspace = ?"
                " order by last desc, question desc limit 1 offset ?)",
                (workspace, workspace, keep),
            )

    def _put(self, unanswered: Sequence[UnansweredQuestion]) -> None:
        self._db.many(
            f"insert into misses ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)"
            " on conflict (workspace, question) do update set"
            " asked = misses.asked + excluded.asked,"
            " last = case when misses.last > excluded.last then misses.last"
            " else excluded.last end,"
            " model = coalesce(excluded.model, misses.model),"
            " vector = coalesce(excluded.vector, misses.vector)",
            [[getattr(entry, name) for name in _COLUMNS.split(", ")] for entry in unanswered],
        )

    def drop(self, workspace: str, questions: Iterable[str]) -> int:
        wanted = self._db.dialect.texts([*questions])
        return self._db.changed(
            f"delete from misses where workspace = ? and question in {wanted.sql}",
            (workspace, *wanted.values),
        )

    def drop_before(self, at: int) -> int:
        return self._db.changed("delete from misses where last < ?", (at,))

    def bring_home(self, workspace: str, home: str) -> None:
        """The workspace was merged into another; what both were asked counts once."""
        for entry in self.of(workspace):
            self._put([replace(entry, workspace=home)])
        self._db.execute("delete from misses where workspace = ?", (workspace,))

    def drop_all(self, workspace: str, until: int) -> None:
        self._db.execute("delete from misses where workspace = ? and last <= ?", (workspace, until))

    def drop_quoting(self, texts: Sequence[str], where: str, values: Sequence[str]) -> None:
        """Those that say what one of these says, or a part of it, in workspaces for which
        ``where`` holds."""
        dialect = self._db.dialect
        quotes = dialect.texts(texts)
        asked, said = "lower(question)", "lower(quote.value)"
        self._db.execute(
            f"delete from misses where {where} and exists (select 1 from {quotes.sql} quote"
            f" where {dialect.contains(asked, said)} or {dialect.contains(said, asked)})",
            (*values, *quotes.values),
        )

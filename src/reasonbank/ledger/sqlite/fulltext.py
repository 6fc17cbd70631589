"""Full text by FTS5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import apsw

from reasonbank.errors import StorageError
from reasonbank.ledger.words import MANY, KeptCounts, arrays, rarest

if TYPE_CHECKING:
    from reasonbank.ledger.database import Nums, Scores, Words
    from reasonbank.ledger.sqlite.connection import Connection

# The realm restricts; it says nothing about how well a row fits. And not rank, which keeps the
# positions of every match and takes half as long again.
_SCORE = "-bm25(words, 1, 1, 1, 1, 0)"


class FTS5:
    def __init__(self, db: Connection) -> None:
        self._db = db
        self._kept = KeptCounts()

    def create(self) -> None:
        # Not `contentless_delete`: it only marks a row as deleted, and its words stay in the file.
        self._db.execute(
            "create virtual table words using fts5 (title, description, content, tags, realm,"
            " content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
        )
        self._db.execute("insert into words (words, rank) values ('secure-delete', 1)")

    def put(self, num: int, texts: Sequence[str], realm: int) -> None:
        self._db.execute(
            "insert into words (rowid, title, description, content, tags, realm)"
            " values (?, ?, ?, ?, ?, ?)",
            (num, *texts, realm_word(realm)),
        )

    def drop(self, num: int, texts: Sequence[str], realm: int) -> None:
        """Full text keeps no copy of what it indexed, so it is told again."""
        self._db.execute(
            "insert into words (words, rowid, title, description, content, tags, realm)"
            " values ('delete', ?, ?, ?, ?, ?, ?)",
            (num, *texts, realm_word(realm)),
        )

    def put_all(self, rows: Sequence[Words]) -> None:
        for row in rows:
            self.put(*row)

    def drop_all(self, rows: Sequence[Words]) -> None:
        for row in rows:
            self.drop(*row)

    def clear(self) -> None:
        self._db.execute("insert into words (words) values ('delete-all')")

    def rows(self) -> int:
        """How many rows BM25 is counted over: FTS5 keeps it in front of its averages."""
        found = self._all("select block from words_data where id = 1")
        rows = 0
        for byte in (found[0][0] if found else b"")[:9]:
            rows = rows << 7 | byte & 0x7F
            if byte < 0x80:
                break
        return rows

    def state(self) -> bytes:
        """What FTS5 notes anew whenever words are written: its averages and its segments."""
        found = self._all("select block from words_data where id in (1, 10) order by id")
        return b"".join(block for (block,) in found)

    def best(
        self,
        realms: Sequence[int] | None,
        terms: Sequence[str],
        limit: int,
        among: Nums | None,
    ) -> tuple[Nums, Scores]:
        only = ""
        values: tuple[Any, ...] = ()
        if among is not None:
            only, values = self._db.dialect.numbers(among)
        elif rare := self._rare(terms, realms, limit):
            only = "(select rowid from words where words match ?)"
            values = (expression(realms, rare),)
        # The plus keeps SQLite from asking the full text anew for every single row.
        found = self._all(
            f"select rowid, {_SCORE} as score from words where words match ?"
            f"{f' and +rowid in {only}' if only else ''} order by score desc limit ?",
            (expression(realms, terms), *values, limit),
        )
        return arrays(found)

    def posting(self, realms: Sequence[int] | None, term: str) -> tuple[Nums, Scores]:
        """The rows that a term is in, and what BM25 gives each of them for it."""
        match = expression(realms, [term])
        return arrays(self._all(f"select rowid, {_SCORE} from words where words match ?", (match,)))

    def _rare(
        self, terms: Sequence[str], realms: Sequence[int] | None, limit: int
    ) -> Sequence[str]:
        rows = self.rows()
        if rows < MANY:
            return ()
        counts = dict(zip(terms, self.counts(realms, terms, about=True), strict=True))
        return rarest(terms, counts, rows, limit)

    def counts(
        self, realms: Sequence[int] | None, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        kept = self._kept.nearly(self.rows()) if about else self._kept.now(self.state())
        return [self._rows_with(expression(realms, [term]), kept) for term in terms]

    def _rows_with(self, match: str, kept: dict[str, int]) -> int:
        if match not in kept:
            found = self._all("select count(*) from words where words match ?", (match,))
            if not found[0][0]:
                return 0  # Quickly told, and no longer true once somebody writes the word.
            kept[match] = found[0][0]
        return kept[match]

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.all(sql, values)
        except apsw.SQLError as error:  # One of its tables is missing.
            raise StorageError(
                f"the full text of {self._db.path} is damaged ({error}); restore a backup, or "
                "import an export into a new bank"
            ) from None


def any_of(terms: Iterable[str]) -> str:
    """An FTS5 expression; terms are words without quotes."""
    return " OR ".join(f'"{term}"' for term in terms)


def expression(realms: Sequence[int] | None, terms: Iterable[str]) -> str:
    """For FTS5: rows of these realms, or of all with None, with any of the terms."""
    if realms is None:
        return any_of(terms)
    within = any_of(realm_word(realm) for realm in realms)
    return f"realm : ({within}) AND ({any_of(terms)})"


def realm_word(realm: int) -> str:
    """Stands for a realm in the full text. No question has a private-use character."""
    return f"\ue000{realm}"

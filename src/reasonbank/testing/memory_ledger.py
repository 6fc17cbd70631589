"""A ledger in memory, for tests; and what a second SQL backend of the ledger costs.

Python's own ``sqlite3`` takes the part of another database: arrays are written out as values,
full text is a table of words that is searched with ``instr`` and scored here.
"""

from __future__ import annotations

import math
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from reasonbank.errors import StorageError
from reasonbank.ledger.database import Array, Values, inline
from reasonbank.ledger.migrations import meta, upgrade
from reasonbank.ledger.projection import Writer
from reasonbank.ledger.queries import Reader
from reasonbank.ledger.use import must_be_in_use

if TYPE_CHECKING:
    from reasonbank.ledger.database import Nums, Scores, Words

T = TypeVar("T")


class PlainSQLite:
    types = MappingProxyType(
        {
            "whole": "integer",
            "text": "text",
            "real": "real",
            "bytes": "blob",
            "key": "integer primary key",
            "counter": "integer primary key autoincrement",
            "table": "",
        }
    )
    vector_position = "select max(seq) from sqlite_sequence where name = 'vectors'"
    skip_locked = ""

    def count_on(self, table: str, column: str) -> None:
        return None

    def numbers(self, values: Sequence[int] | Nums) -> Array:
        return self.texts(list(values) if isinstance(values, Sequence) else values.tolist())

    def texts(self, values: Sequence[Any]) -> Array:
        rows = ",".join(["(?)"] * len(values))
        if not rows:
            return Array("(select null as value where 1 = 0)", ())
        return Array(f"(select column1 as value from (values {rows}))", tuple(values))

    def contains(self, text: str, part: str) -> str:
        return f"instr({text}, {part}) > 0"


class MemoryDatabase:
    """One connection for all threads; who writes keeps ``lock`` for the whole transaction."""

    dialect = PlainSQLite()

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.full_text = WordTable(self)
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def all(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self.lock:
            return self._run(sql, values).fetchall()

    def one(self, sql: str, values: Values = ()) -> tuple[Any, ...] | None:
        found = self.all(sql, values)
        return found[0] if found else None

    def execute(self, sql: str, values: Values = ()) -> None:
        self.changed(sql, values)

    def changed(self, sql: str, values: Values = ()) -> int:
        with self.lock:
            return self._run(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        for row in rows:
            self.execute(sql, row)

    def _run(self, sql: str, values: Values) -> sqlite3.Cursor:
        try:
            return self._db.execute(sql, values)
        except sqlite3.ProgrammingError as error:
            if "closed" in str(error):
                raise StorageError("this bank was closed; open it again") from None
            raise

    def dump(self) -> str:
        """All that is stored, as text."""
        with self.lock:
            return "\n".join(self._db.iterdump())

    def version(self) -> int:
        return self._db.total_changes

    def close(self) -> None:
        with self.lock:
            self._db.close()


class WordTable:
    """The words of each row between blanks; BM25 over title, description, content and tags."""

    def __init__(self, db: MemoryDatabase) -> None:
        self._db = db

    def create(self) -> None:
        self._db.execute(
            "create table words (num integer primary key, realm integer not null, text text)"
        )

    def put(self, num: int, texts: Sequence[str], realm: int) -> None:
        text = _spaced("\n".join(texts))
        self._db.execute("insert into words values (?, ?, ?)", (num, realm, text))

    def drop(self, num: int, texts: Sequence[str], realm: int) -> None:
        self._db.execute("delete from words where num = ?", (num,))

    def put_all(self, rows: Sequence[Words]) -> None:
        for row in rows:
            self.put(*row)

    def drop_all(self, rows: Sequence[Words]) -> None:
        for row in rows:
            self.drop(*row)

    def clear(self) -> None:
        self._db.execute("delete from words")

    def rows(self) -> int:
        found = self._db.one("select count(*) from words")
        return found[0] if found else 0

    def counts(
        self, realms: Sequence[int] | None, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        here = "1 = 1" if realms is None else f"realm in {inline(realms)}"
        sql = f"select count(*) from words where {here} and instr(text, ?) > 0"
        return [self._db.all(sql, (_spaced(term),))[0][0] for term in terms]

    def best(
        self,
        realms: Sequence[int] | None,
        terms: Sequence[str],
        limit: int,
        among: Nums | None,
    ) -> tuple[Nums, Scores]:
        import numpy as np

        asked = [_spaced(term) for term in terms]
        where = " or ".join(["instr(text, ?) > 0"] * len(asked))
        if realms is not None:
            where = f"({where}) and realm in {inline(realms)}"
        rows = self._db.all(f"select num, text from words where {where}", asked)
        wanted = None if among is None else set(among.tolist())
        scores = _bm25(dict(rows), asked, self.rows())
        ranked = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
        ranked = [each for each in ranked if wanted is None or each[0] in wanted][:limit]
        return (
            np.array([num for num, _ in ranked], np.int64),
            np.array([score for _, score in ranked], np.float64),
        )


def _spaced(text: str) -> str:
    """Words in small letters without accents, each with a blank before and after it."""
    letters = "".join(
        c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
    )
    words = re.findall(r"[^\W_]+", letters.casefold())
    return "".join(f" {word} " for word in words)


def _bm25(texts: dict[int, str], terms: Sequence[str], rows: int) -> dict[int, float]:
    lengths = {num: len(text.split()) for num, text in texts.items()}
    average = sum(lengths.values()) / max(1, len(lengths))
    scores = dict.fromkeys(texts, 0.0)
    for term in terms:
        counts = {num: text.count(term) for num, text in texts.items() if term in text}
        rarity = max(1e-6, math.log((rows - len(counts) + 0.5) / (len(counts) + 0.5)))
        for num, count in counts.items():
            saturation = count + 1.2 * (0.25 + 0.75 * lengths[num] / average)
            scores[num] += rarity * count * 2.2 / saturation
    return scores


class MemoryLedger:
    """Gone when it is closed.

    >>> bank = Bank.open(ledger=MemoryLedger())  # doctest: +SKIP
    """

    url = "memory://"
    path = beside = None
    read_only = False
    whole = True
    engine = ("sqlite3 in memory", sqlite3.sqlite_version)

    def __init__(
        self,
        *,
        half_life_days: float = 180.0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.db = MemoryDatabase()
        upgrade(self.db, 0, half_life_days)
        self.bank_id = meta(self.db, "bank_id")
        self.seal = meta(self.db, "seal")
        self._writer = Writer(self.db, self.bank_id, clock, half_life_days)

    def read(self) -> Reader:
        return Reader(self.db)

    def cached_read(self) -> Reader:
        return self.read()

    def version(self) -> int:
        return self.db.version()

    def write(self, work: Callable[[Writer], T]) -> T:
        with self.db.lock:
            self.db.execute("begin")
            try:
                must_be_in_use(self.db, self.bank_id)
                result = work(self._writer)
                self.db.execute("commit")
            except BaseException:
                self.db.execute("rollback")
                self._writer.forget_cached()
                raise
            return result

    @contextmanager
    def snapshot(self) -> Iterator[MemoryDatabase]:
        with self.db.lock:
            yield self.db

    @contextmanager
    def alone(self) -> Iterator[MemoryDatabase]:
        with self.db.lock:
            self.db.execute("begin")
            try:
                yield self.db
                self.db.execute("commit")
            except BaseException:
                self.db.execute("rollback")
                raise

    def scrub(self) -> None:
        """Nothing is written anywhere."""

    def unscrubbed(self) -> bool:
        return False

    def check(self, *, deep: bool = True) -> list[str]:
        rows = self.db.all("pragma quick_check(5)") if deep else []
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def room(self) -> None:
        return None

    def close(self) -> None:
        self.db.close()

"""All rows of one bank, made those of another: whichever databases keep them.

Only what differs is written, so that a copy which was interrupted goes on by being made again,
and one that is out of date is caught up with little work. Pages are looked up by the keys of their
rows: two databases need not sort texts alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from reasonbank.ledger.database import Database, Words
from reasonbank.ledger.events import memory_of
from reasonbank.ledger.projection.memories import words_of
from reasonbank.ledger.tables import MEMORIES, TABLES, Table

PAGE = 250
FIRST_PAGE = 16
LONG_PAGE = 2_000_000
"""Letters and bytes. A trace may be as long as thousands of memories."""
PAGES = 16
"""So many pages are written in one transaction."""
MODULUS = 1 << 256

Row = tuple[Any, ...]
Transaction = Callable[[], AbstractContextManager[Database]]
Progress = Callable[[int, int], None]


class Summary(NamedTuple):
    """What a table holds: the sum of its rows' hashes does not depend on their order."""

    columns: str
    rows: int
    digest: str


def copy(source: Database, target: Transaction, progress: Progress) -> int:
    """Make the target's rows those of the source; return how many had to be written or removed.

    Each ``target()`` is a transaction of its own. The source must stay as it is meanwhile.
    """
    changed = 0
    with target() as db:
        left = count_rows(db)
    total = count_rows(source) + left
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        progress(min(done, total), total)

    # What must go goes first: a name that moved from one row to another is unique.
    for table in TABLES if left else ():
        changed += _prune(source, target, table, advance)
    for table in TABLES:
        changed += _fill(source, target, table, advance)
    position = source.one(source.dialect.vector_position)
    with target() as db:
        _go_on_counting(db, int(position[0] or 0) if position else 0)
    return changed


def is_empty(db: Database, *tables: str) -> bool:
    return not any(db.one(f"select 1 from {table} limit 1") for table in tables)


def count_rows(db: Database) -> int:
    return sum(_count(db, table) for table in TABLES)


def _count(db: Database, table: Table) -> int:
    row = db.one(f"select count(*) from {table.name}")
    return int(row[0]) if row else 0


def _prune(
    source: Database, target: Transaction, table: Table, advance: Callable[[int], None]
) -> int:
    """Remove the target's rows that are not in the source, or are not the same there."""
    removed = 0
    rows = _Rows(table)
    while not rows.ended:
        with target() as db:
            for _ in range(PAGES):
                if not (page := rows.next_page(db)):
                    break
                same = set(_lookup(source, table, table.columns, [_key(table, r) for r in page]))
                wrong = [row for row in page if row not in same]
                _remove(db, table, wrong)
                removed += len(wrong)
                advance(len(page))
    return removed


def _fill(
    source: Database, target: Transaction, table: Table, advance: Callable[[int], None]
) -> int:
    """Add the source's rows that the target lacks."""
    added = 0
    rows = _Rows(table)
    while not rows.ended:
        with target() as db:
            for _ in range(PAGES):
                if not (page := rows.next_page(source)):
                    break
                keys = [_key(table, row) for row in page]
                there = set(_lookup(db, table, table.key, keys))
                new = [row for row, key in zip(page, keys, strict=True) if key not in there]
                _add(db, table, new)
                added += len(new)
                advance(len(page))
    return added


class _Rows:
    """A table's rows, page by page; of long ones a page has fewer."""

    def __init__(self, table: Table) -> None:
        self.ended = False
        self._table = table
        self._after: Row | None = None
        self._limit = FIRST_PAGE

    def next_page(self, db: Database) -> list[Row]:
        table, after = self._table, self._after
        key = ", ".join(table.key)
        beyond = "" if after is None else f"where ({key}) > ({_marks(table.key)})"
        found = db.all(
            f"select {', '.join(table.columns)} from {table.name} {beyond}"
            f" order by {key} limit {self._limit}",
            after or (),
        )
        page = [*map(_plain, found)]
        self.ended = not page
        if page:
            self._after = _key(table, page[-1])
            long = sum(len(v) for row in page for v in row if isinstance(v, (str, bytes)))
            grown = self._limit // 2 if long > LONG_PAGE else self._limit * 2
            self._limit = max(1, min(grown, PAGE))
        return page


def _lookup(
    db: Database, table: Table, columns: Sequence[str], keys: Sequence[Row]
) -> Iterator[Row]:
    marks = ", ".join([f"({_marks(table.key)})"] * len(keys))
    rows = db.all(
        f"select {', '.join(columns)} from {table.name}"
        f" where ({', '.join(table.key)}) in (values {marks})",
        [value for key in keys for value in key],
    )
    return map(_plain, rows)


def _key(table: Table, row: Row) -> Row:
    """The columns of the key come first."""
    return row[: len(table.key)]


def _plain(row: Row) -> Row:
    """As every database means it: some give bytes as a view of their memory."""
    if any(isinstance(value, memoryview) for value in row):
        return tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
    return tuple(row)


def _marks(columns: Sequence[str]) -> str:
    return ", ".join("?" * len(columns))


def _add(db: Database, table: Table, rows: Sequence[Row]) -> None:
    if not rows:
        return
    db.many(
        f"insert into {table.name} ({', '.join(table.columns)}) values ({_marks(table.columns)})",
        rows,
    )
    if table is MEMORIES:
        db.full_text.put_all([_words(row) for row in rows])


def _remove(db: Database, table: Table, rows: Sequence[Row]) -> None:
    if not rows:
        return
    if table is MEMORIES:
        db.full_text.drop_all([_words(row) for row in rows])
    test = " and ".join(f"{name} = ?" for name in table.key)
    db.many(f"delete from {table.name} where {test}", [_key(table, row) for row in rows])


_LESSON = MEMORIES.columns.index("lesson")
_REALM = MEMORIES.columns.index("realm")


def _words(row: Row) -> Words:
    return (row[0], words_of(memory_of(json.loads(row[_LESSON]))), row[_REALM])


def _go_on_counting(db: Database, position: int) -> None:
    """New rows get numbers that none ever had: an index that follows them sees each change."""
    for table, column in (("events", "seq"), ("realms", "num"), ("models", "num")):
        highest = db.one(f"select max({column}) from {table}")
        statement = db.dialect.count_on(table, column)
        if statement is not None and highest is not None and highest[0]:
            db.all(statement, (highest[0],))
    found = db.one(db.dialect.vector_position)
    if position <= (int(found[0] or 0) if found else 0):
        return
    if (statement := db.dialect.count_on("vectors", "seq")) is not None:
        db.all(statement, (position,))
        return
    values = (position, -1, -1, -1)
    db.execute("insert into vectors (seq, num, model, realm) values (?, ?, ?, ?)", values)
    db.execute("delete from vectors where seq = ?", (position,))


def summaries(db: Database, progress: Progress) -> dict[str, Summary]:
    """What each table holds."""
    total, done = count_rows(db), 0
    found = {}
    for table in TABLES:
        count, sum_ = 0, 0
        rows = _Rows(table)
        while page := rows.next_page(db):
            for row in page:
                sum_ = (sum_ + int.from_bytes(_hash(row))) % MODULUS
            count += len(page)
            done += len(page)
            progress(min(done, total), total)
        found[table.name] = Summary(", ".join(table.columns), count, f"{sum_:064x}")
    return found


def _hash(row: Row) -> bytes:
    told = [
        value.hex() if isinstance(value, bytes) else repr(value) if isinstance(value, float)
        else value for value in row
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(told).encode()).digest()

"""A connection to SQLite as the ledger's SQL wants it: ``Database`` over apsw."""

from __future__ import annotations

import contextlib
import json
import time
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import apsw

from reasonbank.errors import StorageError
from reasonbank.ledger.database import Array, Values
from reasonbank.ledger.sqlite.errors import in_words, translated
from reasonbank.ledger.sqlite.forks import refuse_in_child, watch_connection
from reasonbank.ledger.sqlite.fulltext import FTS5

if TYPE_CHECKING:
    from reasonbank.ledger.database import Nums

BUSY_SECONDS = 60.0
# To this the log of writes is cut when it had to grow; SQLite begins it anew at about as much.
WAL_BYTES = 4_194_304


class SQLite:
    """Arrays of numbers are passed as they lie in memory, arrays of texts as JSON."""

    types = MappingProxyType(
        {
            "whole": "integer",
            "text": "text",
            "real": "real",
            "bytes": "blob",
            "key": "integer primary key",
            "counter": "integer primary key autoincrement",
            "table": "without rowid",
        }
    )
    vector_position = "select max(seq) from sqlite_sequence where name = 'vectors'"
    skip_locked = ""  # Whoever writes, writes alone.

    def count_on(self, table: str, column: str) -> None:
        return None

    def numbers(self, values: Sequence[int] | Nums) -> Array:
        if not len(values):  # carray takes no empty array.
            return Array("(select null as value where 1 = 0)", ())
        if isinstance(values, Sequence):
            carried = apsw.carray(array("q", values))
        else:
            carried = apsw.carray(values if values.flags.c_contiguous else values.copy())
        return Array("(select value from carray(?))", (carried,))

    def texts(self, values: Sequence[str]) -> Array:
        # carray takes no text with a zero byte in it.
        return Array("(select value from json_each(?))", (json.dumps(values),))

    def contains(self, text: str, part: str) -> str:
        return f"instr({text}, {part}) > 0"


class Access(Enum):
    """How a file is read. ``SHARED`` needs a little memory that processes share, in a file beside
    the bank; a full disk or one that cannot be written has no place for that."""

    SHARED = "shared"
    UNCHANGED = "unchanged"
    """Nobody writes: all of it is in the one file."""
    ALONE = "alone"
    """Some of it is in the log of writes; nobody else may open it meanwhile."""


class Connection:
    dialect = SQLite()

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        synchronous: str = "full",
        vfs: str | None = None,
        access: Access = Access.SHARED,
    ) -> None:
        refuse_in_child()
        flags = (
            apsw.SQLITE_OPEN_READONLY
            if read_only
            else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        )
        name = str(path)
        if access is Access.UNCHANGED:
            flags, name = flags | apsw.SQLITE_OPEN_URI, f"{path.as_uri()}?immutable=1"
        elif access is Access.ALONE:
            flags, vfs = apsw.SQLITE_OPEN_READWRITE, "unix-excl"
        self.path = path
        self.cancelled: Callable[[], bool] | None = None
        self._read_only = read_only
        self._synchronous = synchronous
        try:
            self.handle = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=200)
        except apsw.Error as error:
            raise in_words(error, path) from None
        self.closed = False
        self._unwatch = watch_connection(self)
        self.handle.set_busy_timeout(int(BUSY_SECONDS * 1000))
        # No cycle: a thread that ends takes its connection with it.
        self.full_text = FTS5(weakref.proxy(self))

    def tune(self) -> None:
        # Another process may be creating the bank or switching it to WAL right now.
        if not self._read_only:
            for _ in patiently():
                with contextlib.suppress(apsw.BusyError):
                    if self.handle.pragma("journal_mode", "wal") == "wal":
                        break
        self.handle.execute(
            f"pragma synchronous={self._synchronous}; pragma foreign_keys=off;"
            "pragma secure_delete=on; pragma temp_store=memory; pragma cache_size=-32000;"
            f"pragma mmap_size=268435456; pragma journal_size_limit={WAL_BYTES}"
        ).fetchall()  # Some answer with a row, and what follows waits until it is taken.

    def all(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        self._go_on()
        try:
            return self.handle.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise in_words(error, self.path) from None

    def one(self, sql: str, values: Values = ()) -> tuple[Any, ...] | None:
        self._go_on()
        try:
            return self.handle.execute(sql, values).fetchone()
        except apsw.Error as error:
            raise in_words(error, self.path) from None

    def execute(self, sql: str, values: Values = ()) -> None:
        self._go_on()
        try:
            self.handle.execute(sql, values)
        except apsw.Error as error:
            raise in_words(error, self.path) from None

    def changed(self, sql: str, values: Values = ()) -> int:
        self.execute(sql, values)
        return self.handle.changes()

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        self._go_on()
        try:
            self.handle.executemany(sql, rows)
        except apsw.Error as error:
            raise in_words(error, self.path) from None

    def _go_on(self) -> None:
        if self.cancelled is not None and self.cancelled():
            raise KeyboardInterrupt

    def translated(self) -> contextlib.AbstractContextManager[None]:
        return translated(self.path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.translated():
            yield from self._transaction()

    def _transaction(self) -> Iterator[None]:
        # A deferred transaction that turns into a writer can fail without waiting.
        for _ in patiently():
            with contextlib.suppress(apsw.BusyError):
                self.handle.execute("begin immediate")
                break
        try:
            yield
            self.handle.execute("commit")
        except BaseException:
            if self.handle.in_transaction:
                self.handle.execute("rollback")
            raise

    def mark(self) -> None:
        self.handle.execute("savepoint part")

    def release(self) -> None:
        self.handle.execute("release part")

    def undo(self) -> bool:
        if self.handle.in_transaction:
            self.handle.execute("rollback to part; release part")
            return True
        return False

    def close(self) -> None:
        self.handle.close(force=True)
        self.closed = True
        self._unwatch()


def patiently() -> Iterator[None]:
    deadline = time.monotonic() + BUSY_SECONDS
    pause = 0.001
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(pause * 2, 0.25)
    raise StorageError(
        "another program has kept this bank locked for a minute; stop it, then retry"
    )

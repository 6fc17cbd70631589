"""``Database`` over psycopg: statement by statement from the pool, or in one transaction."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from reasonbank.errors import StorageError
from reasonbank.ledger.database import Values
from reasonbank.ledger.postgres.dialect import PostgreSQL, numbered
from reasonbank.ledger.postgres.errors import LOST, UNKNOWN, in_words, translated
from reasonbank.ledger.postgres.fulltext import PostedWords
from reasonbank.ledger.postgres.pool import Handle, Pool, is_lost

T = TypeVar("T")
Cursor = psycopg.Cursor[tuple[Any, ...]]

VERSION = "(select value from meta where key = 'schema')"
"""How many steps the bank has taken."""
MARK: tuple[str, Values] = ("savepoint part", ())
MOST_TOLD = 200
FEW = 20
"""Rows for which a statement is sent with others; more are sent by themselves."""
ASK_AGAIN = 0.2
ASK_FOR = 10.0
"""Seconds. So long somebody whose connection broke at the very end waits to learn what became of
it: a server that is restarted needs about as much."""


class Statements:
    """What both have in common: ``_with`` asks something of a connection, and takes the answer."""

    dialect = PostgreSQL()

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.url = pool.address.shown
        # No cycle: a thread that ends takes this with it.
        self.full_text = PostedWords(weakref.proxy(self))

    def all(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._with(lambda handle: _executed(handle, sql, values), Cursor.fetchall)

    def one(self, sql: str, values: Values = ()) -> tuple[Any, ...] | None:
        return self._with(lambda handle: _executed(handle, sql, values), Cursor.fetchone)

    def changed(self, sql: str, values: Values = ()) -> int:
        return self._with(lambda handle: _executed(handle, sql, values), _rows_changed)

    def execute(self, sql: str, values: Values = ()) -> None:
        self.changed(sql, values)

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        if given := [list(row) for row in rows]:
            self._with(lambda handle: _executed_many(handle, sql, given), lambda _: None)

    def _with(self, ask: Callable[[Handle], Cursor], take: Callable[[Cursor], T]) -> T:
        raise NotImplementedError


class PooledDatabase(Statements):
    """For reading: each statement for itself, as others see the ledger at that moment."""

    def _with(self, ask: Callable[[Handle], Cursor], take: Callable[[Cursor], T]) -> T:
        with self.pool.connection() as handle:
            try:
                return take(ask(handle))
            except psycopg.Error as error:
                if not is_lost(handle) or self.pool.closed:
                    raise self._in_words(error) from None
        # It may have been dead for long. To ask again changes nothing, so one more is tried.
        self.pool.drop_idle()
        with self.pool.connection() as handle:
            try:
                return take(ask(handle))
            except psycopg.Error as error:
                raise self._in_words(error) from None

    def _in_words(self, error: psycopg.Error) -> Exception:
        if self.pool.closed:
            return StorageError("this bank was closed; open it again")
        return in_words(error, self.url)


class WritingDatabase(Statements):
    """One transaction at a time, and of all processes one at a time: the events of a bank are a
    chain, and its tables are folded from what is there.

    The lock is let go when what it guarded can be seen. So numbers of events become visible in
    their order: whoever has read one will never find a lower one later.

    What needs no answer waits (``_told``) and is sent together with the next question, or with
    the end, in order: a way to the server and back takes longer than most statements do.
    """

    def __init__(self, pool: Pool, lock: tuple[int, int]) -> None:
        super().__init__(pool)
        self.cancelled: Callable[[], bool] | None = None
        self.handle: Handle | None = None
        self.refuse: Callable[[int], None] | None = None
        """Told the version of the bank: another process may have upgraded it since."""
        self._lock = lock
        self._transaction_id = ""
        self._told: list[tuple[str, Values]] = []

    def execute(self, sql: str, values: Values = ()) -> None:
        if not values:  # There may be several statements in it, which cannot be sent with others.
            self._send()
            super().execute(sql)
            return
        self._go_on()
        self._told.append((sql, values))
        if len(self._told) == MOST_TOLD:
            self._send()

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        given = [*rows]
        if len(given) > FEW:
            self._send()
            super().many(sql, given)
            return
        for row in given:
            self.execute(sql, row)

    def _send(self) -> None:
        if self._told:
            sql, values = self._told.pop()
            self._with(lambda handle: _executed(handle, sql, values), lambda _: None)

    def _go_on(self) -> None:
        if self.cancelled is not None and self.cancelled():
            raise KeyboardInterrupt

    def _with(self, ask: Callable[[Handle], Cursor], take: Callable[[Cursor], T]) -> T:
        self._go_on()
        assert self.handle is not None, "only valid inside a transaction"
        try:
            return take(self._after_all_told(self.handle, ask))
        except psycopg.errors.ReadOnlySqlTransaction as error:
            # When that ends, only who connects anew is let write.
            self.handle.close()
            self.pool.drop_idle()
            raise in_words(error, self.url) from None
        except psycopg.Error as error:
            if is_lost(self.handle):
                raise StorageError(f"{self.url}: {LOST}") from None
            raise in_words(error, self.url) from None

    def _after_all_told(self, handle: Handle, ask: Callable[[Handle], Cursor]) -> Cursor:
        told, self._told = self._told, []
        if not told:
            return ask(handle)
        with handle.pipeline():
            for sql, values in told:
                _executed(handle, sql, values)
            cursor = ask(handle)
        if cursor.pgresult is None:  # psycopg says nothing of a connection that broke meanwhile.
            handle.close()
            raise psycopg.OperationalError(LOST)
        return cursor

    def translated(self) -> AbstractContextManager[None]:
        return translated(self.url)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._begun() as handle, self.translated():
            self.handle, self._told = handle, []
            try:
                yield
                self._commit(handle)
            except BaseException:
                with suppress(psycopg.Error):
                    handle.execute(b"rollback")
                raise
            finally:
                self.handle = None

    def mark(self) -> None:
        self._told.append(MARK)

    def release(self) -> None:
        """What is wrong with this part is known when it ends, and not in the next."""
        self._told.append(("release part", ()))
        self._send()

    def undo(self) -> bool:
        handle, told, self._told = self.handle, self._told, []
        if MARK in told:
            return True  # The server has not even heard of it.
        if handle is None or is_lost(handle):
            return False
        if handle.info.transaction_status not in (
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        ):
            return False
        handle.execute(b"rollback to part; release part")
        return True

    @contextmanager
    def _begun(self) -> Iterator[Handle]:
        """A connection that was dead already is known before anything was done with it."""
        for last in (False, True):
            with self.pool.connection() as handle:
                try:
                    version = self._begin(handle)
                except psycopg.Error as error:
                    if last or not is_lost(handle) or self.pool.closed:
                        raise in_words(error, self.url) from None
                else:
                    if self.refuse is not None:
                        self.refuse(version)
                    yield handle
                    return
            self.pool.drop_idle()

    def _begin(self, handle: Handle) -> int:
        """The version of the bank; 0 while nobody wants to know."""
        one, other = self._lock
        version = VERSION if self.refuse is not None else "0"
        cursor = handle.execute(
            # What was committed while this one waited for the lock, it has to see.
            "begin isolation level read committed;"
            f" select pg_advisory_xact_lock({one}, {other});"
            f" select pg_current_xact_id()::text, {version}".encode()
        )
        cursor.nextset()
        cursor.nextset()
        row = cursor.fetchone()
        assert row is not None
        self._transaction_id = str(row[0])
        return int(row[1])

    def _commit(self, handle: Handle) -> None:
        self._told.append(("update counters set version = version + 1", ()))
        try:
            self._after_all_told(handle, lambda handle: handle.execute(b"commit", prepare=False))
        except psycopg.Error:
            if not is_lost(handle):
                raise
            if not self._was_committed(self._transaction_id):
                raise StorageError(f"{self.url}: {LOST}") from None

    def _was_committed(self, id: str) -> bool:
        """The server knows what became of a transaction whose end nobody was told."""
        deadline = time.monotonic() + ASK_FOR
        while time.monotonic() < deadline:
            with suppress(StorageError, psycopg.Error):
                self.pool.drop_idle()
                with self.pool.connection() as handle:
                    row = handle.execute(b"select pg_xact_status($1::xid8)", (id,)).fetchone()
                if row is not None and row[0] in ("committed", "aborted"):
                    return bool(row[0] == "committed")
            time.sleep(ASK_AGAIN)
        raise StorageError(f"{self.url}: {UNKNOWN}")


class Snapshot(WritingDatabase):
    """All statements of a transaction see the same moment, and nobody waits for it."""

    def _begin(self, handle: Handle) -> int:
        handle.execute(b"begin isolation level repeatable read read only")
        return 0

    def _commit(self, handle: Handle) -> None:
        handle.execute(b"commit")


def _rows_changed(cursor: Cursor) -> int:
    return cursor.rowcount


def _executed(handle: Handle, sql: str, values: Values) -> Cursor:
    if values:
        return handle.execute(numbered(sql), list(values))
    return handle.execute(sql.encode())


def _executed_many(handle: Handle, sql: str, rows: Sequence[Values]) -> Cursor:
    cursor = handle.cursor()
    cursor.executemany(numbered(sql), rows)
    return cursor

"""The connections of one process, lent for a statement or a transaction at a time.

Whoever needs one and finds none idle connects for itself: so it is told why that fails, in the
server's own words, and a server that is back is used at once. There is no thread that could be
missing after a fork, and nothing to wait for when a command ends.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from reasonbank.errors import InvalidSetting, StorageError
from reasonbank.ledger.postgres.address import Address
from reasonbank.ledger.postgres.dialect import adapters
from reasonbank.ledger.postgres.errors import in_words, not_connected

MOST = 8
"""Connections to read with. A statement takes about a millisecond; more would only be in the way
of other processes, as a server has a hundred by default."""
PATIENCE = 60.0
"""Seconds that somebody waits for a connection while all are lent."""
USUAL = {
    "application_name": "reasonbank",
    "connect_timeout": "10",
    # A server that is gone without a word is noticed after about a minute.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}

Handle = psycopg.Connection[tuple[Any, ...]]


class Pool:
    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        self._read_only = read_only
        self._context = adapters()
        self._free = threading.BoundedSemaphore(MOST)
        self._lock = threading.Lock()
        self._idle: list[Handle] = []
        self._lent: set[Handle] = set()
        self._open: set[Handle] = set()
        # A bank that nobody closed, and nobody can reach any more, leaves no connection behind.
        self._when_gone = weakref.finalize(self, _close_all, self._open)
        self._when_gone.atexit = False
        self.closed = False

    @contextmanager
    def connection(self) -> Iterator[Handle]:
        """Errors are psycopg's, but for those of connecting."""
        if not self._free.acquire(timeout=PATIENCE):
            raise StorageError(f"all connections to {self.address.shown} are busy; try again")
        try:
            handle = self._taken()
            try:
                yield handle
            finally:
                self._back(handle)
        finally:
            self._free.release()

    def drop_idle(self) -> None:
        """One of them was found dead: the server was restarted, and the others are dead too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for handle in idle:
            self._shut(handle)

    def connect(self) -> Handle:
        """One more, which is nobody else's."""
        try:
            return self._connected()
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:  # The server was not even asked.
                raise InvalidSetting("url", str(error).strip()) from None
            raise in_words(error, self.address.shown) from None
        except psycopg.Error as error:
            raise not_connected(error, self.address.shown) from None

    def close(self) -> None:
        """What is lent is closed too: whoever has it is told so."""
        with self._lock:
            self.closed = True
            every, self._idle = [*self._idle, *self._lent], []
        for handle in every:
            self._shut(handle)

    def abandon(self) -> None:
        """In a forked process: they are the parent's, and psycopg leaves them alone."""
        self.closed = True
        self._when_gone.detach()
        self._lock = threading.Lock()
        self._idle, self._lent = [], set()

    def _taken(self) -> Handle:
        self._refuse_closed()
        with self._lock:
            if self._idle:
                self._lent.add(handle := self._idle.pop())
                return handle
        handle = self.connect()
        with self._lock:
            self._lent.add(handle)
        if self.closed:  # In the meantime; whoever did so may not have seen this one.
            self._back(handle)
            self._refuse_closed()
        return handle

    def _refuse_closed(self) -> None:
        if self.closed:
            raise StorageError("this bank was closed; open it again")

    def _back(self, handle: Handle) -> None:
        idle = not handle.broken and (handle.info.transaction_status is TransactionStatus.IDLE)
        with self._lock:
            self._lent.discard(handle)
            if idle and not self.closed:
                self._idle.append(handle)
                return
        self._shut(handle)

    def _connected(self) -> Handle:
        options: dict[str, Any] = USUAL | dict(self.address.options)
        handle: Handle = psycopg.connect(
            autocommit=True, context=self._context, cursor_factory=psycopg.RawCursor, **options
        )
        self._open.add(handle)
        try:
            handle.execute(self._session().encode())
        except BaseException:
            self._shut(handle)
            raise
        return handle

    def _shut(self, handle: Handle) -> None:
        self._open.discard(handle)
        _close(handle)

    def _session(self) -> str:
        """What is set for the whole session. A call that returned has happened: where a server
        or a role is set to answer before that, it is told not to."""
        return (
            f"set search_path = \"{self.address.schema}\", public; set lock_timeout = '60s';"
            " select set_config('synchronous_commit', 'on', false)"
            " where current_setting('synchronous_commit') = 'off';"
            f"{' set default_transaction_read_only = on' if self._read_only else ''}"
        )


def is_lost(handle: Handle) -> bool:
    return handle.closed or handle.broken


def _close(handle: Handle) -> None:
    with suppress(psycopg.Error):
        handle.close()


def _close_all(handles: set[Handle]) -> None:
    for handle in list(handles):
        _close(handle)

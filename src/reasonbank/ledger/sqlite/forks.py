"""What a fork does to SQLite.

The child has a copy of all that the parent's threads were doing: mutexes that nobody will ever
release, and a list of the file locks that the parent holds and the child does not. It can
neither use nor close a connection that it inherits, nor safely open another. So it leaves them
alone, to the end, and whoever asks for a bank there is told so at once.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from reasonbank.errors import StorageError

if TYPE_CHECKING:
    import apsw

    from reasonbank.ledger.sqlite.connection import Connection
    from reasonbank.ledger.sqlite.ledger import SQLiteLedger

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_ledgers: weakref.WeakSet[SQLiteLedger] = weakref.WeakSet()
_inherited: list[apsw.Connection] = []


def refuse_in_child() -> None:
    if _inherited:
        raise StorageError(
            "this process was forked while a bank was open, which SQLite does not survive; start "
            "it with multiprocessing's spawn or forkserver, or fork before the bank is opened"
        )


def watch_connection(db: Connection) -> Callable[[], object]:
    """What to call when it is closed."""
    # A child drops what belonged to the parent's other threads before anything else happens
    # there; this keeps the handle, which would be closed otherwise.
    keeper = weakref.finalize(db, _let_go, db.handle, os.getpid())
    keeper.atexit = False
    _connections.add(db)
    return keeper.detach


def watch_ledger(ledger: SQLiteLedger) -> None:
    _ledgers.add(ledger)


def _let_go(handle: apsw.Connection, opened_by: int) -> None:
    if os.getpid() != opened_by:
        _inherited.append(handle)


def _in_child() -> None:
    _inherited.extend(db.handle for db in list(_connections) if not db.closed)
    if _inherited:
        import ctypes

        for handle in _inherited:  # Not even when Python ends.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
        for ledger in list(_ledgers):
            ledger.abandon()


if hasattr(os, "register_at_fork"):  # Windows knows no forks.
    os.register_at_fork(after_in_child=_in_child)

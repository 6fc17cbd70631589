"""PostgreSQL's errors in words that say what to do, and that no password is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from reasonbank.errors import StorageError, StorageFull

LOST = "the connection was lost before anything of this call was stored; try again"
UNKNOWN = (
    "the connection was lost while this call was being stored, and whether it was is not known; "
    "look for it before you try again"
)


PASSING = (
    "starting up", "shutting down", "recovery", "not yet accepting", "terminating", "too many",
    "connection slots",
)  # fmt: skip
"""What a server says that will let somebody in later."""


def in_words(error: psycopg.Error, url: str) -> Exception:
    """What to raise instead of ``error``; a mistake of ours stays what it is."""
    match error:
        case errors.DiskFull() | errors.InsufficientResources() if _is_full(error):
            return StorageFull(
                f"no room left on the disk of {url}; free some space there and try again. "
                "Nothing of this call was stored"
            )
        case errors.LockNotAvailable():
            return StorageError(
                f"another program has kept {url} locked for a minute; stop it, then retry"
            )
        case errors.InsufficientPrivilege():
            return StorageError(f"{url}: {_said(error)}; let its owner grant that to this user")
        case errors.ReadOnlySqlTransaction():
            return StorageError(
                f"{url} takes no writes now: it is a standby, or set to read-only; "
                "when that has ended, try again"
            )
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return unlike_its_version(url, _said(error))
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StorageError(f"{url} is damaged ({_said(error)}); restore a backup")
        case errors.TooManyConnections() | errors.CannotConnectNow() | errors.QueryCanceled():
            return StorageError(f"{url} is busy: {_said(error)}; try again")
        case errors.DeadlockDetected() | errors.SerializationFailure():
            return StorageError(f"another program changed {url} at the same time; try again")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StorageError(f"{url} does not answer: {_said(error)}; try again")
    return error


def not_connected(error: psycopg.Error, url: str) -> Exception:
    """Of a connection that does not come about only the words are known."""
    _, refused, reason = str(error).rpartition("FATAL:")
    if error.sqlstate is not None or not refused:
        return in_words(error, url)
    reason = reason.strip().splitlines()[0]
    if any(word in reason for word in PASSING):
        return StorageError(f"{url} is busy: {reason}; try again")
    return StorageError(f"{url} refuses: {reason}; correct the setting url, or ask who runs it")


def unlike_its_version(url: str, wrong: str) -> StorageError:
    return StorageError(
        f"{url} is not made like a bank of its version ({wrong}): a development state of "
        "ReasonBank wrote it, or somebody else. Nothing was changed; `reasonbank export` it with "
        "the program that wrote it, and `reasonbank import` that into a new bank"
    )


def _is_full(error: psycopg.Error) -> bool:
    return isinstance(error, errors.DiskFull) or "No space left" in str(error)


def _said(error: psycopg.Error) -> str:
    """The first line: what follows repeats the statement, and with it what is stored."""
    told = error.diag.message_primary or str(error) or type(error).__name__
    return told.strip().splitlines()[0]


@contextmanager
def translated(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise in_words(error, url) from None

"""SQLite's errors in words that say what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from reasonbank.errors import StorageError, StorageFull


def in_words(error: apsw.Error, path: str | Path) -> Exception:
    """What to raise instead of ``error``; a mistake of ours stays what it is."""
    match error:
        case apsw.FullError() | apsw.IOError():
            # Memory shared between processes is a file as well, but has an error of its own.
            if _extended(error) not in (apsw.SQLITE_FULL, apsw.SQLITE_IOERR_SHMSIZE):
                return StorageError(f"the disk of {path} failed: {error}")
            return StorageFull(
                f"no room left on the disk of {path}; free some space and try again. "
                "Nothing of this call was stored"
            )
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            reason = "is not writable" if os.path.exists(path) else "cannot be created"
            return StorageError(
                f"{path} {reason}; check its permissions, or choose another place with --bank"
            )
        case apsw.NotADBError():
            return StorageError(f"{path} is not a ReasonBank database; choose another place")
        case apsw.CorruptError() if _extended(error) == apsw.SQLITE_CORRUPT_VTAB:
            return StorageError(
                f"the full text of {path} is damaged; run `reasonbank maintain --rebuild`"
            )
        case apsw.CorruptError():
            return StorageError(
                f"{path} is damaged ({error}); restore a backup, or `reasonbank import` an export"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StorageError(f"{path} is locked by another program; try again")
        case apsw.ConnectionClosedError():
            return StorageError("this bank was closed; open it again")
    return error


def _extended(error: apsw.Error) -> int | None:
    return getattr(error, "extendedresult", None)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise in_words(error, path) from None

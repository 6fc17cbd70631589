"""Banks by their URLs and backups by their files: what `migrate`, `backup` and `restore` do."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reasonbank import private
from reasonbank.errors import InvalidInput, ReasonBankError, Refused, StorageError
from reasonbank.ledger.port import Ledger
from reasonbank.ledger.use import unused
from reasonbank.opening import absent, no_bank, open_file, open_ledger, own_files
from reasonbank.settings import Settings, default_url
from reasonbank.store import backup, moving

if TYPE_CHECKING:
    from reasonbank.store.backup import BackedUp, BankRestored
    from reasonbank.store.context import Progress
    from reasonbank.store.moving import Moved, Steps

BEGINS = b"SQLite format 3\0"


def _clock() -> int:
    return time.time_ns() // 1000


def told(progress: Progress | None) -> Steps:
    """One who wants to know how far it is, whichever part of the work that is."""

    @contextmanager
    def step(label: str) -> Iterator[Progress]:
        yield progress or (lambda done, total: None)

    return step


def migrate(source: str, target: str, settings: Settings, steps: Steps, *, copy: bool) -> Moved:
    """Move a bank, or copy it: see ``store/moving.py``."""
    if (missing := absent(source, settings)) is not None:
        raise no_bank(missing)
    with closing(_open(source, settings)) as from_, closing(_open(target, settings)) as to:
        if _same(from_.path, to.path):
            raise Refused(f"{from_.url} and {to.url} are one file; name another place")
        return moving.migrate(from_, to, steps, copy=copy)


def _open(url: str, settings: Settings) -> Ledger:
    return open_ledger(url, settings, read_only=False, clock=_clock)


def back_up(
    ledger: Ledger, file: Path, settings: Settings, steps: Steps, *, overwrite: bool
) -> BackedUp:
    """Write the bank to a file of its owner's, whole or not at all."""
    file = file.expanduser().absolute()
    _check_place(file, settings, overwrite)
    try:
        # Beside it, so that it can be put in place at once; a folder, for SQLite makes more files.
        folder = Path(tempfile.mkdtemp(prefix=".reasonbank-", suffix=".part", dir=file.parent))
        part = folder / file.name
        try:
            with closing(open_file(part, settings)) as to:
                made = backup.back_up(ledger, to, str(file), steps, _clock())
                to.close_as_one_file()
            _check_place(file, settings, overwrite)  # Writing took a while.
            os.replace(part, file)
            _sync(file.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise InvalidInput("file", f"cannot write {file}: {error.strerror}") from None
    return made


def _check_place(file: Path, settings: Settings, overwrite: bool) -> None:
    """Only an earlier backup is ever replaced."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput("file", f"cannot write {file}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{file} is not a regular file; name another")
    if not overwrite:
        raise Refused(f"{file} is there already; name another file, or say --overwrite")
    if found.st_size and not _is_backup(file, settings):
        raise Refused(f"{file} is not a backup that `reasonbank` made; name another file")


def _is_backup(file: Path, settings: Settings) -> bool:
    with suppress(ReasonBankError), closing(open_file(file, settings, read_only=True)) as ledger:
        with ledger.snapshot() as db:
            why = unused(db)
        return why is not None and why.state == "backup"
    return False


def restore(
    file: Path, url: str | None, settings: Settings, steps: Steps, *, force: bool
) -> BankRestored:
    """Make a bank what the backup is: all of it, or it stays as it was."""
    file = file.expanduser().absolute()
    url = url or settings.url or default_url()
    with _opened(file, settings) as source, closing(_open(url, settings)) as to:
        if _same(to.path, file):
            raise Refused(f"{file} is the backup itself; name the bank's place with --bank")
        done = backup.restore(source, to, str(file), steps, force=force)
        if to.path is not None:
            private.tighten(own_files(to.path))
        return done


@contextmanager
def _opened(file: Path, settings: Settings) -> Iterator[Ledger]:
    """The backup, which stays as it is: one of an older program is brought up to date elsewhere."""
    try:
        with file.open("rb") as start:
            if start.read(len(BEGINS)) != BEGINS:
                raise InvalidInput("file", f"{file} is not a backup that `reasonbank` made")
    except OSError as error:
        raise InvalidInput("file", f"cannot read {file}: {error.strerror}") from None
    try:
        ledger = open_file(file, settings, read_only=True)
    except StorageError:
        with tempfile.TemporaryDirectory(prefix="reasonbank-") as folder:
            copy = Path(folder) / file.name
            os.close(private.make_file(copy))
            shutil.copyfile(file, copy)
            with closing(open_file(copy, settings)) as ledger:
                yield ledger
        return
    with closing(ledger):
        yield ledger


def _same(one: Path | None, other: Path | None) -> bool:
    with suppress(OSError):  # Of a bank on a server it may not be there.
        return one is not None and other is not None and one.samefile(other)
    return False


def _sync(folder: Path) -> None:
    with suppress(OSError):  # Not every file system knows how.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

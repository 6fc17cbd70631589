"""Files that commands write: whole or not at all, and never in the place of something dear."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from reasonbank.errors import InvalidInput, Refused

DATABASE = b"SQLite format 3\0"
INDEX = b"RBINDEX\0"
# What belongs to a database is called after it: the log and shared memory of SQLite, our indexes.
COMPANION = re.compile(r"-wal|-shm|-journal|\..{1,255}\.index|\.replies(-wal|-shm|-journal)?")
AUDIT = {"seq", "at", "what", "subject", "author", "origin"}


@contextmanager
def replacing(file: str, *, bank: Path | None, overwrite: bool) -> Iterator[IO[str]]:
    """Write beside the file and put it in place when it is whole and on disk; ``-`` is stdout.

    ``bank`` is the file of the bank that is open, if it is in one.
    """
    if file == "-":
        yield sys.stdout
        return
    path = Path(file)
    _check(path, bank, overwrite)
    part: str | None = None
    try:
        # Not readable by others, as the bank is not.
        handle, part = tempfile.mkstemp(prefix=".reasonbank-", suffix=".part", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as out:
            yield out
            out.flush()
            os.fsync(handle)
        _check(path, bank, overwrite)  # Writing took a while.
        os.replace(part, path)
        part = None
        _sync_folder(path.parent)
    except OSError as error:
        raise InvalidInput("file", f"cannot write {file}: {error.strerror}") from None
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)


def _check(path: Path, bank: Path | None, overwrite: bool) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise InvalidInput("file", f"cannot write {path}: {error.strerror}") from None
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise Refused(
            f"{path} is {_kind(found.st_mode)}, not a regular file; name another file, or write "
            "to standard output with -"
        )
    if _belongs_to_a_bank(path, bank, there=found is not None):
        raise Refused(f"{path} is, or belongs to, a bank or another database; name another file")
    if found is not None and found.st_size and not overwrite and not _ours(path):
        raise Refused(
            f"{path} is there already, and `reasonbank` did not write it; name another file, or "
            "say --overwrite"
        )


def _kind(mode: int) -> str:
    for test, kind in (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return kind
    return "a device"


def _belongs_to_a_bank(path: Path, bank: Path | None, *, there: bool) -> bool:
    # Those that are open are not opened again: closing one would free SQLite's locks on it,
    # and another process could take the bank for closed.
    open_files = [] if bank is None else [*_files_of(bank)]

    def is_open(path: Path) -> bool:
        return any(_same(path, each) for each in open_files)

    def begins(path: Path, *how: bytes) -> bool:
        return is_open(path) or _start(path).startswith(how)

    # As long as a database is new, all of it may be in the log beside it.
    logs = (f"{path}{end}" for end in ("-wal", "-shm", "-journal"))
    if there and (begins(path, DATABASE, INDEX) or any(map(os.path.exists, logs))):
        return True
    return any(
        COMPANION.fullmatch(path.name, place.start())
        and begins(path.with_name(path.name[: place.start()]), DATABASE)
        for place in re.finditer(r"(?<=.)[-.]", path.name)
    )


def _files_of(bank: Path) -> Iterator[Path]:
    yield bank
    for path in bank.parent.iterdir():
        if path.name.startswith(bank.name) and COMPANION.fullmatch(path.name, len(bank.name)):
            yield path


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _start(path: Path) -> bytes:
    """How a regular file begins; nothing, where there is none that could be read."""
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open("rb") as file:
                return file.read(4096)
    return b""


def _ours(path: Path) -> bool:
    """Whether an earlier export, of a bank or of its audit, is in this file."""
    from reasonbank.store.transfer import FORMAT

    start = _start(path)
    if re.match(rb"# Memories\n(\n## [^\n]{0,200}\n\n- id: |$)", start):
        return True
    try:
        first = json.loads(start.partition(b"\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and (first.get("format") == FORMAT or first.keys() >= AUDIT)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # Not every file system knows how.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

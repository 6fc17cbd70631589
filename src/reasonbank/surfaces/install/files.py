"""Configs of others, read and written: whole or not at all, with the rights that they had."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from reasonbank.errors import InvalidInput, Refused

LARGEST = 64_000_000


def real(file: Path) -> Path:
    """Where a link leads: the link itself stays."""
    try:
        return file.resolve()
    except (OSError, RuntimeError) as error:
        raise InvalidInput("file", f"cannot follow {file}: {error}") from None


def read(file: Path) -> bytes | None:
    """None if there is none."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{file} is not a regular file")
        if found.st_size > LARGEST:
            raise Refused(f"{file} has {found.st_size:,} bytes")
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput("file", f"cannot read {file}: {error.strerror}") from None


def folders_to_make(file: Path) -> list[Path]:
    """The topmost first."""
    missing = []
    folder = file.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def write(file: Path, data: bytes, *, old: bytes | None, private: bool) -> None:
    """In the place of ``old``, unless somebody has changed it meanwhile."""
    part = file.with_name(f".{file.name}.reasonbank-part")
    try:
        for folder in folders_to_make(file):
            folder.mkdir(mode=0o700 if private else 0o777)
        had = file.stat() if old is not None else None
        if had is not None and not os.access(file, os.W_OK):
            raise PermissionError(13, "it is read-only")
        part.unlink(missing_ok=True)  # Of a run that was killed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(part, flags, 0o600 if private or had else 0o666)
        with open(handle, "wb") as out:
            out.write(data)
            if had is not None:
                _like(handle, had)
            out.flush()
            os.fsync(handle)
        if read(file) != old:
            raise Refused(f"{file} was changed by another program meanwhile; run this again")
        os.replace(part, file)
        sync_folder(file.parent)
    except OSError as error:
        raise InvalidInput("file", f"cannot write {file}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def keep(copy: Path, data: bytes, like: Path) -> None:
    """A copy, which is never written over."""
    if not copy.exists():
        write(copy, data, old=None, private=True)
        with suppress(OSError):
            os.chmod(copy, stat.S_IMODE(like.stat().st_mode) & 0o600)


def delete(file: Path, *, old: bytes | None) -> None:
    try:
        if read(file) != old:
            raise Refused(f"{file} was changed by another program meanwhile; run this again")
        file.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput("file", f"cannot remove {file}: {error.strerror}") from None


def _like(handle: int, had: os.stat_result) -> None:
    with suppress(OSError):  # Only root may give files away.
        os.fchown(handle, had.st_uid, had.st_gid)
    os.fchmod(handle, stat.S_IMODE(had.st_mode))


def sync_folder(folder: Path) -> None:
    with suppress(OSError):  # Not every file system knows how.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

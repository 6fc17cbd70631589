"""Files for their owner alone: made so, kept so, and known when they are not."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077


def account() -> str:
    """The account of this machine that runs the program: what the environment says may be
    anything."""
    try:
        import pwd
    except ImportError:  # Windows
        import getpass

        return getpass.getuser()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # A container's user need not have a name.
        return f"user {os.getuid()}"


def make_folder(path: Path) -> None:
    """Make it and what is missing above it, whatever the umask; one that is there stays as it is.

    Raises ``OSError``.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        os.mkdir(path, FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise
        return  # Another process was quicker.
    os.chmod(path, FOLDER)


def make_file(path: Path) -> int:
    """A new file, open for writing. Raises ``OSError``, also if there is something already."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, FILE)
    with contextlib.suppress(OSError):
        os.fchmod(handle, FILE)  # The umask may have taken the owner's own rights.
    return handle


def tighten(paths: Iterable[Path]) -> None:
    """Take the rights of others on files and folders of ours; links and files of others stay."""
    for path in paths:
        # By name: to open and close a database would free the locks that this process has on it.
        with contextlib.suppress(OSError):
            found = path.lstat()
            if _ours(found) and not stat.S_ISLNK(found.st_mode) and found.st_mode & OTHERS:
                os.chmod(path, stat.S_IMODE(found.st_mode) & ~OTHERS)


def exposed(paths: Iterable[Path]) -> Iterator[str]:
    """Which of them others may read or write, in words."""
    for path in paths:
        with contextlib.suppress(OSError):
            found, linked = path.stat(), path.is_symlink()
            if not _ours(found):
                yield f"{path} belongs to another user"
            elif found.st_mode & OTHERS:
                link = " is a symbolic link to a file that" if linked else ""
                yield f"{path}{link} is open to other users"


def read(path: Path) -> str | None:
    """The text of a small private file; None if there is none.

    Raises ``PermissionError`` with a reason if it is not private: who could read or write it?
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        linked = path.is_symlink()
        raise PermissionError("is a symbolic link" if linked else str(error.strerror)) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError("is not a regular file")
        if not _ours(found):
            raise PermissionError("belongs to another user")
        if found.st_mode & OTHERS:
            raise PermissionError("can be read or written by other users")
        return os.read(handle, 4096).decode("ascii", "replace")
    finally:
        os.close(handle)


def replace(path: Path, text: str) -> None:
    """Whole or not at all. Raises ``OSError``."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    handle = make_file(part)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode("ascii"))
            file.flush()
            os.fsync(handle)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _ours(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()

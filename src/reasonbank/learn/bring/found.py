"""What a reader of another memory finds there, and how it may look at files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reasonbank.errors import InvalidInput

LARGEST = 256_000_000
"""Bytes of one file that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that was worth keeping to another memory.

    ``key`` is what tells it from others there, so that it is taken once. ``where`` is for people.
    What is not given is taken from the ``content``.
    """

    key: str
    where: str
    content: str
    title: str | None = None
    about: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that cannot be taken, and why."""

    where: str
    reason: str


Found = Note | LeftOut


def text_of(path: Path) -> str:
    """A file's text. Raises ``InvalidInput``."""
    try:
        found = path.stat()  # Before it is opened: a pipe would wait for somebody to write.
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput("path", f"{path} is not a regular file")
        if found.st_size > LARGEST:
            raise InvalidInput("path", f"{path} is larger than {LARGEST // 1_000_000} MB")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput("path", f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput("path", f"{path} is not UTF-8 text") from None


def files_in(folder: Path) -> Iterator[Path]:
    """All regular files below a folder, in order, without those that are hidden or links."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            if not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path

"""Where the index is, as the end of a bank's URL says: ``sqlite:///bank.db?index=…``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasonbank.errors import InvalidInput, InvalidSetting
from reasonbank.fields import LIMITS
from reasonbank.settings import Url

try:
    import fcntl
except ImportError:  # Windows: whoever opens a folder twice there is told by its engine.
    fcntl: Any = None  # type: ignore[no-redef]

FORMS = (
    "local, pgvector, chroma, chroma+http://host:8000, chroma+file:///folder, "
    "qdrant+http://host:6333 or qdrant+file:///folder"
)
SERVERS = ("chroma", "qdrant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """``engine`` is "" where none is named; ``server`` is a URL, ``folder`` what is on disk."""

    engine: str = ""
    server: str = ""
    folder: Path | None = None


def split(url: str) -> tuple[str, str]:
    """The ledger's URL, and what follows ``index=``; what else it may have stays where it is."""
    from urllib.parse import unquote

    for sign in "?&":
        before, found, rest = url.rpartition(f"{sign}index=")
        if found:
            index, _, more = rest.partition("&")
            return f"{before}{sign}{more}" if more else before, unquote(index)
    return url, ""


def parsed(index: str) -> Address:
    engine, found, place = index.partition("+")
    if not found:
        if engine in ("", "local", "pgvector", "chroma"):
            return Address(engine=engine)
    elif engine in SERVERS and place.startswith("file://"):
        if folder := place.removeprefix("file://"):
            return Address(engine=engine, folder=Path(folder).expanduser().absolute())
    elif engine in SERVERS:
        try:
            return Address(engine=engine, server=Url().check(place, "url", LIMITS).rstrip("/"))
        except InvalidInput as error:
            key = f"{engine.upper()}_API_KEY"
            told = f"its index {error.problem}; a key belongs into the variable {key}"
            raise InvalidSetting("url", told) from None
    # What is refused may be a key in the wrong place: it is not repeated.
    raise InvalidSetting("url", f"has an index of an unknown form; use ?index= with {FORMS}")


class Unavailable(Exception):
    """Why an index cannot be used here, so that the local one is."""


class Held:
    """A folder that is this index's alone, until it is released or the process ends."""

    def __init__(self, folder: Path) -> None:
        from reasonbank import private

        private.make_folder(folder)
        self._file: int | None = os.open(folder / "in-use", os.O_RDWR | os.O_CREAT, private.FILE)

    def is_mine(self) -> bool:
        if self._file is None or fcntl is None:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        except OSError:
            return True  # A file system without locks.
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

"""What `install` has written, noted down in the user's state folder, and the copies beside."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from reasonbank import private
from reasonbank.settings import user_folder
from reasonbank.surfaces.install.edits import Edit, applied
from reasonbank.surfaces.install.fitting_in import Before
from reasonbank.surfaces.install.wiring import Entry

FILE = "install.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Of one file: ``base`` names the copy of what it was without our entries, None if it was
    not there; ``folders`` are those that were made for it."""

    agent: str
    base: str | None
    edits: tuple[Edit, ...]
    entries: tuple[Entry, ...] = ()
    folders: tuple[str, ...] = ()


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def copy_of(file: Path, data: bytes) -> Path:
    """Where a state of a file is kept. Named by what it says: none is ever written over."""
    return file.with_name(f"{file.name}.reasonbank-{digest(data)[:12]}.bak")


class Notes:
    """Raises ``OSError``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.folder = user_folder("XDG_STATE_HOME", ".local/state", environment)

    def read(self) -> dict[str, Note]:
        """By file. Notes that cannot be read are none: the entries are known by their looks."""
        try:
            found = json.loads((self.folder / FILE).read_text())
            return {file: _note(note) for file, note in found.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError):
            return {}

    def write(self, notes: Mapping[str, Note]) -> None:
        path = self.folder / FILE
        if not notes:
            path.unlink(missing_ok=True)
            return
        private.make_folder(self.folder)
        private.replace(path, json.dumps({file: asdict(note) for file, note in notes.items()}))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Two installs at once would each forget what the other has noted."""
        private.make_folder(self.folder)
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def before(note: Note | None, file: Path) -> Before | None:
    """What the note and the copy beside the file say of an earlier install, if both are there."""
    if note is None:
        return None
    base = None
    if note.base is not None:
        with suppress(OSError, ValueError):
            data = (file.parent / note.base).read_bytes()
            base = data.decode() if copy_of(file, data).name == note.base else None
        if base is None:
            return None
    written = applied(base or "", note.edits)
    if written is None:
        return None
    return Before(base=base, written=written, entries=note.entries)


def _note(found: Mapping[str, Any]) -> Note:
    return Note(
        agent=found["agent"],
        base=found["base"],
        edits=tuple(Edit(**edit) for edit in found["edits"]),
        entries=tuple(
            Entry(tuple(entry["path"]), entry["value"], entry["listed"])
            for entry in found["entries"]
        ),
        folders=tuple(found["folders"]),
    )

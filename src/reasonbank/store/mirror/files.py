"""The folder of a mirror: its files, their names, and what was written last time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reasonbank import private
from reasonbank.errors import Refused, StorageError

STATE = ".reasonbank-mirror.json"
FORMAT = "reasonbank-mirror"
LARGEST = 2_000_000
"""Bytes of a file that could be a memory."""
CONFLICT = re.compile(r"\.conflict-[0-9a-f]{8}\.md")
MOST_OF_A_TITLE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a memory's file stood after the last run."""

    name: str
    revision: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file as it is now; ``text`` is None with a ``problem`` where it cannot be read."""

    name: str
    data: bytes = b""
    text: str | None = None
    problem: str = ""

    @property
    def digest(self) -> str:
        return digest_of(self.data)


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path
    bank: str
    workspace: str
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def copies(self) -> dict[str, Copy]:
        """The Markdown files in it, without conflicts; what lies deeper is nobody's business."""
        if not self.path.is_dir():
            return {}
        return {
            name: _copy(self.path / name)
            for name in sorted(os.listdir(self.path))
            if name.endswith(".md") and not name.startswith(".") and not CONFLICT.search(name)
        }

    def conflicts(self) -> list[str]:
        found = os.listdir(self.path) if self.path.is_dir() else []
        return sorted(name for name in found if CONFLICT.search(name))

    def write(self, name: str, text: str, *, was: bytes | None) -> bool:
        """Put a file in place whole; False if it is no longer as it was read."""
        path = self.path / name
        data = text.encode()
        if was == data:
            return True
        if _data(path) != was:
            return False
        _replace(path, data)
        return True

    def keep(self, name: str, data: bytes) -> bool:
        """Put a new file in place; False if another is there."""
        there = _data(self.path / name)
        if there is None:
            _replace(self.path / name, data)
        return there in (None, data)

    def remove(self, name: str, *, was: bytes) -> bool:
        path = self.path / name
        if _data(path) != was:
            return False
        path.unlink()
        return True

    def save(self, entries: Mapping[str, Entry]) -> None:
        told = {
            "format": FORMAT, "version": 1, "bank": self.bank, "workspace": self.workspace,
            "files": {id: [e.name, e.revision, e.digest] for id, e in sorted(entries.items())},
        }  # fmt: skip
        data = json.dumps(told, ensure_ascii=False, indent=1).encode()
        if _data(self.path / STATE) != data:
            _replace(self.path / STATE, data)


def stamps(path: Path) -> dict[str, tuple[int, int]]:
    """What changes when somebody writes, renames or deletes a file of the mirror."""
    found = {}
    with suppress(OSError), os.scandir(path) as there:
        for each in there:
            if each.name.endswith(".md"):
                with suppress(OSError):
                    seen = each.stat(follow_symlinks=False)
                    found[each.name] = (seen.st_mtime_ns, seen.st_size)
    return found


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def opened(path: Path, bank: str, workspace: str, *, adopt: bool) -> Folder:
    """The folder of this project's mirror, which may not be there yet. Raises ``Refused``."""
    if path.exists() and not path.is_dir():
        raise Refused(f"{path} is not a folder; name one for the mirror alone")
    state = path / STATE
    if not state.exists():
        there = sorted(os.listdir(path)) if path.is_dir() else []
        if there and not adopt:
            raise Refused(
                f"{path} holds {there[0]}, which no mirror wrote; name an empty folder, or say "
                "--adopt to make memories of the Markdown files in it"
            )
        return Folder(path, bank, workspace)
    try:
        told = json.loads(state.read_text("utf-8"))
        if told["format"] != FORMAT or told["version"] != 1:
            raise ValueError
        entries = {
            str(id): Entry(name=str(name), revision=int(revision), digest=str(digest))
            for id, (name, revision, digest) in told["files"].items()
        }
        owner = (told["bank"], told["workspace"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Refused(
            f"{state} cannot be read; remove it, and say --adopt: files and memories that say "
            "the same find each other again"
        ) from None
    if owner != (bank, workspace):
        raise Refused(
            f"{path} mirrors another bank or project; name another folder, or remove {STATE} in it "
            "and say --adopt"
        )
    return Folder(path, bank, workspace, entries)


def name_for(title: str, id: str, taken: Collection[str]) -> str:
    """A name that begins like the title; nothing in a title can lead out of the folder.

    ``taken`` are names without regard to large and small letters, as some disks have none.
    """
    plain = unicodedata.normalize("NFKC", title).lower()
    kept = "".join(letter if letter.isalnum() else " " for letter in plain)
    start = "-".join(kept.split()).encode()[: 2 * MOST_OF_A_TITLE].decode("utf-8", "ignore")
    start = start[:MOST_OF_A_TITLE].rstrip("-") or "memory"
    short = f"{start}-{id[-8:]}.md"
    return short if short.casefold() not in taken else f"{start}-{id}.md"


def conflict_name(name: str, digest: str) -> str:
    return f"{name.removesuffix('.md')}.conflict-{digest[:8]}.md"


def _copy(path: Path) -> Copy:
    if path.is_symlink() or not path.is_file():
        return Copy(name=path.name, problem="is not a regular file")
    try:
        if path.stat().st_size > LARGEST:
            return Copy(name=path.name, problem="is too large for a memory")
        data = path.read_bytes()
    except OSError as error:
        return Copy(name=path.name, problem=f"cannot be read: {error.strerror}")
    try:
        return Copy(name=path.name, data=data, text=data.decode("utf-8"))
    except UnicodeDecodeError:
        return Copy(name=path.name, data=data, problem="is not UTF-8 text")


def _data(path: Path) -> bytes | None:
    """What is in a regular file; None where there is nothing."""
    if path.is_symlink():
        return b"\0"  # Which no file of ours holds: whoever put a link here keeps it.
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None


def _replace(path: Path, data: bytes) -> None:
    part: str | None = None
    try:
        private.make_folder(path.parent)
        mode = path.stat().st_mode & 0o777 if path.exists() else private.FILE
        handle, part = tempfile.mkstemp(prefix=".reasonbank-", suffix=".part", dir=path.parent)
        with open(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(part, path)
        part = None
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)

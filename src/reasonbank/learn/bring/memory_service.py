"""The SQLite database of mcp-memory-service. It is opened for reading only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reasonbank.errors import InvalidInput
from reasonbank.learn.bring.found import Found, LeftOut, Note
from reasonbank.store import front_matter

NEEDED = {"content_hash", "content"}
WANTED = ("content_hash", "content", "tags", "memory_type", "deleted_at", "superseded_by")


def read(path: Path) -> Iterator[Found]:
    # Not the interpreter's own SQLite: if this is a database that we have open, a second
    # library would free the locks of the first.
    import apsw

    if not path.is_file():
        raise InvalidInput("path", f"cannot read {path}: there is no such file")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        database = apsw.Connection(f"file:{quote(str(path.resolve()))}{_how(path)}", flags=flags)
        try:
            yield from _notes(database, path)
        finally:
            database.close()
    except apsw.Error as error:
        raise InvalidInput("path", f"cannot read {path}: {error}") from None


def _how(path: Path) -> str:
    """A database with a log that nobody has open is read as a plain file: else SQLite would leave
    an empty log beside it. One whose log is there may be in use, and is not opened twice."""
    if path.with_name(f"{path.name}-wal").exists():
        return ""
    try:
        with path.open("rb") as file:
            return "?immutable=1" if file.read(20)[18:] == b"\2\2" else ""
    except OSError as error:
        raise InvalidInput("path", f"cannot read {path}: {error.strerror}") from None


def _notes(database: Any, path: Path) -> Iterator[Found]:
    there = {row[1] for row in database.execute("pragma table_info(memories)")}
    if not there >= NEEDED:
        raise InvalidInput("path", f"{path} is not a database of mcp-memory-service")
    columns = [name for name in WANTED if name in there]
    query = f"select {', '.join(columns)} from memories order by rowid"  # noqa: S608
    for values in database.execute(query):
        row = dict(zip(columns, values, strict=True))
        if row.get("deleted_at") is None:
            yield _note(row)


def _note(row: Mapping[str, Any]) -> Found:
    where = str(row["content_hash"])[:12]
    if row.get("superseded_by"):
        return LeftOut(where=where, reason=f"was replaced by {str(row['superseded_by'])[:12]}")
    if not isinstance(row["content"], str):
        return LeftOut(where=where, reason="has no text")
    kind = row.get("memory_type")
    return Note(
        key=str(row["content_hash"]),
        where=where,
        content=row["content"],
        tags=(*_tags(row.get("tags")), *((kind,) if isinstance(kind, str) and kind else ())),
    )


def _tags(value: Any) -> list[str]:
    """With commas between them, as it writes them, or as JSON, as some versions did."""
    if isinstance(value, str) and value.startswith("["):
        try:
            return front_matter.words(json.loads(value))
        except (ValueError, RecursionError):
            pass
    return front_matter.words(value)

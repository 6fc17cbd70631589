"""Sessions of opencode: rows of ~/.local/share/opencode/opencode.db.

The database is only read. What a plugin added is a part that is ``synthetic``.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.learn.echo import Shown, is_own
from reasonbank.learn.session import Session
from reasonbank.learn.transcripts.lines import (
    LONGEST_LINE,
    code,
    first,
    mapping,
    string,
    when,
    whole,
)
from reasonbank.learn.transcripts.reading import Reader, changed
from reasonbank.model import JSON

_EDITING = {"write", "edit", "multiedit", "patch", "apply_patch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A session of the database, and the characters it has."""

    id: str
    directory: str
    changed: int
    size: int


def database(environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
    return data / (environment.get("OPENCODE_DB") or "opencode.db")


def listed(path: str) -> list[Listed]:
    """The sessions in it, without those of subagents."""
    with _opened(path) as db:
        rows = db.execute(
            "select s.id, s.directory, s.time_updated, (select coalesce(sum(length(data)), 0)"
            " from part where session_id = s.id) from session s where s.parent_id is null"
            " order by s.time_updated"
        )
        return [
            Listed(id=id, directory=directory, changed=changed, size=size)
            for id, directory, changed, size in rows
        ]


def mark(path: str, session: str) -> str | None:
    """Changes when the session does; None where there is none."""
    with _opened(path) as db:
        return _mark(db, session)


def read(path: str, session: str) -> tuple[Session, str]:
    with _opened(path) as db:
        found = db.execute(
            "select directory, parent_id, revert from session where id = ?", (session,)
        ).fetchone()
        told = _mark(db, session)
        if found is None or told is None:
            raise NotFound(f"the session {session} is not in {path}")
        reader, shown = Parts(), Shown()
        reader.id, reader.directory = session, string(found[0]) or None
        reader.part = found[1] is not None
        # What the user took back did not happen.
        undone = string(_object(found[2]).get("messageID"))
        rows = db.execute(
            "select m.data, p.data, p.time_created from part p join message m on m.id ="
            " p.message_id where p.session_id = ? and length(p.data) <= ?"
            " and (? = '' or m.id < ?) order by m.time_created, m.id, p.id",
            (session, LONGEST_LINE, undone, undone),
        )
        for message, part, at in rows:
            for text in shown.watching([string(part)]):
                reader.take({"message": _object(message), "part": _object(text), "at": at})
        return reader.session(session, shown.ids), told


class Parts(Reader):
    agent = "opencode"

    def take(self, line: JSON) -> None:
        message, part, at = mapping(line.get("message")), mapping(line.get("part")), line.get("at")
        by_user = message.get("role") == "user"
        self.model = string(message.get("modelID")) or self.model
        match part.get("type"):
            case "text" if not part.get("synthetic") and not part.get("ignored"):
                self.aborted = False
                self.say(string(part.get("text")), by_user=by_user, at=when(at))
            case "tool":
                self._tool(string(part.get("tool")), mapping(part.get("state")))
            case "step-finish":
                self.tokens += whole(mapping(part.get("tokens")).get("total"))

    def _tool(self, name: str, state: JSON) -> None:
        status, given = state.get("status"), mapping(state.get("input"))
        if status not in ("completed", "error") or is_own(tool=name):
            return
        at = when(mapping(state.get("time")).get("end"))
        if name == "bash":
            known = mapping(state.get("metadata"))
            output = first(known, "output") or first(state, "output", "error")
            exit_code = code(known.get("exit"))
            self.aborted = status == "error" and "aborted" in string(state.get("error"))
            self.ran(string(given.get("command")), output, exit_code, at)
        elif name in _EDITING and status == "completed":
            change = changed([given], "content", "newString", "patchText")
            self.edited(first(given, "filePath", "path"), change, at)


def _mark(db: sqlite3.Connection, session: str) -> str | None:
    row = db.execute(
        "select s.time_updated, (select max(time_updated) from part where session_id = s.id)"
        " from session s where s.id = ?",
        (session,),
    ).fetchone()
    return None if row is None else f"{row[0]} {row[1]}"


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    if not os.path.isfile(path) or os.path.islink(path):
        raise NotFound(f"the transcript {path} is gone")
    try:
        db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=5)
        try:
            yield db
        finally:
            db.close()
    except sqlite3.Error as error:
        raise InvalidInput("transcript", f"cannot read {path}: {error}") from None


def _object(text: object) -> JSON:
    try:
        return mapping(json.loads(string(text)))
    except (ValueError, RecursionError):
        return {}

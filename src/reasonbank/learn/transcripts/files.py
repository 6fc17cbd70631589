"""Transcripts where agents keep them: files that may be huge, cut off, or growing."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.learn import transcripts
from reasonbank.learn.session import Session
from reasonbank.learn.transcripts import opencode
from reasonbank.learn.transcripts.lines import LONGEST_LINE, items, mapping, objects, parsed, string
from reasonbank.store.queue import TOGETHER, Transcript

LARGEST_DOCUMENT = 32_000_000
"""A transcript that is one document is held in memory as a whole."""
CHUNK = 1_000_000


def session_at(transcript: Transcript, *, unless: str | None = None) -> tuple[Session, str] | None:
    """The session, and a mark that changes when more of it is written; None if that is still
    ``unless``. What cannot be read is an error that trying again would not mend."""
    if transcript.agent in TOGETHER:
        path = _database(transcript)
        if opencode.mark(path, transcript.session) == unless is not None:
            return None
        return opencode.read(path, transcript.session)
    with opened(transcript.path) as file:
        mark = _mark(os.fstat(file.fileno()))
        if mark == unless:
            return None
        return _session_in(transcript, _plain(transcript.path, file)), mark


def mark_of(transcript: Transcript) -> str | None:
    """None where it is gone."""
    try:
        if transcript.agent in TOGETHER:
            return opencode.mark(_database(transcript), transcript.session)
        return _mark(os.lstat(transcript.path))
    except (OSError, NotFound, InvalidInput):
        return None


def _database(transcript: Transcript) -> str:
    return transcript.path or str(opencode.database(os.environ))


def _mark(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns}"


def _session_in(transcript: Transcript, file: IO[bytes]) -> Session:
    """Whose it is follows from what is in it, not from who handed it over."""
    path = transcript.path
    lines = _document(path, file) or lines_of(file)
    opening = list(islice(lines, transcripts.OPENING))
    form = transcripts.known_by(list(objects(opening)))
    if form is None:
        if not "".join(opening).strip():
            return Session(id=transcript.session or "unknown", agent=transcript.agent)
        raise InvalidInput("transcript", f"{path} is no transcript of an agent that is known")
    name = transcript.session or Path(path).stem
    session = transcripts.session_in(form, chain(opening, lines), id=name)
    if form == "gemini-cli" and session.directory is None:
        session = replace(session, directory=_gemini_project(Path(path), opening))
    return session


def _document(path: str, file: IO[bytes]) -> Iterator[str] | None:
    """A transcript that is one document over several lines, as one line."""
    head = file.read(1000).lstrip().partition(b"\n")[0].strip()
    file.seek(0)
    if head not in (b"{", b"["):
        return None
    text = file.read(LARGEST_DOCUMENT + 1)
    if len(text) > LARGEST_DOCUMENT:
        raise InvalidInput("transcript", f"{path} is one document of more than 32 MB")
    found = parsed(text.decode("utf-8", "replace"))
    file.seek(0)
    return _messages(found) if found else None


def _messages(document: dict[str, object]) -> Iterator[str]:
    """Its head and its messages, one by one: a line each, as newer versions write them."""
    import json

    rest = {name: value for name, value in document.items() if name != "messages"}
    yield json.dumps(rest)
    for message in items(document.get("messages")):
        yield json.dumps(message)


def lines_of(file: IO[bytes]) -> Iterator[str]:
    """Line by line, in bounded memory: of a line that is too long nothing is kept."""
    rest, too_long = b"", False
    while chunk := file.read(CHUNK):
        *whole, last = chunk.split(b"\n")
        for part in whole:
            if not too_long and len(rest) + len(part) <= LONGEST_LINE:
                yield (rest + part).decode("utf-8", "replace")
            rest, too_long = b"", False
        rest += last
        if len(rest) > LONGEST_LINE:
            rest, too_long = b"", True
    if rest and not too_long:
        yield rest.decode("utf-8", "replace")


def _gemini_project(path: Path, opening: list[str]) -> str | None:
    """Gemini keeps chats by project, and says in a file beside them where that is."""
    folder = path.parent.parent
    told = _small(folder / ".project_root").strip()
    if told:
        return told
    head = next(objects(opening), {})
    wanted = string(head.get("projectHash"))
    known = mapping(parsed(_small(folder.parent.parent / "projects.json")).get("projects"))
    places = (name for name in known if hashlib.sha256(name.encode()).hexdigest() == wanted)
    return next(places, None) if wanted else None


def _small(path: Path) -> str:
    try:
        with opened(str(path)) as file:
            return file.read(CHUNK).decode("utf-8", "replace")
    except (NotFound, InvalidInput):
        return ""


def _plain(path: str, file: IO[bytes]) -> IO[bytes]:
    if not path.endswith(".zst"):
        return file
    try:
        from compression import zstd  # type: ignore[import-not-found]
    except ImportError:
        raise InvalidInput(
            "transcript", f"{path} is compressed with zstd, which needs Python 3.14; "
            "decompress it first (zstd -d)"
        ) from None  # fmt: skip
    return cast("IO[bytes]", zstd.open(file))


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A regular file: to open a pipe would wait for a writer, and a link leads anywhere."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = open(os.open(path, flags), "rb")  # noqa: SIM115  (closed below)
    except FileNotFoundError:
        raise NotFound(f"the transcript {path} is gone") from None
    except (OSError, ValueError) as error:
        raise InvalidInput("transcript", f"cannot read {path}: {error}") from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidInput("transcript", f"{path} is not a regular file")
        yield file

"""Transcripts where agents keep them: files that may be huge, cut off, or growing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.learn import transcripts
from reasonbank.learn.session import Session
from reasonbank.store.queue import Transcript


def session_at(transcript: Transcript, *, unless: str | None = None) -> tuple[Session, str] | None:
    """The session, and a mark that changes when more of it is written; None if that is still
    ``unless``. What cannot be read is an error that trying again would not mend."""
    with opened(transcript.path) as file:
        mark = _mark(os.fstat(file.fileno()))
        if mark == unless:
            return None
        text = file.read().decode("utf-8", "replace")
    form = transcripts.format_of(text)
    if form is None:
        raise InvalidInput("transcript", f"{transcript.path} is no transcript that is known")
    return transcripts.read(form, text), mark


def mark_of(transcript: Transcript) -> str | None:
    """None where it is gone."""
    try:
        return _mark(os.lstat(transcript.path))
    except OSError:
        return None


def _mark(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns}"


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

"""Readers of coding agents' transcripts: lines of JSON in, a session out.

They never fail: a line that is cut off, foreign or of a newer format is passed over. Each is a
module with ``read`` and ``known_by``. opencode keeps its sessions in a database, which ``files``
reads with ``opencode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

from reasonbank.learn.transcripts.lines import objects, parsed
from reasonbank.model import JSON

if TYPE_CHECKING:
    from reasonbank.learn.session import Session

FORMATS = {
    "codex": "codex",
    "gemini-cli": "gemini_cli",
    "copilot-cli": "copilot_cli",
    "qwen-code": "qwen_code",
    "claude-code": "claude_code",
}
"""The module that reads each; the first that knows a text by its looks takes it."""
OPENING = 50
"""So many lines tell what a transcript is."""


def known_by(opening: Sequence[JSON]) -> str | None:
    """The format of a transcript, told from its first lines."""
    return next((name for name in FORMATS if _reader(name).known_by(opening)), None)


def format_of(text: str) -> str | None:
    """The format of a transcript, told from its text."""
    return known_by(list(islice(objects(_lines(text)), OPENING)))


def read(format: str, text: str) -> Session:
    return session_in(format, _lines(text))


def session_in(format: str, lines: Iterable[str], *, id: str = "") -> Session:
    found: Session = _reader(format).read(lines, id=id)
    return found


def _lines(text: str) -> list[str]:
    """Lines as JSON has them; what is one document, over several of them, is one."""
    head = text[:1000].lstrip().partition("\n")[0].strip()
    if head in ("{", "[") and parsed(text):
        return [text]
    return text.split("\n")


def _reader(format: str) -> Any:
    return import_module(f"{__name__}.{FORMATS[format]}")

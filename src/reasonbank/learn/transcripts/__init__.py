"""Readers of coding agents' transcripts: lines of JSON in, a session out.

They never fail: a line that is cut off, foreign or of a newer format is passed over. Each is a
module with ``read`` and ``known_by``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reasonbank.model import JSON

if TYPE_CHECKING:
    from reasonbank.learn.session import Session

FORMATS = {"codex": "codex", "claude-code": "claude_code"}
"""The module that reads each; the first that knows a text by its looks takes it."""
LONGEST_LINE = 50_000_000


def format_of(text: str) -> str | None:
    """The format of a transcript, told from its text."""
    first = text.lstrip().partition("\n")[0]
    return next((name for name in FORMATS if _reader(name).known_by(first, text)), None)


def read(format: str, text: str) -> Session:
    from reasonbank.learn.session import shown_in

    found: Session = _reader(format).read(text.splitlines())
    return replace(found, shown=shown_in(text))


def _reader(format: str) -> Any:
    return import_module(f"{__name__}.{FORMATS[format]}")


def objects(lines: Iterable[str]) -> Iterator[JSON]:
    for line in lines:
        if len(line) > LONGEST_LINE or not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[JSON]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def text_of(content: Any) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(string(block.get("text")) for block in items(content) if block.get("text"))


def facts(model: str, tokens: int, effort: str = "") -> dict[str, str | int]:
    """What is known of the model, under the names that traces have for it."""
    known: dict[str, str | int] = {
        "model": model[:200], "reasoning_effort": effort[:40], "total_tokens": tokens
    }  # fmt: skip
    return {name: value for name, value in known.items() if value}


def whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

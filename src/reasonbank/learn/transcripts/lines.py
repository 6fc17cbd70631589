"""What all readers need: JSON that may be anything, and nothing that fails because of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from reasonbank.model import JSON

LONGEST_LINE = 8_000_000
"""A longer line holds a picture or a whole file: it is passed over."""


def objects(lines: Iterable[str]) -> Iterator[JSON]:
    for line in lines:
        if len(line) > LONGEST_LINE or not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue  # Foreign, or the end of a file that is just being written.
        if isinstance(value, dict):
            yield value


def parsed(value: Any) -> JSON:
    """A mapping, which may be told as text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return mapping(value)


def mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[JSON]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def first(value: JSON, *names: str) -> str:
    """The first of these that is a text with something in it."""
    return next((found for name in names if (found := string(value.get(name)))), "")


def text_of(content: Any) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(string(block.get("text")) for block in items(content) if block.get("text"))


def whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def code(value: Any) -> int | None:
    """An exit code: some write it with a decimal point."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if abs(value) < 1_000_000 else None


def when(value: Any) -> datetime | None:
    """A time as text, or in milliseconds since 1970."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        return datetime.fromtimestamp(value / 1000, UTC) if whole(value) else None
    except (ValueError, OverflowError, OSError):
        return None


def facts(model: str, tokens: int, effort: str = "") -> dict[str, str | int]:
    """What is known of the model, under the names that traces have for it."""
    known: dict[str, str | int] = {
        "model": model[:200], "reasoning_effort": effort[:40], "total_tokens": tokens
    }  # fmt: skip
    return {name: value for name, value in known.items() if value}

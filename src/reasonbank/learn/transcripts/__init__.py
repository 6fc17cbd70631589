"""Readers of coding agents' transcripts: lines of JSON in, a session out.

They never fail: a line that is cut off, foreign or of a newer format is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from reasonbank.model import JSON

LONGEST_LINE = 50_000_000


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

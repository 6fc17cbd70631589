"""Changes of a text, as they are noted down: each can be made again, and the user's text stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Edit:
    """At ``at``, ``removed`` stands; ``inserted`` takes its place."""

    at: int
    removed: str
    inserted: str


def applied(text: str, edits: Iterable[Edit]) -> str | None:
    """One after the other; None if this is not the text that they were made for."""
    for edit in edits:
        end = edit.at + len(edit.removed)
        if text[edit.at : end] != edit.removed:
            return None
        text = text[: edit.at] + edit.inserted + text[end:]
    return text


def merged(base: str, one: str, other: str) -> str | None:
    """What two changed in one text, where they changed different lines; None where not."""
    lines = base.splitlines(keepends=True)
    first, second = _changes(lines, one), _changes(lines, other)
    if any((a < d and c < b) or a == b == c == d for a, b, _ in first for c, d, _ in second):
        return None
    at, parts = 0, []
    for start, end, instead in sorted([*first, *second], key=lambda change: change[:2]):
        parts += [*lines[at:start], *instead]
        at = end
    return "".join([*parts, *lines[at:]])


def _changes(lines: Sequence[str], text: str) -> list[tuple[int, int, list[str]]]:
    others = text.splitlines(keepends=True)
    matcher = SequenceMatcher(None, lines, others, autojunk=False)
    return [(a, b, others[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]

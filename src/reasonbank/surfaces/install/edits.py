"""Changes of a text, as they are noted down: each can be made again, and the user's text stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST = 4_000_000
"""Pairs of lines that are compared."""


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
    lines, others = base.splitlines(keepends=True), other.splitlines(keepends=True)
    first, second = changes(lines, one.splitlines(keepends=True)), changes(lines, others)
    if (
        first is None
        or second is None
        or any((a < d and c < b) or a == b == c == d for a, b, _ in first for c, d, _ in second)
    ):
        return None
    at, parts = 0, []
    for start, end, instead in sorted([*first, *second], key=lambda change: change[:2]):
        parts += [*lines[at:start], *instead]
        at = end
    return "".join([*parts, *lines[at:]])


def changes(lines: Sequence[str], others: Sequence[str]) -> list[tuple[int, int, list[str]]] | None:
    """Which lines become which; None for more than can be compared in a moment."""
    start = _common(lines, others)
    end = _common(lines[start:][::-1], others[start:][::-1])
    ours, theirs = lines[start : len(lines) - end], others[start : len(others) - end]
    if len(ours) * len(theirs) > MOST:
        return None
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        (start + a, start + b, [*theirs[c:d]])
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    ]


def _common(lines: Sequence[str], others: Sequence[str]) -> int:
    """With how many equal lines both begin."""
    pairs = enumerate(zip(lines, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(lines), len(others)))

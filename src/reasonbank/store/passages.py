"""A long text, passage by passage. Pure.

An embedding model reads the beginning of a long text, and one vector is about everything in it.
So a long memory has a vector of each passage besides, and the nearest of them counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from reasonbank.fields import LIMITS
from reasonbank.safety.patterns import brief

LONG = 1_000
"""Characters; a shorter text is read whole, and has no passages."""
PASSAGE = 400
"""Characters: longer ones are about several things (docs/decisions/0023-passages.md)."""
MOST = 48
"""Of a text that would have more, each is longer."""

_SENTENCE = brief(r"[^\n]*?(?:[.!?][\"')\]]?\s+|\n+|$)", 2 * LIMITS.content)


def passages(text: str) -> tuple[str, ...]:
    """Whole sentences and lines, as many as fit; none of a short text."""
    if len(text) <= LONG:
        return ()
    room = PASSAGE
    while len(found := list(_packed(text, room))) > MOST:
        room += room // 4
    return tuple(found)


def _packed(text: str, room: int) -> Iterator[str]:
    passage = ""
    for sentence in (*_sentences(text, room), ""):
        if passage.strip() and (not sentence or len(passage) + len(sentence) > room):
            yield passage.strip()
            passage = ""
        passage += sentence


def _sentences(text: str, room: int) -> Iterator[str]:
    for sentence in _SENTENCE.findall(text):
        at = 0
        while len(sentence) - at > room:
            end = sentence.rfind(" ", at + 1, at + room) + 1 or at + room
            yield sentence[at:end]
            at = end
        yield sentence[at:]

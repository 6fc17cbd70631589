"""What fits a line: text that is fit to be seen, by the columns that it takes, and ids by their
last digits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

LEAST = 8
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def shortener(ids: Iterable[str]) -> Callable[[str], str]:
    """Writes each of these ids with as many of its last digits as tell it from the others.

    The first ones say when it was made: what was made in the same minute begins alike.
    """
    uuids = {id for id in ids if _UUID(id)}
    digits = LEAST
    while len({id[-digits:] for id in uuids}) < len(uuids):
        digits += 1
    return lambda id: id[-digits:].lstrip("-") if _UUID(id) else id


def columns(text: str) -> int:
    """How many columns of a terminal it takes; rather too many than too few."""
    if text.isascii():
        return len(text)
    return sum(_columns(sign) for sign in text)


def _columns(sign: str) -> int:
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of whole words; one that is longer than a line goes on in the next."""
    line = ""
    for word in re.split(r"(?<=\S)(?=\s)", text.rstrip()):
        if columns(line + word) > width and line.strip():
            yield line
            line = word.lstrip()
        else:
            line += word
        while columns(line) > width:
            end = _end(line, width)
            yield line[:end]
            line = line[end:]
    yield line


def _end(text: str, width: int) -> int:
    """How many signs of it fit; at least one."""
    taken = 0
    for place, sign in enumerate(text):
        taken += _columns(sign)
        if taken > width:
            return max(place, 1)
    return len(text)


# Persian words and families of emoji have joiners in them; where neither is, one could hide.
_JOINED = re.compile("(?<=[^\x00-\xff])[\u200c\u200d](?=[^\x00-\xff])")


def clean(text: str) -> str:
    """Stored text must not steer the terminal: control characters are made visible."""
    if text.isprintable():
        return text
    joiners = {found.start() for found in _JOINED.finditer(text)}
    return "".join(
        c if c.isprintable() or c in "\t\n" or place in joiners else "�"
        for place, c in enumerate(text)
    )

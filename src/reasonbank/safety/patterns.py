"""Patterns over outside text: RE2, so that no text makes them take more than linear time.

The words are those of `re`, with RE2's meaning: no look-around and no back-references, ``\\z`` for
the end, and ``\\w``, ``\\d``, ``\\s`` and ``\\b`` know ASCII only. A pattern that is used with
``finditer``, ``findall``, ``split`` or ``sub`` needs bounded repetitions wherever a long run might
match nothing in the end: RE2 reads such a run again for every place it could begin at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any


class Pattern:
    """Compiled when it is first used: most commands need none."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def _engine(self) -> Any:
        import re2

        options = re2.Options()
        options.max_mem = 32 << 20
        options.log_errors = False
        return re2.compile(self.pattern, options)

    def search(self, text: str) -> Any:
        return self._engine.search(_whole(text))

    def match(self, text: str) -> Any:
        return self._engine.match(_whole(text))

    def fullmatch(self, text: str) -> Any:
        return self._engine.fullmatch(_whole(text))

    def finditer(self, text: str) -> Iterator[Any]:
        found: Iterator[Any] = self._engine.finditer(_whole(text))
        return found

    def findall(self, text: str) -> list[Any]:
        found: list[Any] = self._engine.findall(_whole(text))
        return found

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        found: list[str] = self._engine.split(_whole(text), maxsplit)
        return found

    def sub(self, new: str | Callable[[Any], str], text: str, count: int = 0) -> str:
        found: str = self._engine.sub(new, _whole(text), count)
        return found

    @property
    def on_bytes(self) -> Any:
        """The compiled pattern itself, for who reads bytes and moves from place to place."""
        return self._engine


def compile(pattern: str) -> Pattern:
    return Pattern(pattern)


def _whole(text: str) -> str:
    """Half a character, which JSON can hold, is none in UTF-8; the length stays."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


def any_of(several: list[str]) -> Any:
    """Patterns that are looked for at once: ``Match(bytes)`` gives the numbers of those found."""
    import re2

    found = re2.Filter()
    for pattern in several:
        found.Add(pattern)
    found.Compile()
    return found


class Brief:
    """A pattern of `re`, for what RE2 cannot say; it sees the first ``most`` characters only."""

    def __init__(self, pattern: str, most: int) -> None:
        self.pattern, self.most = pattern, most

    @cached_property
    def _engine(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def search(self, text: str) -> re.Match[str] | None:
        return self._engine.search(text[: self.most])

    def match(self, text: str) -> re.Match[str] | None:
        return self._engine.match(text[: self.most])

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._engine.fullmatch(text) if len(text) <= self.most else None

    def findall(self, text: str) -> list[Any]:
        return self._engine.findall(text[: self.most])

    def sub(self, new: str, text: str) -> str:
        return self._engine.sub(new, text[: self.most])


def brief(pattern: str, most: int) -> Brief:
    return Brief(pattern, most)


def spaced(pattern: str) -> str:
    r"""A pattern that is written over several lines, without the blanks that lay it out.

    A blank that is meant is written ``\ ``.
    """
    return "".join(pattern.replace("\\ ", "\0").split()).replace("\0", " ")

"""What a parser finds in the files of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parallel:
    """The same text in two languages."""

    english: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with the document that answers it; without a question, a text alone.

    Pairs of one ``group`` are about the same thing (one command with other flags, say): they are
    each other's hardest wrong answers. Pairs of one ``meaning`` say the same in other words: they
    are never wrong answers to each other.
    """

    group: str
    question: str
    document: str
    meaning: str = ""


Files = Mapping[str, str]
Found = Iterator[Parallel | Pair]

"""The few things that the ledger's SQL needs of a database, and what differs between two.

The SQL of queries, projection, queue and migrations is what SQLite and PostgreSQL both know,
with ``?`` for values; whatever they say differently comes from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from reasonbank.model import from_micros

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Nums = NDArray[np.int64]
    Scores = NDArray[np.float64]

T = TypeVar("T")
Values = Sequence[Any]
Words = tuple[int, Sequence[str], int]
"""The number of a memory, its texts and its realm."""


class Array(NamedTuple):
    """Many values in a statement: ``f"id in {ids.sql}"``, and ``*ids.values`` in their place."""

    sql: str
    """A table in brackets, whose only column is ``value``."""
    values: tuple[Any, ...]


class Dialect(Protocol):
    @property
    def types(self) -> Mapping[str, str]:
        """What the schema calls ``whole``, ``real`` and ``bytes``; ``text``, which is compared
        letter by letter, as Python does; ``key``, a whole number that
        the database gives; ``counter``, one that it never gives again; ``table``, what ends
        a table that is only looked up by its key."""

    @property
    def vector_position(self) -> str:
        """The query for the highest number that any row of ``vectors`` ever had."""

    @property
    def skip_locked(self) -> str:
        """What ends a query for rows to change, so that none is waited for that another has."""

    def count_on(self, table: str, column: str) -> str | None:
        """The query after which the database gives only numbers beyond a value; None where it
        does so by itself as soon as a row has that number."""

    def numbers(self, values: Sequence[int] | Nums) -> Array: ...
    def texts(self, values: Sequence[str]) -> Array: ...
    def contains(self, text: str, part: str) -> str:
        """The condition that one expression has another in it, in exactly these letters."""


class FullText(Protocol):
    """The words of memories.

    Requirements: words are found whatever their case and accents; what was dropped is nowhere
    in the store; what is written is part of the transaction that writes it.
    """

    def create(self) -> None: ...
    def put(self, num: int, texts: Sequence[str], realm: int) -> None:
        """``texts`` are title, description, content and tags."""

    def drop(self, num: int, texts: Sequence[str], realm: int) -> None:
        """With what was put."""

    def put_all(self, rows: Sequence[Words]) -> None:
        """The same for many: number, texts and realm of each."""

    def drop_all(self, rows: Sequence[Words]) -> None: ...

    def clear(self) -> None: ...
    def rows(self) -> int: ...
    def counts(
        self, realms: Sequence[int] | None, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        """See ``Reading.word_counts``."""

    def best(
        self,
        realms: Sequence[int] | None,
        terms: Sequence[str],
        limit: int,
        among: Nums | None,
    ) -> tuple[Nums, Scores]:
        """See ``Reading.words``; None means that all rows may be seen."""


class PostedText(FullText, Protocol):
    """Full text whose postings can be kept by who reads."""

    def state(self) -> bytes:
        """Another one whenever words were written."""

    def posting(self, realms: Sequence[int] | None, term: str) -> tuple[Nums, Scores]:
        """The rows that a term is in, and what BM25 gives each of them for it."""


class Database(Protocol):
    """A connection. Its errors are those of ``reasonbank.errors``, where a caller can help it."""

    @property
    def dialect(self) -> Dialect: ...
    @property
    def full_text(self) -> FullText: ...

    def all(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]: ...
    def one(self, sql: str, values: Values = ()) -> tuple[Any, ...] | None: ...
    def execute(self, sql: str, values: Values = ()) -> None:
        """In a transaction it may be sent with what is asked next, and fail there; in any case
        before the transaction ends, or the part of it."""

    def changed(self, sql: str, values: Values = ()) -> int:
        """How many rows it changed."""

    def many(self, sql: str, rows: Iterable[Values]) -> None:
        """The same statement for each of the rows, sent as ``execute`` would."""


def inline(nums: Iterable[int]) -> str:
    """Whole numbers that we made, as SQL: for a few of them, which are often the same."""
    return f"({','.join(map(str, nums)) or -1})"


def columns(kind: type) -> str:
    """The columns of a table that are called as the fields of this class."""
    return ", ".join(field.name for field in fields(kind))


def records(kind: Callable[..., T], names: str, rows: Iterable[Values], **known: Any) -> list[T]:
    """Objects of this class from rows that have the columns named; ``known`` is the same in all.

    A time is stored as microseconds, a list or an object as JSON.
    """
    reads = _reads(kind)
    every = [(name, reads.get(name)) for name in names.split(", ")]
    return [
        kind(
            **known,
            **{
                name: value if read is None or value is None else read(value)
                for (name, read), value in zip(every, row, strict=True)
            },
        )
        for row in rows
    ]


def record(kind: Callable[..., T], names: str, row: Values | None, **known: Any) -> T | None:
    return None if row is None else records(kind, names, [row], **known)[0]


@cache
def _reads(kind: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(kind).items():
        for part in (hint, *get_args(hint)):
            if part is datetime:
                found[name] = from_micros
            elif part is bool or (isinstance(part, type) and issubclass(part, StrEnum)):
                found[name] = part
            elif get_origin(part) is tuple:
                found[name] = lambda value: tuple(json.loads(value))
            elif get_origin(part) is Mapping:
                found[name] = json.loads
    return found

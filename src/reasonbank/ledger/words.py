"""The words of texts, and which of them are worth looking at: the same in every database."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

if TYPE_CHECKING:
    from reasonbank.ledger.database import Nums, Scores

T = TypeVar("T")

# From this many rows on it is worth knowing which words are rare.
MANY = 2_000
TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""English endings are cut off; case and accents do not count."""
MOST_COUNTS = 50_000
_local = threading.local()


def tokens(text: str) -> list[str]:
    """The words of a text as FTS5 makes them, so that every database finds the same."""
    tokenizer = getattr(_local, "tokenizer", None)
    if tokenizer is None:
        _local.db = apsw.Connection(":memory:")  # It needs one, to live in.
        name, *options = TOKENIZER
        tokenizer = _local.tokenizer = _local.db.fts5_tokenizer(name, options)
    found: list[str] = tokenizer(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None,
        include_offsets=False, include_colocated=False,
    )  # fmt: skip
    return found


def rarest(terms: Sequence[T], counts: Mapping[T, int], rows: int, limit: int) -> Sequence[T]:
    """The rarest terms that reach as many rows as are wanted; none if that saves nothing.

    Scoring is what takes time. A row that has only common words of a question is not
    among the best when enough others have its rare ones. Counted within the realms:
    a word that only others use must not push aside what is here.
    """
    if rows < MANY:
        return ()
    rare: list[T] = []
    reach = 0
    for term in sorted(terms, key=counts.__getitem__):
        if reach >= limit and reach + counts[term] > rows // 10:
            return rare
        reach += counts[term]
        rare.append(term)
    return ()


class KeptCounts:
    """In how many rows words were found, for as long as that is true, or nearly so."""

    def __init__(self) -> None:
        self._nearly: dict[Any, int] = {}
        self._rows = 0
        self._now: dict[Any, int] = {}
        self._state: object = None

    def nearly(self, rows: int) -> dict[Any, int]:
        """Until a twentieth of the rows has come or gone."""
        if abs(rows - self._rows) > rows // 20 or len(self._nearly) > MOST_COUNTS:
            self._rows = rows
            self._nearly.clear()
        return self._nearly

    def now(self, state: object) -> dict[Any, int]:
        """Until any word is written: then the ``state`` of the full text is another."""
        if state != self._state or len(self._now) > MOST_COUNTS:
            self._state = state
            self._now.clear()
        return self._now


def arrays(found: Sequence[tuple[Any, ...]]) -> tuple[Nums, Scores]:
    import numpy as np

    nums, scores = zip(*found, strict=True) if found else ((), ())
    return np.array(nums, np.int64), np.array(scores, np.float64)

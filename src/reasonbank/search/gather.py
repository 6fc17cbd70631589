"""The candidates for a question, by meaning and by words, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reasonbank.errors import StorageError
from reasonbank.ledger.port import Candidates, Filter, Reading
from reasonbank.model import Hit
from reasonbank.search import rank
from reasonbank.search.estimate import Trust, crowded_out, places, trust_in
from reasonbank.search.text import terms
from reasonbank.store.context import Context
from reasonbank.trust.belief import FOLDED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Nums = NDArray[np.int64]
    Floats = NDArray[np.float64]

DAY = 86_400_000_000
# Up to this many rows that pass a filter are scored one by one; more are found by
# searching all and filtering what comes back.
FEW = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    limit: int
    filter: Filter
    min_confidence: float
    max_tokens: int | None = None
    explain: bool = False
    follow_links: bool = False
    sure_only: bool = False
    """Nobody asked: what is not surely relevant is left out."""
    cost: Callable[[Hit], int] | None = None


@dataclass(slots=True)
class Senses:
    """What a search can go by; whatever fails is given up, and noted."""

    vector: NDArray[np.float32] | None = None
    words: bool = True
    notes: list[str] = field(default_factory=list)

    def without_meaning(self, error: Exception, what: str) -> None:
        self.vector = None
        self.notes.append(f"{what} failed, so only words were searched: {error}")

    def without_words(self, error: StorageError) -> None:
        self.words = False
        if self.vector is None:
            raise error
        self.notes.append(f"full text failed, so only meaning was searched: {error}")

    @property
    def skipped(self) -> tuple[str, ...]:
        return ("meaning",) * (self.vector is None) + ("words",) * (not self.words)


@dataclass(slots=True)
class Gathered:
    """The candidates of one question, as columns in the same order."""

    rows: Candidates
    cosine: Floats
    bm25: Floats
    vectors: NDArray[np.float32] | None
    confidence: Floats
    trust: Trust
    allowed: NDArray[np.bool_]
    complete: bool
    """True if no further row could pass the filter."""


def gather(context: Context, reading: Reading, question: Question, senses: Senses) -> Gathered:
    """Candidates from both sides; deeper only if a filter left too few of them."""
    filter = question.filter
    among = None
    if filter.selective:
        among = reading.matching(context.view, filter, FEW)
    pool = max(rank.POOL, 3 * question.limit)
    found = _candidates(context, reading, question, senses, pool, among)
    if among is not None or found.complete:
        return found
    flooded = 2 * int((found.trust.author_weight < 0.5).sum()) > len(found.rows.nums)
    if flooded or int(found.allowed.sum()) < question.limit:
        among = _passing(context, reading, question, senses.vector)
        return _candidates(context, reading, question, senses, pool, among)
    likely = float(found.trust.likely[found.allowed].max())
    if likely >= context.settings.belief.prune_below:
        return found
    if not crowded_out(reading, found.rows, found.trust, likely):
        return found
    # Memories that read well and help little must not hide those of others.
    better = _passing(context, reading, question, senses.vector, likely)
    return _candidates(context, reading, question, senses, pool, None, also=better)


def _passing(
    context: Context,
    reading: Reading,
    question: Question,
    vector: NDArray[np.float32] | None,
    likely: float = 0.0,
) -> Nums:
    """All rows that pass the filter, are trusted enough and at least so likely to help."""
    import numpy as np

    nums = reading.matching(context.view, question.filter, None)
    assert nums is not None
    passing: list[Nums] = []
    for start in range(0, len(nums), FEW):
        rows = reading.candidates(context.view, question.filter, nums[start : start + FEW])
        confidence = _confidence(context, reading, rows)
        trust = trust_in(context, reading, rows, confidence, vector)
        passed = trusted(confidence, trust, question) & (trust.likely >= likely)
        passing.append(rows.nums[passed])
    return np.sort(np.concatenate([np.empty(0, np.int64), *passing]))


def trusted(confidence: Floats, trust: Trust, question: Question) -> NDArray[np.bool_]:
    """Who is trusted enough, given who wrote it; nothing by an author who is not heard."""
    return (confidence * trust.author_weight >= question.min_confidence) & (trust.author_weight > 0)


def _candidates(
    context: Context,
    reading: Reading,
    question: Question,
    senses: Senses,
    pool: int,
    among: Nums | None,
    *,
    also: Nums | None = None,
) -> Gathered:
    """``among`` restricts the rows; of ``also`` the nearest join in any case."""
    matches = _matches(context, reading, question, senses, pool, among, also)
    found = _weighed(context, reading, question, senses, matches, pool)
    if found is not None:
        return found
    return _candidates(context, reading, question, senses, pool, among)


@dataclass(slots=True)
class _Matches:
    """Rows by meaning and rows by words, each best first."""

    nearest: Nums
    cosines: NDArray[np.float32]
    worded: Nums
    scores: Floats


def _matches(
    context: Context,
    reading: Reading,
    question: Question,
    senses: Senses,
    pool: int,
    among: Nums | None,
    also: Nums | None,
) -> _Matches:
    import numpy as np

    indexing = context.store.indexing
    filter = question.filter
    nearest, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    if senses.vector is not None:
        realms = reading.realms(context.view, filter.scopes, filter.states)
        try:
            nearest, cosines = indexing.index.nearest(
                senses.vector, realms=realms, limit=pool, among=among
            )
            if also is not None:
                more, closeness = indexing.index.nearest(
                    senses.vector, realms=realms, limit=pool, among=also
                )
                fresh = ~np.isin(more, nearest)
                nearest = np.concatenate([nearest, more[fresh]])
                cosines = np.concatenate([cosines, closeness[fresh]])
        except StorageError as error:
            indexing.lost()
            senses.without_meaning(error, "the index")
    worded, scores = np.empty(0, np.int64), np.empty(0)
    if senses.words:
        # Deeper than the pool: a candidate by meaning may match by words further down.
        depth = max(pool, rank.LEXICAL_DEPTH)
        try:
            wanted = terms(question.text)
            worded, scores = reading.words(context.view, filter, wanted, depth, among)
        except StorageError as error:
            senses.without_words(error)
    return _Matches(nearest, cosines, worded, scores)


def _weighed(
    context: Context,
    reading: Reading,
    question: Question,
    senses: Senses,
    matches: _Matches,
    pool: int,
) -> Gathered | None:
    """What is known of the matches; None when the index fails, so that they count no more."""
    import numpy as np

    indexing = context.store.indexing
    nearest, worded = matches.nearest, matches.worded
    only_words = worded[:pool][~_among(worded[:pool], nearest)]
    nums = np.concatenate([nearest, only_words])
    rows = reading.candidates(context.view, question.filter, nums)

    place = places(rows.nums, nums)
    cosine = np.full(len(nums), np.nan)
    cosine[: len(nearest)] = matches.cosines
    vectors = None
    if senses.vector is not None:
        try:
            vectors = indexing.index.vectors(nums)
        except StorageError as error:
            indexing.lost()
            senses.without_meaning(error, "the index")
            return None
        by_words = vectors[len(nearest) :]
        cosine[len(nearest) :] = np.where(by_words.any(axis=1), by_words @ senses.vector, np.nan)
    bm25 = np.zeros(len(rows.nums))
    if len(worded):
        known = _among(rows.nums, worded)
        bm25[known] = matches.scores[places(rows.nums[known], worded)]
    confidence = _confidence(context, reading, rows, cosine[place])
    trust = trust_in(context, reading, rows, confidence, senses.vector)
    return Gathered(
        rows=rows,
        cosine=cosine[place],
        bm25=bm25,
        vectors=None if vectors is None else vectors[place],
        confidence=confidence,
        trust=trust,
        allowed=rows.allowed & trusted(confidence, trust, question),
        complete=len(nearest) < pool and len(worded) < pool,
    )


def _among(nums: Nums, others: Nums) -> NDArray[np.bool_]:
    """Which of these are among the others; for hundreds, quicker than ``np.isin``."""
    import numpy as np

    if not len(others):
        return np.zeros(len(nums), np.bool_)
    others = np.sort(others)
    there: NDArray[np.bool_] = np.equal(
        others[np.minimum(np.searchsorted(others, nums), len(others) - 1)], nums
    )
    return there


def _confidence(
    context: Context, reading: Reading, rows: Candidates, cosine: Floats | None = None
) -> Floats:
    known = context.trust(reading)
    if known.model not in FOLDED:
        return known.of_many(rows, cosine)
    return rows.derived(("confidence", known.today, known.viewer), known.of_many)

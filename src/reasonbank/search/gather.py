"""The candidates for a question, by meaning and by words, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reasonbank.embed.calibration import ONLY_WORDS, EmbeddingCalibration, calibration_for
from reasonbank.errors import StorageError
from reasonbank.index.port import Index
from reasonbank.ledger.port import Candidates, Filter, Reading
from reasonbank.model import Hit
from reasonbank.search import rank
from reasonbank.search.estimate import Trust, crowded_out, places, trust_in
from reasonbank.search.pieces import is_output, pieces, sentences
from reasonbank.search.text import MANY_TERMS, MAX_TERMS, terms, words
from reasonbank.store.context import Context
from reasonbank.store.probation import offered
from reasonbank.trust.authors import records_of
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
PRINTED_TERMS = 160
HEARD = 0.5
"""Where most candidates are by authors who weigh less, others are looked for."""
LEAST_EACH = 20
"""So many rows each sentence of a long question contributes at least."""


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
    unread: bool = False
    """Nobody reads the answer before a model does: what keeps failing is left out."""


@dataclass(slots=True)
class Senses:
    """What a search can go by; whatever fails is given up, and noted.

    ``texts`` are the question and, where it is long, its sentences; ``terms`` and ``vectors``
    are theirs.
    """

    texts: Sequence[str]
    terms: Sequence[tuple[str, ...]]
    vectors: NDArray[np.float32] | None = None
    words: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """Of the whole question."""
        return None if self.vectors is None else self.vectors[0]

    def without_meaning(self, error: Exception, what: str) -> None:
        self.vectors = None
        self.notes.append(f"{what} failed, so only words were searched: {error}")

    def without_words(self, error: StorageError) -> None:
        self.words = False
        if self.vectors is None:
            raise error
        self.notes.append(f"full text failed, so only meaning was searched: {error}")

    def calibration(self, context: Context) -> EmbeddingCalibration:
        """What its cosines mean; where there are none, what words do."""
        indexing = context.store.indexing
        return calibration_for(ONLY_WORDS.model if self.vectors is None else indexing.embedder.name)

    @property
    def skipped(self) -> tuple[str, ...]:
        return ("meaning",) * (self.vectors is None) + ("words",) * (not self.words)


def heard(context: Context, question: Question) -> Senses:
    """What to look for: the question, and of a long one its sentences.

    Of many words those count that fewest memories have. Of a long question only the sentences
    have words: all of them together say nothing.
    """
    many = _said(question.text)
    printed = tuple(part for part in sentences(question.text) if is_output(part))
    every = tuple(dict.fromkeys((*many, *(word for part in printed for word in _said(part)))))
    rarity = dict.fromkeys(every, 1.0)
    if len(every) > MAX_TERMS:
        rarity = _rarity(context, question, every)

    def rarest(said: Sequence[str], most: int) -> frozenset[str]:
        known = (term for term in said if term in rarity)
        return frozenset(sorted(known, key=rarity.__getitem__, reverse=True)[:most])

    def telling(sentence: str) -> float:
        return sum(rarity.get(term, 0.0) for term in terms(sentence))

    few = rarest(many, PRINTED_TERMS if is_output(question.text) else MAX_TERMS)
    parts = pieces(question.text, telling)
    wanted = [
        tuple(term for term in _said(part) if term in among)
        for part in parts
        for among in [rarest(_said(part), PRINTED_TERMS) if part in printed else few]
    ]
    whole = () if parts else tuple(term for term in many if term in few)
    return Senses(
        texts=(question.text, *parts), terms=[whole, *wanted], notes=list(context.store.notes)
    )


def _said(text: str) -> tuple[str, ...]:
    """Its terms. What tells most in a stack trace is a few words among many names of files and
    functions: there all words are."""
    return words(text, MANY_TERMS) if is_output(text) else terms(text, MANY_TERMS)


def _rarity(context: Context, question: Question, many: Sequence[str]) -> dict[str, float]:
    """Of each term that any memory has: the fewer, the more."""
    reading = context.store.ledger.cached_read()
    try:
        counts = reading.word_counts(context.view, question.filter, many, about=True)
    except StorageError:
        return dict.fromkeys(many, 1.0)  # Whoever searches the words meets it again, and tells.
    return {term: 1.0 / count for term, count in zip(many, counts, strict=True) if count}


@dataclass(slots=True)
class Gathered:
    """The candidates of one question, as columns in the same order.

    ``cosines`` and ``bm25`` have a row for each of ``Senses.texts``.
    """

    rows: Candidates
    cosines: Floats
    bm25: Floats
    vectors: NDArray[np.float32] | None
    confidence: Floats
    trust: Trust
    allowed: NDArray[np.bool_]
    wholes: Sequence[float | None]
    """Of each text what all its words are worth; None where meaning tells what was found."""
    complete: bool
    """True if no further row could pass the filter."""
    nearest_passage: Mapping[int, int] = field(default_factory=dict)
    """Of the rows of long memories, which of their passages is nearest."""
    hidden: Sequence[tuple[str, str]] = ()
    """Of an explained question, what took no part because of who wrote it: ids and reasons."""

    @property
    def cosine(self) -> Floats:
        return _closest(self.cosines)


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
    weight = found.trust.author_weight
    flooded = 2 * int((weight == 0).sum()) > len(found.rows.nums)
    if flooded or int(found.allowed.sum()) < question.limit:
        among = _passing(context, reading, question, senses.vector)
        rest = _candidates(context, reading, question, senses, pool, among)
        rest.hidden = found.hidden
        return rest
    likely = float(found.trust.likely[found.allowed].max())
    if 2 * int((weight < HEARD).sum()) > len(found.rows.nums):
        better = _passing(context, reading, question, senses.vector, weight=HEARD)
    elif likely < context.settings.belief.prune_below and crowded_out(
        context, reading, found.rows, found.trust, likely
    ):
        better = _passing(context, reading, question, senses.vector, likely)
    else:
        return found
    # Memories that read well and help little must not hide those of others.
    return _candidates(context, reading, question, senses, pool, None, also=better)


def _passing(
    context: Context,
    reading: Reading,
    question: Question,
    vector: NDArray[np.float32] | None,
    likely: float = 0.0,
    weight: float = 0.0,
) -> Nums:
    """All rows that pass the filter, are trusted enough and at least so likely to help, by
    authors of at least this weight."""
    import numpy as np

    nums = reading.matching(context.view, question.filter, None)
    assert nums is not None
    passing: list[Nums] = []
    for start in range(0, len(nums), FEW):
        rows = reading.candidates(context.view, question.filter, nums[start : start + FEW])
        confidence = _confidence(context, reading, rows)
        trust = trust_in(context, reading, rows, confidence, vector)
        passed = _let_in(context, rows, confidence, trust, question) & (trust.likely >= likely)
        passed &= trust.author_weight >= weight
        passing.append(rows.nums[passed])
    return np.sort(np.concatenate([np.empty(0, np.int64), *passing]))


def _let_in(
    context: Context, rows: Candidates, confidence: Floats, trust: Trust, question: Question
) -> NDArray[np.bool_]:
    """Who is trusted enough; nothing by an author who is not heard, or that is on probation and
    not to be shown here."""
    trusted = (confidence >= question.min_confidence) & (trust.author_weight > 0)
    return trusted & offered(context, rows, unread=question.unread)


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
    """Rows by meaning (``cosines`` to each text) and, for each text, by words, best first."""

    nearest: Nums
    cosines: Floats
    worded: list[tuple[Nums, Floats]]
    complete: bool
    """True if neither had more to give."""


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
    each = pool if len(senses.texts) == 1 else max(LEAST_EACH, pool // len(senses.texts))
    nearest, cosines, complete = np.empty(0, np.int64), np.empty((len(senses.texts), 0)), True
    if senses.vectors is not None:
        realms = reading.realms(context.view, filter.scopes, filter.states)
        try:
            nearest, cosines, complete = _nearest(indexing.index, senses, realms, each, among)
            if also is not None:
                more, closeness, _ = _nearest(indexing.index, senses, realms, each, also)
                fresh = ~np.isin(more, nearest)
                nearest = np.concatenate([nearest, more[fresh]])
                cosines = np.concatenate([cosines, closeness[:, fresh]], axis=1)
        except StorageError as error:
            indexing.lost()
            senses.without_meaning(error, "the index")
    worded = [(np.empty(0, np.int64), np.empty(0))] * len(senses.texts)
    if senses.words:
        # Deeper than the pool: a candidate by meaning may match by words further down.
        depth = max(pool, rank.LEXICAL_DEPTH)
        try:
            worded = [
                reading.words(context.view, filter, wanted, depth, among) for wanted in senses.terms
            ]
        except StorageError as error:
            senses.without_words(error)
    complete = complete and all(len(nums) < each for nums, _ in worded)
    return _Matches(nearest, cosines, worded, complete)


def _nearest(
    index: Index, senses: Senses, realms: Sequence[int], each: int, among: Nums | None
) -> tuple[Nums, Floats, bool]:
    """The rows nearest to any of the texts, their cosines to each; True if these are all."""
    import numpy as np

    assert senses.vectors is not None
    found = index.nearest_each(senses.vectors, realms=realms, limit=each, among=among)
    complete = all(len(nums) < each for nums, _ in found)
    if len(found) == 1:
        nums, cosines = found[0]
        return nums, cosines[None].astype(np.float64), complete
    nums = np.unique(np.concatenate([nums for nums, _ in found]))
    return nums, (senses.vectors @ index.vectors(nums).T).astype(np.float64), complete


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
    nearest = matches.nearest
    nums = np.concatenate([nearest, _only_words(matches, pool)])
    rows = reading.candidates(context.view, question.filter, nums)

    place = places(rows.nums, nums)
    cosines = np.full((len(senses.texts), len(nums)), np.nan)
    cosines[:, : len(nearest)] = matches.cosines
    vectors = None
    nearest_passage: dict[int, int] = {}
    if senses.vectors is not None:
        try:
            vectors = indexing.index.vectors(nums)
        except StorageError as error:
            indexing.lost()
            senses.without_meaning(error, "the index")
            return None
        by_words = vectors[len(nearest) :]
        cosines[:, len(nearest) :] = np.where(
            by_words.any(axis=1), senses.vectors @ by_words.T, np.nan
        )
        nearest_passage = _look_into_long_ones(context, reading, senses.vectors, nums, cosines)
    cosines = cosines[:, place]
    bm25 = np.zeros((len(senses.texts), len(rows.nums)))
    for row, (worded, scores) in enumerate(matches.worded):
        if len(worded):
            known = _among(rows.nums, worded)
            bm25[row, known] = scores[places(rows.nums[known], worded)]
    confidence = _confidence(context, reading, rows, _closest(cosines))
    trust = trust_in(context, reading, rows, confidence, senses.vector)
    return Gathered(
        rows=rows,
        cosines=cosines,
        bm25=bm25,
        vectors=None if vectors is None else vectors[place],
        confidence=confidence,
        trust=trust,
        allowed=rows.allowed & _let_in(context, rows, confidence, trust, question),
        wholes=_wholes(context, reading, question, senses),
        complete=matches.complete,
        nearest_passage=nearest_passage,
        hidden=_hidden(context, reading, rows, trust) if question.explain else (),
    )


def _look_into_long_ones(
    context: Context,
    reading: Reading,
    asked: NDArray[np.float32],
    nums: Nums,
    cosines: Floats,
) -> dict[int, int]:
    """A long memory is as near as the nearest of its passages: which that is."""
    import numpy as np

    if not reading.cached("passages", reading.has_passages):
        return {}
    nearest = {}
    embedder = context.store.indexing.embedder
    long = reading.passages(embedder.name, nums.tolist(), embedder.dimensions)
    for i, num in enumerate(nums.tolist() if long else ()):
        if num in long:
            near = asked @ long[num].T
            cosines[:, i] = np.fmax(cosines[:, i], near.max(axis=1))
            nearest[num] = int(near.max(axis=0).argmax())
    return nearest


def _hidden(
    context: Context, reading: Reading, rows: Candidates, trust: Trust
) -> list[tuple[str, str]]:
    hidden = (rows.allowed & (trust.author_weight == 0)).nonzero()[0].tolist()
    records = records_of(reading.authors(context.view), {rows.authors[i] for i in hidden})
    return [(rows.ids[i], records[rows.authors[i]].why_hidden(rows.authors[i])) for i in hidden]


def _wholes(
    context: Context, reading: Reading, question: Question, senses: Senses
) -> Sequence[float | None]:
    if senses.calibration(context).sure is not None or not senses.words:
        return [None] * len(senses.texts)
    rows = reading.word_rows()
    counted = (reading.word_counts(context.view, question.filter, some) for some in senses.terms)
    return [rank.worth(counts, rows) or None for counts in counted]


def _closest(cosines: Floats) -> Floats:
    """The highest cosine of each row to any of the texts."""
    # A row has a vector or it has none: its cosines are all known or all unknown.
    closest: Floats = cosines.max(axis=0)
    return closest


def _only_words(matches: _Matches, pool: int) -> Nums:
    """The best rows by words that meaning did not find."""
    import numpy as np

    if len(matches.worded) == 1:
        best = matches.worded[0][0][:pool]
    else:
        each = max(LEAST_EACH, pool // len(matches.worded))
        best = np.unique(np.concatenate([nums[:each] for nums, _ in matches.worded]))
    return best[~_among(best, matches.nearest)]


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

"""Fuse, weigh, diversify, abstain, explain: from candidates to an order. Pure.

The candidates of one query are columns: position ``i`` of every array is the same
memory. ``fuse`` turns cosine and BM25 into one similarity on an absolute scale (so
that a threshold means the same for every query), ``rank`` makes the final order of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp, isnan, log
from typing import TYPE_CHECKING, Any

from reasonbank.embed.calibration import EmbeddingCalibration
from reasonbank.search.diverse import diverse
from reasonbank.search.pieces import is_output
from reasonbank.search.text import share_of_names, terms_asked
from reasonbank.trust.experience import adjusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

POOL = 100
"""How many candidates each side contributes: dense nearest and lexical best."""

LEXICAL_DEPTH = 500
"""How many lexical matches to read, so that dense candidates know their BM25 too."""

DIVERSITY = 0.5
"""The default lambda of MMR: paraphrases leave the last place to something else."""

BM25_GAIN = 2.2
"""FTS5 has k1 = 1.2: a word is worth at most (k1 + 1) times its idf."""
LEAST_IDF = 1e-6
ALIKE = 0.5
"""How much a word tells, beside a rare one, where no word is rarer than another."""
LEAST_ROWS, ENOUGH_ROWS = 3, 100
"""In fewer rows a word that only one of them has need not be rare at all; a name is."""
MATCH_POWER = 1.15
TERMS_POWER = 0.8
SENTENCE_WORDS = 0.3
"""How much words count in a sentence of a long question, beside those of a short one."""
FOUND = 1.35
"""What it counts that all words of a question are found, beside a cosine of 1."""
CHANCE = 0.4
"""So much of a rare word an unrelated text matches by chance."""
PARTLY = 0.25
"""A text several times as long as others has so much of a question, all of whose words it has."""
ANSWERS, CROWD = 5, 20
"""So many of the nearest may all be answers; those up to there are what is near in any case."""
FEW, SPARSE = 12, 0.06
"""Of twelve memories one is nearer to a foreign question by chance than of one, by 0.06 a fold."""
BESIDE = 0.3
"""Of what the best has, so much is worth mentioning beside it."""
ENOUGH_TO_TELL = 8
CANDIDATES_ABOVE = 0.15
"""So much of the way to 1 are those nearer than others that a search brings up."""
NO_NEARER = 0.1
"""So near all of them look where the scale was told that way: no reason to mention one."""
FLAT = 0.02
"""Where the best is no further on the way from the middle to 1, all candidates are alike."""
STEEP = 14.0
"""How quickly an answer becomes likely as it stands out."""

MORE_TRUSTED = 1.1
WEAK = 0.9
"""Of the least that is surely relevant the best that is not has so much."""

SCOPE_WEIGHTS: Mapping[str, float] = {"project": 1.0, "team": 0.9, "org": 0.8}
CONSOLIDATED_BOOST = 1.2
IN_THE_RUNNING = 0.1
"""So much less similar than the best a merged memory may be before nothing is left of its boost
(docs/decisions/0012-boost-among-equals.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """``weight`` is the share of full-text in the best candidate's similarity.

    ``similarity`` orders. ``nearness`` decides whether to mention a candidate at all, and
    ``relevance`` (0..1 too) whether it surely is an answer: they ask how much was found,
    whatever else the query says.
    """

    similarity: Floats
    relevance: Floats
    nearness: Floats
    cosine: Floats
    bm25: Floats
    weight: float
    features: Mapping[str, float]
    calibration: EmbeddingCalibration


def fuse(
    query: str,
    cosine: Floats,
    bm25: Floats,
    calibration: EmbeddingCalibration,
    *,
    rows: int,
    doubt: float | None = None,
    whole: float | None = None,
) -> Fusion:
    """One similarity in 0..1 from cosine (NaN: unknown) and BM25 (0: no match).

    ``rows`` is the number of rows in the full-text table that ``bm25`` was counted over.
    ``doubt`` is given for a part of a long question: how little it looks like the problem.
    ``whole`` is given where words are all there is to go by: the ``worth`` of all its terms.

        similarity = tanh(cosine + words - doubt)
        words = w * x ** 1.15, all of them pressed together so that none exceeds ``most``
        x = bm25 / (2.2 * idf of a word that only one row has)
        w = lexical * exp(-6 * peak) / terms ** 0.8
        nearness = cosine + 1.35 * max(0, x - 0.4) / terms - doubt
        relevance = logistic(14 * (nearness - crowd - middle + few))

    ``x`` counts matched rare words on a scale that is the same for every query and size
    of bank. Its weight falls with the number of terms asked for, so that it takes about the
    same coverage to convince, and with the peak of the cosines (best less the mean of the
    best ten): a model that sees one answer far above the rest is usually right. ``crowd`` is
    a share of the mean of the sixth to twentieth best cosine: in a large bank something is
    always near, so an answer has to stand out of its bank. The first five may be one answer,
    said five times, and places that nobody has count as nothing. ``few`` is 0.06 for each time
    that 12 is e times as many as there are memories: among few hardly any is near by chance.
    Where the scale was told from the candidates, nearness is up to 0.1 less, in the end.
    """
    import numpy as np

    words = np.asarray(bm25, np.float64)
    words = np.where(np.isfinite(words), words, 0.0).clip(0.0)
    raw = np.asarray(cosine, np.float64)
    known = np.isfinite(raw)
    unrelated = _unrelated(raw[known], calibration)
    dense = (np.where(known, raw, 0.0).clip(-1.0, 1.0) - unrelated) / (1.0 - unrelated)
    count = terms_asked(query)
    # Where words are all there is to go by, they count in small banks as well.
    alone = calibration.sure is None
    named = 1.0 if alone else share_of_names(query)
    least = ENOUGH_ROWS * (LEAST_ROWS / ENOUGH_ROWS) ** named
    ceiling = BM25_GAIN * log((max(rows, least) - 0.5) / 1.5)
    telling, chance = 1.0, CHANCE
    if words.max(initial=0.0) <= BM25_GAIN * LEAST_IDF * count:
        # Every word that matched is in most rows, as in a bank of one subject or of two
        # memories: FTS5 gives them all the same least idf, and so they count alike.
        ceiling, telling, chance = BM25_GAIN * LEAST_IDF, ALIKE, 0.0
    nearest = np.sort(dense[known])[::-1]
    best = nearest[:10]
    peak = float(best[0] - best.mean()) if best.size else 0.0
    crowd = float(nearest[ANSWERS:CROWD].clip(0.0).sum()) / (CROWD - ANSWERS)
    weight = calibration.lexical * exp(-calibration.peak * peak) / count**TERMS_POWER
    rare = words / ceiling
    if doubt is not None and not is_output(query):
        weight *= SENTENCE_WORDS
    lexical = _bounded(weight * rare**MATCH_POWER, calibration.most)
    # Where there is no vector, the cosine is taken to agree with the words.
    dense = np.where(known, dense, lexical.clip(0.0, 1.0))
    mixed = dense + lexical
    found = FOUND * telling * (rare - chance).clip(0.0) / count
    if whole is not None:
        found = np.maximum(found, (words / whole - PARTLY).clip(0.0, 1.0))
    near = dense + found - (doubt or 0.0)
    among = min(max(int(known.sum()), 1), FEW)
    few = SPARSE * log(FEW / among)
    standing = near - calibration.crowd * crowd - calibration.middle + few
    guessed = min(unrelated, NO_NEARER) if calibration.unrelated is None else 0.0
    top = int(mixed.argmax()) if mixed.size else -1
    share = float(lexical[top] / mixed[top]) if top >= 0 and mixed[top] > 0 else 0.0
    return Fusion(
        similarity=np.tanh((mixed - (doubt or 0.0)).clip(0.0)),
        relevance=1.0 / (1.0 + np.exp(-STEEP * standing)),
        nearness=near - guessed,
        cosine=np.where(known, raw, np.nan),
        bm25=words,
        weight=min(1.0, max(0.0, share)) if best.size else 1.0,
        features={
            "terms": float(count),
            "peak": peak,
            "crowd": crowd,
            "few": few,
            "rare_words": float(rare.max(initial=0.0)),
            "lexical_weight": weight,
        },
        calibration=calibration,
    )


def worth(counts: Iterable[int], rows: int) -> float:
    """What BM25 gives a text of the usual length that has each of some terms once, if so many of
    the rows have them."""
    return sum(max(LEAST_IDF, log((max(rows - n, 0) + 0.5) / (n + 0.5))) for n in counts)


def _bounded(worth: Floats, most: float) -> Floats:
    """The same, shrunk alike until the largest is no more than ``most``."""
    largest = float(worth.max(initial=0.0))
    return worth * (most * (1.0 - exp(-largest / most)) / largest) if largest > 0 else worth


def _unrelated(cosines: Floats, calibration: EmbeddingCalibration) -> float:
    """The cosine of texts that have nothing to do with each other: of a model that nobody
    measured, what most of the candidates have, if they are enough to tell."""
    import numpy as np

    if calibration.unrelated is not None:
        return calibration.unrelated
    best, middle = (float(cosines.max()), float(np.median(cosines))) if len(cosines) else (0, 0)
    if len(cosines) < ENOUGH_TO_TELL or best - middle < FLAT * (1.0 - middle):
        return 0.0
    return min(0.95, max(0.0, middle - CANDIDATES_ABOVE * (1.0 - middle)))


def best_of(fusions: Sequence[Fusion]) -> Fusion:
    """Of several texts that ask the same, for each candidate the one that it fits best."""
    import numpy as np

    if len(fusions) == 1:
        return fusions[0]
    best = np.argmax([fusion.similarity for fusion in fusions], axis=0)

    def taken(name: str) -> Floats:
        column = np.array([getattr(fusion, name) for fusion in fusions])
        chosen: Floats = np.take_along_axis(column, best[None], axis=0)[0]
        return chosen

    whole = fusions[int(best[taken("similarity").argmax()])] if best.size else fusions[0]
    return replace(
        whole,
        similarity=taken("similarity"),
        relevance=taken("relevance"),
        nearness=taken("nearness"),
        cosine=taken("cosine"),
        bm25=taken("bm25"),
    )


# ------------------------------------------------------------------ order


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWeights:
    """Shares of the composite; any non-negative numbers, used as shares of their sum."""

    similarity: float = 0.8
    recency: float = 0.1
    error_match: float = 0.1

    def __post_init__(self) -> None:
        parts = (self.similarity, self.recency, self.error_match)
        if min(parts) < 0 or not 0 < sum(parts) < float("inf"):
            raise ValueError(f"ranking weights {parts} must not be negative nor all zero")


DEFAULT_WEIGHTS = RankingWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingInputs:
    """What is known of each candidate besides its similarity.

    ``scope`` holds the weights of their scopes; ``vectors`` may be None, and then nothing
    counts as a duplicate.
    """

    age_days: Floats
    error_match: Floats
    confidence: Floats
    scope: Floats
    consolidated: NDArray[np.bool_]
    vectors: NDArray[np.float32] | None = None
    fit: Floats | None = None
    """What experience adds to the similarity (``Trust.fit``); None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """What is let in: all that is ``sure`` by its relevance, and what is ``near`` enough.

    One of them may be None: nothing is sure but what is near, or nothing is near but what is sure.
    """

    sure: float | None
    near: float | None
    set: bool = False
    """Somebody set it: then relevance alone decides."""

    @classmethod
    def of(
        cls, calibration: EmbeddingCalibration, threshold: float | None, *, sure_only: bool
    ) -> Cuts:
        """Those of the model; a ``threshold`` that somebody set takes the place of both."""
        if threshold is not None:
            return cls(sure=threshold, near=None, set=True)
        only_sure = sure_only and calibration.sure is not None
        return cls(sure=calibration.sure, near=None if only_sure else calibration.threshold)

    def let_in(self, fusion: Fusion) -> NDArray[np.bool_]:
        # A negative relevance is how a caller leaves a candidate out.
        asked = fusion.relevance >= 0.0
        if self.near is None:
            return ~self.weak(fusion) & asked
        best = float(fusion.nearness.max(initial=0.0))
        near = min(self.near, BESIDE * best) if best >= self.near else self.near
        return ((fusion.nearness >= near) | ~self.weak(fusion)) & asked

    def weak(self, fusion: Fusion) -> NDArray[np.bool_]:
        """Which are not surely relevant."""
        if self.sure is None:
            return fusion.nearness < (self.near or 0.0)
        weak: NDArray[np.bool_] = fusion.relevance < self.sure
        best = float(fusion.similarity.max(where=~weak, initial=-1.0))
        if self.set or best < 0.0:
            return weak
        # What fits better than all that is sure is no less sure. Sureness asks how much of the
        # question was found, and of a stack trace that is little.
        return weak & (fusion.similarity <= best)

    def why(self, fusion: Fusion, i: int) -> str:
        if self.near is None:
            return f"relevance {fusion.relevance[i]:.2f} is below the threshold {self.sure:.2f}"
        return f"nearness {fusion.nearness[i]:.2f} is below the threshold {self.near:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Every number behind one candidate's score, and why it was dropped if it was."""

    candidate: int
    position: int | None
    cosine: float | None
    distance: float | None
    bm25: float
    lexical_weight: float
    similarity: float
    relevance: float
    recency: float
    error_match: float
    confidence: float
    fit: float
    scope: float
    boost: float
    composite: float
    score: float
    mmr_penalty: float
    dropped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``order`` holds positions of candidates, best first; ``scores`` belong to ``order``.

    ``relevant`` is how many candidates were relevant enough, whatever the limit; ``weak`` are
    those that are near, but not surely relevant, or that something less sure has outdone.
    """

    order: NDArray[np.intp]
    scores: Floats
    relevant: int
    weak: NDArray[np.bool_]
    _fusion: Fusion = field(repr=False)
    _columns: Mapping[str, Floats] = field(repr=False)
    _penalty: Floats = field(repr=False)
    _rival: NDArray[np.intp] = field(repr=False)
    _cuts: Cuts = field(repr=False)

    @property
    def answers(self) -> NDArray[np.bool_]:
        """Which candidates are relevant enough, whatever the limit."""
        return self._cuts.let_in(self._fusion)

    @property
    def score(self) -> Floats:
        """Of every candidate, whether it was chosen or not."""
        return self._columns["score"]

    @property
    def calibration(self) -> EmbeddingCalibration:
        return self._fusion.calibration

    def explain(self, names: Sequence[str] | None = None) -> list[Parts]:
        """Every candidate, the returned ones first; ``names`` serve "redundant with …"."""
        import numpy as np

        kept = {int(i): place for place, i in enumerate(self.order)}
        rest = np.argsort(-self._columns["score"], kind="stable")
        order = [*kept, *(int(i) for i in rest if int(i) not in kept)]
        return [self._parts(i, kept.get(i), names) for i in order]

    def _parts(self, i: int, position: int | None, names: Sequence[str] | None) -> Parts:
        cosine = float(self._fusion.cosine[i])
        known = not isnan(cosine)
        columns = {name: float(values[i]) for name, values in self._columns.items()}
        return Parts(
            candidate=i,
            position=position,
            cosine=cosine if known else None,
            distance=max(0.0, 2.0 - 2.0 * cosine) ** 0.5 if known else None,
            bm25=float(self._fusion.bm25[i]),
            lexical_weight=self._fusion.weight if known else 1.0,
            mmr_penalty=float(self._penalty[i]),
            dropped=None if position is not None else self._why(i, names),
            **columns,
        )

    def _why(self, i: int, names: Sequence[str] | None) -> str:
        if self._fusion.similarity[i] < 0:
            return "ruled out"
        if not self.answers[i]:
            return self._cuts.why(self._fusion, i)
        rival = int(self._rival[i])
        if rival >= 0 and self._penalty[i] > 0:
            return f"redundant with {rival if names is None else names[rival]}"
        return "beyond the limit"


def rank(
    fusion: Fusion,
    columns: RankingInputs,
    *,
    limit: int,
    weights: RankingWeights = DEFAULT_WEIGHTS,
    half_life_days: float = 30.0,
    diversity: float = DIVERSITY,
    threshold: float | None = None,
    sure_only: bool = False,
    consolidated: float = CONSOLIDATED_BOOST,
) -> Ranking:
    """The final order: composite, multipliers, threshold, diversity, limit.

    ``diversity`` is the lambda of MMR: 1.0 looks at scores only, 0.0 at little else than how
    much a candidate differs from those before it.
    What is not surely relevant comes last, and not at all with ``sure_only``. ``threshold``
    overrides both calibrated cuts; 0.0 never abstains.
    """
    import numpy as np

    cuts = Cuts.of(fusion.calibration, threshold, sure_only=sure_only)
    similarity = fusion.similarity
    age = np.asarray(columns.age_days, np.float64)
    recency = np.exp2(-np.where(np.isnan(age), np.inf, age).clip(0.0) / half_life_days)
    error, confidence = _share(columns.error_match), _share(columns.confidence)
    scope = _share(columns.scope)
    # So is a negative similarity: no threshold lets it in.
    relevant = np.flatnonzero(cuts.let_in(fusion) & (similarity >= 0.0))
    boost = _boosts(columns.consolidated, similarity, relevant, consolidated)
    total = weights.similarity + weights.recency + weights.error_match
    fit = np.zeros(len(similarity)) if columns.fit is None else columns.fit
    composite = (
        weights.similarity * adjusted(similarity, fit)
        + weights.recency * recency
        + weights.error_match * error
    ) / total
    score = composite * confidence * scope * boost

    by_score = relevant[np.argsort(-score[relevant], kind="stable")]
    weak = cuts.weak(fusion)
    weak |= _distrusted(score, adjusted(similarity, fit) * confidence, similarity, weak, relevant)
    merit = _sure_first(score, weak, relevant)
    by_merit = by_score[np.argsort(-merit[by_score], kind="stable")]
    order, penalty, rival = diverse(by_merit, merit, columns.vectors, fusion, limit, diversity)
    order = order[np.argsort(weak[order], kind="stable")]
    return Ranking(
        order=order,
        scores=score[order],
        relevant=len(relevant),
        weak=weak,
        _fusion=fusion,
        _columns={
            "similarity": similarity,
            "relevance": fusion.relevance,
            "recency": recency,
            "error_match": error,
            "confidence": confidence,
            "fit": fit,
            "scope": scope,
            "boost": boost,
            "composite": composite,
            "score": score,
        },
        _penalty=penalty,
        _rival=rival,
        _cuts=cuts,
    )


def _distrusted(
    score: Floats,
    helpful: Floats,
    similarity: Floats,
    weak: NDArray[np.bool_],
    relevant: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """Who fits better than a weak candidate, but has proved so much worse that it scores less:
    how well something reads does not set aside how it went."""
    import numpy as np

    result = np.zeros(len(score), np.bool_)
    sure, others = relevant[~weak[relevant]], relevant[weak[relevant]]
    if len(sure) and len(others):
        trust = helpful / similarity.clip(1e-9)
        better = trust[others][None] > MORE_TRUSTED * trust[sure][:, None]
        result[sure] = (better & (score[others][None] > score[sure][:, None])).any(axis=1)
    return result


def _sure_first(score: Floats, weak: NDArray[np.bool_], relevant: NDArray[np.intp]) -> Floats:
    """Scores by which every weak candidate comes after every sure one."""
    import numpy as np

    ours = weak[relevant]
    if not ours.any() or ours.all():
        return score
    least, most = score[relevant[~ours]].min(), score[relevant[ours]].max()
    return np.where(weak, score * min(1.0, WEAK * least / max(most, 1e-9)), score)


def _boosts(
    merged: NDArray[np.bool_], similarity: Floats, relevant: NDArray[np.intp], most: float
) -> Floats:
    """All of it for a merged memory that fits the question as well as any, less the further it
    is behind: a lesson of many must not push away one that fits better."""
    import numpy as np

    if not merged.any() or not len(relevant):
        return np.where(merged, most, 1.0)
    behind = 1.0 - similarity / max(float(similarity[relevant].max()), 1e-9)
    return np.where(merged, most ** (1.0 - behind / IN_THE_RUNNING).clip(0.0, 1.0), 1.0)


def _share(values: Floats) -> Floats:
    import numpy as np

    # The larger of NaN and a number is the number.
    shares: Floats = np.fmin(np.fmax(np.asarray(values, np.float64), 0.0), 1.0)
    return shares

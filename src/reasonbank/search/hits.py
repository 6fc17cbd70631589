"""The best of the candidates, as far as they fit, with those that belong beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reasonbank.errors import StorageError
from reasonbank.ledger.port import Reading, Row, Trials
from reasonbank.model import Hit, Memory, Source, State
from reasonbank.search import rank
from reasonbank.search.doubt import with_newer_values
from reasonbank.search.estimate import resemblance, trust_in
from reasonbank.search.gather import Gathered, Question, Senses
from reasonbank.search.pieces import doubts
from reasonbank.search.text import error_match, tokens_in, tokens_of
from reasonbank.search.trials import UNTRIED, is_failing, is_left_out, trials_of
from reasonbank.store.context import Context
from reasonbank.store.passages import passages
from reasonbank.store.probation import is_offered, offered
from reasonbank.store.vectors import embedding_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Nums = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Reals = NDArray[np.floating[Any]]

DAY = 86_400_000_000


def fused(context: Context, reading: Reading, found: Gathered, senses: Senses) -> rank.Fusion:
    """How the candidates fit the question, whoever may see them."""
    calibration = senses.calibration(context)
    word_rows = reading.word_rows() if senses.words else 0
    return rank.best_of(
        [
            rank.fuse(text, cosine, bm25, calibration, rows=word_rows, doubt=doubt, whole=whole)
            for text, doubt, cosine, bm25, whole in zip(
                senses.texts,
                doubts(senses.texts),
                found.cosines,
                found.bm25,
                found.wholes,
                strict=True,
            )
        ]
    )


def ranked(
    context: Context, question: Question, found: Gathered, fusion: rank.Fusion, expected: Reals
) -> rank.Ranking:
    import numpy as np

    settings = context.settings.search
    rows = found.rows
    now = context.store.clock()
    # What the filter leaves out takes no part, but an explanation still mentions it.
    fusion = replace(
        fusion,
        relevance=np.where(found.allowed, fusion.relevance, -1.0),
        similarity=found.trust.resembled(fusion.similarity, found.cosine),
    )
    errors = np.zeros(len(rows.nums))
    for i, error in enumerate(rows.errors):
        if error:
            errors[i] = error_match(question.text, *error)
    columns = rank.RankingInputs(
        age_days=(now - rows.created_at) / DAY,
        error_match=errors,
        confidence=found.trust.counted(expected),
        fit=found.trust.fit,
        scope=np.array([rank.SCOPE_WEIGHTS[scope] for scope in rows.scopes], np.float64),
        consolidated=np.array([each == Source.CONSOLIDATED for each in rows.sources], bool),
        vectors=found.vectors,
    )
    return rank.rank(
        fusion,
        columns,
        limit=question.limit,
        weights=rank.RankingWeights(
            similarity=settings.similarity,
            recency=settings.recency,
            error_match=settings.error_match,
        ),
        half_life_days=settings.half_life_days,
        diversity=settings.diversity,
        threshold=_threshold(context),
        sure_only=question.sure_only,
    )


def _threshold(context: Context) -> float | None:
    threshold = context.settings.search.threshold
    return threshold if threshold >= 0 else None


def hits_of(
    context: Context,
    reading: Reading,
    question: Question,
    found: Gathered,
    ranked: rank.Ranking,
    expected: Reals,
    outdated: Mapping[str, str],
    senses: Senses,
) -> tuple[tuple[Hit, ...], int, tuple[tuple[str, str], ...]]:
    """The winners as far as the token budget goes, what they cost, and who did not fit."""
    order = ranked.order.tolist()
    nums = found.rows.nums[ranked.order].tolist()
    rows = {row.num: row for row in reading.rows(context.view, nums)}
    parts = {p.candidate: _parts(p) for p in ranked.explain()} if question.explain else {}
    seen = trials_of(context, reading, found.rows, ranked.order)
    weak = ranked.weak
    lengths: dict[str, int] = {}

    def memory(row: Row, confidence: float) -> Memory:
        told, lengths[row.id] = reading.cached(
            (row.num, confidence), lambda: _with_length(row.memory(confidence))
        )
        return told

    hits = [
        Hit(
            memory=memory(rows[num], round(float(found.confidence[i]), 6)),
            relevance=round(float(ranked._columns["relevance"][i]), 6),
            score=round(score, 6),
            **_forecast(context, float(expected[i]), seen.get(i)),
            weak=bool(weak[i]),
            outdated_by=outdated.get(rows[num].id),
            passage=_passage(rows[num], found.nearest_passage.get(num)),
            parts=parts.get(i, {}),
        )
        for i, num, score in zip(order, nums, ranked.scores.tolist(), strict=True)
        if num in rows  # Else somebody has just forgotten it.
    ]
    hits = with_newer_values(hits)
    if question.follow_links:
        hits += _linked(context, reading, question, senses, hits)
        hits.sort(key=lambda hit: hit.weak)
    hits = _side_by_side(context, reading, question, senses, hits)
    shown = context.without_hidden_kin(reading, [hit.memory for hit in hits])
    hits = [
        hit if hit.memory is memory else replace(hit, memory=memory)
        for hit, memory in zip(hits, shown, strict=True)
    ]
    kept, tokens, cut = [], 0, []
    for hit in (_flagged(context, hit) for hit in hits):
        marked = hit.suspicious or hit.weak or hit.failing or hit.outdated_by is not None
        length = None if marked else lengths.get(hit.memory.id)
        if question.cost is not None:
            cost = question.cost(hit)
        elif length is not None:
            cost = tokens_of(length + len(hit.record))
        else:
            cost = _cost(reading, hit)
        if question.max_tokens is not None and tokens + cost > question.max_tokens:
            cut.append((hit.memory.id, f"its {cost} tokens do not fit in max_tokens"))
            continue
        tokens += cost
        kept.append(hit)
    return tuple(kept), tokens, tuple(cut)


def _passage(row: Row, which: int | None) -> str | None:
    if which is None:
        return None
    found = passages(embedding_text(row.memory()))
    return found[which] if which < len(found) else None  # Else it was changed just now.


def _with_length(memory: Memory) -> tuple[Memory, int]:
    """A memory, and how many characters it is in a prompt."""
    return memory, len(memory.format_for_prompt())


def _cost(reading: Reading, hit: Hit) -> int:
    """In tokens, of a hit that has marks."""
    marks = (hit.suspicious, hit.weak, hit.failing, hit.outdated_by is None, hit.record)
    key = (hit.memory.id, hit.memory.confidence, marks)
    return reading.cached(key, lambda: tokens_in(hit.format_for_prompt()))


def _forecast(context: Context, expected: float, seen: Trials | None) -> dict[str, Any]:
    """What a hit says of how it will do, and of what that rests on."""
    seen = seen or UNTRIED
    return {
        "expected": round(expected, 4),
        "tried": seen.tried,
        "worked": seen.worked,
        "failing": is_failing(seen, expected, context.settings.belief),
    }


def failed(
    context: Context,
    reading: Reading,
    found: Gathered,
    fusion: rank.Fusion,
    failing: Mapping[int, Trials],
    expected: Reals,
) -> tuple[Hit, ...]:
    """Of those that failed each time, what surely fits the question, best first."""
    import numpy as np

    least = context.settings.belief.prune_below
    cuts = rank.Cuts.of(fusion.calibration, _threshold(context), sure_only=True)
    fits = cuts.let_in(fusion) & ~cuts.weak(fusion) & found.rows.allowed
    fits &= (found.confidence >= least) & (found.trust.author_weight > 0)
    order = [int(i) for i in np.argsort(-fusion.similarity, kind="stable") if i in failing]
    places = {int(found.rows.nums[i]): i for i in order if fits[i]}
    hits = [
        Hit(
            memory=row.memory(round(float(found.confidence[places[row.num]]), 6)),
            relevance=round(float(fusion.relevance[places[row.num]]), 6),
            score=0.0,
            **_forecast(context, float(expected[places[row.num]]), failing[places[row.num]]),
        )
        for row in reading.rows(context.view, [*places])
    ]
    return tuple(_flagged(context, hit) for hit in hits)


def _flagged(context: Context, hit: Hit) -> Hit:
    suspicious = context.store.flags.of(hit.memory)
    return replace(hit, suspicious=suspicious) if suspicious else hit


def _beside_hits(
    context: Context, reading: Reading, question: Question, senses: Senses, row: Row
) -> dict[str, Any] | None:
    """The memory of a row that no search found by itself, and its forecast; None if it is not
    allowed or trusted enough."""
    import numpy as np

    rows = reading.candidates(context.view, question.filter, np.array([row.num], np.int64))
    confidence = round(context.confidence(reading, row), 6)
    if not rows.allowed[0] or confidence < question.min_confidence:
        return None
    if not is_offered(context, row, unread=question.unread):
        return None
    cosine = np.array([np.nan])
    if senses.vector is not None:
        try:
            [vector] = context.store.indexing.index.vectors(rows.nums)
        except StorageError:
            vector = np.zeros(0)
        if vector.any():
            cosine = np.array([float(senses.vector @ vector)])
    trust = trust_in(context, reading, rows, np.array([confidence]), senses.vector)
    alike = np.where(np.isnan(cosine), 0.0, resemblance(cosine))
    expected = float(trust.expected(alike, cosine)[0])
    seen = trials_of(context, reading, rows, np.arange(1)).get(0)
    belief = context.settings.belief
    if question.unread and is_left_out(seen or UNTRIED, expected, float(alike[0]), belief):
        return None
    return {"memory": row.memory(confidence)} | _forecast(context, expected, seen)


def _linked(
    context: Context, reading: Reading, question: Question, senses: Senses, hits: list[Hit]
) -> list[Hit]:
    """What the hits' links lead to, one step, strongest first; at most as many again."""
    best: dict[str, Hit] = {}
    have = {hit.memory.id for hit in hits}
    for hit in hits:
        for link in reading.links(context.view, hit.memory.id):
            other = link.target if link.source == hit.memory.id else link.source
            score = hit.score * link.strength
            if other in have or (other in best and best[other].score >= score):
                continue
            row = reading.row(context.view, other)
            if row is None:
                continue
            if told := _beside_hits(context, reading, question, senses, row):
                best[other] = Hit(
                    **told,
                    relevance=round(hit.relevance * link.strength, 6),
                    score=round(score, 6),
                    via=hit.memory.id,
                    weak=hit.weak,
                )
    return sorted(best.values(), key=lambda hit: -hit.score)[: question.limit]


def _side_by_side(
    context: Context, reading: Reading, question: Question, senses: Senses, hits: list[Hit]
) -> list[Hit]:
    """Whoever finds a memory that another one contradicts sees both, and the evidence of each.

    The other one comes right after it, beyond the limit if need be, unless the filter or its
    confidence rules it out.
    """
    pairs = reading.contradictions([hit.memory.id for hit in hits])
    if not pairs:
        return hits
    result: list[Hit] = []
    shown = {hit.memory.id for hit in hits}
    for hit in hits:
        id = hit.memory.id
        others = dict.fromkeys(b if a == id else a for a, b in pairs if id in (a, b))
        rows = [row for other in others if (row := reading.row(context.view, other))]
        rows = [row for row in rows if row.state == State.ACTIVE]
        rows = [row for row in rows if is_offered(context, row, unread=question.unread)]
        result.append(replace(hit, contradicts=tuple(row.id for row in rows)))
        for row in rows:
            if row.id in shown:
                continue
            told = _beside_hits(context, reading, question, senses, row)
            if told is None:
                continue
            shown.add(row.id)
            result.append(
                Hit(
                    **told,
                    relevance=hit.relevance,
                    score=hit.score,
                    via=id,
                    weak=hit.weak,
                    contradicts=(id,),
                    parts=_beside(context, row, hit) if hit.parts else {},
                )
            )
    return result


def _beside(context: Context, row: Row, hit: Hit) -> dict[str, float]:
    """It stands where it does for the hit's sake; only its age is its own."""
    age = (context.now() - row.created_at) / DAY
    recency = 2.0 ** (-max(0.0, age) / context.settings.search.half_life_days)
    own = {"recency": round(recency, 6)}
    return {name: hit.parts[name] for name in ("similarity", "composite")} | own


def _parts(parts: rank.Parts) -> dict[str, float]:
    names = (
        "cosine", "distance", "bm25", "lexical_weight", "similarity", "recency", "error_match",
        "confidence", "fit", "scope", "boost", "composite", "mmr_penalty", "score",
    )  # fmt: skip
    return {name: round(value, 6) for name in names if (value := getattr(parts, name)) is not None}


def dropped(
    context: Context,
    question: Question,
    found: Gathered,
    ranked: rank.Ranking,
    outdated: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    result: dict[str, str] = {}
    shown = offered(context, found.rows, unread=question.unread)
    for parts in ranked.explain(found.rows.ids):
        i = parts.candidate
        if parts.dropped is None:
            continue
        reason = parts.dropped
        if not found.rows.allowed[i]:
            reason = "left out by the filter"
        elif found.confidence[i] < question.min_confidence:
            reason = f"confidence {found.confidence[i]:.2f} is under {question.min_confidence:.2f}"
        elif not shown[i]:
            reason = "nothing has confirmed it yet"
        elif found.rows.ids[i] in outdated:
            reason = f"outdated by {outdated[found.rows.ids[i]]}"
        result[found.rows.ids[i]] = reason
    # Some of them may have been left out before the ranking began.
    return tuple((result | dict(found.hidden)).items())


def relevance(found: Gathered, fusion: rank.Fusion) -> dict[str, float]:
    """How well each candidate fits, whatever became of it; the nearest first."""
    told = zip(found.rows.ids, fusion.relevance.tolist(), strict=True)
    return {id: round(fits, 6) for id, fits in sorted(told, key=lambda one: -one[1])}

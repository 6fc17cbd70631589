"""A question in, memories out: gather candidates, fold their beliefs, rank, reply."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reasonbank.errors import EmbeddingError, StorageError
from reasonbank.ledger.events import day_of
from reasonbank.ledger.port import Candidates, Filter, Reading, Row
from reasonbank.model import JSON, Hit, Memory, Outcome, Reply, State
from reasonbank.search import rank
from reasonbank.search.estimate import Trust, by_workspace, crowded_out, places, trust_in
from reasonbank.trust import belief

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.bank import Bank

    Nums = NDArray[np.int64]
    Floats = NDArray[np.float64]

DAY = 86_400_000_000
# Up to this many rows that pass a filter are scored one by one; more are found by
# searching all and filtering what comes back.
FEW = 50_000
# Searches of so few rows hardly leave the interpreter: eight threads that take turns do a third
# more than eight at once (measured). In larger banks they wait for SQLite, and can overlap.
SMALL = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    limit: int
    filter: Filter
    min_confidence: float
    max_tokens: int | None = None
    explain: bool = False
    follow_links: bool = False


@dataclass(slots=True)
class _Senses:
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
class _Found:
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


def recall(bank: Bank, question: Question) -> Reply:
    core = bank.core
    indexing = core.indexing
    senses = _Senses(notes=list(core.notes))
    try:
        senses.notes += indexing.catch_up()
        senses.vector = indexing.question(question.text)
    except EmbeddingError as error:
        senses.without_meaning(error, "embedding")
    except StorageError as error:
        senses.without_meaning(error, "the index")
    reading = core.ledger.glance()
    with core.searching if _is_small(reading) else nullcontext():
        found = _gather(bank, reading, question, senses)
        ranked = _ranked(bank, reading, question, found, senses)
        hits, tokens, cut = _hits(bank, reading, question, found, ranked)
    embedder = indexing.embedder.name if senses.vector is not None else "none"
    return Reply(
        hits=hits,
        total_found=ranked.relevant,
        tokens_used=tokens,
        embedder=embedder,
        more=not found.complete and ranked.relevant > len(hits),
        degraded=bool(senses.notes),
        notes=tuple(senses.notes),
        skipped=senses.skipped,
        dropped=_dropped(question, found, ranked) + cut if question.explain else (),
    )


def _is_small(reading: Reading) -> bool:
    try:
        return reading.word_rows() <= SMALL
    except StorageError:
        return True


def _gather(bank: Bank, reading: Reading, question: Question, senses: _Senses) -> _Found:
    """Candidates from both sides; deeper only if a filter left too few of them."""
    filter = question.filter
    among = None
    if filter.selective:
        among = reading.matching(bank.view, filter, FEW)
    pool = max(rank.POOL, 3 * question.limit)
    found = _candidates(bank, reading, question, senses, pool, among)
    if among is not None or found.complete:
        return found
    flooded = 2 * int((found.trust.heard < 0.5).sum()) > len(found.rows.nums)
    if flooded or int(found.allowed.sum()) < question.limit:
        among = _passing(bank, reading, question, senses.vector)
        return _candidates(bank, reading, question, senses, pool, among)
    likely = float(found.trust.likely[found.allowed].max())
    if likely >= bank.settings.belief.prune_below:
        return found
    if not crowded_out(reading, found.rows, found.trust, likely):
        return found
    # Memories that read well and help little must not hide those of others.
    better = _passing(bank, reading, question, senses.vector, likely)
    return _candidates(bank, reading, question, senses, pool, None, also=better)


def _passing(
    bank: Bank,
    reading: Reading,
    question: Question,
    vector: NDArray[np.float32] | None,
    likely: float = 0.0,
) -> Nums:
    """All rows that pass the filter, are trusted enough and at least so likely to help."""
    import numpy as np

    nums = reading.matching(bank.view, question.filter, None)
    assert nums is not None
    trusted = []
    for start in range(0, len(nums), FEW):
        rows = reading.candidates(bank.view, question.filter, nums[start : start + FEW])
        confidence = _confidence(bank, reading, rows)
        trust = trust_in(bank, reading, rows, confidence, vector)
        passed = _trusted(confidence, trust, question) & (trust.likely >= likely)
        trusted.append(rows.nums[passed])
    return np.sort(np.concatenate([np.empty(0, np.int64), *trusted]))


def _trusted(confidence: Floats, trust: Trust, question: Question) -> NDArray[np.bool_]:
    """Who is trusted enough, given who wrote it; nothing by an author who is not heard."""
    return (confidence * trust.heard >= question.min_confidence) & (trust.heard > 0)


def _candidates(
    bank: Bank,
    reading: Reading,
    question: Question,
    senses: _Senses,
    pool: int,
    among: Nums | None,
    *,
    also: Nums | None = None,
) -> _Found:
    """``among`` restricts the rows; of ``also`` the nearest join in any case."""
    matches = _matches(bank, reading, question, senses, pool, among, also)
    found = _weighed(bank, reading, question, senses, matches, pool)
    if found is not None:
        return found
    return _candidates(bank, reading, question, senses, pool, among)


@dataclass(slots=True)
class _Matches:
    """Rows by meaning and rows by words, each best first."""

    nearest: Nums
    cosines: NDArray[np.float32]
    worded: Nums
    scores: Floats


def _matches(
    bank: Bank,
    reading: Reading,
    question: Question,
    senses: _Senses,
    pool: int,
    among: Nums | None,
    also: Nums | None,
) -> _Matches:
    import numpy as np

    indexing = bank.core.indexing
    filter = question.filter
    nearest, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    if senses.vector is not None:
        realms = reading.realms(bank.view, filter.scopes, filter.states)
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
            terms = rank.terms(question.text)
            worded, scores = reading.words(bank.view, filter, terms, depth, among)
        except StorageError as error:
            senses.without_words(error)
    return _Matches(nearest, cosines, worded, scores)


def _weighed(
    bank: Bank,
    reading: Reading,
    question: Question,
    senses: _Senses,
    matches: _Matches,
    pool: int,
) -> _Found | None:
    """What is known of the matches; None when the index fails, so that they count no more."""
    import numpy as np

    indexing = bank.core.indexing
    nearest, worded = matches.nearest, matches.worded
    only_words = worded[:pool][~_among(worded[:pool], nearest)]
    nums = np.concatenate([nearest, only_words])
    rows = reading.candidates(bank.view, question.filter, nums)

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
    confidence = _confidence(bank, reading, rows, cosine[place])
    trust = trust_in(bank, reading, rows, confidence, senses.vector)
    return _Found(
        rows=rows,
        cosine=cosine[place],
        bm25=bm25,
        vectors=None if vectors is None else vectors[place],
        confidence=confidence,
        trust=trust,
        allowed=rows.allowed & _trusted(confidence, trust, question),
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
    bank: Bank, reading: Reading, rows: Candidates, cosine: Floats | None = None
) -> Floats:
    settings = bank.settings.belief
    today = day_of(bank.core.clock())
    if settings.model not in belief.FOLDED:
        return _unfolded(bank, reading, rows, today, cosine)

    def fold(rows: Candidates) -> Floats:
        return by_workspace(
            rows,
            lambda workspace, mine: belief.bayesian_means(
                rows.initial[mine], rows.masses[mine],
                belief.Weights(lessons=reading.lessons(workspace)), today,
                settings.half_life_days, own=rows.lessons[mine],
            ),
        )  # fmt: skip

    return rows.derived(("confidence", today), fold)


def _unfolded(
    bank: Bank, reading: Reading, rows: Candidates, today: int, cosine: Floats | None
) -> Floats:
    """By a model that needs more than what evidence amounts to."""
    import numpy as np

    settings = bank.settings.belief
    tallies = reading.tallies(rows.nums.tolist())
    uses = {workspace: reading.uses(workspace) for workspace in set(rows.workspaces)}
    weights = {w: belief.Weights(lessons=reading.lessons(w)) for w in uses}
    result = np.empty(len(rows.nums))
    for i, (num, workspace) in enumerate(zip(rows.nums.tolist(), rows.workspaces, strict=True)):
        tally = tallies[num]
        standing = belief.Standing(
            initial=float(rows.initial[i]),
            masses=tuple(rows.masses[i].tolist()),
            counts=belief.counts(tally),
            weights=weights[workspace].without(tuple(map(int, rows.lessons[i]))),
            today=today,
            last_day=belief.last_day(tally, day_of(int(rows.created_at[i]))),
            half_life=settings.half_life_days,
            project_uses=uses[workspace],
            context=None if cosine is None or np.isnan(cosine[i]) else float(cosine[i]),
        )
        result[i] = belief.MODELS[settings.model](standing)
    return result


def _ranked(
    bank: Bank, reading: Reading, question: Question, found: _Found, senses: _Senses
) -> rank.Ranking:
    import numpy as np

    settings = bank.settings.search
    core = bank.core
    rows = found.rows
    now = core.clock()
    name = "words" if senses.vector is None else core.indexing.embedder.name
    fusion = rank.fuse(
        question.text,
        found.cosine,
        found.bm25,
        rank.calibration_for(name),
        rows=reading.word_rows() if senses.words else 0,
    )
    # What the filter leaves out takes no part, but an explanation still mentions it.
    fusion = replace(fusion, relevance=np.where(found.allowed, fusion.relevance, -1.0))
    errors = np.zeros(len(rows.nums))
    for i, error in enumerate(rows.errors):
        if error:
            errors[i] = rank.error_match(question.text, *error)
    columns = rank.Columns(
        age_days=(now - rows.created_at) / DAY,
        error_match=errors,
        confidence=found.trust.confidence,
        fit=found.trust.fit,
        scope=np.array([rank.SCOPE_WEIGHTS[scope] for scope in rows.scopes], np.float64),
        consolidated=rows.consolidated,
        vectors=found.vectors,
    )
    return rank.rank(
        fusion,
        columns,
        limit=question.limit,
        weights=rank.Weights(
            similarity=settings.similarity,
            recency=settings.recency,
            error_match=settings.error_match,
        ),
        half_life_days=settings.half_life_days,
        diversity=settings.diversity,
        threshold=settings.threshold if settings.threshold >= 0 else None,
    )


def _hits(
    bank: Bank, reading: Reading, question: Question, found: _Found, ranked: rank.Ranking
) -> tuple[tuple[Hit, ...], int, tuple[tuple[str, str], ...]]:
    """The winners as far as the token budget goes, what they cost, and who did not fit."""
    order = ranked.order.tolist()
    nums = found.rows.nums[ranked.order].tolist()
    rows = {row.num: row for row in reading.rows(bank.view, nums)}
    parts = {p.candidate: _parts(p) for p in ranked.explain()} if question.explain else {}
    expected = found.trust.expected(ranked._columns["similarity"], found.cosine)
    costs: dict[str, int] = {}

    def memory(row: Row, confidence: float) -> Memory:
        told, costs[row.id] = reading.remembered(
            (row.num, confidence), lambda: _with_cost(row.memory(confidence))
        )
        return told

    hits = [
        Hit(
            memory=memory(rows[num], round(float(found.confidence[i]), 6)),
            relevance=round(float(ranked._columns["relevance"][i]), 6),
            score=round(score, 6),
            expected=round(float(expected[i]), 6),
            parts=parts.get(i, {}),
        )
        for i, num, score in zip(order, nums, ranked.scores.tolist(), strict=True)
        if num in rows  # Else somebody has just forgotten it.
    ]
    if question.follow_links:
        hits += _linked(bank, reading, question, hits)
    hits = _side_by_side(bank, reading, question, hits)
    kept, tokens, cut = [], 0, []
    for hit in (_flagged(bank, hit) for hit in hits):
        cost = None if hit.suspicious else costs.get(hit.memory.id)
        cost = cost or rank.tokens_in(hit.format_for_prompt())
        if question.max_tokens is not None and tokens + cost > question.max_tokens:
            cut.append((hit.memory.id, f"its {cost} tokens do not fit in max_tokens"))
            continue
        tokens += cost
        kept.append(hit)
    return tuple(kept), tokens, tuple(cut)


def _with_cost(memory: Memory) -> tuple[Memory, int]:
    """A memory, and how many tokens it is in a prompt."""
    return memory, rank.tokens_in(memory.format_for_prompt())


def _flagged(bank: Bank, hit: Hit) -> Hit:
    suspicious = bank.core.flags.of(hit.memory)
    return replace(hit, suspicious=suspicious) if suspicious else hit


def _linked(bank: Bank, reading: Reading, question: Question, hits: list[Hit]) -> list[Hit]:
    """What the hits' links lead to, one step, strongest first; at most as many again."""
    import numpy as np

    best: dict[str, Hit] = {}
    have = {hit.memory.id for hit in hits}
    for hit in hits:
        for link in reading.links(bank.view, hit.memory.id):
            other = link.target if link.source == hit.memory.id else link.source
            score = hit.score * link.strength
            if other in have or (other in best and best[other].score >= score):
                continue
            row = reading.row(bank.view, other)
            if row is None:
                continue
            num = np.array([row.num], np.int64)
            if not reading.candidates(bank.view, question.filter, num).allowed[0]:
                continue
            confidence = round(bank._confidence(reading, row), 6)
            if confidence >= question.min_confidence:
                best[other] = Hit(
                    memory=row.memory(confidence),
                    relevance=round(hit.relevance * link.strength, 6),
                    score=round(score, 6),
                    via=hit.memory.id,
                )
    return sorted(best.values(), key=lambda hit: -hit.score)[: question.limit]


def _side_by_side(bank: Bank, reading: Reading, question: Question, hits: list[Hit]) -> list[Hit]:
    """Whoever finds a memory that another one contradicts sees both, and the evidence of each.

    The other one comes right after it, beyond the limit if need be, unless the filter or its
    confidence rules it out.
    """
    import numpy as np

    pairs = reading.contradictions([hit.memory.id for hit in hits])
    if not pairs:
        return hits
    result: list[Hit] = []
    shown = {hit.memory.id for hit in hits}
    for hit in hits:
        id = hit.memory.id
        others = dict.fromkeys(b if a == id else a for a, b in pairs if id in (a, b))
        rows = [row for other in others if (row := reading.row(bank.view, other))]
        rows = [row for row in rows if row.state == State.ACTIVE]
        result.append(replace(hit, contradicts=tuple(row.id for row in rows)))
        nums = np.array([row.num for row in rows], np.int64)
        for row, allowed in zip(
            rows, reading.candidates(bank.view, question.filter, nums).allowed, strict=True
        ):
            confidence = round(bank._confidence(reading, row), 6)
            if row.id in shown or not allowed or confidence < question.min_confidence:
                continue
            shown.add(row.id)
            result.append(
                Hit(
                    memory=row.memory(confidence),
                    relevance=hit.relevance,
                    score=hit.score,
                    via=id,
                    contradicts=(id,),
                    parts=_beside(bank, row, hit) if hit.parts else {},
                )
            )
    return result


def _beside(bank: Bank, row: Row, hit: Hit) -> dict[str, float]:
    """It stands where it does for the hit's sake; only its age is its own."""
    age = (bank.core.clock() - row.created_at) / DAY
    recency = 2.0 ** (-max(0.0, age) / bank.settings.search.half_life_days)
    own = {"recency": round(recency, 6)}
    return {name: hit.parts[name] for name in ("similarity", "composite")} | own


def _parts(parts: rank.Parts) -> dict[str, float]:
    names = (
        "cosine", "distance", "bm25", "lexical_weight", "similarity", "recency", "error_match",
        "confidence", "fit", "scope", "boost", "composite", "mmr_penalty", "score",
    )  # fmt: skip
    return {name: round(value, 6) for name in names if (value := getattr(parts, name)) is not None}


def _dropped(
    question: Question, found: _Found, ranked: rank.Ranking
) -> tuple[tuple[str, str], ...]:
    result = []
    for parts in ranked.explain(found.rows.ids):
        i = parts.candidate
        if parts.dropped is None:
            continue
        reason = parts.dropped
        if not found.rows.allowed[i]:
            reason = "left out by the filter"
        elif found.confidence[i] < question.min_confidence:
            reason = f"confidence {found.confidence[i]:.2f} is under {question.min_confidence:.2f}"
        elif not _trusted(found.confidence, found.trust, question)[i]:
            reason = "what its author wrote helped too seldom"
        result.append((found.rows.ids[i], reason))
    return tuple(result)


def recommend(bank: Bank, task: str) -> JSON:
    """Recognise what a task is about, and name the strategy that the evidence backs best."""
    words = rank.keywords(task)
    reply = bank.search(task, limit=10, min_confidence=bank.settings.belief.inject_above)
    domain = _domain(reply.hits)
    # Whoever asks for one does not look at others: nothing that poses as an instruction.
    hits = [hit for hit in reply if not hit.suspicious]
    strategies = [hit for hit in hits if hit.memory.outcome is not Outcome.FAILURE]
    best = max(strategies, key=lambda hit: hit.score, default=None)
    return {
        "keywords": words,
        "domain": domain,
        "strategy": best.memory.to_json() if best else None,
        "confidence": best.memory.confidence if best else None,
        "successful_uses": _successes(bank, best.memory) if best else 0,
        "reasoning": _reasoning(bank, best, domain),
        "warnings": [hit.memory.to_json() for hit in hits if hit.warning][:3],
        "embedder": reply.embedder,
        "degraded": reply.degraded,
    }


def _domain(hits: tuple[Hit, ...]) -> str | None:
    """The domain that the most relevant memories speak of."""
    votes: dict[str, float] = {}
    for hit in hits:
        if hit.memory.domain:
            votes[hit.memory.domain] = votes.get(hit.memory.domain, 0.0) + hit.relevance
    return max(votes, key=lambda name: votes[name], default=None)


def _outcomes(bank: Bank, memory: Memory) -> tuple[int, ...]:
    reading = bank.core.ledger.read()
    row = reading.row(bank.view, memory.id)
    return belief.counts(reading.tallies([row.num])[row.num]) if row else (0,) * 8


def _successes(bank: Bank, memory: Memory) -> int:
    return _outcomes(bank, memory)[4]


def _reasoning(bank: Bank, best: Hit | None, domain: str | None) -> str:
    if best is None:
        return "Nothing in this bank is relevant enough to recommend."
    helped, hindered, _, _, succeeded, failed, kept, reverted = _outcomes(bank, best.memory)
    said = []
    if succeeded or failed:
        said.append(f"{succeeded} of {succeeded + failed} tasks that used it succeeded")
    if helped or hindered:
        said.append(f"{helped} of {helped + hindered} ratings call it helpful")
    if kept or reverted:
        said.append(f"the code was kept {kept} of {kept + reverted} times")
    if not said:
        said.append("nobody has reported an outcome yet")
    about = f" in {domain}" if domain and best.memory.domain == domain else ""
    return (
        f"“{best.memory.title}” fits this task best{about} (relevance {best.relevance:.2f}); "
        f"{'; '.join(said)}; confidence {best.memory.confidence:.2f}."
    )

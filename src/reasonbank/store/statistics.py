"""The numbers of a bank in one structure, the same for every surface.

Every number is measured; one that is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from reasonbank.embed.port import runtime_of
from reasonbank.ledger.port import SINCE, QueueDepth
from reasonbank.model import EvidenceKind, from_micros
from reasonbank.store.context import Context
from reasonbank.store.meters import Meters
from reasonbank.trust import belief

DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Searches:
    """``weak`` found nothing that is surely about the question, only what is near it."""

    answered: int
    empty: int
    weak: int
    degraded: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    count: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    retrieval: Latency
    embedding: Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCache:
    hits: int
    misses: int
    evictions: int
    hit_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many memories are new, of those that are still here."""

    day: int
    week: int
    month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """Counts are zero until the first call; tokens and cost are known once a server tells them.

    ``cache_hit_rate`` is of the calls that a cache may answer: those at temperature 0.
    """

    calls: int
    retries: int
    failures: int
    repairs: int
    cache_hits: int
    cache_misses: int
    cache_bypasses: int
    cache_evictions: int
    cache_hit_rate: float | None
    shared: int
    unreported: int
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cached_tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    waiting: int
    running: int
    dead: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What the process that answers saw, and by which runtime it embeds, where that is known."""

    runtime: str | None
    started: datetime
    uptime: float
    searches: Searches
    latency: Latencies
    query_cache: QueryCache
    model: ModelUse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """What one hand (a person, an agent, a token, an import) has in the bank: its active memories,
    how many of them are confirmed, how often they were given to somebody, and their share of all
    that was."""

    hand: str | None
    memories: int
    confirmed: int
    given: int
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The numbers of a bank; one that is not known is null.

    Searches, latencies and the cache are those of the whole bank since `since`; `process` is
    what the process that answers saw of them.
    """

    store: str
    workspace: str | None
    embedder: str
    semantic: bool
    degraded: bool
    not_embedded: int
    embedded_by_other_models: int
    belief_model: str
    evidence_weights: dict[str, float]
    memories: int
    growth: Growth
    by_state: dict[str, int]
    by_scope: dict[str, int]
    by_source: dict[str, int]
    by_outcome: dict[str, int]
    by_standing: dict[str, int]
    influence: tuple[Influence, ...]
    warnings: int
    uses: int
    evidence: int
    links: int
    traces: int
    traces_by_outcome: dict[str, int]
    forgotten: int
    workspaces: int
    events: int
    total_traces: int
    success_rate: float | None
    since: datetime | None
    searches: Searches
    latency: Latencies
    query_cache: QueryCache
    model: ModelUse | None
    """None until one was asked."""
    cache_hit_rate: float | None
    queue: Queue
    process: Process


def statistics(context: Context, *, everywhere: bool) -> Statistics:
    store = context.store
    embedder = store.indexing.embedder
    reading = context.read()
    new, foreign = reading.unembedded_count(embedder.name)
    weights = belief.EvidenceWeights(
        track_record=reading.track_record(context.view.workspace)
    ).normalised()
    workspace = None if everywhere else context.view.workspace
    contents = reading.statistics(None if everywhere else context.view)
    judged = contents["traces_by_outcome"]
    meters = store.all_meters()
    since = meters.total(SINCE)
    cache = _query_cache(meters)
    return Statistics(
        store=store.ledger.url,
        workspace=workspace,
        embedder=embedder.name,
        semantic=embedder.semantic,
        degraded=not embedder.semantic,
        not_embedded=new,
        embedded_by_other_models=foreign,
        belief_model=context.settings.belief.model,
        evidence_weights={
            str(kind): round(weight, 6) for kind, weight in zip(EvidenceKind, weights, strict=True)
        },
        **contents | {"influence": _influence(contents["influence"])},
        growth=_growth(context, everywhere=everywhere),
        total_traces=contents["traces"],
        success_rate=_share(judged.get("success", 0), sum(judged.values())),
        since=from_micros(since) if since else None,
        searches=_searches(meters),
        latency=_latencies(meters),
        query_cache=cache,
        model=_model(meters),
        cache_hit_rate=cache.hit_rate,
        queue=queue_of(reading.queue.depth(workspace), store.clock()),
        process=Process(
            runtime=runtime_of(embedder),
            started=from_micros(store.started),
            uptime=round(store.uptime, 3),
            searches=_searches(store.meters),
            latency=_latencies(store.meters),
            query_cache=_query_cache(store.meters),
            model=_model(store.meters),
        ),
    )


def _searches(meters: Meters) -> Searches:
    return Searches(
        answered=meters.times("search"),
        empty=meters.total("search.empty") or 0,
        weak=meters.total("search.weak") or 0,
        degraded=meters.total("search.degraded") or 0,
        failed=meters.total("search.failed") or 0,
    )


def _latencies(meters: Meters) -> Latencies:
    return Latencies(retrieval=_latency(meters, "search"), embedding=_latency(meters, "embedding"))


def _latency(meters: Meters, name: str) -> Latency:
    def milliseconds(share: float) -> float | None:
        seconds = meters.quantile(name, share)
        return None if seconds is None else round(seconds * 1000, 3)

    return Latency(
        count=meters.times(name),
        p50_ms=milliseconds(0.5),
        p95_ms=milliseconds(0.95),
        p99_ms=milliseconds(0.99),
    )


def _query_cache(meters: Meters) -> QueryCache:
    hits, misses = meters.total("cache.hits") or 0, meters.total("cache.misses") or 0
    return QueryCache(
        hits=hits,
        misses=misses,
        evictions=meters.total("cache.evictions") or 0,
        hit_rate=_share(hits, hits + misses),
    )


def _model(meters: Meters) -> ModelUse | None:
    found: dict[str, Any] = {f.name: meters.total(f"model.{f.name}") for f in fields(ModelUse)}
    counts = {name: found[name] or 0 for name in _COUNTS}
    if not any(counts.values()):
        return None
    cost = found["cost"]
    hits = counts["cache_hits"]
    told = {
        "cost": None if cost is None else cost / 1e6,
        "cache_hit_rate": _share(hits, hits + counts["cache_misses"]),
    }
    return ModelUse(**found | counts | told)


_COUNTS = (
    "calls", "retries", "failures", "repairs", "cache_hits", "cache_misses", "cache_bypasses",
    "cache_evictions", "shared", "unreported",
)  # fmt: skip


def _influence(found: list[dict[str, Any]]) -> tuple[Influence, ...]:
    given = sum(one["given"] for one in found)
    return tuple(Influence(**one, share=_share(one["given"], given)) for one in found)


def _growth(context: Context, *, everywhere: bool) -> Growth:
    reading, now = context.read(), context.now()
    view = None if everywhere else context.view
    day, week, month = (reading.recorded_since(view, now - days * DAY) for days in (1, 7, 30))
    return Growth(day=day, week=week, month=month)


def queue_of(depth: QueueDepth, now: int) -> Queue:
    age = None if depth.oldest is None else max(0, now - depth.oldest) / 1e6
    return Queue(waiting=depth.waiting, running=depth.running, dead=depth.dead, oldest_seconds=age)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None

"""The numbers of a bank in one structure, the same for every surface.

Every number is measured; one that is not known is None.
"""

from __future__ import annotations

from reasonbank.ledger.port import SINCE, QueueDepth
from reasonbank.model import JSON, Kind, from_micros
from reasonbank.store.context import Context
from reasonbank.store.meters import Meters
from reasonbank.trust import belief

SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
# Zero until the first call; tokens and cost are only known once a server has told them.
_MODEL_COUNTS = (
    "calls", "retries", "failures", "repairs", "cache_hits", "cache_misses", "cache_bypasses",
    "cache_evictions", "shared", "unreported",
)  # fmt: skip
_MODEL_SUMS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")


def statistics(context: Context, *, everywhere: bool) -> JSON:
    core = context.store
    embedder = core.indexing.embedder
    reading = core.ledger.read()
    new, foreign = reading.unembedded_count(embedder.name)
    weights = belief.Weights(lessons=reading.lessons(context.view.workspace)).normalised()
    workspace = None if everywhere else context.view.workspace
    contents = reading.statistics(None if everywhere else context.view)
    judged = contents["traces_by_outcome"]
    meters = core.all_meters()
    used = usage(meters)
    since = meters.total(SINCE)
    return {
        "store": core.ledger.url,
        "workspace": workspace,
        "embedder": embedder.name,
        "semantic": embedder.semantic,
        "degraded": not embedder.semantic,
        "not_embedded": new,
        "embedded_by_other_models": foreign,
        "belief_model": context.settings.belief.model,
        "evidence_weights": {
            str(kind): round(weight, 6) for kind, weight in zip(Kind, weights, strict=True)
        },
        **contents,
        "total_traces": contents["traces"],
        "success_rate": _share(judged.get("success", 0), sum(judged.values())),
        "since": from_micros(since).isoformat() if since else None,
        **used,
        "cache_hit_rate": used["query_cache"]["hit_rate"],
        "queue": _queue(reading.queue.depth(workspace), core.clock()),
        "process": {
            "started": from_micros(core.started).isoformat(),
            "uptime": round(core.uptime, 3),
            **usage(core.meters),
        },
    }


def usage(meters: Meters) -> JSON:
    """How a bank is used; no measurement, no number."""
    hits, misses = meters.total("cache.hits") or 0, meters.total("cache.misses") or 0
    return {
        "searches": {
            "answered": meters.times("search"),
            "empty": meters.total("search.empty") or 0,
            "degraded": meters.total("search.degraded") or 0,
            "failed": meters.total("search.failed") or 0,
        },
        "latency": {
            "retrieval": _latency(meters, "search"),
            "embedding": _latency(meters, "embedding"),
        },
        "query_cache": {
            "hits": hits,
            "misses": misses,
            "evictions": meters.total("cache.evictions") or 0,
            "hit_rate": _share(hits, hits + misses),
        },
        "model": _model(meters),
    }


def _latency(meters: Meters, name: str) -> JSON:
    result: JSON = {"count": meters.times(name)}
    for key, share in SHARES.items():
        seconds = meters.quantile(name, share)
        result[key] = None if seconds is None else round(seconds * 1000, 3)
    return result


def _model(meters: Meters) -> JSON | None:
    """None as long as no model was asked, by whomever."""
    counts = {name: meters.total(f"model.{name}") or 0 for name in _MODEL_COUNTS}
    if not any(counts.values()):
        return None
    cost = meters.total("model.cost")
    return {
        **counts,
        **{name: meters.total(f"model.{name}") for name in _MODEL_SUMS},
        "cost": None if cost is None else cost / 1e6,
    }


def _queue(depth: QueueDepth, now: int) -> JSON:
    age = None if depth.oldest is None else max(0, now - depth.oldest) / 1e6
    return {
        "waiting": depth.waiting,
        "running": depth.running,
        "dead": depth.dead,
        "oldest_seconds": age,
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None

"""How far memories are trusted, in a word and in numbers: now, and over their time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from reasonbank.ledger.port import Filter, Reading, Row
from reasonbank.model import Evidence, EvidenceKind, State, from_micros
from reasonbank.store.context import Context
from reasonbank.trust import belief
from reasonbank.trust.belief import SLOTS, EvidenceCounts, EvidenceWeights, Tally, day_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Nums = NDArray[np.int64]
    Floats = NDArray[np.float64]

PROVEN = 0.6
"""From this lower bound on a memory counts as proven; below this confidence, as doubted."""
MOST_POINTS = 120
MOST_EVIDENCE = 2000
DAY = 86_400_000_000


class Trust(StrEnum):
    PROVEN = "proven"
    LIKELY = "likely"
    UNTESTED = "untested"
    DOUBTED = "doubted"
    PROBATION = "probation"
    """Until it is seen to help, or a person accepts it."""
    QUARANTINED = "quarantined"
    """Until a person accepts it."""
    ARCHIVED = "archived"


WORDS = tuple(Trust)
_STANDING = {1: Trust.PROBATION, 2: Trust.QUARANTINED}
"""By ``Standing.level``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """``low`` and ``high``: nine times out of ten it lies between them. Each task counts once."""

    confidence: float
    low: float
    high: float
    initial: float
    trust: Trust
    rated_helpful: int
    rated_unhelpful: int
    used: int
    tasks_succeeded: int
    tasks_failed: int
    code_kept: int
    code_reverted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at: datetime
    confidence: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """``series`` begins when the memory was made; ``evidence`` is what moved it, oldest first.
    ``left_out`` counts pieces that are older than these. Below ``archived_below`` maintenance
    archives it."""

    now: Believed
    created_at: datetime
    series: tuple[Point, ...]
    evidence: tuple[Evidence, ...]
    left_out: int
    archived_below: float


def of(context: Context, reading: Reading, row: Row) -> Believed:
    held = context.trust(reading).belief(row)
    confidence = context.confidence(reading, row)
    seen = reading.seen(row.num, context.view.workspace)
    low, high = held.lower_bound, held.upper_bound
    return Believed(
        confidence=round(confidence, 6),
        low=round(min(low, confidence), 6),
        high=round(max(high, confidence), 6),
        initial=row.initial,
        trust=_word(row, confidence, low, seen),
        rated_helpful=seen.rated_helpful,
        rated_unhelpful=seen.rated_unhelpful,
        used=row.usage_count,
        tasks_succeeded=seen.tasks_succeeded,
        tasks_failed=seen.tasks_failed,
        code_kept=seen.code_kept,
        code_reverted=seen.code_reverted,
    )


def _word(row: Row, confidence: float, low: float, seen: EvidenceCounts[int]) -> Trust:
    if row.state != State.ACTIVE:
        return Trust.ARCHIVED
    if standing := _STANDING.get(row.probation):
        return standing
    if not any(seen[slot] for slot in _telling()):
        return Trust.UNTESTED
    if confidence < PROVEN:
        return Trust.DOUBTED
    return Trust.PROVEN if low >= PROVEN else Trust.LIKELY


def _telling() -> list[int]:
    """The slots of what says more than that a search returned it."""
    return [slot for (kind, _), slot in SLOTS.items() if kind is not EvidenceKind.USAGE]


# Over time


def over_time(context: Context, id: str) -> OverTime:
    reading = context.settled_read()
    row = context.row(reading, id)
    pieces = reading.evidence(context.view, id, everywhere=context.whole)
    kept = pieces[:MOST_EVIDENCE]
    return OverTime(
        now=of(context, reading, row),
        created_at=from_micros(row.created_at),
        series=tuple(_series(context, reading, row)),
        evidence=tuple(reversed(kept)),
        left_out=len(pieces) - len(kept),
        archived_below=context.settings.belief.prune_below,
    )


def _series(context: Context, reading: Reading, row: Row) -> Iterable[Point]:
    """What each day would have said, had the weights been those of today."""
    trust, now = context.trust(reading), context.now()
    today = day_of(now)
    tally = belief.no_later(reading.tallies([row.num], context.view.workspace)[row.num], today)
    weights = EvidenceWeights(track_record=reading.track_record(row.workspace)).without(
        row.track_record
    )
    yield _point(row.created_at, belief.Belief(**_began(row.initial)))
    for day in _days(day_of(row.created_at), today, tally):
        until: Tally = {key: count for key, count in tally.items() if key[2] <= day}
        masses = belief.masses(until, trust.half_life)
        held = belief.bayesian(row.initial, masses, weights, day, trust.half_life)
        yield _point(min(now, max(row.created_at, (day + 1) * DAY - 1)), held)


def _began(initial: float) -> dict[str, float]:
    alpha, beta = belief.prior(initial)
    return {"alpha": alpha, "beta": beta}


def _point(at: int, held: belief.Belief[float]) -> Point:
    return Point(
        at=from_micros(at),
        confidence=round(held.mean, 6),
        low=round(held.lower_bound, 6),
        high=round(held.upper_bound, 6),
    )


def _days(first: int, today: int, tally: Tally) -> list[int]:
    """The days on which something was seen, and some between, so that fading shows."""
    seen = sorted({day for _, _, day in tally if day >= first})
    step = max(1, math.ceil((today - first) / (MOST_POINTS // 2)))
    seen = seen[:: max(1, math.ceil(len(seen) / (MOST_POINTS // 2)))]
    return sorted({*seen, *range(first + step, today, step), today})


# Of many memories at once


@dataclass(frozen=True, slots=True)
class Standings:
    """Of active memories: the number of each, its confidence, its lower bound, and the place of
    its word in ``WORDS``."""

    nums: Nums
    confidence: Floats
    low: Floats
    words: Nums


def standings(context: Context, filter: Filter, *, told: bool) -> Standings:
    """``told``: only of those of which anything was observed. For as long as the ledger stays as
    it is, they are worked out once."""
    reading = context.store.ledger.cached_read()
    key = ("standings", context.view, context.trust(reading).today, filter, told)
    return reading.cached(key, lambda: _standings(context, reading, filter, told))


def _standings(context: Context, reading: Reading, filter: Filter, told: bool) -> Standings:
    import numpy as np

    which = replace(filter, states=(State.ACTIVE,))
    nums = reading.told(context.view, which) if told else reading.matching(
        context.view, which, None
    )  # fmt: skip
    assert nums is not None
    rows = reading.candidates(context.view, Filter(), nums)
    trust = context.trust(reading)
    means, masses = trust.of_many(rows), trust.masses(rows)
    low = trust.lower_bounds(rows, means, masses)
    words = np.full(len(rows.nums), WORDS.index(Trust.LIKELY))
    words[low >= PROVEN] = WORDS.index(Trust.PROVEN)
    words[means < PROVEN] = WORDS.index(Trust.DOUBTED)
    words[~masses[:, _telling()].any(1)] = WORDS.index(Trust.UNTESTED)
    standing = rows.probation
    for level, word in _STANDING.items():
        words[standing == level] = WORDS.index(word)
    return Standings(rows.nums, means, low, words)


def counts(context: Context) -> dict[str, int]:
    """How many memories are trusted how far."""
    import numpy as np

    context.store.try_to_flush()
    told = standings(context, Filter(), told=True)
    reading = context.read()
    found = dict(zip(map(str, WORDS), np.bincount(told.words, minlength=len(WORDS)).tolist(),
                     strict=True))  # fmt: skip
    found[Trust.UNTESTED] += reading.how_many(context.view, Filter()) - len(told.nums)
    found[Trust.ARCHIVED] = reading.how_many(context.view, Filter(states=(State.ARCHIVED,)))
    return found

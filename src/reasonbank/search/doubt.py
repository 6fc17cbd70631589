"""What it means for an answer that a hit is weak or outdated. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from reasonbank.model import Hit, Outcome, Source, Standing


def with_newer_values(hits: Sequence[Hit]) -> list[Hit]:
    """Whoever is told an old value is told the new one, however that is worded: it is as sure.

    Of several values the newest comes first.
    """
    result: list[Hit] = []
    newer: set[str | None] = set()
    for hit in reversed(hits):
        weak = hit.weak and hit.memory.id not in newer
        if not weak:
            newer.add(hit.outdated_by)
        result.append(hit if hit.weak == weak else replace(hit, weak=weak))
    return result[::-1]


TRIED = 1 / 8
"""The share of tasks that are given a newcomer beside what is confirmed: else it would never be
tried where something is known already."""


MOST_BY_ONE = 2
"""Memories of one author, other than the caller, while there are others'."""


def for_a_prompt(
    hits: Sequence[Hit], shown: Set[str], own: str, *, trying: bool = False
) -> tuple[Hit, ...]:
    """Without what a model was ``shown`` before, and what it is told something newer than.

    Where something confirmed fits, what is untested is left out, but for warnings that were learned
    from a failure; a task that is ``trying`` gets one of it as well. Nobody but the ``own`` side
    fills a prompt alone.
    """
    told = shown | {hit.memory.id for hit in hits if not hit.suspicious}
    kept = [hit for hit in hits if hit.memory.id not in shown and hit.outdated_by not in told]
    confirmed = [hit for hit in kept if hit.memory.standing is Standing.CONFIRMED]
    untested = [hit for hit in kept if hit.memory.standing is not Standing.CONFIRMED]
    warnings = [hit for hit in untested if _is_learned_from_failure(hit)]
    others = [hit for hit in untested if hit not in warnings]
    tried = (*warnings, *others[: int(trying)]) if confirmed else untested
    return _from_several((*confirmed, *tried), own)


def _is_learned_from_failure(hit: Hit) -> bool:
    """Nobody but the bank says of which part of a session a memory is: a source can be claimed."""
    memory = hit.memory
    learned = memory.source in (Source.DISTILLED, Source.SOLVED) and memory.source_span is not None
    return learned and memory.outcome is Outcome.FAILURE


def _from_several(hits: tuple[Hit, ...], own: str) -> tuple[Hit, ...]:
    if len({hit.memory.author for hit in hits}) < 2:
        return hits
    seen: Counter[str | None] = Counter()
    kept = []
    for hit in hits:
        seen[hit.memory.author] += 1
        if hit.memory.author == own or seen[hit.memory.author] <= MOST_BY_ONE:
            kept.append(hit)
    return tuple(kept)

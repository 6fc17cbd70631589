"""What it means for an answer that a hit is weak or outdated. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from reasonbank.model import Hit


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


def for_a_prompt(hits: Sequence[Hit], shown: Set[str]) -> tuple[Hit, ...]:
    """Without what a model was ``shown`` before, and what it is told something newer than."""
    told = shown | {hit.memory.id for hit in hits if not hit.suspicious}
    return tuple(hit for hit in hits if hit.memory.id not in shown and hit.outdated_by not in told)

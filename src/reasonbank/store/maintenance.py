"""What keeps a bank in order: rolling up, pruning, embedding anew, rebuilding."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from reasonbank.errors import StorageError
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Filter, Writing
from reasonbank.model import Scope
from reasonbank.store import traces
from reasonbank.store.context import Context, Progress
from reasonbank.trust import belief

DAY = 86_400_000_000
ROLL_UP_DAYS = 30
"""Older evidence is counted by the day: the grain of belief."""
PRUNED = "confidence"
"""How the reason begins for which something was archived by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    rolled_up: int
    pruned: tuple[str, ...]
    traces_purged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """``dropped`` are vectors of other models."""

    embedded: int
    dropped: int
    embedder: str


def maintain(context: Context) -> Maintained:
    settings = context.settings
    before = context.now() - ROLL_UP_DAYS * DAY
    rolled = 0
    while count := context.write(lambda txn: txn.roll_up(before, 1000)):
        rolled += count
    pruned = _prune(context)
    purged = traces.purge(context, settings.trace_days) if settings.trace_days else 0
    kept = settings.gaps.days if settings.gaps.keep else 0
    context.write(lambda txn: txn.unanswered.drop_before(context.now() - kept * DAY))
    return Maintained(rolled_up=rolled, pruned=tuple(pruned), traces_purged=purged)


def _prune(context: Context) -> list[str]:
    """Archive this workspace's memories whose confidence fell too low."""
    floor = context.settings.belief.prune_below
    folded = context.settings.belief.model in belief.FOLDED

    def work(txn: Writing) -> list[str]:
        pruned = []
        for row in txn.listed(context.view, Filter(scopes=tuple(Scope)), 1_000_000):
            if row.workspace != context.view.workspace or (folded and not row.packed):
                continue
            confidence = context.confidence(txn, row)
            if confidence < floor:
                reason = f"{PRUNED} {confidence:.2f} is under {floor}"
                context.append(txn, EventType.ARCHIVED, row.id, {"reason": reason})
                pruned.append(row.id)
        return pruned

    return context.write(work)


def embed_new(context: Context, progress: Progress | None = None) -> int:
    indexing = context.store.indexing
    embedded = indexing.embed_all(any_model=False, progress=progress)
    # An index on a server has to be told, and whoever searches next tells it only a part: a
    # command that ends, or somebody who may only read.
    with suppress(StorageError):
        indexing.follow()
    return embedded


def reindex(context: Context, progress: Progress | None) -> Reindexed:
    indexing = context.store.indexing
    model = indexing.embedder.name
    embedded = 0
    dropped = None
    while dropped is None:
        embedded += indexing.embed_all(any_model=True, progress=progress)
        dropped = context.write(lambda txn: _dropped(txn, model))
    indexing.follow()
    indexing.index.save()
    context.store.tidy()
    return Reindexed(embedded=embedded, dropped=dropped, embedder=model)


def _dropped(txn: Writing, model: str) -> int | None:
    """Vectors of other models; None, and none is, where a memory has no other by now: a process
    of an older version may have recorded meanwhile."""
    return None if txn.embedded_elsewhere(model) else txn.drop_vectors(model)


def rebuild(context: Context, progress: Progress | None = None) -> None:
    context.write(lambda txn: txn.rebuild(progress))
    context.store.indexing.wake()

"""Memories out of a log that nobody here vouches for.

Such a file is as trustworthy as whoever imports it. What its memories say is recorded anew, in the
importer's name and workspace; who wrote them, how they fared and what was deleted elsewhere are
claims, and stay in the file. All of it is one batch, and is taken back as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reasonbank.ledger.events import (
    BATCHES,
    CHANGES,
    LINKS,
    Event,
    EventType,
    revisions,
    taken_back,
)
from reasonbank.ledger.port import Writing
from reasonbank.model import Link, LinkType, Memory, Principal, Scope, Source, State, new_id
from reasonbank.store import batches
from reasonbank.store.batches import BatchStep
from reasonbank.store.context import Context, Progress
from reasonbank.trust.belief import initial_confidence

KIND = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """``events`` were read; of the ``memories`` in them so many are ``new``."""

    memories: int
    new: int
    left_out: int
    """Events that say something of trust, of other banks or of deletions."""
    batch: str | None


def adopt(context: Context, events: Sequence[Event], progress: Progress) -> Adopted:
    found = _standing(events)
    links = _links(events)
    context = replace(context, acts_as=Principal.IMPORT)
    batch = new_id()

    def work(txn: Writing) -> int:
        new: set[str] = set()
        for done, (memory, state) in enumerate(found, 1):
            progress(done, len(found))
            if txn.forgotten(memory.id) or txn.taken(memory.id):
                continue
            fit = context.fit(_as_ours(context, memory))
            initial = initial_confidence(fit.source, fit.outcome)
            batches.apply(context, txn, batch, KIND, BatchStep(created=fit, initial=initial))
            if state is State.ARCHIVED:
                reason = {"reason": "it was archived where it comes from"}
                context.in_batch(batch).append(txn, EventType.ARCHIVED, fit.id, reason)
            new.add(fit.id)
        drawn = tuple(link for link in links if {link.source, link.target} <= new)
        if drawn:
            batches.apply(context, txn, batch, KIND, BatchStep(links=drawn))
        if new:
            context.note(txn, EventType.IMPORTED)
        return len(new)

    new = context.write(work)
    context.store.indexing.wake()
    told = sum(event.type is EventType.RECORDED and not event.redacted for event in events)
    left_out = len(events) - told
    return Adopted(memories=len(found), new=new, left_out=left_out, batch=batch if new else None)


def _standing(events: Sequence[Event]) -> list[tuple[Memory, State]]:
    """The memories of a log as they stand in the end, without those that were forgotten."""
    changes: dict[str, list[Event]] = {}
    gone_back = taken_back(event for event in events if event.type in BATCHES)
    gone = {event.subject for event in events if event.type is EventType.FORGOTTEN}
    for event in sorted(events, key=lambda event: event.order):
        if event.type is EventType.DELETED:
            gone.update(event.payload.get("ids", ()))
        elif event.type in CHANGES and not event.redacted:
            stands = replace(event, taken_back=event.id in gone_back)
            changes.setdefault(event.subject, []).append(stands)
    found = []
    for id, told in changes.items():
        if id not in gone and (history := revisions(told)):
            memory = history[-1].memory
            found.append((memory, memory.state))
    return found


def _links(events: Sequence[Event]) -> list[Link]:
    latest: dict[tuple[str, str, str], Event] = {}
    gone_back = taken_back(event for event in events if event.type in BATCHES)
    for event in sorted(events, key=lambda event: event.order):
        if event.type in LINKS and not event.redacted and event.id not in gone_back:
            p = event.payload
            latest[event.subject, p["target"], p["type"]] = event
    return [
        Link(
            source=source,
            target=target,
            type=LinkType(type),
            strength=event.payload.get("strength", 1.0),
        )
        for (source, target, type), event in latest.items()
        if event.type is EventType.LINKED
    ]


def _as_ours(context: Context, memory: Memory) -> Memory:
    scope = memory.scope if memory.scope in context.may_share else Scope.PROJECT
    return replace(
        memory, source=Source.IMPORTED, scope=scope, parents=(), confidence=None, author=None,
        workspace=None, created_at=None, source_session=None, source_span=None,
    )  # fmt: skip

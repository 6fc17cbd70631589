"""What is done to several memories in one go, and can be taken back in one go.

A batch is a run: a consolidation, a promotion, an import, a revert. It has steps; each is done in
one transaction, and ends with an event that says what it did. So a batch needs no table: a
replica, an import or a rebuild has it when it has the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reasonbank.errors import Forbidden, NotFound, Refused
from reasonbank.ledger.events import CHANGES, REVERT, Event, EventType, revisions
from reasonbank.ledger.port import Reading, Row, Writing
from reasonbank.model import Link, Memory, Principal, Right, Standing, State, from_micros
from reasonbank.store import memories
from reasonbank.store.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStep:
    """What one transaction of a batch does.

    ``created`` takes the place of those ``archived``; its confidence begins at ``initial``.
    """

    created: Memory | None = None
    initial: float = 0.5
    stage: int = 0
    archived: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    events: tuple[str, ...] = ()
    """Those that it takes back."""
    standing: Standing | None = None
    """Of what was made from others: the least of theirs."""
    hand: str | None = None
    """Whose work the sources are, where one hand wrote them all."""
    brought: tuple[str, str] | None = None
    """Whose words it takes back, for whose sake: the bank that they came through was cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one run did in all; of its ``steps``, so many were ``undone``."""

    batch: str
    kind: str
    at: datetime
    created: tuple[str, ...]
    archived: tuple[str, ...]
    links: int
    steps: int
    undone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """A batch that was taken back: what is active again, and what went to the archive."""

    batch: str
    restored: tuple[str, ...]
    archived: tuple[str, ...]
    steps: int


def apply(context: Context, txn: Writing, batch: str, kind: str, step: BatchStep) -> None:
    context = context.in_batch(batch)
    created = step.created
    if created is not None:
        made = {"stage": step.stage, "initial": step.initial, "standing": step.standing}
        maker = context.in_name_of(step.hand) if step.hand else context
        memories.record_in(maker, txn, created, made=made)
    for id in step.archived:
        into = {"merged_into": created.id} if created else {}
        context.append(txn, EventType.ARCHIVED, id, {"reason": kind} | into)
    for link in step.links:
        payload = {"target": link.target, "type": str(link.type), "strength": link.strength}
        context.append(txn, EventType.LINKED, link.source, payload)
    told = {
        "kind": kind,
        "created": created.id if created else None,
        "archived": list(step.archived),
        "links": [[link.source, link.target, str(link.type)] for link in step.links],
    }
    if step.events:
        told["events"] = list(step.events)
    if step.brought:
        told["origin"], told["through"] = step.brought
    context.append(txn, EventType.APPLIED, batch, told)


def revert(context: Context, txn: Writing, id: str, *, only: str | None = None) -> Undone:
    """Take a batch back, or the one step of it that made the memory ``only``.

    What happened to its memories since is respected: one that somebody restored, changed
    back or forgot is left as it is.
    """
    context = context.in_batch(id)
    events = txn.batch(context.view, id)
    steps = [
        event for event in _in_force(events) if only is None or event.payload["created"] == only
    ]
    if not events:
        raise NotFound(
            f"there is no memory and no batch {id} in workspace {context.view.workspace}; "
            "`reasonbank batches` shows the batches"
        )
    if not steps:
        raise Refused(f"batch {id} was undone already")
    if any(event.payload["kind"] == REVERT for event in steps):
        return _count_again(context, txn, id, steps)
    restored: list[str] = []
    removed: list[str] = []
    for event in reversed(steps):
        restored += _revert(context, txn, event)
        if event.payload["created"]:
            removed.append(event.payload["created"])
    context.append(txn, EventType.REVERTED, id, {"steps": [event.id for event in steps]})
    return Undone(batch=id, restored=tuple(restored), archived=tuple(removed), steps=len(steps))


def _count_again(context: Context, txn: Writing, id: str, steps: Sequence[Event]) -> Undone:
    """What was taken back counts again; so nobody but who may take back may do this."""
    if not context.right.includes(Right.ADMIN):
        raise Forbidden(f"batch {id} took back what somebody wrote; to undo that needs admin")
    if context.principal is not Principal.PERSON and any(
        event.principal is Principal.PERSON for event in steps
    ):
        raise Forbidden(f"a person took back what batch {id} names; only a person undoes that")
    archived = [id for event in steps for id in event.payload["archived"]]
    elsewhere = set(txn.owners(archived).values()) - {context.view.workspace}
    if elsewhere and context.reaches is not None:
        raise Forbidden(
            f"batch {id} took back memories of other workspaces; who undoes it must reach them all"
        )
    return count_again(context, txn, id, steps)


def count_again(context: Context, txn: Writing, id: str, steps: Sequence[Event]) -> Undone:
    """Whether somebody may say so was asked before."""
    archived = [id for event in steps for id in event.payload["archived"]]
    made = txn.about(archived, frozenset({EventType.ARCHIVED}))
    told = {
        "steps": [event.id for event in steps],
        "events": [event.id for event in made if event.batch == id],
    }
    context.append(txn, EventType.REVERTED, id, told)
    changes: dict[str, list[Event]] = {}
    for event in txn.about(archived, CHANGES):
        changes.setdefault(event.subject, []).append(event)
    restored = [
        memory
        for memory, events in changes.items()
        if revisions(events)[-1].memory.state is State.ACTIVE
    ]
    return Undone(batch=id, restored=tuple(restored), archived=(), steps=len(steps))


def _revert(context: Context, txn: Writing, event: Event) -> list[str]:
    step = event.payload
    created = step["created"]
    row = txn.row(context.view, created) if created else None
    if row is not None and row.merged_into is not None:
        raise Refused(
            f"memory {created} was merged on into {row.merged_into}; undo that merge first"
        )
    restored = []
    for id in step["archived"]:
        source = txn.row(context.view, id)
        if source is not None and source.merged_into == created:
            context.append(txn, EventType.RESTORED, id, {})
            restored.append(id)
    if row is not None and row.state == State.ACTIVE:
        reason = {"reason": f"{step['kind']} was undone"}
        context.append(txn, EventType.ARCHIVED, created, reason)
    for source_id, target, kind in step["links"]:
        begins = txn.row(context.view, source_id)
        if begins is not None and begins.workspace == context.view.workspace:
            context.append(txn, EventType.UNLINKED, source_id, {"target": target, "type": kind})
    return restored


def _in_force(events: Sequence[Event]) -> list[Event]:
    """The steps that nobody has taken back."""
    gone = {
        step
        for event in events
        if event.type is EventType.REVERTED and not event.taken_back
        for step in event.payload["steps"]
    }
    return [
        event
        for event in events
        if event.type is EventType.APPLIED and event.id not in gone and not event.taken_back
    ]


def heirs(context: Context, reading: Reading, id: str) -> list[Row]:
    """What this workspace's batches made of a memory, and of that, and so on: they repeat it."""
    found: dict[str, Row] = {}
    frontier = [id]
    while frontier:
        children = [b for a, b in reading.kin(frontier) if a in set(frontier) and b not in found]
        frontier = []
        for child in children:
            row = reading.row(context.view, child)
            if row is None or row.workspace != context.view.workspace:
                continue
            recorded = reading.changes_of(context.view, child)[0]
            if recorded.batch or recorded.payload.get("batch"):
                found[child] = row
                frontier.append(child)
    return list(found.values())


def release(context: Context, txn: Writing, id: str) -> None:
    """Bring back what was archived into a memory that goes."""
    for parent, child in txn.kin([id]):
        source = txn.row(context.view, parent) if child == id else None
        if source is not None and source.merged_into == id:
            context.append(txn, EventType.RESTORED, parent, {})


def undone(reading: Reading, context: Context) -> list[frozenset[str]]:
    """The memories of each merge that somebody took back: they are not merged again."""
    events = reading.batches(context.view)
    in_force = {event.id for event in _in_force(events)}
    return [
        frozenset(event.payload["archived"])
        for event in events
        if event.type is EventType.APPLIED
        and event.id not in in_force
        and event.payload["archived"]
        and event.payload["kind"] != REVERT
    ]


def listed(context: Context, *, limit: int = 50) -> list[Batch]:
    """The newest batches of this workspace, and whether they still stand."""
    events = context.read().batches(context.view)
    in_force = {event.id for event in _in_force(events)}
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.type is EventType.APPLIED:
            found.setdefault(event.subject, []).append(event)
    batches = [_batch(id, steps, in_force) for id, steps in found.items()]
    return batches[::-1][:limit]


def _batch(id: str, steps: Sequence[Event], in_force: set[str]) -> Batch:
    told = [event.payload for event in steps]
    return Batch(
        batch=id,
        kind=told[0]["kind"],
        at=from_micros(steps[0].at),
        created=tuple(step["created"] for step in told if step["created"]),
        archived=tuple(id for step in told for id in step["archived"]),
        links=sum(len(step["links"]) for step in told),
        steps=len(steps),
        undone=sum(event.id not in in_force for event in steps),
    )

"""Storing, changing and reading memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reasonbank.errors import Forbidden, Forgotten, InvalidInput, NotFound, Refused
from reasonbank.fields import checked
from reasonbank.ledger.events import EventType, lesson, revisions
from reasonbank.ledger.port import Filter, Reading, Row, Writing
from reasonbank.model import JSON, REVISABLE, Memory, Revision, Standing, State, from_micros
from reasonbank.store import probation
from reasonbank.store.context import Context
from reasonbank.trust import belief


def record(context: Context, memory: Memory) -> Memory:
    memory = context.fit(memory)
    with context.span("create_memory", memory.id):
        stored = context.write(lambda txn: record_in(context, txn, memory))
    context.store.indexing.wake()
    return stored


def record_in(
    context: Context, txn: Writing, memory: Memory, *, made: Mapping[str, Any] | None = None
) -> Memory:
    """``made`` tells of a memory that a batch made: its stage and initial confidence and, where it
    was made from others, how they stand."""
    context.must_share(memory.scope)
    _must_be_free(context, txn, memory.id)
    known: JSON = dict(made or {"stage": stage_of(context, txn, memory.parents)})
    standing: Standing = known.pop("standing", None) or probation.at_the_door(context, txn, memory)
    if standing is not Standing.CONFIRMED:
        known["standing"] = str(standing)
    context.join(txn)
    at = txn.stamp()
    context.append(txn, EventType.RECORDED, memory.id, {"lesson": lesson(memory), **known}, at=at)
    return replace(
        memory,
        standing=standing,
        confidence=known.get("initial", belief.initial_confidence(memory.source, memory.outcome)),
        usage_count=0,
        state=State.ACTIVE,
        stage=known["stage"],
        revision=1,
        merged_into=None,
        workspace=context.view.workspace,
        author=context.author,
        created_at=from_micros(at),
        last_used=None,
    )


def _must_be_free(context: Context, txn: Reading, id: str) -> None:
    if not txn.taken(id):
        return
    if txn.forgotten(id) and txn.touched(context.view.workspace, id):
        raise Forgotten(f"memory {id} was forgotten for good; record it again")
    if txn.row(context.view, id) is not None:
        raise Refused(f"memory {id} exists already; use `update` to change it")
    raise Refused(f"the id {id} cannot be used here; leave it out to get a new one")


def stage_of(context: Context, txn: Reading, parents: Sequence[str]) -> int:
    stage = 0
    for parent in parents:
        row = txn.row(context.view, parent)
        if row is None:
            raise NotFound(f"parents: there is no memory {parent} here")
        stage = max(stage, row.stage + 1)
    return stage


def update(context: Context, id: str, changes: Mapping[str, Any]) -> Memory:
    for name in changes:
        if name not in REVISABLE:
            raise InvalidInput(
                name, f"cannot be changed; these can: {', '.join(sorted(REVISABLE))}"
            )

    with context.span("update_memory", id):
        memory = context.write(lambda txn: update_in(context, txn, id, changes, may_wait=False))
    context.store.indexing.wake()
    return memory


def update_in(
    context: Context, txn: Writing, id: str, changes: Mapping[str, Any], *, may_wait: bool = True
) -> Memory:
    """``may_wait``: also what is confirmed may be made to wait for a person by the change."""
    from reasonbank.store.reviewing import must_be_free  # It stores what it changes.

    row = context.own_row(txn, id)
    if row.state == State.ARCHIVED:
        must_be_free(context, txn, id)
    old = row.memory()
    fit = context.fit(replace(old, **changes))
    new = lesson(fit)
    was = lesson(old)
    changed = {name: new.get(name) for name in changes if new.get(name) != was.get(name)}
    if changed:
        told: JSON = {"changes": changed}
        if standing := probation.revised(context, txn, old, fit):
            # Or who is misled could silence all that is known, one by one.
            if standing is Standing.WAITING and not (may_wait or row.probation):
                raise Forbidden(
                    f"memory {id} is confirmed, and this change would have to wait for a person; "
                    "record it as a lesson of its own"
                )
            told["standing"] = str(standing)
        context.append(txn, EventType.REVISED, id, told)
    return context.memory(txn, context.row(txn, id))


def archive(context: Context, id: str, reason: str) -> Memory:
    reason = context.fit_comment(reason, "reason")
    return _change(context, id, EventType.ARCHIVED, State.ARCHIVED, {"reason": reason})


def restore(context: Context, id: str) -> Memory:
    from reasonbank.store.reviewing import must_be_free

    must_be_free(context, context.read(), id)
    return _change(context, id, EventType.RESTORED, State.ACTIVE, {})


def _change(context: Context, id: str, type: EventType, state: State, payload: JSON) -> Memory:

    def work(txn: Writing) -> Memory:
        if context.own_row(txn, id).state != state:
            context.append(txn, type, id, payload)
        return context.memory(txn, context.row(txn, id))

    return context.write(work)


# Reading


def get(context: Context, id: str) -> Memory:
    reading = context.settled_read()
    return context.memory(reading, context.row(reading, id))


def history(context: Context, id: str) -> list[Revision]:
    reading = context.read()
    context.row(reading, id)
    found = revisions(reading.changes_of(context.view, id))
    shown = context.without_hidden_kin(reading, [revision.memory for revision in found])
    return [replace(one, memory=memory) for one, memory in zip(found, shown, strict=True)]


def listed(context: Context, filter: Filter | None = None, limit: int = 50) -> list[Memory]:
    reading = context.settled_read()
    chosen = checked(filter or Filter(), context.settings.limits)
    asked, shown = limit, list[Row]()
    while True:
        rows = reading.listed(context.view, chosen, asked)
        shown = [row for row in rows if probation.is_offered(context, row, unread=False)]
        if len(shown) >= limit or len(rows) < asked:
            return [context.memory(reading, row) for row in shown[:limit]]
        asked *= 2

"""A person's word on what nobody has confirmed: it may be used, or it may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reasonbank.arguments import IdOf
from reasonbank.errors import Forbidden, InvalidInput, NotFound
from reasonbank.fields import LIMITS
from reasonbank.ledger.events import REVERT, EventType, lesson, text_digest
from reasonbank.ledger.port import Reading, Row, Writing
from reasonbank.model import EvidenceKind, Memory, Principal, State
from reasonbank.store import evidence, memories
from reasonbank.store.context import Context
from reasonbank.store.probation import is_a_peers

COMMENT = "accepted in review"


def accept(
    context: Context, ids: Sequence[str], batch: str | None, changes: Mapping[str, Any] | None
) -> list[Memory]:
    """All of them or none; what is confirmed already and hidden for who wrote it is shown again."""
    _must_be_a_person(context, "accepts what is on probation")
    if changes and len(ids) != 1:
        raise InvalidInput("changes", "are for one memory at a time; give one id")

    def work(txn: Writing) -> list[Memory]:
        found = _named(context, txn, ids, batch)
        for id in found:
            if changes:
                memories.update_in(context, txn, id, changes)
            if (row := _reviewable(context, txn, id)).probation:
                of = text_digest(lesson(row.memory()))
                context.append(txn, EventType.ACCEPTED, id, {"of": of})
            else:
                evidence.observe_in(
                    context, txn, id, EvidenceKind.EXPLICIT, True, "review", COMMENT
                )
        return [context.memory(txn, context.row(txn, id)) for id in found]

    accepted = context.write(work)
    context.store.indexing.wake()
    return accepted


def reject(context: Context, ids: Sequence[str], batch: str | None, reason: str) -> list[Memory]:
    """To the archive, from where no agent brings it back."""
    _must_be_a_person(context, "rejects for good")
    reason = context.fit_comment(reason, "reason")

    def work(txn: Writing) -> list[Memory]:
        found = _named(context, txn, ids, batch)
        for id in found:
            if _reviewable(context, txn, id).state != State.ARCHIVED:
                told = {"reason": reason, "rejected": True}
                context.append(txn, EventType.ARCHIVED, id, told)
        return [context.memory(txn, context.row(txn, id)) for id in found]

    return context.write(work)


def must_be_free(context: Context, reading: Reading, id: str) -> None:
    """What a person rejected or took back, nobody else brings back or rewrites: by its words it is
    known when it is told again."""
    row = reading.row(context.view, id)
    if context.principal is Principal.PERSON or row is None or row.state != State.ARCHIVED:
        return
    archived = [
        event
        for event in reading.changes_of(context.view, id)
        if event.type is EventType.ARCHIVED and not event.taken_back
    ]
    last = max(archived, key=lambda e: e.order, default=None)
    if last is None:
        return
    if last.payload.get("rejected"):
        raise Forbidden(f"a person rejected memory {id}; only a person restores or changes it")
    if last.payload.get("reason") == REVERT and last.principal is Principal.PERSON:
        raise Forbidden(f"a person took memory {id} back; only a person restores or changes it")


def _reviewable(context: Context, reading: Reading, id: str) -> Row:
    """One's own, or what another bank shares with this workspace."""
    row = context.row(reading, id)
    return row if is_a_peers(row) else context.own_row(reading, id)


def _must_be_a_person(context: Context, what: str) -> None:
    if context.principal is not Principal.PERSON:
        raise Forbidden(
            f"only a person {what}: run `reasonbank review` in a terminal of your own, or open "
            "the page"
        )


def _named(context: Context, txn: Writing, ids: Sequence[str], batch: str | None) -> list[str]:
    given = (IdOf("memory").check(id, "ids", LIMITS) for id in ids)
    found = dict.fromkeys(context.whole_id("memory", id, "ids") for id in given)
    if batch is not None:
        steps = txn.batch(context.view, batch)
        if not steps:
            raise NotFound(f"there is no batch {batch} here; `reasonbank batches` shows them")
        made = (step.payload.get("created") for step in steps)
        found |= dict.fromkeys(id for id in made if id and txn.row(context.view, id) is not None)
    if not found:
        raise InvalidInput("ids", "is empty; name at least one memory, or a batch")
    return list(found)

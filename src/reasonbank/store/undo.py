"""Taking back: one change, a whole batch, or a memory for good."""

from __future__ import annotations

from reasonbank.errors import Refused
from reasonbank.fields import whole
from reasonbank.ledger.events import EventType, revisions, steps_back
from reasonbank.ledger.port import Writing
from reasonbank.model import Memory
from reasonbank.store import batches
from reasonbank.store.context import Context
from reasonbank.store.reviewing import must_be_free


def undo(context: Context, id: str, to: int | None) -> Memory:

    def work(txn: Writing) -> Memory:
        context.own_row(txn, id)
        must_be_free(context, txn, id)
        changes = txn.changes_of(context.view, id)
        batch = changes[0].batch or changes[0].payload.get("batch")
        if to is None and batch and len(changes) == 1:
            batches.revert(context, txn, batch, only=id)
            return context.memory(txn, context.row(txn, id))
        if to is not None:
            whole(to, "to", least=1, most=len(revisions(changes)))
        elif not (steps := steps_back(changes)):
            raise Refused(f"memory {id} has no change to undo; `forget` removes it")
        for told in [{}] * steps if to is None else [{"to": to}]:
            context.append(txn, EventType.UNDONE, id, told)
        return context.memory(txn, context.row(txn, id))

    memory = context.write(work)
    context.store.indexing.wake()
    return memory


def undo_batch(context: Context, id: str) -> batches.Undone:
    result = context.write(lambda txn: batches.revert(context, txn, id))
    context.store.indexing.wake()
    return result


def forget(context: Context, id: str) -> None:

    def work(txn: Writing) -> list[int]:
        rows = [context.own_row(txn, id), *batches.heirs(context, txn, id)]
        for row in reversed(rows):
            batches.release(context, txn, row.id)
            context.append(txn, EventType.FORGOTTEN, row.id, {})
        return [row.num for row in rows]

    with context.span("delete_memory", id):
        context.store.erase(context.write(work))

"""What is known of how memories fared, as it is reported."""

from __future__ import annotations

from reasonbank.errors import NotFound
from reasonbank.ledger.events import EventType, evidence_key
from reasonbank.ledger.port import Writing
from reasonbank.model import Evidence, EvidenceKind, Memory
from reasonbank.store.context import Context


def feedback(
    context: Context, id: str, helpful: bool, comment: str | None, session: str | None
) -> Memory:
    return _observe(context, id, EvidenceKind.EXPLICIT, helpful, session, comment)


def outcome(context: Context, id: str, succeeded: bool, session: str | None) -> Memory:
    return _observe(context, id, EvidenceKind.OUTCOME, succeeded, session)


def stability(context: Context, id: str, kept: bool, session: str | None) -> Memory:
    return _observe(context, id, EvidenceKind.STABILITY, kept, session)


def credit(context: Context, session: str, succeeded: bool, *, must_be_known: bool = False) -> int:
    """The end of a task says of all memories that it used, or will turn out to have used, how
    that went: it follows from both being in the log. So one of which nothing is known yet is
    refused only on request."""

    def work(txn: Writing) -> int:
        if must_be_known and not txn.knows_session(context.view, session):
            raise NotFound(
                f"nothing is known of a session {session!r} in workspace "
                f"{context.view.workspace}; give the name that its searches were given"
            )
        if txn.ended(context.view, session) is not succeeded:
            context.join(txn)
            context.append(txn, EventType.ENDED, session, {"succeeded": succeeded})
        return len(txn.session_uses(context.view, session, sharing=True))

    return context.write(work)


def held_out(context: Context, session: str) -> bool:
    """Whether this task was given no memory on purpose."""
    return context.read().withheld(context.view, session) is not None


def _observe(
    context: Context, id: str, kind: EvidenceKind, positive: bool, session: str | None,
    comment: str | None = None,
) -> Memory:  # fmt: skip
    if comment is not None:
        comment = context.fit_comment(comment, "comment", blank=True)

    def work(txn: Writing) -> Memory:
        observe_in(context, txn, id, kind, positive, session, comment)
        return context.memory(txn, context.row(txn, id))

    return context.write(work)


def observe_in(
    context: Context, txn: Writing, id: str, kind: EvidenceKind, positive: bool,
    session: str | None, comment: str | None = None, *, shared: bool = False,
    witnessed: bool = False,
) -> None:  # fmt: skip
    """Write an observation down, unless it is known already.

    ``shared``: it is told of a whole task, whatever other memories that was given.
    ``witnessed``: the bank itself saw what it rests on.
    """
    context.row(txn, id)
    if session is not None:
        key = evidence_key(context.view.workspace, id, kind, context.author, session)
        known = txn.observed(key)
        same = known is not None and known[:2] == (positive, shared)
        if (same and known and known[2] >= witnessed) or (shared and known and not known[1]):
            return
    payload = {"kind": str(kind), "positive": positive, "session": session, "comment": comment}
    marks = {"shared": shared, "witnessed": witnessed}
    payload |= {name: True for name, holds in marks.items() if holds}
    context.append(txn, EventType.OBSERVED, id, payload)


def of(context: Context, id: str) -> list[Evidence]:
    reading = context.settled_read()
    context.row(reading, id)
    return reading.evidence(context.view, id, everywhere=context.whole)

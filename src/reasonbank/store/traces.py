"""How tasks went, step by step, as they were reported."""

from __future__ import annotations

from dataclasses import replace

from reasonbank.errors import NotFound, Refused
from reasonbank.fields import checked
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.model import Trace, from_micros, to_micros
from reasonbank.store.commits import with_commits
from reasonbank.store.context import Context

DAY = 86_400_000_000


def store(context: Context, trace: Trace) -> Trace:
    trace = fit(context, trace)
    return context.write(lambda txn: store_in(context, txn, trace))


def fit(context: Context, trace: Trace) -> Trace:
    """``trace`` checked and without secrets, or an error that names the wrong field."""
    settings = context.settings
    trace = with_commits(checked(trace, settings.limits))
    if not settings.scrub:
        return trace
    from reasonbank.safety.scrub import clean_trace

    cleaned = clean_trace(trace)
    return trace if cleaned is trace else checked(cleaned, settings.limits)


def store_in(context: Context, txn: Writing, trace: Trace) -> Trace:
    if txn.trace(context.view, trace.id) is not None:
        raise Refused(f"trace {trace.id} is stored already")
    if txn.trace_taken(trace.id):
        raise Refused(f"the id {trace.id} cannot be used here; leave it out to get a new one")
    context.join(txn)
    at = txn.stamp()
    stored = replace(trace, created_at=trace.created_at or from_micros(at))
    assert stored.created_at is not None
    payload = {"trace": stored.to_json(), "at": to_micros(stored.created_at)}
    context.append(txn, EventType.TRACED, stored.id, payload, at=at)
    return stored


def get(context: Context, id: str) -> Trace:
    found = context.read().trace(context.view, id)
    if found is None:
        raise NotFound(f"there is no trace {id} in workspace {context.view.workspace}")
    return found


def listed(context: Context, limit: int) -> list[Trace]:
    return context.read().traces(context.view, limit)


def purge(context: Context, older_than_days: int) -> int:
    def work(txn: Writing) -> int:
        ids = txn.traces_before(context.view, context.now() - older_than_days * DAY)
        if ids:
            context.append(txn, EventType.PURGED, context.view.workspace, {"ids": ids})
        return len(ids)

    count = context.write(work)
    if count:
        context.store.ledger.scrub()
    return count

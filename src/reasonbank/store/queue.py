"""Sessions that wait to be learned from, and the other jobs of a workspace."""

from __future__ import annotations

from collections.abc import Callable

from reasonbank.errors import NotFound
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.model import Job, JobState, Trace, derived_id
from reasonbank.store import traces
from reasonbank.store.context import Context


def distil(context: Context, session: Trace) -> Job:
    trace = traces.fit(context, session)
    return context.write(lambda txn: distil_in(context, txn, trace))


def distil_in(context: Context, txn: Writing, trace: Trace) -> Job:
    job = Job(
        id=derived_id("distil", context.view.workspace, trace.id),
        kind="distil",
        subject=trace.id,
        workspace=context.view.workspace,
    )
    if txn.trace(context.view, trace.id) is None:
        traces.store_in(context, txn, trace)
    txn.queue.enqueue(job, context.now())
    return txn.queue.job(job.id) or job


def listed(context: Context, state: JobState | str | None, limit: int) -> list[Job]:
    states = tuple(JobState) if state is None else (JobState(state),)
    return context.read().queue.jobs(context.view.workspace, states, limit)


def retry(context: Context, id: str) -> Job:
    now = context.now()
    return _change(context, id, EventType.RETRIED, lambda txn: txn.queue.retry(id, now))


def drop(context: Context, id: str) -> Job:
    return _change(context, id, EventType.DROPPED, lambda txn: txn.queue.drop(id))


def _change(context: Context, id: str, type: EventType, change: Callable[[Writing], None]) -> Job:
    def work(txn: Writing) -> Job:
        job = txn.queue.job(id)
        if job is None or job.workspace != context.view.workspace:
            raise NotFound(f"there is no job {id} here; `reasonbank queue list` shows all")
        change(txn)
        context.note(txn, type, job.id)
        return txn.queue.job(job.id) or job

    return context.write(work)

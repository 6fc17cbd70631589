"""Sessions that wait to be learned from, and the other jobs of a workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from reasonbank.errors import NotFound
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.ledger.sessions import is_learned
from reasonbank.model import HandedIn, Job, JobState, Trace, derived_id
from reasonbank.store import traces
from reasonbank.store.context import Context


def distil(context: Context, session: Trace) -> HandedIn:
    trace = traces.fit(context, session)
    handed = context.write(lambda txn: distil_in(context, txn, trace))
    context.store.work_waits()
    return handed


def distil_in(context: Context, txn: Writing, trace: Trace) -> HandedIn:
    """Queue a session, or what is new of it; one that is being learned from is queued again by
    whoever does that (``again_if_grown``)."""
    job = Job(
        id=derived_id("distil", context.view.workspace, trace.id),
        kind="distil",
        subject=trace.id,
        workspace=context.view.workspace,
    )
    known = txn.trace(context.view, trace.id)
    if known is None:
        traces.store_in(context, txn, trace)
        new = len(trace.trajectory)
    else:
        new = traces.continue_in(context, txn, known, trace)
    if known is not None and not new and is_learned(known):
        done = txn.queue.job(job.id) or replace(job, state=JobState.DONE)
        return _handed(done, 0, "nothing is new: all of it was learned from before")
    queued = txn.queue.enqueue(job, context.now())
    job = txn.queue.job(job.id) or job
    if new and job.state in (JobState.DONE, JobState.DEAD):
        txn.queue.retry(job.id, context.now())
        job = txn.queue.job(job.id) or job
    if known is None or new:
        return _handed(job, new, f"{new} new steps wait to be learned from")
    return _handed(job, 0, "it waits already" if queued else f"it is {job.state} already")


def _handed(job: Job, new: int, message: str) -> HandedIn:
    return HandedIn(
        **{f.name: getattr(job, f.name) for f in fields(Job)}, new_steps=new, message=message
    )


def handed_in(context: Context, id: str) -> HandedIn:
    """How it stands with a session that was handed in."""
    job = context.read().queue.job(id)
    assert job is not None
    return _handed(job, 0, f"it is {job.state}")


def again_if_grown(context: Context, txn: Writing, job: Job) -> None:
    """A session that has gone on while it was learned from is queued again for the rest."""
    trace = txn.trace(context.view, job.subject)
    if trace is not None and not is_learned(trace):
        txn.queue.retry(job.id, context.now())


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

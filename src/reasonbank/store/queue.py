"""Sessions that wait to be learned from, and the other jobs of a workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.fields import text
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.ledger.sessions import is_learned
from reasonbank.model import HandedIn, Job, JobState, Trace, derived_id, to_micros
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


TRANSCRIPT = "transcript"
"""The kind of a job that reads what an agent wrote down of a session."""
MOST_LOOKED_AT = 500
SETTLING = 1_500_000
"""Some agents write down the end of a session only after their hooks have run."""
TOGETHER = ("opencode",)
"""The agents that keep all sessions in one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Where an agent wrote a session down: a file of its own, or one for all its sessions.

    ``path`` may be empty for an agent that keeps all of them in one place.
    """

    agent: str
    session: str
    path: str

    @property
    def key(self) -> str:
        """What is read once, whoever hands it over."""
        return f"{self.agent} {self.session}" if self.agent in TOGETHER else self.path

    def __str__(self) -> str:
        return f"{self.agent} {self.session or '-'} {self.path}"

    @classmethod
    def of(cls, subject: str) -> Transcript:
        """As it stands in a job."""
        agent, session, path = subject.split(" ", 2)
        return cls(agent=agent, session="" if session == "-" else session, path=path)


def hand_over(
    context: Context, *, agent: str, session: str, path: str, ended: bool = False
) -> None:
    """Queue that a transcript is to be read: soon done, since an agent waits for it.

    For the owner of this machine only, who may read any file: no token leads here. While it
    waits, to hand it over again changes nothing; later it is read again. One that has ``ended``
    is looked at for the last time once its agent had the time to write all of it.
    """
    if path or agent not in TOGETHER:
        path = _whole(path)
    handed = Transcript(agent=_word(agent, "agent"), session=_word(session, "session"), path=path)
    if hand_over_all(context, [handed], ended=ended):
        context.store.work_waits()


def ended_somewhere(context: Context, *, agent: str, session: str) -> None:
    """A session has ended, and nobody says where it is written down: as it was said before."""
    told = Transcript(agent=_word(agent, "agent"), session=_word(session, "session"), path="")
    jobs = context.read().queue.jobs(context.view.workspace, tuple(JobState), MOST_LOOKED_AT)
    known = [job.subject for job in jobs if job.kind == TRANSCRIPT]
    again = [Transcript.of(subject) for subject in known if subject.startswith(str(told))]
    if session and again and hand_over_all(context, again, ended=True):
        context.store.work_waits()


def hand_over_all(
    context: Context, transcripts: Sequence[Transcript], *, ended: bool = False
) -> int:
    """Queue them in this order; how many did not wait already."""
    jobs = [_reading(context, transcript, ended) for transcript in transcripts]
    reading = context.read().queue
    now = context.now() + SETTLING * ended
    if all(_is_soon(reading.job(job.id), now) for job in jobs):
        return 0

    def work(txn: Writing) -> int:
        return sum(_again(txn, job, now + place) for place, job in enumerate(jobs))

    return context.write(work)


def id_of(transcript: Transcript) -> str:
    """Of the job that reads it."""
    return derived_id(TRANSCRIPT, transcript.key)


def _reading(context: Context, transcript: Transcript, ended: bool) -> Job:
    """The last look is a job of its own: another may be at work on the file just now."""
    id = id_of(transcript)
    return Job(
        id=derived_id(TRANSCRIPT, id, "ended") if ended else id,
        kind=TRANSCRIPT,
        subject=str(transcript),
        workspace=context.view.workspace,
    )


def _again(txn: Writing, job: Job, now: int) -> bool:
    """Whoever reads it now looks at its end whether it has grown meanwhile."""
    if txn.queue.enqueue(job, now):
        return True
    known = txn.queue.job(job.id)
    if known is None or known.state is JobState.RUNNING or _is_soon(known, now):
        return False
    txn.queue.retry(job.id, now)
    return True


def _is_soon(job: Job | None, now: int) -> bool:
    if job is None or job.due is None:
        return False
    return job.state is JobState.WAITING and to_micros(job.due) <= now


def _word(value: str, name: str) -> str:
    """As a part of a job's subject: without spaces."""
    return "".join(text(value, name, 200, blank=True).split())


def _whole(path: str) -> str:
    path = text(path, "path", 4096)
    if not os.path.isabs(path):
        raise InvalidInput("path", f"is not absolute: {path[:200]!r}")
    return os.path.normpath(path)


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

"""Who works on a bank: of all the processes that have it open, one at a time.

The post is a job of the queue that is never done, so that it is held by a lease like any other:
whoever ends leaves it, and whoever is killed, or falls silent for a minute, loses it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from reasonbank.errors import LeaseLost, StorageError
from reasonbank.ledger import holders
from reasonbank.ledger.port import LEASE, POST, QueueReading, Writing
from reasonbank.model import JSON, Job, JobState, derived_id, from_micros, to_micros
from reasonbank.store.context import Context

_ID = derived_id(POST)
BY_HAND = "worker"
"""The surface of a process that does nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The process that learns, merges and maintains. ``last_run`` is when it last did a job."""

    surface: str
    pid: int | None
    since: datetime
    last_run: datetime | None

    def __str__(self) -> str:
        process = "a process elsewhere" if self.pid is None else f"process {self.pid}"
        return f"{self.surface} ({process})"


def who(context: Context) -> Working | None:
    """Whoever works on this bank just now."""
    job = _held(context.read().queue, context.now())
    if job is None:
        return None
    told = job.checkpoint or {}
    last = told.get("last_run")
    return Working(
        surface=str(told.get("surface", BY_HAND)),
        pid=holders.pid_here(job.claim or ""),
        since=from_micros(told.get("since", 0)),
        last_run=None if last is None else from_micros(last),
    )


def take(context: Context, name: str) -> Job | None:
    """The post, if nobody has it; ``name`` is one of ``holders``."""
    now = context.now()
    # Asked often: only who finds it free needs a transaction.
    if _held(context.read().queue, now) is not None:
        return None

    def work(txn: Writing) -> Job | None:
        txn.queue.enqueue(Job(id=_ID, kind=POST, subject=POST, workspace=""), now)
        job = txn.queue.claim_one(_ID, name, now, now + LEASE)
        if job is not None:
            txn.queue.checkpoint(job, {"surface": context.surface, "since": now})
        return job

    return context.store.ledger.write(work)


def keep(context: Context, job: Job, since: int, last_run: int | None) -> None:
    """Say that its holder still works; ``LeaseLost`` if another has it by now."""
    told: JSON = {"surface": context.surface, "since": since}
    if last_run is not None:
        told["last_run"] = last_run

    def work(txn: Writing) -> None:
        txn.queue.hold(job, context.now() + LEASE)
        txn.queue.checkpoint(job, told)

    context.store.ledger.write(work)


def leave(context: Context, job: Job) -> None:
    with suppress(LeaseLost, StorageError):
        context.store.ledger.write(lambda txn: txn.queue.release(job, context.now()))


def _held(queue: QueueReading, now: int) -> Job | None:
    """The post, if somebody has it."""
    job = queue.job(_ID)
    if job is None or job.state is not JobState.RUNNING or job.due is None:
        return None
    # A lease that ends later than any could was written before the clock was set back.
    if not now < to_micros(job.due) <= now + 2 * LEASE or holders.is_gone(job.claim or ""):
        return None
    return job

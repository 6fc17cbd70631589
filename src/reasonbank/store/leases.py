"""Whose turn it is: work on a workspace that one worker does at a time, now and then.

A turn is a job of the queue, so the ledger knows when the last one was, a worker that dies
loses it, and of several that start at once one gets it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.to_thread

from reasonbank.errors import Refused, StorageError
from reasonbank.ledger import holders
from reasonbank.ledger.port import LEASE, Writing
from reasonbank.model import Job, JobState, to_micros
from reasonbank.store.context import Context

HOUR = 3_600_000_000


def take(context: Context, kind: str, *, hours: float) -> Job | None:
    """This workspace's turn, now; None if the last one is not ``hours`` ago.

    A turn that waits for a worker is taken over; one that is under way is refused.
    """
    now = context.now()
    name = holders.name()

    def work(txn: Writing) -> Job | None:
        latest = txn.queue.latest(kind, context.view.workspace)
        if latest is not None and latest.state in (JobState.WAITING, JobState.RUNNING):
            if job := txn.queue.claim_one(latest.id, name, now, now + LEASE):
                return job
            raise Refused(f"another {kind} of this workspace is under way; wait until it has ended")
        if latest is not None and latest.state is JobState.DONE:
            assert latest.created_at is not None
            # One that lies ahead was written by a clock that was wrong.
            if 0 <= now - to_micros(latest.created_at) < hours * HOUR:
                return None
        job = Job(kind=kind, subject=context.view.workspace, workspace=context.view.workspace)
        txn.queue.enqueue(job, now)
        return txn.queue.claim_one(job.id, name, now, now + LEASE)

    return context.write(work)


@asynccontextmanager
async def prolonged(context: Context, job: Job) -> AsyncIterator[None]:
    """Keep a job while the work on it goes on; ``LeaseLost`` ends the work at once."""
    ledger = context.store.ledger

    async def hold() -> None:
        while True:
            await anyio.sleep(LEASE / 3 / 1_000_000)
            with suppress(StorageError):
                await anyio.to_thread.run_sync(prolong)

    def prolong() -> None:
        until = context.now() + LEASE
        ledger.write(lambda txn: txn.queue.hold(job, until))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise _first_of(errors) from None


@asynccontextmanager
async def held(context: Context, job: Job) -> AsyncIterator[None]:
    """Keep the turn while the work goes on, and end it with the work."""
    ledger = context.store.ledger
    try:
        async with prolonged(context, job):
            yield
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"[:2000]
        with suppress(Refused, StorageError):
            ledger.write(lambda txn: txn.queue.fail(job, reason, None))
        raise
    await anyio.to_thread.run_sync(lambda: ledger.write(lambda txn: txn.queue.finish(job)))


def _first_of(error: BaseException) -> BaseException:
    """What went wrong, without the groups that tasks wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

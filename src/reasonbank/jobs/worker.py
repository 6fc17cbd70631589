"""Workers take jobs from the queue, think, and store what came of it, each job once.

A job's effects and its end are one transaction, fenced by the claim: a worker that was
killed, or fell silent for a minute, has changed nothing, and another does the job anew.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import anyio.to_thread

from reasonbank.errors import InvalidInput, LeaseLost, NotFound, ReasonBankError, StorageError
from reasonbank.ledger import holders
from reasonbank.ledger.port import LEASE, LONGEST_PAUSE, Writing
from reasonbank.model import JSON, Job, Principal
from reasonbank.safety.scrub import clean, clean_json
from reasonbank.store.context import Context
from reasonbank.store.leases import prolonged

T = TypeVar("T")

FIRST_PAUSE = 2_000_000
IDLE_SECONDS = 1.0

log = logging.getLogger(__name__)

Effects = Callable[[Context, Writing], None]
"""What a finished job writes; it runs in the transaction that ends the job."""


@dataclass(slots=True)
class Work:
    """One attempt at one job; ``bank`` is seen from the job's workspace."""

    job: Job
    context: Context
    learned: tuple[str, ...] = ()
    """The memories that came of it, once its effects are written."""
    left: JSON | None = None
    """What the same job wants to know when it is asked for again."""

    async def checkpoint(self, value: JSON) -> None:
        """Keep what was paid for, so that the next attempt need not pay again."""
        ledger = self.context.store.ledger
        value = clean_json(value)
        await _thread(lambda: ledger.write(lambda txn: txn.queue.checkpoint(self.job, value)))
        self.job = replace(self.job, checkpoint=value)


Task = Callable[[Work], Awaitable[Effects]]


class Worker:
    def __init__(
        self,
        context: Context,
        tasks: Mapping[str, Task],
        *,
        slots: int = 2,
        max_attempts: int = 5,
        idle_seconds: float = IDLE_SECONDS,
        rng: random.Random | None = None,
        workspace: str | None = None,
        only: Sequence[str] | None = None,
        at_work: Callable[[], bool] = lambda: True,
    ) -> None:
        """``workspace``: do its jobs alone; ``only``: these jobs. No job is taken while it is
        not ``at_work``."""
        self._context = context
        self._ledger = context.store.ledger
        self._tasks = tasks
        self._slots = slots
        self._max_attempts = max_attempts
        self._idle = idle_seconds
        self._rng = rng or random.Random()  # nosec B311  # how long to pause
        self._name = holders.name()
        self._workspace = workspace
        self._only = None if only is None else list(only)
        self._at_work = at_work
        self._stopping = False
        self._news = anyio.Event()
        self.done = 0
        self.finished: Callable[[Work], None] = lambda work: None
        self.failed: Callable[[Job, str], None] = lambda job, reason: None

    def stop(self) -> None:
        """Take no more jobs; those under way are finished."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        self._news.set()
        self._news = anyio.Event()

    async def run(self, *, until_empty: bool = False) -> int:
        """Work until stopped, or until nothing is due; how many jobs were done."""
        async with anyio.create_task_group() as group:
            for number in range(self._slots):
                group.start_soon(self._slot, f"{self._name}-{number}", until_empty)
        return self.done

    async def _slot(self, claim: str, until_empty: bool) -> None:
        while not self._stopping:
            news = self._news
            try:
                job = await _thread(lambda: self._claim(claim)) if self._at_work() else None
                if job is not None:
                    await self._attempt(job)
                    continue
            except StorageError as error:
                # A full disk, or a store that is away: jobs wait, and leases run out.
                log.warning("the queue cannot be read or written: %s", error)
            if until_empty:
                return
            with anyio.move_on_after(self._idle):
                await news.wait()

    def _claim(self, claim: str) -> Job | None:
        # One at a time: of ten jobs that were claimed together, the one that kills its
        # worker would use up the attempts of the other nine.
        now = self._context.now()
        kinds, workspace = tuple(self._tasks), self._workspace
        if self._only is not None:
            id = self._only.pop() if self._only else ""
            return self._ledger.write(lambda txn: txn.queue.claim_one(id, claim, now, now + LEASE))
        if not self._ledger.read().queue.due(now, kinds, workspace):
            return None
        taken = self._ledger.write(
            lambda txn: txn.queue.claim(claim, now, 1, self._max_attempts, kinds, workspace)
        )
        return taken[0] if taken else None

    async def _attempt(self, job: Job) -> None:
        # Whoever started it: what it concludes is a model's, and what it reads in, the bank's.
        context = self._context.seen_by(
            workspace=job.workspace, surface="worker", principal=Principal.MODEL
        )
        work = Work(job=job, context=context)
        try:
            async with prolonged(self._context, job):
                effects = await self._tasks[job.kind](work)
                await _thread(lambda: self._finish(work, effects))
            self.done += 1
            self.finished(work)
        except Exception as error:  # noqa: BLE001  (the worker outlives any job)
            await self._failed(job, error)
        except anyio.get_cancelled_exc_class():
            # Whoever ends this worker does not wait: the next one does the job, from where its
            # checkpoint is. What was just finished is nobody's any more.
            with anyio.CancelScope(shield=True), suppress(LeaseLost, StorageError):
                now = self._context.now()
                await _thread(lambda: self._ledger.write(lambda txn: txn.queue.release(job, now)))
            raise

    def _finish(self, work: Work, effects: Effects) -> None:
        def both(txn: Writing) -> None:
            txn.queue.finish(work.job, work.left)
            effects(work.context, txn)

        self._ledger.write(both)
        self._context.store.indexing.wake()

    async def _failed(self, job: Job, error: Exception) -> None:
        if isinstance(error, LeaseLost):
            return  # Another worker has it, and will do all of it.
        reason = clean(f"{type(error).__name__}: {error}")[:2000]
        if not isinstance(error, ReasonBankError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"unexpected {type(error).__name__} at {where.filename}:{where.lineno}"
        hopeless = isinstance(error, InvalidInput | NotFound) or job.attempts >= self._max_attempts
        due = None if hopeless else self._context.now() + self._pause(job.attempts)
        log.warning("job %s (%s), attempt %d: %s", job.id, job.kind, job.attempts, reason)
        self.failed(job, reason)
        with suppress(LeaseLost, StorageError):
            await _thread(lambda: self._ledger.write(lambda txn: txn.queue.fail(job, reason, due)))

    def _pause(self, attempts: int) -> int:
        """Full jitter: many jobs that failed together do not come back together."""
        return int(self._rng.uniform(0, min(FIRST_PAUSE * 2**attempts, LONGEST_PAUSE)))


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)

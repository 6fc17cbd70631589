"""What has to be done now and then for each project: consolidate, maintain, promote.

The schedule only queues; a worker does, with its leases, attempts and clean stop. When a
project's turn was last is in the queue itself, so a restart forgets nothing, and several
workers queue a turn once. The first merge comes an interval after the first memory: whoever
starts a server, or has just filled a bank, has time to look at what would be merged.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.to_thread

from reasonbank.errors import StorageError
from reasonbank.jobs.worker import Effects, Task, Work
from reasonbank.learn import stability
from reasonbank.ledger.port import Reading, Writing
from reasonbank.llm.port import Model
from reasonbank.model import Job, JobState, to_micros
from reasonbank.settings import Settings
from reasonbank.store import leases, maintenance
from reasonbank.store.context import Context
from reasonbank.tidy import consolidate, promote

MAINTAIN = "maintain"
JITTER = 0.1
"""The part of the interval by which turns of many projects are spread."""
LOOK_SECONDS = 60.0
KEPT_DAYS = 30
LIMIT_MINUTES = 10.0  # For one task of one project; the rest is done the next time.
"""So long the queue remembers what is done."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTask:
    kind: str
    workspace: str


class Scheduler:
    def __init__(
        self, context: Context, *, model: Model | None = None, workspace: str | None = None
    ) -> None:
        """``workspace``: give turns to it alone."""
        self._context = context
        self._workspace = workspace
        self._model = model
        self._stopping = anyio.Event()
        self._hours = dict(turns(context.settings))

    def due(self) -> list[DueTask]:
        """The turns that are due and not queued yet, by default for all projects of the bank."""
        reading = self._context.read()
        now = self._context.now()
        return [
            DueTask(kind=kind, workspace=place.id)
            for place in reading.workspaces()
            if self._workspace in (None, place.id)
            for kind, hours in self._hours.items()
            if hours and _is_due(reading, DueTask(kind=kind, workspace=place.id), hours, now)
        ]

    def queue(self) -> int:
        """Queue what is due; how many turns that were."""
        now = self._context.now()

        def work(txn: Writing) -> int:
            count = 0
            for turn in due:
                # Another worker may have queued it since.
                if _is_due(txn, turn, self._hours[turn.kind], now):
                    place = turn.workspace
                    txn.queue.enqueue(Job(kind=turn.kind, subject=place, workspace=place), now)
                    count += 1
            return count

        due = self.due()
        return self._context.store.ledger.write(work) if due else 0

    def tasks(self) -> Mapping[str, Task]:
        """What a worker does for each kind of turn."""
        return {
            consolidate.KIND: self._consolidate,
            MAINTAIN: self._maintain,
            promote.KIND: self._promote,
        }

    async def run(self) -> None:
        """Queue turns as they become due, until stopped."""
        while not self._stopping.is_set():
            try:
                await anyio.to_thread.run_sync(self.queue)
            except StorageError as error:
                log.warning("the schedule cannot be read or written: %s", error)
            with anyio.move_on_after(LOOK_SECONDS):
                await self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()

    async def _consolidate(self, work: Work) -> Effects:
        async def all_of_it() -> None:
            plan, _ = await anyio.to_thread.run_sync(
                lambda: consolidate.look(work.context, unread=self._model is None),
                abandon_on_cancel=True,
            )
            result = await consolidate.carry_out(work.context, plan, work.job, model=self._model)
            log.info("workspace %s: %s", work.job.workspace, result.message)

        return await self._within_limit(work, all_of_it)

    async def _maintain(self, work: Work) -> Effects:
        async def all_of_it() -> None:
            looked = await anyio.to_thread.run_sync(
                lambda: stability.observe(work.context), abandon_on_cancel=True
            )
            if looked.observed:
                log.info("workspace %s: git told of %d", work.job.workspace, looked.observed)
            await anyio.to_thread.run_sync(
                lambda: maintenance.maintain(work.context), abandon_on_cancel=True
            )

        effects = await self._within_limit(work, all_of_it)

        def tidy(context: Context, txn: Writing) -> None:
            effects(context, txn)
            longest = max(self._hours.values()) * 2 / 24
            txn.queue.drop_done(context.now() - int(max(KEPT_DAYS, longest) * maintenance.DAY))

        return tidy

    async def _promote(self, work: Work) -> Effects:
        async def all_of_it() -> None:
            await anyio.to_thread.run_sync(
                lambda: promote.promote(work.context, job=work.job), abandon_on_cancel=True
            )

        return await self._within_limit(work, all_of_it)

    async def _within_limit(self, work: Work, act: Callable[[], Awaitable[None]]) -> Effects:
        """What takes longer ends; its transactions are whole, and the rest comes next time."""
        with anyio.move_on_after(LIMIT_MINUTES * 60) as limit:
            await act()
        if limit.cancelled_caught:
            log.warning(
                "%s of workspace %s was ended after %g minutes",
                work.job.kind, work.job.workspace, LIMIT_MINUTES,
            )  # fmt: skip
        return lambda context, txn: None


def turns(settings: Settings) -> list[tuple[str, float]]:
    """What is done now and then, and every how many hours; 0 is never."""
    times = settings.schedule
    return [
        (consolidate.KIND, times.consolidate_hours),
        (MAINTAIN, times.maintain_hours),
        (promote.KIND, times.promote_hours),
    ]


def _is_due(reading: Reading, turn: DueTask, hours: float, now: int) -> bool:
    due = next_turn(reading, turn.kind, turn.workspace, hours)
    # A last one that lies ahead was written by a clock that was wrong.
    return due is not None and not now < due <= now + _pause(turn.kind, turn.workspace, hours)


def next_turn(reading: Reading, kind: str, workspace: str, hours: float) -> int | None:
    """When it is due (microseconds); None if it is queued already, or never."""
    latest = reading.queue.latest(kind, workspace)
    if not hours or (latest and latest.state in (JobState.WAITING, JobState.RUNNING)):
        return None
    if latest is not None:
        assert latest.created_at is not None
        since = to_micros(latest.created_at)
    elif kind == consolidate.KIND:
        since = reading.joined(workspace) or 0
    else:
        return 0
    return since + _pause(kind, workspace, hours)


def _pause(kind: str, workspace: str, hours: float) -> int:
    return int(hours * leases.HOUR * (1 + JITTER * _share(f"{kind} {workspace}")))


def _share(text: str) -> float:
    """0 to 1, always the same for one project, so that a restart moves no turn."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32

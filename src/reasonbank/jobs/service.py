"""The work on a bank, as its settings want it: in the foreground, beside a server, or by a call.

Every process that has a bank open for long may work on it. Those that serve others work one at a
time (``store.working``): the next one takes over when it ends, however it ends.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from reasonbank.errors import LeaseLost, StorageError
from reasonbank.jobs import reader
from reasonbank.jobs.embedder import BackgroundEmbedder
from reasonbank.jobs.learner import tasks
from reasonbank.jobs.schedule import Scheduler
from reasonbank.jobs.worker import Work, Worker
from reasonbank.ledger import holders
from reasonbank.ledger.port import LEASE
from reasonbank.llm.port import Model
from reasonbank.model import Job
from reasonbank.store import working
from reasonbank.store.context import Context, reasoner_of

T = TypeVar("T")

STANDBY_SECONDS = 2.0
"""How often those who do not work look whether somebody does."""


class WorkerService:
    """The worker of a bank and the schedule that gives it turns."""

    def __init__(
        self,
        context: Context,
        model: Model | None,
        *,
        turns: bool = True,
        stands_by: bool = False,
        workspace: str | None = None,
        only: Sequence[str] | None = None,
    ) -> None:
        """Without ``turns`` it only learns from sessions; one that ``stands_by`` works only while
        no other process does. ``workspace`` and ``only`` as for a ``Worker``."""
        reasoner = reasoner_of(context)
        thinker = model if reasoner == "model" else None
        self._context = context
        self._model = model
        self._turns = turns
        self._post: Job | None = None
        self._last_run: int | None = None
        self._stopping = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._since = self._said = 0
        self._embedder = BackgroundEmbedder(context)
        self._schedule = Scheduler(context, model=thinker, workspace=workspace)
        # What the calling agents learn from themselves is left to them.
        learning = {} if reasoner == "agent" else tasks(thinker)
        self.worker = Worker(
            context,
            {**reader.tasks(), **learning, **(self._schedule.tasks() if turns else {})},
            slots=1 if only is not None else context.settings.learn.workers,
            workspace=workspace,
            only=only,
            at_work=(lambda: self._post is not None) if stands_by else (lambda: True),
        )
        self.worker.finished = self._note

    def _note(self, work: Work) -> None:
        self._last_run = self._context.now()

    def stop(self) -> None:
        """What is under way is finished."""
        self._stopping.set()
        self._embedder.stop()
        self._schedule.stop()
        self.worker.stop()

    def cancel(self) -> None:
        """What is under way is given back."""
        self.stop()
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, *, until_empty: bool) -> int:
        try:
            with anyio.CancelScope() as self._scope:
                if until_empty:
                    if self._turns:
                        await anyio.to_thread.run_sync(self._schedule.queue)
                    return await self.worker.run(until_empty=True)
                self._embedder.start()
                await self._try_for_post()
                async with anyio.create_task_group() as group:
                    group.start_soon(self._hold_post)
                    group.start_soon(self._schedule.run)
                    await self.worker.run()
            return self.worker.done
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._embedder.join)
                await self._leave_post()
                if self._model is not None:
                    await self._model.close()

    async def _hold_post(self) -> None:
        """Take the post when it is free, and keep it until the end."""
        told = self._last_run
        while not self._stopping.is_set():
            with anyio.move_on_after(STANDBY_SECONDS):
                await self._stopping.wait()
                return
            if self._post is None:
                await self._try_for_post()
            elif told != self._last_run or abs(self._context.now() - self._said) >= LEASE / 3:
                told = self._last_run
                await self._say_so()

    async def _try_for_post(self) -> None:
        context = self._context
        try:
            name = holders.name()
            self._post = await anyio.to_thread.run_sync(lambda: working.take(context, name))
        except StorageError:
            return  # A full disk: the worker says so, and the next look may find it mended.
        if self._post is not None:
            self._since = self._said = context.now()
            self.worker.wake()

    async def _say_so(self) -> None:
        context, post, since, last = self._context, self._post, self._since, self._last_run
        assert post is not None
        try:
            await anyio.to_thread.run_sync(lambda: working.keep(context, post, since, last))
            self._said = context.now()
        except LeaseLost:
            self._post = None  # This process stood still for a while, and another took over.
        except StorageError:
            pass

    async def _leave_post(self) -> None:
        if (post := self._post) is not None:
            self._post = None
            await anyio.to_thread.run_sync(lambda: working.leave(self._context, post))


def work(context: Context, model: Model | None, *, until_empty: bool) -> int:
    """Work until nothing is due, or until SIGINT or SIGTERM; how many jobs were done."""

    async def run() -> int:
        service = WorkerService(context, model)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, service.stop)
        return await service.run(until_empty=until_empty)

    return asyncio.run(run())


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What was done: jobs by their kind, and the ids of the memories that were learned.

    ``failed`` are jobs that went wrong, each with its reason; they are tried again later, and
    ``waiting`` counts all that is still to be done.
    """

    done: Mapping[str, int]
    learned: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    waiting: int


def work_now(
    context: Context,
    model: Model | None,
    *,
    workspace: str | None,
    turns: bool = True,
    only: Sequence[str] | None = None,
) -> Worked:
    """Do all that is due, then return; ``workspace``, ``only`` as for a ``Worker``."""
    done: Counter[str] = Counter()
    learned: list[str] = []
    failed: list[tuple[str, str]] = []

    def finished(work: Work) -> None:
        done[work.job.kind] += 1
        learned.extend(work.learned)

    async def run() -> None:
        service = WorkerService(context, model, turns=turns, workspace=workspace, only=only)
        service.worker.finished = finished
        service.worker.failed = lambda job, reason: failed.append((job.id, reason))
        await service.run(until_empty=True)

    _run(run())
    depth = context.read().queue.depth(workspace)
    return Worked(
        done=dict(done),
        learned=tuple(dict.fromkeys(learned)),
        failed=tuple(failed),
        waiting=depth.waiting + depth.running,
    )


def _run(work: Coroutine[Any, Any, T]) -> T:
    """From wherever it is called, also from within an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()

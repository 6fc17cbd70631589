"""A worker for a bank, as its settings want it: in the foreground, or beside a server."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.to_thread

from reasonbank.jobs.learner import reasoner_of, tasks
from reasonbank.jobs.schedule import Scheduler
from reasonbank.jobs.worker import Worker
from reasonbank.llm.port import Model
from reasonbank.store.context import Context

FAREWELL_SECONDS = 10.0
"""What is not done by then is done anew by the next worker."""


class WorkerService:
    """The worker of a bank and the schedule that gives it turns."""

    def __init__(self, context: Context, model: Model | None, *, turns: bool = True) -> None:
        """Without ``turns`` it only learns from sessions."""
        reasoner = reasoner_of(context.settings, model=context.store.thinker is not None)
        thinker = model if reasoner == "model" else None
        self._model = model
        self._turns = turns
        self._schedule = Scheduler(context, model=thinker)
        # What the calling agents learn from themselves is left to them.
        learning = {} if reasoner == "agent" else tasks(thinker)
        self._worker = Worker(
            context,
            {**learning, **(self._schedule.tasks() if turns else {})},
            slots=context.settings.learn.workers,
        )

    def stop(self) -> None:
        self._schedule.stop()
        self._worker.stop()

    async def run(self, *, until_empty: bool) -> int:
        try:
            if until_empty:
                if self._turns:
                    await anyio.to_thread.run_sync(self._schedule.queue)
                return await self._worker.run(until_empty=True)
            async with anyio.create_task_group() as group:
                group.start_soon(self._schedule.run)
                done = await self._worker.run()
            return done
        finally:
            if self._model is not None:
                await self._model.close()


def work(context: Context, model: Model | None, *, until_empty: bool, turns: bool = True) -> int:
    """Work until nothing is due, or until SIGINT or SIGTERM; how many jobs were done."""

    async def run() -> int:
        service = WorkerService(context, model, turns=turns)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, service.stop)
        return await service.run(until_empty=until_empty)

    return asyncio.run(run())


@contextmanager
def in_background(context: Context, model: Model | None) -> Iterator[None]:
    """A worker in a thread of its own; whoever leaves waits a while for what is under way."""
    started: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, WorkerService]] = (
        queue.SimpleQueue()
    )

    async def run() -> None:
        service = WorkerService(context, model)
        started.put((asyncio.get_running_loop(), service))
        await service.run(until_empty=False)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="worker", daemon=True)
    thread.start()
    loop, service = started.get()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(service.stop)
        thread.join(FAREWELL_SECONDS)

"""A worker for a bank, as its settings want it: in the foreground, or beside a server."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from reasonbank.bank import Bank
from reasonbank.learn.learner import reasoner_of, tasks
from reasonbank.learn.worker import Worker
from reasonbank.llm.port import Model

FAREWELL_SECONDS = 10.0
"""What is not done by then is done anew by the next worker."""


def worker_of(bank: Bank, model: Model | None) -> Worker:
    """What the calling agents learn from themselves is left to them."""
    reasoner = reasoner_of(bank.settings)
    does = {} if reasoner == "agent" else tasks(model if reasoner == "model" else None)
    learn = bank.settings.learn
    return Worker(bank, does, slots=learn.workers, max_attempts=learn.attempts)


def work(bank: Bank, model: Model | None, *, until_empty: bool) -> int:
    """Work until nothing is due, or until SIGINT or SIGTERM; how many jobs were done."""

    async def run() -> int:
        worker = worker_of(bank, model)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        return await _run(worker, model, until_empty)

    return asyncio.run(run())


async def _run(worker: Worker, model: Model | None, until_empty: bool) -> int:
    try:
        return await worker.run(until_empty=until_empty)
    finally:
        if model is not None:
            await model.close()


@contextmanager
def beside(bank: Bank, model: Model | None) -> Iterator[None]:
    """A worker in a thread of its own; whoever leaves waits a while for what is under way."""
    started: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Worker]] = queue.SimpleQueue()

    async def run() -> None:
        worker = worker_of(bank, model)
        started.put((asyncio.get_running_loop(), worker))
        await _run(worker, model, until_empty=False)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="worker", daemon=True)
    thread.start()
    loop, worker = started.get()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join(FAREWELL_SECONDS)

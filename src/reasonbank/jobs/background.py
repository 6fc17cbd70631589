"""Work on a bank in a thread of its own, beside whatever else its process does.

Nothing heavy is loaded before the thread runs: a server that starts answers first.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reasonbank.store.context import Context

if TYPE_CHECKING:
    from reasonbank.jobs.service import WorkerService
    from reasonbank.llm.port import Model

FAREWELL_SECONDS = 10.0
"""What is not done by then is given back, and done by the next worker."""
CANCEL_SECONDS = 5.0
QUIET_SECONDS = 1.0


class Background:
    """The service of a bank, from ``start`` to ``stop``."""

    def __init__(
        self,
        context: Context,
        model: Callable[[], Model | None],
        *,
        quiet: float = 0.0,
        farewell: float = FAREWELL_SECONDS,
    ) -> None:
        """``model`` is asked for in the thread, after ``quiet`` seconds without work."""
        self._context = context
        self._model = model
        self._quiet = quiet
        self._farewell = farewell
        self._news = threading.Event()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._service: WorkerService | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)
        context.store.work_waits = self.wake

    def start(self) -> None:
        """Twice changes nothing."""
        with self._lock:
            if self._thread.ident is None and not self._stopping:
                self._thread.start()

    def wake(self) -> None:
        """Something was queued."""
        self._news.set()
        self._tell(lambda service: service.worker.wake())

    def stop(self) -> None:
        """Wait a while for what is under way; what takes longer is given back."""
        with self._lock:
            self._stopping = True
            started = self._thread.ident is not None
        self._context.store.work_waits = lambda: None
        self._news.set()
        self._tell(lambda service: service.stop())
        if started:
            self._thread.join(self._farewell)
            if self._thread.is_alive():
                self._tell(lambda service: service.cancel())
                self._thread.join(CANCEL_SECONDS)

    def _work(self) -> None:
        self._news.wait(self._quiet)
        if not self._stopping:
            asyncio.run(self._run())

    async def _run(self) -> None:
        from reasonbank.jobs.service import WorkerService

        service = WorkerService(self._context, self._model(), stands_by=True)
        with self._lock:
            self._loop, self._service = asyncio.get_running_loop(), service
            if self._stopping:
                service.stop()
        try:
            await service.run(until_empty=False)
        finally:
            with self._lock:
                self._loop = self._service = None

    def _tell(self, what: Callable[[WorkerService], None]) -> None:
        with self._lock:
            if self._loop is not None and (service := self._service) is not None:
                self._loop.call_soon_threadsafe(what, service)


@contextmanager
def in_background(context: Context, model: Model | None) -> Iterator[None]:
    """Work beside what is done within; whoever leaves waits a while for what is under way."""
    background = Background(context, lambda: model)
    background.start()
    try:
        yield
    finally:
        background.stop()

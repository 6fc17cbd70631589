"""The bus in a thread of its own, beside whatever else its process does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from reasonbank.errors import ReasonBankError, Refused
from reasonbank.peers.bus import Bus
from reasonbank.peers.membership import identity_of
from reasonbank.peers.quic import Quic
from reasonbank.peers.tasks import Solver
from reasonbank.peers.transport import AddressTaken, ConnectionEnded
from reasonbank.store.context import Context

FAREWELL_SECONDS = 10.0
PAUSE_SECONDS = 5.0
"""Before a bus that something went wrong with begins anew."""
_log = logging.getLogger("reasonbank.bus")


@contextmanager
def in_touch(context: Context, address: str, solver: Solver | None = None) -> Iterator[str]:
    """Be in touch with other banks while something else is done; the address it listens at."""
    service = _Service(context, address, solver)
    listens_at = service.start()
    try:
        yield listens_at
    finally:
        service.stop()


class _Service:
    def __init__(self, context: Context, address: str, solver: Solver | None) -> None:
        self._context = context
        self._address = address
        self._solver = solver
        self._ready = threading.Event()
        self._listens_at: str | None = None
        self._problem: ReasonBankError | None = None
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="bus", daemon=True)

    def start(self) -> str:
        self._thread.start()
        self._ready.wait()
        if self._listens_at is None:
            self._thread.join()
            raise self._problem or Refused("the bus has not started")
        return self._listens_at

    def stop(self) -> None:
        def cancel() -> None:
            if self._main is not None:
                self._main.cancel()

        with suppress(RuntimeError):  # It has ended by itself.
            self._loop.call_soon_threadsafe(cancel)
        self._thread.join(FAREWELL_SECONDS)

    def _work(self) -> None:
        try:
            self._main = self._loop.create_task(self._run())
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._main)
        except ReasonBankError as problem:
            self._problem = problem
            _log.error("the bus has ended: %s", problem)
        finally:
            self._ready.set()
            self._loop.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._be_in_touch()
            except Exception as problem:
                if self._listens_at is None:
                    raise
                _log.error("the bus begins anew: %r", problem)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _be_in_touch(self) -> None:
        transport = Quic(identity_of(self._context))
        async with Bus(self._context, transport, solver=self._solver) as bus:
            try:
                self._listens_at = await bus.listen(self._address)
            except ConnectionEnded as error:
                stop = "stop what listens there, or " if isinstance(error, AddressTaken) else ""
                raise Refused(
                    f"{error}; {stop}choose another place with `reasonbank peer init --listen`"
                ) from None
            self._ready.set()
            await bus.run()

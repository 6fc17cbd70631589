from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from reasonbank.errors import ModelUnavailable
from reasonbank.llm.port import Call, Completion, Layer, Model
from reasonbank.remote import Trail, note

T = TypeVar("T")

MINUTE = 60.0


class PerLoop(Generic[T]):
    """One value for each event loop: what waits belongs to the loop that it waits in."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._values:
            # What a value holds may hold its loop: nobody else would let go of it.
            for ended in [known for known in self._values if known.is_closed()]:
                del self._values[ended]
            self._values[loop] = self._make()
        return self._values[loop]

    def pop(self) -> T | None:
        return self._values.pop(asyncio.get_running_loop(), None)


class Deadline(Layer):
    """Bounds a whole call: waiting for its turn, every retry, and asking again."""

    def __init__(self, inner: Model, *, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def answer(self, call: Call) -> Completion:
        with Trail() as trail:
            try:
                async with asyncio.timeout(self._seconds) as scope:
                    return await super().answer(call)
            except TimeoutError:
                if not scope.expired():
                    raise
                last = f"; last seen: {trail.last}" if trail.last else ""
                raise ModelUnavailable(
                    f"{self.name} gave no answer within {self._seconds:g} seconds "
                    f"(llm.deadline_seconds){last}"
                ) from None


class Limited(Layer):
    """So many calls at once, and so many in any minute; the others wait in line."""

    def __init__(
        self,
        inner: Model,
        *,
        concurrency: int,
        rate_per_minute: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner)
        self._rate = rate_per_minute
        self._clock = clock
        self._sleep = sleep
        self._slots = PerLoop(lambda: asyncio.Semaphore(concurrency))
        self._lines = PerLoop(asyncio.Lock)
        self._starts: deque[float] = deque(maxlen=rate_per_minute or 1)

    async def answer(self, call: Call) -> Completion:
        async with self._turn():
            return await super().answer(call)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        note("waiting for another call to end (llm.concurrency)")
        async with self._slots.get():
            if self._rate:
                note("waiting for its turn (llm.rate_per_minute)")
                # Held while waiting, so that whoever came first goes first.
                async with self._lines.get():
                    await self._wait()
            note("asking the server")
            yield

    async def _wait(self) -> None:
        while len(self._starts) == self._rate:
            left = self._starts[0] + MINUTE - self._clock()
            if left <= 0:
                break
            await self._sleep(left)
        self._starts.append(self._clock())

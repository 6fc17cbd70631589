"""The layers that need little: what each is for stands in ``reasonbank.llm``."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from reasonbank.errors import InvalidReply, ModelError, ModelUnavailable
from reasonbank.fence import each, fenced, fixed, prompt, said
from reasonbank.llm.port import (
    Completion,
    Effort,
    Layer,
    Model,
    ModelCall,
    ModelMeters,
    PerLoop,
    Trail,
    Usage,
    assistant,
    note,
    user,
)
from reasonbank.llm.reply import asking_for
from reasonbank.safety.scrub import clean

MINUTE = 60.0
QUOTED = 4000
"""Characters of the broken reply that the model is shown again."""
AGAIN = fixed("That was not usable. Answer again, JSON only. What was wrong with it:")


class Borrowed(Layer):
    """A model that stays its owner's to close; its calls are counted here."""

    def __init__(self, inner: Model, *, meters: ModelMeters) -> None:
        super().__init__(inner)
        self._meters = meters

    async def answer(self, call: ModelCall) -> Completion:
        self._meters.calls += 1
        try:
            return await super().answer(call)
        except ModelError:
            self._meters.failures += 1
            raise

    async def close(self) -> None:
        """Nothing here is ours."""


class Preset(Layer):
    """What the settings say about every call.

    A ``temperature`` of the settings wins over the caller's, an ``effort`` only fills in
    where the caller named none, and no reply is longer than ``max_tokens``.
    """

    def __init__(
        self,
        inner: Model,
        *,
        temperature: float | None = None,
        effort: Effort | None = None,
        max_tokens: int,
    ) -> None:
        super().__init__(inner)
        self._temperature = temperature
        self._effort = effort
        self._max_tokens = max_tokens

    async def answer(self, call: ModelCall) -> Completion:
        return await super().answer(
            replace(
                call,
                temperature=call.temperature if self._temperature is None else self._temperature,
                effort=call.effort or self._effort,
                max_tokens=min(call.max_tokens, self._max_tokens),
            )
        )


class Scrubbed(Layer):
    """No secret leaves with a prompt, wherever its text came from."""

    async def answer(self, call: ModelCall) -> Completion:
        messages = tuple(
            # Stretch by stretch: a key that begins in one part and ends in another would
            # take the marks between them with it.
            replace(message, content=each(message.content, lambda text, _: clean(text)))
            for message in call.messages
        )
        return await super().answer(replace(call, messages=messages))


class Deadline(Layer):
    """Bounds a whole call: waiting for its turn, every retry, and asking again."""

    def __init__(self, inner: Model, *, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def answer(self, call: ModelCall) -> Completion:
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


class Repaired(Layer):
    """Asks once more when a reply breaks its schema, and says what was wrong with it."""

    def __init__(self, inner: Model, *, meters: ModelMeters) -> None:
        super().__init__(inner)
        self._meters = meters

    async def answer(self, call: ModelCall) -> Completion:
        try:
            return await super().answer(call)
        except InvalidReply as error:
            if call.schema is None:
                raise
            first = error
        self._meters.repairs += 1
        messages = asking_for(call.schema, call.messages)
        if first.reply.strip():
            messages = (*messages, assistant(said(first.reply[:QUOTED])))
        messages = (*messages, user(prompt(AGAIN, fenced("problem", str(first)))))
        try:
            completion = await super().answer(replace(call, messages=messages))
        except InvalidReply as second:
            raise InvalidReply(
                f"{second}; asked again with the error, it was no better",
                reply=second.reply,
                usage=_sum(first.usage, second.usage),
            ) from None
        return replace(completion, usage=_sum(first.usage, completion.usage) or completion.usage)


def _sum(one: object, other: object) -> Usage | None:
    if isinstance(one, Usage) and isinstance(other, Usage):
        return one + other
    return None


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

    async def answer(self, call: ModelCall) -> Completion:
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

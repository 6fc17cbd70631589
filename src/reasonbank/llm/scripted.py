"""A model that says what it was told to: for tests, ours and those of people who build on us."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reasonbank.errors import ModelError
from reasonbank.fence import said
from reasonbank.llm.port import Calling, Completion, ModelCall, ModelMeters, Usage, assistant
from reasonbank.llm.reply import checked
from reasonbank.llm.tokens import tokens_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A reply that comes after ``seconds``."""

    seconds: float
    reply: Any


class Scripted(Calling):
    """Gives its replies one after the other, or asks a function for each.

    A text is said as it is, any other value as JSON, an exception is raised. Each reply is
    held to the schema of its call, as a real model's is. ``calls`` is what was asked.

        model = Scripted(["yes", {"verdict": "success"}, ModelUnavailable("busy")])
        model = Scripted(lambda call: call.messages[-1].content.upper())
    """

    def __init__(
        self,
        replies: Iterable[Any] | Callable[[ModelCall], Any],
        *,
        name: str = "scripted",
        delay: float = 0.0,
        meters: ModelMeters | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.calls: list[ModelCall] = []
        self.meters = meters or ModelMeters()
        self._next = replies if callable(replies) else self._in_turn(iter(replies))
        self._delay = delay
        self._sleep = sleep

    def _in_turn(self, replies: Iterator[Any]) -> Callable[[ModelCall], Any]:
        def following(_: ModelCall) -> Any:
            try:
                return next(replies)
            except StopIteration:
                raise ModelError(
                    f"the script has no reply to call {len(self.calls)}; add one, or pass a "
                    "function that answers every call"
                ) from None

        return following

    async def answer(self, call: ModelCall) -> Completion:
        self.calls.append(call)
        self.meters.calls += 1
        try:
            return await self._said(call)
        except ModelError:
            self.meters.failures += 1
            raise

    async def _said(self, call: ModelCall) -> Completion:
        reply = self._next(call)
        if isinstance(reply, Slow):
            await self._sleep(reply.seconds)
            reply = reply.reply
        elif self._delay:
            await self._sleep(self._delay)
        if isinstance(reply, BaseException):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(_plain(reply), ensure_ascii=False)
        usage = Usage(
            input=tokens_in(call.messages), output=tokens_in((assistant(said(text)),)), reasoning=0
        )
        self.meters.count(usage)
        return checked(
            Completion(text=text, usage=usage, model=self.name, enforced=call.schema is not None),
            call,
        )


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value

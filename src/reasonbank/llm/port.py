from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, Protocol, TypeVar
from weakref import WeakKeyDictionary

from reasonbank.fence import Prompt
from reasonbank.model import JSON

T = TypeVar("T")

Role = Literal["system", "user", "assistant"]
Effort = Literal["low", "medium", "high"]
Schema = Mapping[str, Any]

MAX_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: Prompt


def system(content: Prompt) -> Message:
    return Message("system", content)


def user(content: Prompt) -> Message:
    return Message("user", content)


def assistant(content: Prompt) -> Message:
    return Message("assistant", content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a reply cost. ``None`` is what the server did not say."""

    input: int | None = None
    output: int | None = None
    """Without the reasoning tokens, where the server tells the two apart."""
    reasoning: int | None = None
    cached: int | None = None
    """The part of ``input`` that the server had already read."""
    cost: float | None = None
    """In US dollars."""

    @property
    def tokens(self) -> int | None:
        if self.input is None or self.output is None:
            return None
        return self.input + self.output + (self.reasoning or 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=_sum(self.input, other.input),
            output=_sum(self.output, other.output),
            reasoning=_sum(self.reasoning, other.reasoning),
            cached=_sum(self.cached, other.cached),
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    text: str
    value: Any = None
    """The text as JSON, valid by the schema that was given; ``None`` without one."""
    usage: Usage = Usage()
    model: str
    """The model that answered, in the words of the server."""
    cached: bool = False
    """From our own cache: it cost nothing now, and ``usage`` is what it cost then."""
    cut: bool = False
    """The reply ended because ``max_tokens`` were used up."""
    enforced: bool = False
    """The server was given the schema; otherwise the prompt asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """The arguments of one ``complete``, as one value."""

    messages: tuple[Message, ...]
    schema: Schema | None = None
    temperature: float = 0.0
    max_tokens: int = MAX_TOKENS
    effort: Effort | None = None

    async def put_to(self, model: Model) -> Completion:
        return await model.complete(
            self.messages,
            schema=self.schema,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            effort=self.effort,
        )


class Model(Protocol):
    """A language model.

    Requirements: with a ``schema`` (JSON schema, an object at the top) the completion's
    ``value`` is valid by it, or ``InvalidReply`` is raised; nothing but ``ModelError`` and its
    kinds is raised for what goes wrong outside of this process; no error and no log tells a
    key; calls may run side by side; cancelling one leaves the others alone; constructing a
    model is cheap and needs no network.
    """

    @property
    def name(self) -> str:
        """Identifies the model: equal calls to equal names may share one reply."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        temperature: float = 0.0,
        max_tokens: int = MAX_TOKENS,
        effort: Effort | None = None,
    ) -> Completion: ...

    async def close(self) -> None:
        """Give connections back. Closing twice is allowed."""


class Calling:
    """Turns the arguments of ``complete`` into a ``ModelCall``: what models of ours build on."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        temperature: float = 0.0,
        max_tokens: int = MAX_TOKENS,
        effort: Effort | None = None,
    ) -> Completion:
        return await self.answer(
            ModelCall(
                messages=tuple(messages),
                schema=schema,
                temperature=temperature,
                max_tokens=max_tokens,
                effort=effort,
            )
        )

    async def answer(self, call: ModelCall) -> Completion:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is held open."""


class Layer(Calling):
    """A model around a model. By itself it changes nothing."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    async def answer(self, call: ModelCall) -> Completion:
        return await call.put_to(self.inner)

    async def close(self) -> None:
        await self.inner.close()


@dataclass(slots=True, kw_only=True)
class ModelMeters:
    """What the models of one process did. ``None`` means that no server has said it yet."""

    calls: int = 0
    """Calls that went to a server; a re-ask counts, a retry of the transport does not."""
    retries: int = 0
    failures: int = 0
    """Calls that ended in an error."""
    repairs: int = 0
    """Replies that broke their schema and were asked for again."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    unreported: int = 0
    """Replies whose server did not say what they used; the sums are without them."""
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bypasses: int = 0
    cache_evictions: int = 0
    shared: int = 0
    """Calls that waited for an identical one in flight instead of being made."""

    def count(self, usage: Usage) -> None:
        if usage.input is None or usage.output is None:
            self.unreported += 1
        self.input_tokens = _more(self.input_tokens, usage.input)
        self.output_tokens = _more(self.output_tokens, usage.output)
        self.reasoning_tokens = _more(self.reasoning_tokens, usage.reasoning)
        self.cached_tokens = _more(self.cached_tokens, usage.cached)
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def reset(self) -> None:
        for f in fields(self):
            setattr(self, f.name, f.default)

    def to_json(self) -> JSON:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _more(sum: int | None, amount: int | None) -> int | None:
    return sum if amount is None else (sum or 0) + amount


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


class Trail:
    """What was seen last in this context, for the error of whoever runs out of time."""

    def __init__(self) -> None:
        self.last = ""
        self._token: Token[Trail | None] | None = None

    def __enter__(self) -> Trail:
        self._token = _trail.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _trail.reset(self._token)


_trail: ContextVar[Trail | None] = ContextVar("trail", default=None)


def note(event: str) -> None:
    if (trail := _trail.get()) is not None:
        trail.last = event

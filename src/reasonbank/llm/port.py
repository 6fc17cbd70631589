from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant"]
Effort = Literal["low", "medium", "high"]
Schema = Mapping[str, Any]

MAX_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str


def system(content: str) -> Message:
    return Message("system", content)


def user(content: str) -> Message:
    return Message("user", content)


def assistant(content: str) -> Message:
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
class Call:
    """The arguments of one ``complete``, as one value."""

    messages: tuple[Message, ...]
    schema: Schema | None = None
    temperature: float = 0.0
    max_tokens: int = MAX_TOKENS
    effort: Effort | None = None


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
    """Turns the arguments of ``complete`` into a ``Call``: what models of ours build on."""

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
            Call(
                messages=tuple(messages),
                schema=schema,
                temperature=temperature,
                max_tokens=max_tokens,
                effort=effort,
            )
        )

    async def answer(self, call: Call) -> Completion:
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

    async def answer(self, call: Call) -> Completion:
        return await self.inner.complete(
            call.messages,
            schema=call.schema,
            temperature=call.temperature,
            max_tokens=call.max_tokens,
            effort=call.effort,
        )

    async def close(self) -> None:
        await self.inner.close()

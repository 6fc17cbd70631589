from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

import anyio
import anyio.to_thread

from reasonbank.errors import BudgetExhausted, InvalidReply
from reasonbank.fence import Prompt, each, fewer, is_fenced, said
from reasonbank.llm.excerpt import excerpt
from reasonbank.llm.port import Completion, Layer, Message, Model, ModelCall, Usage
from reasonbank.llm.tokens import CHARACTERS_A_TOKEN, Count, by_characters, tokens_in

log = logging.getLogger(__name__)

LEAST_OUTPUT = 16
"""A reply of fewer tokens is of no use to anybody."""
SHORTEST = 120
"""Characters; a text that has fewer is not cut."""
PIECES = (1_000_000, 64, 32, 16, 8, 4, 2)
"""How many steps of a record are tried to be kept."""


class Budgeted(Layer):
    """Spends at most ``budget`` tokens (0: any number), and sends at most ``input_tokens``.

    A call that is too long loses the middle of its longest texts. A call that fails
    without saying what it used is taken to have used what was estimated.
    """

    def __init__(
        self,
        inner: Model,
        *,
        budget: int = 0,
        input_tokens: int = 0,
        setting: str = "llm.budget_tokens",
        count: Count = by_characters,
    ) -> None:
        super().__init__(inner)
        self._count = count
        self._setting = setting
        self._budget = budget
        self._input_tokens = input_tokens
        self.spent = 0
        self._reserved = 0

    @property
    def left(self) -> int | None:
        return max(0, self._budget - self.spent - self._reserved) if self._budget else None

    async def answer(self, call: ModelCall) -> Completion:
        call = replace(call, messages=shortened(call.messages, self._input_tokens, self._count))
        estimate = tokens_in(call.messages, self._count)
        if self.left is not None:
            room = self.left - estimate
            if room < LEAST_OUTPUT:
                raise BudgetExhausted(
                    f"the call needs about {estimate + LEAST_OUTPUT} tokens, and of the "
                    f"{self._budget} that {self._setting} allows {self.left} are left; raise it"
                )
            call = replace(call, max_tokens=min(call.max_tokens, room))
        reserved = estimate + call.max_tokens
        self._reserved += reserved
        used = estimate
        try:
            completion = await super().answer(call)
            used = _used(completion.usage, estimate + self._count(completion.text))
            return completion
        except InvalidReply as error:
            used = _used(error.usage, estimate + self._count(error.reply))
            raise
        finally:
            self._reserved -= reserved
            self.spent += used


class Account(Protocol):
    """Tokens that somebody may spend, kept where every process sees them.

    Requirements: what is reserved is gone for all others until it is settled; reserving less
    than ``least`` raises ``BudgetExhausted``; who never settles has spent it.
    """

    def reserve(self, least: int, most: int) -> int: ...
    def settle(self, reserved: int, used: int) -> None: ...


class Capped(Layer):
    """Spends from an account; a call is cut to what is left in it."""

    def __init__(self, inner: Model, account: Account, *, count: Count = by_characters) -> None:
        super().__init__(inner)
        self._account = account
        self._count = count

    async def answer(self, call: ModelCall) -> Completion:
        estimate = tokens_in(call.messages, self._count)
        reserved = await anyio.to_thread.run_sync(
            self._account.reserve, estimate + LEAST_OUTPUT, estimate + call.max_tokens
        )
        used = estimate
        try:
            completion = await super().answer(
                replace(call, max_tokens=min(call.max_tokens, reserved - estimate))
            )
            said = _used(completion.usage, estimate + self._count(completion.text))
            used = 0 if completion.cached else said
            return completion
        except InvalidReply as error:
            used = _used(error.usage, estimate + self._count(error.reply))
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._account.settle, reserved, used)


def _used(usage: object, estimate: int) -> int:
    known = usage.tokens if isinstance(usage, Usage) else None
    return estimate if known is None else known


def shortened(
    messages: tuple[Message, ...], most: int, count: Count = by_characters
) -> tuple[Message, ...]:
    """The messages in at most about ``most`` tokens (0: any number).

    Every text that is too long for all of them to fit loses its middle. In a message with a
    fence only what is fenced does: its marks, and what is asked, stay.
    """
    total = tokens_in(messages, count)
    if not most or total <= most:
        return messages
    log.warning(
        "a prompt of about %d tokens was cut in the middle to fit llm.input_tokens (%d)",
        total,
        most,
    )
    for pieces in PIECES:
        fewer_of = tuple(replace(m, content=fewer(m.content, pieces)) for m in messages)
        if size := _size(fewer_of, most, count):
            return _cut(fewer_of, size)
    raise BudgetExhausted(
        f"the call has about {total} tokens in {len(messages)} messages, more than "
        f"llm.input_tokens ({most}) allows, and cutting what is long in it is not enough"
    )


def _size(messages: tuple[Message, ...], most: int, count: Count) -> int:
    """How many characters of each text fit, so that as much as possible does; 0: too few."""
    longest = max(len(message.content) for message in messages)
    # Nothing of so few tokens has more characters than this, as good as always.
    fits, too_long = SHORTEST - 1, min(longest, most * 4 * CHARACTERS_A_TOKEN) + 1
    size = SHORTEST
    while too_long - fits > 1:
        if tokens_in(_cut(messages, size), count) <= most:
            fits = size
        else:
            too_long = size
        size = (fits + too_long) // 2
    return fits if fits >= SHORTEST else 0


def _cut(messages: tuple[Message, ...], size: int) -> tuple[Message, ...]:
    return tuple(replace(m, content=_shorter(m, size)) for m in messages)


def _shorter(message: Message, size: int) -> Prompt:
    content = message.content
    if message.role == "system" or is_fenced(content):
        return each(content, lambda text, data: excerpt(text, size) if data else text)
    return said(excerpt(content, size))

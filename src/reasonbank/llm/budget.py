from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

import anyio
import anyio.to_thread

from reasonbank.errors import BudgetExhausted, InvalidReply
from reasonbank.llm.excerpt import MARK, excerpt
from reasonbank.llm.port import Completion, Layer, Message, Model, ModelCall, Usage
from reasonbank.llm.tokens import Count, by_characters, tokens_in

log = logging.getLogger(__name__)

LEAST_OUTPUT = 16
"""A reply of fewer tokens is of no use to anybody."""


class Budgeted(Layer):
    """Spends at most ``budget`` tokens (0: any number), and sends at most ``input_tokens``.

    A call that is too long loses the middle of its longest message. A call that fails
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
    """The messages in at most about ``most`` tokens (0: any number)."""
    total = tokens_in(messages, count)
    if not most or total <= most:
        return messages
    longest = max(range(len(messages)), key=lambda i: len(messages[i].content))
    content = messages[longest].content
    tokens = count(content)
    room = most - (total - tokens)
    if room <= count(MARK) + LEAST_OUTPUT:
        raise BudgetExhausted(
            f"the call has about {total} tokens in {len(messages)} messages, more "
            f"than llm.input_tokens ({most}) allows, and cutting the longest is not enough"
        )
    log.warning(
        "a prompt of about %d tokens was cut in the middle to fit llm.input_tokens (%d)",
        total,
        most,
    )
    size = room * len(content) // tokens
    # Where the ends are denser than the middle was, a little more goes.
    while count(cut := excerpt(content, size)) > room:
        size = size * 19 // 20
    changed = replace(messages[longest], content=cut)
    return (*messages[:longest], changed, *messages[longest + 1 :])

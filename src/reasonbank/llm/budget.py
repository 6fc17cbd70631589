from __future__ import annotations

import logging
from dataclasses import replace

from reasonbank.errors import BudgetExhausted, InvalidReply
from reasonbank.llm.port import Call, Completion, Layer, Message, Model, Usage

log = logging.getLogger(__name__)

CHARACTERS_A_TOKEN = 4
LEAST_OUTPUT = 16
"""A reply of fewer tokens is of no use to anybody."""
GAP = "\n[… {} characters left out …]\n"


def tokens_in(messages: tuple[Message, ...]) -> int:
    """An estimate, made before a call: four characters a token."""
    return -(-sum(len(message.content) for message in messages) // CHARACTERS_A_TOKEN)


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
    ) -> None:
        super().__init__(inner)
        self._setting = setting
        self._budget = budget
        self._input_tokens = input_tokens
        self.spent = 0
        self._reserved = 0

    @property
    def left(self) -> int | None:
        return max(0, self._budget - self.spent - self._reserved) if self._budget else None

    async def answer(self, call: Call) -> Completion:
        call = replace(call, messages=shortened(call.messages, self._input_tokens))
        estimate = tokens_in(call.messages)
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
            used = _used(completion.usage, estimate + _tokens(completion.text))
            return completion
        except InvalidReply as error:
            used = _used(error.usage, estimate + _tokens(error.reply))
            raise
        finally:
            self._reserved -= reserved
            self.spent += used


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)


def _used(usage: object, estimate: int) -> int:
    known = usage.tokens if isinstance(usage, Usage) else None
    return estimate if known is None else known


def shortened(messages: tuple[Message, ...], most: int) -> tuple[Message, ...]:
    """The messages in at most about ``most`` tokens (0: any number)."""
    excess = (tokens_in(messages) - most) * CHARACTERS_A_TOKEN
    if not most or excess <= 0:
        return messages
    longest = max(range(len(messages)), key=lambda i: len(messages[i].content))
    content = messages[longest].content
    keep = len(content) - excess - len(GAP) - len(str(len(content)))
    if keep <= 0:
        raise BudgetExhausted(
            f"the call has about {tokens_in(messages)} tokens in {len(messages)} messages, more "
            f"than llm.input_tokens ({most}) allows, and cutting the longest is not enough"
        )
    log.warning(
        "a prompt of about %d tokens was cut in the middle to fit llm.input_tokens (%d)",
        tokens_in(messages),
        most,
    )
    # What matters most stands at the ends: the task first, how it went last.
    head = keep // 2
    tail = content[len(content) - (keep - head) :]
    cut = content[:head] + GAP.format(len(content) - keep) + tail
    changed = replace(messages[longest], content=cut)
    return (*messages[:longest], changed, *messages[longest + 1 :])

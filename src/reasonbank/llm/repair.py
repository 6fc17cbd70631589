from __future__ import annotations

from dataclasses import replace

from reasonbank.errors import InvalidReply
from reasonbank.llm.meters import Meters
from reasonbank.llm.port import Call, Completion, Layer, Model, Usage, assistant, user
from reasonbank.llm.reply import asking_for

QUOTED = 4000
"""Characters of the broken reply that the model is shown again."""


class Repaired(Layer):
    """Asks once more when a reply breaks its schema, and says what was wrong with it."""

    def __init__(self, inner: Model, *, meters: Meters) -> None:
        super().__init__(inner)
        self._meters = meters

    async def answer(self, call: Call) -> Completion:
        try:
            return await super().answer(call)
        except InvalidReply as error:
            if call.schema is None:
                raise
            first = error
        self._meters.repairs += 1
        messages = asking_for(call.schema, call.messages)
        if first.reply.strip():
            messages = (*messages, assistant(first.reply[:QUOTED]))
        messages = (*messages, user(f"That was not usable: {first}. Answer again, JSON only."))
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

"""No secret leaves with a prompt, wherever its text came from."""

from __future__ import annotations

from dataclasses import replace

from reasonbank.llm.port import Call, Completion, Layer
from reasonbank.safety.scrub import clean


class Scrubbed(Layer):
    async def answer(self, call: Call) -> Completion:
        messages = tuple(
            replace(message, content=clean(message.content)) for message in call.messages
        )
        return await super().answer(replace(call, messages=messages))

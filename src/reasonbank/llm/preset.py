from __future__ import annotations

from dataclasses import replace

from reasonbank.llm.port import Call, Completion, Effort, Layer, Model


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

    async def answer(self, call: Call) -> Completion:
        return await super().answer(
            replace(
                call,
                temperature=call.temperature if self._temperature is None else self._temperature,
                effort=call.effort or self._effort,
                max_tokens=min(call.max_tokens, self._max_tokens),
            )
        )

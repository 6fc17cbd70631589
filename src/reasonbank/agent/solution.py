"""What solving a task comes to, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.agent.attempts import Attempt
from reasonbank.agent.matts import Mode
from reasonbank.errors import ModelError
from reasonbank.llm.port import Completion, Layer, Model, ModelCall, ModelMeters, Usage
from reasonbank.model import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What the model's side counted; where it did not say, nothing is added."""

    input: int = 0
    output: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """``outcome`` is the verifier's word where there is one, else a judge's.

    ``memories_shown`` were in the prompt, ``warnings`` are those of them that tell of a failure,
    and ``memories_used`` those that the solution says it went by: all, if it does not say.
    ``k`` attempts were planned, for ``reason``. ``notes`` say what went otherwise than planned.
    Without storing there is no ``trace_id``.
    """

    solution: str
    score: float | None
    outcome: Outcome
    iterations: int
    attempts: tuple[Attempt, ...]
    memories_used: tuple[str, ...]
    memories_shown: tuple[str, ...]
    warnings: tuple[str, ...]
    memories_learned: tuple[str, ...]
    tokens: Tokens
    seconds: float
    trace_id: str | None
    k: int
    mode: Mode
    reason: str
    notes: tuple[str, ...] = ()


class Metered(Layer):
    """Counts what one task costs; what our own cache gave costs nothing."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self._meters = ModelMeters()

    async def answer(self, call: ModelCall) -> Completion:
        try:
            completion = await super().answer(call)
        except ModelError as error:
            if isinstance(usage := getattr(error, "usage", None), Usage):
                self._meters.count(usage)
            raise
        if not completion.cached:
            self._meters.count(completion.usage)
        return completion

    @property
    def tokens(self) -> Tokens:
        counted = self._meters
        return Tokens(
            input=counted.input_tokens or 0,
            output=counted.output_tokens or 0,
            reasoning=counted.reasoning_tokens or 0,
        )

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from reasonbank.errors import InvalidReply, ModelError, ModelRefused
from reasonbank.llm.meters import Meters
from reasonbank.llm.port import Call, Calling, Completion
from reasonbank.llm.reply import asking_for, checked

log = logging.getLogger(__name__)

# How servers speak of what they do not take.
_WORDS = {
    "schema": ("response_format", "json_schema", "text.format", "output_config.format",
               "output_format", "structured output", "grammar", "schema"),
    "temperature": ("temperature",),
    "effort": ("reasoning", "effort"),
}  # fmt: skip


class Adapter(Calling):
    """What the adapters share: meters, checked replies, and learning what a server takes.

    Not every model takes a temperature, an effort or a schema. What a server refuses by name
    is left out from then on, with a warning; a schema is then asked for in words.
    """

    def __init__(self, *, name: str, meters: Meters) -> None:
        self.name = name
        self.meters = meters
        self._refused: set[str] = set()

    async def answer(self, call: Call) -> Completion:
        self.meters.calls += 1
        try:
            completion = await self._taken(call)
            return checked(completion, call)
        except ModelError:
            self.meters.failures += 1
            raise

    async def _taken(self, call: Call) -> Completion:
        while True:
            options = self._options(call)
            try:
                completion = await self._ask(_worded(call, options), options)
            except ModelRefused as refusal:
                option = _named(refusal, options)
                if option is None:
                    raise
                log.warning("%s takes no %s; from now on it is left out", self.name, option)
                self._refused.add(option)
            except InvalidReply as error:
                self.meters.unreported += error.usage is None
                raise
            else:
                self.meters.count(completion.usage)
                return completion

    def _options(self, call: Call) -> set[str]:
        wanted = {"temperature"}
        if call.effort:
            wanted.add("effort")
        if call.schema is not None:
            wanted.add("schema")
        return wanted - self._refused

    async def _ask(self, call: Call, options: set[str]) -> Completion:
        """One call of the SDK, with those of the optional parts that ``options`` names."""
        raise NotImplementedError


def _worded(call: Call, options: set[str]) -> Call:
    messages = call.messages
    if call.schema is not None and "schema" not in options:
        messages = asking_for(call.schema, messages)
    # Half a character, as a cut in the wrong place leaves it, could not be sent.
    whole = (replace(m, content=m.content.encode("utf-8", "replace").decode()) for m in messages)
    return replace(call, messages=tuple(whole))


def _named(refusal: ModelRefused, options: Iterable[str]) -> str | None:
    if refusal.answered not in (400, 404, 422):
        return None
    text = refusal.said.lower()
    return next((o for o in sorted(options) if any(word in text for word in _WORDS[o])), None)


SHAPELESS = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)
"""What reading an answer of another shape ends in."""


def count(value: Any) -> int | None:
    """A number of tokens that a server gave, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

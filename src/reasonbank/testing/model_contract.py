"""What every ``Model`` must do, as tests. An adapter's test file is a subclass:

class TestScripted(ModelContract):
    def saying(self, text):
        return Scripted(lambda _: text)

    def unreachable(self):
        return Scripted(lambda _: ModelUnavailable("nobody answers"))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from reasonbank.errors import InvalidReply, ModelError
from reasonbank.fence import fixed, said
from reasonbank.llm.port import Model, assistant, system, user

T = TypeVar("T")

TALK = [
    system(fixed("be brief")),
    user(fixed("hello")),
    assistant(said("hi")),
    user(fixed("how are you?")),
]
WORD = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


class ModelContract:
    """Subclass this and say how to make a model that answers every call with the same text."""

    def saying(self, text: str) -> Model:
        raise NotImplementedError("a contract needs a model to test")

    def unreachable(self) -> Model:
        raise NotImplementedError("a contract needs a model that does not answer")

    def test_it_answers_in_text_and_says_which_model_answered(self) -> None:
        model = self.saying("fine")
        completion = _run(model, model.complete(TALK))
        assert (completion.text, completion.value) == ("fine", None)
        assert completion.model and model.name
        assert not completion.cached

    def test_with_a_schema_the_value_is_valid_by_it(self) -> None:
        model = self.saying(json.dumps({"word": "fine"}))
        completion = _run(model, model.complete(TALK, schema=WORD))
        assert completion.value == {"word": "fine"}

    @pytest.mark.parametrize("text", ["", "no JSON", '{"word": 5}', '{"word": "a", "more": 1}'])
    def test_a_reply_that_fails_its_schema_is_an_error_of_its_own(self, text: str) -> None:
        model = self.saying(text)
        with pytest.raises(InvalidReply):
            _run(model, model.complete(TALK, schema=WORD))

    def test_what_goes_wrong_outside_is_a_model_error(self) -> None:
        model = self.unreachable()
        with pytest.raises(ModelError):
            _run(model, model.complete(TALK))

    def test_calls_run_side_by_side_and_cancelling_one_leaves_the_others_alone(self) -> None:
        model = self.saying("fine")

        async def several() -> list[Any]:
            calls = [asyncio.create_task(model.complete(TALK)) for _ in range(5)]
            await asyncio.sleep(0)
            calls[0].cancel()
            return await asyncio.gather(*calls[1:])

        assert [completion.text for completion in _run(model, several())] == ["fine"] * 4

    def test_closing_twice_is_allowed(self) -> None:
        model = self.saying("fine")

        async def twice() -> None:
            await model.close()

        _run(model, twice())


def _run(model: Model, call: Coroutine[Any, Any, T]) -> T:
    async def whole() -> T:
        try:
            return await call
        finally:
            await model.close()

    return asyncio.run(whole())

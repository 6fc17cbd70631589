"""Models behind the `openai` SDK, in two styles: `pip install 'reasonbank[openai]'`.

`responses`: OpenRouter and OpenAI; the whole context is sent each time, nothing is stored
there. `chat`: the same two, and Ollama, vLLM, llama.cpp and whatever else speaks it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from reasonbank.errors import InvalidReply, ModelRefused
from reasonbank.llm.http import NO_KEY, PAUSE, RETRIES, SHAPELESS, Key, SDKModel, count, patient
from reasonbank.llm.port import Completion, ModelCall, ModelMeters, Usage
from reasonbank.llm.reply import is_strict

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel(SDKModel["AsyncOpenAI"]):
    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        key: Key | None = None,
        style: Literal["responses", "chat"] = "chat",
        output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        timeout: float = 60.0,
        retries: int = RETRIES,
        pause: float = PAUSE,
        meters: ModelMeters | None = None,
    ) -> None:
        """``output_limit`` is what the chat style calls its limit: OpenAI has renamed it."""
        super().__init__(
            model=model, base_url=base_url, key=key, timeout=timeout, retries=retries,
            pause=pause, meters=meters,
        )  # fmt: skip
        self._style = style
        self._output_limit = output_limit

    def _connect(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        client = patient(AsyncOpenAI, self._pause)(
            api_key=self._key.value if self._key else NO_KEY,
            base_url=self._base_url,
            max_retries=self._retries,
            timeout=self._timeout,
            http_client=self._http_client(),
        )
        # Taken from the environment, where they are meant for OpenAI and nobody else.
        client.organization = client.project = None
        return client

    async def _ask(self, call: ModelCall, options: set[str]) -> Completion:
        import openai

        ask = self._responses if self._style == "responses" else self._chat
        with self._errors(openai):
            data = await ask(self._clients.get(), call, options)
        return self._read(data, enforced="schema" in options)

    def _read(self, data: Any, *, enforced: bool) -> Completion:
        read = _from_responses if self._style == "responses" else _from_chat
        try:
            return read(data, self._model, enforced=enforced)
        except SHAPELESS:
            raise _shapeless(data, self.name, self._style, self._key) from None

    async def _responses(self, client: AsyncOpenAI, call: ModelCall, options: set[str]) -> Any:
        from openai import omit

        form: Any = {"format": {"type": "json_schema", **_format(call)}}
        raw = await client.responses.with_raw_response.create(
            model=self._model,
            input=_said(call),
            max_output_tokens=call.max_tokens,
            temperature=call.temperature if "temperature" in options else omit,
            reasoning={"effort": call.effort} if "effort" in options else omit,
            text=form if "schema" in options else omit,
            store=False,
        )
        return raw.http_response.json()

    async def _chat(self, client: AsyncOpenAI, call: ModelCall, options: set[str]) -> Any:
        from openai import omit

        form: Any = {"type": "json_schema", "json_schema": _format(call)}
        renamed = self._output_limit == "max_completion_tokens"
        raw = await client.chat.completions.with_raw_response.create(
            model=self._model,
            messages=_said(call),
            max_tokens=omit if renamed else call.max_tokens,
            max_completion_tokens=call.max_tokens if renamed else omit,
            temperature=call.temperature if "temperature" in options else omit,
            reasoning_effort=call.effort if "effort" in options else omit,
            response_format=form if "schema" in options else omit,
        )
        return raw.http_response.json()


def _said(call: ModelCall) -> Any:
    return [{"role": message.role, "content": message.content} for message in call.messages]


def _format(call: ModelCall) -> dict[str, Any]:
    schema = dict(call.schema or {})
    return {"name": "reply", "schema": schema, "strict": is_strict(schema)}


def _from_responses(data: Any, model: str, *, enforced: bool) -> Completion:
    parts = [
        part for item in data["output"] if item["type"] == "message" for part in item["content"]
    ]
    usage = data.get("usage") or {}
    details = usage.get("output_tokens_details") or {}
    completion = Completion(
        text="".join(part["text"] for part in parts if part["type"] == "output_text"),
        usage=_usage(usage, "input_tokens", "output_tokens", details),
        model=str(data.get("model") or model),
        cut=(data.get("incomplete_details") or {}).get("reason") == "max_output_tokens",
        enforced=enforced,
    )
    declined = next((part["refusal"] for part in parts if part["type"] == "refusal"), None)
    return _given(completion, declined)


def _from_chat(data: Any, model: str, *, enforced: bool) -> Completion:
    choice = data["choices"][0]
    content = choice["message"].get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    if not isinstance(content, str):
        raise TypeError("content")
    usage = data.get("usage") or {}
    details = usage.get("completion_tokens_details") or {}
    completion = Completion(
        text=content,
        usage=_usage(usage, "prompt_tokens", "completion_tokens", details),
        model=str(data.get("model") or model),
        cut=choice.get("finish_reason") == "length",
        enforced=enforced,
    )
    declined = choice["message"].get("refusal")
    if choice.get("finish_reason") == "content_filter" and not content:
        declined = declined or "its content filter stepped in"
    return _given(completion, declined)


def _given(completion: Completion, declined: str | None) -> Completion:
    if declined and not completion.text:
        raise InvalidReply(
            f"{completion.model} declined to answer: {str(declined)[:300]}", usage=completion.usage
        )
    return completion


def _usage(usage: Any, input: str, output: str, details: Any) -> Usage:
    reasoning = count(details.get("reasoning_tokens"))
    sent, received = count(usage.get(input)), count(usage.get(output))
    total = count(usage.get("total_tokens"))
    if received is not None and reasoning:
        # Nearly all count reasoning as output; the total tells who does not.
        apart = sent is not None and total == sent + received + reasoning
        received = received if apart else max(0, received - reasoning)
    cost = usage.get("cost")
    known = isinstance(cost, int | float) and 0 <= cost < math.inf
    before = usage.get(f"{input}_details") or {}
    return Usage(
        input=sent,
        output=received,
        reasoning=reasoning,
        cached=count(before.get("cached_tokens")),
        cost=float(cost) if known else None,
    )


def _shapeless(data: Any, who: str, style: str, key: Key | None) -> InvalidReply | ModelRefused:
    error = data.get("error") if isinstance(data, dict) else None
    if isinstance(error, dict) and error.get("message"):
        said = str(error["message"])[:300]
        said = key.hidden_in(said) if key else said
        return ModelRefused(f"{who} says: {said}", answered=400, said=said)
    return InvalidReply(
        f"the answer of {who} does not have the shape of the {style} style; check llm.base_url "
        "and llm.style"
    )

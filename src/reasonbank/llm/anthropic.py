"""Models behind the `anthropic` SDK: `pip install 'reasonbank[anthropic]'`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reasonbank.errors import InvalidReply
from reasonbank.llm.http import NO_KEY, SHAPELESS, SDKModel, count, patient
from reasonbank.llm.port import Completion, ModelCall, Usage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class AnthropicModel(SDKModel["AsyncAnthropic"]):
    def _connect(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        return patient(AsyncAnthropic, self._pause)(
            api_key=self._key.value if self._key else NO_KEY,
            base_url=self._base_url,
            max_retries=self._retries,
            timeout=self._timeout,
            http_client=self._http_client(),
        )

    async def _ask(self, call: ModelCall, options: set[str]) -> Completion:
        import anthropic

        with self._errors(anthropic):
            data = await self._create(self._clients.get(), call, options)
        return self._read(data, enforced="schema" in options)

    def _read(self, data: Any, *, enforced: bool) -> Completion:
        try:
            return _from_message(data, self._model, enforced=enforced)
        except SHAPELESS:
            raise InvalidReply(
                f"the answer of {self.name} is not an Anthropic message; check llm.base_url"
            ) from None

    async def _create(self, client: AsyncAnthropic, call: ModelCall, options: set[str]) -> Any:
        from anthropic import omit

        instructions = "\n\n".join(m.content for m in call.messages if m.role == "system")
        turns: Any = [
            {"role": m.role, "content": m.content} for m in call.messages if m.role != "system"
        ]
        output: Any = {}
        if "effort" in options:
            output["effort"] = call.effort
        if "schema" in options:
            output["format"] = {"type": "json_schema", "schema": dict(call.schema or {})}
        raw = await client.messages.with_raw_response.create(
            model=self._model,
            max_tokens=call.max_tokens,
            system=instructions or omit,
            messages=turns,
            output_config=output or omit,
            # The SDK has dropped it, as the newest models have; older ones still take it.
            extra_body={"temperature": call.temperature} if "temperature" in options else None,
        )
        return raw.http_response.json()


def _from_message(data: Any, model: str, *, enforced: bool) -> Completion:
    usage = data.get("usage") or {}
    reasoning = count((usage.get("output_tokens_details") or {}).get("thinking_tokens"))
    sent, received = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    if sent is not None:
        # Anthropic counts what it had cached apart; everybody else includes it.
        sent += (cached or 0) + (count(usage.get("cache_creation_input_tokens")) or 0)
    completion = Completion(
        text="".join(block["text"] for block in data["content"] if block["type"] == "text"),
        usage=Usage(
            input=sent,
            output=None if received is None else max(0, received - (reasoning or 0)),
            reasoning=reasoning,
            cached=cached,
        ),
        model=str(data.get("model") or model),
        cut=data.get("stop_reason") == "max_tokens",
        enforced=enforced,
    )
    if data.get("stop_reason") == "refusal" and not completion.text:
        raise InvalidReply(f"{completion.model} declined to answer", usage=completion.usage)
    return completion

"""The model of whoever calls: asked through MCP sampling, where the client still offers it.

Deprecated since revision 2026-07-28 of the protocol, but served by clients that have it. What
goes over the wire is the surface's business: it puts a way to ask into `client` for as long as
one call lasts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from reasonbank.errors import InvalidReply, ModelRefused, ModelUnavailable
from reasonbank.llm.http import Adapter
from reasonbank.llm.port import Completion, Message, ModelCall, ModelMeters

if TYPE_CHECKING:
    from mcp.types import CreateMessageRequest, CreateMessageResult, SamplingMessage

    Ask = Callable[[CreateMessageRequest], Awaitable[CreateMessageResult]]

client: ContextVar[Ask | None] = ContextVar("client", default=None)


class Unanswered(Exception):
    """The client answers ``request`` by calling again: whoever waits for it begins anew then."""

    def __init__(self, request: CreateMessageRequest) -> None:
        super().__init__("the client is asked, and calls again")
        self.request = request


class SamplingModel(Adapter):
    """A client takes no schema and says nothing of tokens: a schema is asked for in words."""

    def __init__(self, meters: ModelMeters | None = None) -> None:
        super().__init__(name="the client's model", meters=meters or ModelMeters())
        self._refused = {"schema", "effort"}

    async def answer(self, call: ModelCall) -> Completion:
        try:
            return await super().answer(call)
        except Unanswered:
            self.meters.calls -= 1  # It is counted when the answer is there.
            raise

    async def _ask(self, call: ModelCall, options: set[str]) -> Completion:
        from mcp import MCPError

        ask = client.get()
        if ask is None:
            raise ModelUnavailable("no client that offers sampling is there to be asked")
        try:
            result = await ask(_request(call))
        except MCPError as error:
            raise ModelRefused(
                f"the client did not answer for its model: {error.message[:300]}"
            ) from None
        if result.content.type != "text":
            raise InvalidReply(f"{result.model[:200]} answered with {result.content.type}, no text")
        return Completion(
            text=result.content.text,
            model=result.model[:200],
            cut=result.stop_reason == "maxTokens",
        )


def _request(call: ModelCall) -> CreateMessageRequest:
    from mcp.types import CreateMessageRequest, CreateMessageRequestParams

    instructions = "\n\n".join(m.content for m in call.messages if m.role == "system")
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[_turn(m) for m in call.messages if m.role != "system"],
            system_prompt=instructions or None,
            temperature=call.temperature,
            max_tokens=call.max_tokens,
        )
    )


def _turn(message: Message) -> SamplingMessage:
    from mcp.types import SamplingMessage, TextContent

    return SamplingMessage(
        role="assistant" if message.role == "assistant" else "user",
        content=TextContent(type="text", text=message.content),
    )

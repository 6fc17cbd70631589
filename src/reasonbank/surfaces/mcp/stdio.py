"""`reasonbank mcp`: one agent over standard streams, and the work on the bank beside it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCResponse

from reasonbank.bank import Bank
from reasonbank.jobs.background import QUIET_SECONDS, Background
from reasonbank.opening import model_for
from reasonbank.surfaces.hooks.door import answering_hooks
from reasonbank.surfaces.mcp import stdin
from reasonbank.surfaces.mcp.opening import ID
from reasonbank.surfaces.mcp.server import make_server

FAREWELL_SECONDS = 0.5
"""A client waits only so long for its server to end before it kills it."""


def run_stdio(bank: Bank, *, tools: str, roots: bool) -> None:
    """Serve until standard input ends, or a signal. Standard output carries the protocol only.

    It learns as well, from the first answer on: a client gives a server that starts only so long.
    """
    wire = stdin.begin(tools)
    background = Background(
        bank.context, lambda: model_for(bank.store), quiet=QUIET_SECONDS, farewell=FAREWELL_SECONDS
    )

    async def then_work(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        background.start()
        return result

    server = make_server(bank, tools=tools, roots=roots, middleware=(then_work,))
    with wire, answering_hooks(bank):
        try:
            anyio.run(serve, server)
        finally:
            background.stop()


async def serve(server: MCPServer[Any]) -> None:
    """As the SDK does it, but that a request which was answered before is answered to nobody."""
    lowlevel = server._lowlevel_server
    async with stdio_server() as (read, write):
        await lowlevel.run(read, Answers(write), lowlevel.create_initialization_options())


class Answers:
    """What the server sends, less the answer to what its client opened with."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == ID:
            return
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        told: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return told

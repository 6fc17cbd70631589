"""`reasonbank mcp`: one agent over standard streams, and the work on the bank beside it."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from reasonbank.bank import Bank
from reasonbank.jobs.background import QUIET_SECONDS, Background
from reasonbank.opening import model_for
from reasonbank.surfaces.hooks.door import answering_hooks
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.surfaces.mcp.stdin import ended_by_signals

FAREWELL_SECONDS = 0.5
"""A client waits only so long for its server to end before it kills it."""


def run_stdio(bank: Bank, *, tools: str, roots: bool) -> None:
    """Serve until standard input ends, or a signal. Standard output carries the protocol only.

    It learns as well, from the first answer on: a client gives a server that starts only so long.
    """
    background = Background(
        bank.context, lambda: model_for(bank.store), quiet=QUIET_SECONDS, farewell=FAREWELL_SECONDS
    )

    async def then_work(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        background.start()
        return result

    server = make_server(bank, tools=tools, roots=roots, middleware=(then_work,))
    with ended_by_signals(), answering_hooks(bank):
        try:
            server.run("stdio")
        finally:
            background.stop()

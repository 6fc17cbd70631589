"""`reasonbank mcp`: one agent over standard streams, and the work on the bank beside it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from reasonbank.bank import Bank
from reasonbank.jobs.background import QUIET_SECONDS, Background
from reasonbank.opening import model_for
from reasonbank.surfaces.mcp.server import make_server

FAREWELL_SECONDS = 0.5
"""A client waits only so long for its server to end before it kills it."""


def run_stdio(bank: Bank, *, tools: str, roots: bool) -> None:
    """Serve until standard input ends. Standard output carries the protocol only.

    It learns as well, from the first answer on: a client gives a server that starts only so long.
    """
    background = Background(
        bank.context, lambda: model_for(bank.store), quiet=QUIET_SECONDS, farewell=FAREWELL_SECONDS
    )

    async def then_work(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        background.start()
        return result

    def end() -> None:
        background.stop()
        bank.close(embed=False)

    server = make_server(bank, tools=tools, roots=roots, middleware=(then_work,))
    with _ended_by_signals(end):
        try:
            server.run("stdio")
        finally:
            background.stop()


@contextmanager
def _ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ``end`` the process, whatever it waits for; a second one at once.

    The thread that reads standard input cannot be called off, and would keep it alive.
    """
    ending = threading.Event()

    def leave(number: int) -> None:
        try:
            end()
        finally:
            os._exit(128 + number)

    def handle(number: int, _: FrameType | None) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.set()
        # Not here: whatever was interrupted may hold what it takes to end.
        threading.Thread(target=leave, args=(number,), daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""What is new, as it happens: server-sent events for pages that stay open.

Whoever listens is told what was written, never its text: that they ask for, with their rights.
Every process looks at the log for itself, so that it does not matter which of them wrote it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic_core import to_json

from reasonbank.errors import InvalidInput, TooMany
from reasonbank.fields import plain
from reasonbank.model import JSON, Right
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.http.exchange import Exchange
from reasonbank.surfaces.http.gate import RetryAfter

LOOK_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
MOST_LISTENERS = 32
MOST_TOLD = 100
"""Of what was missed, one by one; of more, only that there is more."""
_TOLD = ("seq", "at", "what", "subject", "workspace", "author", "surface")

Run = Callable[[Callable[[], Any]], Awaitable[Any]]


@dataclass(slots=True)
class _Seen:
    """How far a listener has been told."""

    seq: int
    work: JSON | None = None


class Live:
    """The listeners of one process. ``run`` works in a thread."""

    def __init__(self, run: Run, *, most: int) -> None:
        self._run = run
        self._most = min(MOST_LISTENERS, most)
        self._listeners = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        if self._listeners >= self._most:
            error = TooMany(f"{self._most} pages listen here already; ask for what is new")
            raise RetryAfter(error, HEARTBEAT_SECONDS)
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1

    async def tell(
        self,
        exchange: Exchange,
        call: Call,
        *,
        still: Callable[[], object],
        stopping: Callable[[], bool],
    ) -> None:
        """Until the listener goes, the server stops, or ``still`` raises: they may listen no
        more."""
        given = _last_seen(exchange)
        reach = await self._run(lambda: _reach(call))
        seq = await self._run(call.root.context.read().last_seq) if given is None else given
        seen = _Seen(seq)
        await exchange.start(
            200, b"text/event-stream; charset=utf-8", ((b"x-accel-buffering", b"no"),)
        )
        hello = {"seq": seen.seq, "version": version("reasonbank")}
        await exchange.send_piece(_event("hello", hello), more=True)
        gone = asyncio.create_task(_gone(exchange))
        try:
            quiet = 0.0
            while not (gone.done() or stopping()):
                news = await self._run(lambda: list(_news(call, reach, seen)))
                if news:
                    still()
                    await exchange.send_piece(b"".join(news), more=True)
                    quiet = 0.0
                elif quiet >= HEARTBEAT_SECONDS:
                    still()
                    await exchange.send_piece(b":\n\n", more=True)
                    quiet = 0.0
                await asyncio.wait({gone}, timeout=LOOK_SECONDS)
                quiet += LOOK_SECONDS
            if not gone.done():
                await exchange.send_piece(_event("end", {"seq": seen.seq}), more=False)
        finally:
            gone.cancel()


def _last_seen(exchange: Exchange) -> int | None:
    query = exchange.query()
    given = query.pop("after", [])
    if query:
        raise InvalidInput(min(query), "is not a parameter of GET /events")
    if (header := exchange.headers.get(b"last-event-id")) is not None:
        given = [header.decode("latin-1")]
    if not given:
        return None
    if not (given[-1].isdecimal() and len(given[-1]) < 19):
        raise InvalidInput("after", "is not the number of an event")
    return int(given[-1])


def _reach(call: Call) -> frozenset[str] | None:
    """The workspaces of which they hear; None is all. Who may not list all workspaces hears of the
    one they look from."""
    caller = call.caller
    if caller.workspaces is not None:
        read = call.root.context.read()
        return frozenset(read.home(place) for place in caller.workspaces)
    return None if caller.right is Right.ADMIN else frozenset({call.bank.view.workspace})


def _news(call: Call, reach: frozenset[str] | None, seen: _Seen) -> Iterator[bytes]:
    reading = call.root.context.read()
    last = reading.last_seq()
    if last > seen.seq + MOST_TOLD:
        yield _event("many", {"count": last - seen.seq, "seq": last}, last)
        seen.seq = last
    elif last != seen.seq:
        # A bank that was restored may be behind what was seen before.
        found = reading.changes_after(min(seen.seq, last), MOST_TOLD + 1)
        for change in found:
            if reach is None or change.workspace in reach:
                told = plain(change)
                yield _event("change", {name: told[name] for name in _TOLD}, change.seq)
        seen.seq = found[-1].seq if found else last
    depth = reading.queue.depth(call.bank.view.workspace)
    work = {"waiting": depth.waiting, "running": depth.running, "dead": depth.dead}
    if work != seen.work:
        if seen.work is not None:
            yield _event("work", work)
        seen.work = work


def _event(name: str, data: JSON, seq: int | None = None) -> bytes:
    id = b"" if seq is None else f"id: {seq}\n".encode()
    return f"event: {name}\n".encode() + id + b"data: " + to_json(data) + b"\n\n"


async def _gone(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass

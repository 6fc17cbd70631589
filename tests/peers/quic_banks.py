"""Two banks that talk over QUIC, for tests: one that listens and answers, and those that call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from reasonbank.peers import wire
from reasonbank.peers.hello import NotWhoItSays, caller, hello
from reasonbank.peers.identity import Identity
from reasonbank.peers.quic import Door, Lent, Link, Quic
from reasonbank.peers.transport import ConnectionEnded
from reasonbank.peers.wire import Lane

HOME = Identity.of("home")
GUEST = Identity.of("guest")
OTHER = Identity.of("other")
HAVE = wire.encode(wire.Have([]))
STATUS = wire.encode(wire.Status("guest", "1", 1, 0.0, 0))
"""A frame that must not be heard twice, as far as the transport knows."""


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """One that does not end is stuck."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await scene()

    asyncio.run(limited())


class Home:
    """Answers Hello with Welcome, and everything else with the same."""

    def __init__(self, quic: Quic | None = None, identity: Identity = HOME) -> None:
        self.quic = quic or Quic(identity)
        self.identity = identity
        self.heard: list[wire.Frame] = []
        self.heard_early: list[wire.Frame] = []
        """Before it was known that the caller is there now."""
        self.refused: list[str] = []
        self.links: list[Link] = []
        self.door: Door

    async def __aenter__(self) -> Home:
        self.door = await self.quic.listen("127.0.0.1:0", self.serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.door.close()
        await asyncio.sleep(0)  # The socket closes in the next turn of the loop.

    @property
    def address(self) -> str:
        return self.door.address

    async def serve(self, link: Link) -> None:
        self.links.append(link)
        async with asyncio.TaskGroup() as tasks:
            while (stream := await link.accept()) is not None:
                tasks.create_task(self.answer(link, stream))

    async def answer(self, link: Link, stream: Lent) -> None:
        try:
            while (data := await stream.receive()) is not None:
                frame = wire.decode(data)
                self.heard.append(frame)
                if not link.established:
                    self.heard_early.append(frame)
                if isinstance(frame, wire.Hello):
                    link.authenticated(caller(frame, link.binding))
                    data = wire.encode(wire.Welcome(1, self.identity.key, "home", []))
                await stream.send(data)
            await stream.close()
        except NotWhoItSays as error:
            self.refused.append(str(error))
            await link.close("not who it says")
        except ConnectionEnded:
            pass


async def call(
    quic: Quic, address: str, *, to: Identity = HOME, who: Identity = GUEST
) -> tuple[Link, Lent]:
    """A connection whose Hello was sent, and the stream that it was sent on."""
    link = await quic.connect(address, to.key)
    control = await link.stream(Lane.CONTROL)
    await control.send(wire.encode(hello(who, link.binding, name="guest", at=0, token=b"")))
    return link, control


async def welcomed(control: Lent) -> wire.Welcome:
    answer = await control.receive()
    assert answer is not None
    frame = wire.decode(answer)
    assert isinstance(frame, wire.Welcome)
    return frame


async def echoed(link: Link, frame: bytes = HAVE, lane: Lane = Lane.MEMORY) -> bytes | None:
    stream = await link.stream(lane)
    await stream.send(frame)
    answer = await stream.receive()
    await stream.close()
    return answer


Scene = Callable[[], Awaitable[None]]

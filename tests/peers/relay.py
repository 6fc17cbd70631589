"""A UDP relay on loopback: a network that delays, drops, reorders, duplicates and comes apart.

Which datagrams it treats how is drawn from its seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

Address = tuple[str, int]


class _Socket(asyncio.DatagramProtocol):
    def __init__(self, heard: Callable[[bytes, Address], None]) -> None:
        self.heard = heard
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Address) -> None:
        self.heard(data, address)

    def error_received(self, _: Exception) -> None:
        """Nobody listens there now: to a network that is one more loss."""

    @property
    def address(self) -> Address:
        return self.transport.get_extra_info("sockname")[:2]


async def udp(heard: Callable[[bytes, Address], None], remote: Address | None = None) -> _Socket:
    """A socket on loopback; what it hears is told."""
    local = None if remote else ("127.0.0.1", 0)
    _, made = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Socket(heard), local_addr=local, remote_addr=remote
    )
    return made


class Relay:
    """Stands before the one who listens at ``target``; others call ``address``.

    ``delay`` is that of one direction. With ``jitter`` (seconds) later datagrams overtake earlier
    ones.
    """

    def __init__(
        self,
        target: str,
        *,
        seed: int = 0,
        delay: float = 0.0,
        jitter: float = 0.0,
        drop: float = 0.0,
        duplicate: float = 0.0,
    ) -> None:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.delay = delay
        self.jitter = jitter
        self.drop = drop
        self.duplicate = duplicate
        self.parted = False
        """Nothing gets through while this is so."""
        self.passed = 0
        self.recorded: list[bytes] = []
        """What callers have sent, from the first datagram on."""
        self._rng = random.Random(seed)
        self._front: _Socket | None = None
        self._backs: dict[Address, _Socket] = {}
        self._opening: dict[Address, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Relay:
        self._front = await udp(self._from_caller)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        for task in list(self._tasks):
            await task
        assert self._front is not None
        self._front.transport.close()
        self._close_backs()
        await asyncio.sleep(0)  # The sockets close in the next turn of the loop.

    @property
    def address(self) -> str:
        assert self._front is not None
        return "{}:{}".format(*self._front.address)

    async def until_passed(self, more: int) -> None:
        """Until so many more datagrams got through."""
        aim = self.passed + more
        while self.passed < aim:
            await self._moved.wait()

    def rebind(self) -> None:
        """To the listener, all callers have a new address from now on."""
        self._close_backs()

    def _close_backs(self) -> None:
        for back in self._backs.values():
            back.transport.close()
        self._backs.clear()

    def _from_caller(self, data: bytes, caller: Address) -> None:
        self.recorded.append(data)
        back = self._backs.get(caller)
        if back is not None:
            self._pass(data, back.transport.sendto)
        elif caller in self._opening:
            self._opening[caller].append(data)
        else:
            self._opening[caller] = [data]
            task = asyncio.get_running_loop().create_task(self._open(caller))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, caller: Address) -> None:
        back = await udp(lambda data, _: self._to_caller(data, caller), self.target)
        self._backs[caller] = back
        for data in self._opening.pop(caller):
            self._pass(data, back.transport.sendto)

    def _to_caller(self, data: bytes, caller: Address) -> None:
        front = self._front
        assert front is not None
        self._pass(data, lambda datagram: front.transport.sendto(datagram, caller))

    def _pass(self, data: bytes, send: Callable[[bytes], None]) -> None:
        rng = self._rng
        dropped, doubled = rng.random() < self.drop, rng.random() < self.duplicate
        waits = [self.delay + self.jitter * rng.random() for _ in range(2)]
        if dropped or self.parted:
            return
        for wait in waits if doubled else waits[:1]:
            if wait:
                asyncio.get_running_loop().call_later(wait, self._deliver, data, send)
            else:
                self._deliver(data, send)

    def _deliver(self, data: bytes, send: Callable[[bytes], None]) -> None:
        if not self.parted and not self._closed:
            send(data)
            self.passed += 1
            self._moved.set()
            self._moved.clear()

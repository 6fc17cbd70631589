"""The bus: how soon a connection is of use, and how much goes through it.

    python -m bench.bus [--rounds 30] [--again 100] [--megabytes 16]

Openings go through a relay on loopback that takes 10 ms each way; TCP, whose first round trip is
made by the kernel and cannot be delayed there, waits for it in its relay. Contestants take turns,
and the median counts. Throughput is measured between two processes on loopback, with nothing
between them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from tests.peers.relay import Relay

from bench import tables
from bench.bus_peers import GUEST, HOME, certificate_files
from bench.tables import Table
from reasonbank.peers import wire
from reasonbank.peers.hello import caller, hello
from reasonbank.peers.quic import Link, Quic
from reasonbank.peers.wire import Lane

ONE_WAY = 0.010
WELCOME = wire.encode(wire.Welcome(1, HOME.key, "home", []))
NEEDS = {"aioquic": ("aioquic",), "http2": ("hypercorn", "httpx", "h2")}


class Openings:
    """Ways to get a first answer, and when the first data had arrived at the other side."""

    def __init__(self) -> None:
        self.arrived = 0.0

    async def serve(self, link: Link) -> None:
        control = await link.accept()
        assert control is not None
        said = wire.decode(await control.receive() or b"")
        assert isinstance(said, wire.Hello)
        link.authenticated(caller(said, link.binding))
        self.arrived = time.perf_counter()
        await control.send(WELCOME)
        await link.until_ended()

    async def over_quic(self, quic: Quic, address: str) -> tuple[float, float, bool]:
        began = time.perf_counter()
        link = await quic.connect(address, HOME.key)
        control = await link.stream(Lane.CONTROL)
        said = hello(GUEST, link.binding, name="guest", at=0, token=b"")
        await control.send(wire.encode(said))
        assert await control.receive() == WELCOME
        answered = time.perf_counter()
        early = link.early
        await link.close()
        return self.arrived - began, answered - began, early

    async def serve_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readexactly(200)
            self.arrived = time.perf_counter()
            writer.write(WELCOME)
            await writer.drain()
            await reader.read()
        writer.close()

    async def over_tls(self, port: int) -> tuple[float, float, bool]:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(bytes(200))
        await reader.readexactly(len(WELCOME))
        answered = time.perf_counter()
        writer.close()
        return self.arrived - began, answered - began, False


class TcpRelay:
    """``ONE_WAY`` in each direction, and a whole round trip before a caller's first byte."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.tasks: set[asyncio.Task[None]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = asyncio.get_running_loop().time()
        there = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(
            self.carry(reader, there[1], opened + 2 * ONE_WAY), self.carry(there[0], writer, 0)
        )

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, not_before: float
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                at = max(loop.time(), not_before) + ONE_WAY
                loop.call_at(at, writer.write, data)
        loop.call_later(2 * ONE_WAY, writer.close)


async def openings(rounds: int, again: int) -> Table:
    ways = Openings()
    rng = random.Random(0)
    taken: dict[str, list[tuple[float, float, bool]]] = {}
    door = await Quic(HOME).listen("127.0.0.1:0", ways.serve)
    regular = Quic(GUEST)
    with tempfile.TemporaryDirectory() as folder:
        files = certificate_files(Path(folder))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*files)
    server = await asyncio.start_server(ways.serve_tls, "127.0.0.1", 0, ssl=context)
    relay = TcpRelay(server.sockets[0].getsockname()[1])
    front = await asyncio.start_server(relay.take, "127.0.0.1", 0)
    port = front.sockets[0].getsockname()[1]
    async with Relay(door.address, delay=ONE_WAY) as slow:
        contestants: dict[str, Callable[[], Awaitable[tuple[float, float, bool]]]] = {
            "resumed": lambda: ways.over_quic(regular, slow.address),
            "cold": lambda: ways.over_quic(Quic(GUEST), slow.address),
            "tls": lambda: ways.over_tls(port),
        }
        await ways.over_quic(regular, slow.address)  # The first ticket.
        for _ in range(rounds):
            for name in rng.sample(list(contestants), len(contestants)):
                taken.setdefault(name, []).append(await contestants[name]())
    accepted = 0
    for _ in range(again):
        accepted += (await ways.over_quic(regular, door.address))[2]
    for closing in (front, server):
        closing.close()
    await door.close()

    table = Table("opening", "A connection, until it is of use, at 20 ms of round trip")
    table.machine = tables.machine()
    names = {"cold": "QUIC, never met before", "tls": "TCP and TLS 1.3"}
    for part, what in ((1, "first answer"), (0, "first data has arrived")):
        ours = 1000 * statistics.median(times[part] for times in taken["resumed"])
        for name, beside in names.items():
            theirs = 1000 * statistics.median(times[part] for times in taken[name])
            table.compare(f"{what}, 0-RTT", ours, beside, theirs, most=0.6)
    table.notes += [
        f"0-RTT was accepted {accepted} of {again} times without delay, and "
        f"{sum(times[2] for times in taken['resumed'])} of {rounds} times here.",
        f"Median of {rounds} rounds; server, relay and caller share a process. What is sent is a "
        "signed Hello, what comes back a Welcome; over TLS, 200 bytes and the same answer.",
        "The first round trip of TCP is waited for in its relay; TLS does not resume a session.",
    ]
    return table


@contextmanager
def served(who: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.bus_peers", "serve", who, folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert server.stdout
            address: str = json.loads(server.stdout.readline())
            yield address
        finally:
            server.terminate()
            server.communicate()


def seconds(*arguments: object) -> float:
    command = [sys.executable, "-m", "bench.bus_peers", *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def throughput(megabytes: int, rounds: int = 5) -> Table:
    table = Table("throughput", "What goes through one connection on loopback")
    table.machine = tables.machine()
    there = [name for name, needs in NEEDS.items() if all(map(find_spec, needs))]
    rates: dict[str, list[float]] = {}
    echoes: dict[str, list[float]] = {}
    streams, times = 100, 20
    with ExitStack() as stack:
        addresses = {who: stack.enter_context(served(who)) for who in ("ours", *there)}
        for _ in range(rounds):
            for who, address in addresses.items():
                took = seconds("send", who, address, megabytes)
                rates.setdefault(who, []).append(megabytes * 8 * 1.048576 / took)
                if who != "http2":
                    took = seconds("echo", who, address, streams, times)
                    echoes.setdefault(who, []).append(streams * times / took)
    rate = {who: statistics.median(found) for who, found in rates.items()}
    echo = {who: statistics.median(found) for who, found in echoes.items()}
    if "aioquic" in rate:
        one, many = "one stream", f"{streams} streams at a time, small frames, there and back"
        table.compare(one, rate["ours"], "aioquic", rate["aioquic"], least=5, unit="Mbit/s")
        table.compare(many, echo["ours"], "aioquic", echo["aioquic"], unit="/s")
    if "http2" in rate:
        table.compare("one stream", rate["ours"], "HTTP/2", rate["http2"], unit="Mbit/s")
    for who in there:
        ratios = sorted(
            ours / theirs for ours, theirs in zip(rates["ours"], rates[who], strict=True)
        )
        table.notes.append(
            f"One stream beside {who}, round by round: {ratios[0]:.1f} to {ratios[-1]:.1f} times."
        )
    table.notes.append(
        f"Median of {rounds} rounds, {megabytes} MB each, in pieces of 64 KB; sender and receiver "
        "are a process each. HTTP/2 is an upload with httpx to hypercorn, over TLS, both in Python."
    )
    missing = [name for name in NEEDS if name not in there]
    table.notes += [f"Not installed, so not measured: {', '.join(missing)}."] if missing else []
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--again", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=16)
    chosen = parser.parse_args()
    measures = (
        lambda: asyncio.run(openings(chosen.rounds, chosen.again)),
        lambda: throughput(chosen.megabytes),
    )
    for measure in measures:
        table = measure()
        tables.show(table)
        tables.keep("bus", table)


if __name__ == "__main__":
    main()

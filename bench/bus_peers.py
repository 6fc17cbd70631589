"""Servers and clients that ``bench.bus`` measures: ours, aioquic, HTTP/2 over TLS.

    python -m bench.bus_peers serve ours|aioquic|http2 FOLDER
    python -m bench.bus_peers send ours|aioquic|http2 ADDRESS MEGABYTES
    python -m bench.bus_peers echo ours|aioquic ADDRESS STREAMS ROUNDS

A server prints its address. Clients print how many seconds they took, from a connection that stands
to the answer that all has arrived.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from reasonbank.peers import wire
from reasonbank.peers.certificate import certificate
from reasonbank.peers.identity import Identity
from reasonbank.peers.quic import Lent, Link, Quic
from reasonbank.peers.wire import Lane

HOME = Identity.of("bench, the one who is called")
GUEST = Identity.of("bench, the one who calls")
PIECE = 64 * 1024
SMALL = wire.encode(wire.Take("x" * 64))
WINDOW = 16 << 20
"""What aioquic may have under way: enough that it never waits for it."""


def certificate_files(folder: Path) -> tuple[Path, Path]:
    files = folder / "certificate.pem", folder / "key.pem"
    for file, content in zip(files, certificate(HOME), strict=True):
        file.write_bytes(content)
    return files


# Ours


async def take_all(link: Link, stream: Lent) -> None:
    """Frames of a piece are counted; anything shorter is answered."""
    while (frame := await stream.receive()) is not None:
        if len(frame) < PIECE:
            await stream.send(frame)
    await stream.close()


async def serve_ours() -> None:
    async def serve(link: Link) -> None:
        link.authenticated(GUEST.key)
        async with asyncio.TaskGroup() as tasks:
            while (stream := await link.accept()) is not None:
                tasks.create_task(take_all(link, stream))

    door = await Quic(HOME).listen("127.0.0.1:0", serve)
    print(json.dumps(door.address), flush=True)
    await asyncio.Event().wait()


async def send_ours(address: str, megabytes: int) -> float:
    async with await Quic(GUEST).connect(address, HOME.key) as link:
        stream = await link.stream(Lane.MEMORY)
        piece = bytes(PIECE)
        began = time.perf_counter()
        for _ in range(megabytes * (1 << 20) // PIECE):
            await stream.send(piece)
        await stream.send(SMALL)
        assert await stream.receive() == SMALL
        return time.perf_counter() - began


async def echo_ours(address: str, streams: int, rounds: int) -> float:
    async with await Quic(GUEST).connect(address, HOME.key) as link:
        opened = [await link.stream(Lane.MEMORY) for _ in range(streams)]
        for stream in opened:
            await stream.send(SMALL)
        for stream in opened:
            await stream.receive()

        async def ask(stream: Lent) -> None:
            for _ in range(rounds):
                await stream.send(SMALL)
                assert await stream.receive() == SMALL

        began = time.perf_counter()
        await asyncio.gather(*map(ask, opened))
        return time.perf_counter() - began


# aioquic


def aioquic_configuration(folder: Path | None) -> Any:
    from aioquic.quic.configuration import QuicConfiguration

    configuration = QuicConfiguration(
        is_client=folder is None,
        alpn_protocols=["bench"],
        max_data=WINDOW,
        max_stream_data=WINDOW,
        verify_mode=ssl.CERT_NONE,
    )
    if folder is not None:
        configuration.load_cert_chain(*certificate_files(folder))
    return configuration


async def serve_aioquic(folder: Path) -> None:
    from aioquic.asyncio import serve

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tail = b""
        while read := await reader.read(PIECE):
            tail = (tail + read)[-len(SMALL) :]
            if tail == SMALL:
                tail = b""
                writer.write(SMALL)

    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.ensure_future(answer(reader, writer)))
        task.add_done_callback(tasks.discard)

    server = await serve(
        "127.0.0.1", 0, configuration=aioquic_configuration(folder), stream_handler=begin
    )
    host, port = server._transport.get_extra_info("sockname")[:2]
    print(json.dumps(f"{host}:{port}"), flush=True)
    await asyncio.Event().wait()


async def send_aioquic(address: str, megabytes: int) -> float:
    from aioquic.asyncio import connect

    host, _, port = address.rpartition(":")
    async with connect(host, int(port), configuration=aioquic_configuration(None)) as client:
        reader, writer = await client.create_stream()
        piece = bytes(PIECE)
        began = time.perf_counter()
        for _ in range(megabytes * (1 << 20) // PIECE):
            writer.write(piece)
            await asyncio.sleep(0)
        writer.write(SMALL)
        assert await reader.readexactly(len(SMALL)) == SMALL
        return time.perf_counter() - began


async def echo_aioquic(address: str, streams: int, rounds: int) -> float:
    from aioquic.asyncio import connect

    host, _, port = address.rpartition(":")
    async with connect(host, int(port), configuration=aioquic_configuration(None)) as client:
        opened = []
        for _ in range(streams):  # It gives out the same one until something is written to it.
            opened.append(await client.create_stream())
            opened[-1][1].write(SMALL)
        for reader, _ in opened:
            await reader.readexactly(len(SMALL))

        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(rounds):
                writer.write(SMALL)
                assert await reader.readexactly(len(SMALL)) == SMALL

        began = time.perf_counter()
        await asyncio.gather(*(ask(*pair) for pair in opened))
        return time.perf_counter() - began


# HTTP/2


async def serve_http2(folder: Path) -> None:
    import socket

    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": SMALL})

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.alpn_protocols = ["h2"]
    config.certfile, config.keyfile = map(str, certificate_files(folder))
    config.accesslog = config.errorlog = None
    print(json.dumps(f"127.0.0.1:{port}"), flush=True)
    await serve(app, config)


async def send_http2(address: str, megabytes: int) -> float:
    import httpx

    async def body() -> Any:
        piece = bytes(PIECE)
        for _ in range(megabytes * (1 << 20) // PIECE):
            yield piece

    async with httpx.AsyncClient(http2=True, verify=False, timeout=300) as client:
        for _ in range(50):  # Until it listens.
            try:
                await client.post(f"https://{address}/", content=b"")
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
        began = time.perf_counter()
        answer = await client.post(f"https://{address}/", content=body())
        assert answer.http_version == "HTTP/2" and answer.content == SMALL
        return time.perf_counter() - began


def main(arguments: list[str]) -> None:
    if arguments[0] == "serve":
        _, who, folder = arguments
        servers = {
            "ours": serve_ours,
            "aioquic": lambda: serve_aioquic(Path(folder)),
            "http2": lambda: serve_http2(Path(folder)),
        }
        asyncio.run(servers[who]())
    elif arguments[0] == "send":
        _, who, address, megabytes = arguments
        senders = {"ours": send_ours, "aioquic": send_aioquic, "http2": send_http2}
        print(asyncio.run(senders[who](address, int(megabytes))))
    else:
        _, who, address, streams, rounds = arguments
        askers = {"ours": echo_ours, "aioquic": echo_aioquic}
        print(asyncio.run(askers[who](address, int(streams), int(rounds))))


if __name__ == "__main__":
    main(sys.argv[1:])

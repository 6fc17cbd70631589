"""`reasonbank serve`: a socket, an application, and a clean end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from reasonbank.access import TokenStore
from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput, Refused
from reasonbank.surfaces.http.app import Application, problem
from reasonbank.surfaces.http.gate import HEAD_BYTES, AllowedHosts, is_loopback

KEEP_ALIVE_SECONDS = 30
FAREWELL_SECONDS = 30
"""How long calls that are under way get to end after a signal."""


def serve(
    bank: Bank,
    *,
    host: str,
    port: int,
    tools: str,
    authenticate: bool,
    announce: Callable[[str, bool], None],
    shared: bool = False,
    background: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Serve until SIGTERM or SIGINT, and close the bank; a second one ends at once.

    ``announce`` hears the address, and whether a token is needed, once it can be called.
    ``shared``: other processes listen to the same address. ``background`` is what works beside
    the server as long as it serves.
    """
    check_access(bank, host, authenticate)
    listener = bound(host, port, shared=shared)
    allowed_hosts = AllowedHosts.of(host, bank.settings.server)
    address = f"http://{allowed_hosts.shown}:{listener.getsockname()[1]}"
    application = Application(
        bank,
        tools=tools,
        allowed_hosts=allowed_hosts,
        authenticate=authenticate,
        address=address,
    )
    config = uvicorn.Config(
        application,
        http=_patient(bank.settings.server.patience, application),
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=bank.settings.server.connections,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FAREWELL_SECONDS,
    )
    locked = authenticate and TokenStore(bank).exist
    try:
        with background():
            server = _Server(config, lambda: announce(address, locked), application.stop)
            server.run(sockets=[listener])
    finally:
        application.close()
        # Whoever stops a server waits for it; the next one embeds what is left.
        bank.close(embed=False)


def check_access(bank: Bank, host: str, authenticate: bool) -> None:
    if is_loopback(host):
        return
    if not authenticate:
        raise Refused(
            f"--no-auth would open this bank to everybody who reaches {host}; leave it out, or "
            "serve on 127.0.0.1"
        )
    if not TokenStore(bank).exist:
        raise Refused(
            f"others can reach {host}, and there is no token yet; make one first: "
            "reasonbank token create --scope write"
        )


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InvalidInput("host", f"{host!r} is not an address of this machine: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                "port",
                f"{port} is taken on {host}; stop what runs there, or choose another with --port "
                "(0 picks any free port)",
            ) from None
        raise InvalidInput("host", f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


class _Server(uvicorn.Server):
    """Ends with exit code 0 after a signal, and at once after a second one."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._tell = started
        self._stop = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            # What was acknowledged is on disk; whatever still runs is as if killed.
            os._exit(128 + sig)
        self.should_exit = True
        self._stop()


class Patient(H11Protocol):
    """Waits so long for the head of a request, and for a body that nobody wants."""

    seconds: float
    application: Application
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.application.stopping:
            # Accepted, but not yet known when the others were told to end.
            transport.close()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        unwanted = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if self.conn.their_state is h11.IDLE or unwanted:
            self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._stop_waiting()
        super().on_response_complete()

    def _wait(self) -> None:
        # Not put off by more data: bytes that trickle in do not buy time.
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        error = InvalidInput(
            "request",
            f"is not HTTP/1.1, or its head is larger than {HEAD_BYTES:,} bytes; send fewer "
            "or shorter headers",
        )
        self._answer(problem(error).body)

    def _answer(self, body: bytes) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            if (written := self.conn.send(event)) is not None:
                self.transport.write(written)
        self.transport.close()


def _patient(seconds: float, application: Application) -> type[asyncio.Protocol]:
    """uvicorn makes its protocols itself, so what they need is said by their class."""
    return type("Patient", (Patient,), {"seconds": seconds, "application": application})

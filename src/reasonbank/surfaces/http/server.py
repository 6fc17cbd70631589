"""`reasonbank serve`: a socket, an application, and a clean end."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType

import uvicorn

from reasonbank.access import OwnersToken, TokenStore
from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput, Refused
from reasonbank.surfaces.hooks.door import answering_hooks
from reasonbank.surfaces.http.app import Application
from reasonbank.surfaces.http.connections import patient
from reasonbank.surfaces.http.gate import HEAD_BYTES, AllowedHosts, is_loopback

KEEP_ALIVE_SECONDS = 30
FAREWELL_SECONDS = 30
"""How long calls that are under way get to end after a signal."""
LAST_SECONDS = 5
"""And how much longer what cannot be interrupted: then it is as if killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is to be told of a server that can be called."""

    address: str
    locked: bool
    owner: OwnersToken | None


def serve(
    bank: Bank,
    *,
    host: str,
    port: int,
    tools: str,
    authenticate: bool,
    announce: Callable[[Opened], None],
    shared: bool = False,
    background: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Serve until SIGTERM or SIGINT, and close the bank; a second one ends at once.

    ``announce`` hears where it is and how to come in, once it can be called.
    ``shared``: other processes listen to the same address. ``background`` is what works beside
    the server as long as it serves.
    """
    owner = admit(bank, host, authenticate)
    settings = bank.settings.server
    listener = bound(host, port, shared=shared)
    allowed_hosts = AllowedHosts.of(host, settings)
    address = f"http://{allowed_hosts.shown}:{listener.getsockname()[1]}"
    application = Application(
        bank,
        tools=tools,
        allowed_hosts=allowed_hosts,
        authenticate=authenticate,
    )
    config = uvicorn.Config(
        application,
        http=patient(settings.patience, settings.connections, lambda: application.stopping),
        loop="uvloop" if find_spec("uvloop") else "asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FAREWELL_SECONDS,
    )
    told = Opened(address=address, locked=authenticate, owner=owner)
    try:
        with background(), answering_hooks(bank):
            server = _Server(config, lambda: announce(told), application.stop)
            server.run(sockets=[listener])
    finally:
        application.close()
        # Whoever stops a server waits for it; the next one embeds what is left.
        bank.close(embed=False)


def admit(bank: Bank, host: str, authenticate: bool) -> OwnersToken | None:
    """The token of whoever starts the server; an error if others would come in without one."""
    tokens = TokenStore(bank)
    if not is_loopback(host):
        if not authenticate:
            raise Refused(
                f"--no-auth would open this bank to everybody who reaches {host}; leave it out, or "
                "serve on 127.0.0.1"
            )
        if not tokens.for_others:
            raise Refused(
                f"others can reach {host}, and there is no token for them yet; make one first: "
                "reasonbank token create --scope write"
            )
    return tokens.owners() if authenticate else None


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
        last = threading.Timer(FAREWELL_SECONDS + LAST_SECONDS, os._exit, (0,))
        last.daemon = True
        last.start()

"""The MCP server over HTTP for tests: on loopback, behind a door that knows a few names."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from reasonbank.access import Caller
from reasonbank.surfaces.mcp import CALLER


class Door:
    """Lets in whoever has a token that is known; the rest pass without a name."""

    def __init__(self, app, callers: Mapping[str, Caller]) -> None:
        self.app = app
        self.callers = callers

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            if caller := self.callers.get(given.removeprefix("Bearer ")):
                scope[CALLER] = caller
        await self.app(scope, receive, send)


@contextmanager
def serving(server: MCPServer, callers: Mapping[str, Caller]) -> Iterator[str]:
    """The URL of ``server``; the token "" is that of callers without one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        security = TransportSecuritySettings(
            allowed_hosts=[f"127.0.0.1:{port}", f"localhost:{port}"],
            allowed_origins=[f"http://127.0.0.1:{port}", f"http://localhost:{port}"],
        )
        app = Door(server.streamable_http_app(transport_security=security), callers)
        web = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            web.should_exit = True
            thread.join()

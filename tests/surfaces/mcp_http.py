"""The MCP server over HTTP for tests: on loopback, behind a door that knows a few names."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from reasonbank.access import LOCAL, Caller
from reasonbank.surfaces.mcp.server import CALLER


class Gate:
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


def stateless(tool, arguments, capabilities=None, more=None):
    """A call as revision 2026-07-28 has it: one request that says all, and its headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta, **(more or {})}
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return {"content": json.dumps(request), "headers": headers}


@contextmanager
def serving(
    server: MCPServer, callers: Mapping[str, Caller], *, sessions: bool = True
) -> Iterator[str]:
    """The URL of ``server``; the token "" is that of callers without one.

    Without ``sessions``, clients of earlier revisions are served call by call as well.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        security = TransportSecuritySettings(
            allowed_hosts=[f"127.0.0.1:{port}", f"localhost:{port}"],
            allowed_origins=[f"http://127.0.0.1:{port}", f"http://localhost:{port}"],
        )
        app = server.streamable_http_app(transport_security=security, stateless_http=not sessions)
        app = Gate(app, callers)
        config = uvicorn.Config(  # As `reasonbank serve` does, whatever else is installed.
            app, http="h11", loop="asyncio", log_level="warning", timeout_graceful_shutdown=5
        )
        web = uvicorn.Server(config)
        thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            web.should_exit = True
            thread.join()


@asynccontextmanager
async def calling(server: MCPServer):
    """Calls tools over HTTP without a socket, in whatever JSON can be made to say."""
    app = Gate(server.streamable_http_app(), {"": LOCAL})
    transport = httpx2.ASGITransport(app)
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
    ):

        async def call(tool, arguments, **said):
            answer = await http.post("/mcp", **stateless(tool, arguments, **said))
            assert answer.status_code == 200, answer.text
            return answer.json()["result"]

        yield call

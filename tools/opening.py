"""Writes what the MCP server answers first: `python -m tools.opening`.

The answers are the SDK's own, asked for once in every revision of the protocol; until it is
loaded, `reasonbank mcp` answers with them. A test fails when they are out of date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest, JSONRPCResponse, version

from reasonbank import Bank
from reasonbank.surfaces.mcp import opening
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.testing.memory_ledger import MemoryLedger

LISTS = ("ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
CLIENT = {"name": "client", "version": "1"}


def documents() -> dict[Path, str]:
    return {
        Path(opening.FOLDER) / f"opening-{tools}.json": json.dumps(document(tools), indent=1) + "\n"
        for tools in ("all", "core")
    }


def document(tools: str) -> dict[str, Any]:
    """Answers by revision and method; an answer that several revisions share is told once."""
    answers: list[dict[str, Any]] = []
    revisions: dict[str, dict[str, int]] = {}
    handshake, modern = version.HANDSHAKE_PROTOCOL_VERSIONS, version.MODERN_PROTOCOL_VERSIONS
    with Bank.open(ledger=MemoryLedger()) as bank:
        server = make_server(bank, tools=tools)
        for revision in (*handshake, *modern):
            places = revisions[revision] = {}
            for method, answer in anyio.run(asked, server, revision).items():
                if answer not in answers:
                    answers.append(answer)
                places[method] = answers.index(answer)
    return {"handshake": handshake, "modern": modern, "revisions": revisions, "answers": answers}


def opened(revision: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """How a client of this revision opens, and what it sends with every request."""
    if revision in version.HANDSHAKE_PROTOCOL_VERSIONS:
        told = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
        return "initialize", told, {}
    keys = (opening.ENVELOPE, opening.CLIENT, opening.CAPABILITIES)
    envelope = {"_meta": dict(zip(keys, (revision, CLIENT, {}), strict=True))}
    return "server/discover", envelope, envelope


async def asked(server: MCPServer[Any], revision: str) -> dict[str, dict[str, Any]]:
    """What the SDK answers to what a client says first; without what it refuses."""
    method, hello, more = opened(revision)
    sent = {method: hello} | dict.fromkeys(LISTS, more)
    there, read = anyio.create_memory_object_stream[SessionMessage | Exception](len(sent))
    write, here = anyio.create_memory_object_stream[SessionMessage](len(sent))
    lowlevel = server._lowlevel_server
    found = {}
    async with anyio.create_task_group() as tasks, there, here:
        tasks.start_soon(lowlevel.run, read, write, lowlevel.create_initialization_options())
        for name, params in sent.items():
            request = JSONRPCRequest(jsonrpc="2.0", id=name, method=name, params=params)
            await there.send(SessionMessage(request))
            answer = (await here.receive()).message
            if isinstance(answer, JSONRPCResponse):
                found[name] = answer.result
        tasks.cancel_scope.cancel()
    return found


def main() -> None:
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

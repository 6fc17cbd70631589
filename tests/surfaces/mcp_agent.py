"""Clients for tests of the MCP server, and what they send."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager

from mcp import Client
from mcp.types import ListRootsResult, Root

from reasonbank.surfaces.mcp.server import caller_of, make_server

NOBODY = "01a1dd00-0000-7000-8000-000000000000"
LESSON = {"title": "Retry uploads", "description": "When an upload fails",
          "content": "Wait longer each time.", "outcome": "success"}  # fmt: skip


def told(result):
    """The one answer, however it was sent: what holds memories is sent as text alone."""
    [block] = result.content
    answer = json.loads(block.text)
    assert result.structured_content in (None, answer)
    return answer


class Agent:
    """Calls tools, and says in time if one went wrong."""

    def __init__(self, client):
        self.client = client

    async def __call__(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return told(result)

    async def refused(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        return result.content[0].text

    async def tools(self):
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


@asynccontextmanager
async def connected(bank, *, tools="all", roots=True, caller=caller_of, **options):
    server = make_server(bank, tools=tools, roots=roots, caller=caller)
    async with Client(server, **options) as client:
        yield Agent(client)


def offering(*uris):
    async def roots(_):
        return ListRootsResult(roots=[Root(uri=uri) for uri in uris])

    return roots


def command(tmp_path, *arguments):
    """How `reasonbank` is started as a process with a bank of its own, and its environment."""
    environment = {
        "REASONBANK_URL": f"sqlite:///{tmp_path}/bank.db",
        "REASONBANK_EMBED_MODEL": "hashed",
        "HOME": str(tmp_path),
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
    }
    return [sys.executable, "-m", "reasonbank.surfaces.cli", *arguments], environment

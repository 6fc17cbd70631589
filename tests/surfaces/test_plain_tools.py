"""An operation whose line names a tool is offered to agents, without a function of its own."""

from __future__ import annotations

import anyio
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank
from reasonbank.fields import plain
from reasonbank.model import Right
from reasonbank.surfaces.mcp.plain_tools import plain_tool
from reasonbank.surfaces.operations import op
from reasonbank.testing import a_memory

HISTORY = plain_tool(op(Bank.history, Right.READ, "GET /memories/{id}/history", tool="versions"))
RESTORE = plain_tool(op(Bank.restore, Right.WRITE, "POST /memories/{id}/restore", tool="restore"))


def test_a_line_of_the_table_is_a_tool_that_answers_as_the_library_does(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.archive(memory.id)

    async def talk():
        async with connected(plain_bank, tools=[HISTORY, RESTORE]) as agent:
            listed = await agent.tools()
            assert listed["versions"].input_schema["required"] == ["id"]
            assert listed["restore"].description == "Bring an archived memory back."
            told = await agent.client.call_tool("versions", {"id": memory.id})
            back = await agent.client.call_tool("restore", {"id": memory.id})
            wrong = await agent.client.call_tool("restore", {"id": "x"})
        return told, back, wrong

    told, back, wrong = anyio.run(talk)
    assert told.structured_content == {"items": plain(plain_bank.history(memory.id))[:2]}
    assert back.structured_content == plain(plain_bank.get(memory.id))
    assert wrong.is_error and "id: 'x' is not a UUID" in wrong.content[0].text

"""An operation whose line names a tool is offered to agents, without a function of its own."""

from __future__ import annotations

import anyio
from tests.surfaces.mcp_agent import connected, told as told_by

from reasonbank import Bank
from reasonbank.fields import plain
from reasonbank.model import Memory, Right
from reasonbank.surfaces.mcp.plain_tools import plain_tool
from reasonbank.surfaces.operations import op
from reasonbank.testing import a_memory

HISTORY = plain_tool(op(Bank.history, Right.READ, "GET /memories/{id}/history", tool="versions"))
MEMORIES = plain_tool(op(Bank.memories, Right.READ, "GET /memories", tool="newest"))
RECORD = plain_tool(op(Bank.record, Right.WRITE, "POST /memories", body=Memory, tool="keep"))
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
    assert told_by(told) == {"items": plain(plain_bank.history(memory.id))[:2]}
    assert told_by(back) == plain(plain_bank.get(memory.id))
    assert wrong.is_error and "id: 'x' is not a UUID" in wrong.content[0].text


def test_it_takes_a_filter_field_by_field_and_a_memory_as_it_is(plain_bank):
    plain_bank.record(a_memory(domain="databases"))
    lesson = {"title": "Pin", "description": "CI", "content": "Use ci", "outcome": "success"}

    async def talk():
        async with connected(plain_bank, tools=[MEMORIES, RECORD]) as agent:
            kept = await agent.client.call_tool("keep", lesson | {"domain": "ci", "tags": ["a"]})
            found = await agent.client.call_tool("newest", {"domain": "ci", "limit": 5})
            wrong = await agent.client.call_tool("newest", {"limit": 5000})
        return kept, found, wrong

    kept, found, wrong = anyio.run(talk)
    assert told_by(found) == {"items": [told_by(kept)]}
    assert wrong.is_error and "limit: 5000 is not a whole number from 1 to 1,000" in str(wrong)

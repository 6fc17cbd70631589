"""The MCP server over streamable HTTP: who calls, how far they reach, and that nothing crosses."""

import threading
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ToolAnnotations
from tests.requirement import requirement
from tests.surfaces.mcp_agent import LESSON, NOBODY, Agent, connected, offering
from tests.surfaces.mcp_http import serving, stateless

from reasonbank.access import LOCAL, Caller
from reasonbank.model import Right
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.memory_tools import TOOLS
from reasonbank.surfaces.mcp.server import BankTool, make_server
from reasonbank.surfaces.mcp.tool import ToolSpec
from reasonbank.surfaces.shapes import Recorded
from reasonbank.testing.builders import a_memory

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["auto", "legacy"])

ENOUGH = {
    "query": "uploads", "task": "uploads", "memory_id": NOBODY, "succeeded": True,
    "helpful": True, "trajectory": [], "ticket": NOBODY, "answer": "Slowly.",
    "question": "How do uploads go?", **LESSON,
}  # fmt: skip


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def visiting(url, token="", workspace=None, **options):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if workspace:
        headers["X-ReasonBank-Workspace"] = str(workspace).encode()
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield Agent(client)


def arguments_of(spec):
    """What ``spec`` cannot do without."""
    schema = BankTool.of(spec).parameters
    kinds = {name: part.get("type") for name, part in schema["properties"].items()}
    return {
        name: {} if kinds[name] == "object" else ENOUGH[name] for name in schema.get("required", ())
    }


@requirement("MCP-1")
@requirement("MCP-2")
@modes
@pytest.mark.parametrize("sessions", [True, False], ids=["sessions", "no sessions"])
async def test_a_client_over_http_goes_the_whole_way(bank, mode, sessions):
    with serving(make_server(bank), {"": LOCAL}, sessions=sessions) as url:
        async with visiting(url, mode=mode) as agent:
            id = (await agent("memory_record", **LESSON))["id"]
            [hit] = (await agent("memory_search", query="the upload broke off"))["memories"]
            assert hit["id"] == id
            reported = await agent("memory_outcome", memory_id=id, succeeded=True)
            rated = await agent("memory_feedback", memory_id=id, helpful=True)
            assert 0.8 < reported["new_confidence"] < rated["new_confidence"]
            assert (await agent("get_memory_genealogy", memory_id=id))["stage"] == 0
            assert (await agent("get_statistics"))["memories"] == 1
            assert (await agent("health_check"))["status"] == "healthy"
            [content] = (await agent.client.read_resource(f"memory://{id}")).contents
            assert "Wait longer" in content.text
            [revision] = (await agent("memory_history", memory_id=id))["revisions"]
            assert revision["surface"] == "mcp"


async def test_a_request_of_the_stateless_revision_stands_alone(plain_bank):
    with serving(make_server(plain_bank), {"": LOCAL}) as url:
        answer = httpx2.post(url, **stateless("memory_record", LESSON))
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers
    stored = answer.json()["result"]["structuredContent"]
    assert plain_bank.get(stored["id"]).title == LESSON["title"]


# Who calls


@modes
async def test_a_request_that_nobody_vouches_for_gets_nothing(plain_bank, mode):
    memory = plain_bank.record(a_memory())
    with serving(make_server(plain_bank), {"known": LOCAL}) as url:
        for token in ("", "unknown"):
            async with visiting(url, token, mode=mode) as agent:
                for spec in TOOLS.values():
                    said = await agent.refused(spec.name, **arguments_of(spec))
                    assert "does not know who calls" in said, spec.name
                for uri in (f"memory://{memory.id}", f"trace://{NOBODY}"):
                    with pytest.raises(MCPError, match="who calls"):
                        await agent.client.read_resource(uri)
        async with visiting(url, "known", mode=mode) as agent:
            assert (await agent("get_statistics"))["memories"] == 1


@pytest.mark.parametrize("name", TOOLS)
async def test_a_tool_is_refused_to_whoever_lacks_its_right(plain_bank, name):
    spec = TOOLS[name]
    lesser = list(Right)[list(Right).index(spec.right) - 1] if spec.right != Right.READ else None
    if lesser:
        async with connected(plain_bank, caller=lambda _: Caller(right=lesser)) as agent:
            said = await agent.refused(name, **arguments_of(spec))
            assert said == f"this needs a token with scope {spec.right}; yours has {lesser}"
            assert plain_bank.statistics().memories == 0
    async with connected(plain_bank, caller=lambda _: Caller(right=spec.right)) as agent:
        result = await agent.client.call_tool(name, arguments_of(spec))
        assert "needs a token" not in str(result.content)


def test_reading_needs_read_writing_write_and_destroying_admin():
    rights = {name: spec.right for name, spec in TOOLS.items()}
    changing = {"memory_record", "memory_feedback", "memory_outcome", "memory_update",
                "solve_coding_task", "memory_consolidate", "distil", "distil_prepare",
                "distil_submit", "capture_knowledge"}  # fmt: skip
    assert {name for name, right in rights.items() if right == Right.WRITE} == changing
    assert {name for name, right in rights.items() if right == Right.ADMIN} == {"memory_forget"}
    for name, spec in TOOLS.items():
        if spec.right == Right.READ and name != "workspace":
            assert not spec.hints.destructive_hint, name


@requirement("WSP-2")
@modes
async def test_a_bound_caller_reaches_their_workspaces_and_no_other(plain_bank, open_bank, mode):
    mine, other = open_bank.project("mine"), open_bank.project("other")
    here, there = plain_bank.within(mine), plain_bank.within(other)
    own, foreign = here.record(a_memory()), there.record(a_memory())
    there.name_workspace(there.view.workspace, "secret")
    caller = Caller(name="ann", workspaces=(here.view.workspace,))
    with serving(make_server(plain_bank), {"ann": caller}) as url:
        async with visiting(url, "ann", mode=mode) as agent:
            assert (await agent("memory_get", memory_id=own.id))["id"] == own.id
            assert "no memory" in await agent.refused("memory_get", memory_id=foreign.id)
            for workspace in (str(other), there.view.workspace, "secret"):
                said = await agent.refused("memory_get", memory_id=foreign.id, workspace=workspace)
                assert "does not reach" in said or "not an absolute path" in said
            listed = await agent("workspace")
            assert [place["id"] for place in listed["workspaces"]] == [here.view.workspace]
            for action in ("delete", "name", "switch"):
                for target in (str(other), there.view.workspace, "secret"):
                    said = await agent.refused(
                        "workspace", action=action, target=target, name="x", confirm=True
                    )
                    assert "there is no" in said or "not" in said
            id = (await agent("memory_record", **LESSON))["id"]
            assert here.get(id).author == "ann"
        roots = offering(other.as_uri(), mine.as_uri())
        async with visiting(url, "ann", mode=mode, list_roots_callback=roots) as agent:
            assert (await agent("workspace"))["here"] == here.view.workspace
    assert there.get(foreign.id)
    assert len(plain_bank.workspaces()) == 2


@modes
@pytest.mark.parametrize("sessions", [True, False], ids=["sessions", "no sessions"])
async def test_a_header_chooses_the_workspace_of_a_connection(
    plain_bank, open_bank, mode, sessions
):
    mine, other = open_bank.project("mein Gerät"), open_bank.project("other")
    here, there = (plain_bank.within(path).view.workspace for path in (mine, other))
    callers = {"": LOCAL, "ann": Caller(workspaces=(here,))}
    with serving(make_server(plain_bank), callers, sessions=sessions) as url:
        roots = offering(other.as_uri())
        async with visiting(url, workspace=mine, mode=mode, list_roots_callback=roots) as agent:
            assert (await agent("workspace"))["here"] == here
            assert (await agent("workspace", workspace=str(other)))["here"] == there
        async with visiting(url, "ann", workspace=other, mode=mode) as agent:
            assert "does not reach" in await agent.refused("workspace")


async def test_only_an_administrator_names_or_deletes_a_workspace(plain_bank):
    plain_bank.record(a_memory())
    writer = Caller(right=Right.WRITE)
    async with connected(plain_bank, caller=lambda _: writer) as agent:
        for action in ("name", "delete"):
            said = await agent.refused(
                "workspace", action=action, target=plain_bank.view.workspace, confirm=True
            )
            assert "scope admin" in said
    assert plain_bank.statistics().memories == 1


@requirement("WSP-3")
@modes
async def test_concurrent_clients_over_http_stay_in_their_workspaces(plain_bank, open_bank, mode):
    seen = {}

    async def work(url, number):
        root = open_bank.project(f"project-{number}").as_uri()
        async with visiting(url, mode=mode, list_roots_callback=offering(root)) as agent:
            async with anyio.create_task_group() as group:
                for part in range(3):
                    lesson = LESSON | {"title": f"uploads of {number}, part {part}"}
                    group.start_soon(lambda lesson=lesson: agent("memory_record", **lesson))
            found = await agent("memory_search", query="uploads", limit=50)
            seen[number] = {memory["title"] for memory in found["memories"]}

    with serving(make_server(plain_bank), {"": LOCAL}) as url:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(work, url, number)
    assert seen == {n: {f"uploads of {n}, part {part}" for part in range(3)} for n in range(8)}


@requirement("WSP-3")
async def test_a_client_that_is_slow_to_say_where_it_works_is_not_taken_to_work_elsewhere(
    plain_bank, open_bank, monkeypatch
):
    monkeypatch.setattr("reasonbank.surfaces.mcp.server.ROOTS_SECONDS", 0.2)
    mine = plain_bank.within(open_bank.project("mine")).view.workspace
    slow = anyio.Event()

    async def busy(_):
        await slow.wait()
        return await offering(open_bank.project("mine").as_uri())(_)

    callers = {"": LOCAL, "ann": Caller(workspaces=(mine,))}
    with serving(make_server(plain_bank), callers) as url:
        async with visiting(url, mode="legacy", list_roots_callback=busy) as agent:
            said = await agent.refused("memory_record", **LESSON)
            assert "nothing was done: call again, or name the `workspace`" in said
            assert (await agent("workspace", workspace=mine))["here"] == mine
            slow.set()
            await agent("memory_record", **LESSON)
        slow = anyio.Event()
        async with visiting(url, "ann", mode="legacy", list_roots_callback=busy) as agent:
            assert (await agent("workspace"))["here"] == mine  # No other can be meant.
            slow.set()
    assert plain_bank.within(open_bank.project("mine")).statistics().memories == 1
    assert plain_bank.statistics().memories == 0


# When it takes long


class Endless:
    """A tool that records one memory after another until its call is cancelled."""

    def __init__(self) -> None:
        self.recorded = 0
        self.ended = threading.Event()
        self.spec = ToolSpec(
            function=self.endless, title="Endless", right=Right.WRITE, hints=ToolAnnotations()
        )

    def endless(self, call: Call) -> Recorded:
        """Record memories for ever."""
        try:
            while True:
                call.bank.record(a_memory())
                self.recorded += 1
                call.progress(self.recorded, self.recorded + 1)
        finally:
            self.ended.set()


@requirement("MCP-2")
@pytest.mark.parametrize("over", ["memory", "http"])
@modes
async def test_a_long_call_tells_its_progress_and_ends_when_cancelled(plain_bank, mode, over):
    tool = Endless()
    server = make_server(plain_bank, tools=[tool.spec])
    told = []

    async def call(agent):
        with anyio.fail_after(30), anyio.CancelScope() as scope:

            async def progress(done, total, message):
                told.append((done, total))
                if done == 3:
                    scope.cancel()

            await agent.client.call_tool("endless", {}, progress_callback=progress)
        assert await anyio.to_thread.run_sync(tool.ended.wait, 30)

    if over == "memory":
        async with Client(server, mode=mode) as client:
            await call(Agent(client))
    else:
        with serving(server, {"": LOCAL}) as url:
            async with visiting(url, mode=mode) as agent:
                await call(agent)
    assert told[:3] == [(1, 2), (2, 3), (3, 4)]
    assert len(plain_bank.memories(limit=1000)) == tool.recorded
    assert plain_bank.record(a_memory())


async def test_a_write_whose_caller_is_gone_is_whole(plain_bank):
    begun, go = threading.Event(), threading.Event()

    def slow(bank) -> Recorded:
        """Record after a while."""
        begun.set()
        go.wait(30)
        id = bank.record(a_memory()).id
        return {"id": id, "message": "", "initial_confidence": 0.5}

    spec = ToolSpec(function=slow, title="Slow", right=Right.WRITE, hints=ToolAnnotations())
    server = make_server(plain_bank, tools=[spec, *TOOLS.values()])
    with serving(server, {"": LOCAL}) as url:
        async with visiting(url) as agent, anyio.create_task_group() as group:
            group.start_soon(agent.client.call_tool, "slow", {})
            await anyio.to_thread.run_sync(begun.wait, 30)
            group.cancel_scope.cancel()
        go.set()
        async with visiting(url) as agent:
            with anyio.fail_after(30):
                while not (await agent("get_statistics"))["memories"]:
                    await anyio.lowlevel.checkpoint()
    [memory] = plain_bank.memories()
    assert memory == plain_bank.get(memory.id)


# When it goes wrong


@requirement("MCP-4")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"my private text", b"[]", b"null", b"[" * 100_000, b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_search", '
        b'"arguments": {"query": "\\ud800", "\\udfff": 1}}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_search", '
        b'"arguments": {"query": NaN}}}',
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "tools/list"}',
    ],
    ids=lambda body: body[-40:].decode("latin-1") or "nothing",
)  # fmt: skip
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_garbage_over_http_is_answered_and_survived(plain_bank, caplog, body, version):
    headers = {"MCP-Protocol-Version": version, "Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"}  # fmt: skip
    with serving(make_server(plain_bank), {"": LOCAL}) as url:
        answer = httpx2.post(url, content=body, headers=headers)
        assert answer.status_code < 500, answer.text
        async with visiting(url) as agent:
            assert (await agent("get_statistics"))["memories"] == 0
    assert "private" not in caplog.text


@requirement("MCP-4")
@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "\ud800"}, {"query": "x", "\udfff": 1}, {"query": "x", "workspace": "/\ud800"},
        {"query": "x", "scope": "\ud800"}, {"query": ["\ud800"]},
    ],
    ids=ascii,
)  # fmt: skip
async def test_half_a_character_is_refused_with_words_over_http(plain_bank, arguments):
    with serving(make_server(plain_bank), {"": LOCAL}) as url:
        answer = httpx2.post(url, **stateless("memory_search", arguments))
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert result["isError"]
    assert "unexpected" not in result["content"][0]["text"]

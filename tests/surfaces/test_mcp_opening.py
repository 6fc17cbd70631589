"""What is answered before the SDK is loaded is what the SDK would answer."""

import copy
import json
import random

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError
from tests.requirement import requirement
from tools import opening as written

from reasonbank.surfaces.mcp import opening
from reasonbank.surfaces.mcp.opening import Opening
from reasonbank.surfaces.mcp.server import make_server

pytestmark = pytest.mark.anyio

PROTOCOL = "io.modelcontextprotocol/"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def handshake(revision, client, **capabilities):
    told = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": told}


def enveloped(id, method, client, capabilities, **more):
    meta = {
        f"{PROTOCOL}protocolVersion": "2026-07-28",
        f"{PROTOCOL}clientInfo": client,
        f"{PROTOCOL}clientCapabilities": capabilities,
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta | more}}


def listed(id, method, **more):
    return {"jsonrpc": "2.0", "id": id, "method": method} | more


READY = {"method": "notifications/initialized", "jsonrpc": "2.0"}
CLAUDE = (
    {"name": "claude-code", "title": "Claude Code", "version": "2.1.325",
     "description": "Anthropic's agentic coding tool", "websiteUrl": "https://claude.com"},
    {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}},
)  # fmt: skip
COPILOT = (
    {"name": "copilot-cli", "version": "1.0.102"},
    {"sampling": {}, "elicitation": {"form": {}, "url": {}}},
)
AGENTS = {
    "claude-code": [
        enveloped("server-discover-probe-1", "server/discover", *CLAUDE),
        enveloped(0, "prompts/list", *CLAUDE),
        enveloped(1, "resources/list", *CLAUDE),
        enveloped(2, "tools/list", *CLAUDE),
    ],
    "codex": [
        handshake(
            "2025-06-18",
            {"name": "codex-mcp-client", "title": "Codex", "version": "0.166.0"},
            experimental={"codex/auth-change": {}}, elicitation={"form": {}, "url": {}},
        ),
        READY,
        listed(1, "tools/list", params={"_meta": {"progressToken": 0}}),
    ],
    "copilot-cli": [
        enveloped(0, "server/discover", *COPILOT),
        enveloped(1, "tools/list", *COPILOT, progressToken=0),
    ],
    "gemini-cli": [
        handshake(
            "2025-06-18",
            {"name": "gemini-cli-mcp-client", "version": "0.61.0"},
            roots={"listChanged": True},
        ),
        READY,
        listed(1, "prompts/list", params={}),
        listed(2, "tools/list", params={}),
        listed(3, "resources/list", params={}),
    ],
    "opencode": [
        handshake("2025-11-25", {"name": "opencode", "version": "1.18.33"}, roots={}),
        READY,
        listed(1, "tools/list"),
    ],
    "qwen-code": [
        handshake(
            "2025-11-25",
            {"name": "qwen-cli-mcp-client-reasonbank", "version": "0.0.1"},
            extensions={f"{PROTOCOL}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}, roots={},
        ),
        READY,
        listed(1, "prompts/list", params={}),
        listed(2, "resources/list", params={}),
        listed(3, "tools/list", params={}),
    ],
}  # fmt: skip
"""What each of them really sends, as it was seen on the wire."""


def lines_of(messages):
    return [json.dumps(message).encode() + b"\n" for message in messages]


def test_the_documents_are_what_the_server_says_now():
    for path, text in written.documents().items():
        assert path.read_text() == text, "run `python -m tools.opening`"


@requirement("MCP-5")
@pytest.mark.parametrize("agent", AGENTS)
def test_all_that_an_agent_asks_first_is_answered(agent):
    first = Opening("core")
    answers = [first.answer(line) for line in lines_of(AGENTS[agent])]
    asked = ["id" in message for message in AGENTS[agent]]
    assert [answer is not None for answer in answers] == asked
    assert first.listed and not first.waits


async def by_the_sdk(server, lines, wanted):
    """What the SDK answers to the requests with the ids ``wanted``, if it is sent these lines."""
    lowlevel = server._lowlevel_server
    there, read = anyio.create_memory_object_stream(99)
    write, here = anyio.create_memory_object_stream(99)
    answers = {}
    async with anyio.create_task_group() as tasks, there, here:
        tasks.start_soon(lowlevel.run, read, write, lowlevel.create_initialization_options())
        for line in lines:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                await there.send(SessionMessage(message))
            except ValidationError as error:
                await there.send(error)
        while not answers.keys() >= wanted:
            message = (await here.receive()).message
            told = message.model_dump_json(by_alias=True, exclude_unset=True)
            answers[getattr(message, "id", None)] = json.loads(told)
        tasks.cancel_scope.cancel()
    return {id: answers[id] for id in wanted}


@pytest.mark.parametrize("tools", ["all", "core"])
@pytest.mark.parametrize("agent", AGENTS)
async def test_every_answer_is_that_of_the_sdk(plain_bank, agent, tools):
    lines, first = lines_of(AGENTS[agent]), Opening(tools)
    ours = [json.loads(said) for said in map(first.answer, lines) if said is not None]
    ours = {answer["id"]: answer for answer in ours}
    assert ours == await by_the_sdk(make_server(plain_bank, tools=tools), lines, ours.keys())


ODD = [
    None, True, 0, -1, 1.5, "", "x", "2024-11-05", "1999-01-01", "2026-07-28", [], {}, [1], 10**20,
    {"listChanged": "yes"}, {"_meta": {}}, {"_meta": None}, {"cursor": "x"}, {"name": 1}, "\ud800",
    {"progressToken": True},
]  # fmt: skip


def spoiled(message, chance):
    """``message`` with a part of it gone, changed or added, somewhere."""
    message = copy.deepcopy(message)
    places = [message]
    for place in places:
        places += [part for part in place.values() if isinstance(part, dict)]
    place = chance.choice(places)
    key = chance.choice([*place, "more", "_meta", "cursor"])
    if chance.random() < 0.3:
        place.pop(key, None)
    else:
        place[key] = chance.choice(ODD)
    return message


async def test_what_is_odd_is_answered_as_by_the_sdk_or_left_to_it(plain_bank):
    chance = random.Random(18)
    server = make_server(plain_bank, tools="core")
    answered = left = 0
    for _ in range(600):
        agent = chance.choice(list(AGENTS.values()))
        number = chance.randrange(len(agent))
        odd = spoiled(agent[number], chance)
        messages = [*agent[:number], odd, *agent[number + 1 :]]
        ids = [str(message["id"]) for message in messages if "id" in message]
        if len(set(ids)) < len(ids):
            continue
        lines, first = lines_of(messages), Opening("core")
        said = [first.answer(line) for line in lines]
        ours = {each["id"]: each for each in map(json.loads, filter(None, said))}
        answered, left = answered + bool(said[number]), left + (said[number] is None)
        with anyio.fail_after(30):
            assert ours == await by_the_sdk(server, lines, ours.keys()), odd
    assert answered > 100
    assert left > 100


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"\xff\xfe\n", b"[" * 9_000 + b"\n",
        b'{"jsonrpc":"2.0","id":NaN,"method":"initialize"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
    ],
)  # fmt: skip
def test_who_does_not_open_as_usual_is_left_to_the_sdk(line):
    first = Opening("core")
    said = [first.answer(each) for each in (line, *lines_of(AGENTS["codex"]))]
    assert not any(said)
    assert first.waits


def test_what_comes_behind_a_call_waits_behind_it():
    first = Opening("core")
    call = listed(7, "tools/call", params={"name": "memory_search", "arguments": {"query": "x"}})
    lines = lines_of([*AGENTS["codex"][:2], call, AGENTS["codex"][2]])
    said = [first.answer(line) is not None for line in lines]
    assert said == [True, False, False, False]


def test_a_refusal_reaches_whoever_asked_and_nobody_else():
    def told(message):
        said = opening.refusal(*lines_of([message]), "it is gone")
        return said and json.loads(said)

    call = {"name": "memory_search", "arguments": {"query": "x"}}
    assert told(READY) is None
    assert told({"jsonrpc": "2.0", "id": 1, "result": {}}) is None
    assert told(listed("a", "prompts/get"))["error"]["message"] == "it is gone"
    [text] = told(listed("\ud800", "tools/call", params=call))["result"]["content"]
    assert text == {"type": "text", "text": "it is gone"}
    modern = enveloped(3, "tools/call", *CLAUDE)
    assert told(modern)["result"]["isError"]
    assert told(modern)["result"]["resultType"] == "complete"

"""The client's own model thinks, through MCP sampling: a real client answers the requests.

`legacy` is revision 2025-11-25, where the server asks while the call is under way; `auto` is
2026-07-28, where it asks in its answer and the client calls again.
"""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, ErrorData, ImageContent, TextContent
from tests.conftest import HASHED
from tests.requirement import requirement
from tests.surfaces.http_server import serving as server_process
from tests.surfaces.mcp_agent import Agent, command, connected, offering
from tests.surfaces.mcp_http import calling, serving

from reasonbank.access import LOCAL
from reasonbank.settings import LLM, Learn
from reasonbank.surfaces.mcp.server import make_server

pytestmark = pytest.mark.anyio

AGENT = replace(HASHED, learn=Learn(reasoner="agent"))
TASK = {
    "task": "make the upload work",
    "trajectory": [{"action": "command", "content": "upload", "feedback": "broken pipe"}],
}
LESSON = {"title": "Resume uploads", "description": "When an upload breaks off", "tags": [],
          "content": "Ask the server how far it got.", "first_step": 1, "last_step": 1,
          "outcome": "success"}  # fmt: skip
ANSWER = json.dumps({"outcome": "success", "score": 0.9, "memories": [LESSON]})
BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Thinker:
    """A client's model, scripted: it gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, context, params):
        self.asked.append(params)
        answer = self.answers.pop(0)
        if not isinstance(answer, str):
            return answer
        content = TextContent(type="text", text=answer)
        return CreateMessageResult(
            role="assistant", content=content, model="client-1", stop_reason="endTurn"
        )


@requirement("DIS-9")
@BOTH
async def test_a_session_is_learned_from_by_the_clients_model(open_bank, mode):
    bank = open_bank(settings=AGENT)
    thinker = Thinker(ANSWER)
    async with connected(bank, mode=mode, sampling_callback=thinker) as agent:
        job = await agent("distil", **TASK)
    assert job["state"] == "done" and job["error"] is None
    (memory,) = bank.memories()
    assert (memory.title, str(memory.source)) == ("Resume uploads", "distilled")
    assert bank.traces()[0].outcome == "success"
    (asked,) = thinker.asked
    assert "broken pipe" in asked.messages[0].content.text
    assert "JSON schema" in asked.system_prompt
    assert bank.statistics().process.model.calls == 1


@requirement("DIS-9")
@requirement("DIS-5")
@BOTH
async def test_an_answer_that_breaks_its_schema_is_asked_for_once_more(open_bank, mode):
    bank = open_bank(settings=AGENT)
    thinker = Thinker("I would rather chat.", ANSWER)
    async with connected(bank, mode=mode, sampling_callback=thinker) as agent:
        assert (await agent("distil", **TASK))["state"] == "done"
    assert len(bank.memories()) == 1
    assert "That was not usable" in thinker.asked[1].messages[-1].content.text
    assert bank.statistics().process.model.repairs >= 1


@requirement("DIS-9")
@pytest.mark.parametrize(
    ("mode", "answers", "reason"),
    [
        ("legacy", ("no", "no"), "InvalidReply"),
        ("auto", ("no", "no"), "InvalidReply"),
        ("legacy", (ErrorData(code=-1, message="the user said no"),), "the user said no"),
        ("legacy", (CreateMessageResult(role="assistant", model="m", content=ImageContent(
            type="image", data="", mime_type="image/png")),) * 2, "no text"),
    ],
)  # fmt: skip
async def test_a_session_that_the_client_does_not_think_about_waits(
    open_bank, mode, answers, reason
):
    bank = open_bank(settings=AGENT)
    async with connected(bank, mode=mode, sampling_callback=Thinker(*answers)) as agent:
        job = await agent("distil", **TASK)
        assert job["state"] == "waiting" and reason in job["error"]
        assert bank.memories() == []
        given = await agent("distil_prepare")
        answer = json.loads(ANSWER)
        assert (await agent("distil_submit", ticket=given["ticket"], answer=answer))["learned"]


@requirement("DIS-9")
@BOTH
async def test_without_sampling_or_with_other_settings_a_session_is_queued(open_bank, mode):
    asked = Thinker()
    for settings, options in ((AGENT, {}), (HASHED, {"sampling_callback": asked})):
        bank = open_bank(settings=settings)
        async with connected(bank, mode=mode, **options) as agent:
            assert (await agent("distil", **TASK))["state"] == "waiting"
    assert asked.asked == []


@BOTH
async def test_the_project_of_a_call_stays_the_same_while_the_client_is_asked(open_bank, mode):
    bank = open_bank(settings=AGENT)
    root = open_bank.project("the root")
    async with connected(
        bank,
        mode=mode,
        sampling_callback=Thinker("chat", ANSWER),
        list_roots_callback=offering(root.as_uri()),
    ) as agent:
        await agent("distil", **TASK)
    assert bank.memories() == []
    assert len(bank.within(root).memories()) == 1


@requirement("DIS-10")
@BOTH
async def test_no_secret_reaches_the_clients_model(open_bank, mode):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    thinker = Thinker(ANSWER)
    async with connected(open_bank(settings=AGENT), mode=mode, sampling_callback=thinker) as agent:
        await agent("distil", **(TASK | {"task": f"log in with {token}"}))
    assert token not in str(thinker.asked) and "[secret:github-token]" in str(thinker.asked)


async def test_a_task_is_solved_by_the_clients_model_where_it_can_be_asked_at_once(open_bank):
    bank = open_bank(settings=AGENT)
    thinker = Thinker("Ask how far it got.", json.dumps({"feedback": "good", "score": 0.9}))
    ask = {"task": "make uploads resume", "enable_matts": False, "store_result": False}
    async with connected(bank, mode="legacy", sampling_callback=thinker) as agent:
        solved = await agent("solve_coding_task", **ask)
        assert solved["solution"] == "Ask how far it got."
    async with connected(bank, mode="auto", sampling_callback=thinker) as agent:
        assert "no language model" in await agent.refused("solve_coding_task", **ask)


async def test_the_limits_of_the_settings_hold_for_the_clients_model_too(open_bank):
    bank = open_bank(settings=replace(AGENT, llm=LLM(budget_tokens=100)))
    thinker = Thinker()
    async with connected(bank, mode="legacy", sampling_callback=thinker) as agent:
        job = await agent("distil", **TASK)
    assert "BudgetExhausted" in job["error"] and thinker.asked == []


@asynccontextmanager
async def over_http(bank, mode, sessions, **options):
    with serving(make_server(bank), {"": LOCAL}, sessions=sessions) as url:
        async with Client(url, mode=mode, **options) as client:
            yield Agent(client)


@requirement("DIS-9")
@pytest.mark.parametrize(
    ("mode", "sessions", "state"),
    [
        ("legacy", True, "done"),
        ("auto", True, "done"),
        ("auto", False, "done"),
        # Without a session there is no channel back, and the session waits in the queue.
        ("legacy", False, "waiting"),
    ],
)
async def test_sampling_over_http(open_bank, mode, sessions, state):
    bank = open_bank(settings=AGENT)
    async with over_http(bank, mode, sessions, sampling_callback=Thinker(ANSWER)) as agent:
        assert (await agent("distil", **TASK))["state"] == state


@requirement("DIS-9")
async def test_the_second_round_may_reach_another_server_of_the_same_bank(open_bank):
    bank = open_bank(settings=AGENT)
    async with calling(make_server(bank)) as one, calling(make_server(bank)) as other:
        first = await one("distil", TASK, capabilities={"sampling": {}})
        [(key, _)] = first["inputRequests"].items()
        answer = {"role": "assistant", "model": "m", "content": {"type": "text", "text": ANSWER}}
        again = {"inputResponses": {key: answer}, "requestState": first["requestState"]}
        told = await other("distil", TASK, capabilities={"sampling": {}}, more=again)
    assert told["structuredContent"]["state"] == "done"
    assert len(bank.traces()) == len(bank.memories()) == 1


@requirement("DIS-9")
async def test_sampling_through_the_server_that_people_start(tmp_path):
    with (
        server_process(tmp_path, REASONBANK_LEARN_REASONER="agent") as server,
        server.client(workspace=tmp_path) as http,
    ):
        headers = {"X-ReasonBank-Workspace": str(tmp_path)} | server.allowed()
        async with (
            httpx2.AsyncClient(headers=headers) as web,
            Client(
                streamable_http_client(f"{server.address}/mcp", http_client=web),
                sampling_callback=Thinker("chat", ANSWER),
            ) as client,
        ):
            assert (await Agent(client)("distil", **TASK))["state"] == "done"
        assert [memory["title"] for memory in http.get("/memories").json()] == ["Resume uploads"]


@requirement("DIS-9")
@BOTH
async def test_sampling_over_standard_streams(tmp_path, mode):
    words, environment = command(tmp_path, "mcp")
    environment["REASONBANK_LEARN_REASONER"] = "agent"
    server = StdioServerParameters(command=words[0], args=words[1:], env=environment)
    async with Client(
        stdio_client(server, errlog=sys.stderr), mode=mode, sampling_callback=Thinker(ANSWER)
    ) as client:
        assert (await Agent(client)("distil", **TASK))["state"] == "done"
        found = await Agent(client)("memory_search", query="Resume uploads", min_confidence=0)
        assert [memory["title"] for memory in found["memories"]] == ["Resume uploads"]

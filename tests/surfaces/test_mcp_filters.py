"""Agents can use scope, domain, parents and every filter: through the server that people start."""

from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.requirement import requirement
from tests.surfaces.mcp_agent import LESSON, Agent, command, connected

from reasonbank import Bank, Settings
from reasonbank.model import Filter
from reasonbank.settings import Embed
from reasonbank.surfaces.mcp.memory_tools import FILTERS

pytestmark = pytest.mark.anyio

ERROR = {"error_type": "BrokenPipeError", "failure_pattern": "p", "corrective_guidance": "g"}
YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).isoformat()
PLAIN, TOLD = "Uploads, plain", "Uploads, told of"
# What finds the one that was told of, and what finds the other.
CHOICES = [
    ({"domain": "network"}, {"domain": "databases"}),
    ({"task_type": "debugging"}, {"task_type": "refactoring"}),
    ({"agent": "builder"}, {"agent": "nobody"}),
    ({"error_type": "BrokenPipeError"}, {"error_type": "KeyError"}),
    ({"tags": ["ci", "git"]}, {"tags": ["git", "absent"]}),
    ({"tags": '["ci"]'}, {"tags": ["absent"]}),
    ({"warnings_only": True}, None),
    ({"scope": "team"}, {"scope": "org"}),
    ({"outcome": "failure"}, {"outcome": "mixed"}),
    ({"created_after": YESTERDAY, "domain": "network"}, {"created_before": YESTERDAY}),
    ({"sources": ["explicit"], "domain": "network"}, {"sources": ["distilled", "passive"]}),
    ({"states": ["active"], "domain": "network"}, {"states": ["archived"]}),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def started(folder):
    [python, *arguments], environment = command(folder, "mcp")
    server = StdioServerParameters(command=python, args=arguments, env=environment, cwd=folder)
    with anyio.fail_after(90):
        async with Client(server) as client:
            yield Agent(client)


@requirement("MCP-1")
def test_every_field_of_a_filter_is_a_parameter():
    own = {"scopes": "scope", "outcomes": "outcome"}  # The words of the seeds.
    assert {f.name for f in fields(Filter)} == set(FILTERS) | set(own)


@requirement("MCP-1")
async def test_an_agent_files_a_memory_and_finds_it_by_every_filter(tmp_path):
    async with started(tmp_path) as agent:
        plain = await agent("memory_record", **LESSON | {"title": PLAIN})
        labels = {"scope": "team", "domain": "network", "task_type": "debugging",
                  "difficulty": "simple", "agent": "builder", "tags": ["git", "ci"],
                  "parents": [plain["id"]], "error_context": ERROR}  # fmt: skip
        told = await agent(
            "memory_record", **LESSON | {"title": TOLD, "outcome": "failure"} | labels
        )
        shown = await agent("memory_get", memory_id=told["id"])
        assert {name: shown[name] for name in labels} == labels
        tree = await agent("get_memory_genealogy", memory_id=told["id"])
        assert tree["ancestors"] == [plain["id"]]

        async def titles(**chosen):
            found = await agent("memory_search", query="uploads fail", **chosen)
            return {memory["title"] for memory in found["memories"]}

        assert await titles() == {PLAIN, TOLD}
        for right, wrong in CHOICES:
            assert await titles(**right) == {TOLD}, right
            assert wrong is None or await titles(**wrong) == set(), wrong
        assert await titles(scope="project", outcome="success") == {PLAIN}


@requirement("MCP-1")
async def test_what_is_archived_is_found_where_it_is_asked_for(tmp_path):
    async with started(tmp_path) as agent:
        id = (await agent("memory_record", **LESSON))["id"]
        url = f"sqlite:///{tmp_path}/bank.db"
        settings = Settings(embed=Embed(model="hashed"))
        with Bank.open(url, workspace=tmp_path, settings=settings) as bank:
            bank.archive(id)
        assert (await agent("memory_search", query="uploads"))["memories"] == []
        [hit] = (await agent("memory_search", query="uploads", states=["archived"]))["memories"]
        assert hit["id"] == id


@requirement("MCP-4")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"created_after": "yesterday"}, "created_after"),
        ({"sources": ["rumour"]}, "sources"),
        ({"states": "gone"}, "states"),
        ({"domain": ["x"]}, "domain"),
        ({"warnings_only": "perhaps"}, "warnings_only: must be true or false"),
    ],
)
async def test_a_wrong_filter_is_refused_by_its_name(plain_bank, wrong, said):
    async with connected(plain_bank) as agent:
        assert said in await agent.refused("memory_search", query="uploads", **wrong)


@requirement("MCP-1")
async def test_a_finished_task_is_handed_in_in_the_words_of_a_stored_session(plain_bank):
    step = {"iteration": 7, "action": "command", "content": "upload",
            "feedback": "exit code 1", "at": "2026-11-01T10:00:00+00:00"}  # fmt: skip
    session = {"task": "upload the file", "outcome": "failure", "trajectory": [step]}
    async with connected(plain_bank) as agent:
        for number, tool in enumerate(("distil", "distil_prepare")):
            await agent(tool, **session | {"task": f"upload file {number}"})
            [stored] = [t for t in plain_bank.traces() if t.task == f"upload file {number}"]
            [kept] = stored.to_json()["trajectory"]
            assert kept == step
        # As agents that were set up before have it.
        await agent("distil", task="old words", steps=[{"action": "think", "content": "hm"}])
        [stored] = [t for t in plain_bank.traces() if t.task == "old words"]
        assert [(s.iteration, s.action) for s in stored.trajectory] == [(1, "think")]
        both = {"task": "x", "steps": [], "trajectory": []}
        assert "steps: is not a parameter" in await agent.refused("distil", **both)

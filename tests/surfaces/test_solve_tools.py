"""solve_coding_task: what an MCP client sees of a task being solved."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client
from tests.agent.player import LESSON, Player
from tests.requirement import requirement
from tests.surfaces.mcp_agent import Agent

from reasonbank import Settings
from reasonbank.llm.scripted import Slow
from reasonbank.settings import Agent as AgentSettings, Embed
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.testing.builders import a_memory

TASK = "Write a function that adds up a list"

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@asynccontextmanager
async def solver(bank, model):
    async with Client(make_server(bank, model=model)) as client:
        yield Agent(client)


async def test_a_client_gets_the_solution_and_how_it_came_about(bank):
    known = bank.record(a_memory(title="Add up a list", description=TASK, content="Use sum()."))
    model = Player("abcdefg", scores={"c": 0.9}, lessons=[LESSON])
    async with solver(bank, model) as agent:
        told = await agent("solve_coding_task", task=TASK)
    assert (told["solution"], told["score"], told["outcome"]) == ("c", 0.9, "success")
    assert len(told["attempts"]) == told["matts_k"] == 5
    assert told["memories_used"] == told["memories_shown"] == [known.id]
    assert bank.trace(told["trace_id"]).memories_learned == tuple(told["memories_learned"])
    assert told["tokens"]["input"] > 0 and told["solution_time"] > 0


@requirement("AGT-11")
@requirement("MCP-2")
async def test_progress_reaches_the_client_while_the_task_is_solved(plain_bank):
    told = []

    async def hear(done, total, message):
        told.append((done, total, message))

    async with solver(plain_bank, Player("abc", scores={"b": 0.9})) as agent:
        arguments = {"task": TASK, "matts_k": 3}
        await agent.client.call_tool("solve_coding_task", arguments, progress_callback=hear)
    done = [entry[0] for entry in told]
    assert done == sorted(done) and done[-1] == told[-1][1]
    assert any("attempt 2: score 0.90" in message for _, _, message in told)


@requirement("AGT-11")
async def test_a_cancelled_call_ends_its_attempts_and_leaves_a_whole_bank(plain_bank):
    ended = anyio.Event()

    async def hang(_):
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    model = Player(lambda call: Slow(seconds=1, reply="a"))
    model._sleep = hang
    async with solver(plain_bank, model) as agent:
        with anyio.fail_after(30), anyio.CancelScope() as scope:

            async def hear(done, total, message):
                if "thinking" in message:
                    scope.cancel()

            await agent.client.call_tool(
                "solve_coding_task", {"task": TASK}, progress_callback=hear
            )
        with anyio.fail_after(30):
            await ended.wait()
        assert plain_bank.traces() == [] and plain_bank.memories() == []
        assert (await agent("get_statistics"))["traces"] == 0


async def test_switched_off_it_makes_one_attempt_and_stores_nothing(plain_bank):
    model = Player("abc", scores={"a": 0.9})
    async with solver(plain_bank, model) as agent:
        told = await agent(
            "solve_coding_task", task=TASK, enable_matts=False, store_result=False, use_memory=False
        )
    assert told["matts_k"] == 1 and told["trace_id"] is None
    assert plain_bank.traces() == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"task": ""}, "task"),
        ({"task": "x" * 1_000_000}, "task"),
        ({"matts_k": 0}, "matts_k"),
        ({"matts_k": 100}, "matts_k"),
        ({"matts_mode": "turbo"}, "matts_mode"),
        ({"verify": "pytest"}, "verify"),
        ({"verify": "sh -c 'rm -rf /'"}, "verify"),
        ({"command": "rm"}, "command"),
        ({"budget": 10**9}, "budget"),
    ],
)
async def test_bad_arguments_are_refused_in_words(plain_bank, wrong, word):
    model = Player()
    async with solver(plain_bank, model) as agent:
        said = await agent.refused("solve_coding_task", **{"task": TASK} | wrong)
    assert word in said and model.calls == []


async def test_without_a_model_the_answer_says_what_to_do_instead(plain_bank):
    async with solver(plain_bank, None) as agent:
        said = await agent.refused("solve_coding_task", task=TASK)
    assert "llm.provider" in said and "memory_search" in said


async def test_an_exhausted_budget_answers_with_the_best_attempt(open_bank):
    settings = Settings(embed=Embed(model="hashed"), agent=AgentSettings(budget_tokens=6000))
    model = Player(lambda call: f"try {len(model.calls)} " + "x" * 4000)
    async with solver(open_bank(settings=settings), model) as agent:
        said = await agent.refused("solve_coding_task", task=TASK, enable_matts=False)
    assert "agent.budget_tokens" in said and "try 1 " in said
    assert json.dumps(said)

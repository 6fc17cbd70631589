"""The whole of solve with a genuine small model: the plumbing, never the quality."""

from __future__ import annotations

import sys

import anyio
import pytest

from reasonbank import Settings
from reasonbank.agent.solve import solve
from reasonbank.llm.port import ModelMeters
from reasonbank.model import Outcome
from reasonbank.opening import model_of
from reasonbank.settings import LLM, Embed, Sandbox
from reasonbank.testing.builders import a_memory

serving = pytest.importorskip("tests.llm.local_model", reason="no server for a local model")
TASKS = (
    ("Write a Python function add(a, b) that returns their sum.", {"mode": "parallel", "k": 2}),
    ("Write a Python function that reverses a string.", {"mode": "sequential", "k": 2}),
    ("Write a Python program that prints hello.", {"mode": "off", "verify": "run"}),
)


@pytest.mark.slow
def test_three_tasks_are_solved_end_to_end_by_a_real_model(open_bank):
    with serving.local_model() as url:
        llm = LLM(
            provider="openai-compatible",
            model="smollm2",
            base_url=url,
            max_tokens=64,
            input_tokens=2500,
            cache="off",
            timeout_seconds=120,
            deadline_seconds=240,
        )
        settings = Settings(
            embed=Embed(model="hashed"),
            llm=llm,
            verify={"run": f"{sys.executable} solution.py"},
            sandbox=Sandbox(network="allow"),
        )
        bank = open_bank(settings=settings)
        known = bank.record(
            a_memory(title="Write a Python function", description="Python function", content="def")
        )
        meters = ModelMeters()

        async def run():
            model = model_of(settings, meters=meters)
            try:
                return [
                    await solve(bank.context, task, model=model, iterations=1, **options)
                    for task, options in TASKS
                ]
            finally:
                await model.close()

        solutions = anyio.run(run)
    assert meters.calls >= 10
    for solution, (task, _) in zip(solutions, TASKS, strict=True):
        trace = bank.trace(solution.trace_id)
        assert solution.solution and trace.task == task
        assert solution.outcome in Outcome and trace.outcome is solution.outcome
        assert trace.metadata["model"] and trace.metadata["total_tokens"] > 0
        assert solution.tokens.output > 0
    assert known.id in solutions[0].memories_shown
    assert solutions[2].attempts[0].passed is not None

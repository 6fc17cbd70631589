"""It learns: what a real verifier found wrong is not tried again, what it found right is."""

from __future__ import annotations

import random

import anyio
import pytest

from reasonbank import Settings
from reasonbank.agent.solve import solve
from reasonbank.errors import Refused
from reasonbank.settings import Agent

agent = pytest.importorskip("bench.agent")
repairs = agent.repairs

BUG = agent.Bug(
    name="largest",
    entry="largest",
    doc="Return the largest of a list of numbers, which is not empty.",
    program="def largest(xs):\n    found = xs[0]\n    for x in xs:\n        if x < found:\n"
    "            found = x\n    return found\n",
    test="def check(candidate):\n    assert candidate([1]) == 1\n"
    "    assert candidate([1, 3, 2]) == 3\n    assert candidate([-1, -3]) == -1\n",
    symptom="AssertionError at `assert candidate([1, 3, 2]) == 3`",
    family="cmp_direction",
)
STRATEGIES = ("bool_const", "arith_op", "cmp_boundary", "eq_negate", "cmp_direction")


def outcomes(bank, *, memory, times):
    """The strategies that were chosen, one a task, and whether the tests passed with each."""
    bare = {"program": BUG.program, "test": BUG.test, "entry": BUG.entry}
    verifier = agent.in_box(agent.CHECK, bare)

    async def run():
        model = agent.Policy(random.Random(3))
        for _ in range(times):
            solution = await solve(
                bank.context, BUG.task, model=model, verify=verifier, ask_model=False,
                use_memory=memory, store=memory,
            )  # fmt: skip
            yield solution.solution, solution.outcome == "success"

    async def collected():
        return [pair async for pair in run()]

    return anyio.run(collected)


def test_with_memory_each_failure_is_made_once_and_a_success_is_kept(open_bank, monkeypatch):
    monkeypatch.setattr(repairs, "STRATEGIES", STRATEGIES)
    settings = Settings(agent=Agent(mode="off", iterations=1, memories=8))
    bank = open_bank(settings=settings)
    try:
        anyio.run(agent.in_box(agent.CHECK, {}).check)
    except Refused as error:
        pytest.skip(str(error))
    tried = outcomes(bank, memory=True, times=8)
    failed = [strategy for strategy, right in tried if not right]
    assert len(failed) == len(set(failed)) < len(STRATEGIES)
    rights = [right for _, right in tried]
    assert rights == sorted(rights) and rights[-3:] == [True] * 3

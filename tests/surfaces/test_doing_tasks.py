"""Tasks of other banks, done with a model that costs something."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace

from tests.agent.player import Player
from tests.agent.served import served
from tests.peers.banks import SETTINGS, TEAM, Member, a_lesson, befriend
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.ledger.port import TaskOffer
from reasonbank.model import Scope, new_id
from reasonbank.settings import LLM
from reasonbank.surfaces.doing_tasks import solver_of

TASK = "Unlock the vault of the shop"


@contextmanager
def a_worker(folder, player, cost=None, channels=(TEAM,)):
    """A bank with a model, another one that it knows, and how the first does a task of the other's
    that may cost so much."""
    member, boss = Member(folder, "worker"), Member(folder, "boss")
    befriend(member, boss, channels)
    member.close()
    with served(player, cost) as where:
        llm = LLM(provider="openai-compatible", model="player",
                  base_url=where["REASONBANK_LLM_BASE_URL"])  # fmt: skip
        member.bank = Bank.open(
            member.url, workspace=member.project, settings=replace(SETTINGS, llm=llm),
            principal=member.principal,
        )  # fmt: skip

        def does(most):
            offer = TaskOffer(
                id=new_id(), ours=False, peer=boss.key.hex(), state="granted", task=TASK, most=most,
                expires_at=1 << 60, workspace=member.bank.view.workspace,
            )  # fmt: skip
            return asyncio.run(solver_of(member.bank)(offer))

        yield member.bank, does
        member.close()
        boss.close()


@requirement("BUS-3")
def test_a_task_of_another_bank_is_told_nothing_that_this_one_may_not_know(tmp_path):
    """What the model is shown it can repeat, and the answer goes to whoever offered the task."""
    player = Player()
    with a_worker(tmp_path, player) as (bank, does):
        bank.record(a_lesson("The vault of the team", "Unlock it with the left key."))
        bank.record(a_lesson("The vault here", "Unlock it with 1234.", scope=Scope.PROJECT))
        bank.record(a_lesson("The vault of all", "Unlock it on Mondays.", scope=Scope.ORG))
        does(1_000_000)
        shown = str([call.messages for call in player.calls])
        assert "with the left key" in shown
        assert "with 1234" not in shown and "on Mondays" not in shown


@requirement("BUS-3")
def test_nothing_more_is_asked_once_what_a_task_may_cost_is_spent(tmp_path):
    player = Player(lambda call: "the left key")
    with a_worker(tmp_path, player, cost=0.04) as (_, does):
        trace, spent = does(50_000)
        assert spent == 40_000 * len(player.calls) >= 50_000
        asked = len(player.calls)
        assert "$0.05 that may be spent on this task" in trace["trajectory"][-1]["content"]
        whole, spent = does(10_000_000)
        assert spent == 40_000 * (len(player.calls) - asked) > 50_000
        assert whole["outcome"] == "success"


def test_what_costs_nothing_is_done_for_nothing(tmp_path):
    with a_worker(tmp_path, Player()) as (_, does):
        trace, spent = does(0)
        assert (trace["outcome"], spent) == ("success", 0)

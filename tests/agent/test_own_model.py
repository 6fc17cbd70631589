"""A bank that was opened with a model of its owner's thinks with it, and leaves it to them."""

from __future__ import annotations

import anyio
import pytest

from reasonbank import Bank, InvalidSetting
from reasonbank.jobs.service import WorkerService
from reasonbank.opening import model_for
from reasonbank.testing import a_trace
from tests.agent.player import LESSON, Player


class Kept(Player):
    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def model():
    return Kept(lessons=[LESSON])


@pytest.fixture
def thinking(tmp_path, model):
    with Bank.open(f"sqlite:///{tmp_path}/bank.db", workspace=tmp_path, model=model) as bank:
        yield bank


def test_it_solves_without_a_model_in_the_settings(thinking, model):
    solution = anyio.run(lambda: thinking.solve("Sum a list", mode="off"))
    assert solution.solution == "a" and model.asked("think")
    assert not model.closed


def test_it_learns_from_sessions_with_it(thinking, model):
    thinking.distil(a_trace(task="Sum a list of numbers"))
    service = WorkerService(thinking.context, model_for(thinking.store))
    anyio.run(lambda: service.run(until_empty=True))
    assert [memory.title for memory in thinking.memories()] == [LESSON["title"]]
    assert thinking.statistics().model.calls == 1 and not model.closed


def test_health_says_whose_it_is(thinking):
    (check,) = [check for check in thinking.health().checks if check.name == "model"]
    assert check.status == "ok" and "handed in" in check.found


def test_a_bank_without_any_model_says_what_to_set(tmp_path):
    url = f"sqlite:///{tmp_path}/bank.db"
    with (
        Bank.open(url, workspace=tmp_path) as bank,
        pytest.raises(InvalidSetting, match=r"llm\.provider"),
    ):
        anyio.run(lambda: bank.solve("Sum a list"))

"""`POST /api/v1/solve`: who may spend the operator's tokens, and on what."""

from __future__ import annotations

import pytest
from tests.agent.player import Player
from tests.agent.served import served
from tests.surfaces.http_server import a_token, serving

TASK = "Write a function that adds up a list"


@pytest.fixture
def player():
    return Player("abcdefg", scores={"b": 0.9})


@pytest.fixture
def solve(player, tmp_path):
    with served(player) as model, serving(tmp_path, **model) as server:
        yield lambda token, **given: server.ask("POST", "solve", token, json={"task": TASK} | given)


def test_the_model_of_a_server_solves_a_task_for_its_operator(solve, tmp_path):
    answer = solve(a_token(tmp_path, "admin"), k=3, mode="parallel")
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["solution"], told["score"], told["outcome"]) == ("b", 0.9, "success")
    assert len(told["attempts"]) == 3


@pytest.mark.parametrize("scope", ["read", "write"])
def test_who_is_no_admin_may_not_have_a_task_solved(solve, player, tmp_path, scope):
    answer = solve(a_token(tmp_path, scope))
    assert answer.status_code == 403
    assert "admin" in answer.json()["message"]
    assert player.calls == []


def test_a_verifier_cannot_be_named(solve, player, tmp_path):
    answer = solve(a_token(tmp_path, "admin"), verify="pytest")
    assert (answer.status_code, answer.json()["field"]) == (400, "verify")
    assert player.calls == []


def test_without_a_model_the_setting_that_is_missing_is_named(tmp_path):
    with serving(tmp_path) as server:
        answer = server.ask("POST", "solve", json={"task": TASK})
    assert answer.json()["error"] == "InvalidSetting"
    assert "llm.provider" in answer.json()["message"]

"""What a token may spend on the model: refused when it is spent, by every door and process."""

from __future__ import annotations

import threading

import anyio
import pytest
from tests.agent.player import Player
from tests.agent.served import served
from tests.surfaces.http_server import a_token, command, serving

from reasonbank import Bank
from reasonbank.access import TokenAccount, TokenStore
from reasonbank.errors import BudgetExhausted, InvalidInput
from reasonbank.llm.port import user
from reasonbank.llm.scripted import Scripted
from reasonbank.opening import capped

TASK = "Write a function that adds up a list"


def opened(folder):
    return Bank.open(f"sqlite:///{folder}/bank.db", workspace=folder)


def a_capped_token(folder, cap, **given):
    with opened(folder) as bank:
        return TokenStore(bank).create(scope="admin", max_tokens=cap, **given)


def spent(folder, id):
    with opened(folder) as bank:
        return next(t.spent_tokens for t in TokenStore(bank).list() if t.id == id)


def test_a_token_whose_tokens_are_spent_is_refused_also_by_another_process(tmp_path):
    _, made = command(tmp_path, "token", "create", "--scope", "admin", "--max-tokens", "3000")
    free = a_token(tmp_path)
    player = Player(lambda call: f"x = {len(player.calls)}", evaluate={"feedback": "", "score": 0})
    with served(player) as model:
        for _ in range(2):
            with serving(tmp_path, **model) as server:
                long = {"task": TASK, "mode": "off", "iterations": 10}
                answer = server.ask("POST", "solve", made["token"], json=long)
                assert answer.json()["error"] == "BudgetExhausted", answer.text
                assert (
                    f"3,000 tokens of token {made['id']} (max_tokens)" in answer.json()["message"]
                )
        _, listed = command(tmp_path, "token", "list")
        capped = next(t for t in listed if t["id"] == made["id"])
        assert 0 < capped["spent_tokens"] <= capped["max_tokens"] == 3000
        before = len(player.calls)
        with serving(tmp_path, **model) as server:
            one = {"task": TASK, "mode": "off", "iterations": 1}
            # A short task may still fit into what the long ones left.
            while server.ask("POST", "solve", made["token"], json=one).status_code == 200:
                before = len(player.calls)
            assert server.ask("POST", "solve", made["token"], json=one).status_code == 503
            assert len(player.calls) == before, "who may spend nothing asks nobody"
            assert server.ask("POST", "solve", free, json=one).status_code == 200


def test_calls_at_once_never_spend_more_than_the_cap(tmp_path):
    made = a_capped_token(tmp_path, 1000)
    with opened(tmp_path) as bank:
        account = TokenAccount(bank.store.ledger, made.id)
        granted, refused = [], []

        def ask():
            try:
                granted.append(account.reserve(50, 150))
            except BudgetExhausted:
                refused.append(1)

        callers = [threading.Thread(target=ask) for _ in range(12)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert sum(granted) == 1000 and len(refused) == 12 - len(granted)
        account.settle(granted[0], 0)
        assert spent(tmp_path, made.id) == 1000 - granted[0]


def test_what_a_call_really_used_is_what_is_spent(tmp_path):
    made = a_capped_token(tmp_path, 100_000)
    model = Scripted(["a short answer"])
    with opened(tmp_path) as bank:
        caller, _ = TokenStore(bank).caller(made.token)
        mine = caller.bank(bank, None)
        said = anyio.run(lambda: capped(mine.context, model).complete([user(TASK)], max_tokens=500))
    assert spent(tmp_path, made.id) == said.usage.tokens < 50


def test_resetting_statistics_gives_nobody_new_tokens(tmp_path):
    made = a_capped_token(tmp_path, 100)
    with opened(tmp_path) as bank:
        TokenAccount(bank.store.ledger, made.id).reserve(60, 60)
        bank.reset_statistics()
        with pytest.raises(BudgetExhausted, match=made.id):
            TokenAccount(bank.store.ledger, made.id).reserve(60, 60)


@pytest.mark.parametrize("cap", [-1, 10**13, "many", 1.5])
def test_a_wrong_cap_is_refused(tmp_path, cap):
    with pytest.raises(InvalidInput, match="max_tokens"):
        a_capped_token(tmp_path, cap)

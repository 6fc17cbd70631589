"""A model for each role: what is set reaches its own server, what is not the main one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.player import LESSON, Player, part_of
from tests.agent.served import served
from tests.llm import servers
from tests.requirement import requirement
from tests.surfaces.http_server import command

from reasonbank.errors import InvalidSetting, ModelUnavailable
from reasonbank.fence import fixed
from reasonbank.llm.port import ModelMeters, user
from reasonbank.llm.roles import acting, names_of
from reasonbank.llm.scripted import Scripted
from reasonbank.opening import model_of
from reasonbank.settings import LLM, ROLES, Embed, RoleModel, Settings, check, load

PARTS = {
    "thinking": {"think"},
    "evaluating": {"evaluate", "compare"},
    "judging": {"judge"},
    "distilling": {"distil", "contrast"},
}
SAME = {
    "title": "Wait longer between tries of an upload", "description": "When an upload fails",
    "content": "Wait longer between the tries.", "tags": [], "outcome": "success",
    "attribution": "both say it", "contradiction": "", "different": "",
}  # fmt: skip


def section(role: str, where: dict[str, str]) -> dict[str, str]:
    """The variables that name a served model for one role."""
    return {
        f"REASONBANK_{role.upper()}_MODEL": f"{role}-model",
        f"REASONBANK_{role.upper()}_BASE_URL": where["REASONBANK_LLM_BASE_URL"],
    }


@requirement("LLM-7")
def test_each_role_reaches_its_own_server(tmp_path: Path) -> None:
    players: dict[str, Scripted] = {role: Player("abc", lessons=[LESSON]) for role in ROLES}
    players["merging"] = Scripted(lambda _: SAME)
    main = Player(think=ModelUnavailable("nobody asked for this"))
    with ExitStack() as running:
        settings = dict(running.enter_context(served(main)))
        for role, player in players.items():
            settings |= section(role, running.enter_context(served(player)))
        code, told = command(
            tmp_path, "solve", "Add up a list", "--k", "2", "--iterations", "1", **settings
        )
        assert code == 0, told
        for words in ("Wait longer between the tries.", "Wait longer between tries."):
            code, said = command(
                tmp_path, "record", "--title", "Wait longer between tries of an upload",
                "--description", "When an upload fails", "--content", words,
                "--outcome", "success", **settings,
            )  # fmt: skip
            assert code == 0, said
        code, merged = command(tmp_path, "consolidate", "--threshold", "0.5", "--force", **settings)
        assert code == 0 and len(merged["created_memories"]) == 1, merged
        code, examined = command(tmp_path, "doctor", **settings)
        code, trace = command(tmp_path, "trace", "show", told["trace_id"], **settings)
    assert main.calls == []
    for role, parts in PARTS.items():
        assert {part_of(call) for call in players[role].calls} <= parts, role
        assert players[role].calls, role
    assert len(players["merging"].calls) == 1
    found = {check["name"]: check["found"] for check in examined["checks"]}
    for role in ROLES:
        assert found[f"model for {role}"].startswith(f"{role}-model of openai-compatible")
        assert trace["metadata"]["models"][role].startswith(f"{role}-model at http:")
    assert trace["metadata"]["model"] == trace["metadata"]["models"]["thinking"]


@requirement("LLM-7")
def test_what_is_not_set_follows_the_main_model(tmp_path: Path) -> None:
    main, judge = Player("abc", lessons=[LESSON]), Player()
    with served(main) as where, served(judge) as other:
        settings = where | section("judging", other)
        code, told = command(tmp_path, "solve", "Add up a list", "--mode", "off", **settings)
    assert code == 0, told
    assert {part_of(call) for call in judge.calls} == {"judge"}
    assert {part_of(call) for call in main.calls} >= {"think", "evaluate", "contrast"}
    assert "judge" not in {part_of(call) for call in main.calls}


def test_a_role_takes_over_what_it_does_not_say() -> None:
    llm = LLM(provider="openai", model="big", key_env="MY_KEY", style="chat", retries=7)
    settings = Settings(llm=llm, judging=RoleModel(model="small"))
    assert settings.llm_of("thinking") == llm
    assert settings.llm_of("judging") == replace(llm, model="small")


@pytest.mark.parametrize(
    "own",
    [
        RoleModel(model="small", provider="ollama"),
        RoleModel(model="small", base_url="http://elsewhere.example/v1"),
    ],
)
def test_no_other_server_gets_the_main_models_key(own: RoleModel) -> None:
    llm = LLM(provider="openai", model="big", key_env="MY_KEY", base_url="http://here.example/v1")
    assert Settings(llm=llm, judging=own).llm_of("judging").key_env == ""


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (RoleModel(provider="ollama"), "judging.model"),
        (RoleModel(model="small"), "judging.provider"),
        (RoleModel(model="small", provider="openai-compatible"), "judging.base_url"),
    ],
)
def test_half_a_model_for_a_role_is_refused_by_name(own: RoleModel, named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        check(Settings(judging=own))


def test_a_reply_of_one_role_is_not_given_to_another() -> None:
    """The same question at temperature 0: the cache tells the models apart."""
    with (
        servers.Server(lambda _: servers.chat("big")) as one,
        servers.Server(lambda _: servers.chat("small")) as other,
    ):
        llm = LLM(provider="openai-compatible", model="m", base_url=one.url)
        settings = Settings(
            embed=Embed(model="hashed"), llm=llm,
            judging=RoleModel(model="m", base_url=other.url),
        )  # fmt: skip
        meters = ModelMeters()
        model = model_of(settings, meters=meters)
        assert model is not None

        async def ask() -> list[str]:
            said = []
            for role in ("thinking", "judging", "thinking", "judging"):
                with acting(role):
                    said.append((await model.complete([user(fixed("who?"))])).text)
            await model.close()
            return said

        assert asyncio.run(ask()) == ["big", "small", "big", "small"]
        assert (meters.calls, meters.cache_hits) == (2, 2)
        assert set(names_of(model).values()) == {f"m at {s.url}" for s in (one, other)}


@requirement("LLM-7")
def test_tries_and_pauses_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, and the pauses read, not waited for."""
    waits: list[float] = []

    async def noted(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("anyio.sleep", noted)
    with servers.Server(lambda _: servers.refused(503)) as server:
        settings = load({
            "REASONBANK_LLM_PROVIDER": "openai-compatible", "REASONBANK_LLM_MODEL": "m",
            "REASONBANK_LLM_BASE_URL": server.url, "REASONBANK_LLM_RETRIES": "2",
            "REASONBANK_LLM_PAUSE_SECONDS": "5",
        })  # fmt: skip
        model = model_of(settings)
        assert model is not None

        async def ask() -> None:
            try:
                await model.complete([user(fixed("who?"))])
            finally:
                await model.close()

        with pytest.raises(ModelUnavailable, match="after 2 retries"):
            asyncio.run(ask())
        assert len(server.requests) == 3
    # Up to a quarter is taken off at random.
    first, second = (wait / 0.02 * 0.5 for wait in waits)
    assert 3.75 <= first <= 5.0 and 7.5 <= second <= 10.0

"""From settings to a model: providers, keys, and what a server asks before it starts."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.llm.conftest import SECRET, reply_of, run
from tests.llm.servers import chat, message, of, refused, responses
from tests.requirement import requirement

from reasonbank import InvalidSetting, KeyRefused, ModelError, Settings
from reasonbank.llm.anthropic import AnthropicModel
from reasonbank.llm.openai import OpenAIModel
from reasonbank.llm.port import ModelMeters, user
from reasonbank.opening import check_model, model_of
from reasonbank.settings import LLM, Embed, check, load
from reasonbank.testing import a_memory

HELLO = [user("hello")]
GOOD = of({"data": []})
REASONBANK = Path(sys.executable).with_name("reasonbank")


def named(provider, url="", **more):
    return Settings(llm=LLM(provider=provider, model="m", base_url=url, **more))


def layers(model):
    names = [type(model).__name__]
    while hasattr(model, "inner"):
        model = model.inner
        names.append(type(model).__name__)
    return names, model


def test_without_a_provider_there_is_no_model_and_nobody_is_asked():
    assert model_of(Settings(), environment={}) is None
    check_model(Settings(), {})


def test_the_layers_are_in_the_documented_order():
    import reasonbank.llm

    names, _ = layers(model_of(named("ollama"), environment={}))
    written = [line.split()[0] for line in reasonbank.llm.__doc__.splitlines()
               if line.startswith("    ") and line[4] != " "]  # fmt: skip
    assert names == [*written[:-1], "OpenAIModel"]
    assert written[-1] == "adapter"
    without, _ = layers(model_of(named("ollama", cache="off"), environment={}))
    assert without == [name for name in names if name != "Cached"]


@requirement("LLM-1")
@pytest.mark.parametrize(
    ("provider", "variable", "style", "address"),
    [
        ("openrouter", "OPENROUTER_API_KEY", "responses", "https://openrouter.ai/api/v1"),
        ("openai", "OPENAI_API_KEY", "responses", "https://api.openai.com/v1"),
        ("ollama", None, "chat", "http://127.0.0.1:11434/v1"),
        ("anthropic", "ANTHROPIC_API_KEY", None, "https://api.anthropic.com"),
    ],
)
def test_a_provider_has_its_address_its_style_and_its_key(provider, variable, style, address):
    environment = {variable: SECRET} if variable else {}
    _, adapter = layers(model_of(named(provider), environment=environment))
    assert isinstance(adapter, AnthropicModel if provider == "anthropic" else OpenAIModel)
    assert adapter.name == f"m at {address}"
    assert style is None or adapter._style == style
    _, adapter = layers(model_of(named(provider, "http://localhost:1/v9"), environment=environment))
    assert adapter.name == "m at http://localhost:1/v9"


@pytest.mark.parametrize(
    ("style", "answer", "path"),
    [("chat", chat("hi"), "/v1/chat/completions"), ("responses", responses("hi"), "/v1/responses")],
)
def test_the_style_can_be_chosen(serve, style, answer, path):
    server = serve([answer])
    model = model_of(named("openrouter", server.url, style=style),
                     environment={"OPENROUTER_API_KEY": SECRET})  # fmt: skip
    assert reply_of(model, HELLO).text == "hi"
    assert server.requests[0].path == path
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_the_key_may_be_in_another_variable(serve):
    server = serve([chat("hi")])
    settings = named("openai-compatible", server.url, key_env="TEAM_KEY")
    reply_of(model_of(settings, environment={"TEAM_KEY": f" {SECRET}\n"}), HELLO)
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    with pytest.raises(KeyRefused, match="TEAM_KEY"):
        model_of(settings, environment={})


@requirement("LLM-2")
def test_replies_on_disk_lie_beside_the_bank_and_are_forgotten_with_it(serve, open_bank):
    server = serve([chat("the secret is out")])
    settings = named("openai-compatible", server.url, cache="disk")
    meters = ModelMeters()

    def ask():
        model = model_of(settings, url=open_bank.url(), meters=meters, environment={})
        return reply_of(model, HELLO)

    bank = open_bank()
    assert [ask().cached, ask().cached] == [False, True]
    replies = Path(open_bank.url().removeprefix("sqlite:///") + ".replies")
    assert b"secret is out" in replies.read_bytes()
    bank.forget(bank.record(a_memory()).id)
    assert b"secret is out" not in replies.read_bytes()
    assert not ask().cached
    assert (meters.cache_hits, meters.cache_misses) == (1, 2)


def test_replies_in_memory_are_forgotten_with_a_memory(serve, plain_bank):
    model = model_of(named("openai-compatible", serve([chat("the secret")]).url), environment={})
    assert [reply_of(model, HELLO).cached for _ in range(2)] == [False, True]
    plain_bank.forget(plain_bank.record(a_memory()).id)
    assert not reply_of(model, HELLO).cached


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (LLM(provider="openai"), "llm.model"),
        (LLM(provider="openai-compatible", model="m"), "llm.base_url"),
        (LLM(provider="anthropic", model="m", style="chat"), "llm.style"),
        (LLM(provider="gemini", model="m"), "llm.provider"),
        (LLM(provider="openai", model="m", effort="extreme"), "llm.effort"),
        (LLM(base_url="ftp://example.com"), "llm.base_url"),
        (LLM(base_url="example.com/v1"), "llm.base_url"),
        (LLM(base_url=f"https://me:{SECRET}@example.com/v1"), "llm.base_url"),
        (LLM(base_url=f"https://example.com/v1?key={SECRET}"), "llm.base_url"),
        (LLM(base_url="http://[::1"), "llm.base_url"),
        (LLM(base_url="http://exa mple.com/v1"), "llm.base_url"),
        (LLM(base_url="http://a..b/v1"), "llm.base_url"),
        (LLM(base_url="http://a:99999/v1"), "llm.base_url"),
        (LLM(key_env=SECRET), "llm.key_env"),
        (LLM(max_tokens=1), "llm.max_tokens"),
        (LLM(concurrency=0), "llm.concurrency"),
        (LLM(temperature=3), "llm.temperature"),
        (LLM(cache="redis"), "llm.cache"),
    ],
)
def test_wrong_settings_are_refused_by_name_and_never_repeat_a_key(settings, name):
    with pytest.raises(InvalidSetting) as refusal:
        check(Settings(llm=settings))
    assert refusal.value.field == name
    assert SECRET not in str(refusal.value)


def test_a_key_is_no_setting():
    for variable in ("REASONBANK_LLM_KEY", "REASONBANK_LLM_API_KEY"):
        with pytest.raises(InvalidSetting, match="is not a setting") as refusal:
            load({"HOME": "/nowhere", variable: SECRET})
        assert SECRET not in str(refusal.value)


@requirement("LLM-4")
@pytest.mark.parametrize(
    ("provider", "variable"),
    [("openrouter", "OPENROUTER_API_KEY"), ("openai", "OPENAI_API_KEY"),
     ("anthropic", "ANTHROPIC_API_KEY")],
)  # fmt: skip
def test_a_missing_or_refused_key_is_told_by_its_variable(serve, provider, variable):
    server = serve([refused(401, f"bad key {SECRET}")])
    settings = named(provider, server.url)
    for environment in ({}, {variable: ""}, {variable: "  "}):
        with pytest.raises(KeyRefused, match=f"{variable} is empty or not set; export {variable}"):
            check_model(settings, environment)
    assert server.requests == []
    with pytest.raises(KeyRefused, match=f"does not accept the key in {variable}") as refusal:
        check_model(settings, {variable: SECRET})
    assert SECRET not in str(refusal.value)
    assert SECRET in str(server.requests[0].headers)


@requirement("LLM-4")
def test_settings_that_need_no_key_never_ask(serve):
    server = serve([refused(401)])
    check_model(named("ollama", server.url), {})
    check_model(named("openai-compatible", server.url), {})
    check_model(Settings(embed=Embed(model="api", base_url=server.url, key_env="")), {})
    assert server.requests == []


@pytest.mark.parametrize("key", ["sk-two\nlines", "sk-with space", "sk-“quoted”", "sk-\x00"])
def test_a_key_that_could_not_be_sent_is_refused_and_not_repeated(key):
    with pytest.raises(KeyRefused, match="OPENROUTER_API_KEY has spaces or letters") as refusal:
        model_of(named("openrouter"), environment={"OPENROUTER_API_KEY": key})
    assert key not in str(refusal.value)


def test_a_good_key_and_a_server_that_is_away_let_the_start_go_on(serve, caplog):
    environment = {"OPENROUTER_API_KEY": SECRET}
    server = serve([GOOD])
    check_model(named("openrouter", server.url), environment)
    assert [r.path for r in server.requests] == ["/v1/key"]
    for answer in (refused(403), refused(500), refused(404)):
        check_model(named("openrouter", serve([answer]).url), environment)
    check_model(named("openrouter", "http://127.0.0.1:9/v1"), environment)
    assert "could not be asked" in caplog.text
    assert SECRET not in caplog.text


def test_the_key_of_an_embedding_server_is_asked_for_too(serve):
    settings = Settings(embed=Embed(model="api", base_url=serve([refused(401)]).url))
    with pytest.raises(KeyRefused, match="OPENAI_API_KEY is empty"):
        check_model(settings, {})
    with pytest.raises(KeyRefused, match="does not accept the key in OPENAI_API_KEY"):
        check_model(settings, {"OPENAI_API_KEY": SECRET})


def test_a_missing_extra_names_its_install_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for asked in (check_model, lambda s, e: model_of(s, environment=e)):
        with pytest.raises(InvalidSetting, match=r"pip install 'reasonbank\[anthropic\]'"):
            asked(named("anthropic"), {"ANTHROPIC_API_KEY": SECRET})


def test_all_layers_work_together(serve):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = serve([refused(503, retry_after_ms="1"), chat("hm"), chat('{"n": 1}')])
    meters = ModelMeters()
    settings = named("openai-compatible", server.url, effort="low", max_tokens=100,
                     rate_per_minute=600, budget_tokens=5000)  # fmt: skip

    async def story():
        model = model_of(settings, meters=meters, environment={})
        calls = [model.complete(HELLO, schema=schema, max_tokens=900) for _ in range(5)]
        replies = await asyncio.gather(*calls)
        await model.close()
        return replies

    assert [reply.value for reply in run(story())] == [{"n": 1}] * 5
    assert server.requests[0].body["max_tokens"] == 100
    assert server.requests[0].body["reasoning_effort"] == "low"
    known = meters.to_json()
    counted = ("calls", "retries", "repairs", "failures", "cache_misses", "shared")
    assert [known[name] for name in counted] == [2, 1, 1, 1, 1, 4]
    assert known["input_tokens"] == 40


def command(tmp_path, *arguments, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return subprocess.run(
        [REASONBANK, *arguments], env=kept | {"HOME": str(tmp_path)} | environment,
        cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@requirement("LLM-4")
@pytest.mark.parametrize("name", ["mcp", "serve", "worker"])
def test_a_server_without_its_key_does_not_start(serve, tmp_path, name):
    bank = str(tmp_path / "bank.db")
    chosen = {"REASONBANK_LLM_PROVIDER": "openrouter", "REASONBANK_LLM_MODEL": "m",
              "REASONBANK_LLM_BASE_URL": serve([refused(401)]).url}  # fmt: skip
    done = command(tmp_path, "--bank", bank, name, **chosen)
    assert (done.returncode, done.stdout) == (7, "")
    assert "OPENROUTER_API_KEY" in done.stderr
    done = command(tmp_path, "--bank", bank, name, **chosen, OPENROUTER_API_KEY=SECRET)
    assert (done.returncode, done.stdout) == (7, "")
    assert "does not accept the key in OPENROUTER_API_KEY" in done.stderr
    assert SECRET not in done.stderr
    assert not Path(bank).exists()
    if name == "mcp":
        done = command(tmp_path, "--bank", bank, name)
        assert done.returncode == 0, done.stderr


def test_llm_check_makes_one_real_call_and_says_what_works(serve, tmp_path):
    server = serve([chat('{"answer": "yes", "certainty": 0.9}')])
    chosen = {"REASONBANK_LLM_PROVIDER": "openai-compatible", "REASONBANK_LLM_MODEL": "m",
              "REASONBANK_LLM_BASE_URL": server.url}  # fmt: skip
    done = command(tmp_path, "llm", "check", "--json", **chosen)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(server.requests) == 1
    assert told["model"] == "served-model"
    assert told["style"] == "chat"
    assert told["schema"] == "enforced by the server"
    assert (told["calls"], told["input_tokens"], told["cost"]) == (1, 20, None)
    assert told["milliseconds"] >= 0
    done = command(tmp_path, "llm", "check", **chosen)
    assert "served-model" in done.stdout
    server = serve([chat("yes"), chat('{"answer": "yes", "certainty": 1}')])
    done = command(
        tmp_path, "llm", "check", "--json", **chosen | {"REASONBANK_LLM_BASE_URL": server.url}
    )
    assert "did not keep to it" in json.loads(done.stdout)["schema"]


def test_llm_check_says_what_is_wrong(serve, tmp_path):
    done = command(tmp_path, "llm", "check")
    assert done.returncode == 2
    assert "llm.provider" in done.stderr
    chosen = {"REASONBANK_LLM_PROVIDER": "openai", "REASONBANK_LLM_MODEL": "m",
              "REASONBANK_LLM_BASE_URL": serve([refused(401)]).url}  # fmt: skip
    done = command(tmp_path, "llm", "check", **chosen)
    assert (done.returncode, "OPENAI_API_KEY" in done.stderr) == (7, True)
    done = command(tmp_path, "llm", "check", "--json", **chosen, OPENAI_API_KEY=SECRET)
    assert json.loads(done.stdout)["error"] == "KeyRefused"
    assert SECRET not in done.stdout + done.stderr


def test_a_model_of_anthropics_is_retried_and_its_errors_are_ours(serve):
    server = serve([refused(529, retry_after_ms="1"), refused(503, retry_after_ms="1"),
                    message("hi"), refused(402)])  # fmt: skip
    settings = named("anthropic", server.url.removesuffix("/v1"), cache="off")
    meters = ModelMeters()
    model = model_of(settings, meters=meters, environment={"ANTHROPIC_API_KEY": SECRET})
    assert reply_of(model, HELLO).text == "hi"
    assert meters.retries == 2
    with pytest.raises(ModelError, match="402"):
        reply_of(model, HELLO)
    assert len(server.requests) == 4


def test_settings_of_the_environment_reach_the_model():
    settings = load({"HOME": "/nowhere", "REASONBANK_LLM_PROVIDER": "ollama",
                     "REASONBANK_LLM_MODEL": "qwen3", "REASONBANK_LLM_EFFORT": "high",
                     "REASONBANK_LLM_TIMEOUT_SECONDS": "5"})  # fmt: skip
    expected = LLM(provider="ollama", model="qwen3", effort="high", timeout_seconds=5.0)
    assert settings.llm == expected
    assert replace(settings, llm=LLM()) == Settings()

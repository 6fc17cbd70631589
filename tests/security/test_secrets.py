"""Planted secrets and texts, and every place where they must not turn up."""

import io
import json
import os
import subprocess
import sys

import apsw
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from tests.requirement import requirement
from tests.surfaces.http_server import a_token, serving

from reasonbank.errors import ReasonBankError
from reasonbank.fields import plain
from reasonbank.health import report
from reasonbank.surfaces.show.metrics import render
from reasonbank.testing import a_memory, a_trace, a_warning

TEXT, QUESTION, TOKEN = "Xylophone", "Quetzalcoatl", "sk-planted-0123456789abcdef"
ENVIRONMENT = {
    "REASONBANK_EMBED_MODEL": "hashed",
    "REASONBANK_LLM_PROVIDER": "openai-compatible",
    "REASONBANK_LLM_MODEL": "any",
    "REASONBANK_LLM_BASE_URL": "http://127.0.0.1:1/v1",
    "REASONBANK_LLM_KEY_ENV": "PLANTED_KEY",
    "REASONBANK_LLM_DEADLINE_SECONDS": "1",
    "PLANTED_KEY": TOKEN,
    "REASONBANK_TELEMETRY_ENDPOINT": f"http://user:{TOKEN}@127.0.0.1:1/v1/traces?key={TOKEN}",
    "REASONBANK_LOG_LEVEL": "debug",
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


def clean(said):
    found = [word for word in (TEXT, QUESTION, TOKEN) if word in said]
    assert not found, said
    return said


@pytest.mark.anyio
@requirement("SEC-4")
async def test_no_log_of_a_server_tells_a_memory_a_question_or_a_key(tmp_path):
    file = tmp_path / "bank.db"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "reasonbank.surfaces.cli", "mcp", "--bank", str(file)],
        env={**os.environ, **ENVIRONMENT},
        cwd=tmp_path,
    )
    lesson = {"title": TEXT, "description": f"When {TEXT}", "content": f"Do {TEXT}"}
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            said = await client.call_tool("memory_record", {**lesson, "outcome": "success"})
            id = said.structured_content["id"]
            await client.call_tool("memory_search", {"query": f"{QUESTION} {TEXT}"})
            await client.call_tool("memory_search", {"query": QUESTION, "limit": TEXT})
            await client.call_tool("memory_get", {"memory_id": TEXT})
            await client.call_tool(TEXT, {})
            health = await client.call_tool("health_check", {})
            assert TOKEN not in health.content[0].text
            break_it(file)
            failed = await client.call_tool("get_memory_genealogy", {"memory_id": id})
            assert "unexpected error (SQLError)" in clean(failed.content[0].text)
    lines = clean((tmp_path / "log").read_text()).splitlines()
    lines = [line for line in lines if not line.startswith("Made a new bank at ")]
    facts = [json.loads(line) for line in lines]
    assert any("unexpected SQLError at" in fact["message"] for fact in facts)


@requirement("SEC-4")
def test_no_log_of_a_web_server_tells_a_token_or_a_text(tmp_path):
    token = a_token(tmp_path, "write")
    with serving(tmp_path, REASONBANK_LOG_LEVEL="debug") as server:
        with server.client(token) as client:
            lesson = {"title": TEXT, "description": TEXT, "content": TEXT, "outcome": "success"}
            assert client.post("/memories", json=lesson).status_code == 201
            assert client.post("/search", json={"query": f"{QUESTION} {TEXT}"}).status_code == 200
            assert client.post("/search", json={"query": 1, TEXT: QUESTION}).status_code == 400
            assert client.delete(f"/memories/{TEXT}").status_code in (400, 403)
        for wrong in (f"{token}0", TOKEN):
            with server.client(wrong) as client:
                told = client.post("/search", json={"query": "x"})
                assert told.status_code == 401 and wrong not in told.text
        assert server.stop() == 0
    log = clean((tmp_path / "stderr").read_text())
    assert log and token.rpartition("_")[2] not in log


def break_it(file):
    """What nobody expects: a table is gone."""
    db = apsw.Connection(str(file))
    db.execute("drop table kin")
    db.close()


@requirement("SEC-4")
def test_numbers_audit_and_health_tell_no_text(open_bank):
    bank = open_bank()
    memory = bank.record(a_memory(title=TEXT, content=f"{TEXT} {TOKEN}"))
    bank.record(a_warning(corrective_guidance=TEXT))
    bank.update(memory.id, description=TEXT)
    bank.feedback(memory.id, helpful=True, comment=TEXT)
    bank.store_trace(a_trace(task=TEXT))
    bank.search(f"{QUESTION} {TEXT}", session=QUESTION)
    for told in (render(bank), bank.statistics(), bank.audit(uses=True), report(bank.context)):
        clean(json.dumps(plain(told)))


@requirement("SEC-4")
def test_an_export_has_nothing_of_the_settings(open_bank, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    bank = open_bank()
    bank.record(a_memory())
    for form in ("jsonl", "markdown"):
        file = io.StringIO()
        bank.export(file, format=form)
        clean(file.getvalue())


@requirement("SEC-4")
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--bank", f"postgres://user:{TOKEN}@127.0.0.1/db", "stats"], {}),
        (["stats"], {"REASONBANK_TELEMETRY_ENDPOINT": f"ftp://{TOKEN}@127.0.0.1"}),
        (["stats"], {"REASONBANK_API_KEY": TOKEN}),
        (["stats"], {"REASONBANK_LLM_KEY": TOKEN}),
        (["doctor"], ENVIRONMENT),
        (["llm", "check"], ENVIRONMENT),
        (["doctor"], {"REASONBANK_LLM_BASE_URL": f"http://user:{TOKEN}@127.0.0.1:1/v1"}),
    ],
    ids=["url", "endpoint", "unknown setting", "key as setting", "doctor", "model", "address"],
)
def test_what_the_command_says_has_no_key_in_it(tmp_path, arguments, environment):
    places = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", *arguments],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **places, **environment},
    )  # fmt: skip
    assert done.returncode != 0 or arguments == ["doctor"]
    assert done.stdout + done.stderr
    clean(done.stdout + done.stderr)


@requirement("SEC-4")
def test_an_error_that_goes_far_away_quotes_no_more_than_the_field(plain_bank):
    with pytest.raises(ReasonBankError) as caught:
        plain_bank.record(a_memory(title="", content=TEXT))
    clean(str(caught.value))

"""One sentence is enough through every way in, and each says what it made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import serving
from tests.surfaces.mcp_agent import connected

SENTENCE = "Never retry a charge when it timed out."
TITLE = "Never retry a charge when it timed out"
PARTS = {"title": TITLE, "description": "When it timed out", "outcome": "failure"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def typed(tmp_path):
    """The command as somebody types it, with the default settings."""

    def run(*words, code=0, **options):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("reasonbank")), *words],
            cwd=tmp_path, env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=False, **options,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    return run


@requirement("CLI-5")
def test_words_typed_without_quotes_are_remembered_and_found(typed):
    told = typed("remember", *SENTENCE.split())
    for name, value in PARTS.items():
        assert f"  {name}: {value}\n" in told
    assert "reasonbank update" in told
    [found] = json.loads(typed("search", "a payment timed out", "--json"))["memories"]
    assert {name: found[name] for name in PARTS} == PARTS
    typed("update", found["id"], "--outcome", "mixed")
    assert json.loads(typed("show", found["id"], "--json"))["outcome"] == "mixed"


@requirement("CLI-5")
def test_a_command_says_what_it_derived(typed):
    stored = json.loads(typed("remember", SENTENCE, "--outcome", "mixed", "--json"))
    assert stored["derived"] == ["title", "description"] and stored["outcome"] == "mixed"
    assert json.loads(typed("record", "--content", SENTENCE, "--json"))["derived"] == list(PARTS)
    assert typed("remember", "-", input=SENTENCE).startswith("Recorded ")
    told = ["--content", "x", "--title", "t", "--description", "d", "--outcome", "success"]
    assert "derived" not in json.loads(typed("record", *told, "--json"))
    assert len(typed("record", *told).splitlines()) == 1
    assert "content: must not be blank" in typed("remember", " ", code=2)
    assert "title: must not be blank" in typed("remember", "x", "--title", "", code=2)


@requirement("CLI-5")
def test_the_content_alone_does_over_http(tmp_path):
    with serving(tmp_path) as server, server.client(workspace=tmp_path) as client:
        stored = client.post("/memories", json={"content": SENTENCE})
        assert stored.status_code == 201
        assert stored.json().items() >= (PARTS | {"derived": list(PARTS)}).items()
        whole = client.post("/memories", json=PARTS | {"content": "x"}).json()
        assert "derived" not in whole
        for wrong in ({}, {"content": ""}, {"content": "x", "title": ""}):
            refused = client.post("/memories", json=wrong).json()
            assert refused["field"] == ("title" if "title" in wrong else "content")


@requirement("CLI-5")
@pytest.mark.anyio
async def test_the_content_alone_does_for_an_agent(bank):
    async with connected(bank) as agent:
        answer = await agent("memory_record", content=SENTENCE)
        assert answer["message"].endswith("; ".join(f"{n}: {v}" for n, v in PARTS.items()))
        stored = await agent("memory_get", memory_id=answer["id"])
        assert {name: stored[name] for name in PARTS} == PARTS
        whole = await agent("memory_record", content="x", **PARTS)
        assert whole["message"] == "Memory recorded successfully"
        assert "title: must not be blank" in await agent.refused(
            "memory_record", content="x", title=" "
        )

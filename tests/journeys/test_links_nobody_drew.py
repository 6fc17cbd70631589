"""A person stores sentences, tidies up, and finds what hangs together, through every way in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import serving
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank

SENTENCES = {
    "retry": ["Retrying a card charge after a timeout leads to duplicate charges."],
    "duplicate": ["Duplicate charges are refunded by the nightly settlement job."],
    "query": ["Give every database query a timeout, so that a slow query cannot hang the service.",
              "--domain", "databases"],
    "request": ["Give every web request a timeout, so that a slow request cannot hang the service.",
                "--domain", "web"],
    "cache": ["Give every cache lookup a timeout, so that a slow cache cannot hang the service."],
    "push": ["Always rebase a feature branch before you push it to the shared repository."],
    "never": ["Never rebase a feature branch before you push it to the shared repository."],
    "logs": ["Look at the logs of the ingress controller first when a page answers 502."],
    "log": ["Look at the logs of the load balancer next when a page answers 502."],
}  # fmt: skip
ASKED = "a page answers 502"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def typed(tmp_path):
    """The command as somebody types it, with the default settings."""

    def run(*words):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("reasonbank")), *words, "--json"],
            cwd=tmp_path, env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path),
                               "REASONBANK_URL": f"sqlite:///{tmp_path}/bank.db"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@requirement("GEN-3")
def test_links_of_each_type_are_found_with_the_default_settings(typed):
    ids = {name: typed("record", "--content", *words)["id"] for name, words in SENTENCES.items()}
    names = {id: name for name, id in ids.items()}
    for session in ("one", "two"):
        found = typed("search", ASKED, "--session", session)["memories"]
        assert {names[m["id"]] for m in found} >= {"logs", "log"}
    typed("consolidate")
    drawn = {
        (link["type"], frozenset((names[link["source"]], names[link["target"]])))
        for id in ids.values()
        for link in typed("show", id)["links"]
        if 0 < link["strength"] <= 1
    }
    assert drawn >= {
        ("causes", frozenset(("retry", "duplicate"))),
        ("analogy", frozenset(("query", "request"))),
        ("contradicts", frozenset(("push", "never"))),
        ("co_used", frozenset(("logs", "log"))),
    }
    assert any(type == "similar" and "cache" in pair for type, pair in drawn)
    assert [
        link["source"] for link in typed("show", ids["retry"])["links"] if link["type"] == "causes"
    ] == [ids["retry"]]


@requirement("GEN-3")
@pytest.mark.anyio
async def test_a_search_follows_a_link_one_step_through_every_way_in(typed, tmp_path):
    first, second, third = (
        typed("remember", text)["id"]
        for text in ("Rotate the ingress certificate with certbot", "Dough rests overnight",
                     "Water the tomatoes twice a week")
    )  # fmt: skip
    typed("link", first, second, "--type", "causes", "--strength", "0.5")
    typed("link", second, third)
    asked = "renew the ingress certificate"

    def followed(memories):
        [start, linked] = memories
        assert (start["id"], linked["id"], linked["via"]) == (first, second, first)
        assert "via" not in start
        assert linked["relevance"] == pytest.approx(start["relevance"] / 2, abs=1e-5)

    followed(typed("search", asked, "--follow-links")["memories"])
    assert len(typed("search", asked)["memories"]) == 1
    url = f"sqlite:///{tmp_path}/bank.db"
    with Bank.open(url, workspace=tmp_path) as bank:
        followed([hit.to_json() for hit in bank.search(asked, follow_links=True)])
        async with connected(bank) as agent:
            followed((await agent("memory_search", query=asked, follow_links=True))["memories"])
    same = {"REASONBANK_EMBED_MODEL": "minilm", "REASONBANK_URL": url}
    with serving(tmp_path, **same) as server, server.client(workspace=tmp_path) as client:
        answer = client.post("/search", json={"query": asked, "follow_links": True})
        followed(answer.json()["memories"])

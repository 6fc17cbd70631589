"""The JSON API and MCP of a real `reasonbank serve`, called by real clients."""

import inspect
import json
import re
import signal
import socket

import anyio
import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, command, serving
from tests.surfaces.mcp_agent import told as told_by

from reasonbank import Bank
from reasonbank.surfaces.http.openapi import document
from reasonbank.surfaces.operations import OPERATIONS

NOBODY = "01a1dd00-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Nobody but the tests takes a job from the queue.
    folder = tmp_path_factory.mktemp("http")
    with serving(folder, REASONBANK_LEARN_REASONER="agent") as server:
        yield server


@pytest.fixture
def api(server, tmp_path):
    """A client in a workspace of its own."""
    with server.client(workspace=tmp_path) as client:
        yield Api(client)


class Api:
    """Calls the API, and holds every answer against the schema that was promised."""

    def __init__(self, client):
        self.client = client
        self.seen = set()

    def __call__(self, method, path, given=None, *, status=None, **query):
        route = next(r for r in OPERATIONS if r.method == method and matches(r.path, path))
        answer = self.client.request(method, path, json=given, params=query)
        assert answer.status_code == (status or route.status), answer.text
        conforms(route, answer)
        self.seen.add(route.name)
        return answer.json()

    def refused(self, method, path, given=None, **options):
        answer = self.client.request(method, path, json=given, **options)
        assert answer.status_code >= 400, answer.text
        assert set(answer.json()) <= {"error", "message", "field"}
        return answer.status_code, answer.json()


def matches(pattern, path):
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path)


DOCUMENT = document()


def conforms(route, answer):
    operation = DOCUMENT["paths"]["/api/v1" + route.path][route.method.lower()]
    declared = operation["responses"][str(answer.status_code)]
    schema = declared["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(answer.json())


# What is on offer


@requirement("HTTP-1")
def test_the_api_does_everything_that_a_bank_can():
    plumbing = {"open", "close", "within", "seen_by", "settings", "author", "store", "view"}
    plumbing.add("work")  # A server does that unasked.
    plumbing.add("backup")  # Writes a file on the machine of whoever asks.
    can = {n.rstrip("_") for n, _ in inspect.getmembers(Bank) if not n.startswith("_")} - plumbing
    assert can <= {route.name for route in OPERATIONS}


@requirement("HTTP-1")
def test_the_document_names_every_route_and_is_sound(server):
    told = server.get("/openapi.json").json()
    assert told == json.loads(json.dumps(DOCUMENT))
    assert told["openapi"].startswith("3.1")
    for route in OPERATIONS:
        assert told["paths"]["/api/v1" + route.path][route.method.lower()]["summary"]
    for schema in told["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@requirement("HTTP-1")
def test_a_whole_journey_through_the_api(api):
    memory = api("POST", "/memories", LESSON)
    assert (memory["author"], memory["confidence"]) == ("tester", 0.8)
    found = api("POST", "/search", {"query": "upload breaks", "session": "s1", "explain": True})
    assert [hit["id"] for hit in found["memories"]] == [memory["id"]]
    path = f"/memories/{memory['id']}"
    raised = api("POST", f"{path}/feedback", {"helpful": True, "session": "s1"})
    assert raised["confidence"] > 0.8
    assert api("POST", f"{path}/outcome", {"succeeded": True})["confidence"] > 0.8
    assert api("POST", f"{path}/stability", {"kept": True})["confidence"] > 0.8
    assert api("POST", "/sessions/s1/outcome", {"succeeded": True}) == {
        "credited": 1,
        "held_out": False,
    }
    child = api("POST", "/memories", {**LESSON, "title": "Resume", "parents": [memory["id"]]})
    tree = api("GET", f"{path}/genealogy")
    assert tree["descendants"] == [child["id"]]
    assert api("PATCH", path, {"domain": "networks"})["revision"] == 2
    assert api("PATCH", path, {"domain": None})["domain"] is None
    assert api("POST", f"{path}/undo", {})["domain"] == "networks"
    assert api("POST", f"{path}/undo", {"to": 1})["domain"] is None
    assert len(api("GET", f"{path}/history")) == 5
    assert {e["kind"] for e in api("GET", f"{path}/evidence")} >= {"explicit", "outcome"}
    assert api("POST", f"{path}/archive", {"reason": "old"})["state"] == "archived"
    assert api("GET", "/memories", states="archived")[0]["id"] == memory["id"]
    assert api("POST", f"{path}/restore", {})["state"] == "active"
    ends = {"source": memory["id"], "target": child["id"], "type": "similar"}
    assert api("POST", "/links", {**ends, "strength": 0.5})["strength"] == 0.5
    assert len(api("GET", f"{path}/links")) == 1
    assert api("DELETE", "/links", **ends)["message"] == "Removed"
    assert api("POST", "/recommend", {"task": "upload breaks"})["strategy"]["id"]
    trace = api("POST", "/traces", {
        "task": "upload", "outcome": "success", "metadata": {"model": "m"},
        "trajectory": [{"iteration": 0, "action": "try", "score": 0.5,
                        "at": "2026-01-01T00:00:00Z"}]})  # fmt: skip
    assert api("GET", f"/traces/{trace['id']}") == trace
    assert api("GET", "/traces", limit=1) == [trace]
    job = api("POST", "/sessions", {"task": "another upload"})
    assert (job.pop("new_steps"), bool(job.pop("message"))) == (0, True)
    assert api("GET", "/jobs", state="waiting") == [job]
    assert api("POST", f"/jobs/{job['id']}/retry")["state"] == "waiting"
    assert api("DELETE", f"/jobs/{job['id']}")["id"] == job["id"]
    assert api("GET", "/statistics")["memories"] == 2
    assert api("GET", "/health")["status"] != "unhealthy"
    assert api("DELETE", "/traces", older_than_days=0) == {"purged": 2}
    assert api("DELETE", path, confirm="true")["message"] == "Memory forgotten"
    assert api.refused("GET", path)[0] == 410
    assert {"record", "search", "credit", "genealogy", "statistics", "health"} <= api.seen


@requirement("HTTP-1")
def test_what_concerns_the_whole_bank_can_be_done_too(api, tmp_path):
    api("POST", "/memories", LESSON)
    [here] = [w for w in api("GET", "/workspaces") if w["path"] == str(tmp_path)]
    named = api("POST", f"/workspaces/{here['id']}/name", {"name": tmp_path.name})
    assert named["name"] == tmp_path.name
    moved = api("POST", f"/workspaces/{here['id']}/move", {"path": f"{tmp_path}/new"})
    assert moved["path"] == f"{tmp_path}/new"
    assert api("GET", "/statistics", everywhere="true")["workspace"] is None
    assert api("POST", "/embed")["embedded"] >= 0
    assert api("POST", "/maintain")["pruned"] == []
    assert api("POST", "/reindex", {})["embedder"] == "hashed-384"
    assert api("POST", "/rebuild", {})["message"] == "Rebuilt"
    status, error = api.refused("DELETE", f"/workspaces/{tmp_path.name}")
    assert (status, error["error"]) == (409, "ConfirmationNeeded")
    gone = api("DELETE", f"/workspaces/{tmp_path.name}", confirm="true")
    assert gone == {"id": here["id"], "memories": 1, "message": "Workspace deleted"}


def test_a_bank_goes_out_and_into_another(server, api, tmp_path):
    api("POST", "/memories", LESSON)
    export = api.client.get("/export")
    assert export.headers["content-type"].startswith("application/x-ndjson")
    with serving(tmp_path / "other") as other, other.client(workspace=tmp_path) as client:
        trusted = {"trusted": "true"}
        first = client.post("/import", content=export.content, params=trusted)
        assert first.json()["new"] == first.json()["events"] > 0
        again = client.post("/import", content=export.content, params=trusted)
        assert again.json()["new"] == 0
        here = api.client.get("/export", params={"only_here": "true"}).text
        there = client.get("/export", params={"only_here": "true"}).text
        assert here.splitlines()[1:-1] == there.splitlines()[1:-1]
        assert "Retry uploads" in client.get("/export", params={"format": "markdown"}).text
        cut = client.post("/import", content=export.content[:-20])
        assert (cut.status_code, cut.json()["error"]) == (400, "InvalidInput")


def test_the_same_words_come_from_the_command(server, api, tmp_path):
    id = api("POST", "/memories", {**LESSON, "tags": ["a", "b"]})["id"]
    places = ("--workspace", tmp_path)
    for path, arguments in [
        (f"/memories/{id}/history", ("history", id)),
        (f"/memories/{id}/genealogy", ("genealogy", id)),
        ("/memories", ("list",)),
    ]:
        assert command(server.folder, *arguments, *places) == (0, api("GET", path))
    for arguments, (_, told) in [
        (("show", "nonsense"), api.refused("GET", "/memories/nonsense")),
        (("show", NOBODY), api.refused("GET", f"/memories/{NOBODY}")),
    ]:
        assert command(server.folder, *arguments, *places)[1] == told


# Workspaces


@requirement("WSP-2")
def test_a_call_sees_its_workspace_and_what_is_shared(server, tmp_path):
    with (
        server.client(workspace=tmp_path / "a") as a,
        server.client(workspace=tmp_path / "b") as b,
    ):
        own = a.post("/memories", json=LESSON).json()
        shared = a.post("/memories", json={**LESSON, "scope": "team"}).json()
        assert b.get(f"/memories/{own['id']}").status_code == 404
        assert b.get(f"/memories/{shared['id']}").status_code == 200
        upload = {"query": "upload breaks"}
        assert not b.post("/search", json=upload).json()["memories"], "nobody has confirmed it"
        place = ("--workspace", str(tmp_path / "a"))
        assert command(server.folder, "review", "accept", shared["id"], *place)[0] == 0
        found = b.post("/search", json=upload).json()["memories"]
        assert [hit["id"] for hit in found] == [shared["id"]]
        for given in ({"params": {"workspace": own["workspace"]}},
                      {"headers": {"X-ReasonBank-Workspace": own["workspace"]}}):  # fmt: skip
            assert server.ask("GET", f"/memories/{own['id']}", **given).status_code == 200
        twice = b.get("/memories", params={"workspace": own["workspace"]})
        assert (twice.status_code, twice.json()["field"]) == (400, "workspace")
        a.post(f"/memories/{shared['id']}/archive")
    relative = server.ask("GET", "/memories", workspace="a/b")
    assert (relative.status_code, relative.json()["field"]) == (400, "workspace")


# MCP over HTTP


@requirement("MCP-1")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_whole_journey_through_mcp_over_http(server, tmp_path, mode):
    async def journey():
        async with (
            httpx2.AsyncClient(headers=server.allowed(), timeout=30) as http,
            Client(
                streamable_http_client(f"{server.address}/mcp", http_client=http), mode=mode
            ) as client,
        ):

            async def call(tool, **given):
                result = await client.call_tool(tool, {"workspace": str(tmp_path), **given})
                assert not result.is_error, result.content
                return told_by(result)

            id = (await call("memory_record", **LESSON))["id"]
            found = (await call("memory_search", query="upload breaks"))["memories"]
            assert id in [hit["id"] for hit in found]
            rated = await call("memory_feedback", memory_id=id, helpful=True)
            told = await call("memory_outcome", memory_id=id, succeeded=True)
            assert told["new_confidence"] > rated["new_confidence"] > 0.8
            assert (await call("get_memory_genealogy", memory_id=id))["id"] == id
            assert (await call("get_statistics"))["memories"] >= 1
            assert (await call("health_check"))["status"] in ("healthy", "degraded")
            return id

    id = anyio.run(journey)
    with server.client(workspace=tmp_path) as client:
        [first, *_] = client.get(f"/memories/{id}/history").json()
    assert (first["surface"], first["author"]) == ("mcp", "tester")


def test_mcp_in_the_workspace_that_the_header_names(server, tmp_path):
    async def record():
        headers = {"X-ReasonBank-Workspace": str(tmp_path)} | server.allowed()
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{server.address}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("memory_record", LESSON)
            return result.structured_content["id"]

    id = anyio.run(record)
    with server.client(workspace=tmp_path) as client:
        assert client.get(f"/memories/{id}").status_code == 200


# What the server says of itself


def test_probes_page_and_metrics_answer(server):
    assert server.get("/livez").json() == {"status": "alive"}
    assert server.get("/readyz").json()["status"] == "ready"
    assert server.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert httpx2.head(server.address + "/livez").status_code == 200


@pytest.mark.parametrize("path", ["/", "/livez", "/api/v1/memories", "/nowhere", "/openapi.json"])
def test_every_answer_is_guarded(server, path):
    headers = server.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "server" not in headers
    assert not [name for name in headers if name.startswith("access-control")]


# Starting and stopping


def test_it_says_where_it_is_and_how_to_connect(tmp_path):
    import subprocess
    import sys

    from tests.surfaces.http_server import environment

    process = subprocess.Popen(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "serve", "--port", "0"],
        env=environment(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    told = ""
    while "Control-C" not in told:
        told += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stderr.close()
    assert re.search(r"serves at http://127\.0\.0\.1:\d+", told)
    assert "claude mcp add --transport http reasonbank http://127.0.0.1" in told


def test_a_port_in_use_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, told = command(tmp_path, "serve", "--port", port)
    assert (code, told["field"]) == (2, "port")
    assert f"{port} is taken" in told["message"]


def test_where_it_listens_is_a_variable_that_an_option_overrules(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = {"REASONBANK_PORT": port}
        code, told = command(tmp_path, "serve", **settings)
        assert (code, told["field"]) == (2, "port") and str(port) in told["message"]
        with serving(tmp_path, **settings) as server:  # It says --port 0.
            assert server.port != port
    code, told = command(tmp_path, "serve", REASONBANK_HOST="0.0.0.0")
    assert code == 4 and "0.0.0.0" in told["message"]
    code, told = command(tmp_path, "serve", REASONBANK_PORT=70_000)
    assert code == 2 and "--port" in told["message"]

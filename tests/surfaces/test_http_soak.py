"""Twenty clients at once, each in a workspace of its own: nothing crosses, nothing is lost."""

import os
import random
import time

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.requirement import requirement
from tests.surfaces.http_server import a_token, serving
from tests.surfaces.mcp_agent import told

SECONDS = float(os.environ.get("REASONBANK_TEST_SOAK_SECONDS", "4"))
CLIENTS = 20
WORDS = ("upload", "index", "timeout", "branch", "header", "cache", "thread", "parser")


class Tenant:
    """Writes and searches in one workspace, and knows what must be there."""

    def __init__(self, number, server, token):
        self.number = number
        self.server = server
        self.token = token
        self.rng = random.Random(number)
        self.mark = f"tenant{number:02}"
        self.ids = set()
        self.calls = 0
        self.statuses = {}

    def lesson(self):
        word = self.rng.choice(WORDS)
        return {"title": f"{self.mark} {word}", "description": f"When the {word} fails",
                "content": f"Look at the {word} of {self.mark}.", "outcome": "success"}  # fmt: skip

    def check(self, hits):
        for hit in hits:
            assert self.mark in hit["title"], f"{self.mark} was shown {hit['title']}"
            assert hit["id"] in self.ids

    async def run(self, until):
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(
            headers=headers, timeout=60, event_hooks={"response": [self.note]}
        ) as http:
            if self.number % 2:
                await self.through_mcp(http, until)
            else:
                await self.through_api(http, until)

    async def note(self, answer):
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1

    async def through_api(self, http, until):
        async def call(method, path, given=None):
            answer = await http.request(method, f"{self.server.address}/api/v1{path}", json=given)
            assert answer.status_code in (200, 201), answer.text
            self.calls += 1
            return answer.json()

        while time.monotonic() < until:
            self.ids.add((await call("POST", "/memories", self.lesson()))["id"])
            for _ in range(3):
                found = await call("POST", "/search", {"query": self.rng.choice(WORDS)})
                self.check(found["memories"])
            id = self.rng.choice(sorted(self.ids))
            await call("POST", f"/memories/{id}/outcome", {"succeeded": True})
        listed = await call("GET", "/memories?limit=1000")
        assert {m["id"] for m in listed} == self.ids if len(self.ids) < 1000 else True

    async def through_mcp(self, http, until):
        transport = streamable_http_client(f"{self.server.address}/mcp", http_client=http)
        async with Client(transport) as client:

            async def call(tool, **given):
                result = await client.call_tool(tool, given)
                assert not result.is_error, result.content
                self.calls += 1
                return told(result)

            while time.monotonic() < until:
                self.ids.add((await call("memory_record", **self.lesson()))["id"])
                for _ in range(3):
                    found = await call("memory_search", query=self.rng.choice(WORDS))
                    self.check(found["memories"])
                id = self.rng.choice(sorted(self.ids))
                await call("memory_outcome", memory_id=id, succeeded=True)
            assert (await call("get_statistics"))["memories"] == len(self.ids)


@requirement("WSP-3")
@pytest.mark.slow
def test_twenty_clients_in_twenty_workspaces_never_meet(tmp_path):
    tokens = []
    for number in range(CLIENTS):
        (tmp_path / str(number)).mkdir()
        if number == 0:
            admin = a_token(tmp_path, "admin")
    with serving(tmp_path) as server:
        with server.client(admin) as client:
            for number in range(CLIENTS):
                made = client.post("/tokens", json={
                    "scope": "write", "workspaces": [str(tmp_path / str(number))]})  # fmt: skip
                tokens.append(made.json()["token"])
        tenants = [Tenant(n, server, token) for n, token in enumerate(tokens)]

        async def all_of_them():
            until = time.monotonic() + SECONDS
            async with anyio.create_task_group() as group:
                for tenant in tenants:
                    group.start_soon(tenant.run, until)

        anyio.run(all_of_them)
        with server.client(admin) as client:
            everywhere = client.get("/statistics", params={"everywhere": "true"}).json()
        assert everywhere["memories"] == sum(len(t.ids) for t in tenants)
        assert server.stop() == 0
    codes = {code for t in tenants for code in t.statuses}
    assert not [code for code in codes if code >= 400], codes
    assert all(t.calls for t in tenants)
    told = {code: sum(t.statuses.get(code, 0) for t in tenants) for code in sorted(codes)}
    calls, stored = sum(t.calls for t in tenants), sum(len(t.ids) for t in tenants)
    print(f"\n{CLIENTS} clients, {SECONDS:g} s: {calls:,} calls, {stored:,} memories, {told}")
    assert "unexpected" not in (tmp_path / "stderr").read_text()

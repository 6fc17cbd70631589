"""It learns wherever it is open: nobody starts a second program, nobody waits for an interval.

Real processes, the documented commands, default settings.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from tests.learn.transcript_writers import A, C, U, claude_code
from tests.llm.servers import Answer, Request, Server, chat
from tests.requirement import requirement
from tests.surfaces.mcp_agent import Agent

SECONDS = 60
STEPS = [
    {"action": "command", "content": "pytest -q",
     "feedback": "exit code 1\nE   ModuleNotFoundError: No module named 'requests'"},
    {"action": "command", "content": "pip install requests", "feedback": "exit code 0"},
    {"action": "command", "content": "pytest -q", "feedback": "exit code 0\n3 passed in 0.1s"},
]  # fmt: skip
QUESTION = "No module named 'requests'"


class Home:
    """A home that has never seen the program, and a project in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        known = ("PATH", "LANG", "SYSTEMROOT", "PYTHONPATH")
        self.environment = {name: os.environ[name] for name in known if name in os.environ}
        self.environment |= {"HOME": str(folder), "COLUMNS": "160"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "reasonbank.surfaces.cli", *arguments]

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            self.command(*arguments), cwd=cwd or self.project, env=self.environment,
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, cwd: Path | None = None) -> Any:
        return json.loads(self.run(*arguments, "--json", cwd=cwd))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), cwd=self.project, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    @asynccontextmanager
    async def agent(self) -> Any:
        server = StdioServerParameters(
            command=sys.executable, args=self.command("mcp")[1:], env=self.environment,
            cwd=str(self.project),
        )  # fmt: skip
        async with Client(stdio_client(server, errlog=sys.stderr)) as client:
            yield Agent(client)

    def worker(self) -> str:
        [found] = [c["found"] for c in self.json("doctor")["checks"] if c["name"] == "worker"]
        return str(found)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def until(ask: Callable[[], Any]) -> Any:
    """What ``ask`` answers as soon as that is something."""
    with anyio.fail_after(SECONDS):
        while not (found := await ask()):
            await anyio.sleep(0.1)
    return found


@requirement("DIS-11")
@pytest.mark.anyio
async def test_what_an_agent_hands_in_is_there_when_it_goes_on(home: Home) -> None:
    async with home.agent() as agent:
        handed = await agent("distil", task="make the tests pass", steps=STEPS)
        assert handed["state"] == "waiting", "the agent does not wait for it"

        async def found() -> Any:
            return (await agent("memory_search", query=QUESTION))["memories"]

        [memory] = await until(found)
        assert "requests" in json.dumps(memory)
        other = await anyio.to_thread.run_sync(lambda: home.json("search", QUESTION))
        assert [m["id"] for m in other["memories"]] == [memory["id"]]
        assert "mcp (process " in await anyio.to_thread.run_sync(home.worker)
    assert "nobody" in home.worker()


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def spoken(server: subprocess.Popen[str], message: dict[str, Any]) -> Any:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def who_works(home: Home, wanted: Callable[[str], bool]) -> str:
    async def found() -> Any:
        told = await anyio.to_thread.run_sync(home.worker)
        return told if wanted(told) else None

    return str(anyio.run(until, found))


@requirement("DIS-11")
def test_whoever_works_is_followed_by_the_next_however_it_ends(home: Home) -> None:
    servers = [home.start("mcp") for _ in range(5)]
    try:
        for server in servers:
            assert spoken(server, HELLO)["result"]
        ways: list[Callable[[subprocess.Popen[str]], Any]] = [
            lambda server: server.communicate(timeout=SECONDS),
            lambda server: server.send_signal(signal.SIGTERM),
            lambda server: server.send_signal(signal.SIGINT),
            lambda server: server.send_signal(signal.SIGKILL),
        ]
        for end in ways:
            pids = {f"process {s.pid}": s for s in servers if s.poll() is None}
            told = who_works(home, lambda told, pids=pids: any(pid in told for pid in pids))
            [works] = [server for pid, server in pids.items() if pid in told]
            end(works)
            works.wait(SECONDS)
        [left] = [server for server in servers if server.poll() is None]
        who_works(home, lambda told: f"process {left.pid}" in told)
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def transcript(home: Home, name: str, steps: list[Any], *, cwd: Path | None = None) -> str:
    file = home.folder / f"{name}.jsonl"
    lines = [json.loads(line) for line in claude_code(name, steps)]
    known = [line | {"cwd": str(cwd or home.project)} if "cwd" in line else line for line in lines]
    file.write_text("\n".join(map(json.dumps, known)))
    return str(file)


MENDED = [
    U("make the tests pass"),
    C("pytest -q", 1, "E   ModuleNotFoundError: No module named 'requests'"),
    C("pip install requests"),
    C("pytest -q", 0, "3 passed in 0.1s"),
]


@requirement("DIS-11")
def test_a_command_with_nobody_around_learns_itself_and_says_so(home: Home) -> None:
    other = transcript(home, "other", [U("go"), *MENDED[1:]])
    home.run("distil", other, "--later")
    said = home.run("distil", transcript(home, "one", MENDED))
    assert "Learned 1 memory" in said
    assert [job["state"] for job in home.json("queue", "list")] == ["done", "waiting"], (
        "the session of another is not paid for on the way"
    )
    assert len(home.json("search", QUESTION)["memories"]) == 1


@requirement("DIS-11")
def test_a_command_beside_a_server_leaves_it_the_work_and_says_so(home: Home) -> None:
    server = home.start("mcp")
    try:
        assert spoken(server, HELLO)["result"]
        who_works(home, lambda told: f"process {server.pid}" in told)
        said = home.run("distil", transcript(home, "one", MENDED))
        assert f"mcp (process {server.pid}) learns from it" in said

        async def learned() -> Any:
            search = lambda: home.json("search", QUESTION)["memories"]  # noqa: E731
            return await anyio.to_thread.run_sync(search)

        assert len(anyio.run(until, learned)) == 1
    finally:
        server.communicate(timeout=SECONDS)
    assert server.returncode == 0


@requirement("DIS-8")
def test_what_a_session_teaches_belongs_to_the_project_that_it_worked_in(home: Home) -> None:
    gone = home.folder / "no" / "longer" / "there"
    for name, project in (("here", home.project), ("gone", gone)):
        file = transcript(home, name, MENDED, cwd=project)
        assert "Learned 1 memory" in home.run("distil", file, cwd=home.folder)
    for project, count in ((home.project, 1), (gone, 1), (home.folder, 0)):
        found = home.json("search", QUESTION, "--workspace", str(project), cwd=home.folder)
        assert len(found["memories"]) == count, project
    elsewhere = home.folder / "elsewhere"
    file = transcript(home, "another", MENDED)
    home.run("distil", file, "--workspace", str(elsewhere))
    assert len(home.json("list", "--workspace", str(elsewhere))) == 1, "unless its owner says so"


@requirement("DIS-8")
def test_a_transcript_that_has_grown_is_learned_from_again_and_the_same_one_is_not(
    home: Home,
) -> None:
    more = [
        U("now the linter"),
        C("ruff check", 1, "error: Failed to parse pyproject.toml: invalid key target_version"),
        C("sed -i s/target_version/target-version/ pyproject.toml"),
        C("ruff check", 0, "All checks passed!"),
    ]
    assert "Learned 1 memory" in home.run("distil", transcript(home, "one", MENDED))
    assert "nothing is new" in home.run("distil", transcript(home, "one", MENDED))
    said = home.run("distil", transcript(home, "one", MENDED + more))
    assert "Learned 1 memory" in said and "ruff" in said
    assert "nothing is new" in home.run("distil", transcript(home, "one", MENDED + more))
    assert len(home.json("trace", "list")) == 1
    assert len(home.json("list")) == 2


SERVERS = 10
TOPICS = ("uploads", "migrations", "thumbnails", "mails", "backups")


def thinking(request: Request) -> Answer:
    """A model that finds one lesson in each session, told by its topic."""
    asked = json.dumps(request.body)
    topic = next(topic for topic in TOPICS if f"mend the {topic}" in asked)
    lesson = {
        "title": f"Retry {topic} with back-off", "description": f"When {topic} fail for a moment",
        "content": f"Retry {topic} after 1, 2 and 4 seconds, with jitter; stop after five.",
        "tags": [topic], "first_step": 1, "last_step": 1,
    }  # fmt: skip
    return chat(json.dumps({"memories": [lesson]}))


@requirement("DIS-11")
@pytest.mark.anyio
async def test_ten_servers_on_one_bank_do_each_job_once(home: Home) -> None:
    with Server(thinking) as model:
        home.environment |= {
            "REASONBANK_LLM_PROVIDER": "openai-compatible", "REASONBANK_LLM_MODEL": "m",
            "REASONBANK_LLM_BASE_URL": model.url, "REASONBANK_EMBED_MODEL": "hashed",
        }  # fmt: skip
        async with AsyncExitStack() as stack:
            agents = [await stack.enter_async_context(home.agent()) for _ in range(SERVERS)]

            async def hand_in(number: int, agent: Any) -> None:
                topic = TOPICS[number % len(TOPICS)]
                handed = await agent(
                    "distil", task=f"{number}: mend the {topic}", outcome="success",
                    steps=[{"action": "think", "content": f"session {number} retries"}],
                )  # fmt: skip
                assert handed["state"] == "waiting"

            async with anyio.create_task_group() as group:
                for number, agent in enumerate(agents):
                    group.start_soon(hand_in, number, agent)

            def all_done() -> Any:
                jobs = home.json("queue", "list")
                return jobs if {job["state"] for job in jobs} == {"done"} else None

            async def done() -> Any:
                return await anyio.to_thread.run_sync(all_done)

            jobs = [job for job in await until(done) if job["kind"] == "distil"]
    assert [job["attempts"] for job in jobs] == [1] * SERVERS
    questions = [json.dumps(request.body) for request in model.requests if request.body]
    assert len(questions) == SERVERS, "each session was thought about once"
    titles = sorted(memory["title"] for memory in home.json("list"))
    assert titles == sorted(f"Retry {topic} with back-off" for topic in TOPICS)


@requirement("PAS-1")
def test_what_was_asked_and_answered_is_found_later_and_given_to_no_prompt(home: Home) -> None:
    question = "How do I make ripgrep search hidden files?"
    answer = (
        "Pass --hidden, because ripgrep skips dot files otherwise. Exclude the repository's own "
        "folder as well, since it is hidden too:\n\n```sh\nrg --hidden --glob '!.git' x\n```"
    )
    said = home.run("distil", transcript(home, "talk", [U(question), A(answer)]))
    assert "Learned 1 memory" in said
    [memory] = home.json("search", "search dot files with rg")["memories"]
    assert (memory["source"], "draft" in memory["tags"]) == ("passive", True)
    assert home.json("inject", "search dot files with rg")["memories"] == []

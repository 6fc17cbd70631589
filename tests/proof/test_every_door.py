"""The experiment through every way in: each task is counted once, on its side."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from tests.requirement import requirement
from tests.surfaces.hook_calls import Machine
from tests.surfaces.http_server import command, serving
from tests.surfaces.mcp_agent import LESSON, Agent, command as command_line

from reasonbank import Bank, Memory, Settings
from reasonbank.search.answer import held_out
from reasonbank.settings import Embed, ProofSettings

PROOF = ProofSettings(hold_out=0.5)
SETTINGS = Settings(embed=Embed(model="hashed"), proof=PROOF)
HALF = {"REASONBANK_PROOF_HOLD_OUT": "0.5", "REASONBANK_EMBED_MODEL": "hashed"}
TASKS = 10
ASKED = "retry uploads when an upload fails"
UNKNOWN = "zxqv"


class Door(Protocol):
    def search(self, session: str, asked: str = ASKED) -> tuple[list[str], bool]:
        """The ids that were found, and whether the task is held out."""

    def end(self, session: str, succeeded: bool) -> bool:
        """Reports by the task's name alone; whether it was held out."""

    def outcome(self, id: str, session: str, succeeded: bool) -> None: ...


class Library:
    def __init__(self, url: str, folder: Path) -> None:
        self.bank = Bank.open(url, workspace=folder, settings=SETTINGS)

    def search(self, session: str, asked: str = ASKED) -> tuple[list[str], bool]:
        reply = self.bank.search(asked, session=session)
        return [hit.memory.id for hit in reply], reply.held_out

    def end(self, session: str, succeeded: bool) -> bool:
        return self.bank.credit(session, succeeded=succeeded) == 0

    def outcome(self, id: str, session: str, succeeded: bool) -> None:
        self.bank.outcome(id, succeeded=succeeded, session=session)


class Shell:
    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def __call__(self, *words: str) -> Any:
        code, told = command(
            self.folder, "--bank", self.url, "--workspace", self.folder, *words, **HALF
        )
        assert code == 0, told
        return told

    def search(self, session: str, asked: str = ASKED) -> tuple[list[str], bool]:
        told = self("search", asked, "--session", session)
        return [memory["id"] for memory in told["memories"]], told.get("held_out", False)

    def end(self, session: str, succeeded: bool) -> bool:
        how = "--succeeded" if succeeded else "--failed"
        return bool(self("outcome", how, "--session", session)["held_out"])

    def outcome(self, id: str, session: str, succeeded: bool) -> None:
        self("outcome", id, "--succeeded" if succeeded else "--failed", "--session", session)


class Web:
    def __init__(self, client: Any) -> None:
        self.client = client

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def search(self, session: str, asked: str = ASKED) -> tuple[list[str], bool]:
        told = self.post("search", query=asked, session=session)
        return [memory["id"] for memory in told["memories"]], told.get("held_out", False)

    def end(self, session: str, succeeded: bool) -> bool:
        return bool(self.post(f"sessions/{session}/outcome", succeeded=succeeded)["held_out"])

    def outcome(self, id: str, session: str, succeeded: bool) -> None:
        self.post(f"memories/{id}/outcome", succeeded=succeeded, session=session)


class Tools:
    """An agent on the other end of `reasonbank mcp`."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def search(self, session: str, asked: str = ASKED) -> tuple[list[str], bool]:
        told = self.call("memory_search", query=asked, session_id=session)
        return [memory["id"] for memory in told["memories"]], told.get("held_out", False)

    def end(self, session: str, succeeded: bool) -> bool:
        told = self.call("memory_outcome", session_id=session, succeeded=succeeded)
        assert told["recorded"] is True and "new_confidence" not in told
        return bool(told["held_out"])

    def outcome(self, id: str, session: str, succeeded: bool) -> None:
        self.call("memory_outcome", memory_id=id, session_id=session, succeeded=succeeded)


@contextmanager
def an_agent(url: str, folder: Path) -> Iterator[Tools]:
    [python, *words], environment = command_line(folder, "mcp")
    # The code under test, wherever it is imported from here.
    code = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment |= HALF | code | {"REASONBANK_URL": url}
    server = StdioServerParameters(command=python, args=words, env=environment, cwd=folder)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as client,
    ):
        agent = Agent(client)

        async def call(tool: str, arguments: dict[str, Any]) -> Any:
            with anyio.fail_after(60):
                return await agent(tool, **arguments)

        yield Tools(lambda tool, **arguments: portal.call(call, tool, arguments))


@contextmanager
def door_of(name: str, url: str, folder: Path) -> Iterator[Door]:
    if name == "mcp":
        with an_agent(url, folder) as tools:
            yield tools
    elif name == "http":
        with (
            serving(folder, "--bank", url, "--workspace", folder, **HALF) as server,
            server.client(workspace=folder) as client,
        ):
            yield Web(client)
    elif name == "cli":
        yield Shell(url, folder)
    else:
        library = Library(url, folder)
        yield library
        library.bank.close()


@requirement("PRV-1")
@pytest.mark.parametrize("name", ["library", "cli", "http", "mcp"])
def test_every_way_in_counts_each_task_once_on_its_side(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bank.db"
    with Bank.open(url, workspace=tmp_path, settings=SETTINGS) as bank:
        memory = bank.record(Memory.from_json(LESSON))
    expected = {"with": [0, 0], "without": [0, 0]}
    with door_of(name, url, tmp_path) as door:
        for number in range(TASKS):
            session, succeeded = f"task-{number}", number % 3 > 0
            # The first question finds nothing, and some tasks ask no other.
            assert door.search(session, UNKNOWN) == ([], held_out(session, PROOF))
            if number >= TASKS - 2:
                door.end(session, succeeded)
                continue
            found, held = door.search(session)
            assert held is held_out(session, PROOF) and found == ([] if held else [memory.id])
            assert door.search(session) == (found, held), "a task may ask again"
            # Agents report as they like: by the task's name, by a memory, by both, or twice.
            if number % 4 < 2:
                door.outcome(memory.id, session, succeeded)
            if number % 4 != 1:
                assert door.end(session, succeeded) is held
            if number % 4 == 3:
                assert door.end(session, succeeded) is held
            if number % 4 == 1:
                continue  # Told of a memory alone: compared on neither side.
            side = expected["without" if held else "with"]
            side[0] += succeeded
            side[1] += 1
    _, told = command(tmp_path, "--bank", url, "--workspace", tmp_path, "report", **HALF)
    worth = told["memory"]
    held = sum(held_out(f"task-{number}", PROOF) for number in range(TASKS))
    assert told["tasks"] == TASKS and told["held_out"] == held > 0
    assert told["not_counted"].pop("told_by_memory") == 2
    assert told["not_counted"].pop("found_nothing") == 2
    assert not any(told["not_counted"].values())
    assert [worth["with_succeeded"], worth["with_memory"]] == expected["with"]
    assert [worth["without_succeeded"], worth["without"]] == expected["without"]
    [(each)] = told["by_memory"]
    assert {key: each[key] for key in worth} == worth and each["id"] == memory.id
    assert worth["low"] <= worth["difference"] <= worth["high"], json.dumps(worth)


def transcript(path: Path, session: str, *, passes: bool) -> str:
    """A session of Claude Code that ran its tests."""
    output = "=== 3 passed in 0.1s ===" if passes else "Exit code 1\n=== 1 failed in 0.1s ==="
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    said: list[tuple[str, Any]] = [
        ("user", "the upload fails"),
        ("assistant", [use]),
        ("user", [result | {"is_error": not passes}]),
    ]
    lines = [
        {"type": kind, "sessionId": session, "cwd": str(path.parent), "uuid": f"{session} {n}",
         "message": {"role": kind, "content": content, "id": f"m{n}"},
         "timestamp": f"2099-01-01T00:00:0{n}Z"}
        for n, (kind, content) in enumerate(said)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@requirement("PRV-1")
def test_sessions_with_hooks_are_held_out_and_judged_alike(tmp_path: Path) -> None:
    """Hooks, the worker and the report, each in a process of its own."""
    code = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    machine = Machine(tmp_path, HALF | code)
    machine.bank.parent.mkdir(parents=True)
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project, settings=SETTINGS) as b:
        b.record(Memory.from_json(LESSON))
    names = {side: [] for side in (False, True)}  # type: dict[bool, list[str]]
    for number in range(100):
        names[held_out(f"session-{number}", PROOF)].append(f"session-{number}")
    for held in (False, True):
        for session, passes in zip(names[held][:2], (True, False), strict=True):
            assert bool(machine.heard("prompt", session=session, prompt=ASKED).text) is not held
            _over(machine, session, passes=passes)
        unmatched = names[held][2]
        assert not machine.heard("prompt", session=unmatched, prompt=UNKNOWN).text
        _over(machine, unmatched, passes=True)
    machine.run("worker", "--until-empty")
    told = json.loads(machine.run("--json", "report").stdout)
    assert (told["tasks"], told["held_out"]) == (4, 2)
    worth = told["memory"]
    assert [worth["with_succeeded"], worth["with_memory"]] == [1, 2]
    assert [worth["without_succeeded"], worth["without"]] == [1, 2]
    assert not any(told["not_counted"].values())


def _over(machine: Machine, session: str, *, passes: bool) -> None:
    path = transcript(machine.project / f"{session}.jsonl", session, passes=passes)
    machine.heard("turn-end", session=session, transcript_path=path)


def test_an_agent_is_told_what_it_left_out(tmp_path: Path) -> None:
    needed = pytest.raises(AssertionError, match="name a memory that you used, or the task")
    with an_agent(f"sqlite:///{tmp_path}/bank.db", tmp_path) as tools, needed:
        tools.call("memory_outcome", succeeded=True)

"""A machine with a bank of its own, and the doors that people and agents use.

Every door is a process with default settings: somebody at a terminal, an agent's shell, an agent's
MCP server, a hook, `reasonbank serve`.
"""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMAND = (sys.executable, "-m", "reasonbank.surfaces.cli")
REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
IN_AN_AGENT = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
"""What an agent's shell has in its environment."""
_BLOCK = re.compile(r'<memory id="([^"]+)"([^>]*)>\n(.*?)</memory>', re.DOTALL)
PATIENCE = 300
_NUMBER = re.compile(r'(confidence|expected)="([\d.]+)"')


@dataclass(frozen=True)
class Given:
    """A memory as a prompt has it."""

    id: str
    text: str
    numbers: Mapping[str, float]
    untested: bool
    """Whether the prompt says that nobody has confirmed it."""


def given_in(prompt: str) -> list[Given]:
    found = []
    for id, about, inside in _BLOCK.findall(prompt):
        # What is stored has a bar before each line; what the bank says of it has none.
        said = [line for line in inside.splitlines() if not line.startswith("|")]
        stored = " ".join(line[1:] for line in inside.splitlines() if line.startswith("|"))
        untested = "untested" in f"{about} {' '.join(said)}".lower()
        numbers = {name: float(value) for name, value in _NUMBER.findall(about)}
        found.append(Given(id=id, text=stored, numbers=numbers, untested=untested))
    return found


@dataclass
class Machine:
    """``home`` is where the bank comes into being; each project is a folder below it."""

    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("shop", "store", "third"):
            (self.home / name).mkdir(parents=True, exist_ok=True)

    @property
    def file(self) -> Path:
        return self.home / ".local/share/reasonbank/bank.db"

    def environment(self, who: str, *, agent: bool) -> dict[str, str]:
        known = ("PATH", "LANG", "PYTHONPATH")
        kept = {name: os.environ[name] for name in known if name in os.environ}
        kept |= {"HOME": str(self.home), "USER": who, "COLUMNS": "200", "TERM": "dumb"}
        return kept | (IN_AN_AGENT if agent else {}) | self.extra

    def person(self, *arguments: str, who: str = "alice", project: str = "shop") -> str:
        """Somebody at a terminal, outside of any agent."""
        far, near = pty.openpty()
        running = subprocess.Popen(
            [*COMMAND, *arguments], stdin=near, stdout=near, stderr=near, start_new_session=True,
            env=self.environment(who, agent=False), cwd=self.home / project,
        )  # fmt: skip
        os.close(near)
        seen = b"".join(_everything(far)).decode().replace("\r", "")
        os.close(far)
        if code := running.wait():
            raise RuntimeError(f"{arguments} ended with {code}: {seen}")
        return seen

    def shell(self, *arguments: str, who: str = "mallory", project: str = "shop") -> str:
        """A command that an agent runs."""
        done = subprocess.run(
            [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env=self.environment(who, agent=True), cwd=self.home / project, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def hook(
        self, event: str, told: Mapping[str, Any], *, who: str = "mallory", project: str = "shop"
    ) -> str:
        """What an agent calls by itself; the answer is what its model reads."""
        done = subprocess.run(
            [*COMMAND, "hook", event, "--agent", "claude-code"],
            input=json.dumps({"cwd": str(self.home / project), **told}), capture_output=True,
            text=True, env=self.environment(who, agent=True), cwd=self.home / project, check=True,
        )  # fmt: skip
        return done.stdout

    @contextmanager
    def mcp(self, *, who: str = "mallory", project: str = "shop") -> Iterator[Agent]:
        server = subprocess.Popen(
            [*COMMAND, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=self.environment(who, agent=True),
            cwd=self.home / project,
        )  # fmt: skip
        try:
            yield Agent(server)
        finally:
            server.communicate()

    @contextmanager
    def served(self, *, who: str = "alice", token: str | None = None) -> Iterator[Served]:
        """``token`` is shown with every call; without one, all who can connect may do all."""
        # All projects ask from one address, which a limit for callers would slow down.
        many = {"REASONBANK_SERVER_RATE": "1000000"}
        door = () if token else ("--no-auth",)
        server = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", *door, "--json"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=self.environment(who, agent=False) | many, cwd=self.home,
        )  # fmt: skip
        assert server.stdout
        try:
            address = json.loads(server.stdout.readline())["address"]
            with closing(http.client.HTTPConnection(urlsplit(address).netloc)) as connection:
                yield Served(self, connection, token)
        finally:
            server.terminate()
            server.communicate()

    def rows(self, query: str) -> list[Sequence[Any]]:
        """What lies in the tables themselves; nobody may have the bank open."""
        bank = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)
        try:
            return bank.execute(query).fetchall()
        finally:
            bank.close()


def _everything(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # On Linux, the end of the other side.
            return
        if not part:
            return
        yield part


class Agent:
    """Calls tools of an MCP server over its standard input."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self._server = server

    def __call__(self, tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        result = answer.get("result") or {}
        if result.get("isError", True):
            raise RuntimeError(f"{tool}: {answer}")
        return json.loads(result["content"][0]["text"])


class Served:
    """A running `reasonbank serve`, asked in the name of any project."""

    def __init__(
        self, machine: Machine, connection: http.client.HTTPConnection, token: str | None
    ) -> None:
        self._home = machine.home
        self._token = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = connection

    def ask(self, method: str, path: str, project: str, **body: Any) -> Any:
        headers = {"Content-Type": "application/json", **self._token}
        headers |= {"X-ReasonBank-Workspace": str(self._home / project)}
        told = json.dumps(body) if body else None
        self._connection.request(method, f"/api/v1{path}", told, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def inject(self, question: str, project: str) -> list[Given]:
        return given_in(self.ask("POST", "/inject", project, task=question)["prompt"])

    def search(self, question: str, project: str) -> list[Mapping[str, Any]]:
        found = self.ask("POST", "/search", project, query=question)
        return list(found["memories"])

    def wait(self, project: str = "shop") -> None:
        """Until it has learned from all that was handed over."""
        end = time.monotonic() + PATIENCE
        while self._waits(project):
            if time.monotonic() > end:
                raise TimeoutError(f"the queue is not empty after {PATIENCE} seconds")
            time.sleep(0.2)

    def _waits(self, project: str) -> bool:
        jobs = self.ask("GET", "/jobs?limit=1000", project)
        found = jobs["jobs"] if isinstance(jobs, dict) else jobs
        learning = [job for job in found if job["kind"] in ("transcript", "distil")]
        return any(job["state"] in ("waiting", "running") for job in learning)

    def memories(self, project: str) -> list[Mapping[str, Any]]:
        found = self.ask("GET", "/memories?limit=1000", project)
        return list(found["memories"] if isinstance(found, dict) else found)

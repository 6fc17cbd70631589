"""A real agent in a box: a home of its own, `env -i`, a scripted model, no network but loopback.

Where no network namespace may be made, the agent runs with the machine's network: it proves less,
and says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.agents.calls import Step
from tests.agents.programs import Program

from reasonbank.surfaces.agents import Event

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
AT_ONCE = 2
"""Agents are heavy: more at a time only makes each of them late."""

CHECK = """\
import unittest


class Greeting(unittest.TestCase):
    def test_hello(self):
        import greet

        self.assertEqual(greet.hello(), "hello")
"""
TESTS = "python3 -m unittest -q test_greet"


class Unboxed(UserWarning):
    """An agent ran with the machine's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What happens in the box, besides the agent.

    ``beside`` are servers that run along; ``stopped`` holds them
    still before the agent starts, ``killed`` ends them. ``full`` are folders without room,
    ``token`` is the file of the one that the agent is to show a server.
    """

    steps: Sequence[Step]
    command: Sequence[str]
    env: dict[str, str]
    directory: str
    port: int
    limit: float
    alone: bool
    beside: Sequence[Sequence[str]] = ()
    beside_in: str = ""
    stopped: bool = False
    killed: bool = False
    full: Sequence[str] = ()
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``requests`` are those that offer the model tools, in order."""

    code: int
    out: str
    err: str
    requests: list[dict[str, Any]]

    def offers(self, tool: str) -> bool:
        """Whether the model may call it at once; what is said about it elsewhere is no offer."""
        form = rf'"name": "(?:[\w-]*[_-])?{tool}"'
        return re.search(form, json.dumps(self.requests[0].get("tools"))) is not None

    def asked(self, at: int) -> str:
        """What the model read in one request, as text; brackets as they were meant."""
        text = json.dumps(self.requests[at], ensure_ascii=False)
        return text.replace("&lt;", "<").replace("&gt;", ">")


@dataclass(slots=True)
class Box:
    program: Program
    folder: Path
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.port = 8399 if namespace() else _free_port()
        url = f"http://127.0.0.1:{self.port}"
        for name, text in self.program.files(url).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def env(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return {
            "HOME": str(self.home),
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        } | {name: value.format(url=url) for name, value in self.program.env.items()}

    def project(self, name: str = "project") -> Path:
        """A repository whose tests fail until there is a module `greet`."""
        project = self.folder / name
        if not project.exists():
            project.mkdir()
            (project / "test_greet.py").write_text(CHECK)
            git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
            if self.program.trust:
                (self.home / self.program.trust).parent.mkdir(parents=True, exist_ok=True)
                trusted = json.dumps({"trustedFolders": [str(project)]})
                (self.home / self.program.trust).write_text(trusted)
            for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
                subprocess.run([*git, *words], cwd=project, env=self.env, check=True)
        return project

    def was_late(self, event: Event) -> bool:
        """Whether a hook gave up at its deadline: on a busy machine that is no fault of it."""
        state = self.home / ".local/state/reasonbank/hooks" / self.program.name / event
        return state.exists() and state.read_text().startswith("late")

    def reasonbank(self, *words: str, project: Path | None = None) -> str:
        """The command as its user types it."""
        done = subprocess.run(
            [BIN / "reasonbank", *words],
            cwd=project or self.project(),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def run(
        self,
        prompt: str,
        steps: Sequence[Step],
        *,
        project: Path | None = None,
        free: bool = True,
        limit: float = 100,
        **more: Any,
    ) -> Run:
        inside = Inside(
            steps=steps,
            command=self.program.command(prompt, free=free),
            env=self.env,
            directory=str(project or self.project()),
            port=self.port,
            limit=limit,
            alone=bool(namespace()),
            **more,
        )
        if not namespace():
            warnings.warn(f"no network namespace: {self.program.name} was not alone", Unboxed, 2)
        with slot():
            done = subprocess.run(
                [*namespace(), sys.executable, "-m", "tests.agents.inside"],
                input=pickle.dumps(inside),
                capture_output=True,
                cwd=ROOT,
                timeout=limit + 60,
                check=False,
            )
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return pickle.loads(done.stdout)


@cache
def namespace() -> Sequence[str]:
    """The command before a command that takes the network away; empty if that is not permitted."""
    for words in (["unshare", "-n", "-m"], ["unshare", "-r", "-n", "-m"]):
        if shutil.which(words[0]):
            done = subprocess.run([*words, "true"], capture_output=True, check=False)
            if done.returncode == 0:
                return words
    return ()


@contextmanager
def slot() -> Iterator[None]:
    """One of the places in which an agent may run, over all processes that test."""
    places = [
        os.open(
            Path(tempfile.gettempdir()) / f"reasonbank-agents-{os.getuid()}-{place}.lock",
            os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
            0o600,
        )
        for place in range(AT_ONCE)
    ]
    try:
        for place in places:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                continue
        else:
            fcntl.flock(places[os.getpid() % AT_ONCE], fcntl.LOCK_EX)
        yield
    finally:
        for place in places:
            os.close(place)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port

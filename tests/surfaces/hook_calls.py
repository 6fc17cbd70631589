"""Hooks as agents call them: payloads in Claude Code's words, and the process itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

COMPILED = Path(tempfile.gettempdir()) / f"reasonbank-compiled-{os.getuid()}"
NAMES = {
    "prompt": "UserPromptSubmit",
    "before-tool": "PreToolUse",
    "after-tool": "PostToolUseFailure",
    "turn-end": "Stop",
    "before-compaction": "PreCompact",
    "session-end": "SessionEnd",
}


def payload(event: str, directory: Path | str, *, session: str = "one", **more: Any) -> dict:
    told = {"session_id": session, "cwd": str(directory), "hook_event_name": NAMES.get(event, "")}
    return told | more


def a_command(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}} | more


# What the client does, and how long it took by its own clock, from its first line to its last.
# `os._exit` is how it always ends.
CLOCKED = """
import os, sys, time
leave = os._exit
def ended(code):
    if os.getpid() == mine:
        begun = sys.modules["reasonbank.surfaces.hooks.client"].BEGUN
        os.write(clock, f"{time.monotonic() - begun:.3f}\\n".encode())
    leave(code)
mine, clock, os._exit = os.getpid(), int(sys.argv.pop(1)), ended
from reasonbank.surfaces.hooks.client import main
main(sys.argv[1:])
"""


@dataclass
class Answer:
    code: int
    printed: str
    complained: str
    seconds: float
    session: str = ""

    @property
    def text(self) -> str:
        """What the model reads; "" where nothing was printed."""
        if not self.printed:
            return ""
        return json.loads(self.printed)["hookSpecificOutput"]["additionalContext"]


@dataclass
class Machine:
    """A user's folders, and hooks that are started there."""

    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "LANG")}
        home = {"HOME": str(self.folder / "home")}
        # Compiled once, as when it is installed.
        compiled = {"PYTHONPYCACHEPREFIX": str(COMPILED)}
        return kept | home | compiled | self.extra

    @property
    def bank(self) -> Path:
        return self.folder / "home/.local/share/reasonbank/bank.db"

    @property
    def project(self) -> Path:
        path = self.folder / "project"
        path.mkdir(exist_ok=True)
        return path

    def start(
        self, event: str, *, options: tuple[str, ...] = (), agent: str = "claude-code", **streams
    ) -> subprocess.Popen[bytes]:
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", CLOCKED, str(writer), event, "--agent", agent, *options],
                env=self.environment,
                cwd=self.project,
                pass_fds=(writer,),
                **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE} | streams,
            )  # fmt: skip
        finally:
            os.close(writer)
        process.clock = reader  # type: ignore[attr-defined]
        return process

    def hook(self, event: str, told: Any = None, **how: Any) -> Answer:
        process = self.start(event, **how)
        given = told if isinstance(told, bytes) else json.dumps(told).encode()
        printed, complained = process.communicate(given)
        return ended(process, printed, complained)

    def heard(self, event: str, *, options: tuple[str, ...] = (), **told: Any) -> Answer:
        """An answer that is not late, as any may be on a busy machine; each in a new session."""
        for number in range(30):
            session = f"{event} {number} {time.monotonic_ns()}"
            asked = payload(event, self.project, **{"session": session} | told)
            self._note(event).unlink(missing_ok=True)
            answer = self.hook(event, asked, options=options)
            assert (answer.code, answer.complained) == (0, "")
            if self.word(event) != "late":
                return replace(answer, session=session)
        raise AssertionError("it was always late")

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "reasonbank.surfaces.cli", *words],
            env=self.environment, cwd=self.project, capture_output=True, text=True, check=True,
            **options,
        )  # fmt: skip

    @contextmanager
    def server(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """`reasonbank serve`, once its hooks are answered."""
        words = words or ("serve", "--port", "0", "--no-auth")
        before = set(self.doors())
        process = subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", *words],
            env=self.environment, cwd=self.project, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while set(self.doors()) <= before:
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def doors(self) -> list[str]:
        folder = Path(f"{self.bank}.hooks")
        if not folder.is_dir():
            return []
        return [name for name in os.listdir(folder) if not name.startswith(".")]

    def word(self, event: str, agent: str = "claude-code") -> str:
        """What is noted of the last call; that may happen a moment after it has ended."""
        for _ in range(1000):
            if (file := self._note(event, agent)).exists() and (word := file.read_text()):
                return word
            time.sleep(0.01)
        raise AssertionError("nothing was noted")

    def _note(self, event: str, agent: str = "claude-code") -> Path:
        return self.folder / "home/.local/state/reasonbank/hooks" / agent / event


def ended(process: Any, printed: bytes | None, complained: bytes | None) -> Answer:
    with os.fdopen(process.clock, "rb") as clock:
        told = clock.read().split()
    return Answer(
        code=process.returncode,
        printed=(printed or b"").decode(),
        complained=(complained or b"").decode(),
        seconds=float(told[0]),
    )

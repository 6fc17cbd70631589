"""What a hook costs an agent, beside what Python itself takes to start.

    python -m bench.hooks [--rounds 20]

Whole processes, from their start to their end, each answering a session of its own with a memory
or a warning. Contestants take turns; of each the fastest round counts, for what a busy machine
adds is not ours. Modules are compiled, as they are once installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import tables
from reasonbank import Bank
from reasonbank.testing import a_memory, a_warning

ENTRY = "import sys; from reasonbank.surfaces.cli import main; sys.exit(main())"
ASKED = "one of our tests is flaky, what shall I do?"
COMMAND = "git push origin main"
MEMORIES = 200


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bank = folder / "bank.db"
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        home = {"HOME": str(folder), "REASONBANK_URL": f"sqlite:///{self.bank}"}
        self.environment = kept | home | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self._sessions = 0

    def stock(self) -> None:
        with Bank.open(f"sqlite:///{self.bank}", workspace=self.folder) as bank:
            for number in range(MEMORIES):
                told = {"title": f"Lesson {number}", "content": f"Widget {number} needs care."}
                bank.record(a_memory(**told, description=f"When part {number} of the shop breaks"))
            title = "Run pytest -p no:randomly when a test is flaky"
            bank.record(a_memory(title=title, description="When a test is flaky", content=title))
            bank.record(a_warning("PushRejected", f"{COMMAND} is rejected", "Open a request."))
            bank.embed_new()

    def took(self, code: str, *arguments: str, told: dict[str, Any] | None = None) -> float:
        given = b""
        if told is not None:
            self._sessions += 1
            session = {"session_id": f"s{self._sessions}", "cwd": str(self.folder)}
            given = json.dumps(told | session).encode()
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], input=given, env=self.environment,
            capture_output=True, check=True, cwd=self.folder,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
        # One that says nothing was quick for nothing; one that is late is no answer.
        return seconds * 1000 if done.stdout or told is None else float("inf")

    def prompt(self) -> float:
        told = {"hook_event_name": "UserPromptSubmit", "prompt": ASKED}
        return self.took(ENTRY, "hook", "prompt", "--agent", "claude-code", told=told)

    def warning(self) -> float:
        told = {"hook_event_name": "PreToolUse", "tool_name": "Bash"}
        told |= {"tool_input": {"command": COMMAND}}
        return self.took(ENTRY, "hook", "before-tool", "--agent", "claude-code", told=told)

    @contextmanager
    def server(self) -> Iterator[None]:
        words = ("serve", "--port", "0", "--no-auth")
        process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, *words], env=self.environment, cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        door = Path(f"{self.bank}.hooks")
        try:
            while not (door.is_dir() and any(n[0] != "." for n in os.listdir(door))):
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def fastest(rounds: int, **contestants: Any) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, took in contestants.items():
            found[name].append(took())
    return {name: min(times) for name, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        machine.stock()

        def bare() -> float:
            return machine.took("pass")

        def numpy() -> float:
            return machine.took("import numpy")

        alone = fastest(rounds, bare=bare, numpy=numpy, prompt=machine.prompt,
                        warning=machine.warning)  # fmt: skip
        with machine.server():
            served = fastest(rounds, bare=bare, prompt=machine.prompt, warning=machine.warning)
    table = tables.Table(
        name="hooks", title="A hook, from process start to its answer", machine=tables.machine()
    )
    python, numpy_ = "python -c pass", "import numpy"
    table.compare("prompt, with a server", served["prompt"], python, served["bare"], most=1.5)
    table.compare("warning, with a server", served["warning"], python, served["bare"], most=1.5)
    table.compare("prompt, by meaning", alone["prompt"], numpy_, alone["numpy"], most=3)
    table.compare("warning, by words", alone["warning"], numpy_, alone["numpy"], most=1.5)
    table.notes.append(f"A bank of {MEMORIES + 2} memories; the fastest of {rounds} rounds.")
    tables.show(table)
    tables.keep("hooks", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

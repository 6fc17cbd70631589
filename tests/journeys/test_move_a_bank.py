"""A bank that people use moves to a server and back, at the door: commands and servers only.

With the default settings: the real embedder, a bank in the home folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.engines.postgres import PASSWORD
from tests.requirement import requirement

QUESTION = "the upload stops half-way"


class Machine:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
        } | {"HOME": str(home), "COLUMNS": "200"}
        self.bank = f"sqlite:///{home}/.local/share/reasonbank/bank.db"
        for name in ("one", "two"):
            (home / name).mkdir()

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "reasonbank.surfaces.cli", *words]

    def run(self, *words: str, cwd: str = "one", rc: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), cwd=self.home / cwd, env=self.environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == rc, done.stderr
        return done

    def json(self, *words: str, **options: Any) -> Any:
        return json.loads(self.run("--json", *words, **options).stdout)

    def record(self, title: str, content: str, **options: Any) -> str:
        told = self.json(
            "record", "--title", title, "--description", f"When {content.lower()}", "--content",
            content, "--outcome", "success", **options,
        )  # fmt: skip
        return str(told["id"])

    def listed(self, url: str) -> Any:
        listed = self.json("--bank", url, "list", "--state", "all")
        return [(m["id"], m["title"], m["confidence"], m["state"]) for m in listed]

    def found(self, url: str) -> Any:
        hits = self.json("--bank", url, "search", QUESTION)["memories"]
        return [(hit["id"], hit["confidence"], hit["expected"]) for hit in hits]

    def finds_alike(self, one: str, other: str) -> bool:
        """A forecast hangs a little on which others came up, and indexes differ in that."""
        mine, theirs = self.found(one), self.found(other)
        return len(mine) == len(theirs) and all(
            (id, confidence) == known[:2] and abs(expected - known[2]) < 0.02
            for (id, confidence, expected), known in zip(mine, theirs, strict=True)
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def live(machine: Machine) -> str:
    """Use it from two projects; return a token's secret."""
    retry = machine.record("Retry uploads", "An upload stops half-way; wait longer each time")
    chunk = machine.record("Upload in chunks", "A big upload stops; send it in parts")
    gone = machine.record("Forget me", "Nothing that anybody should know")
    old = machine.record("Sleep a second", "An upload is slow; sleep")
    machine.record("Elsewhere", "The other project names its uploads", cwd="two")
    machine.run("search", QUESTION, "--session", "s1")
    machine.run("outcome", "--session", "s1", "--succeeded")
    machine.run("feedback", chunk, "--helpful")
    machine.run("link", retry, chunk, "--strength", "0.5")
    trace = {"task": "upload", "outcome": "success", "memories_used": [retry]}
    (machine.home / "one" / "trace.json").write_text(json.dumps(trace))
    machine.run("trace", "store", "trace.json")
    machine.run("archive", old)
    machine.run("forget", gone, "--yes")
    return str(machine.json("token", "create", "--scope", "read", "--name", "ci")["token"])


@contextlib.contextmanager
def serving(machine: Machine, url: str):
    """A server of its own process; what is asked of it, with a token."""
    with open(machine.home / "serve.log", "ab") as log:
        server = subprocess.Popen(
            machine.command("--json", "--bank", url, "serve", "--port", "0"),
            cwd=machine.home / "one", env=machine.environment,
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line, (machine.home / "serve.log").read_text()
    place = json.loads(line)["address"]

    def ask(token: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{place}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "X-ReasonBank-Workspace": str(machine.home / "one"),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    try:
        yield ask
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        server.stdout.close()


@requirement("DEP-4")
def test_a_bank_moves_to_a_server_and_back_while_it_is_served(machine, new_postgres):
    token = live(machine)
    far, near = new_postgres(), f"sqlite:///{machine.home}/near.db"
    admin = str(machine.json("token", "create", "--scope", "admin", "--name", "me")["token"])
    lesson = {"title": "A", "description": "B", "content": "C", "outcome": "success"}
    with serving(machine, machine.bank) as ask:
        assert ask(admin, "/memories", lesson)[0] == 201
        before = machine.listed(machine.bank)
        moved = machine.run("migrate", machine.bank, far)
        assert "verified" in moved.stdout
        status, told = ask(admin, "/memories", lesson)
        assert status == 503
        assert "was moved to postgresql://postgres@127.0.0.1" in told["message"]
    assert machine.listed(far) == before
    # To search what was moved leaves no trace there.
    assert machine.found(machine.bank) == machine.found(machine.bank)
    assert machine.finds_alike(machine.bank, far)
    machine.run("--bank", far, "search", QUESTION, "--session", "s2")
    machine.run("--bank", far, "outcome", "--session", "s2", "--succeeded")
    shown = machine.run("record", "--title", "x", "--description", "y", "--content", "z", rc=5)
    assert "was moved to" in shown.stderr
    doctor = machine.run("doctor", rc=5)
    with serving(machine, far) as ask:
        assert ask(token, "/memories")[0] == 200
        assert ask(admin, "/memories", lesson)[0] == 201
    before = machine.listed(far)
    told = machine.json("migrate", far, near)
    assert machine.listed(near) == before
    assert machine.finds_alike(far, near)
    assert told["source"].startswith("postgresql://postgres@127.0.0.1")
    outputs = [moved.stdout, moved.stderr, shown.stderr, doctor.stdout, json.dumps(told),
               (machine.home / "serve.log").read_text()]  # fmt: skip
    assert not any(PASSWORD in each or "s3cret" in each for each in outputs)
    checks = machine.json("--bank", near, "doctor")
    assert checks["healthy"], checks


def test_a_backup_is_made_and_restored_by_commands(machine):
    live(machine)
    before = machine.listed(machine.bank)
    file = machine.home / "one" / "bank.backup"
    assert "Wrote" in machine.run("backup", "bank.backup").stdout
    assert file.stat().st_mode & 0o777 == 0o600
    machine.record("Written after the backup", "Will be gone")
    assert "--force" in machine.run("restore", "bank.backup", rc=4).stderr
    machine.run("restore", "bank.backup", "--force")
    assert machine.listed(machine.bank) == before
    machine.record("Goes on", "After the restore")
    assert machine.json("doctor")["healthy"]
    archived = machine.json("list", "--state", "archived")[0]["id"]
    assert "Restored" in machine.run("restore", archived[-8:]).stdout

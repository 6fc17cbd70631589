"""The same operations through each surface, for writers that may be killed at any moment."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from fault_tools import a_memory, open_bank

PROJECT = "/project"
COMMAND = (sys.executable, "-m", "reasonbank.surfaces.cli", "--workspace", PROJECT, "--json")
DESCRIPTION = "When many hands write at once"


class Unheard(Exception):
    """Whoever was asked died before it answered: nobody knows whether it was done."""


class Hand(Protocol):
    def record(self, title: str, content: str) -> str: ...
    def update(self, id: str, content: str) -> None: ...
    def feedback(self, id: str) -> None: ...
    def forget(self, id: str) -> None: ...
    def search(self, query: str, session: str) -> list[str]: ...
    def end(self, session: str, succeeded: bool, ids: set[str]) -> None: ...


def environment(folder: Path) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith("REASONBANK_")}
    return kept | {
        "HOME": str(folder),
        "USER": "tester",
        "REASONBANK_URL": f"sqlite:///{folder / 'bank.db'}",
        "REASONBANK_EMBED_MODEL": "hashed",
        # One agent through all doors: what a person confirmed it could not always change.
        "CLAUDECODE": "1",
    }


class Library:
    def __init__(self, folder: Path) -> None:
        self.bank = open_bank(folder / "bank.db", PROJECT)

    def record(self, title: str, content: str) -> str:
        return self.bank.record(a_memory(title, content=content)).id

    def update(self, id: str, content: str) -> None:
        self.bank.update(id, content=content)

    def feedback(self, id: str) -> None:
        self.bank.feedback(id, helpful=True)

    def forget(self, id: str) -> None:
        self.bank.forget(id)

    def search(self, query: str, session: str) -> list[str]:
        return [hit.memory.id for hit in self.bank.search(query, session=session)]

    def end(self, session: str, succeeded: bool, ids: set[str]) -> None:
        self.bank.credit(session, succeeded=succeeded)


class HTTP:
    """A connection for each call: either process of the server may get it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _connected(self) -> http.client.HTTPConnection:
        """Without a server nothing is asked, so nothing can go unheard: wait for the next."""
        while True:
            port = int((self.folder / "port").read_text())
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with contextlib.suppress(OSError):
                connection.connect()
                return connection
            threading.Event().wait(0.02)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = self._connected()
        token = (self.folder / "bank.db.owner-token").read_text().strip()
        headers = {"X-ReasonBank-Workspace": PROJECT, "Content-Type": "application/json",
                   "Authorization": f"Bearer {token}"}  # fmt: skip
        try:
            connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unheard from error
        finally:
            connection.close()
        if answer.status == 503:
            raise Unheard
        assert answer.status < 300, (answer.status, told)
        return json.loads(told) if told else None

    def record(self, title: str, content: str) -> str:
        lesson = {"title": title, "description": DESCRIPTION, "content": content,
                  "outcome": "success"}  # fmt: skip
        return str(self._ask("POST", "/memories", lesson)["id"])

    def update(self, id: str, content: str) -> None:
        self._ask("PATCH", f"/memories/{id}", {"content": content})

    def feedback(self, id: str) -> None:
        self._ask("POST", f"/memories/{id}/feedback", {"helpful": True})

    def forget(self, id: str) -> None:
        self._ask("DELETE", f"/memories/{id}?confirm=true")

    def search(self, query: str, session: str) -> list[str]:
        told = self._ask("POST", "/search", {"query": query, "session": session})
        return [memory["id"] for memory in told["memories"]]

    def end(self, session: str, succeeded: bool, ids: set[str]) -> None:
        self._ask("POST", f"/sessions/{session}/outcome", {"succeeded": succeeded})


class MCP:
    """A server of its own over standard input and output; when it dies, the next is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def _start(self) -> None:
        self.count = 0
        with open(self.folder / "mcp.log", "ab") as log:
            self.server = subprocess.Popen(
                [*COMMAND, "mcp"], env=environment(self.folder), cwd=self.folder, stderr=log,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        known = {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "hand", "version": "1"}}  # fmt: skip
        try:
            self._ask("initialize", known)
            self._tell({"method": "notifications/initialized"})
        except Unheard:
            self._start()

    def _tell(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        try:
            self.server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
            self.server.stdin.flush()
        except OSError as error:
            raise Unheard from error

    def _ask(self, method: str, params: Any) -> Any:
        assert self.server.stdout is not None
        self.count += 1
        self._tell({"id": self.count, "method": method, "params": params})
        while line := self.server.stdout.readline():
            # The last line of one that was killed may be cut off.
            if line.endswith("\n") and (told := json.loads(line)).get("id") == self.count:
                assert "error" not in told, told
                return told["result"]
        raise Unheard

    def _call(self, tool: str, **arguments: Any) -> Any:
        try:
            told = self._ask("tools/call", {"name": tool, "arguments": arguments})
        except Unheard:
            self.server.kill()
            self.server.wait()
            self._start()
            raise
        if told.get("isError") and "forgotten" in told["content"][0]["text"]:
            return None  # By somebody else, since it was found.
        assert not told.get("isError"), told
        return json.loads(told["content"][0]["text"])

    def record(self, title: str, content: str) -> str:
        told = self._call(
            "memory_record", title=title, description=DESCRIPTION, content=content,
            outcome="success",
        )  # fmt: skip
        return str(told["id"])

    def update(self, id: str, content: str) -> None:
        self._call("memory_update", memory_id=id, content=content)

    def feedback(self, id: str) -> None:
        self._call("memory_feedback", memory_id=id, helpful=True)

    def forget(self, id: str) -> None:
        self._call("memory_forget", memory_id=id, confirm=True)

    def search(self, query: str, session: str) -> list[str]:
        told = self._call("memory_search", query=query, session_id=session)
        return [memory["id"] for memory in told["memories"]]

    def end(self, session: str, succeeded: bool, ids: set[str]) -> None:
        """An agent says it of each memory that it was given."""
        for id in sorted(ids):
            self._call("memory_outcome", memory_id=id, session_id=session, succeeded=succeeded)


class CommandLine:
    """A process for each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _run(self, *arguments: str) -> Any:
        done = subprocess.run(
            [*COMMAND, *arguments], env=environment(self.folder), cwd=self.folder,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode < 0:
            raise Unheard
        assert done.returncode == 0, (arguments, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def record(self, title: str, content: str) -> str:
        told = self._run(
            "record", "--title", title, "--description", DESCRIPTION, "--content", content,
            "--outcome", "success",
        )  # fmt: skip
        return str(told["id"])

    def update(self, id: str, content: str) -> None:
        self._run("update", id, "--content", content)

    def feedback(self, id: str) -> None:
        self._run("feedback", id, "--helpful")

    def forget(self, id: str) -> None:
        self._run("forget", id, "--yes")

    def search(self, query: str, session: str) -> list[str]:
        told = self._run("search", query, "--session", session)
        return [memory["id"] for memory in told["memories"]]

    def end(self, session: str, succeeded: bool, ids: set[str]) -> None:
        how = "--succeeded" if succeeded else "--failed"
        self._run("outcome", "--session", session, how)


HANDS = {"library": Library, "http": HTTP, "mcp": MCP, "cli": CommandLine}

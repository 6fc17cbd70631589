"""`reasonbank mcp` ends when its client goes or it is told to, whatever it waits for."""

import json
import signal
import subprocess

import pytest
from tests.requirement import requirement
from tests.surfaces.mcp_agent import LESSON, command

from reasonbank import Bank, Settings
from reasonbank.settings import Embed

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {},
         "clientInfo": {"name": "test", "version": "1"}}  # fmt: skip


class Server:
    def __init__(self, folder):
        arguments, environment = command(folder, "mcp")
        self.process = subprocess.Popen(
            arguments, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.asked = 0
        self.ask("initialize", **HELLO)

    def ask(self, method, **params):
        self.asked += 1
        line = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.asked
        return answer["result"]

    def call(self, tool, **given):
        return json.loads(self.ask("tools/call", name=tool, arguments=given)["content"][0]["text"])


def by_end_of_input(process):
    process.stdin.close()


def by_interrupt(process):
    process.send_signal(signal.SIGINT)


def by_termination(process):
    process.send_signal(signal.SIGTERM)


@requirement("MCP-1")
@pytest.mark.parametrize("told", [by_end_of_input, by_interrupt, by_termination])
def test_it_ends_in_order_while_it_waits_for_its_client(tmp_path, told):
    server = Server(tmp_path)
    with server.process:
        id = server.call("memory_record", **LESSON)["id"]
        server.call("memory_search", query="uploads")
        told(server.process)
        # Standard input is still open, and no line will come.
        assert server.process.wait(timeout=60) == 0
        assert server.process.stdout.read() == b""
        [made] = server.process.stderr.read().splitlines()
        assert made.startswith(b"Made a new bank at ")
    settings = Settings(embed=Embed(model="hashed"))
    url = f"sqlite:///{tmp_path}/bank.db"
    with Bank.open(url, workspace=tmp_path, settings=settings) as bank:
        # What it had found was written down at its end.
        assert bank.get(id).usage_count == 1


@requirement("MCP-1")
def test_a_line_of_any_length_gets_through(tmp_path):
    server = Server(tmp_path)
    with server.process:
        long = LESSON | {"content": "Wait. " * 5_000}
        ids = {server.call("memory_record", **long | {"title": f"Long {n}"})["id"] for n in (1, 2)}
        assert len(ids) == 2
        server.process.stdin.write(b'{"jsonrpc": "2.0", "id": 99, "method": "tools/ca')
        server.process.stdin.flush()
        by_interrupt(server.process)
        assert server.process.wait(timeout=60) == 0

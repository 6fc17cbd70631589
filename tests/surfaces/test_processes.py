"""`reasonbank serve --processes 2`: two servers, one address, one bank."""

import os
import signal
import threading
import time
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.http_server import LESSON, command, serving
from tests.surfaces.test_http_stopping import stopped_while_writing

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks for child processes in /proc"
)


def members(server):
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_what_one_process_acknowledged_the_other_finds_at_once(tmp_path):
    with serving(tmp_path, "--processes", 2) as server:
        assert len(members(server)) == 2
        for number in range(12):
            # Each connection is given to either of the two.
            with server.client() as writer, server.client() as reader:
                title = f"Lesson number {number}"
                id = writer.post("/memories", json=LESSON | {"title": title}).json()["id"]
                found = reader.post("/search", json={"query": title, "limit": 50}).json()
                assert id in [memory["id"] for memory in found["memories"]]
        assert server.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_of_them_cleanly_and_nothing_is_lost(tmp_path, how):
    code, unheard = stopped_while_writing(tmp_path, how, "--processes", 2)
    assert code == 0
    assert unheard == set()


def test_a_process_that_is_killed_is_replaced_and_the_address_stays(tmp_path):
    with serving(tmp_path, "--processes", 2) as server:
        first = members(server)
        victim = min(first)
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(members(server) - {victim}) == 2)
        until(lambda: answers(server))
        assert server.stop() == 0
        until(lambda: not any(map(is_there, first)))


def test_without_the_first_process_the_others_end(tmp_path):
    with serving(tmp_path, "--processes", 2) as server:
        left = members(server)
        server.stop(signal.SIGKILL)
        until(lambda: not any(map(is_there, left)))


def test_an_address_is_not_shared_with_another_server(tmp_path):
    with serving(tmp_path / "one", "--processes", 2) as server:
        code, told = command(tmp_path / "two", "serve", "--processes", 2, "--port", server.port)
        assert (code, told["field"]) == (2, "port")


def answers(server):
    try:
        return server.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False

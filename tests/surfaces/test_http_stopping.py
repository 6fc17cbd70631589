"""A server that is stopped or killed loses nothing that it acknowledged."""

import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, environment, serving

from reasonbank import Bank
from reasonbank.ledger.port import Filter

WRITERS = 6


class Writer(threading.Thread):
    """Records until the server is gone; knows which writes were acknowledged."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.acknowledged = []
        self.errors = []

    def run(self):
        with self.server.client() as client:
            while True:
                try:
                    answer = client.post("/memories", json=LESSON)
                except httpx2.TransportError:
                    return
                if answer.status_code != 201:
                    self.errors.append(answer.text)
                    return
                self.acknowledged.append(answer.json()["id"])


def stopped_while_writing(folder, how, *arguments):
    with serving(folder, *arguments) as server:
        writers = [Writer(server) for _ in range(WRITERS)]
        for writer in writers:
            writer.start()
        while not all(len(writer.acknowledged) >= 5 for writer in writers):
            assert server.process.poll() is None
            threading.Event().wait(0.01)
        code = server.stop(how)
        for writer in writers:
            writer.join()
    assert [e for writer in writers for e in writer.errors] == []
    with Bank.open(f"sqlite:///{folder}/reasonbank/bank.db", workspace=folder) as bank:
        stored = {m.id for m in bank.memories(Filter(), limit=1_000_000)}
        assert bank.store.ledger.check() == []
    acknowledged = {id for writer in writers for id in writer.acknowledged}
    assert acknowledged <= stored
    return code, stored - acknowledged


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_nothing_is_lost(tmp_path, how):
    code, unheard = stopped_while_writing(tmp_path, how)
    assert code == 0
    assert unheard == set()  # Calls that were under way ended, and were answered.


@requirement("MEM-8")
def test_killed_it_has_kept_all_that_it_acknowledged(tmp_path):
    code, unheard = stopped_while_writing(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert len(unheard) <= WRITERS


def test_long_work_does_not_hold_up_the_end(tmp_path):
    lines = "".join(json.dumps({**LESSON, "content": f"Step {n}"}) + "\n" for n in range(2000))
    with serving(tmp_path, REASONBANK_EMBED_MODEL="minilm") as server, server.client() as client:
        assert client.post("/import", content=lines).json()["new"] == 2000
        with ThreadPoolExecutor() as pool:
            work = pool.submit(client.post, "/embed", json={})
            with server.client() as other:
                while other.post("/rebuild", json={}).status_code != 429:
                    assert not work.done(), work.result().text
            code = server.stop()
            assert (work.result().status_code, work.result().json()["error"]) == (503, "Stopping")
        assert code == 0


def test_a_second_signal_ends_it_at_once(tmp_path):
    with serving(tmp_path) as server, server.socket() as waiting:
        # A call that does not end: its body never comes.
        head = f"POST /api/v1/search HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        known = f"Authorization: Bearer {server.token}\r\n"
        waiting.sendall(f"{head}{known}Content-Length: 10\r\n\r\n".encode())
        assert server.get("/livez").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while accepts(server):
            assert time.monotonic() < deadline
        assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM


NEVER_DONE = """
import time
from reasonbank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.surfaces.http import server

class NeverDone(Hashed):
    def embed(self, texts):
        print("asked", flush=True)
        time.sleep(600)

server.FAREWELL_SECONDS = server.LAST_SECONDS = 1
bank = Bank.open("sqlite:///bank.db", workspace=".", embedder=NeverDone())
server.serve(bank, host="127.0.0.1", port=0, tools="all", authenticate=False,
             announce=lambda opened: print(opened.address, flush=True))
"""


def test_work_that_never_ends_does_not_hold_up_the_end(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", NEVER_DONE], cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        address = process.stdout.readline().strip()
        asked = {"query": "what takes so long?"}
        with ThreadPoolExecutor() as pool:
            call = pool.submit(httpx2.post, f"{address}/api/v1/search", json=asked, timeout=60)
            assert process.stdout.readline() == "asked\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert call.exception() is not None or call.result().status_code >= 500


def accepts(server):
    try:
        server.socket().close()
    except OSError:
        return False
    return True

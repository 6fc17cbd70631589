"""An index server that is down, slow, robbed or back again: nothing is lost, and all is told."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import numpy as np
import pytest
from fault_tools import HASHED, a_memory
from tests.conftest import Fragile
from tests.engines import chroma
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import InvalidSetting
from reasonbank.learn.lessons import prepare
from reasonbank.settings import IndexSettings
from reasonbank.testing.builders import a_trace

AT_ONCE_AGAIN = replace(HASHED, index=IndexSettings(retry_seconds=0.0, timeout_seconds=30.0))
QUESTION = "wait for the port"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chroma.Server]:
    chroma.needed()
    server = chroma.Server(tmp_path_factory.mktemp("chroma"))
    yield server
    server.kill()


@contextmanager
def opened(path: Path, index: str, *, settings=AT_ONCE_AGAIN) -> Iterator[Bank]:
    url = f"sqlite:///{path}?index={index}"
    with Bank.open(url, settings=settings, embedder=Fragile(), workspace=path.parent) as bank:
        yield bank


def collections(server: chroma.Server) -> str:
    return f"{server.url}/api/v2/tenants/default_tenant/databases/default_database/collections"


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_words_answer_while_the_server_is_killed_and_meaning_is_back_with_it(
    path: Path, server: chroma.Server
) -> None:
    with opened(path, f"chroma+{server.url}") as bank:
        stored = bank.record(a_memory())
        assert (bank.search(QUESTION).degraded, bank.search(QUESTION).skipped) == (False, ())

        server.kill()
        meanwhile = bank.record(a_memory("Recorded while it was down"))
        reply = bank.search(QUESTION)
        assert stored.id in [hit.memory.id for hit in reply]
        assert (reply.degraded, reply.skipped) == (True, ("meaning",))
        assert f"the Chroma index at {server.url} cannot be reached" in reply.notes[0]
        [check] = [check for check in bank.health().checks if check.name == "vectors"]
        assert check.status == "warn" and server.url in check.found

        server.start()
        reply = bank.search(QUESTION)
        assert (reply.degraded, reply.skipped) == (False, ())
        assert {hit.memory.id for hit in reply} == {stored.id, meanwhile.id}
        assert len(bank.store.indexing.index) == 2


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_a_server_that_lost_its_data_is_filled_again_from_the_ledger(
    path: Path, server: chroma.Server
) -> None:
    with opened(path, f"chroma+{server.url}") as bank:
        for number in range(20):
            bank.record(a_memory(f"Lesson {number}"))
        assert not bank.search(QUESTION).degraded
        server.lose_everything()
        robbed = bank.search(QUESTION)
        # The first search after it either notices, and says so, or has filled it already.
        assert len(robbed) > 0
        assert robbed.skipped == () or "has lost its rows" in robbed.notes[0]
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 20


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_a_collection_that_is_deleted_under_a_bank_is_made_anew(
    path: Path, server: chroma.Server
) -> None:
    with opened(path, f"chroma+{server.url}") as bank:
        bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        [mine] = [
            each["name"] for each in httpx2.get(collections(server)).json()
            if bank.store.ledger.bank_id in each["name"]
        ]  # fmt: skip
        assert httpx2.delete(f"{collections(server)}/{mine}").is_success
        # Whoever writes now is not kept from it, and whoever forgets neither.
        bank.forget(bank.record(a_memory("Another")).id)
        bank.search(QUESTION)
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 1


def test_what_is_forgotten_while_the_server_is_down_is_gone_when_it_is_back(
    path: Path, server: chroma.Server
) -> None:
    with opened(path, f"chroma+{server.url}") as bank:
        secret = bank.record(a_memory("A secret"))
        bank.record(a_memory("Not a secret"))
        bank.search(QUESTION)
        assert len(bank.store.indexing.index) == 2
        server.kill()
        bank.forget(secret.id)
        assert secret.id not in [hit.memory.id for hit in bank.search(QUESTION)]
        server.start()
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 1


class Stalling:
    """A proxy in front of a server. While it stalls it takes calls, and answers none."""

    def __init__(self, port: int) -> None:
        self.stalls, self.calls = False, 0
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.calls += 1
            server = socket.create_connection(self._target)
            self._open += [caller, server]
            for one, other in ((caller, server), (server, caller)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                if not self.stalls:
                    other.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        for each in (self._listener, *self._open):
            each.close()


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_a_server_that_does_not_answer_is_given_up_and_then_left_alone(
    path: Path, server: chroma.Server
) -> None:
    proxy = Stalling(server.port)
    impatient = replace(HASHED, index=IndexSettings(timeout_seconds=1.0, retry_seconds=3600.0))
    with opened(path, f"chroma+{proxy.url}", settings=impatient) as bank:
        stored = bank.record(a_memory())
        bank.embed_new()
        proxy.stalls = True
        reply = bank.search(QUESTION)
        assert [hit.memory.id for hit in reply] == [stored.id]
        assert reply.skipped == ("meaning",)
        assert "did not answer within 1 s" in reply.notes[0]
        calls = proxy.calls
        for _ in range(3):
            assert bank.search(QUESTION).notes == reply.notes
        bank.record(a_memory("Not kept waiting"))
        assert proxy.calls == calls

        proxy.stalls = False
        bank.store.indexing.index._clock = lambda: float("inf")  # An hour later.
        assert bank.search(QUESTION).skipped == ()
    proxy.close()


def test_many_changes_are_left_to_the_background_and_the_reply_says_so(
    path: Path, server: chroma.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasonbank.index.served.ServedIndex.at_once", 5)
    with opened(path, "local") as bank:
        for number in range(30):
            bank.record(a_memory(f"Lesson {number}"))
        bank.embed_new()
    with opened(path, f"chroma+{server.url}") as bank:
        reply = bank.search(QUESTION)
        assert reply.degraded and "the index is being filled" in reply.notes[0]
        bank.store.indexing.follow()
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 30
        # Nobody waits for a thread that has much to do.
        bank.record(a_memory("One more"))
        with bank.store.indexing._following:
            assert "the index is being filled" in bank.search(QUESTION).notes[0]


def test_two_processes_share_one_index_on_a_server(path: Path, server: chroma.Server) -> None:
    index = f"chroma+{server.url}"
    with opened(path, index) as one, opened(path, index) as other:
        first = one.record(a_memory("From the one"))
        assert first.id in [hit.memory.id for hit in other.search(QUESTION)]
        second = other.record(a_memory("From the other"))
        assert second.id in [hit.memory.id for hit in one.search(QUESTION)]
        other.forget(first.id)
        assert [hit.memory.id for hit in one.search(QUESTION)] == [second.id]
        assert len(one.store.indexing.index) == len(other.store.indexing.index) == 1


def test_an_embedded_index_is_for_one_process_and_others_use_the_local_one(path: Path) -> None:
    chroma.needed()
    with opened(path, "chroma") as bank:
        stored = bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        assert (path.parent / f"{path.name}.chroma").is_dir()
        command = [sys.executable, "-m", "reasonbank.surfaces.cli", "--bank",
                   f"sqlite:///{path}?index=chroma", "--workspace", str(path.parent)]  # fmt: skip
        env = os.environ | {"REASONBANK_EMBED_MODEL": "hashed", "HOME": str(path.parent)}
        done = subprocess.run(
            [*command, "search", QUESTION, "--json"], capture_output=True, text=True, env=env,
            check=True,
        )  # fmt: skip
        assert stored.id in done.stdout
        found = subprocess.run(
            [*command, "doctor"], capture_output=True, text=True, env=env, check=False
        )
        assert "because another process uses" in " ".join(found.stdout.split())
    with opened(path, "chroma") as again:
        assert not again.search(QUESTION).degraded
        assert len(again.store.indexing.index) == 1


def test_what_an_earlier_model_left_on_the_server_goes_with_reindex(
    path: Path, server: chroma.Server
) -> None:
    url = f"sqlite:///{path}?index=chroma+{server.url}"

    def mine(bank: Bank) -> list[str]:
        names = [each["name"] for each in httpx2.get(collections(server)).json()]
        return [name for name in names if bank.store.ledger.bank_id in name]

    with opened(path, f"chroma+{server.url}") as bank:
        bank.record(a_memory())
        bank.search(QUESTION)
        [before] = mine(bank)
    with Bank.open(
        url, settings=AT_ONCE_AGAIN, embedder=Fragile("another"), workspace=path.parent
    ) as bank:
        bank.reindex()
        assert not bank.search(QUESTION).degraded
        [after] = mine(bank)
        assert after != before


def test_lessons_are_learned_while_the_server_is_down(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with opened(path, f"chroma+http://127.0.0.1:{port}") as bank:
        [lesson] = prepare(bank.context, [a_memory()], a_trace())
        assert (lesson.memory.title, lesson.twin) == (a_memory().title, None)


def test_an_index_that_is_ahead_of_a_restored_backup_begins_anew(
    path: Path, server: chroma.Server
) -> None:
    index, backup = f"chroma+{server.url}", path.with_name("backup.db")
    with opened(path, index) as bank:
        kept = bank.record(a_memory("Before the backup"))
        assert not bank.search(QUESTION).degraded
    shutil.copy(path, backup)
    with opened(path, index) as bank:
        for number in range(3):
            bank.record(a_memory(f"After the backup {number}"))
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 4
    shutil.copy(backup, path)
    with opened(path, index) as bank:
        assert [hit.memory.id for hit in bank.search(QUESTION)] == [kept.id]
        assert len(bank.store.indexing.index) == 1


FOLLOWER = """
import sys
from reasonbank.bank import Bank
from reasonbank.model import Memory
from reasonbank.settings import Embed, IndexSettings, Settings
from reasonbank.embed.hashed import Hashed
settings = Settings(embed=Embed(model="hashed"), index=IndexSettings(timeout_seconds=60.0))
with Bank.open(sys.argv[1], settings=settings, workspace=sys.argv[2]) as bank:
    for number in range(12):
        memory = bank.record(Memory(
            title=f"{sys.argv[3]} {number}", description="When ports are waited for",
            content="Poll until the port answers.", outcome="success"))
        bank.search("wait for the port")
        if number % 4 == 0:
            bank.forget(memory.id)
"""


def test_processes_that_record_forget_and_search_at_once_leave_the_index_in_step(
    path: Path, server: chroma.Server
) -> None:
    url = f"sqlite:///{path}?index=chroma+{server.url}"
    path.parent.mkdir(exist_ok=True)
    running = [
        subprocess.Popen([sys.executable, "-c", FOLLOWER, url, str(path.parent), name])
        for name in ("one", "other")
    ]
    assert [process.wait() for process in running] == [0, 0]
    with Bank.open(url, settings=AT_ONCE_AGAIN, workspace=path.parent) as bank:
        bank.search(QUESTION)
        index, ledger = bank.store.indexing.index, bank.store.ledger
        stored = {num for num, _ in ledger.read().nums_of(bank.context.view.workspace)}
        assert len(index) == len(stored) == 18
        assert index.vectors(np.array(sorted(stored))).any(axis=1).all()


@pytest.mark.parametrize(
    ("index", "extra"),
    [("chroma", "chroma"), ("qdrant+http://127.0.0.1:1", "qdrant")],
)
def test_a_missing_package_is_named_by_the_command_that_installs_it(
    path: Path, index: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    wanted = re.escape(f"run: pip install 'reasonbank[{extra}]'")
    with pytest.raises(InvalidSetting, match=wanted), opened(path, index):
        pass


@pytest.fixture
def refusing() -> Iterator[Callable[[], str]]:
    """A server that no key is good enough for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()
            self.wfile.write(str(self.headers).encode())

        do_POST = do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            """Not on the terminal."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield lambda: f"http://127.0.0.1:{there.server_address[1]}"
        there.shutdown()


@pytest.mark.parametrize("engine", ["chroma", "qdrant"])
def test_a_refused_key_is_told_and_never_shown(
    path: Path, refusing: Callable[[], str], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable, key = f"{engine.upper()}_API_KEY", "k3y-that-nobody-may-see"
    monkeypatch.setenv(variable, key)
    with opened(path, f"{engine}+{refusing()}") as bank:
        bank.record(a_memory())
        reply = bank.search(QUESTION)
        assert len(reply) == 1 and reply.skipped == ("meaning",)
        assert "refused the key (HTTP 401)" in reply.notes[0] and variable in reply.notes[0]
        assert key not in str(reply.to_json()) and key not in str(bank.health())


@pytest.mark.parametrize("engine", ["chroma", "qdrant"])
def test_a_server_that_is_not_there_stops_neither_records_nor_searches(
    path: Path, engine: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with opened(path, f"{engine}+http://127.0.0.1:{port}") as bank:
        stored = bank.record(a_memory())
        reply = bank.search(QUESTION)
        assert [hit.memory.id for hit in reply] == [stored.id]
        assert "cannot be reached" in reply.notes[0]
        bank.forget(stored.id)
        assert len(bank.search(QUESTION)) == 0


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("qdrant", "unknown form"),
        ("faiss", "unknown form"),
        ("qdrant+http://user:k3y@host:6333", "QDRANT_API_KEY"),
        ("chroma+http://host:8000?key=k3y", "CHROMA_API_KEY"),
        ("pgvector", "not in PostgreSQL"),
    ],
)
def test_an_index_that_cannot_be_is_refused_by_name_and_not_repeated(
    path: Path, index: str, said: str
) -> None:
    with pytest.raises(InvalidSetting, match=said) as refused, opened(path, index):
        pass
    assert "k3y" not in str(refused.value)

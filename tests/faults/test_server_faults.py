"""A server that is killed, or whose answer is lost: callers are told, and nothing they were told
is stored is missing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_tools import a_memory, differences, open_bank, projections
from tests.engines import postgres
from tests.requirement import requirement

from reasonbank.errors import StorageError
from reasonbank.ledger.port import Filter
from reasonbank.ledger.postgres import PostgresLedger
from reasonbank.model import EvidenceKind
from reasonbank.settings import Settings

THREADS = 4
KILLS = 3


@pytest.fixture
def own_server(postgres_server: postgres.Server) -> Iterator[postgres.Server]:
    """One to be killed, that waits for the disk as those of users do."""
    server = postgres.Server(durable=True)
    yield server
    server.close()


class Writers:
    """Threads that record and search, and note what they were told."""

    def __init__(self, bank: Any) -> None:
        self.bank = bank
        self.told: list[str] = []
        self.refused: list[BaseException] = []
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(THREADS)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        count = 0
        while not self._stop.is_set():
            count += 1
            try:
                title = self.bank.record(a_memory(f"thread {number} memory {count}")).title
                found: list[Any] = [self.told, title]
                self.bank.search("memory", session=f"{number} {count}")
            except BaseException as error:  # noqa: BLE001
                found = [self.refused, error]
            with self._changed:
                found[0].append(found[1])
                self._changed.notify_all()

    def wait_for(self, true: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(true, 60)


@pytest.mark.slow
@requirement("MEM-8", "MEM-9")
def test_a_server_that_is_killed_under_load_loses_nothing_and_is_used_again(
    own_server: postgres.Server,
) -> None:
    url = own_server.new_database()
    with open_bank(url) as bank, Writers(bank) as writers:
        for _ in range(KILLS):
            stored = len(writers.told)
            writers.wait_for(lambda stored=stored: len(writers.told) >= stored + 8)
            own_server.kill()
            refused = len(writers.refused)
            writers.wait_for(lambda refused=refused: len(writers.refused) > refused)
            own_server.start()
        stored = len(writers.told)
        writers.wait_for(lambda: len(writers.told) >= stored + 8)
    for error in writers.refused:
        if type(error) is not StorageError:
            raise error
        assert re.search(r"; (try again|look for it before you try again)$", str(error)), error
        assert "s3cret" not in str(error)
    with open_bank(url) as bank:
        rows = bank.store.ledger.read().listed(bank.context.view, Filter(), 100_000)
        titles = [row.memory().title for row in rows]
        assert set(writers.told) <= set(titles) and len(set(titles)) == len(titles)
        assert bank.store.ledger.read().broken_chain() == []
        before = projections(bank)
        bank.rebuild()
        assert differences(before, projections(bank)) == {}


class Proxy:
    """Between a client and the server. When it is told to, it cuts the line at the next commit:
    before the server hears of it, or after, so that the answer alone is lost."""

    def __init__(self, port: int) -> None:
        self.cut: str | None = None
        self._answer_is_lost = False
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                for way in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if answers and self._answer_is_lost:
                    self._answer_is_lost = False
                    break
                if self.cut and b"commit\0" in data:
                    cut, self.cut = self.cut, None
                    if cut == "before":
                        break
                    self._answer_is_lost = True  # When it answers, it has committed.
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.parametrize("cut", ["before", "after"])
@requirement("MEM-8")
def test_who_loses_the_answer_to_a_commit_learns_what_became_of_it(
    postgres_server: postgres.Server, postgres_url: str, cut: str
) -> None:
    proxy = Proxy(postgres_server.port)
    try:
        ledger = PostgresLedger(postgres_url.replace(f":{postgres_server.port}", f":{proxy.port}"))
        proxy.cut = cut
        work = lambda txn: txn.db.execute("insert into awaited values (?)", ("one",))  # noqa: E731
        if cut == "before":
            with pytest.raises(StorageError, match="before anything of this call was stored"):
                ledger.write(work)
        else:
            ledger.write(work)
        assert proxy.cut is None
        stored = ledger.read().db.all("select id from awaited")
        assert stored == ([] if cut == "before" else [("one",)])
        ledger.write(lambda txn: txn.db.execute("insert into awaited values ('two')"))
        ledger.close()
    finally:
        proxy.close()


def test_a_server_that_was_restarted_is_not_noticed_by_who_was_idle(
    own_server: postgres.Server,
) -> None:
    with open_bank(own_server.new_database()) as bank:
        memory = bank.record(a_memory())
        own_server.stop()
        own_server.start()
        assert bank.get(memory.id).title == memory.title
        own_server.kill()
        own_server.start()
        assert bank.record(a_memory("After that")).title == "After that"


# Separate processes, with the settings that users have.


def command(folder: Path, url: str, *words: str) -> Any:
    environment = {
        **os.environ, "REASONBANK_URL": url, "HOME": str(folder), "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    project = folder / "project"
    project.mkdir(exist_ok=True)
    script = "from reasonbank.surfaces.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--json", *words],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@requirement("MEM-9", "DEP-4")
def test_what_one_process_records_another_finds_at_once_and_a_third_credits(
    tmp_path: Path, postgres_url: str
) -> None:
    with open_bank(postgres_url, tmp_path / "project", settings=Settings()) as bank:
        known = bank.record(a_memory("Wait for the port to answer"))
        assert bank.search("port to answer")[0].memory.id == known.id
        recorded = command(
            tmp_path, postgres_url, "record", "--title", "Retry the zebra upload",
            "--description", "When an upload of zebras fails", "--content", "Retry it thrice.",
        )  # fmt: skip
        assert recorded["id"] in [hit.memory.id for hit in bank.search("zebra upload")]
        found = command(tmp_path, postgres_url, "search", "zebra upload", "--session", "s1")
        assert recorded["id"] in json.dumps(found)
        before = bank.get(recorded["id"]).confidence
        command(tmp_path, postgres_url, "outcome", "--session", "s1", "--succeeded")
        assert bank.get(recorded["id"]).confidence > before
        kinds = {evidence.kind for evidence in bank.evidence(recorded["id"])}
        assert kinds == {EvidenceKind.USAGE, EvidenceKind.OUTCOME}
        checks = command(tmp_path, postgres_url, "doctor")["checks"]
        assert {"store", "PostgreSQL"} <= {check["name"] for check in checks}
        assert {check["status"] for check in checks} <= {"ok", "warn"}
        assert "s3cret" not in json.dumps(command(tmp_path, postgres_url, "stats"))

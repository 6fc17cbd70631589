"""A server that has no room, takes no writes, has no connection left, or ends what is going on:
callers are told, may try again, and nothing that was acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fault_tools import a_memory, open_bank
from tests.engines import postgres
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import StorageError, StorageFull
from reasonbank.ledger import migrations
from reasonbank.ledger.port import Filter
from reasonbank.ledger.postgres import PostgresLedger, ledger as postgres_ledger

RETRY = re.compile(r"; (try again|look for it before you try again)$")


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def titles(bank: Bank) -> set[str]:
    rows = bank.store.ledger.read().listed(bank.context.view, Filter(), 100_000)
    return {row.memory().title for row in rows}


# No room


class SmallDisk:
    """A file system of so many megabytes, on which there can be as little room as is wanted."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.chmod(0o755)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "tmpfs", folder]
        if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root can make a small disk here")

    def fill(self, *, but: int) -> None:
        """Leaves so many bytes."""
        free = os.statvfs(self.folder)
        with open(self.folder / "filler", "ab") as file, contextlib.suppress(OSError):
            file.write(bytes(free.f_bavail * free.f_frsize - but))

    def free(self) -> None:
        (self.folder / "filler").unlink()

    def enlarge(self, megabytes: int) -> None:
        options = f"remount,size={megabytes}m"
        subprocess.run(["mount", "-o", options, self.folder], check=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rb-disk-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def store_until_refused(bank: Bank, stored: list[str]) -> None:
    for n in range(3_000):
        text = " ".join(f"{n}x{i}" for i in range(1_000))
        stored.append(bank.record(a_memory(f"Long {n}", content=text)).title)


@requirement("MEM-8")
def test_a_full_disk_of_the_server_is_said_and_what_was_stored_is_there(
    postgres_server: postgres.Server, folder: Path
) -> None:
    disk = SmallDisk(folder, 40)
    try:
        space = folder / "space"
        space.mkdir()
        os.chown(space, *_server_user(postgres_server))
        postgres_server.execute(f"create tablespace small location '{space}'")
        postgres_server.execute("create database bank_small template template0 tablespace small")
        url = postgres_server.url("bank_small")
        with open_bank(url) as bank:
            stored = [bank.record(a_memory("Before")).title]
            disk.fill(but=300_000)
            with pytest.raises(StorageFull, match=r"no room left on the disk of .*try again"):
                store_until_refused(bank, stored)
            assert len(stored) > 1
            assert titles(bank) == {*stored}
            assert bank.search("port").hits  # Reading needs no room.
            disk.free()
            stored.append(bank.record(a_memory("After")).title)
            assert titles(bank) == {*stored}
            assert bank.store.ledger.check() == [] == bank.store.ledger.read().broken_chain()
        postgres_server.drop(url)
        postgres_server.execute("drop tablespace small")
    finally:
        disk.close()


@pytest.mark.slow
@requirement("MEM-8")
def test_a_server_that_has_no_room_for_its_log_ends_and_has_all_when_it_is_back(
    postgres_server: postgres.Server, folder: Path
) -> None:
    disk = SmallDisk(folder, 20)
    server = postgres.Server(durable=True)
    try:
        url = server.new_database()
        server.stop()
        log = server.folder / "data" / "pg_wal"
        shutil.copytree(log, folder / "log")
        shutil.rmtree(log)
        log.symlink_to(folder / "log")
        for path in (folder / "log", *(folder / "log").rglob("*")):
            os.chown(path, *_server_user(server))
        (folder / "log").chmod(0o700)
        server.start()
        stored: list[str] = []
        with open_bank(url) as bank:
            stored.append(bank.record(a_memory("Before")).title)
            server.execute(MUCH)
            with pytest.raises(StorageError, match="try again"):
                store_until_refused(bank, stored)
            assert stored and "PANIC" in server.log()
            disk.enlarge(90)
            server.end()
            server.start()
            stored.append(bank.record(a_memory("After")).title)
            assert {*stored} <= titles(bank)
            assert bank.store.ledger.check() == [] == bank.store.ledger.read().broken_chain()
    finally:
        disk.enlarge(90)  # It does not end before it could write that it does.
        server.close()
        disk.close()


MUCH = "create table much as select repeat(md5(n::text), 30) from generate_series(1, 6000) n"


def _server_user(server: postgres.Server) -> tuple[int, int]:
    found = server.folder.stat()
    return found.st_uid, found.st_gid


# No writes


def test_a_database_that_is_set_to_read_only_is_read_and_says_so(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    """As some who run servers do when a disk is nearly full."""
    name = name_of(postgres_url)
    with open_bank(postgres_url) as bank:
        kept = bank.record(a_memory())
    postgres_server.execute(f"alter database {name} set default_transaction_read_only = on")
    with open_bank(postgres_url) as bank:
        assert bank.get(kept.id) and bank.search("port", session="s").hits
        with pytest.raises(StorageError, match="takes no writes now"):
            bank.record(a_memory("Another"))
        postgres_server.execute(f"alter database {name} reset default_transaction_read_only")
        bank.record(a_memory("Another"))
        assert titles(bank) == {kept.title, "Another"}


@pytest.mark.slow
def test_a_standby_is_read_and_says_that_it_takes_no_writes(
    postgres_server: postgres.Server,
) -> None:
    server = postgres.Server(durable=True)
    try:
        url = server.new_database()
        with open_bank(url) as bank:
            kept = bank.record(a_memory())
        server.stop()
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        with open_bank(url) as bank:
            assert bank.get(kept.id) and bank.search("port", session="s").hits
            with pytest.raises(StorageError, match="takes no writes now"):
                bank.record(a_memory("Another"))
            server.execute("select pg_promote()")
            bank.record(a_memory("Another"))
            assert titles(bank) == {kept.title, "Another"}
    finally:
        server.close()


# No connection, or none any more


def test_who_gets_no_connection_is_told_to_try_again_and_then_gets_one(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    name = name_of(postgres_url)
    postgres_server.execute("create role few login password 'x' connection limit 1")
    postgres_server.execute(f"grant create on database {name} to few")
    url = postgres_server.url(name, user="few", password="x")
    try:
        with open_bank(url) as bank:
            bank.record(a_memory("First"))
            with bank.store.ledger.pool.connection():
                with pytest.raises(StorageError, match=r"is busy: too many .*try again"):
                    bank.record(a_memory("Second"))
                with pytest.raises(StorageError, match=r"is busy: too many .*try again"):
                    bank.memories()
            bank.record(a_memory("Third"))
            assert titles(bank) == {"First", "Third"}
    finally:
        postgres_server.drop(postgres_url)
        postgres_server.execute("drop role few")


BACKENDS = "from pg_stat_activity where datname = '{}' and application_name = 'reasonbank'"


def test_idle_connections_that_are_ended_are_not_noticed(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    with open_bank(postgres_url) as bank:
        for n in range(3):
            bank.record(a_memory(f"Memory {n}"))
            ended = f"select pg_terminate_backend(pid) {BACKENDS.format(name_of(postgres_url))}"
            assert (True,) in postgres_server.execute(ended)
            assert len(titles(bank)) == n + 1
            assert (True,) in postgres_server.execute(ended)


@requirement("MEM-8")
@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_write_that_is_cancelled_has_stored_nothing_and_can_be_tried_again(
    postgres_server: postgres.Server, postgres_url: str, end: str
) -> None:
    with open_bank(postgres_url) as bank:
        bank.record(a_memory("First"))
        told: list[BaseException] = []

        def write() -> None:
            try:
                bank.record(a_memory("Second"))
            except StorageError as error:
                told.append(error)

        with psycopg.connect(postgres_url) as other:
            # So the write has begun, and waits.
            other.execute("lock table reasonbank.events in share mode")
            thread = threading.Thread(target=write)
            thread.start()
            of = BACKENDS.format(name_of(postgres_url))
            waiting = f"select {end}(pid) {of} and wait_event_type = 'Lock'"
            while not postgres_server.execute(waiting):
                assert thread.is_alive()
            thread.join()
        assert len(told) == 1 and RETRY.search(str(told[0])), told
        bank.record(a_memory("Third"))
        assert titles(bank) == {"First", "Third"}
        assert bank.store.ledger.read().broken_chain() == []


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1])))
from fault_tools import a_memory, open_bank
from reasonbank.errors import StorageError
bank = open_bank(sys.argv[2])
n = 0
while True:
    n += 1
    title = f"{sys.argv[3]} {n}"
    try:
        bank.record(a_memory(title))
        print("stored", title, flush=True)
    except StorageError as error:
        print("refused", error, flush=True)
"""


@pytest.mark.slow
@requirement("MEM-8", "MEM-9")
def test_a_server_that_is_restarted_under_two_processes_loses_nothing_they_were_told(
    postgres_server: postgres.Server, tmp_path: Path
) -> None:
    server = postgres.Server(durable=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                   "XDG_DATA_HOME": str(tmp_path)}  # fmt: skip
    url = server.new_database()
    open_bank(url).close()
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), url]
    writers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=environment)
        for name in ("one", "two")
    ]
    told: list[str] = []

    def until(writer: Any, word: str, count: int) -> None:
        while count:
            line = writer.stdout.readline()
            assert line, "the writer ended"
            told.append(line.rstrip())
            count -= line.startswith(word)

    try:
        for stop in (server.stop, server.kill):
            for writer in writers:
                until(writer, "stored", 5)
            stop()
            for writer in writers:
                until(writer, "refused", 1)
            server.start()
        for writer in writers:
            until(writer, "stored", 5)
            writer.kill()
            told += [line.rstrip() for line in writer.stdout if line.endswith("\n")]
        stored = [line.removeprefix("stored ") for line in told if line.startswith("stored")]
        for line in told:
            assert line.startswith("stored") or RETRY.search(line), line
        with open_bank(url) as bank:
            assert {*stored} <= titles(bank)
            assert bank.store.ledger.read().broken_chain() == []
            assert bank.store.ledger.check() == []
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
        server.close()


# Migrations


def shape(server: postgres.Server, url: str) -> list[Any]:
    """All that the schema is made of, and which version it says it has."""
    columns = server.execute(
        "select table_name, column_name, data_type from information_schema.columns"
        " where table_schema = 'reasonbank' order by 1, 2",
        database=name_of(url),
    )
    rules = "select tablename, qual from pg_policies where schemaname = 'reasonbank' order by 1"
    meta = "select * from reasonbank.meta order by 1"
    return [columns, *(server.execute(sql, database=name_of(url)) for sql in (rules, meta))]


@requirement("DEP-4")
def test_an_upgrade_whose_connection_is_ended_at_any_step_leaves_the_old_bank_whole(
    postgres_server: postgres.Server, new_postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrations.STEPS
    old = 7  # The first that has all that a bank is opened with.
    url = new_postgres()

    def with_steps(patch: pytest.MonkeyPatch, some: list[migrations.Step]) -> None:
        patch.setattr(migrations, "STEPS", some)
        patch.setattr(postgres_ledger, "STEPS", some)
        if len(some) == old:  # Which had no rules either.
            patch.setattr(postgres_ledger, "protect", lambda *_: None)
            patch.setattr(postgres_ledger, "RULES", 0)

    def ended(step: migrations.Step) -> migrations.Step:
        def taken(db: Any) -> None:
            step(db)
            row = db.one("select pg_terminate_backend(pg_backend_pid())")
            raise AssertionError(row)

        return taken

    with monkeypatch.context() as patch:
        with_steps(patch, steps[:old])
        PostgresLedger(url).close()
    before = shape(postgres_server, url)
    for step in range(old, len(steps)):
        with monkeypatch.context() as patch:
            with_steps(patch, [*steps[:step], ended(steps[step]), *steps[step + 1 :]])
            with pytest.raises(StorageError, match="before anything of this call was stored"):
                PostgresLedger(url)
        assert shape(postgres_server, url) == before, step
        with monkeypatch.context() as patch:  # The old program goes on with it.
            with_steps(patch, steps[:old])
            PostgresLedger(url).close()
    ledger = PostgresLedger(url)
    assert ledger.read().db.one("select value from meta where key = 'schema'") == (f"{len(steps)}",)
    ledger.close()

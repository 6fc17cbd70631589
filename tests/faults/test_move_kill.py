"""Killed at any commit, a move goes on when it is made again, and a restore changes nothing.

The child dies by SIGKILL at its n-th commit in any database, just before it takes effect or just
after; n runs until the child reaches its end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from fault_tools import HASHED, a_memory, scaled
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.errors import NotInUse
from reasonbank.ledger.copying import summaries
from reasonbank.ledger.port import Ledger
from reasonbank.moves import migrate, restore, told
from reasonbank.opening import open_ledger

STRIDE = scaled("REASONBANK_MOVE_STRIDE", 9)
"""How many commits lie between two kills."""
QUIET = told(None)
CHILD = """
import os, signal, sys
import apsw

left = int(sys.argv[1])
after = sys.argv[2] == "after"

def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0

def watch(db):
    if after:
        db.set_wal_hook(count)
    else:
        db.set_commit_hook(count)

apsw.connection_hooks.append(watch)
if any("postgres" in word for word in sys.argv):
    import psycopg

    execute = psycopg.Connection.execute

    def counted(self, query, *more, **options):
        commits = query.endswith(b"commit")
        if commits and not after:
            count()
        done = execute(self, query, *more, **options)
        if commits and after:
            count()
        return done

    psycopg.Connection.execute = counted
from pathlib import Path
from reasonbank.moves import migrate, restore, told
from reasonbank.settings import Embed, Settings

settings = Settings(embed=Embed(model="hashed"))
if sys.argv[3] == "migrate":
    migrate(*sys.argv[4:], settings, told(None), copy=False)
else:
    restore(Path(sys.argv[4]), sys.argv[5], settings, told(None), force=True)
"""


def killed(*what: str) -> Iterator[int]:
    """Run it, and kill it at one commit after another, until it comes to its end."""
    done = 0
    for n in range(1, 1000, STRIDE):
        for when in ("before", "after"):
            end = subprocess.run(
                [sys.executable, "-c", CHILD, str(n), when, *what],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if end.returncode == 0:
                assert done, "it was never killed"
                return
            assert end.returncode == -signal.SIGKILL, end.stderr
            done += 1
            yield done


def opened(url: str) -> Ledger:
    return open_ledger(url, HASHED, read_only=False, clock=lambda: time.time_ns() // 1000)


def everything(url: str) -> object:
    with closing(opened(url)) as ledger, ledger.snapshot() as db:
        return summaries(db, lambda done, total: None)


def id_of(url: str) -> str:
    with closing(opened(url)) as ledger:
        return ledger.bank_id


def bank_at(url: str) -> Bank:
    return Bank.open(url, workspace="/project", settings=HASHED)


def writable(url: str) -> bool:
    with bank_at(url) as bank:
        try:
            bank.record(a_memory("May I?"))
        except NotInUse:
            return False
        return True


def live_in(url: str) -> None:
    with bank_at(url) as bank:
        ids = [bank.record(a_memory(f"Lesson {n}", content=f"Do {n}")).id for n in range(12)]
        bank.search("lesson", session="s")
        bank.credit("s", succeeded=True)
        bank.archive(ids[0])
        bank.forget(ids[1])


@pytest.fixture
def lived_in(tmp_path):
    url = f"sqlite:///{tmp_path / 'bank.db'}"
    live_in(url)
    return url


@pytest.fixture
def places(request, tmp_path):
    """Two URLs, of the kinds that the test asks for."""
    return [
        request.getfixturevalue("new_postgres")()
        if kind == "postgres"
        else f"sqlite:///{tmp_path / f'{n}.db'}"
        for n, kind in enumerate(request.param)
    ]


@requirement("DEP-4")
@pytest.mark.parametrize(
    "places",
    [("sqlite", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite")],
    indirect=True,
    ids=lambda kinds: "-".join(kinds),
)
def test_a_move_that_was_killed_goes_on(places):
    source, target = places
    live_in(source)
    id = id_of(source)
    for n in killed("migrate", source, target):
        # Never two that can be written, and what is written in between arrives as well.
        both = [url for url in places if id_of(url) == id]
        assert len([url for url in both if writable(url)]) <= 1, n
    migrate(source, target, HASHED, QUIET, copy=False)
    with bank_at(source) as old, bank_at(target) as new:
        assert {m.id for m in old.memories(limit=1000)} <= {m.id for m in new.memories(limit=1000)}
    assert not writable(source)
    assert writable(target)
    with bank_at(target) as bank:
        assert bank.context.read().broken_chain() == []
        assert bank.store.ledger.check() == []


def test_each_kill_from_the_beginning_is_mended_by_the_next_run(lived_in, tmp_path):
    """Not on top of what earlier runs had done: a fresh target each time."""
    before = everything(lived_in)
    file = tmp_path / "bank.db"
    whole = file.read_bytes()
    for n in range(2, 1000, STRIDE * 2):
        file.write_bytes(whole)
        target = f"sqlite:///{tmp_path / f'target{n}.db'}"
        command = [sys.executable, "-c", CHILD, str(n), "before", "migrate", lived_in, target]
        end = subprocess.run(command, check=False)
        if end.returncode == 0:
            break
        assert end.returncode == -signal.SIGKILL
        migrate(lived_in, target, HASHED, QUIET, copy=False)
        assert everything(target) == before
    assert n > 2


@pytest.mark.parametrize(
    "places", [("sqlite",), ("postgres",)], indirect=True, ids=lambda kinds: "-".join(kinds)
)
def test_a_restore_that_was_killed_has_changed_nothing(places, tmp_path):
    (place,) = places
    live_in(place)
    file = tmp_path / "b.backup"
    with bank_at(place) as bank:
        bank.backup(file)
        for n in range(5):
            bank.record(a_memory(f"After the backup {n}"))
    before, at_backup = everything(place), everything(f"sqlite:///{file}")
    for n in killed("restore", str(file), place):
        found = everything(place)
        assert found in (before, at_backup), n
        if found == at_backup:  # Killed after it was done.
            break
    restore(file, place, HASHED, QUIET, force=True)
    assert everything(place) == at_backup
    assert writable(place)

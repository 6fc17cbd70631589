"""Killed at any commit, a move goes on when it is made again, and a restore changes nothing.

The child dies by SIGKILL at its n-th commit in any database, just before it takes effect or just
after; n runs until the child reaches its end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import HASHED, a_memory, open_bank, scaled
from tests.requirement import requirement

from reasonbank.errors import NotInUse
from reasonbank.ledger.copying import summaries
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.moves import migrate, restore, told

STRIDE = scaled("REASONBANK_MOVE_STRIDE", 5)
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
                assert n > STRIDE, "it was never killed"
                return
            assert end.returncode == -signal.SIGKILL, end.stderr
            done += 1
            yield done


def everything(path: Path) -> object:
    ledger = SQLiteLedger(path)
    try:
        with ledger.snapshot() as db:
            return summaries(db, lambda done, total: None)
    finally:
        ledger.close()


def id_of(path: Path) -> str:
    ledger = SQLiteLedger(path)
    ledger.close()
    return ledger.bank_id


def writable(path: Path) -> bool:
    with open_bank(path) as bank:
        try:
            bank.record(a_memory("May I?"))
        except NotInUse:
            return False
        return True


@pytest.fixture
def lived_in(tmp_path):
    path = tmp_path / "bank.db"
    with open_bank(path) as bank:
        ids = [bank.record(a_memory(f"Lesson {n}", content=f"Do {n}")).id for n in range(12)]
        bank.search("lesson", session="s")
        bank.credit("s", succeeded=True)
        bank.archive(ids[0])
        bank.forget(ids[1])
    return path


@requirement("DEP-4")
def test_a_move_that_was_killed_goes_on(lived_in, tmp_path):
    target = tmp_path / "target.db"
    source = f"sqlite:///{lived_in}"
    id = id_of(lived_in)
    for n in killed("migrate", source, f"sqlite:///{target}"):
        # Never two that can be written, and what is written in between arrives as well.
        both = [path for path in (lived_in, target) if path.exists() and id_of(path) == id]
        assert len([path for path in both if writable(path)]) <= 1, n
    migrate(source, f"sqlite:///{target}", HASHED, QUIET, copy=False)
    with open_bank(lived_in) as old, open_bank(target) as new:
        assert {m.id for m in old.memories(limit=1000)} <= {m.id for m in new.memories(limit=1000)}
    assert not writable(lived_in)
    assert writable(target)
    with open_bank(target) as bank:
        assert bank.context.read().broken_chain() == []
        assert bank.store.ledger.check() == []


def test_each_kill_from_the_beginning_is_mended_by_the_next_run(lived_in, tmp_path):
    """Not on top of what earlier runs had done: a fresh target each time."""
    source = f"sqlite:///{lived_in}"
    before = everything(lived_in)
    whole = lived_in.read_bytes()
    for n in range(2, 1000, STRIDE * 2):
        lived_in.write_bytes(whole)
        target = tmp_path / f"target{n}.db"
        command = [sys.executable, "-c", CHILD, str(n), "before", "migrate", source]
        end = subprocess.run([*command, f"sqlite:///{target}"], check=False)
        if end.returncode == 0:
            break
        assert end.returncode == -signal.SIGKILL
        migrate(source, f"sqlite:///{target}", HASHED, QUIET, copy=False)
        assert everything(target) == before
    assert n > 2


def test_a_restore_that_was_killed_has_changed_nothing(lived_in, tmp_path):
    backup = tmp_path / "b.backup"
    with open_bank(lived_in) as bank:
        bank.backup(backup)
        for n in range(5):
            bank.record(a_memory(f"After the backup {n}"))
    before, at_backup = everything(lived_in), everything(backup)
    for n in killed("restore", str(backup), f"sqlite:///{lived_in}"):
        found = everything(lived_in)
        assert found in (before, at_backup), n
        if found == at_backup:  # Killed after it was done.
            break
    restore(backup, f"sqlite:///{lived_in}", HASHED, QUIET, force=True)
    assert everything(lived_in) == at_backup
    assert writable(lived_in)

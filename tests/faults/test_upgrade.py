"""An old bank becomes a new one in one step: killed anywhere, it is the one or the other."""

import os
import shutil
import signal
from pathlib import Path

import apsw
from fault_tools import child
from tests.requirement import requirement
from tests.store.test_old_banks import ASKED, DATA, WRITTEN, as_json, as_then

from reasonbank import Bank, Settings
from reasonbank.ledger.migrations import STEPS
from reasonbank.settings import Embed

ASKED_AFTER = ("memories", "confidence", "traces", "workspaces", "links", "batches", "evidence")


def open_old(path: Path) -> Bank:
    settings = Settings(embed=Embed(model="hashed"), author="anna")
    return Bank.open(
        f"sqlite:///{path}", workspace="/project", settings=settings, clock=lambda: WRITTEN["at"]
    )


def upgrade(path: Path, last: int, counted: Path) -> None:
    """Open the bank; be killed at the statement with this number."""
    done = 0

    def traced(*_: object) -> bool:
        nonlocal done
        done += 1
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", traced))
    open_old(path).close(embed=False)
    counted.write_text(str(done))


def run(path: Path, last: int, counted: Path) -> int | None:
    with child(upgrade, path, last, counted) as process:
        process.join()
        return process.exitcode


@requirement("MEM-8")
def test_an_upgrade_that_is_killed_at_any_statement_loses_nothing(tmp_path):
    counted = tmp_path / "statements"
    shutil.copy(DATA / "bank-0.1.0.db", tmp_path / "whole.db")
    assert run(tmp_path / "whole.db", 0, counted) == 0
    total = int(counted.read_text())
    assert total > 300
    path = tmp_path / "bank.db"
    shutil.copy(DATA / "bank-0.1.0.db", path)
    versions = set()
    for last in range(1, total, total // 24):
        assert run(path, last, counted) in (-signal.SIGKILL, 0)
        db = apsw.Connection(str(path))
        versions.add(db.pragma("user_version"))
        assert db.pragma("quick_check") == "ok"
        db.close()
    assert versions <= {8, len(STEPS)}
    with open_old(path) as opened:
        bank = Bank(opened.context.seen_by(whole=True))
        for what in ASKED_AFTER:
            said = as_json(WRITTEN["said"][what])
            assert as_then(what, as_json(ASKED[what](bank))) == said, what
        assert bank.context.read().broken_chain() == []


def test_what_was_written_before_is_as_a_rebuild_makes_it(tmp_path):
    shutil.copy(DATA / "bank-0.1.0.db", tmp_path / "bank.db")
    with open_old(tmp_path / "bank.db") as bank:
        before = as_json({what: ASKED[what](bank) for what in ASKED_AFTER})
        bank.rebuild()
        assert as_json({what: ASKED[what](bank) for what in ASKED_AFTER}) == before

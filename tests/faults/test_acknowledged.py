"""What a call acknowledged is in the bank's files when it returns, whichever call it was."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.requirement import requirement
from tests.surfaces.test_parity import CASES, OPERATION, filled, furnished, through_library, url_of

from reasonbank.access import Right
from reasonbank.ledger.events import EventType

BY_A_TASK = ("search", "inject")
BY_NOBODY = (*BY_A_TASK, "recommend")
CHANGING = [name for name in CASES if OPERATION[name].right is not Right.READ]
# Vectors can be made anew; meters count what a process saw.
NOT_THE_BANK = ("vectors", "meters", "words", "sqlite_")


def stored(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = apsw.Connection(str(file))
    db.execute("update memories set embedded = null")
    tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
    rows = {
        table: sorted(db.execute(f"select * from {table}").fetchall(), key=repr)
        for table in tables
        if not table.startswith(NOT_THE_BANK)
    }
    db.close()
    return rows


def around(folder: Path, name: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the files hold when the operation has returned, and when the bank is closed."""
    place, killed = folder / "bank", folder / "killed"
    for path in (place, killed):
        path.mkdir()
    bank, names = furnished(url_of(place), folder / "project", CASES[name])
    bank.store.flush()
    through_library(bank, name, filled(CASES[name].given, names) | more)
    # By another process: whoever closes a file loses SQLite's locks on it.
    subprocess.run(["cp", "-r", f"{place}/.", killed], check=True)
    bank.close()
    return stored(killed / "bank.db"), stored(place / "bank.db")


@requirement("MEM-8")
@pytest.mark.parametrize("name", CHANGING)
def test_what_an_operation_changed_is_in_the_files_when_it_returns(tmp_path, name):
    returned, closed = around(tmp_path, name)
    assert returned == closed


@requirement("MEM-8", "MEM-9")
@pytest.mark.parametrize("name", BY_A_TASK)
def test_what_a_named_task_was_given_is_in_the_files_before_the_search_returns(tmp_path, name):
    returned, closed = around(tmp_path, name, session="the task")
    assert returned == closed


@requirement("MEM-8")
@pytest.mark.parametrize("name", BY_NOBODY)
def test_of_a_search_that_names_no_task_only_the_count_of_uses_comes_later(tmp_path, name):
    """Searching does not wait for the disk: losing the last of these in a crash is allowed."""
    returned, closed = around(tmp_path, name)
    later = [row for row in closed["events"] if row not in returned["events"]]
    assert {what for row in later for what in EventType if what in row} <= {EventType.USED}
    counts = ("events", "evidence", "memories", "meta")
    for table in closed.keys() - set(counts):
        assert returned[table] == closed[table], table

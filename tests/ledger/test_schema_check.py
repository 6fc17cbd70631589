"""A bank that is not made as its version says is refused in words, and left as it is."""

import subprocess
import sys

import apsw
import pytest

from reasonbank.errors import StorageError
from reasonbank.ledger.migrations import STEPS
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.ledger.sqlite.schema_check import USUAL, hash_of, shape_of, usual_shape


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "bank.db"
    SQLiteLedger(path).close()
    return path


def changed(path, sql):
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.pragma("wal_checkpoint(truncate)")
    db.close()


MADE_LAST = len(STEPS) - 3
"""Before the last step that changes evidence; those after it make tables."""
UNFINISHED = {
    "a column is missing": ("alter table evidence drop column share", "evidence without share"),
    "a table is missing": ("drop table tokens", "no tokens"),
    "an index is missing": ("drop index events_subject", "no events_subject"),
    "a key is missing": ("delete from meta where key = 'seal'", "meta without seal"),
    "a column is there too early": (
        "alter table evidence add column later integer not null default 0", "with later"),
    "a column has another name": (
        "alter table jobs rename column claim to holder", "without claim and with holder"),
    "a step finds what it makes": (f"pragma user_version = {MADE_LAST}", "already exists"),
    "a step misses what it changes": (
        f"pragma user_version = {MADE_LAST}; drop table author_tasks; drop table evidence",
        "no such table"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), UNFINISHED.values(), ids=UNFINISHED.keys())
@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_a_bank_that_is_unlike_its_version_is_refused_and_left_alone(path, change, told, read_only):
    changed(path, change)
    before = path.read_bytes()
    with pytest.raises(StorageError) as refused:
        SQLiteLedger(path, read_only=read_only)
    if "user_version" not in change or not read_only:
        assert told in str(refused.value)
        assert "reasonbank export" in str(refused.value)
    assert path.read_bytes() == before


def test_the_command_line_says_it_without_a_traceback(path):
    changed(path, "alter table evidence drop column share")
    told = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "--bank", str(path), "stats"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode != 0
    assert "evidence without share" in told.stderr and "Traceback" not in told.stderr


def test_further_tables_do_no_harm(path):
    changed(path, "create table somebodys (own text); analyze")
    SQLiteLedger(path).close()


def test_a_usual_bank_is_known_by_one_hash(path):
    ledger = SQLiteLedger(path)
    now = hash_of(shape_of(ledger.db))
    ledger.close()
    assert now == hash_of(usual_shape())
    assert now == USUAL, f"the steps make another shape now: set USUAL to {now!r}"

"""A bank is its owner's: nobody else on the machine reads its files or calls its server."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, command, environment

from reasonbank import Bank
from reasonbank.errors import StorageError
from reasonbank.testing import a_memory

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")

RECORD = ("record", "--title", LESSON["title"], "--description", LESSON["description"],
          "--content", LESSON["content"], "--outcome", "success")  # fmt: skip


def modes(folder):
    """Of all that is in a folder, by name."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
            for path in folder.rglob("*")}  # fmt: skip


def typed(folder, *arguments, umask=0, **settings):
    """A command in a process whose umask shuts nobody out."""
    done = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "--json", *map(str, arguments)],
        env=environment(folder, **settings), cwd=folder, capture_output=True, text=True,
        check=False, umask=umask,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def examined(folder, bank):
    told = typed(folder, "doctor", "--bank", bank)
    return {check["name"]: check for check in told["checks"]}


# Files


@requirement("SEC-8")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o177])
def test_all_that_a_new_bank_makes_is_its_owners(tmp_path, umask):
    bank = f"sqlite:///{tmp_path}/new/deeper/bank.db"
    for arguments in (RECORD, ("search", "upload"), ("reindex",), ("maintain",),
                      ("export", tmp_path / "new/deeper/out.jsonl")):  # fmt: skip
        typed(tmp_path, *arguments, "--bank", bank, umask=umask)
    found = modes(tmp_path)
    assert {found.pop("new"), found.pop("new/deeper")} == {0o700}
    assert {"new/deeper/bank.db", "new/deeper/out.jsonl"} < set(found)
    assert set(found.values()) == {0o600}, found


@requirement("SEC-8")
def test_the_log_of_writes_the_index_and_the_turns_are_its_owners_while_it_is_open(tmp_path):
    before = os.umask(0)
    try:
        url = f"sqlite:///{tmp_path}/made/bank.db"
        with Bank.open(url, workspace=tmp_path) as bank:
            bank.record(a_memory())
            bank.embed_new()
            bank.search("anything")
            found = modes(tmp_path / "made")
    finally:
        os.umask(before)
    assert {"bank.db", "bank.db-wal", "bank.db-shm", "bank.db.embedding"} <= set(found)
    assert set(found.values()) == {0o600}, found


@requirement("SEC-8")
def test_an_older_bank_is_shut_when_it_is_opened(tmp_path):
    folder = tmp_path / "reasonbank"
    typed(tmp_path, *RECORD, umask=0o022)
    folder.chmod(0o755)
    for beside in ("bank.db.replies", "bank.db.other-384.index", "bank.db.embedding"):
        (folder / beside).touch()
    for file in folder.iterdir():
        file.chmod(0o644)
    typed(tmp_path, "list", umask=0o022)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert set(modes(folder).values()) == {0o600}, modes(folder)


@requirement("SEC-8")
def test_a_bank_that_is_only_read_is_shut_too_and_stays_read_only(tmp_path):
    url = f"sqlite:///{tmp_path}/bank.db"
    Bank.open(url, workspace=tmp_path).close()
    (tmp_path / "bank.db").chmod(0o444)
    with Bank.open(url, workspace=tmp_path, read_only=True):
        assert modes(tmp_path)["bank.db"] == 0o400


@requirement("SEC-8")
def test_somebodys_general_folder_keeps_its_rights(tmp_path):
    project = tmp_path / "project"
    project.mkdir(mode=0o755)
    (project / "notes.txt").write_text("not ours")
    (project / "notes.txt").chmod(0o644)
    (project / "bank.db.txt").write_text("not ours, though it sounds like it")
    (project / "bank.db.txt").chmod(0o644)
    project.chmod(0o755)
    typed(project, *RECORD, "--bank", "sqlite:///./bank.db")
    assert stat.S_IMODE(project.stat().st_mode) == 0o755
    found = modes(project)
    assert (found["notes.txt"], found["bank.db.txt"], found["bank.db"]) == (0o644, 0o644, 0o600)


@requirement("SEC-8")
def test_a_database_of_another_program_keeps_its_rights(tmp_path):
    import apsw

    db = apsw.Connection(str(tmp_path / "other.db"))
    db.execute("create table things (a)")
    db.close()
    (tmp_path / "other.db").chmod(0o644)
    with pytest.raises(StorageError, match="not a ReasonBank"):
        Bank.open(f"sqlite:///{tmp_path}/other.db", workspace=tmp_path)
    assert modes(tmp_path)["other.db"] == 0o644


@requirement("SEC-8")
def test_what_a_link_leads_to_is_left_and_doctor_says_so(tmp_path):
    there = f"sqlite:///{tmp_path}/there/bank.db"
    typed(tmp_path, *RECORD, "--bank", there)
    (tmp_path / "there/bank.db").chmod(0o644)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/bank.db").symlink_to("../there/bank.db")
    here = f"sqlite:///{tmp_path}/here/bank.db"
    checks = examined(tmp_path, here)
    assert modes(tmp_path)["there/bank.db"] == 0o644
    assert checks["private"]["status"] == "warn"
    assert "symbolic link" in checks["private"]["found"] and checks["private"]["repair"]
    typed(tmp_path, "list", "--bank", there)
    assert "private" not in examined(tmp_path, here)


@requirement("SEC-8")
def test_a_bank_behind_a_link_to_nothing_is_made_private(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "bank.db").symlink_to("there/bank.db")
    typed(tmp_path, *RECORD, "--bank", f"sqlite:///{tmp_path}/bank.db")
    assert modes(tmp_path)["there/bank.db"] == 0o600


@requirement("SEC-8")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a file away")
def test_files_of_another_user_are_left_and_doctor_says_so(tmp_path):
    bank = f"sqlite:///{tmp_path}/bank.db"
    typed(tmp_path, *RECORD, "--bank", bank)
    (tmp_path / "bank.db").chmod(0o644)
    os.chown(tmp_path / "bank.db", 12345, 12345)
    checks = examined(tmp_path, bank)
    assert "another user" in checks["private"]["found"]
    assert modes(tmp_path)["bank.db"] == 0o644


def test_a_place_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, told = command(tmp_path, "list", "--bank", f"sqlite:///{tmp_path}/file/bank.db")
    assert (code, told["error"]) == (5, "StorageError")
    assert str(Path(tmp_path, "file")) in told["message"]

"""A bank is its owner's: nobody else on the machine reads its files or calls its server."""

import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, NONE, a_token, command, environment, serving

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


# The server's owner


def token_file(folder):
    return folder / "reasonbank" / "bank.db.owner-token"


@requirement("SEC-8")
def test_a_first_start_makes_a_token_that_only_its_owner_can_read(tmp_path):
    with serving(tmp_path) as server:
        kept = token_file(tmp_path)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert kept.read_text().strip() == server.token
        [made] = command(tmp_path, "token", "list")[1]
        assert (made["name"], made["scope"], made["workspaces"]) == ("owner", "admin", None)
        assert made["id"] == server.token.split("_")[1]
        found = modes(tmp_path / "reasonbank")
        assert found.pop("bank.db.hooks") == 0o700
        assert set(found.values()) == {0o600}
    with serving(tmp_path) as again:
        assert again.token == server.token


@requirement("SEC-8")
@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/api/v1/memories"), ("POST", "/api/v1/memories"), ("POST", "/api/v1/search"),
    ("GET", "/api/v1/export"), ("GET", "/api/v1/tokens"), ("POST", "/api/v1/tokens"),
    ("POST", "/mcp"), ("GET", "/metrics"),
    ("GET", "/api/v1/nothing"), ("GET", "/api/v1/workspaces"),
])  # fmt: skip
def test_whoever_has_no_token_gets_nothing_from_loopback_either(owned, method, path):
    for headers in ({}, {"Accept": "text/html"}):
        answer = httpx2.request(method, owned.address + path, headers=headers)
        assert answer.status_code == 401
        for private in (LESSON["title"], str(owned.folder), owned.token):
            assert private not in answer.text


@requirement("SEC-8")
def test_what_is_open_tells_nothing_private(owned):
    for path in ("/livez", "/readyz", "/", "/openapi.json"):
        answer = owned.get(path, NONE)
        assert answer.status_code == 200
        for private in (LESSON["title"], str(owned.folder), owned.token, "tester"):
            assert private not in answer.text, path


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("owned")) as server:
        assert server.ask("POST", "/memories", json=LESSON).status_code == 201
        yield server


def test_the_owner_signs_as_from_the_command_line(owned):
    memory = owned.ask("POST", "/memories", json=LESSON).json()
    assert memory["author"] == "tester"


@requirement("SEC-8")
def test_a_token_whose_file_is_lost_is_revoked_and_another_one_made(tmp_path):
    with serving(tmp_path) as server:
        lost = server.token
    token_file(tmp_path).unlink()
    with serving(tmp_path) as server:
        assert server.token != lost
        assert server.ask("GET", "/memories", lost).status_code == 401
        assert server.ask("GET", "/memories").status_code == 200
    states = [token["state"] for token in command(tmp_path, "token", "list")[1]]
    assert sorted(states) == ["revoked", "valid"]


@requirement("SEC-8")
@pytest.mark.parametrize("text", ["", "nonsense", "rbk_000000000000_" + "0" * 64, "\xff\xfe"])
def test_a_file_without_a_valid_token_is_written_anew(tmp_path, text):
    command(tmp_path, *RECORD)
    token_file(tmp_path).write_text(text)
    token_file(tmp_path).chmod(0o600)
    with serving(tmp_path) as server:
        assert server.ask("GET", "/memories").status_code == 200


def test_a_token_of_somebody_who_is_called_owner_stays(tmp_path):
    theirs = a_token(tmp_path, "read", "--name", "owner")
    for _ in range(2):
        with serving(tmp_path) as server:
            assert server.ask("GET", "/memories", theirs).status_code == 200
            assert server.ask("GET", "/memories").status_code == 200
        token_file(tmp_path).unlink()


def readable(file):
    file.chmod(0o640)


def linked(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def a_pipe(file):
    file.unlink()
    os.mkfifo(file, 0o600)


def a_folder(file):
    file.unlink()
    file.mkdir(mode=0o700)


def given_away(file):
    if os.geteuid() != 0:
        pytest.skip("only root gives a file away")
    os.chown(file, 12345, 12345)


@requirement("SEC-8")
@pytest.mark.parametrize("spoil", [readable, linked, a_pipe, a_folder, given_away])
def test_a_token_that_others_may_know_is_refused(tmp_path, spoil):
    with serving(tmp_path) as server:
        pass
    spoil(token_file(tmp_path))
    code, told = command(tmp_path, "serve", "--port", 0)
    assert (code, told["error"]) == (4, "Refused")
    assert str(token_file(tmp_path)) in told["message"]
    assert server.token not in told["message"]


@requirement("SEC-8")
def test_servers_that_start_at_once_agree_on_one_token(tmp_path):
    command(tmp_path, *RECORD)
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        servers = [serving(tmp_path, "--workspace", tmp_path) for _ in range(4)]
        opened = list(pool.map(stack.enter_context, servers))
        assert len({server.token for server in opened}) == 1
        for server in opened:
            assert server.ask("GET", "/memories").status_code == 200
    assert len(command(tmp_path, "token", "list")[1]) == 1


@requirement("SEC-8")
def test_several_processes_of_one_server_have_one_token(tmp_path):
    with serving(tmp_path, "--processes", 2) as server:
        for _ in range(8):  # Each connection is given to either of the two.
            assert server.ask("GET", "/memories").status_code == 200
            assert server.ask("GET", "/memories", NONE).status_code == 401
    assert len(command(tmp_path, "token", "list")[1]) == 1


@requirement("SEC-8")
@requirement("SEC-4")
def test_the_address_to_click_is_printed_and_the_log_has_no_token(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "serve", "--port", "0"],
        env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    page = process.stdout.readline()
    process.terminate()
    rest, log = process.communicate(timeout=60)
    secret = token_file(tmp_path).read_text().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#code=[0-9a-f]{32}\n", page)
    assert secret not in rest + log and str(token_file(tmp_path)) in log
    for form in ("${REASONBANK_TOKEN}", "${env:REASONBANK_TOKEN}", '"REASONBANK_TOKEN"'):
        assert form in log


def test_the_command_needs_no_token_and_no_server(tmp_path):
    with serving(tmp_path) as server:
        id = server.ask("POST", "/memories", json=LESSON).json()["id"]
        assert command(tmp_path, "show", id)[1]["id"] == id

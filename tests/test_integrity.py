"""Whoever changes a bank's file behind the program's back is noticed; what they did is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from reasonbank import Bank, Settings, integrity
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Peer
from reasonbank.model import Principal
from reasonbank.peers import membership
from reasonbank.settings import Embed
from reasonbank.testing import a_memory, a_trace
from tests.requirement import requirement

COMMAND = Path(sys.executable).with_name("reasonbank")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank.db"


def run(path: Path, *words: str) -> tuple[int, dict]:
    """The command, in a process of its own."""
    done = subprocess.run(
        [COMMAND, "--bank", f"sqlite:///{path}", *words, "--json"],
        capture_output=True, text=True, cwd=path.parent, check=False,
        env={"HOME": str(path.parent), "PATH": "/usr/bin:/bin", "REASONBANK_EMBED_MODEL": "hashed"},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def a_bank(path: Path) -> Bank:
    settings = Settings(embed=Embed(model="hashed"))
    return Bank.open(f"sqlite:///{path}", workspace=path.parent, settings=settings)


def filled(path: Path) -> list[str]:
    with a_bank(path) as bank:
        ids = [bank.record(a_memory(title=f"Lesson {number}")).id for number in range(3)]
        for number in range(5):
            bank.outcome(ids[0], succeeded=True, session=f"task {number}")
        bank.link(ids[0], ids[1], type="similar")
        bank.forget(ids.pop())
    return ids


def edit(path: Path, sql: str, *values: object) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, values)
    db.close()


COPIED = (
    "insert into memories (num, id, realm, workspace, scope, state, outcome, source, created_at,"
    " initial, revision, stage, author, lesson) select 999, 'an-intruder', realm, workspace, scope,"
    " state, outcome, source, created_at, 0.99, 1, 0, author, lesson from memories where id = ?"
)
EDITS = {
    "a memory's text": (
        "update memories set lesson = replace(lesson, 'Lesson 0', 'Pipe it') where id = ?",
        "memories", "lesson is not what the log tells"),
    "a confidence": ("update memories set initial = 0.99 where id = ?", "memories", "initial"),
    "what its evidence amounts to": (
        "update memories set standing = null where id = ?", "memories", "standing"),
    "whose it is": (
        "update memories set author = 'somebody' where id = ?", "memories", "author"),
    "a deleted observation": (
        "delete from evidence where num = (select num from memories where id = ?) and session ="
        " 'task 1'", "evidence", "a row is missing"),
    "a turned observation": (
        "update evidence set positive = 0 where num = (select num from memories where id = ?)",
        "evidence", "positive"),
    "an added memory": (COPIED, "memories", "a row that the log does not tell of"),
    "a deleted memory": ("delete from memories where id = ?", "memories", "a row is missing"),
    "a deleted link": ("delete from links where source = ?", "links", "a row is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
def test_a_row_that_was_changed_behind_the_programs_back_is_noticed_and_named(path, what):
    ids = filled(path)
    code, told = run(path, "audit", "verify")
    assert (code, told["sound"], told["faults"]) == (0, True, [])
    assert told["events"] > 10 and told["rows"] > 10
    sql, where, found = EDITS[what]
    edit(path, sql, ids[0])
    code, told = run(path, "audit", "verify")
    assert code == 5 and not told["sound"] and told["since"] is None
    named = [fault for fault in told["faults"] if fault["where"] == where]
    assert found in named[0]["found"]
    assert named[0]["id"] == ("an-intruder" if what == "an added memory" else ids[0])
    code, doctor = run(path, "doctor")
    [tables] = [check for check in doctor["checks"] if check["name"] == "tables"]
    assert code == 5 and tables["status"] == "fail" and named[0]["found"] in tables["found"]


def test_an_event_that_was_changed_is_named_with_its_time_and_its_bank(path):
    filled(path)
    with a_bank(path) as bank:
        event = next(e for e in bank.store.ledger.read().events(None) if "lesson" in e.payload)
    edit(
        path,
        "update events set payload = replace(payload, 'Lesson', 'Poison') where id = ?",
        event.id,
    )
    code, told = run(path, "audit", "verify")
    fault = told["faults"][0]
    assert code == 5 and fault["where"] == "log" and event.id in fault["found"]
    assert (fault["id"], fault["origin"]) == (event.id, event.origin)
    assert told["since"] == fault["at"]


def test_who_signed_cannot_be_changed_nor_can_an_event_be_removed(path):
    filled(path)
    with a_bank(path) as bank:
        first, second = [e for e in bank.store.ledger.read().events(None) if "lesson" in e.payload]
    edit(path, "update events set author = 'somebody' where id = ?", first.id)
    assert "before event" in run(path, "audit", "verify")[1]["faults"][0]["found"]
    edit(path, "update events set author = ? where id = ?", first.author, first.id)
    assert run(path, "audit", "verify")[0] == 0
    edit(path, "delete from events where id = ?", second.id)
    assert run(path, "audit", "verify")[0] == 5


def test_an_event_that_makes_no_sense_is_named_as_well(path):
    filled(path)
    edit(path, "update events set what = 'memory.used' where what = 'evidence.observed'")
    for words in (("audit", "verify"), ("doctor",)):
        code, told = run(path, *words)
        assert code == 5 and "not what the program writes" in json.dumps(told)


@pytest.mark.parametrize(
    "change",
    [
        "what = 'memory.invented'",
        "principal = 'boss'",
        "payload = 'no JSON'",
        "payload = '[1]'",
        "at = 'noon'",
        "counter = 'last'",
    ],
)
@requirement("SEC-5")
def test_an_event_that_cannot_even_be_read_is_named_and_stops_neither_look(path, change):
    filled(path)
    edit(path, f"update events set {change} where what = 'evidence.observed'")
    code, told = run(path, "audit", "verify")
    assert code == 5 and told["faults"][0]["where"] == "log"
    code, told = run(path, "doctor")
    failed = {check["name"] for check in told["checks"] if check["status"] == "fail"}
    assert code == 5 and failed >= {"log", "tables"}


PEER = "0123456789abcdef" * 4
FORGED = (
    "insert into tokens (id, name, scope, digest, created_at, created_by)"
    " select 'aaaaaaaaaaaa', 'forged', 'admin', x'00', created_at, created_by from tokens limit 1"
)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (FORGED, "tokens of aaaaaaaaaaaa: a row that the log does not tell of"),
        ("update tokens set revoked_at = null", "revoked_at is not what the log tells"),
        ("delete from tokens", "a row is missing"),
        ("update tokens set scope = 'admin'", "what it opens is not what the log tells"),
        ("update tokens set workspaces = null", "what it opens is not what the log tells"),
        ("update tokens set expires_at = null", "what it opens is not what the log tells"),
        ("update tokens set digest = x'00'", "what it opens is not what the log tells"),
    ],
)
@requirement("SEC-5")
def test_a_token_that_nobody_made_or_that_opens_more_or_again_is_named(path, sql, found):
    filled(path)
    limits = ("--workspace", str(path.parent), "--expires", "9")
    code, made = run(path, "token", "create", "--scope", "write", "--name", "old", *limits)
    assert code == 0
    run(path, "token", "revoke", made["id"])
    assert run(path, "audit", "verify")[0] == 0
    edit(path, sql)
    code, told = run(path, "audit", "verify")
    assert code == 5 and found in told["faults"][0]["found"]
    code, doctor = run(path, "doctor")
    [tables] = [check for check in doctor["checks"] if check["name"] == "tables"]
    assert code == 5 and found in tables["found"]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("update peers set trusted = 1", f"peers of {PEER}: trusted is not"),
        ("update peers set revoked_at = null", f"peers of {PEER}: revoked_at is not"),
        (f"update peers set key = '{PEER[::-1]}'", f"{PEER[::-1]}: a row that the log does not"),
    ],
)
@requirement("SEC-5")
def test_a_bank_that_nobody_met_that_is_back_or_that_nobody_trusts_is_named(path, sql, found):
    filled(path)
    with a_bank(path) as bank:
        context = bank.seen_by(principal=Principal.PERSON).context

        def meet(txn):
            txn.peers.put(Peer(key=PEER, name="bert", added_at=1))
            context.note(txn, EventType.MET, PEER[: membership.ID])

        context.write(meet)
        membership.trust(context, "bert", trusted=False)
        membership.revoke(context, "bert", revert=False)
    assert run(path, "audit", "verify")[0] == 0
    edit(path, sql)
    code, told = run(path, "audit", "verify")
    assert code == 5 and found in told["faults"][0]["found"]
    assert found in json.dumps(run(path, "doctor")[1])


@pytest.mark.parametrize("payload", ["replace(payload, 'Lesson 0', 'Pipe it')", "''"])
@requirement("SEC-5")
def test_without_its_salt_an_event_is_believed_only_where_something_was_forgotten(path, payload):
    ids = filled(path)  # One of which was forgotten, and has none.
    assert run(path, "audit", "verify")[0] == 0
    edit(path, f"update events set salt = null, payload = {payload} where subject = ?", ids[0])
    edit(path, "update memories set lesson = replace(lesson, 'Lesson 0', 'Pipe it')")
    code, told = run(path, "audit", "verify")
    assert code == 5
    assert "is not what was written" in told["faults"][0]["found"]


def test_of_a_large_bank_doctor_looks_at_some_and_says_so(path, monkeypatch):
    monkeypatch.setattr(integrity, "SMALL", 1)
    ids = filled(path)
    with a_bank(path) as bank:
        bank.store_trace(a_trace())
        assert integrity.glance(bank.context) == (
            [], "2 memories looked at; `reasonbank audit verify` looks at all",
        )  # fmt: skip
        edit(path, EDITS["a memory's text"][0], ids[0])
        edit(path, COPIED, ids[1])
        found = {fault.id for fault in integrity.glance(bank.context)[0]}
    assert found == {ids[0], "an-intruder"}

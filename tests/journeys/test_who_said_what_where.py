"""A search in one process and the outcome in another, a wrong clock, a corrected report."""

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.conftest import DAY
from tests.jobs.test_schedule import run_due
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, command, environment, serving

from reasonbank import Bank, Settings
from reasonbank.model import EvidenceKind
from reasonbank.settings import Embed
from reasonbank.testing import a_memory

YEAR = 365 * DAY
UPLOAD = ("record", "--title", LESSON["title"], "--description", LESSON["description"],
          "--content", LESSON["content"], "--outcome", "success")  # fmt: skip


def outcomes(bank, id):
    return [e for e in bank.evidence(id) if e.kind is EvidenceKind.OUTCOME]


# A search here, the outcome there


@requirement("MEM-9")
def test_a_search_in_one_server_and_the_outcome_in_another_credit_the_same_memory(tmp_path):
    code, memory = command(tmp_path, *UPLOAD)
    assert code == 0, memory
    with serving(tmp_path, "--processes", 2) as server:
        for number in range(30):
            task = f"task {number}"
            # A connection of its own each: the system chooses which process gets it.
            found = server.ask("POST", "/search", json={"query": "retry uploads", "session": task})
            assert found.json()["memories"], found.text
            told = server.ask("POST", f"/sessions/{task}/outcome", json={"succeeded": True})
            assert told.json() == {"credited": 1, "held_out": False}, told.text
    code, shown = command(tmp_path, "show", memory["id"])
    credited = {e["session"] for e in shown["evidence"] if e["kind"] == "outcome"}
    assert credited == {f"task {number}" for number in range(30)}


def failed(folder, url, task, *, known):
    """The command refuses a task that nobody has heard of; a program may be ahead of its search."""
    if known:
        assert command(folder, "outcome", "--failed", "--session", task)[0] == 0
        return
    code, _ = command(folder, "outcome", "--failed", "--session", task)
    assert code == 3
    program = f"""
from reasonbank import Bank
with Bank.open({url!r}, workspace={str(folder)!r}) as bank:
    bank.credit({task!r}, succeeded=False)
"""
    subprocess.run([sys.executable, "-c", program], env=environment(folder), check=True)


@requirement("MEM-9")
@pytest.mark.parametrize("first", ["search", "outcome"])
def test_each_of_two_processes_may_come_first(tmp_path, first):
    """The library stays open and busy here; the command is another process."""
    code, memory = command(tmp_path, *UPLOAD)
    url = f"sqlite:///{tmp_path}/reasonbank/bank.db"
    settings = Settings(embed=Embed(model="hashed"))
    with Bank.open(url, workspace=tmp_path, settings=settings) as bank:
        for number in range(3):
            steps = [
                lambda task=f"task {number}": bank.search("retry uploads", session=task),
                lambda task=f"task {number}": failed(tmp_path, url, task, known=first == "search"),
            ]
            for step in steps if first == "search" else reversed(steps):
                step()
    code, shown = command(tmp_path, "show", memory["id"])
    assert code == 0
    told = [e for e in shown["evidence"] if e["kind"] == "outcome"]
    assert sorted((e["session"], e["positive"]) for e in told) == [
        (f"task {number}", False) for number in range(3)
    ]


@requirement("CON-11")
def test_the_same_report_from_two_processes_counts_once(tmp_path):
    _, memory = command(tmp_path, *UPLOAD)
    for _ in range(2):
        command(tmp_path, "search", "retry uploads", "--session", "task")
        command(tmp_path, "outcome", "--succeeded", "--session", "task")
        command(tmp_path, "feedback", memory["id"], "--helpful", "--session", "task")
    _, shown = command(tmp_path, "show", memory["id"])
    assert sorted(e["kind"] for e in shown["evidence"]) == ["explicit", "outcome", "usage"]


# Who observed it


@requirement("CON-2")
def test_a_corrected_outcome_names_whoever_corrected_it(plain_bank):
    memory = plain_bank.record(a_memory())
    anna, bert = (plain_bank.seen_by(author=name) for name in ("anna", "bert"))
    anna.outcome(memory.id, succeeded=True, session="one")
    bert.outcome(memory.id, succeeded=False, session="one")
    plain_bank.search(memory.title, session="two")
    anna.credit("two", succeeded=True)
    bert.credit("two", succeeded=False)
    told = {(e.session, e.positive, e.rater) for e in outcomes(plain_bank, memory.id)}
    assert told == {("one", False, "bert"), ("two", False, "bert")}


def test_tasks_of_one_name_in_two_projects_are_two_tasks(open_bank):
    here = open_bank(workspace=open_bank.project("here"))
    there = here.within(open_bank.project("there"))
    shared = here.record(a_memory(scope="team"))
    here.search(shared.title, session="1")
    there.search(shared.title, session="1")
    assert there.credit("1", succeeded=False) == 1
    assert outcomes(here, shared.id) == []
    assert here.credit("1", succeeded=True) == 1
    assert [[e.positive for e in outcomes(bank, shared.id)] for bank in (here, there)] == [
        [True], [False],
    ]  # fmt: skip


# A wrong clock


@pytest.fixture
def poisoned(tmp_path):
    """A bank in which somebody wrote, searched and reported with a clock a year ahead."""
    return _with_a_clock(tmp_path / "ahead" / "reasonbank", YEAR)


def _with_a_clock(folder, ahead):
    import time

    folder.mkdir(parents=True)
    settings = Settings(embed=Embed(model="hashed"), author="tester")
    clock = lambda: time.time_ns() // 1000 + ahead  # noqa: E731
    with Bank.open(f"sqlite:///{folder}/bank.db", workspace=folder.parent, settings=settings,
                   clock=clock) as bank:  # fmt: skip
        memory = bank.record(a_memory())
        bank.outcome(memory.id, succeeded=True, session="early")
    return folder.parent, memory.id


@requirement("MEM-12")
def test_what_is_written_later_is_stamped_by_the_clock_of_then(poisoned):
    folder, _ = poisoned
    command(folder, *UPLOAD)
    _, audit = command(folder, "audit")
    assert audit[0]["at"] < audit[-1]["at"], "the newest entry comes first, and is a year younger"


@requirement("MEM-12")
def test_evidence_from_the_future_counts_as_much_as_that_of_today(poisoned, tmp_path):
    folder, early = poisoned
    sound, id = _with_a_clock(tmp_path / "sound" / "reasonbank", 0)
    shown = [command(place, "show", each)[1] for place, each in ((folder, early), (sound, id))]
    assert shown[0]["confidence"] == shown[1]["confidence"]
    found = [command(place, "search", "upload")[1]["memories"] for place in (folder, sound)]
    assert found[0][0]["confidence"] == found[1][0]["confidence"]


@requirement("MEM-12")
def test_doctor_says_that_a_clock_was_wrong(poisoned):
    folder, _ = poisoned
    _, report = command(folder, "doctor")
    (clock,) = (check for check in report["checks"] if check["name"] == "clock")
    assert clock["status"] == "warn" and "365.0 days in the future" in clock["found"]


@requirement("MEM-12")
def test_a_wrong_clock_does_not_travel(poisoned, tmp_path):
    """An export is taken elsewhere, and what is written there goes on as it was."""
    folder, _ = poisoned
    code, told = command(folder, "export", folder / "log.jsonl")
    assert code == 0, told
    other = tmp_path / "other"
    code, told = command(other, "import", "--trusted", folder / "log.jsonl")
    assert code == 0 and told["new"] > 0, told
    command(other, *UPLOAD)
    code, audit = command(other, "audit", "--all")
    ahead = {entry["at"][:4] for entry in audit if entry["subject"] != audit[0]["subject"]}
    assert audit[0]["at"][:4] == min(ahead | {audit[0]["at"][:4]})


@requirement("MEM-12")
def test_what_is_due_is_due_whatever_a_wrong_clock_has_done_before(open_bank, clock):
    bank = open_bank()
    bank.record(a_memory())
    clock.advance(days=365)
    early = run_due(bank)
    assert early > 0 and run_due(bank) == 0
    clock.advance(days=-363)
    assert run_due(bank) == early


def test_an_import_from_a_bank_that_is_ahead_leaves_the_age_of_ours_alone(open_bank, clock):
    ahead = open_bank("ahead")
    clock.advance(days=20 / 24)
    ahead.record(a_memory())
    file = io.StringIO()
    ahead.export(file)
    clock.advance(days=-20 / 24)
    bank = open_bank()
    file.seek(0)
    bank.import_(file, trusted=True)
    stored = bank.record(replace(a_memory(), title="Ours"))
    assert stored.created_at.timestamp() * 1e6 == clock.now

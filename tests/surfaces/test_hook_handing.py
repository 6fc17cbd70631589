"""At the end of a turn or a session, what happened is handed over, and somebody learns from it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hook_calls import Machine, payload
from test_hook_answers import transcript
from tests.learn.transcript_writers import A, U, claude_code
from tests.requirement import requirement

from reasonbank import Bank, JobState, Source
from reasonbank.store.working import who
from reasonbank.surfaces.hooks.handing import start_worker
from reasonbank.testing import a_memory

NEXT_DAY = "the check fails: ModuleNotFoundError, No module named 'greet'"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        bank.record(a_memory())
    return machine


@pytest.fixture
def bank(machine: Machine):
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        yield bank


def handed(bank: Bank) -> list:
    return [job for job in bank.jobs() if job.kind == "transcript"]


def told(machine: Machine, event: str, path: str) -> dict:
    return payload(event, machine.project, transcript_path=path)


@pytest.mark.parametrize("event", ["turn-end", "before-compaction", "session-end"])
def test_a_transcript_is_handed_over_in_its_project(machine, bank, event):
    path = transcript(machine.project / "session.jsonl", passes=True)
    machine.heard(event, transcript_path=path)
    [job] = handed(bank)
    assert path in job.subject


@requirement("PAS-1")
def test_a_question_and_its_answer_are_kept_without_being_asked(machine, bank):
    said = [
        U("How do we deploy the web service to staging?"),
        A("Run these steps:\n1. make image, because staging only pulls tagged images.\n"
          "2. kubectl apply -f staging.yaml, which rolls the pods one after the other.\n"),
    ]  # fmt: skip
    lines = "".join(f"{line}\n" for line in claude_code("s", said))
    file = machine.project / "session.jsonl"
    file.write_text(lines.replace("/home/me/app", str(machine.project)))
    machine.heard("turn-end", transcript_path=str(file))
    bank.work()
    [kept] = [memory for memory in bank.memories() if memory.source is Source.PASSIVE]
    assert "kubectl apply" in kept.content


def test_not_where_the_settings_say_no(machine, bank):
    path = transcript(machine.project / "session.jsonl", passes=True)
    machine.extra = {"REASONBANK_HOOKS_LEARN": "false"}
    machine.heard("session-end", transcript_path=path)
    assert handed(bank) == []


def test_one_that_names_no_file_is_passed_over(machine, bank):
    machine.heard("session-end")
    assert handed(bank) == []
    assert machine.word("session-end") == "silent"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def waiting(bank: Bank) -> None:
    """Something that a worker has to do."""
    bank.distil({"task": "make it pass", "trajectory": [{"iteration": 1, "action": "ran x"}]})


def test_of_many_ends_at_once_one_worker_comes_and_ends(bank):
    waiting(bank)
    started = [worker for worker in (start_worker(bank.context) for _ in range(5)) if worker]
    assert len(started) == 1
    assert os.getpgid(started[0].pid) == started[0].pid
    assert started[0].wait() == 0
    assert {job.state for job in bank.jobs()} == {JobState.DONE}
    assert start_worker(bank.context) is None


def test_none_comes_where_a_server_learns(machine, bank):
    with machine.server():
        for _ in range(1000):
            if who(bank.context) is not None:
                break
            time.sleep(0.01)
        waiting(bank)
        assert start_worker(bank.context) is None


@requirement("DIS-8")
def test_what_failed_and_was_put_right_on_one_day_is_known_the_next(machine, bank):
    pytest.importorskip("reasonbank.jobs.reader")
    path = transcript(machine.project / "session.jsonl", passes=True)
    machine.heard("session-end", transcript_path=path)
    for _ in range(3000):
        jobs = bank.jobs()
        if jobs and all(job.state is JobState.DONE for job in jobs if job.kind != "post"):
            break
        time.sleep(0.02)
    assert "pip install -e ." in machine.heard("prompt", prompt=NEXT_DAY).text
    warned = machine.heard(
        "before-tool", tool_name="Bash", tool_input={"command": "python check.py"}
    )
    assert "pip install -e ." in warned.text

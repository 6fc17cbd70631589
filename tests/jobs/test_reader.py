"""A transcript that is handed over is read once, in the project that its session worked in."""

from __future__ import annotations

import json
import os

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.transcript_writers import C, U
from tests.requirement import requirement

from reasonbank.model import JobState
from reasonbank.store.queue import SETTLING, ended_somewhere, hand_over

MENDED = [
    U("Make the tests pass"),
    C("pytest -q", 1, "E   ModuleNotFoundError: No module named 'requests'"),
    C("pip install requests"),
    C("pytest -q", 0, "3 passed in 0.1s"),
]
MORE = [C("make", 2, "fatal error: zlib.h: No such file or directory"),
        C("apt-get install zlib1g-dev"), C("make", 0, "ok")]  # fmt: skip


@pytest.fixture
def told(open_bank, tmp_path):
    """Writes a transcript of a session in a folder, and hands it over."""

    class Told:
        bank = open_bank()
        folder = open_bank.project("app")

        def write(self, steps, name="s"):
            lines = writers.claude_code(name, steps)
            text = "".join(f"{line}\n" for line in lines).replace("/home/me/app", str(self.folder))
            file = tmp_path / f"{name}.jsonl"
            file.write_text(text)
            return file

        def hand_over(self, path, agent="claude-code", session=""):
            hand_over(self.bank.context, agent=agent, session=session, path=str(path))

        def jobs(self, kind="transcript"):
            return [job for job in self.bank.jobs() if job.kind == kind]

    return Told()


@requirement("DIS-8")
def test_what_is_handed_over_is_learned_from_in_the_project_of_its_session(told):
    told.hand_over(told.write(MENDED))
    assert [job.state for job in told.jobs()] == [JobState.WAITING]
    told.bank.work(everywhere=True)
    there = told.bank.within(told.folder)
    [trace] = there.traces()
    assert len(trace.memories_learned) == 1
    assert all(step.at is not None for step in trace.trajectory)
    assert there.search("No module named 'requests'")
    assert told.bank.traces() == []


def test_a_transcript_waits_once_and_is_read_again_when_it_has_grown(told):
    file = told.write(MENDED)
    told.hand_over(file)
    told.hand_over(file, session="s")
    assert len(told.jobs()) == 1
    told.bank.work(everywhere=True)
    there = told.bank.within(told.folder)
    first = there.traces()[0]
    told.hand_over(file)
    assert [job.state for job in told.jobs()] == [JobState.WAITING]
    told.bank.work(everywhere=True)
    assert there.traces() == [first], "nothing has changed, so nothing was stored"
    told.write(MENDED + MORE)
    told.hand_over(file)
    told.bank.work(everywhere=True)
    [trace] = there.traces()
    assert len(trace.trajectory) == len(MENDED + MORE)
    assert len(trace.memories_learned) == 2


def test_a_session_that_ends_without_saying_where_it_is_written_down_is_read_once_more(told, clock):
    """Some agents write their last steps after the end of a turn, and end without a path."""
    file, other = told.write(MENDED), told.write(MENDED, name="another")
    told.hand_over(file, session="one")
    told.hand_over(other, session="one-another")
    told.bank.work(everywhere=True)
    told.write(MENDED + MORE)
    for session in ("", "unheard of"):
        ended_somewhere(told.bank.context, agent="claude-code", session=session)
    assert {job.state for job in told.jobs()} == {JobState.DONE}
    ended_somewhere(told.bank.context, agent="claude-code", session="one")
    for _ in range(2):
        told.bank.work(everywhere=True)
        assert [job.state for job in told.jobs()].count(JobState.WAITING) == 1, "not yet"
    clock.now += SETTLING
    told.bank.work(everywhere=True)
    lengths = {len(trace.trajectory) for trace in told.bank.within(told.folder).traces()}
    assert lengths == {len(MENDED), len(MENDED + MORE)}


def test_one_that_grew_while_it_was_read_is_read_again(told, monkeypatch):
    """Whoever hands it over just then is told nothing, and need not be."""
    from reasonbank.learn.transcripts import files

    file = told.write(MENDED)
    told.hand_over(file)
    read = files.session_at

    def and_then_it_grows(transcript, **options):
        found = read(transcript, **options)
        told.write(MENDED + MORE)
        told.hand_over(file)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(files, "session_at", and_then_it_grows)
        told.bank.work(everywhere=True)
    [job] = told.jobs()
    assert job.state is JobState.WAITING
    told.hand_over(file)
    told.bank.work(everywhere=True)
    [trace] = told.bank.within(told.folder).traces()
    assert len(trace.trajectory) == len(MENDED + MORE)


def test_a_session_in_which_nothing_has_happened_yet_is_no_failure(told):
    file = told.write([])
    told.hand_over(file)
    told.bank.work(everywhere=True)
    assert [job.state for job in told.jobs()] == [JobState.DONE]


@pytest.mark.parametrize("what", ["gone", "link", "pipe", "folder", "device", "no transcript"])
def test_what_cannot_be_read_ends_with_a_reason(told, tmp_path, what):
    path = tmp_path / "transcript.jsonl"
    match what:
        case "link":
            path.symlink_to(told.write(MENDED))
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path = "/dev/zero"
        case "no transcript":
            path.write_text(json.dumps({"hello": "world"}) + "\n")
    told.hand_over(path)
    told.bank.work(everywhere=True)
    [job] = told.jobs()
    assert job.state is JobState.DEAD
    assert job.attempts == 1
    assert "transcript" in job.error
    assert told.jobs("distil") == []


def test_a_session_that_is_stored_elsewhere_is_left_there(told):
    from reasonbank.surfaces.cli.learn import session_in

    file = told.write(MENDED)
    told.bank.distil(session_in(file.read_text(), None, None))
    told.hand_over(file)
    told.bank.work(everywhere=True)
    [job] = told.jobs()
    assert "another project" in job.error


def test_a_session_too_long_to_be_kept_whole_is_learned_from_as_it_grows(told, monkeypatch):
    from reasonbank.learn.transcripts import steps

    for name, number in {"FIRST": 20, "LAST": 10, "MOST": 60}.items():
        monkeypatch.setattr(steps, name, number)
    noise = [C(f"ls {number}") for number in range(50)]
    told.hand_over(told.write([*MENDED, *noise]))
    told.bank.work(everywhere=True)
    there = told.bank.within(told.folder)
    [first] = there.traces()
    assert len(first.trajectory) == 30 and len(first.memories_learned) == 1
    told.hand_over(told.write([*MENDED, *noise, *MORE, C("ls")]))
    told.bank.work(everywhere=True)
    [trace] = there.traces()
    assert len(trace.memories_learned) == 2, "the new part, and that only"
    assert trace.metadata["steps_left_out"] == 28
    assert trace.trajectory[-1].content == "ls"

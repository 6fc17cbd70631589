"""What the real programs wrote, with hooks that put memories before their models.

Each was given “Make the check pass.” in a small project, by a scripted model; paths and long
texts of their own were taken out (tests/data/transcripts).
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.requirement import requirement

from reasonbank.learn.rules import rules
from reasonbank.learn.session import Command, Edit, Turn, of_trace, to_trace
from reasonbank.learn.transcripts import FORMATS, files, known_by
from reasonbank.learn.transcripts.lines import objects
from reasonbank.model import Outcome
from reasonbank.store.queue import Transcript

REAL = Path(__file__).parent.parent / "data" / "transcripts"
AGENTS = [*FORMATS, "opencode"]
MEMORY = "01a1e333-208e-76f5-88d0-467ee0781da0"
"""What the hooks showed."""


def real(agent: str, folder: Path) -> Transcript:
    """The transcript of an agent, where it would be."""
    if agent == "opencode":
        path = folder / "opencode.db"
        if not path.exists():
            with sqlite3.connect(path) as db:
                db.executescript((REAL / "opencode.sql").read_text())
            db.close()
        return Transcript(agent=agent, session="ses_e1ca8b07affesTPRhFGhCnAHzk", path=str(path))
    path = folder / f"{agent}.jsonl"
    shutil.copy(REAL / f"{agent}.jsonl", path)
    return Transcript(agent="", session="", path=str(path))


@requirement("DIS-8")
@pytest.mark.parametrize("agent", AGENTS)
def test_what_each_agent_wrote_is_read_as_what_it_did(agent, tmp_path):
    session, _ = files.session_at(real(agent, tmp_path))
    assert session.agent == agent
    assert session.task.strip('"') == "Make the check pass."
    assert session.directory == "/home/me/app"
    told = [(type(e).__name__, getattr(e, "exit_code", None)) for e in session.entries]
    assert told == [
        ("Turn", None), ("Turn", None), ("Command", 1), ("Turn", None), ("Edit", None),
        ("Turn", None), ("Command", 0), ("Turn", None),
    ]  # fmt: skip
    failed, edit, passed = (e for e in session.entries if not isinstance(e, Turn))
    assert isinstance(failed, Command) and isinstance(passed, Command) and isinstance(edit, Edit)
    assert failed.command == passed.command == "python3 check.py"
    assert failed.output.rstrip().endswith("ModuleNotFoundError: No module named 'greet'")
    assert passed.output.strip() == "1 passed"
    assert edit.path.endswith("greet.py") and "def hello()" in edit.change
    times = [entry.at for entry in session.entries]
    assert None not in times and times == sorted(times)


@pytest.mark.parametrize("agent", AGENTS)
def test_what_hooks_put_before_the_model_is_known_and_not_learned_from(agent, tmp_path):
    session, _ = files.session_at(real(agent, tmp_path))
    assert "INJECTED" not in str(session)
    if agent != "opencode":  # It has no hooks, and no plugin was there.
        assert session.shown == (MEMORY,)


@requirement("MEM-7")
@pytest.mark.parametrize("agent", AGENTS)
def test_a_lesson_is_found_in_each_of_them(agent, tmp_path):
    session, _ = files.session_at(real(agent, tmp_path))
    trace = to_trace(session, Outcome.SUCCESS)
    assert [step.at for step in trace.trajectory] == [entry.at for entry in session.entries]
    found = rules.findings(of_trace(trace), outcome=Outcome.SUCCESS)
    assert any("greet" in str(finding.memory) for finding in found)


@pytest.mark.parametrize("agent", FORMATS)
@pytest.mark.parametrize("lines", [1, 2, 3, 5, 8, 50])
def test_no_transcript_is_taken_for_that_of_another_agent(agent, lines):
    text = (REAL / f"{agent}.jsonl").read_text().split("\n")
    assert known_by(list(objects(text[:lines]))) in (agent, None)
    assert known_by(list(objects(text[:50]))) == agent

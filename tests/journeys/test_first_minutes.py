"""A stranger's first minutes: an empty directory, no network, no key, only the command."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement

from reasonbank.embed.minilm import MiniLM

COMMAND = str(Path(sys.executable).with_name("reasonbank"))


def offline():
    """How to run something without any network, where the system lets us."""
    without = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and not subprocess.run([*without, "true"], check=False).returncode:
        return without
    return []


@pytest.fixture(scope="module")
def prefix():
    return offline()


@pytest.fixture
def run(tmp_path, prefix):
    """Runs the command as a stranger would, in a home that has never seen it."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    known = ("PATH", "LANG", "SYSTEMROOT", "PYTHONPATH")
    environment = {name: os.environ[name] for name in known if name in os.environ}
    environment |= {"HOME": str(home), "COLUMNS": "160"}

    def run(*arguments):
        done = subprocess.run(
            [*prefix, COMMAND, *arguments], cwd=project, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    run.project = project
    run.home = home
    return run


@requirement("RET-1")
def test_record_search_rate_report_look_back_undo_and_take_it_home(run):
    lessons = [
        ("Add an index before blaming the ORM", "When a database query is slow",
         "EXPLAIN shows a sequential scan; an index on the filtered column fixes it."),
        ("Freeze time in tests", "When a test fails only around midnight",
         "Pass the clock in as an argument; never call now() inside."),
    ]  # fmt: skip
    ids = []
    for title, description, content in lessons:
        said = run("--json", "record", "--title", title, "--description", description,
                   "--content", content, "--outcome", "success")  # fmt: skip
        ids.append(json.loads(said)["id"])

    answer = json.loads(run("search", "SQL lookups take ages", "--session", "s1", "--json"))
    assert [hit["id"] for hit in answer["memories"]] == ids[:1]
    assert (answer["embedder"], answer["degraded"]) == (MiniLM.name, False)
    shown = run("search", "our unit tests break when the date changes")
    assert "1. ✓ Freeze time in tests" in shown
    assert re.search(r"(\d) of \1 found", shown)  # What is near, but not sure, may come after it.

    before = json.loads(run("show", ids[0], "--json"))["confidence"]
    rated = json.loads(run("feedback", ids[0], "--helpful", "--json"))
    assert 0.8 < before < rated["confidence"]  # It had been found, too.
    credited = json.loads(run("outcome", "--succeeded", "--session", "s1", "--json"))
    assert credited == {"credited": 1, "held_out": False}
    before = json.loads(run("show", ids[1], "--json"))["confidence"]
    failed = json.loads(run("outcome", ids[1], "--failed", "--json"))
    assert failed["confidence"] < before

    run("update", ids[1], "--title", "Freeze the clock in tests")
    assert "revised" in run("history", ids[1])
    assert "Freeze time in tests" in run("undo", ids[1])
    assert json.loads(run("show", ids[1], "--json"))["title"] == "Freeze time in tests"

    run("export", "lessons.md")
    assert lessons[0][2] in (run.project / "lessons.md").read_text()
    assert "✓" in run("doctor")
    assert sorted(p.name for p in run.project.iterdir()) == ["lessons.md"]
    assert (run.home / ".local/share/reasonbank/bank.db").exists() or sys.platform != "linux"


def test_the_library_does_the_same_in_a_few_lines(tmp_path, prefix):
    code = """
from reasonbank import Bank, Memory, Outcome

with Bank.open("sqlite:///bank.db") as bank:
    memory = bank.record(Memory(
        title="Add an index before blaming the ORM",
        description="When a database query is slow",
        content="EXPLAIN shows a sequential scan; an index on the filtered column fixes it.",
        outcome=Outcome.SUCCESS,
    ))
    hits = bank.search("SQL lookups take ages", limit=5)
    print(hits[0].memory.format_for_prompt())
    after = bank.outcome(hits[0].memory.id, succeeded=True)
    assert after.confidence > memory.confidence
"""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "| Title: Add an index before blaming the ORM" in done.stdout
    assert (tmp_path / "bank.db").exists()

"""Other memories and a folder of Markdown at the door: real commands, default settings."""

import json
import os
import subprocess
import sys
import threading

import pytest
from tests.learn.test_bring import MAKERS

QUESTIONS = {
    "memory-json": ("network blinks", "uploader: Needs a retry when the network blinks"),
    "basic-memory": ("which coffee method gives clarity", "Coffee Brewing"),
    "mcp-memory-service": ("port of the staging database",
                           "The staging database listens on port 5432"),
    "mem0": ("meetings or async communication", "Prefers async communication to meetings"),
    "instructions": ("what to do before a commit", "Run `make test` before every commit"),
}  # fmt: skip


class Desk:
    def __init__(self, home):
        self.project = home / "project"
        self.project.mkdir(parents=True)
        kept = {n: os.environ[n] for n in ("PATH", "PYTHONPATH") if n in os.environ}
        self.environment = kept | {"HOME": str(home), "COLUMNS": "100"}

    def start(self, *words, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", *map(str, words)], text=True,
            cwd=self.project, env=self.environment, stdout=subprocess.PIPE, **options,
        )  # fmt: skip

    def run(self, *words, rc=0):
        with self.start(*words, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            out, err = process.communicate()
        assert process.returncode == rc, (out, err)
        assert "Traceback" not in err
        return out + err

    def json(self, *words, rc=0):
        return json.loads(self.run(*words, "--json", rc=rc))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "home")


@pytest.mark.parametrize("format", MAKERS)
def test_what_you_have_is_looked_at_taken_once_and_found(desk, tmp_path, format):
    path = MAKERS[format](tmp_path)
    question, title = QUESTIONS[format]
    shown = desk.run("import", "--from", format, path, "--dry-run")
    assert "Would take" in shown and "left out" in shown
    taken = desk.json("import", "--from", format, path)
    assert taken["new"] == len(taken["memories"]) >= 2
    assert desk.json("search", question)["memories"][0]["title"] == title
    again = desk.run("import", "--from", format, path)
    assert f"Took 0 memories from {format}, {taken['new']} known already" in again


def test_all_that_was_taken_is_taken_back_with_the_command_that_is_shown(desk, tmp_path):
    told = desk.run("import", "--from", "mem0", MAKERS["mem0"](tmp_path))
    command = told.strip().splitlines()[-1].partition("reasonbank ")[2]
    desk.run(*command.split())
    assert desk.json("list") == []


def test_a_mistake_says_what_is_wrong_and_takes_nothing(desk, tmp_path):
    (tmp_path / "page.html").write_text("<html>")
    told = desk.run("import", "--from", "mem0", tmp_path / "page.html", rc=2)
    assert "is not JSON" in told
    assert "no such file" in desk.run("import", "--from", "mcp-memory-service", "none.db", rc=2)
    assert "needs --from" in desk.run("import", "x", "--dry-run", rc=2)
    assert "Invalid value for '--from'" in desk.run("import", "--from", "others", "x", rc=2)
    assert "Is a directory" in desk.run("import", tmp_path, rc=2)
    assert desk.json("list") == []


def test_a_folder_and_the_bank_keep_in_step_from_process_to_process(desk):
    id = desk.json("remember", "Retry uploads with pauses when the network blinks.")["id"]
    assert "written" in desk.run("mirror", "notes")
    (file,) = (desk.project / "notes").glob("*.md")
    file.write_text(file.read_text().replace("with pauses", "with ever longer pauses"))
    (desk.project / "notes" / "friday.md").write_text("Never deploy on a Friday.")
    steps = desk.json("mirror", "notes")["steps"]
    assert [step["what"] for step in steps] == ["recorded", "revised"]
    assert "ever longer" in desk.json("show", id)["content"]
    assert "deploy on a Friday" in desk.run("search", "may I deploy on a Friday")
    assert "nothing to do" in desk.run("mirror", "notes")
    file.write_text(file.read_text().replace("ever longer", "much longer"))
    desk.run("update", id, "--content", "Ask the server how long to wait.")
    told = desk.run("mirror", "notes")
    assert "conflict" in told and "both changed content" in told
    assert "no mirror wrote" in desk.run("mirror", ".", rc=4)


def test_a_watch_takes_over_what_is_saved_and_shows_what_others_record(desk):
    desk.run("remember", "Retry uploads with pauses when the network blinks.")
    with desk.start("mirror", "notes", "--watch") as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        lines = iter(process.stdout.readline, "")
        assert next(lines).startswith("written")
        next(lines)
        (file,) = (desk.project / "notes").glob("*.md")
        file.write_text(file.read_text().replace("with pauses", "with ever longer pauses"))
        assert next(lines).startswith("revised")
        next(lines)
        desk.run("remember", "Never deploy on a Friday.")
        assert next(lines).startswith("written   never-deploy-on-a-friday")
        process.terminate()
        watchdog.cancel()

"""Nobody says whether a memory helped: what ran after it was given does, at the command line."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

COMMAND = str(Path(sys.executable).with_name("reasonbank"))
LESSON = "Run npm ci before npm run build: the lockfile decides which modules there are."
GREEN = C("npm run build", 0, "built in 2s")
RED = C("npm run build", 1, "npm ERR! code ELIFECYCLE\nnpm ERR! the build is broken")


class Door:
    """The documented commands, each a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        known = ("PATH", "LANG", "PYTHONPATH")
        self.environment = {name: os.environ[name] for name in known if name in os.environ}
        self.environment |= {"HOME": str(folder), "COLUMNS": "300"}

    def __call__(self, *arguments):
        done = subprocess.run(
            [COMMAND, *arguments, "--workspace", str(self.folder)], cwd=self.folder,
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def remember(self, text):
        return json.loads(self("remember", text, "--json"))["id"]

    def confidence(self, id):
        return json.loads(self("show", id, "--json"))["confidence"]

    def outcomes(self, id):
        evidence = json.loads(self("show", id, "--json"))["evidence"]
        return [(e["positive"], e["rater"]) for e in evidence if e["kind"] == "outcome"]

    def learn(self, name, *steps):
        """A session of Claude Code, the last second of which is now."""
        lines = [json.loads(line) for line in writers.claude_code(name, steps)]
        now = datetime.now(UTC)
        for back, line in enumerate(reversed(lines)):
            line["timestamp"] = (now + timedelta(minutes=1, seconds=-back / 100)).isoformat()
        (self.folder / "session.jsonl").write_text("\n".join(map(json.dumps, lines)))
        return self("distil", "session.jsonl", "--now")

    def give(self, name, question):
        return self("inject", question, "--session", session_of(name))


def session_of(name):
    return json.loads(writers.claude_code(name, [U("-")])[-1])["sessionId"]


@pytest.fixture
def door(tmp_path):
    return Door(tmp_path)


@requirement("CON-2")
def test_a_build_that_passes_raises_what_was_given_and_one_that_fails_lowers_it(door):
    id = door.remember(LESSON)
    question = "npm run build says that modules are missing"
    assert "npm ci" in door.give("good", question)
    before = door.confidence(id)
    door.learn("good", U("build the web part"), E("web/a.ts"), C("npm ci"), GREEN, A("Done."))
    raised = door.confidence(id)
    assert raised > before and door.outcomes(id) == [(True, "a build or a linter")]
    door.give("bad", question)
    before = door.confidence(id)
    steps = [U("build the web part"), E("web/a.ts"), C("npm ci"), RED, A("It is broken.")]
    door.learn("bad", *steps)
    lowered = door.confidence(id)
    assert lowered < before
    # Handed over again, and grown: the same session counts once, and corrects itself.
    door.learn("bad", *steps)
    assert door.confidence(id) == lowered
    door.learn("bad", *steps, U("look at a.ts once more"), E("web/a.ts", "2"), GREEN, A("Done."))
    assert door.confidence(id) > before
    assert [positive for positive, _ in door.outcomes(id)] == [True, True]


def test_what_was_said_of_the_memory_stands(door):
    id = door.remember(LESSON)
    door.give("told", "npm run build says that modules are missing")
    door("outcome", id, "--failed", "--session", session_of("told"))
    door.learn("told", U("build the web part"), E("web/a.ts"), C("npm ci"), GREEN, A("Done."))
    assert [positive for positive, _ in door.outcomes(id)] == [False]


@requirement("PRV-3")
def test_a_mistake_that_comes_again_is_in_the_report(door):
    broken = C("npm run build", 127, "sh: 1: vite: not found")
    mended = [U("build the web part"), broken, C("npm ci"), GREEN, A("Done.")]
    assert "Learned 1 memory" in door.learn("first", *mended)
    door.learn("second", *mended)
    assert "vite" in door.give("third", "npm run build: vite: not found")
    door.learn("third", U("build the web part"), C("npm ci"), GREEN, A("Done."))
    found = json.loads(door("report", "--json"))["repeated_mistakes"]["in_sessions"]
    assert (found["again"], found["although_shown"], found["avoided"]) == (1, 0, 1)

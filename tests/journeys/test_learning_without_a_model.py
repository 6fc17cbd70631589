"""Sessions are handed in at the command line, and other processes find what they taught."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.held_out_sessions import FRESH, HELD_OUT
from tests.learn.plain_sessions import NOTHING_SEEN, SEEN
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

COMMAND = str(Path(sys.executable).with_name("reasonbank"))


@pytest.fixture
def run(tmp_path):
    known = ("PATH", "LANG", "PYTHONPATH")
    environment = {name: os.environ[name] for name in known if name in os.environ}
    environment |= {"HOME": str(tmp_path), "COLUMNS": "300"}

    def run(*arguments):
        done = subprocess.run(
            [COMMAND, *arguments], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def learn(name, steps, *options, write=writers.claude_code):
        (tmp_path / "session.jsonl").write_text("\n".join(write(name, steps)))
        return run("distil", "session.jsonl", "--now", "--workspace", str(tmp_path), *options)

    run.learn = learn
    run.found = lambda question: json.loads(run("search", question, "--json"))["memories"]
    return run


@requirement("DIS-9")
def test_what_was_put_right_in_many_trades_is_found_by_what_went_wrong(run):
    sessions = {
        "npm ci": (SEEN, "vite: not found in npm run build"),
        "git pull rebase": (SEEN, "git push was rejected: fetch first"),
        "kubectl context": (SEEN, "deployments.apps is forbidden: cannot create resource"),
        "stash first": (HELD_OUT, "local changes would be overwritten by merge"),
        "mkcert": (FRESH, "ENOENT certs/localhost.pem"),
    }
    for number, (name, (corpus, _)) in enumerate(sessions.items()):
        write = (writers.claude_code, writers.codex)[number % 2]
        assert "Learned 1 memory" in run.learn(name, corpus[name].steps, write=write)
    for name, (corpus, question) in sessions.items():
        best = run.found(question)[0]
        assert corpus[name].remedy in best["content"], question
        assert best["agent"] in ("claude-code", "codex") and best["difficulty"] == "simple"


@requirement("DIS-6")
def test_only_what_is_known_is_said_to_be_known(run):
    nothing = run.learn("flaky", NOTHING_SEEN["flaky"])
    assert "teaches nothing: 1 command failed, and nothing that was changed made it pass" in nothing
    nothing = run.learn("fine", NOTHING_SEEN["all is well"])
    assert "teaches nothing: no command failed and then passed" in nothing
    assert "no correction by the user" in nothing and "known already" not in nothing
    run.learn("first", SEEN["npm ci"].steps)
    again = run.learn("second", SEEN["npm ci"].steps)
    assert "teaches nothing that is not known already: Run `npm ci` when" in again


@requirement("DIS-3")
def test_what_ran_and_what_the_caller_says_decide_how_a_session_ended(run):
    def ended(name, steps, *options):
        id = json.loads(run.learn(name, steps, *options, "--json"))["subject"]
        return json.loads(run("trace", "show", id, "--json"))

    work = [U("do it"), E("a.py", "x = 1")]
    passed = C("pytest", 0, "=== 3 passed in 0.1s ===")
    tests = ended("tests", [*work, C("pytest", 1, "=== 1 failed in 0.1s ==="), A("All is well!")])
    assert (tests["outcome"], tests["metadata"]["judged"]["by"]) == ("failure", "tests")
    revert = ended("revert", [*work, passed, C("git checkout a.py", 0)])
    assert (revert["outcome"], revert["metadata"]["judged"]["by"]) == ("failure", "a git revert")
    code = ended("code", [U("deploy"), C("helm upgrade web .", 1, "Error: no"), A("Deployed.")])
    assert (code["outcome"], code["metadata"]["judged"]["by"]) == ("failure", "an exit code")
    told = ended("told", [*work, passed], "--outcome", "failure")
    assert told["outcome"] == "failure"

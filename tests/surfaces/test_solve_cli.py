"""`reasonbank solve`: over real HTTP to a scripted model, as a command and as a process."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.agent.player import LESSON, Player
from tests.agent.served import served
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.llm.scripted import Slow
from reasonbank.model import Outcome
from reasonbank.surfaces import cli
from reasonbank.testing.builders import a_memory

COMMAND = str(Path(sys.executable).with_name("reasonbank"))
TASK = "Write a function that adds up a list"


@pytest.fixture
def place(tmp_path):
    return {
        "REASONBANK_URL": f"sqlite:///{tmp_path}/bank.db",
        "REASONBANK_EMBED_MODEL": "hashed",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "COLUMNS": "120",
    }


def run(place, *arguments, code=0):
    result = CliRunner().invoke(cli.main, ["solve", *arguments], env=place)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def stored(place):
    with Bank.open(place["REASONBANK_URL"], workspace=os.getcwd()) as bank:
        return bank.traces()


def test_the_solution_is_the_output_and_the_rest_is_beside_it(place):
    with served(Player("abcdefg", scores={"b": 0.9}, lessons=[LESSON])) as model:
        done = run(place | model, TASK, "--k", "3")
    assert done.stdout == "b\n"
    assert "success, score 0.90, after 3 attempts" in done.stderr
    assert "1 learned" in done.stderr
    assert [trace.outcome for trace in stored(place)] == [Outcome.SUCCESS]


def test_json_has_everything(place):
    with served(Player("abc", scores={"a": 0.9})) as model:
        told = json.loads(
            run(place | model, TASK, "--mode", "off", "--no-store", "--no-memory", "--json").stdout
        )
    assert (told["solution"], told["outcome"], told["trace_id"]) == ("a", "success", None)
    assert told["tokens"]["input"] > told["tokens"]["output"] > 0
    assert stored(place) == []


@requirement("AGT-2")
def test_a_verifier_of_the_settings_is_run(place):
    checker = f"{sys.executable} -c 'import solution; assert solution.x == 2'"
    solutions = ["```python\nx = 1\n```", "```python\nx = 2\n```"]
    verify = {"REASONBANK_VERIFY_CHECK": checker, "REASONBANK_SANDBOX_NETWORK": "allow"}
    with served(Player(solutions)) as model:
        done = run(place | model | verify, TASK, "--mode", "off", "--verify", "check")
    assert "x = 2" in done.stdout and "success" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["", "--mode", "off"], 2, "task"),
        ([TASK, "--k", "0"], 2, "k: 0"),
        ([TASK, "--k", "100"], 2, "k: 100"),
        ([TASK, "--mode", "turbo"], 2, "turbo"),
        ([TASK, "--verify", "sh"], 2, "is not a verifier"),
        ([TASK, "--budget", "10"], 7, "before there was any attempt"),
    ],
)
def test_what_is_wrong_is_said_by_name(place, arguments, code, said):
    player = Player()
    with served(player) as model:
        assert said in run(place | model, *arguments, code=code).stderr
    assert player.calls == []


def test_without_a_model_it_says_how_to_name_one(place):
    assert "llm.provider" in run(place, TASK, code=2).stderr


def test_an_exhausted_budget_still_shows_the_best_attempt(place):
    player = Player(lambda call: f"try {len(player.calls)} " + "x" * 8000)
    arguments = [TASK, "--mode", "off", "--iterations", "10", "--budget", "6500"]
    with served(player) as model:
        done = run(place | model, *arguments, code=7)
        assert done.stdout.startswith("try ")
        told = json.loads(run(place | model, *arguments, "--json", code=7).stdout)
    assert told["error"] == "BudgetExhausted" and told["best"]["solution"].startswith("try ")


@requirement("AGT-11")
def test_attempts_are_shown_live_where_somebody_watches(place):
    far, near = pty.openpty()
    seen = bytearray()

    def watch():
        with suppress(OSError):  # What a terminal says when nobody writes any more.
            while part := os.read(far, 65_536):
                seen.extend(part)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with served(Player("abcdefg", scores={"b": 0.9})) as model:
        done = subprocess.run(
            [COMMAND, "solve", TASK, "--k", "3"],
            env=place | model, stdout=subprocess.PIPE, stderr=near, check=True,
        )  # fmt: skip
    os.close(near)
    watcher.join()
    os.close(far)
    drawn = seen.decode()
    assert done.stdout == b"b\n"
    assert "attempt" in drawn and "0.90" in drawn and "━" in drawn


@requirement("AGT-11")
def test_interrupted_it_ends_and_the_bank_is_whole(place):
    waiting, go = threading.Event(), threading.Event()

    async def hang(_):
        waiting.set()
        go.wait(30)

    player = Player(
        lambda call: "a" if not player.asked("evaluate") else Slow(seconds=1, reply="b")
    )
    player._sleep = hang
    with served(player) as model:
        process = subprocess.Popen(
            [COMMAND, "solve", TASK, "--mode", "off"],
            env=place | model | {"PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert waiting.wait(60)
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # It says where it hangs.
            pytest.fail(process.communicate()[1].decode())
        go.set()
    assert process.returncode == 1
    [trace] = stored(place)
    assert trace.outcome is None and trace.metadata["ended"] == "cancelled"
    assert [step.action for step in trace.trajectory] == ["think", "evaluate"]


@requirement("MEM-7")
def test_a_trace_tells_all_of_how_a_task_was_solved(place):
    def shown(id):
        done = CliRunner().invoke(cli.main, ["--json", "trace", "show", id], env=place)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    place |= {"REASONBANK_LLM_EFFORT": "low"}
    with Bank.open(place["REASONBANK_URL"], workspace=os.getcwd()) as bank:
        known = bank.record(a_memory(title=TASK, description=TASK, content=TASK, difficulty="easy"))
    with served(Player("abcdefg", scores={"b": 0.9}, lessons=[LESSON])) as model:
        first = json.loads(run(place | model, TASK, "--k", "3", "--json").stdout)
        said = ("--effort", "high", "--difficulty", "complex", "--mode", "adaptive")
        parent = ("--parent", first["trace_id"])
        second = json.loads(run(place | model, TASK, *said, *parent, "--json").stdout)
    told = shown(first["trace_id"])
    assert told["task"] == TASK and told["outcome"] == "success" and told["final_score"] == 0.9
    assert {"iteration", "action", "at"} <= told["trajectory"][0].keys()
    # Three ask at once: whose answer is the best hangs on who was first.
    judged = [step for step in told["trajectory"] if step["action"] == "evaluate"]
    assert sorted(step["score"] for step in judged) == [0.5, 0.5, 0.9]
    assert all(step["feedback"] for step in judged)
    assert told["memories_used"] == [known.id] and len(told["memories_learned"]) == 1
    facts = told["metadata"]
    assert facts["model"].startswith("player at http:")
    assert (facts["reasoning_effort"], facts["difficulty"]) == ("low", "simple")
    assert (facts["matts_mode"], facts["matts_k"], facts["total_iterations"]) == ("parallel", 3, 1)
    assert facts["total_tokens"] == sum(first["tokens"].values()) > 0
    assert facts["workspace_id"]
    told = shown(second["trace_id"])
    facts = told["metadata"]
    assert told["parent"] == first["trace_id"]
    assert (facts["reasoning_effort"], facts["difficulty"]) == ("high", "complex")
    assert facts["matts_mode"] == "adaptive"

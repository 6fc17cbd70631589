"""What somebody lives through with a real agent, wired by `reasonbank install`, over some days."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from tests.agents.box import TESTS, Box, namespace
from tests.agents.calls import Step, memory, shell, write
from tests.requirement import requirement

from reasonbank.surfaces.agents import AGENTS, Event
from reasonbank.surfaces.hooks.formats import READ

# Where no namespace may be made, the summary says so.
pytestmark = pytest.mark.filterwarnings("default::tests.agents.box.Unboxed")

PASSES = "def hello():\n    return 'hello'\n"
DEPLOY = "sh deploy.sh production"
REFUSES = "echo 'ConnectionRefusedError: port 7777 is closed' >&2\nexit 3\n"


def fixing(project):
    """The tests fail, a module is written, the tests pass."""
    return [
        Step("I run the tests.", [shell(TESTS)]),
        Step("A module is missing; I write it.", [write(f"{project}/greet.py", PASSES)]),
        Step("Again.", [shell(TESTS)]),
        Step("The tests pass now."),
    ]


def following(project):
    """The same is done as before, and the tests fail all the same, with another error."""
    return [
        Step("I run the tests.", [shell(TESTS)]),
        Step("I write the module as before.", [write(f"{project}/greet.py", PASSES)]),
        Step("Again.", [shell(TESTS)]),
        Step("I give up: it still fails."),
    ]


def learned(box, project=None):
    """What the bank holds once nothing waits any more: a moment after the end of a session, its
    transcript is looked at for the last time."""
    for _ in range(100):
        box.reasonbank("worker", "--until-empty", project=project)
        jobs = json.loads(box.reasonbank("--json", "queue", "list", project=project))
        if all(job["state"] == "done" for job in jobs if job["kind"] == "transcript"):
            break
        time.sleep(0.5)
    memories: list = json.loads(box.reasonbank("--json", "list", project=project))
    return memories


def reads(box, event):
    """Whether this agent's model reads what is said then."""
    agent = next(each for each in AGENTS if each.name == box.program.name)
    return event in agent.events.values() and event in READ[agent.name]


def timely(box, prompt, steps, event, project=None):
    """A run in which the hook was in time: on a busy machine it may not be, and says nothing."""
    for _ in range(3):
        ((project or box.project()) / "greet.py").unlink(missing_ok=True)
        run = box.run(prompt, steps, project=project)
        if not box.was_late(event):
            return run
    raise AssertionError(f"three times the hook at {event} was late")


@pytest.fixture
def wired(box):
    box.reasonbank("install", box.program.name)
    return box


@requirement("MCP-5")
def test_the_tools_are_there_in_the_first_request_and_may_be_called_with_nobody_to_ask(wired):
    steps = [
        Step("I record.", [memory("record", title="the tests need greet", outcome="success",
                                  description="When the tests fail", content="Add greet.py.")]),
        Step("I search.", [memory("search", query="the tests fail", session_id="s1")]),
        Step("I report.", [memory("outcome", memory_id="@ID@", succeeded=True, session_id="s1")]),
        Step("Done."),
    ]  # fmt: skip
    run = wired.run("Learn.", steps, free=False)
    assert run.code == 0, run.err
    assert run.offers("memory_search") and run.offers("memory_record")
    assert run.offers("memory_outcome")
    [kept] = learned(wired)
    assert (kept["title"], kept["usage_count"]) == ("the tests need greet", 1)
    assert kept["confidence"] > 0.8


@requirement("DIS-8")
def test_what_was_learned_on_day_one_is_there_on_day_two_before_the_model_says_a_word(wired):
    project = wired.project()
    one = wired.run("Make the tests pass.", fixing(project))
    assert one.code == 0, one.err
    [lesson] = learned(wired)
    assert "greet" in lesson["content"]

    similar = "The tests fail: a module is missing. Make them pass."
    two = timely(wired, similar, fixing(project), Event.PROMPT)
    assert two.code == 0, two.err
    assert lesson["id"] in two.asked(0)

    # It was shown, and then the tests passed: that speaks for it.
    [again] = [each for each in learned(wired) if each["id"] == lesson["id"]]
    assert again["confidence"] > lesson["confidence"]

    # It was shown and followed, and the tests failed: that speaks against it.
    tests = project / "test_greet.py"
    tests.write_text(tests.read_text().replace('"hello")', '"good morning")'))
    three = timely(wired, similar, following(project), Event.PROMPT)
    assert three.code == 0 and lesson["id"] in three.asked(0)
    [at_last] = [each for each in learned(wired) if each["id"] == lesson["id"]]
    assert at_last["confidence"] < again["confidence"]

    elsewhere = wired.project("elsewhere")
    other = timely(wired, similar, fixing(elsewhere), Event.PROMPT, project=elsewhere)
    assert other.code == 0
    assert all(lesson["id"] not in other.asked(at) for at in range(len(other.requests)))


def test_a_command_that_failed_before_is_not_run_again_without_a_warning(wired):
    project = wired.project()
    (project / "deploy.sh").write_text(REFUSES)
    wired.reasonbank(
        "record", "--title", "Deploying fails while the tunnel is closed",
        "--description", f"When `{DEPLOY}` is run", "--content", "Open the tunnel before.",
        "--outcome", "failure", "--error-type", "ConnectionRefusedError",
        "--failure-pattern", "ConnectionRefusedError: port 7777 is closed",
        "--guidance", "Open the tunnel: sh tunnel.sh",
    )  # fmt: skip
    [warning] = json.loads(wired.reasonbank("--json", "list"))
    steps = [Step("I do it.", [shell(DEPLOY)]), Step("It failed.")]
    last = Event.BEFORE_TOOL if reads(wired, Event.BEFORE_TOOL) else Event.AFTER_TOOL
    run = timely(wired, "Say good morning.", steps, last)
    assert run.code == 0, run.err
    assert warning["id"] not in run.asked(0)
    assert warning["id"] in run.asked(1)
    if last is Event.BEFORE_TOOL:
        assert "failed before" in run.asked(1)


def test_an_agent_that_may_be_asked_is_asked_once_and_only_if_there_was_something_to_learn(wired):
    if wired.program.name in ("opencode", "copilot-cli"):
        pytest.skip("it ends as soon as it is idle, or writes down too late what happened")
    settings = wired.home / ".config/reasonbank/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[hooks]\nask = true\n")
    lesson = {"title": "check.py needs greet", "outcome": "success", "content": "Write greet.py.",
              "description": "When the tests miss a module"}  # fmt: skip
    recording = [Step("I record it.", [memory("record", **lesson)]), Step("Done.")]

    def asked(run):
        """Claude Code quotes it twice; whoever is asked twice answers twice."""
        return "something failed in this session and was put right" in run.asked(-1)

    project = wired.project()
    taught = timely(wired, "Make the tests pass.", [*fixing(project), *recording], Event.TURN_END)
    assert (taught.code, asked(taught)) == (0, True), taught.err
    assert len(taught.requests) == len(fixing(project)) + len(recording)
    assert lesson["title"] in [each["title"] for each in learned(wired)]

    idle = timely(wired, "Say good morning.", [Step("Good morning.")], Event.TURN_END)
    assert (idle.code, asked(idle)) == (0, False)


@pytest.fixture(scope="module")
def untouched(program, tmp_path_factory):
    """How a session goes without ReasonBank: how often the model is asked."""
    box = Box(program, tmp_path_factory.mktemp(f"untouched-{program.name}"))
    run = box.run("Make the tests pass.", fixing(box.project()))
    assert run.code == 0, run.err
    return len(run.requests)


SERVE = [str(Path(sys.executable).parent / "reasonbank"), "serve"]
TROUBLE = {
    "the disk is full": {"full": (".local/share/reasonbank", ".local/state/reasonbank")},
    "the server hangs": {"beside": [SERVE], "stopped": True},
    "the server was killed": {"beside": [SERVE], "killed": True},
}


@requirement("CLI-3")
@pytest.mark.parametrize("trouble", TROUBLE)
def test_an_agent_never_notices_what_goes_wrong_with_us(wired, untouched, trouble):
    wired.reasonbank("remember", "When the tests fail, add the module greet with hello().")
    more = dict(TROUBLE[trouble])
    if "full" in more:
        if not namespace():
            pytest.skip("a full disk needs a namespace of its own")
        more["full"] = [str(wired.home / folder) for folder in more["full"]]
    run = wired.run("Make the tests pass.", fixing(wired.project()), **more)
    assert run.code == 0, run.err
    assert len(run.requests) == untouched
    assert "reasonbank" not in run.err.lower()
    assert (wired.project() / "greet.py").exists()


@requirement("CLI-3")
def test_an_agent_goes_on_when_its_server_dies_in_the_middle(wired, untouched):
    (wired.folder / "killing.py").write_text(KILLING)
    project = wired.project()
    kill = f"{sys.executable} {wired.folder}/killing.py {wired.home}"
    steps = [
        Step("I search.", [memory("search", query="the tests fail")]),
        Step("The server dies.", [shell(kill)]),
        *fixing(project),
    ]
    run = wired.run("Make the tests pass.", steps)
    assert run.code == 0, run.err
    assert len(run.requests) == untouched + 2
    assert "killed 1" in run.asked(2)
    assert (project / "greet.py").exists()


KILLING = """\
import os, signal, sys
from pathlib import Path

mine = f"HOME={sys.argv[1]}".encode()
killed = 0
for process in Path("/proc").glob("[0-9]*"):
    try:
        words = (process / "cmdline").read_bytes().split(b"\\0")
        if b"mcp" in words and mine in (process / "environ").read_bytes().split(b"\\0"):
            os.kill(int(process.name), signal.SIGKILL)
            killed += 1
    except OSError:
        pass
print("killed", killed)
"""


@requirement("MCP-5")
def test_over_http_a_memory_lands_in_the_project_of_the_agent(box, tmp_path):
    box.reasonbank("install", box.program.name, "--project", "--http", "http://127.0.0.1:8321")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lesson = {"title": "the tests need greet", "outcome": "success", "content": "Add greet.py.",
              "description": "When the tests fail"}  # fmt: skip
    steps = [Step("I record.", [memory("record", **lesson)]), Step("Done.")]
    token = str(box.home / ".local/share/reasonbank/bank.db.owner-token")
    run = box.run("Learn.", steps, beside=[SERVE], beside_in=str(elsewhere), token=token)
    assert run.code == 0, run.err
    assert [each["title"] for each in learned(box)] == ["the tests need greet"]
    assert learned(box, elsewhere) == []


@requirement("SEC-1")
def test_what_an_agent_writes_in_its_own_shell_is_the_agents_and_not_yours(wired):
    command = Path(sys.executable).parent / "reasonbank"
    # Some agents refuse to run what they cannot read: pipes in brackets.
    (wired.project() / "accept.sh").write_text(
        f'for id in $({command} --json list | sed -n \'s/.*"id": "\\([^"]*\\).*/\\1/p\')\n'
        f"do {command} review accept $id; done > told 2>&1\n"
    )
    steps = [
        Step("I record.", [shell(f"{command} remember 'When the build hangs, run make clean'")]),
        Step("I accept it.", [shell("sh accept.sh")]),
        Step("Done."),
    ]
    run = wired.run("Learn.", steps)
    assert run.code == 0, run.err
    assert "only a person" in (wired.project() / "told").read_text()
    [kept] = learned(wired)
    assert kept["standing"] == "untested"

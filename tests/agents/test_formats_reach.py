"""With the real programs: what `formats` says of each agent is what the agent does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.agents.box import TESTS, Box
from tests.agents.calls import Step, shell, write

import reasonbank.surfaces.install
from reasonbank.surfaces.agents import AGENTS, Event
from reasonbank.surfaces.hooks.formats import READ

# Where no namespace may be made, the summary says so.
pytestmark = pytest.mark.filterwarnings("default::tests.agents.box.Unboxed")

HOOK = [sys.executable, str(Path(__file__).with_name("marking.py")), "hook"]
PLUGIN = Path(reasonbank.surfaces.install.__path__[0]) / "opencode_plugin.js"
LIMIT_S = 10


def wire(box, agent):
    """By hand: `reasonbank install` would wire the real hooks."""

    def each(entry):
        return {
            name: entry(" ".join([*HOOK, event, "--agent", agent.name]))
            for name, event in agent.events.items()
        }

    def nested(limit):
        return each(
            lambda command: [{"hooks": [{"type": "command", "command": command, "timeout": limit}]}]
        )

    match agent.name:
        case "claude-code":
            settings, value = ".claude/settings.json", {"hooks": nested(LIMIT_S)}
        case "codex":
            settings, value = ".codex/hooks.json", {"hooks": nested(LIMIT_S)}
        case "gemini-cli":
            settings, value = ".gemini/settings.json", {"hooks": nested(LIMIT_S * 1000)}
        case "qwen-code":
            settings, value = ".qwen/settings.json", {"hooks": nested(LIMIT_S * 1000)}
        case "copilot-cli":
            settings = ".copilot/hooks/marks.json"
            hooks = each(lambda command: [{"type": "command", "bash": command}])
            value = {"version": 1, "hooks": hooks}
        case "opencode":
            plugin = box.home / ".config/opencode/plugin/marks.js"
            plugin.parent.mkdir()
            plugin.write_text(PLUGIN.read_text().replace('["reasonbank"]', json.dumps(HOOK[:2])))
            return
    path = box.home / settings
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | value))


STEPS = ("fail", "write", "pass", "say")


def work(project):
    return [
        Step("I run the tests.", [shell(TESTS)]),
        Step("I write it.", [write(f"{project}/greet.py", "def hello():\n    return 'hello'\n")]),
        Step("Again.", [shell(TESTS)]),
        Step("It passes."),
    ]


@pytest.fixture(scope="module")
def marked(program, tmp_path_factory):
    """One run with a mark at every event: the agent, its run, and what its hooks were told."""
    box = Box(program, tmp_path_factory.mktemp(program.name))
    agent = next(each for each in AGENTS if each.name == program.name)
    wire(box, agent)
    run = box.run("Make the tests pass.", work(box.project()))
    assert run.code == 0, run.err
    told = [json.loads(each.read_text()) for each in sorted((box.home / "told").iterdir())]
    return agent, run, told, box.project()


def test_the_model_reads_a_hook_s_answer_where_the_table_says_so(marked):
    agent, run, _, _ = marked
    read_at = {
        Event(event)
        for at in range(len(STEPS))
        for event in re.findall(r"MARK-([a-z-]+)-OF", run.asked(at))
    }
    assert read_at == {event for event in agent.events.values() if event in READ[agent.name]}
    assert "MARK-prompt" in run.asked(0)


def test_an_agent_that_is_asked_when_it_ends_goes_on_once(marked):
    agent, run, told, _ = marked
    asked = agent.name != "opencode"
    assert len(run.requests) == len(STEPS) + asked
    assert ("MARK-turn-end" in run.asked(-1)) is asked
    ended = [each["stopping"] for each in told if each["event"] == Event.TURN_END]
    assert ended == ([False, True] if asked else [False])


def test_what_an_agent_tells_is_understood(marked):
    agent, _, told, project = marked

    def of(event):
        return [each for each in told if each["event"] == event]

    assert len({each["session"] for each in told}) == 1 and told[0]["session"]
    assert {each["directory"] for each in told} == {str(project)}
    assert "Make the tests pass." in of(Event.PROMPT)[0]["prompt"]
    failed = next(each for each in of(Event.AFTER_TOOL) if "ModuleNotFound" in each["output"])
    assert failed["command"] == TESTS
    assert failed["failed"] is (None if agent.name == "codex" else True)
    if Event.BEFORE_TOOL in agent.events.values():
        assert any(each["path"].endswith("greet.py") for each in of(Event.BEFORE_TOOL))
    assert Path(of(Event.TURN_END)[0]["transcript"]).is_file()

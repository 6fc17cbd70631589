"""The programs of docs/how-to/use-in-python-agents.md, as they stand there, with a scripted model.

Each is a process of its own with default settings; the model is a server on loopback, which the
frameworks find by OPENAI_BASE_URL, and which keeps every request that it got.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.llm.servers import Answer, Request, Server, of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "use-in-python-agents.md"
PROGRAMS = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
NEEDS = {
    "pydantic_ai_agent.py": "pydantic_ai",
    "openai_agents_agent.py": "agents",
    "openai_agents_mcp_agent.py": "agents",
    "langgraph_agent.py": "langchain_openai",
}
IN_PROCESS = [name for name in PROGRAMS if "mcp" not in name]
LESSON = "When the deployment hangs at 90 percent, restart the proxy before anything else."
TASK = "The deployment hangs at 90 percent: make it go through"


def program(name):
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: `make install` has it")
    return PROGRAMS[name]


def says(request: Request, text: str) -> Answer:
    """A reply in words, in the style that was asked for."""
    if request.path.endswith("/responses"):
        part = {"type": "output_text", "text": text, "annotations": []}
        return _response({"type": "message", "id": "m", "role": "assistant",
                          "status": "completed", "content": [part]})  # fmt: skip
    return _chat({"role": "assistant", "content": text}, "stop")


def calls(request: Request, tool: str, **arguments: str) -> Answer:
    told = json.dumps(arguments)
    if request.path.endswith("/responses"):
        return _response({"type": "function_call", "id": "f", "call_id": "c", "name": tool,
                          "arguments": told, "status": "completed"})  # fmt: skip
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": told}}
    return _chat({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _response(output) -> Answer:
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}  # fmt: skip
    return of({"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [output],
               "status": "completed", "parallel_tool_calls": False, "tool_choice": "auto",
               "tools": [], "usage": usage})  # fmt: skip


def _chat(message, reason) -> Answer:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return of({"id": "r", "object": "chat.completion", "created": 1, "model": "m",
               "choices": [choice], "usage": usage})  # fmt: skip


def offered(request: Request) -> list[str]:
    return [tool.get("name") or tool["function"]["name"] for tool in request.body.get("tools", ())]


class Desk:
    """A user's machine: a home, a project, a model that answers, and programs to run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "project"
        self.project.mkdir()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            "PATH": path,
            "HOME": str(home),
            "OPENAI_API_KEY": "none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "LANGSMITH_TRACING": "false",
        }
        if "PYTHONPATH" in os.environ:
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def run(self, name: str, *answers) -> list[Request]:
        """What the model was asked while the program did the task."""
        script = list(answers)
        with Server(lambda request: script.pop(0)(request)) as server:
            done = subprocess.run(
                [sys.executable, "-c", program(name), TASK], cwd=self.project, check=False,
                env=self.environment | {"OPENAI_BASE_URL": server.url}, capture_output=True,
                text=True, timeout=120,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not script, "the model was asked less often than expected"
        return server.requests

    def memories(self):
        done = subprocess.run(
            [sys.executable, "-m", "reasonbank.surfaces.cli", "list", "--json"], cwd=self.project,
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_each_framework_has_its_program():
    assert PROGRAMS.keys() == NEEDS.keys()


@pytest.mark.parametrize("name", IN_PROCESS)
def test_what_was_learned_is_in_the_next_first_request_and_is_trusted_as_it_fares(desk, name):
    first = desk.run(
        name,
        lambda request: calls(request, "remember", lesson=LESSON),
        lambda request: says(request, "It is done."),
    )
    assert offered(first[0]) == ["remember"]
    assert "recalled by ReasonBank" not in str(first[0].body)
    (learned,) = desk.memories()
    assert (learned["content"], learned["usage_count"]) == (LESSON, 0)
    asked = desk.run(name, lambda request: says(request, "It is done."))
    assert LESSON in json.dumps(asked[0].body) and "recalled by ReasonBank" in str(asked[0].body)
    (praised,) = desk.memories()
    desk.run(name, lambda request: says(request, "It hangs all the same."))
    (blamed,) = desk.memories()
    assert praised["confidence"] > learned["confidence"]
    assert blamed["confidence"] < praised["confidence"]
    assert blamed["usage_count"] == 2


def test_over_mcp_the_model_is_offered_the_tools_and_what_it_records_stays(desk):
    name = "openai_agents_mcp_agent.py"
    asked = desk.run(
        name,
        lambda request: calls(request, "memory_record", content=LESSON),
        lambda request: says(request, "It is done."),
    )
    assert {"memory_search", "memory_record"} <= set(offered(asked[0]))
    assert [memory["content"] for memory in desk.memories()] == [LESSON]
    asked = desk.run(
        name,
        lambda request: calls(request, "memory_search", query=TASK),
        lambda request: says(request, "It is done."),
    )
    assert LESSON in json.dumps(asked[1].body)

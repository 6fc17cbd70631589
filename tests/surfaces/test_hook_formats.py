"""What agents tell a hook becomes one shape, and the answer has the shape that each one reads."""

from __future__ import annotations

import json
import random

import pytest

from reasonbank.surfaces.agents import AGENTS, Event
from reasonbank.surfaces.hooks.formats import READ, context, permission, question, read
from reasonbank.surfaces.hooks.told import Told

COMMAND = {"command": "python3 check.py", "description": "Run the check"}
TRACEBACK = "ModuleNotFoundError: No module named 'greet'"


def common(name, **more):
    """Claude Code's, Codex', Gemini CLI's and Qwen Code's way."""
    return {
        "session_id": "s-1",
        "transcript_path": "/t/s-1.jsonl",
        "cwd": "/p",
        "hook_event_name": name,
    } | more


def copilot(**more):
    return {"sessionId": "s-1", "timestamp": 1794814995194, "cwd": "/p"} | more


PROMPTS = {
    "claude-code": common("UserPromptSubmit", prompt="Make it pass."),
    "codex": common("UserPromptSubmit", turn_id="t", prompt="Make it pass."),
    "gemini-cli": common("BeforeAgent", prompt="Make it pass."),
    "qwen-code": common("UserPromptSubmit", prompt="Make it pass.", submitted_prompt="Make it"),
    "copilot-cli": copilot(prompt="Make it pass."),
    "opencode": common("chat.message", prompt="Make it pass."),
    "cursor": {
        "conversation_id": "s-1",
        "transcript_path": "/t/s-1.jsonl",
        "workspace_roots": ["/p"],
        "hook_event_name": "beforeSubmitPrompt",
        "prompt": "Make it pass.",
    },
}

FAILURES = {
    "claude-code": common(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input=COMMAND,
        error=f"Exit code 1\n{TRACEBACK}",
        is_interrupt=False,
    ),
    "gemini-cli": common(
        "AfterTool",
        tool_name="run_shell_command",
        tool_input=COMMAND,
        tool_response={
            "llmContent": f"<untrusted_context>\nOutput: {TRACEBACK}\nExit Code: 1\n"
            "Process Group PGID: 13760\n</untrusted_context>",
            "returnDisplay": TRACEBACK,
        },
    ),
    "qwen-code": common(
        "PostToolUseFailure",
        tool_name="run_shell_command",
        tool_input=COMMAND,
        error=f"Command: python3 check.py\nDirectory: (root)\nOutput: {TRACEBACK}\n"
        "Error: (none)\nExit Code: 1\nSignal: (none)\nProcess Group PGID: (none)",
        is_interrupt=False,
    ),
    "copilot-cli": copilot(
        toolName="bash",
        toolArgs=COMMAND,
        toolResult={
            "resultType": "success",
            "textResultForLlm": f"{TRACEBACK}\n<shellId: 0 completed with exit code 1>",
        },
    ),
    "opencode": common(
        "tool.execute.after",
        tool_name="bash",
        tool_input=COMMAND,
        tool_response={"output": TRACEBACK, "exit": 1},
    ),
    "cursor": {
        "hook_event_name": "postToolUse",
        "tool_name": "Shell",
        "tool_input": COMMAND,
        "tool_output": json.dumps({"exitCode": 1, "stdout": TRACEBACK}),
    },
}

SUCCESSES = {
    "claude-code": common(
        "PostToolUse",
        tool_name="Bash",
        tool_input=COMMAND,
        tool_response={"stdout": "1 passed", "stderr": "", "interrupted": False},
    ),
    "gemini-cli": common(
        "AfterTool",
        tool_name="run_shell_command",
        tool_input=COMMAND,
        tool_response={"llmContent": "Output: 1 passed\nProcess Group PGID: 1"},
    ),
    "qwen-code": common(
        "PostToolUse",
        tool_name="run_shell_command",
        tool_input=COMMAND,
        tool_response={"llmContent": "Output: 1 passed\nExit Code: 0\nSignal: (none)"},
    ),
    "copilot-cli": copilot(
        toolName="bash",
        toolArgs=json.dumps(COMMAND),  # as older versions send it
        toolResult={
            "resultType": "success",
            "textResultForLlm": "1 passed\n<shellId: 1 completed with exit code 0>",
        },
    ),
    "opencode": common(
        "tool.execute.after",
        tool_name="bash",
        tool_input=COMMAND,
        tool_response={"output": "1 passed", "exit": 0},
    ),
}


@pytest.mark.parametrize("agent", PROMPTS)
def test_a_prompt_is_read_with_its_session_and_its_project(agent):
    told = read(agent, Event.PROMPT, PROMPTS[agent])
    assert (told.prompt, told.session, told.directory) == ("Make it pass.", "s-1", "/p")
    assert told.transcript == ("" if agent == "copilot-cli" else "/t/s-1.jsonl")


@pytest.mark.parametrize("agent", FAILURES)
def test_a_command_that_failed_is_read_with_its_output(agent):
    told = read(agent, Event.AFTER_TOOL, FAILURES[agent])
    assert (told.command, told.failed, told.own) == ("python3 check.py", True, False)
    assert told.output == TRACEBACK


@pytest.mark.parametrize("agent", SUCCESSES)
def test_a_command_that_passed_did_not_fail(agent):
    told = read(agent, Event.AFTER_TOOL, SUCCESSES[agent])
    assert (told.command, told.failed) == ("python3 check.py", False)
    assert "1 passed" in told.output


def test_what_a_command_printed_keeps_its_own_lines():
    printed = "Output: 1\nError: two\nthree"
    answer = {"llmContent": f"Output: {printed}\nExit Code: 2\nProcess Group PGID: 7"}
    payload = common("AfterTool", tool_input=COMMAND, tool_response=answer)
    told = read("gemini-cli", Event.AFTER_TOOL, payload)
    assert (told.output, told.failed) == (printed, True)


def test_codex_does_not_say_how_a_command_went_but_says_it_of_patches_and_tools():
    def failed(**more):
        return read("codex", Event.AFTER_TOOL, common("PostToolUse", **more)).failed

    assert failed(tool_name="Bash", tool_input=COMMAND, tool_response="Exit code: 1\n") is None
    patch = {"command": "*** Begin Patch\n*** Add File: greet.py\n+x = 1\n*** End Patch"}
    for code in (0, 1):
        answer = f"Exit code: {code}\nWall time: 0 seconds\n"
        said = failed(tool_name="apply_patch", tool_input=patch, tool_response=answer)
        assert said is bool(code)
    for wrong in (True, False):
        answer = {"content": [{"type": "text", "text": "no"}], "isError": wrong}
        assert failed(tool_name="mcp__x__y", tool_input={}, tool_response=answer) is wrong


def test_whoever_is_interrupted_did_not_fail():
    stopped = FAILURES["claude-code"] | {"is_interrupt": True}
    assert read("claude-code", Event.AFTER_TOOL, stopped).failed is None


def test_what_a_file_says_about_exit_codes_is_not_how_reading_it_went():
    payload = common(
        "AfterTool",
        tool_name="read_file",
        tool_input={"file_path": "/p/ci.log"},
        tool_response={"llmContent": "Output: x\nExit Code: 1\n"},
    )
    told = read("gemini-cli", Event.AFTER_TOOL, payload)
    assert (told.failed, told.path) == (False, "/p/ci.log")


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("claude-code", {"tool_name": "Write", "tool_input": {"file_path": "/p/greet.py"}}),
        ("claude-code", {"tool_name": "NotebookEdit", "tool_input": {"notebook_path": "/p/n"}}),
        ("codex", {"tool_input": {"command": "*** Begin Patch\n*** Update File: a b.py\n@@"}}),
        ("copilot-cli", {"toolName": "create", "toolArgs": {"path": "/p/greet.py"}}),
        ("opencode", {"tool_name": "write", "tool_input": {"filePath": "/p/greet.py"}}),
        ("opencode", {"tool_input": {"patchText": "*** Begin Patch\n*** Delete File: x.py"}}),
        ("cursor", {"tool_name": "Write", "tool_input": {"target_file": "/p/greet.py"}}),
    ],
)
def test_the_file_of_a_call_is_found_and_is_no_command(agent, tool):
    told = read(agent, Event.BEFORE_TOOL, tool)
    assert told.path in ("/p/greet.py", "/p/n", "a b.py", "x.py")
    assert told.command == ""


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"command": ["bash", "-lc", "make test"]}, "make test"),
        ({"command": ["git", "push", "a b"]}, "git push 'a b'"),
        ({"cmd": "make test"}, "make test"),
    ],
)
def test_a_command_is_one_text(given, command):
    assert read("codex", Event.BEFORE_TOOL, {"tool_input": given}).command == command


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("claude-code", {"tool_name": "mcp__reasonbank__memory_search"}),
        ("claude-code", {"tool_name": "mcp__plugin_reasonbank_reasonbank__memory_search"}),
        ("claude-code", {"tool_name": "x", "mcp_server": {"name": "reasonbank"}}),
        ("codex", {"tool_name": "mcp__reasonbank__memory_record"}),
        ("gemini-cli", {"tool_name": "mcp_reasonbank_memory_search"}),
        ("gemini-cli", {"tool_name": "y", "mcp_context": {"server_name": "reasonbank"}}),
        ("qwen-code", {"tool_name": "mcp__reasonbank__memory_outcome"}),
        ("copilot-cli", {"toolName": "reasonbank-memory_search"}),
        ("opencode", {"tool_name": "reasonbank_memory_search"}),
        ("cursor", {"tool_name": "MCP:memory_search"}),
        ("claude-code", {"tool_input": {"command": "reasonbank search 'flaky test'"}}),
        ("codex", {"tool_input": {"command": "cd src && A=1 /opt/bin/reasonbank list | head"}}),
        ("codex", {"tool_input": {"command": "uvx reasonbank doctor"}}),
        ("codex", {"tool_input": {"command": "x=$(reasonbank --json list)"}}),
    ],
)
def test_our_own_tools_are_known_in_each_agent_s_naming(agent, tool):
    assert read(agent, Event.BEFORE_TOOL, tool).own


@pytest.mark.parametrize(
    "command",
    ["cd reasonbank && make", "git clone x/reasonbank", "grep -r reasonbank .", "./reasonbanker x"],
)
def test_a_command_that_only_names_us_is_not_our_own(command):
    tool = {"tool_name": "Bash", "tool_input": {"command": command}}
    assert not read("claude-code", Event.BEFORE_TOOL, tool).own


def test_what_other_hooks_put_before_a_prompt_is_not_the_prompt():
    prompt = "<hook_context>be &lt;kind&gt;</hook_context>\n\nMake it pass."
    assert read("gemini-cli", Event.PROMPT, common("BeforeAgent", prompt=prompt)).prompt == (
        "Make it pass."
    )


def told(agent, event, **more):
    name = next(
        (n for each in AGENTS if each.name == agent for n, e in each.events.items() if e is event),
        "",
    )
    return Told(agent=agent, event=event, name=name, **more)


@pytest.mark.parametrize("agent", [each.name for each in AGENTS])
@pytest.mark.parametrize("event", list(Event))
def test_context_is_printed_only_where_the_model_reads_it(agent, event):
    printed = context(told(agent, event), "Beware: «greet» < 1")
    if event not in READ[agent]:
        assert printed == ""
    elif agent == "opencode":
        assert printed == "Beware: «greet» < 1"
    else:
        answer = json.loads(printed)
        match agent:
            case "copilot-cli":
                assert answer == {"additionalContext": "Beware: «greet» < 1"}
            case "cursor":
                assert answer == {"additional_context": "Beware: «greet» < 1"}
            case _:
                said = answer["hookSpecificOutput"]
                assert said["additionalContext"] == "Beware: «greet» < 1"
                assert said["hookEventName"] == told(agent, event).name
    assert context(told(agent, event), " \n") == ""


def test_the_answer_names_the_moment_the_agent_named():
    passed = read("claude-code", Event.AFTER_TOOL, SUCCESSES["claude-code"])
    assert json.loads(context(passed, "x"))["hookSpecificOutput"]["hookEventName"] == "PostToolUse"


@pytest.mark.parametrize("agent", [each.name for each in AGENTS])
def test_an_agent_is_asked_at_the_end_of_a_turn_and_not_because_it_was_asked(agent):
    asked = question(told(agent, Event.TURN_END), "What did you learn?")
    match agent:
        case "opencode":
            assert asked == ""
        case "cursor":
            assert json.loads(asked) == {"followup_message": "What did you learn?"}
        case _:
            assert json.loads(asked) == {"decision": "block", "reason": "What did you learn?"}
    assert question(told(agent, Event.TURN_END, stopping=True), "What did you learn?") == ""
    assert question(told(agent, Event.SESSION_END), "What did you learn?") == ""
    assert question(told(agent, Event.TURN_END), "") == ""


def test_only_the_three_tools_that_are_wired_may_run_with_nobody_to_ask():
    def leave(tool, agent="copilot-cli", event=Event.BEFORE_TOOL, **arguments):
        return permission(read(agent, event, copilot(toolName=tool, toolArgs=arguments)))

    assert json.loads(leave("reasonbank-memory_search")) == {"permissionDecision": "allow"}
    assert leave("reasonbank-memory_forget") == ""
    assert leave("reasonbank-other-memory_search") == ""
    assert leave("bash", command="reasonbank list; rm -rf /") == ""
    assert leave("reasonbank-memory_search", event=Event.AFTER_TOOL) == ""
    assert leave("reasonbank-memory_search", agent="codex") == ""


def test_a_stop_that_a_hook_caused_is_told_apart():
    assert read("claude-code", Event.TURN_END, common("Stop", stop_hook_active=True)).stopping
    assert not read("claude-code", Event.TURN_END, common("Stop", stop_hook_active=False)).stopping
    assert read("cursor", Event.TURN_END, {"loop_count": 1}).stopping
    assert not read("cursor", Event.TURN_END, {"loop_count": 0}).stopping


NAMES = sorted(
    {name for payload in [*PROMPTS.values(), *FAILURES.values()] for name in payload}
    | {"loop_count", "stop_hook_active", "mcp_context", "mcp_server", "command", "content"}
)


def anything(chance, depth=0):
    kinds = [None, True, False, -1, 2**70, 0.5, "", "x", "Exit Code: 1", "\ud800", '{"a": [1]}']
    match chance.randrange(4 if depth < 3 else 2):
        case 2:
            return [anything(chance, depth + 1) for _ in range(chance.randrange(4))]
        case 3:
            names = chance.sample(NAMES, chance.randrange(1, 9))
            return {name: anything(chance, depth + 1) for name in names}
    return chance.choice(kinds)


def test_a_malformed_payload_is_read_as_far_as_it_goes():
    chance = random.Random(18)
    agents = [each.name for each in AGENTS] + ["nobody", ""]
    for _ in range(1000):
        payload = {name: anything(chance) for name in chance.sample(NAMES, 8)}
        said = read(chance.choice(agents), chance.choice(list(Event)), payload)
        for name in ("session", "directory", "transcript", "prompt", "tool", "command", "path"):
            assert isinstance(getattr(said, name), str)
        assert isinstance(said.output, str) and said.failed in (None, True, False)
        context(said, "x")
        question(said, "x")


def test_json_nested_deep_within_a_text_is_no_danger():
    deep = "[" * 200_000
    told = read("copilot-cli", Event.AFTER_TOOL, copilot(toolArgs=deep, toolResult=deep))
    assert (told.command, told.failed) == ("", None)


def test_a_result_within_results_is_no_danger():
    deep = inner = {}
    for _ in range(5_000):
        inner["content"] = inner = {}
    assert read("codex", Event.AFTER_TOOL, {"tool_response": deep}).output == ""

"""Transcripts of coding agents are read into sessions, whatever is in them."""

import json
from importlib import import_module

import pytest
from hypothesis import assume, given, settings, strategies as st
from tests.learn import transcript_writers as writers
from tests.learn.any_session import entries
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement
from tests.safety.secrets_made_up import SECRET

from reasonbank.fields import checked
from reasonbank.learn.echo import without_echo
from reasonbank.learn.session import (
    LONGEST_TEXT,
    Command,
    Session,
    bounded,
    numbered,
    of_trace,
    to_trace,
)
from reasonbank.learn.transcripts import FORMATS, claude_code, codex, format_of, read as read_as
from reasonbank.model import Outcome, Step, Trace
from reasonbank.testing import a_memory, a_warning

EACH = pytest.mark.parametrize(
    ("write", "read"),
    [
        (getattr(writers, module), import_module(f"reasonbank.learn.transcripts.{module}").read)
        for module in FORMATS.values()
    ],
    ids=list(FORMATS),
)
STEPS = [
    U("Fix the total"),
    A("I look at it."),
    C("pytest -q", 1, "1 failed in 0.1s"),
    E("app/core.py", "return 0"),
    C("pytest -q", 0, "1 passed in 0.1s"),
    A("Fixed."),
]


@pytest.mark.parametrize("name", FORMATS)
def test_a_transcript_is_known_by_its_text(name):
    text = "\n".join(getattr(writers, FORMATS[name])("a", STEPS))
    assert format_of(text) == name
    assert read_as(name, text).task == "Fix the total"
    assert format_of('{"task": "Fix the total", "trajectory": []}') is None


@requirement("DIS-8")
@EACH
def test_a_transcript_is_read_in_order_with_its_exit_codes(write, read):
    session = read(write("a", STEPS))
    assert session.task == "Fix the total"
    assert session.directory == "/home/me/app"
    assert [type(entry).__name__ for entry in session.entries] == [
        "Turn", "Turn", "Command", "Edit", "Command", "Turn",
    ]  # fmt: skip
    assert [entry.number for entry in session.entries] == [1, 2, 3, 4, 5, 6]
    assert [(c.command, c.exit_code, c.output) for c in session.commands()] == [
        ("pytest -q", 1, "1 failed in 0.1s"), ("pytest -q", 0, "1 passed in 0.1s"),
    ]  # fmt: skip
    edit = session.entries[3]
    assert edit.path.endswith("app/core.py")
    assert edit.change == "return 0"


@EACH
def test_a_last_line_that_is_cut_off_is_passed_over(write, read):
    lines = write("a", STEPS)
    assert read([*lines[:-1], lines[-1][:40]]).entries == read(lines[:-1]).entries


@EACH
def test_a_huge_output_is_cut_in_the_middle(write, read):
    noise = "x" * 3_000_000
    session = read(write("a", [U("go on"), C("make", 1, f"begin {noise} end")]))
    (command,) = session.commands()
    assert len(command.output) <= LONGEST_TEXT
    assert command.output.startswith("begin")
    assert command.output.endswith("end")


@EACH
def test_a_command_that_the_user_stopped_neither_failed_nor_passed(write, read):
    (command,) = read(write("a", [U("run it"), C("npm start", None)])).commands()
    assert command.exit_code is None


@EACH
def test_what_reasonbank_said_is_removed(write, read):
    echo = a_warning().format_for_prompt()
    session = read(write("a", [
        U(f"Fix it\n{echo}\nplease"), C("reasonbank search 'locks'", 0, echo),
        C("cat notes.md", 0, f"note\n{echo}"),
    ]))  # fmt: skip
    assert "DeadlockDetected" not in str(session)
    assert [c.command for c in session.commands()] == ["cat notes.md"]
    assert "please" in session.task


@EACH
def test_secrets_are_gone_when_a_session_has_been_read(write, read):
    session = read(write("a", [
        U(f"use {SECRET}"), C(f"curl -H 'token: {SECRET}'", 0, f"hello {SECRET}" + "x" * 9_000),
        E("a.py", f"token = '{SECRET}'"),
    ]))  # fmt: skip
    assert SECRET not in str(session)


def claude_line(kind, content, **more):
    return json.dumps({"type": kind, "uuid": str(more), "message": {"content": content}, **more})


def test_claude_code_drops_what_neither_user_nor_agent_said():
    session = claude_code.read([
        claude_line("user", "the task", sessionId="s"),
        claude_line("user", "a subagent's prompt", isSidechain=True),
        claude_line("user", "Caveat: …", isMeta=True),
        claude_line("user", "This session is being continued…", isCompactSummary=True),
        claude_line("user", "<command-name>/clear</command-name>", n=1),
        claude_line("user", "<local-command-stdout>ok</local-command-stdout>", n=2),
        claude_line("user", "hello<system-reminder>be good</system-reminder>", n=3),
        json.dumps({"type": "system", "subtype": "compact_boundary"}),
        json.dumps({"type": "summary", "summary": "x"}),
        json.dumps({"type": "brand-new", "message": {"content": "x"}}),
    ])  # fmt: skip
    assert session.id == "s"
    assert [entry.text for entry in session.entries] == ["the task", "hello"]


def test_claude_code_drops_our_own_tools_and_edits_that_failed():
    def tool(name, id, **input):
        return claude_line("assistant", [{"type": "tool_use", "id": id, "name": name,
                                          "input": input}], n=id)  # fmt: skip

    def result(id, text, **more):
        return claude_line("user", [{"type": "tool_result", "tool_use_id": id, "content": text}
                                    | more], n=f"{id}-result")  # fmt: skip

    session = claude_code.read([
        tool("mcp__reasonbank__memory_search", "1", query="x"), result("1", "a memory"),
        tool("Edit", "2", file_path="a.py", new_string="x"), result("2", "no", is_error=True),
        tool("Write", "3", file_path="b.py", content="y"),
        result("3", [{"type": "text", "text": "written"}]),
        tool("Bash", "4", command="make"), result("4", "Exit code 2\nboom", is_error=True),
        result("unknown", "x"),
    ])  # fmt: skip
    assert [(type(e).__name__, e.number) for e in session.entries] == [("Edit", 1), ("Command", 2)]
    assert session.entries[1].exit_code == 2


def test_a_resumed_claude_code_session_counts_no_line_twice():
    lines = writers.claude_code("a", STEPS)
    assert claude_code.read(lines + lines).entries == claude_code.read(lines).entries


def test_an_interruption_at_the_end_is_an_abort():
    lines = writers.claude_code("a", STEPS)
    stop = claude_line("user", [{"type": "text", "text": "[Request interrupted by user]"}])
    assert claude_code.read([*lines, stop]).aborted
    assert not claude_code.read([*lines, stop, claude_line("user", "go on", n=9)]).aborted
    rollout = writers.codex("a", STEPS)
    stop = json.dumps({"type": "event_msg", "payload": {"type": "turn_aborted"}})
    assert codex.read([*rollout, stop]).aborted


def test_codex_forgets_the_turns_that_were_rolled_back():
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    lines = writers.codex("a", [*STEPS, U("now break it"), C("rm -r app", 0)])
    assert codex.read([*lines, json.dumps(back)]).entries == codex.read(lines).entries[:6]


def test_codex_drops_our_own_tools():
    def item(**payload):
        return json.dumps({"type": "response_item", "payload": payload})

    session = codex.read([
        item(type="function_call", name="mcp__reasonbank__memory_search", call_id="1",
             arguments='{"command": "x"}'),
        item(type="function_call_output", call_id="1", output="a memory"),
        item(type="function_call", name="memory_search", namespace="reasonbank", call_id="2",
             arguments='{"command": "y"}'),
        item(type="local_shell_call", call_id="3", action={"command": ["ls", "a b"]}),
        item(type="function_call_output", call_id="3", output={"content": "x", "success": True}),
    ])  # fmt: skip
    assert [c.command for c in session.commands()] == ["ls 'a b'"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8)
    | st.sampled_from(["user", "assistant", "tool_use", "tool_result", "Bash", "message", "text",
                       "function_call", "item_completed", "CommandExecution", "response_item"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["type", "message", "content", "payload", "item", "input", "command",
                         "name", "id", "tool_use_id", "call_id", "arguments", "output", "role",
                         "text", "toolUseResult", "changes", "num_turns", "exit_code", "uuid"]),
        inner, max_size=6),
    max_leaves=25,
)  # fmt: skip


@pytest.mark.parametrize("read", [claude_code.read, codex.read])
@settings(max_examples=150, deadline=None)
@given(st.lists(json_values.map(json.dumps) | st.text(max_size=30), max_size=12))
def test_no_line_however_odd_stops_a_reader(read, lines):
    session = read(lines, id="given")
    assert session.id
    assert [entry.number for entry in session.entries] == list(range(1, len(session.entries) + 1))


@settings(max_examples=150, deadline=None)
@given(entries, st.booleans())
def test_a_session_becomes_a_trace_and_back(found, aborted):
    assume(not any(isinstance(e, Command) and e.output.lower().startswith("exit") for e in found))
    session = Session(id="s", agent="codex", entries=numbered(found), aborted=aborted)
    trace = checked(to_trace(session, Outcome.MIXED))
    assert of_trace(Trace.from_json(trace.to_json())) == session


def test_a_session_of_any_length_fits_into_a_trace():
    one = Command(number=0, command="make", output="x" * 4_000, exit_code=0)
    session = Session(id="s", agent="codex", entries=numbered([one] * 5_000))
    checked(to_trace(session, Outcome.MIXED))


def test_a_score_says_how_a_step_of_a_trace_ended():
    trace = Trace(task="t", outcome=Outcome.MIXED, trajectory=(
        Step(iteration=1, action="run", content="make", score=0.0, feedback="boom"),
        Step(iteration=2, action="run", content="make", feedback="exit code: 3\nboom"),
        Step(iteration=3, action="think", content="hm"),
    ))  # fmt: skip
    assert [c.exit_code for c in of_trace(trace).commands()] == [1, 3]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(
    ["<memory id=", "</memory>", "\n| x", "\nWARNING: y", "keep", "\n", "<system-reminder>",
     "</system-reminder>", ">"],
)).map("".join))  # fmt: skip
def test_no_fence_is_left_of_our_own_words(text):
    left = without_echo(text)
    assert "<memory id=" not in left
    assert without_echo(f"before {a_memory().format_for_prompt()} after") == "before  after"
    flagged = a_memory().format_for_prompt(["overrides instructions"]).removesuffix("</memory>")
    assert without_echo(f"before {flagged}after") == "before \nafter"


@given(st.text(max_size=900), st.integers(200, 400))
def test_what_is_cut_keeps_its_ends(text, longest):
    cut = bounded(text, longest)
    assert len(cut) <= longest
    assert cut[: longest // 6] == text[: longest // 6]
    assert cut[-longest // 2 :] == text[-longest // 2 :]


@requirement("MEM-7")
def test_a_transcript_tells_which_model_worked_and_what_it_used():
    def claude(id, output):
        used = {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": output}
        message = {"id": id, "model": "claude-x", "usage": used, "content": "done"}
        return json.dumps({"type": "assistant", "sessionId": "s", "message": message})

    # Each line of a message says what the whole of it used.
    found = claude_code.read([claude("m1", 5), claude("m1", 7), claude("m2", 10)])
    assert dict(found.facts) == {"model": "claude-x", "total_tokens": 110 + 113}
    context = {"model": "gpt-x", "effort": "high"}
    counted = [{"type": "token_count", "info": {"total_token_usage": {"total_tokens": n}}}
               for n in (10, 25)]  # fmt: skip
    lines = [{"type": "turn_context", "payload": context},
             *({"type": "event_msg", "payload": payload} for payload in counted),
             {"type": "event_msg", "payload": {"type": "token_count", "info": None}}]  # fmt: skip
    found = codex.read([json.dumps(line) for line in lines])
    expected = {"model": "gpt-x", "reasoning_effort": "high", "total_tokens": 25}
    assert dict(found.facts) == expected
    assert to_trace(found, None).metadata.items() >= expected.items()
    assert not claude_code.read(['{"type": "assistant", "message": {"usage": {"x": -1}}}']).facts

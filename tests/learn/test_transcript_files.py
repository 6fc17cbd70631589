"""Files of transcripts: cut off, growing, foreign, or larger than memory."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

from reasonbank.errors import InvalidInput
from reasonbank.fields import checked
from reasonbank.learn.session import Command, Turn, of_trace, to_trace
from reasonbank.learn.transcripts import FORMATS, files, session_in, steps
from reasonbank.learn.transcripts.lines import LONGEST_LINE
from reasonbank.store.queue import Transcript

STEPS = [
    U("Fix the total"), A("I look."), C("pytest -q", 1, "1 failed"), E("app/core.py", "return 0"),
    C("pytest -q", 0, "1 passed"), A("Fixed."),
]  # fmt: skip
EACH = pytest.mark.parametrize("agent", FORMATS)


def written(agent, steps=STEPS):
    return getattr(writers, FORMATS[agent])("a", steps)


def named(entry):
    """A step, whether or not its end is known yet."""
    return getattr(entry, "command", "") or getattr(entry, "path", "") or entry.text


def session_at(path, **options):
    found = files.session_at(Transcript(agent="", session="", path=str(path)), **options)
    return None if found is None else found[0]


@EACH
def test_half_a_line_counts_when_it_is_whole(agent, tmp_path):
    """Wherever an agent is just writing."""
    path = tmp_path / "s.jsonl"
    lines = written(agent)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(data)
    whole = session_at(path).entries
    for cut in range(len(lines[0]) + 1, len(data), 97):
        path.write_bytes(data[:cut])
        entries = session_at(path).entries
        assert [named(e) for e in entries] == [named(e) for e in whole[: len(entries)]]
    path.write_bytes(data[:-1])
    assert session_at(path).entries == whole


@EACH
def test_lines_that_are_garbage_are_passed_over(agent, tmp_path):
    path = tmp_path / "s.jsonl"
    lines = written(agent)
    path.write_text("".join(f"{line}\n" for line in lines))
    clean = session_at(path).entries
    garbage = [b"\xff\xfe\x00", b"{", b"[1, 2]", b"null", b"", b'{"type": 7, "message": []}',
               b'{"type": "user", "message": {"content": {"text": 1}, "parts": 3}, "data": null}',
               b'{"payload": [], "type": "response_item", "$set": 4, "toolCalls": "x"}',
               b"[" * 100_000]  # fmt: skip
    mixed = [part for line in lines for part in (line.encode(), *garbage)]
    path.write_bytes(b"\n".join(mixed))
    assert session_at(path).entries == clean


@EACH
def test_a_line_as_long_as_a_picture_is_passed_over(agent, tmp_path):
    path = tmp_path / "s.jsonl"
    lines = written(agent)
    path.write_text("".join(f"{line}\n" for line in lines))
    clean = session_at(path).entries
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "text": "x" * (LONGEST_LINE + 1)}) + "\n")
    assert session_at(path).entries == clean


def test_an_unusual_break_of_lines_is_part_of_a_line(tmp_path):
    path = tmp_path / "s.jsonl"
    lines = [json.loads(line) for line in written("claude-code", [U("a\u2028b\x85c\x0cd")])]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    assert session_at(path).task.startswith("a\u2028b")
    assert session_in("claude-code", path.read_text().split("\n")).task.startswith("a\u2028b")


class Endless(io.RawIOBase):
    """A file that is written while it is read, and kept nowhere."""

    def __init__(self, parts):
        self._parts = parts
        self._left = b""

    def read(self, size=-1):
        while len(self._left) < size and (part := next(self._parts, None)) is not None:
            self._left += part
        found, self._left = self._left[:size], self._left[size:]
        return found


def a_huge_session(turns):
    """Much noise, and one failure after the other that is put right."""
    line = written("claude-code", [U("x")])[-1]
    noise = (json.dumps({"type": "attachment", "attachment": "y" * 50_000}) + "\n").encode()
    for turn in range(turns):
        told = [A(f"turn {turn}"), C(f"make part{turn}", 2, "boom"), E(f"part{turn}.c", "fixed"),
                C(f"make part{turn}", 0)]  # fmt: skip
        for text in writers.claude_code(f"t{turn}", told):
            yield text.replace("toolu_", f"toolu_{turn}_").encode() + b"\n" + noise
    yield line.encode()


@requirement("DIS-8")
def test_a_huge_transcript_takes_no_more_memory_than_what_is_kept_of_it():
    def peak(turns):
        tracemalloc.start()
        try:
            session = session_in("claude-code", files.lines_of(Endless(a_huge_session(turns))))
            return tracemalloc.get_traced_memory()[1], session
        finally:
            tracemalloc.stop()

    small, few = peak(5)
    large, many = peak(80)
    assert len(few.entries) == 21 and len(many.entries) == 321
    assert large - small < 3_000_000, "16 times as much was read"


def test_of_a_session_without_end_what_matters_is_kept(monkeypatch):
    monkeypatch.setattr(steps, "FIRST", 10)
    monkeypatch.setattr(steps, "LAST", 10)
    monkeypatch.setattr(steps, "MOST", 60)
    told = [U("begin")]
    told += [A(f"thought {n}") for n in range(40)]
    told += [C("make", 2, "boom"), E("a.c"), C("make", 0)]
    told += [C(f"ls {n}") for n in range(60)]
    told += [U("and now?"), *(A(f"end {n}") for n in range(30))]
    session = session_in("claude-code", written("claude-code", told))
    assert len(session.entries) + session.left_out == len(told)
    assert session.task == "begin"
    commands = [(e.command, e.exit_code) for e in session.entries if isinstance(e, Command)]
    assert commands[:2] == [("make", 2), ("make", 0)]
    said = [e.text for e in session.entries if isinstance(e, Turn)]
    assert "and now?" in said and said[-1] == "end 29"
    trace = checked(to_trace(session, None))
    assert trace.metadata["steps_left_out"] == of_trace(trace).left_out > 50
    more = session_in("claude-code", written("claude-code", [*told, A("more")]))
    kept = len(session.entries) - 10
    assert more.entries[:kept] == session.entries[:kept], "it begins as it did"


def test_a_chat_that_is_one_document_is_read_as_one_of_lines(tmp_path):
    """As Gemini CLI wrote them until 2026."""
    lines = [json.loads(line) for line in written("gemini-cli")]
    messages = [line for line in lines if "type" in line]
    document = {k: v for k, v in lines[0].items() if k != "kind"} | {"messages": messages}
    (tmp_path / "chats").mkdir()
    path = tmp_path / "chats" / "session-2025.json"
    (tmp_path / ".project_root").write_text("/home/me/app\n")
    for indent in (2, None):
        path.write_text(json.dumps(document, indent=indent))
        session = session_at(path)
        assert session.agent == "gemini-cli" and session.directory == "/home/me/app"
        assert [type(e).__name__ for e in session.entries] == [
            "Turn", "Turn", "Command", "Edit", "Command", "Turn",
        ]  # fmt: skip


def test_the_oldest_rollouts_of_codex_have_no_payload(tmp_path):
    lines = [json.loads(line) for line in written("codex")]
    old = [{"id": "old", "timestamp": "2025-06-01T00:00:00Z", "instructions": None}]
    old += [line["payload"] for line in lines if line["type"] == "response_item"]
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    session = session_at(path)
    assert (session.agent, session.id) == ("codex", "old")
    assert session.task == "Fix the total" and len(session.entries) == 6


def test_what_python_cannot_decompress_is_said(tmp_path):
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(b"(\xb5/\xfd")
    try:
        from compression import zstd  # noqa: F401
    except ImportError:
        with pytest.raises(InvalidInput, match=r"3\.14"):
            session_at(path)


def test_what_was_taken_back_did_not_happen():
    def gemini(*steps):
        return [json.loads(line) for line in written("gemini-cli", list(steps))]

    lines = gemini(U("first"), C("make", 1, "boom"), U("second"), C("make x", 0))
    second = next(line["id"] for line in lines if "second" in str(line.get("content")))
    lines.append({"$rewindTo": second})
    session = session_in("gemini-cli", map(json.dumps, lines))
    assert [getattr(e, "command", "") or e.text for e in session.entries] == ["first", "make"]


def test_what_a_subagent_did_is_no_session(tmp_path):
    codex = [json.loads(line) for line in written("codex")]
    codex[0]["payload"]["source"] = {"subagent": {"thread_spawn": {}}}
    gemini = [json.loads(line) for line in written("gemini-cli")]
    gemini[0]["kind"] = "subagent"
    for lines in (codex, gemini):
        path = tmp_path / "s.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert session_at(path).entries == ()
    sidechain = [json.loads(line) | {"isSidechain": True} for line in written("claude-code")]
    assert session_in("claude-code", map(json.dumps, sidechain)).entries == ()


@EACH
def test_what_a_session_says_again_happened_once(agent, tmp_path):
    """A resumed session repeats what it resumes."""
    if agent == "codex":
        pytest.skip("its lines have no names; it does not repeat them")
    lines = written(agent)
    path = tmp_path / "s.jsonl"
    path.write_text("".join(f"{line}\n" for line in itertools.chain(lines, lines)))
    assert len(session_at(path).entries) == 6


def test_a_patch_and_its_report_are_one_edit():
    lines = [json.loads(line) for line in written("codex", [U("go"), E("app/core.py")])]
    item = {"type": "FileChange", "status": "completed",
            "changes": {"/home/me/app/app/core.py": {"type": "update"},
                        "/home/me/app/other.py": {"type": "add"}}}  # fmt: skip
    lines.append({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})
    session = session_in("codex", map(json.dumps, lines))
    assert [e.path for e in session.entries[1:]] == ["app/core.py", "/home/me/app/other.py"]


def test_what_a_hook_made_an_agent_ask_itself_was_not_said_by_the_user():
    lines = [json.loads(line) for line in written("copilot-cli", [U("go"), A("done")])]
    asked = "What did this task teach?"
    output = {"decision": "block", "reason": asked}
    lines.append({"type": "hook.end", "data": {"hookType": "agentStop", "output": output}})
    lines.append({"type": "user.message", "data": {"content": asked}})
    session = session_in("copilot-cli", map(json.dumps, lines))
    assert [e.text for e in session.entries] == ["go", "done"]

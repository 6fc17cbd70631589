"""`reasonbank mcp` speaks before it loads anything, and loses nothing of what it is told."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
import threading

import pytest
from tests.requirement import requirement
from tests.surfaces.mcp_agent import LESSON, command
from tests.surfaces.test_mcp_opening import AGENTS, READY, handshake, lines_of, listed

from reasonbank import Bank, Settings
from reasonbank.settings import Embed

HEAVY = {
    "mcp", "numpy", "pydantic", "apsw", "click", "anyio", "asyncio", "httpx2", "starlette", "rich",
    "typing", "dataclasses", "importlib.metadata", "reasonbank.bank", "reasonbank.settings",
}  # fmt: skip
HELLO = [handshake("2025-06-18", {"name": "test", "version": "1"}), READY]
LIST = listed(1, "tools/list")

# Notes what is loaded whenever something is written to standard output.
WATCHED = """
import os, sys
write = os.write
def watched(to, data):
    if to == 1:
        write(2, " ".join(sys.modules).encode() + b"\\n")
    return write(to, data)
os.write = watched
sys.argv[0] = "reasonbank"
from reasonbank.surfaces.cli import main
sys.exit(main())
"""


def calling(id, tool, **given):
    return listed(id, "tools/call", params={"name": tool, "arguments": given})


def started(folder, *arguments, code=None, **more):
    [python, *usual], environment = command(folder, *(arguments or ("mcp", "--tools", "core")))
    told = ["-c", code, *usual[2:]] if code else usual
    return subprocess.Popen(
        [python, *told], env=environment | more, cwd=folder, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def sent(process, *messages):
    process.stdin.write(b"".join(lines_of(messages)))
    process.stdin.flush()


def answer(process):
    return json.loads(process.stdout.readline())


def stored(folder):
    url = f"sqlite:///{folder}/bank.db"
    with Bank.open(url, workspace=folder, settings=Settings(embed=Embed(model="hashed"))) as bank:
        return {memory.title for memory in bank.memories()}


@requirement("MCP-5")
@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_is_loaded_before_an_agent_has_its_tools(tmp_path, agent):
    with started(tmp_path, code=WATCHED) as process:
        lines = b"".join(lines_of(AGENTS[agent]))
        out, loaded = process.communicate(lines, timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [tool["name"] for told in answers for tool in told["result"].get("tools", ())] == [
        "memory_search", "memory_record", "memory_outcome",
    ]  # fmt: skip
    for modules in loaded.decode().splitlines():
        assert set(modules.split()) & HEAVY == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bank", "URL", "mcp"],
        ["mcp", "--bank", "URL", "--tools", "core", "--workspace", "HERE"],
        ["mcp", "--tools=core", "--bank=URL", "--workspace=HERE"],
        ["--workspace", "HERE", "--bank", "URL", "mcp", "--tools", "core"],
    ],
)
def test_every_way_to_start_it_ends_in_the_same_server(tmp_path, arguments):
    other = tmp_path / "other.db"
    words = {"URL": f"sqlite:///{other}", "HERE": str(tmp_path)}
    for word, meant in words.items():
        arguments = [each.replace(word, meant) for each in arguments]
    with started(tmp_path, *arguments) as process:
        sent(process, *HELLO, LIST, calling(2, "memory_record", **LESSON))
        answers = [answer(process) for _ in range(3)]
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert [told["id"] for told in answers] == [0, 1, 2]
    assert len(answers[1]["result"]["tools"]) == (3 if "core" in str(arguments) else 21)
    assert "error" not in answers[2] and not answers[2]["result"]["isError"]
    assert other.exists() and not (tmp_path / "bank.db").exists()


@pytest.mark.parametrize("arguments", [["mcp", "--help"], ["mcp", "--tools", "few"], ["mcp", "x"]])
def test_what_is_no_usual_start_is_told_as_by_every_command(tmp_path, arguments):
    with started(tmp_path, *arguments) as process:
        out, error = process.communicate(b"".join(lines_of(HELLO)), timeout=60)
    assert process.returncode == (0 if "--help" in arguments else 2)
    assert b"Usage: " in out + error


def test_what_comes_while_it_loads_is_answered_in_order(tmp_path):
    long = [LESSON | {"title": f"Long {n}", "content": "Wait. " * 5_000} for n in range(4)]
    calls = [calling(n + 2, "memory_record", **each) for n, each in enumerate(long)]
    with started(tmp_path) as process:
        # More than a pipe holds: it must be read while nobody answers yet.
        writer = threading.Thread(target=sent, args=(process, *HELLO, LIST, *calls))
        writer.start()
        answers = [answer(process)["id"] for _ in range(6)]
        writer.join()
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == b""
    assert answers[:2] == [0, 1] and sorted(answers) == list(range(6))
    assert stored(tmp_path) == {each["title"] for each in long}


def test_the_server_knows_the_client_that_was_answered_before_it(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    opened = handshake("2025-06-18", {"name": "test", "version": "1"}, roots={})
    with started(tmp_path) as process:
        sent(process, opened, READY, LIST, calling(2, "memory_record", **LESSON))
        assert [answer(process)["id"] for _ in range(2)] == [0, 1]
        asked = answer(process)
        assert asked["method"] == "roots/list"
        named = {"roots": [{"uri": project.as_uri()}]}
        sent(process, {"jsonrpc": "2.0", "id": asked["id"], "result": named})
        assert answer(process)["id"] == 2
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert stored(project.parent) == set()


def test_a_call_is_carried_out_though_input_ended_before_the_server_was_there(tmp_path):
    with started(tmp_path) as process:
        lines = lines_of([*HELLO, LIST, calling(2, "memory_record", **LESSON)])
        process.communicate(b"".join(lines), timeout=60)
        assert process.returncode == 0
    assert stored(tmp_path) == {LESSON["title"]}


def by_end_of_input(process):
    process.stdin.close()


def by_interrupt(process):
    os.killpg(process.pid, signal.SIGINT)


def by_termination(process):
    process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("told", [by_end_of_input, by_interrupt, by_termination])
def test_it_ends_in_order_while_it_loads(tmp_path, told):
    with started(tmp_path) as process:
        sent(process, *HELLO, LIST)
        assert [answer(process)["id"] for _ in range(2)] == [0, 1]
        told(process)
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == process.stderr.read() == b""


def test_control_c_at_a_terminal_ends_it(tmp_path):
    far, near = pty.openpty()
    arguments, environment = command(tmp_path, "mcp")
    process = subprocess.Popen(
        arguments, stdin=near, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path,
        env=environment, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(near)
    with process:
        os.write(far, b"".join(lines_of([*HELLO, LIST])))
        assert [answer(process)["id"] for _ in range(2)] == [0, 1]
        os.write(far, b"\x03")
        assert process.wait(timeout=60) == 0
    os.close(far)


def test_a_bank_that_cannot_be_opened_is_told_where_it_is_seen(tmp_path):
    (tmp_path / "bank.db").write_text("This is no bank. " * 99)
    with started(tmp_path) as process:
        search = calling(2, "memory_search", query="uploads")
        sent(process, *HELLO, search)
        told = [answer(process) for _ in range(2)]
        sent(process, listed(3, "tools/list"), listed(4, "prompts/get", params={"name": "judge"}))
        told += [answer(process) for _ in range(2)]
        process.stdin.close()
        assert process.wait(timeout=60) == 5
        [line] = process.stderr.read().decode().splitlines()
    assert told[1]["result"]["isError"]
    [block] = told[1]["result"]["content"]
    assert str(tmp_path / "bank.db") in block["text"] and "Tell your user" in block["text"]
    assert len(told[2]["result"]["tools"]) == 3
    assert "cannot be opened" in told[3]["error"]["message"]
    assert line.startswith("Error: ")


def test_a_bank_that_cannot_be_opened_is_an_error_where_no_client_spoke(tmp_path):
    (tmp_path / "bank.db").write_text("This is no bank. " * 99)
    with started(tmp_path) as process:
        out, error = process.communicate(b"", timeout=60)
    assert (process.returncode, out) == (5, b"")
    assert error.startswith(b"Error: ")

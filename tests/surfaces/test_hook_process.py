"""A hook as agents start it: it never fails, never complains, and never keeps anybody waiting."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hook_calls import Machine, a_command, ended, payload
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.surfaces.agents import Event
from reasonbank.surfaces.hooks import fired
from reasonbank.surfaces.hooks.client import SECONDS
from reasonbank.testing import a_memory, a_warning

LESSON = "Run the suite with -p no:randomly when a test is flaky"
ASKED = "one of our tests is flaky, what shall I do?"
PUSH = "git push origin main"
PATIENCE = 2 * SECONDS
"""It ends by itself after SECONDS; where much goes on it starts late. Agents wait for 8."""
CLIENT = "import sys; from reasonbank.surfaces.hooks.client import main; main(sys.argv[1:])"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def stocked(machine: Machine) -> Machine:
    """With a bank that knows something about the project."""
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        bank.record(a_memory(title=LESSON, description="When a test is flaky", content=LESSON))
        bank.record(a_warning("PushRejected", f"{PUSH} is rejected: protected", "Open a PR."))
        bank.embed_new()
    return machine


def prompt(machine: Machine, session: str = "one") -> dict:
    return payload("prompt", machine.project, session=session, prompt=ASKED)


def assert_harmless(answer) -> None:
    assert (answer.code, answer.complained) == (0, "")
    assert answer.seconds < PATIENCE
    if answer.printed:
        assert LESSON in answer.text or PUSH in answer.text


# Without a server


@requirement("CLI-5")
def test_a_hook_makes_no_bank(machine):
    for event in Event:
        answer = machine.hook(event, payload(event, machine.project, prompt=ASKED))
        assert_harmless(answer)
        assert answer.printed == ""
    assert not machine.bank.parent.exists()
    assert machine.word("prompt") == "silent"


def test_a_tool_of_ours_gets_leave_where_only_a_hook_can_give_it(machine):
    """Also where there is no bank yet, and never for what only speaks of such a tool."""

    def asked(tool: str, agent: str = "copilot-cli", **arguments: str) -> str:
        told = {"toolName": tool, "toolArgs": arguments, "cwd": str(machine.project)}
        answer = machine.hook("before-tool", told, agent=agent)
        assert (answer.code, answer.complained) == (0, "")
        return answer.printed

    assert json.loads(asked("reasonbank-memory_record")) == {"permissionDecision": "allow"}
    assert asked("reasonbank-memory_forget") == ""
    assert asked("bash", command='echo \'"toolName":"reasonbank-memory_record"\'') == ""
    assert asked("mcp__reasonbank__memory_record", agent="claude-code") == ""
    assert not machine.bank.parent.exists()


def test_a_hook_by_itself_answers_by_meaning_and_notes_what_it_showed(stocked):
    answer = stocked.heard("prompt", prompt=ASKED)
    assert LESSON in answer.text
    assert stocked.word("prompt") == "ok"
    # What it showed is written down when it has ended.
    with Bank.open(f"sqlite:///{stocked.bank}", workspace=stocked.project) as bank:
        while not bank.context.read().session_uses(bank.view, answer.session):
            time.sleep(0.01)
    assert stocked.heard("prompt", prompt=ASKED, session=answer.session).printed == ""
    assert stocked.word("prompt") == "silent"
    with Bank.open(f"sqlite:///{stocked.bank}", workspace=stocked.project) as bank:
        assert bank.credit(answer.session, succeeded=True) == 1


def test_a_warning_needs_neither_numpy_nor_a_model(stocked):
    told = payload("before-tool", stocked.project, **a_command(PUSH))
    code = (
        "import os, sys\n"
        "from reasonbank.surfaces.hooks import alone, client\n"
        "call = client.Call(['before-tool', '--agent', 'claude-code'], dict(os.environ), '/')\n"
        f"call.told = {json.dumps(told).encode()!r}\n"
        "alone.answer(call, os.dup(1))\n"
        "print('\\nloaded', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=stocked.environment,
                          capture_output=True, check=True, text=True,
                          errors="replace")  # fmt: skip
    answer, _, loaded = done.stdout.partition("\nloaded ")
    assert "protected" in answer
    heavy = {"numpy", "click", "rich", "pydantic", "httpx2", "mcp", "asyncio", "opentelemetry"}
    assert not heavy & set(loaded.split())


@requirement("CLI-3")
@pytest.mark.parametrize(
    "given",
    [b"", b"{", b"[1, 2]", b"null", b"\xff\xfe\x00", b'{"prompt": 5}', b"[" * 100_000,
     b'{"prompt": "\\ud800"}', b'{"session_id": {"a": []}, "cwd": 7, "prompt": ["x"]}',
     b'{"prompt": "' + b"x" * 10_000_000 + b'"}', b"x" * 20_000_000],
    ids=lambda given: f"{given[:12]!r} {len(given)}",
)  # fmt: skip
def test_whatever_it_is_told_it_is_harmless(stocked, given):
    assert_harmless(stocked.hook("prompt", given))


@pytest.mark.parametrize(
    "options", [("nonsense",), (), ("prompt", "--bank"), ("prompt", "--what", "--agent")]
)
def test_whatever_it_is_called_with_it_is_harmless(stocked, options):
    event, *more = options or ("",)
    assert_harmless(stocked.hook(event, prompt(stocked), options=tuple(more), agent="../x y"))


@pytest.mark.parametrize(
    "broken",
    [{"HOME": "/nonexistent/at/all"}, {"HOME": "/dev/null"}, {"REASONBANK_URL": "sqlite:////"},
     {"REASONBANK_URL": "sqlite:////dev/null"}, {"REASONBANK_URL": "postgres://nowhere/x"},
     {"REASONBANK_NONSENSE": "1"}, {"REASONBANK_CONFIG": "/nonexistent"},
     {"XDG_STATE_HOME": "/dev/null/x"}],
    ids=str,
)  # fmt: skip
def test_in_whatever_surroundings_it_is_harmless(stocked, broken):
    stocked.extra = broken
    for event, told in (("prompt", {"prompt": ASKED}), ("session-end", {"reason": "exit"})):
        assert_harmless(stocked.hook(event, payload(event, stocked.project, **told)))


def test_a_settings_file_that_is_broken_is_noted_for_doctor(stocked):
    config = stocked.folder / "home/.config/reasonbank/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("nonsense = [")
    assert_harmless(stocked.heard("prompt", prompt=ASKED))
    assert stocked.word("prompt").startswith("failed: ")
    config.write_text("[hooks]\nenabled = false\n")
    assert stocked.heard("prompt", prompt=ASKED).printed == ""
    assert stocked.word("prompt") == "silent: hooks.enabled is false"


def test_a_bank_that_is_none_is_left_alone(machine):
    machine.bank.parent.mkdir(parents=True)
    machine.bank.write_bytes(b"not a database at all" * 100)
    before = machine.bank.read_bytes()
    assert_harmless(machine.hook("prompt", prompt(machine)))
    assert machine.bank.read_bytes() == before


def test_streams_that_are_closed_are_no_trouble(stocked):
    before = stocked.bank.stat().st_size
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", CLIENT, "prompt",
             "--agent", "claude-code"],
            input=json.dumps(prompt(stocked, closed)).encode(), capture_output=True,
            cwd=stocked.project, env=stocked.environment, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
    with Bank.open(f"sqlite:///{stocked.bank}", workspace=stocked.project) as bank:
        assert bank.store.ledger.check() == []
    assert stocked.bank.stat().st_size >= before


def test_one_whose_agent_never_closes_the_input_gives_up(stocked):
    process = stocked.start("prompt")
    assert process.stdin is not None
    process.stdin.write(b'{"prompt": ')
    process.stdin.flush()
    process.wait()
    answer = ended(process, process.stdout.read(), process.stderr.read())
    process.stdin.close(), process.stdout.close(), process.stderr.close()
    assert_harmless(answer)
    assert stocked.word("prompt") == "late"


@contextmanager
def locked(bank: Path):
    holder = sqlite3.connect(bank, isolation_level=None)
    holder.execute("begin immediate")
    try:
        yield
    finally:
        holder.rollback()
        holder.close()


def test_a_bank_that_somebody_keeps_locked_is_read_all_the_same(stocked):
    with locked(stocked.bank):
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text
        answer = stocked.hook(
            "session-end", payload("session-end", stocked.project, transcript_path="/tmp/x.jsonl")
        )
        assert_harmless(answer)
        assert stocked.word("session-end") == "late"


# With one


def test_a_server_answers_and_is_told_of_by_nothing_but_its_speed(stocked):
    with stocked.server() as server:
        answer = stocked.heard("prompt", prompt=ASKED)
        assert LESSON in answer.text
        assert stocked.heard("prompt", prompt=ASKED, session=answer.session).printed == ""
        assert "protected" in stocked.heard("before-tool", **a_command(PUSH)).text
        assert len(stocked.doors()) == 1
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        assert stocked.doors() == []


def test_an_agents_own_server_answers_as_well(stocked):
    with stocked.server("mcp", "--tools", "core") as server:
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        assert stocked.doors() == []


def test_one_that_was_killed_is_not_missed(stocked):
    with stocked.server() as server:
        server.kill()
        server.wait()
        assert len(stocked.doors()) == 1
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text
        while stocked.doors():  # Taken away by whoever found nobody there.
            time.sleep(0.01)


def test_one_that_stands_still_is_not_waited_for(stocked):
    with stocked.server() as server:
        server.send_signal(signal.SIGSTOP)
        answer = stocked.heard("prompt", prompt=ASKED)
        assert_harmless(answer)
        assert LESSON in answer.text
        server.send_signal(signal.SIGCONT)
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text


def test_of_several_any_will_do(stocked):
    with stocked.server() as one, stocked.server():
        one.send_signal(signal.SIGSTOP)
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text
        one.kill()
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text


def test_a_server_of_another_bank_says_so(stocked):
    other = stocked.folder / "other.db"
    with Bank.open(f"sqlite:///{other}", workspace=stocked.project) as bank:
        bank.record(a_warning("PushRejected", f"{PUSH} is rejected: elsewhere", "Open a PR."))
    there = ("--bank", f"sqlite:///{other}")
    with stocked.server():
        assert "elsewhere" in stocked.heard("before-tool", options=there, **a_command(PUSH)).text
        # As if the folder of one bank were taken for that of another.
        os.symlink(f"{stocked.bank}.hooks", f"{other}.hooks")
        assert "elsewhere" in stocked.heard("before-tool", options=there, **a_command(PUSH)).text


def test_the_door_is_its_owners_alone(stocked):
    folder = Path(f"{stocked.bank}.hooks")
    folder.mkdir(mode=0o755)
    with stocked.server():
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / stocked.doors()[0]).stat().st_mode & 0o777 == 0o600
        # A folder that others could have put something into is not trusted.
        folder.chmod(0o777)
        stocked.extra = {"REASONBANK_HOOKS_WARN": "false"}
        assert LESSON in stocked.heard("prompt", prompt=ASKED).text


def test_a_place_too_long_for_a_socket_is_reached_all_the_same(tmp_path):
    machine = Machine(tmp_path / ("long" * 20) / ("name" * 20))
    machine.folder.mkdir(parents=True)
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        bank.record(a_memory(title=LESSON, description="When a test is flaky", content=LESSON))
    with machine.server():
        assert LESSON in machine.heard("prompt", prompt=ASKED).text


# What is noted


def test_doctor_can_tell_when_hooks_were_called(stocked):
    stocked.heard("prompt", prompt=ASKED)
    stocked.heard("before-tool", **a_command("ls"))
    found = fired.last("claude-code", stocked.environment)
    assert {event: word for event, (_, word) in found.items()} == {
        Event.PROMPT: "ok", Event.BEFORE_TOOL: "silent",
    }  # fmt: skip
    assert fired.last("codex", stocked.environment) == {}


# Many


def storm(machine: Machine, count: int, at_once: int = 16) -> list:
    """Hooks of all kinds, so many at once."""

    def one(number: int):
        event = list(Event)[number % 4]
        more = a_command(PUSH) if number % 2 else {"prompt": ASKED}
        told = payload(event, machine.project, session=f"s{number}", **more)
        return machine.hook(event, told)

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, range(count)))


@contextmanager
def restarting(machine: Machine):
    """Servers that are killed, and started again, all the time."""
    done = threading.Event()

    def again() -> None:
        while not done.is_set():
            with machine.server():
                done.wait(0.3)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def in_every_weather(machine: Machine, count: int) -> list:
    answers = storm(machine, count)
    with machine.server() as server:
        answers += storm(machine, count)
        server.send_signal(signal.SIGSTOP)
        answers += storm(machine, count)
        server.send_signal(signal.SIGCONT)
    with restarting(machine):
        answers += storm(machine, count)
    return answers


@requirement("CLI-3")
def test_many_at_once_with_the_server_down_up_still_and_restarting(stocked):
    for answer in in_every_weather(stocked, 16):
        assert_harmless(answer)


@pytest.mark.slow
def test_a_thousand_at_once_with_the_server_down_up_still_and_restarting(stocked):
    answers = in_every_weather(stocked, 250)
    assert len(answers) == 1000
    for answer in answers:
        assert_harmless(answer)


def malformed(seed: int) -> bytes:
    """A payload that no agent should send: cut off, of other types, nested, or no text at all."""
    chance = random.Random(seed)
    anything = [
        None, True, -1, 1e308, "", "x" * 5000, "\x00", "../..", [], {}, [[[]]], "\ud800", "{",
        {"command": None}, {"command": ["sh", "-c", 5]}, {"": {"": ""}},
    ]  # fmt: skip
    names = [
        "session_id", "cwd", "prompt", "tool_name", "tool_input", "tool_response", "error",
        "transcript_path", "hook_event_name", "stop_hook_active", "toolArgs", "sessionId",
    ]  # fmt: skip
    told = {name: chance.choice(anything) for name in chance.sample(names, chance.randint(0, 12))}
    given = json.dumps(told).encode()
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(given) + 1)
        given = chance.choice([given[:at], given[:at] + chance.randbytes(3) + given[at:], given])
    return given


@requirement("CLI-3")
def test_two_hundred_malformed_payloads(stocked):
    def one(seed: int):
        event = list(Event)[seed % len(Event)]
        agent = ("claude-code", "codex", "gemini-cli", "copilot-cli", "opencode")[seed % 5]
        return stocked.hook(event, malformed(seed), agent=agent)

    with stocked.server(), ThreadPoolExecutor(8) as pool:
        for answer in pool.map(one, range(200)):
            assert (answer.code, answer.printed, answer.complained) == (0, "", "")
            assert answer.seconds < PATIENCE


# Disks


@pytest.fixture
def small_disk(tmp_path: Path):
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)],
                             capture_output=True, check=False, text=True)  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_on_a_disk_that_takes_nothing_it_tells_what_is_known(small_disk, trouble):
    machine = Machine(small_disk)
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        bank.record(a_memory(title=LESSON, description="When a test is flaky", content=LESSON))
        bank.embed_new()
    if trouble == "full":
        with pytest.raises(OSError, match="No space"):
            (small_disk / "ballast").write_bytes(bytes(10_000_000))
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    answers = [machine.hook("prompt", prompt(machine)) for _ in range(5)]
    assert any(LESSON in answer.text for answer in answers)
    for answer in answers:
        assert_harmless(answer)
    assert_harmless(machine.hook("session-end", payload("session-end", machine.project)))

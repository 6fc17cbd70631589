"""Verifiers: who may name one, what it is given, and what it cannot do."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import anyio
import pytest

from reasonbank import Settings
from reasonbank.agent.files import UnusableFiles, files_of
from reasonbank.agent.solve import solve
from reasonbank.agent.verify import Verifier, verifier
from reasonbank.errors import InvalidInput, InvalidSetting, Refused
from reasonbank.model import Outcome
from reasonbank.settings import Embed, Sandbox, check, load
from tests.agent.boxes import OPEN, needs_a_closed_box
from tests.agent.player import Player
from tests.requirement import requirement

PYTHON = sys.executable


def box(**limits):
    limits = {"seconds": 20.0, "output_kb": 64} | limits
    return Verifier(name="run", command=(PYTHON, "solution.py"), limits=Sandbox(**limits))


def verified(code, **limits):
    return anyio.run(box(**limits).verify, code)


@requirement("AGT-2")
def test_the_exit_code_decides_and_the_output_is_the_report():
    right = verified("print('all well')", **OPEN)
    assert right.passed and "all well" in right.report
    wrong = verified("assert 1 == 2, 'one is not two'", **OPEN)
    assert not wrong.passed and "one is not two" in wrong.report


def test_nothing_of_our_environment_is_handed_on(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-you")
    seen = verified("import os; print(sorted(os.environ))", **OPEN).report
    assert "OPENAI_API_KEY" not in seen and "HOME" in seen


def test_a_hanging_command_is_stopped():
    stopped = verified("import time; time.sleep(1000)", seconds=0.5, **OPEN)
    assert not stopped.passed and "longer than 0.5 seconds" in stopped.report


def test_a_flood_of_output_is_stopped_and_never_held():
    stopped = verified("while True: print('x' * 100_000)", **OPEN)
    assert not stopped.passed and "more than 64 KB" in stopped.report
    assert len(stopped.report) < 5000


def test_success_after_a_flood_is_no_success():
    assert not verified("print('x' * 1_000_000)", **OPEN).passed


def test_a_file_larger_than_the_limit_cannot_be_written():
    full = verified("open('big', 'wb').write(b'x' * 8_000_000)", disk_mb=4, **OPEN)
    assert not full.passed


def test_memory_is_limited():
    eater = "held = []\nwhile True: held.append(b'x' * 10_000_000)"
    assert not verified(eater, memory_mb=200, **OPEN).passed


def test_a_command_without_a_program_is_a_setting_to_correct():
    missing = Verifier(name="nothing", command=("no-such-program-here",))
    with pytest.raises(InvalidSetting, match=r"verify\.nothing"):
        anyio.run(missing.check)


@needs_a_closed_box
def test_many_small_files_cannot_fill_the_disk():
    many = "for n in range(100): open(str(n), 'wb').write(b'x' * 1_000_000)"
    full = verified(many, disk_mb=4)
    assert not full.passed and "No space left" in full.report


@needs_a_closed_box
def test_a_fork_bomb_is_stopped_and_leaves_no_process():
    stopped = verified(f"{MARK}import os\nwhile True: os.fork()", processes=20)
    assert not stopped.passed
    assert _left_behind() == []


@needs_a_closed_box
def test_what_a_command_leaves_running_ends_with_it():
    left = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\nprint('gone')"
    )
    assert verified(MARK + left).passed
    assert _left_behind() == []


# In the name of a process that runs for a test: nothing else on this machine has it.
NAME = f"box{os.getpid()}"
MARK = f"open('/proc/self/comm', 'w').write({NAME!r})\n"


def _left_behind():
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == NAME:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@needs_a_closed_box
def test_there_is_no_network_not_even_to_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        refused = verified(call)
    assert refused.isolated and not refused.passed


@needs_a_closed_box
def test_nothing_outside_can_be_written(tmp_path):
    outside = tmp_path / "outside"
    refused = verified(f"open({str(outside)!r}, 'w').write('here')")
    assert not refused.passed and not outside.exists()


@needs_a_closed_box
def test_the_file_system_cannot_be_made_writable_again(tmp_path):
    outside = tmp_path / "outside"
    remount = (
        "import ctypes\n"
        "ctypes.CDLL(None).mount(None, b'/', None, 32 | 4096, None)\n"
        f"open({str(outside)!r}, 'w').write('here')"
    )
    assert not verified(remount).passed and not outside.exists()


@needs_a_closed_box
def test_other_processes_are_out_of_sight():
    seen = verified(f"import os; os.kill({os.getpid()}, 0)")
    assert not seen.passed and "ProcessLookupError" in seen.report


@pytest.fixture
def no_box(monkeypatch, tmp_path):
    """The launcher of a system without namespaces, as macOS is."""
    launcher = Path(sys.modules["reasonbank.agent.sandbox"].__file__).read_text("utf-8")
    poor = tmp_path / "sandbox.py"
    poor.write_text(launcher.replace('sys.platform == "linux"', 'sys.platform == "none"'))
    monkeypatch.setattr("reasonbank.agent.sandbox.__file__", str(poor))


@pytest.mark.parametrize("surface", ["http", "mcp"])
def test_who_calls_from_elsewhere_gets_a_closed_box_or_nothing(no_box, plain_bank, surface):
    model = Player([RIGHT])
    bank = plain_bank.seen_by(surface=surface)
    with pytest.raises(Refused, match="closed box"):
        solved(bank, model, verify=adding(network="allow"), mode="off")
    assert model.calls == []
    here = solved(plain_bank, Player([RIGHT]), verify=adding(network="allow"), mode="off")
    assert here.outcome is Outcome.SUCCESS and "without a box" in "".join(here.notes)


def test_where_the_network_cannot_be_cut_off_a_verifier_is_refused(no_box):
    with pytest.raises(Refused, match=r"network could not be cut off.*sandbox\.network"):
        verified("print('hello')")
    with pytest.raises(Refused, match="network"):
        anyio.run(box().check)
    allowed = verified("print('hello')", network="allow")
    assert allowed.passed and not allowed.isolated


def test_cancelling_ends_the_command_and_removes_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def run():
        async with anyio.create_task_group() as group:
            group.start_soon(box(**OPEN).verify, f"{MARK}import time; time.sleep(1000)")
            while not _left_behind():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    anyio.run(run)
    assert list(tmp_path.iterdir()) == []
    assert _left_behind() == []


def test_many_verifiers_at_once_leave_no_open_files():
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0

    async def run():
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(box(**OPEN).verify, "print(1)")

    anyio.run(run)
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= before + 1


# The files of a solution


def test_the_longest_code_block_is_the_solution():
    text = "First:\n```python\nx = 1\n```\nthen\n```python\ndef f():\n    return 2\n```\n"
    assert files_of(text) == {"solution.py": "def f():\n    return 2\n"}


def test_text_without_a_code_block_is_the_solution_as_it_is():
    assert files_of("print(1)") == {"solution.py": "print(1)"}


def test_named_code_blocks_are_files():
    text = "```python app/main.py\na\n```\n```js file=web/x.js\nb\n```\n```\nrest\n```\n"
    assert files_of(text) == {"app/main.py": "a\n", "web/x.js": "b\n"}


@pytest.mark.parametrize(
    "name",
    [
        "../escape.py", "/etc/passwd", "a/../../b.py", "a//b.py", "~/x.py", "a\\..\\b.py", "./x.py",
        ".ssh/config", "a/.hidden", "x" * 200 + ".py", "a/" * 20 + "b.py", "nul\0.py", "ü/x.py",
        "conftest.py", "tests/Conftest.py", "pytest.ini", "sitecustomize.py", "-rf/x.py",
    ],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_or_steers_the_verifier_is_refused(name):
    with pytest.raises(UnusableFiles):
        files_of(f"```python {name}\nx = 1\n```\n")


def test_too_many_or_too_large_files_are_refused():
    with pytest.raises(UnusableFiles, match="65 files"):
        files_of("".join(f"```python f{n}.py\n```\n" for n in range(65)))
    with pytest.raises(UnusableFiles, match="characters"):
        files_of("x" * 1_000_001)
    with pytest.raises(UnusableFiles, match="a file and a folder"):
        files_of("```python a/b.py\n```\n```python a\n```\n")


def test_refused_files_are_feedback_and_no_crash():
    refused = verified("```python ../x.py\n1\n```\n", **OPEN)
    assert not refused.passed and "'../x.py'" in refused.report


def test_a_solution_cannot_replace_the_verifiers_own_files():
    tests = Verifier(
        name="tests",
        command=(PYTHON, "check.py"),
        files={"check.py": "raise SystemExit(1)"},
        limits=Sandbox(**OPEN),
    )
    cheating = anyio.run(tests.verify, "```python check.py\npass\n```\n")
    assert not cheating.passed and "verifier's own" in cheating.report


# Who may name one


def test_only_the_settings_name_verifiers():
    settings = check(Settings(verify={"pytest": "pytest -q"}))
    assert verifier(settings, "pytest").command == ("pytest", "-q")
    for name in ("pytest -q", "sh", "PYTEST", "", "pytest; rm -rf /"):
        with pytest.raises(InvalidInput, match=r"\[verify\]: pytest"):
            verifier(settings, name)


def test_verifiers_come_from_a_file_and_the_environment(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('[verify]\npytest = "pytest -q"\nnode = "node --test"\n')
    settings = load({"REASONBANK_CONFIG": str(file), "REASONBANK_VERIFY_NODE": "nodejs --test"})
    assert settings.verify == {"pytest": "pytest -q", "node": "nodejs --test"}


@pytest.mark.parametrize(
    "line",
    ['pytest = ""', "pytest = 7", 'pytest = "\'"', '"a b" = "x"', '"Big" = "x"', 'a = ["x"]'],
)
def test_a_wrong_verifier_is_refused_by_name(tmp_path, line):
    file = tmp_path / "config.toml"
    file.write_text(f"[verify]\n{line}\n")
    with pytest.raises(InvalidSetting, match=r"^verify\."):
        load({"REASONBANK_CONFIG": str(file)})


# In the loop

TESTS = "from solution import add\nassert add([]) == 0\nassert add([1, 2]) == 3\n"
WRONG = "```python\ndef add(xs):\n    return xs[0] + xs[1]\n```"
RIGHT = "```python\ndef add(xs):\n    return sum(xs)\n```"


def adding(**limits):
    return Verifier(
        name="adding", command=(PYTHON, "check.py"), files={"check.py": TESTS},
        limits=Sandbox(**OPEN | limits),
    )  # fmt: skip


def solved(bank, model, **options):
    return anyio.run(lambda: solve(bank.context, "Write add(xs)", model=model, **options))


@requirement("AGT-2")
def test_the_verifier_outranks_the_model(plain_bank):
    wrong, right = WRONG.strip(), RIGHT.strip()
    model = Player([WRONG, RIGHT], scores={wrong: 1.0, right: 0.0})
    solution = solved(plain_bank, model, verify=adding(), mode="parallel", k=2)
    assert solution.solution == right and solution.outcome is Outcome.SUCCESS
    assert solution.attempts[0].score <= 0.5 < 0.8 <= solution.score
    assert model.asked("judge") == [], "what was verified needs no judge"


@requirement("AGT-2")
def test_a_verifier_alone_evaluates_and_its_report_is_the_feedback(plain_bank):
    model = Player([WRONG, RIGHT])
    solution = solved(plain_bank, model, verify=adding(), ask_model=False, mode="off")
    assert [(a.passed, a.score) for a in solution.attempts] == [(False, 0.0), (True, 1.0)]
    assert model.asked("evaluate") == []
    assert "IndexError" in model.asked("think")[1].messages[-1].content


def test_a_solution_that_never_passes_is_a_failure_however_the_model_likes_it(plain_bank):
    model = Player([WRONG, WRONG + " ", WRONG], evaluate={"feedback": "great", "score": 1.0})
    solution = solved(plain_bank, model, verify=adding(), mode="off")
    assert solution.outcome is Outcome.FAILURE
    assert plain_bank.trace(solution.trace_id).metadata["verifier"] == "adding"


def test_a_verifier_that_hangs_fails_the_attempt_and_not_the_run(plain_bank):
    model = Player(["while True: pass", RIGHT])
    solution = solved(plain_bank, model, verify=adding(seconds=6.0), mode="off", ask_model=False)
    assert "longer than 6 seconds" in solution.attempts[0].feedback
    assert solution.outcome is Outcome.SUCCESS


def test_a_box_that_breaks_while_attempts_run_is_one_plain_error(plain_bank):
    class Broken(Verifier):
        async def check(self):
            pass

        async def verify(self, solution):
            raise Refused("the box is gone")

    with pytest.raises(Refused, match="the box is gone"):
        solved(plain_bank, Player(), verify=Broken(name="x", command=("x",)), mode="parallel")
    assert plain_bank.traces() == []


def test_a_verifier_that_cannot_run_is_found_before_any_model_is_paid(open_bank):
    bank = open_bank(
        settings=Settings(embed=Embed(model="hashed"), verify={"gone": "no-such-program"})
    )
    model = Player()
    with pytest.raises(InvalidSetting, match="no-such-program"):
        solved(bank, model, verify="gone")
    assert model.calls == []

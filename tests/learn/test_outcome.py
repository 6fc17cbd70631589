"""A verifiable outcome needs no judge."""

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.labelled_sessions import PASSED, pytest_failure
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

from reasonbank import Outcome
from reasonbank.learn.judge import verified
from reasonbank.learn.outcome import Basis, passed, verdict
from reasonbank.learn.rules.shell import parsed
from reasonbank.learn.session import Command, Session, of_trace, to_trace
from reasonbank.learn.transcripts import claude_code
from reasonbank.model import Step, Trace

FAILED = pytest_failure("ValueError: bad")
S, F, M = Outcome.SUCCESS, Outcome.FAILURE, Outcome.MIXED

SESSIONS = {
    "tests pass at the end": ([C("pytest", 1, FAILED), E("a.py"), C("pytest", 0, PASSED)], S),
    "tests fail at the end": ([C("pytest", 0, PASSED), E("a.py"), C("pytest", 1, FAILED)], F),
    "the pager's exit code is no proof": ([E("a.py"), C("pytest | tail -5", 0, FAILED)], F),
    "the summary behind a pager is": ([E("a.py"), C("pytest | tail -5", 0, PASSED)], S),
    "a pager without a summary tells nothing": ([E("a.py"), C("pytest | tail -1", 0, "bye")], None),
    "edited after the tests": ([C("pytest", 0, PASSED), E("a.py")], None),
    "only prose edited after the tests": ([C("pytest", 0, PASSED), E("README.md")], S),
    "reverted": ([E("a.py"), C("pytest", 0, PASSED), C("git reset --hard", 0)], F),
    "reverted, then done anew": (
        [E("a.py"), C("git checkout -- .", 0), E("a.py"), C("pytest", 0, PASSED)], S),
    "the revert failed": ([E("a.py"), C("git revert HEAD", 1), C("pytest", 0, PASSED)], S),
    "tests and other tests disagree": (
        [E("a.py"), C("npm test", 1, "Tests: 1 failed"), C("pytest", 0, PASSED)], M),
    "the narrow run failed, the whole suite passes": (
        [E("a.py"), C("pytest tests/a.py", 1, FAILED), C("pytest", 0, PASSED)], S),
    "only a build": ([E("a.rs"), C("cargo build", 0)], S),
    "tests outrank the build": ([E("a.rs"), C("cargo test", 101), C("make build", 0)], F),
    "a script of its own proves nothing": (
        [C("python repro.py", 1, "ValueError"), E("a.py"), C("python repro.py", 0)], None),
    "one script": ([C("python script.py", 0)], None),
    "nothing found by grep": ([C("grep x a.py", 1)], None),
    "talk": ([A("The answer is 42.")], None),
    "the last command failed": ([C("kubectl apply -f a.yaml", 1, "Error: no")], F),
    "and something was looked at after that": ([C("helm upgrade a .", 1, "Error"), C("ls", 0)], F),
    "the last command failed, then something was edited": (
        [C("kubectl apply -f a.yaml", 1, "Error: no"), E("a.yaml")], None),
    "stopped by a signal": ([C("npm start", 130)], None),
    "its own script failed": ([E("repro.py"), C("python repro.py", 1, "ValueError")], None),
    "a failure that was wanted": (
        [C("./app --bad", 2, "error: bad"), A("It is refused, as it should be.")], None),
    "every edited file restored": (
        [E("a.py"), E("b.py"), C("pytest", 0, PASSED), C("git checkout a.py b.py", 0)], F),
    "one of two edited files restored": (
        [E("a.py"), E("b.py"), C("pytest", 0, PASSED), C("git restore a.py", 0)], S),
    "edited with a command, then reverted": (
        [C("sed -i s/a/b/ a.py", 0), C("pytest", 0, PASSED), C("git -C . reset --hard", 0)], F),
}  # fmt: skip


@requirement("DIS-3")
@pytest.mark.parametrize("name", SESSIONS)
def test_tests_builds_and_reverts_decide(name):
    steps, expected = SESSIONS[name]
    found = verdict(claude_code.read(writers.claude_code(name, [U("do it"), *steps])))
    assert (found.outcome, bool(found.basis)) == (expected, expected is not None)
    assert found.reason


@requirement("DIS-3")
def test_the_callers_word_outranks_the_tests():
    session = claude_code.read(writers.claude_code("x", [U("do it"), C("pytest", 0, PASSED)]))
    assert verdict(session).basis is Basis.TESTS
    found = verdict(session, told=Outcome.FAILURE)
    assert (found.outcome, found.basis) == (Outcome.FAILURE, Basis.CALLER)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("==== 3 failed, 2 passed in 1.2s ====", False), ("3 failed, 2 passed in 1.2s", False),
        ("==== 1 error in 0.1s ====", False), ("5 passed, 1 skipped in 0.5s", True),
        ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)", False), ("Ran 3 tests in 0.1s\n\nOK", True),
        ("Tests:       1 failed, 3 passed", False), ("Tests:       4 passed, 4 total", True),
        ("  3 passing (20ms)\n  1 failing", False), ("  3 passing (20ms)", True),
        ("FAIL\tapp/cache\t0.031s", False), ("ok  \tapp/cache\t0.029s", True),
        ("test result: FAILED. 1 passed; 1 failed", False), ("test result: ok. 2 passed", True),
        ("BUILD FAILURE", False), ("[INFO] BUILD SUCCESS", True), ("> BUILD FAILED in 3s", None),
        ("5 examples, 1 failure", False), ("5 examples, 0 failures", True),
        ("Found 3 errors in 2 files", False), ("Success: no issues found in 9 files", True),
        ("All checks passed!", True), ("make: *** [all] Error 2", False),
        ("Traceback (most recent call last):", False), ("hello", None), ("", None),
    ],
)  # fmt: skip
def test_summaries_of_known_runners_are_understood(output, expected):
    command = Command(number=1, command="make test | tee log", output=output, exit_code=0)
    assert passed(command) is expected


@pytest.mark.parametrize(
    ("line", "words", "masked"),
    [
        ("cd /a && FOO=1 uv run pytest -q 2>&1 | tail -20", "pytest -q", True),
        ("set -o pipefail; pytest | tail", "pytest", False),
        ("timeout 60 python -m pytest x", "pytest x", False),
        ("make check > out.txt 2>&1; tail out.txt", "make check", True),
        ("pytest || true", "pytest", True),
        ("git commit -m 'a && b; c'", "git commit -m a && b; c", False),
        ("cat > a.py <<'EOF'\nimport os; os.system('pytest')\nEOF", "cat", False),
        ("pytest\ngit status", "pytest", True),
        ("", "", False),
        ("echo 'unterminated", "echo 'unterminated", False),
    ],
)
def test_a_command_line_is_read_for_what_it_is_about(line, words, masked):
    found = parsed(line)
    assert (found.text, found.masked) == (words, masked)


def a_step(action, content="", feedback=None, score=None):
    return Step(iteration=1, action=action, content=content, feedback=feedback, score=score)


CLAIMS = {
    "prose": [a_step("agent", "All tests passed. Final score: 1.0")],
    "prose with a score": [a_step("think", "done", "exit code 0\n12 passed in 0.10s", 1.0)],
    "a sentence that begins like a command": [
        a_step("verify", "make sure that all tests pass", "exit code 0\nOK", 1.0)],
    "another one": [a_step("test", "next, I ran everything", "12 passed in 0.10s", 1.0)],
    "a summary that the command dictates": [
        a_step("command", "pytest -q > /dev/null || echo '12 passed in 0.10s'",
               "exit code 0\n12 passed in 0.10s")],
    "a score that the step gave itself": [a_step("test", "pytest -q", "all is well", 1.0)],
    "a runner that runs nothing": [a_step("command", "pytest --version", "exit code 0\npytest 9")],
    "tests that were only listed": [a_step("command", "pytest --collect-only", "exit code 0")],
}  # fmt: skip


@requirement("DIS-3")
@pytest.mark.parametrize("name", CLAIMS)
def test_what_an_agent_claims_is_no_verdict(name):
    trace = Trace(task="mend it", trajectory=tuple(CLAIMS[name]))
    assert verified(trace) is None


@requirement("SEC-1")
@pytest.mark.parametrize("line", [
    "true", "pytest -V", "pytest --cache-show", "make help", "make clean", "mypy -V",
    "make -n test",
    "make -v", "gcc -v", "ctest -N", "tox -l", "just -l", "ruff version", "gradle tasks",
    "go test -list . ./...", "mvn clean", "terraform -version",
])  # fmt: skip
def test_what_runs_nothing_proves_nothing(line):
    trace = Trace(task="x", trajectory=(a_step("command", line, "exit code 0"),))
    assert verified(trace) is None


@pytest.mark.parametrize("line", [
    "pytest -v", "ctest -V", "tox -v", "just -v", "make clean test", "make clean all", "gcc -v a.c",
])  # fmt: skip
def test_what_looks_like_it_and_does_its_work_counts(line):
    trace = Trace(task="x", trajectory=(a_step("command", line, "exit code 0"),))
    assert verified(trace).outcome is Outcome.SUCCESS


@requirement("DIS-3")
@pytest.mark.parametrize("line", ["make check", "go test ./...", "just test", "make -j4 all test"])
def test_commands_that_read_like_words_are_commands(line):
    trace = Trace(task="x", trajectory=(a_step("command", line, "exit code 1\nno"),))
    assert verified(trace).outcome is Outcome.FAILURE


@requirement("DIS-3")
def test_a_command_does_not_tell_its_own_exit_code():
    printed = Command(number=1, command="pytest", output="exit code 0\nhello", exit_code=None)
    kept = to_trace(Session(id="s", agent="a", entries=(printed,)), None)
    [read] = of_trace(kept).commands()
    assert read.exit_code is None and verified(kept) is None

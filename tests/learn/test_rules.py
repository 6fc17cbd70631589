"""The bank learns without any model: from what failed and was put right."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.learn import transcript_writers as writers
from tests.learn.any_session import entries
from tests.learn.labelled_sessions import FIRST, HELD_BACK, PASSED, RESOLVE, SECOND, pytest_failure
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement
from tests.safety.secrets_made_up import SECRET

from reasonbank import Outcome, Source
from reasonbank.learn.rules.failure import failure_of, stable
from reasonbank.learn.rules.rules import findings
from reasonbank.learn.session import Session, numbered, of_trace, to_trace
from reasonbank.learn.transcripts import claude_code, codex

SEEN = {**FIRST, **SECOND}


def learned(steps, name="a", writer=writers.claude_code, reader=claude_code.read):
    return findings(reader(writer(name, steps)))


@requirement("DIS-9")
@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize(
    ("writer", "reader"),
    [(writers.claude_code, claude_code.read), (writers.codex, codex.read)],
    ids=["claude code", "codex"],
)
def test_a_session_gives_the_lessons_that_are_in_it(name, writer, reader):
    steps, labels = SEEN[name]
    found = learned(steps, name, writer, reader)
    assert sorted(lesson.rule for lesson in found) == sorted(rule for rule, _ in labels)
    for rule, text in labels:
        assert any(text in str(o.memory.to_json()) for o in found if o.rule == rule)


def test_on_sessions_that_no_rule_was_written_for_most_lessons_are_right():
    right = wrong = missed = 0
    for name, (steps, labels) in HELD_BACK.items():
        left = list(labels)
        for lesson in learned(steps, name):
            told = str(lesson.memory.to_json())
            fits = [label for label in left if label[0] == lesson.rule and label[1] in told]
            left = [label for label in left if label not in fits]
            right, wrong = right + bool(fits), wrong + (not fits)
        missed += len(left)
    assert right / (right + wrong) >= 0.9
    assert right / (right + missed) >= 0.7


def test_a_lesson_says_what_failed_what_helped_and_where_it_was_seen():
    (lesson,) = learned(FIRST["npm peer dependencies"][0])
    memory = lesson.memory
    assert (lesson.first, lesson.last) == (2, 4)
    assert (
        memory.title
        == "Use `npm install --legacy-peer-deps` where `npm install` fails with ERESOLVE"
    )
    assert memory.outcome is Outcome.SUCCESS
    assert memory.source is Source.DISTILLED
    assert memory.source_session
    error = memory.error_context
    assert error.error_type == "ERESOLVE"
    assert "unable to resolve dependency tree" in error.failure_pattern
    assert error.corrective_guidance == (
        "Run `npm install --legacy-peer-deps` instead of `npm install`."
    )


def test_a_check_that_kept_failing_gives_a_warning_that_says_what_was_tried():
    (lesson,) = learned(FIRST["kept failing"][0])
    assert lesson.memory.outcome is Outcome.FAILURE
    assert "failed 3 times in a row" in lesson.memory.content
    assert "login.spec.ts" in lesson.memory.error_context.corrective_guidance


TRACE = (
    'Traceback (most recent call last):\n  File "/home/me/app/load.py", line 7, in run\n    run()\n'
    "ValueError: bad header in row 3"
)
ENDED = {
    "its tests fail": [U("Fix it"), E("app/load.py"), C("pytest -q", 1, TRACE), A("I give up.")],
    "its command fails": [U("Load it"), C("python load.py x.csv", 1, TRACE), A("It is broken.")],
    "tried in vain": [
        U("Fix it"), C("pytest -q", 1, TRACE), E("app/load.py"), C("pytest -q", 1, TRACE)],
}  # fmt: skip


@requirement("DIS-4")
@pytest.mark.parametrize("name", ENDED)
def test_a_session_that_ends_with_one_clear_error_leaves_a_warning(name):
    (lesson,) = learned(ENDED[name], name)
    memory = lesson.memory
    assert memory.outcome is Outcome.FAILURE
    assert "ValueError: bad header in row 3" in memory.title and "not put right" in memory.title
    error = memory.error_context
    assert error.error_type == "ValueError"
    assert error.error_message == "bad header in row 3"
    assert error.stack_trace.startswith("Traceback (most recent call last):")
    assert "/home/me" not in error.stack_trace
    assert ("editing app/load.py" in memory.content) is (name == "tried in vain")


NO_FAILURE = {
    "a question": [U("Why does it fail?"), C("pytest -q", 1, TRACE), A("The header is bad.")],
    "a reproduction": [U("Reproduce the bug"), C("python load.py x", 1, TRACE), A("There it is.")],
    "two errors": [U("Fix it"), C("pytest a", 1, TRACE), C("pytest b", 1, "KeyError: 'a'")],
    "edited since": [U("Fix it"), C("pytest -q", 1, TRACE), E("app/load.py")],
    "only that a test fails": [U("Fix it"), C("pytest -q", 1, "E       assert 1 == 2")],
    "style": [U("Lint it"), C("ruff check .", 1, "a.py:1:1: F401 `os` imported but unused")],
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FAILURE)
def test_where_nothing_failed_for_a_clear_reason_there_is_no_warning(name):
    assert learned(NO_FAILURE[name], name) == []


def test_the_callers_word_makes_a_failure_of_it_or_none():
    session = claude_code.read(writers.claude_code("a", ENDED["its tests fail"]))
    assert findings(session, outcome=Outcome.SUCCESS) == []
    asked = claude_code.read(writers.claude_code("a", NO_FAILURE["a question"]))
    assert [found.rule for found in findings(asked, outcome=Outcome.FAILURE)] == ["unsolved"]


NAMED = {
    "what was used instead of it": (
        [C("npm install zod", 0), C("git status", 0), C("cat package.json", 0)],
        "no, use pnpm here", "running `npm install zod`"),
    "the files that were touched": (
        [E("src/generated/api.ts", "export x"), E("src/app.ts", "x()"), C("npm test", 0)],
        "don't touch the generated files", "the edit of generated/api.ts"),
    "something that nobody did": (
        [C("npm test", 0), E("src/app.ts", "x()")],
        "no, never deploy on a Friday", None),
    "what stands in the edit": (
        [E("app/log.py", "print(x)"), C("pytest -q", 0)],
        "please don't print, use logging instead", "the edit of app/log.py"),
    "a command before the last one": (
        [C("git push origin main", 0), C("gh pr list", 0), C("ls", 0)],
        "No, never push to main directly.", "running `git push origin main`"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_correction_is_about_what_it_names(name):
    steps, said, about = NAMED[name]
    (lesson,) = learned([U("do it"), *steps, A("Done."), U(said)], name)
    error = lesson.memory.error_context
    if about is None:
        assert "app.ts" not in str(lesson.memory.to_json())
        assert "npm test" not in str(lesson.memory.to_json())
    else:
        assert error.failure_pattern == f"the user objected to {about}"
    assert said.split(", ")[-1].lower() in lesson.memory.description.lower()


def test_a_users_correction_gives_a_warning_in_the_users_words():
    (lesson,) = learned(FIRST["user wants pnpm"][0])
    error = lesson.memory.error_context
    assert error.corrective_guidance == (
        "No, we use pnpm in this repo. Never run npm install here."
    )
    assert error.failure_pattern == "the user objected to running `npm install zod`"


def test_at_most_three_lessons_come_of_one_session_the_best_first():
    steps = [U("set everything up")]
    for n in range(6):
        tool = f"tool{n}"
        steps += [C(f"{tool} run", 1, f"Error{'ABCDEF'[n]}Error: no"), C(f"{tool} run --fix{n}", 0)]
    steps += [A("Done."), U("no, use the Makefile instead of single tools")]
    found = learned(steps)
    assert len(found) == 3
    assert found[0].rule == "correction"
    assert [o.weight for o in found] == sorted((o.weight for o in found), reverse=True)


def test_the_same_session_gives_the_same_memories_and_can_be_recorded(plain_bank):
    for name, (steps, _) in SEEN.items():
        once, again = learned(steps, name), learned(steps, name)
        assert once == again
        for lesson in once:
            stored = plain_bank.record(lesson.memory)
            assert stored.confidence in (0.6, 0.7)


def test_a_trace_teaches_what_its_session_taught():
    session = claude_code.read(writers.claude_code("a", FIRST["two lessons"][0]))
    assert [o.memory for o in findings(of_trace(to_trace(session, Outcome.SUCCESS)))] == [
        o.memory for o in findings(session)
    ]


def test_nothing_is_learned_from_our_own_echo():
    from reasonbank.testing import a_warning

    echo = a_warning(corrective_guidance="no, use X instead").format_for_prompt()
    assert learned([U("go"), A("ok"), U(echo), C("reasonbank search x", 1, "Error: x"),
                    C("reasonbank search x --limit 2", 0, echo)]) == []  # fmt: skip


def test_a_secret_in_a_command_is_in_no_lesson():
    (lesson,) = learned([U("go"), C(f"deploy --token {SECRET}", 1, "error: bad region"),
                         C(f"deploy --token {SECRET} --region eu", 0)])  # fmt: skip
    assert "--region eu" in lesson.memory.title
    assert SECRET not in str(lesson)


@pytest.mark.parametrize(
    ("output", "type", "pattern"),
    [
        (pytest_failure("KeyError: 'offset'"), "KeyError", "KeyError: 'offset'"),
        (RESOLVE, "ERESOLVE", "ERESOLVE: ERESOLVE unable to resolve dependency tree"),
        ("bash: line 1: pnpm: command not found", "CommandNotFound",
         "CommandNotFound: bash: line <n>: pnpm: command not found"),
        ("cat: /etc/x/y: No such file or directory", "FileNotFound",
         "FileNotFound: cat: <path>: No such file or directory"),
        ("error[E0308]: mismatched types\n --> a.rs", "E0308", "E0308: mismatched types"),
        ("fatal: not a git repository", "fatal", "fatal: not a git repository"),
        ("E       assert 3 == 4", "AssertionError", "AssertionError: assert <n> == <n>"),
    ],
)  # fmt: skip
def test_an_error_is_named_and_quoted_by_its_stable_part(output, type, pattern):
    failure = failure_of(output)
    assert (failure.type, failure.pattern) == (type, pattern)


def test_output_without_an_error_has_none():
    assert failure_of(PASSED) is None
    assert failure_of("") is None


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**9), st.uuids(), st.sampled_from(["/home/a/b.py", "/var/x/c.py", "~/d.py"])
)
def test_the_stable_part_is_the_same_on_every_run_and_machine(number, id, path):
    at = f"2026-01-0{number % 9 + 1}T10:11:12Z"
    told = f"job {id} failed after {number} s at {at} in {path}:{number}"
    assert stable(told) == "job <id> failed after <n> at <time> in <path>"


@settings(max_examples=200, deadline=None)
@given(entries)
def test_any_session_gives_at_most_three_lessons_within_its_steps(found):
    session = Session(id="s", agent="codex", entries=numbered(found))
    for lesson in findings(session):
        assert 1 <= lesson.first <= lesson.last <= len(found)

"""Failures that a warning was there for, told from memories and traces alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.requirement import requirement

from reasonbank.model import Memory, Outcome, Step, Trace
from reasonbank.proof.mistakes import InSessions, Met, Repeated, in_sessions, repeated
from reasonbank.testing import a_memory, a_trace, a_warning

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def warned(id: str, hour: int, error_type: str = "DeadlockDetected", **given: Any) -> Memory:
    known = {"failure_pattern": f"pattern{id}", "id": id}
    at = {"created_at": NOON + timedelta(hours=hour)}
    return a_warning(**known | at | {"error_type": error_type} | given)


def failed(hour: int, task: str, **given: Any) -> Trace:
    known = {"outcome": Outcome.FAILURE, "trajectory": ()}
    at = {"created_at": NOON + timedelta(hours=hour)}
    return a_trace(task=task, **known | at | given)


def counted(memories: list[Memory], *traces: Trace) -> tuple[int, int, dict[str, int]]:
    found = repeated(memories, traces)
    return found.failures, found.warned, dict(found.by_warning)


def test_only_a_warning_from_before_the_failure_counts() -> None:
    trace = failed(5, "DeadlockDetected")
    assert counted([warned("w", 4)], trace) == (2, 1, {"w": 1})
    assert counted([warned("w", 5)], trace) == (2, 0, {})
    assert counted([warned("w", 6)], trace) == (2, 0, {})


def test_what_a_step_did_or_was_told_may_show_the_mistake() -> None:
    def step(**said: str) -> Trace:
        quiet = Step(iteration=1, action="think")
        return failed(1, "nightly job", trajectory=(quiet, Step(iteration=2, action="run", **said)))

    warning = [warned("w", 0)]
    assert counted(warning, step(content="got DeadlockDetected"))[1] == 1
    assert counted(warning, step(feedback="DeadlockDetected"))[1] == 1
    assert counted(warning, step(content="all is", feedback="well"))[1] == 0


def test_words_of_two_steps_do_not_run_into_one_another() -> None:
    steps = tuple(Step(iteration=1, action="run", content=half) for half in ("Dead", "lock"))
    assert counted([warned("w", 0, "Deadlock")], failed(1, "job", trajectory=steps))[1] == 0


def test_a_second_warning_repeats_what_the_first_warned_of_by_type_pattern_or_message() -> None:
    first, second = warned("a", 0), warned("b", 1, "Other")
    error = second.error_context
    assert error is not None
    assert counted([first, second]) == (2, 0, {})
    for said in (
        {"error_type": "DeadlockDetected"},
        {"failure_pattern": "the DeadlockDetected again"},
        {"error_message": "psycopg: DeadlockDetected"},
    ):
        again = replace(second, error_context=replace(error, **said))
        assert counted([first, again]) == (2, 1, {"a": 1})


def test_a_pattern_in_other_words_is_the_same_mistake_when_four_words_of_five_agree() -> None:
    pattern = "alpha bravo charlie delta echo"
    warning = [warned("w", 0, "Nothing", failure_pattern=pattern)]
    assert counted(warning, failed(1, "alpha bravo charlie delta"))[1] == 1
    assert counted(warning, failed(1, "alpha bravo charlie"))[1] == 0


def test_success_is_no_failure_and_a_plain_memory_no_warning() -> None:
    memories = [a_memory(created_at=NOON), warned("w", 0)]
    success = failed(1, "DeadlockDetected", outcome=Outcome.SUCCESS)
    unknown = failed(1, "DeadlockDetected", outcome=None)
    assert counted(memories, success, unknown) == (1, 0, {})


def test_what_has_no_date_cannot_have_come_before() -> None:
    undated = warned("w", 0, created_at=None)
    assert counted([undated], failed(1, "DeadlockDetected")) == (1, 0, {})
    assert counted([warned("w", 0)], failed(1, "DeadlockDetected", created_at=None)) == (1, 0, {})


def test_what_a_failed_trace_was_turned_into_is_that_one_failure() -> None:
    trace = failed(1, "DeadlockDetected", memories_learned=("w", "v"))
    assert counted([warned("w", 2), warned("v", 3, "Other")], trace) == (1, 0, {})


def test_the_warning_that_was_ignored_most_comes_first_and_equals_by_id() -> None:
    warnings = [warned("c", 0, "TimeoutError"), warned("b", 0), warned("a", 0)]
    traces = [failed(1, "DeadlockDetected"), failed(2, "TimeoutError"), failed(3, "TimeoutError")]
    found = repeated(warnings, traces)
    assert found == Repeated(failures=6, warned=3, by_warning=(("c", 2), ("a", 1), ("b", 1)))
    assert found.rate == 3 / 6


def test_without_failures_there_is_no_rate() -> None:
    assert repeated([a_memory()], []).rate is None


# Failures inside of sessions

IN_USE = "exit code 1\nOSError: [Errno 98] Address already in use"


def port(hour: int = 0) -> Memory:
    return warned(
        "w", hour, "OSError", failure_pattern="OSError: [Errno <n>] Address already in use"
    )


def session(*steps: tuple[int, str, str], **given: Any) -> Trace:
    """Commands by their minute, with what they printed."""
    ran = tuple(
        Step(iteration=n, action="command", content=command, feedback=printed,
             at=NOON + timedelta(minutes=minute))
        for n, (minute, command, printed) in enumerate(steps, 1)
    )  # fmt: skip
    known = {"outcome": None, "id": "t", "created_at": NOON + timedelta(hours=9)}
    return a_trace(trajectory=ran, **known | given)


FAILS = (60, "serve", IN_USE)


def met(memories: list[Memory], *traces: Trace, shown: int | None = None) -> tuple[int, int, int]:
    given = {} if shown is None else {"t": {"w": NOON + timedelta(minutes=shown)}}
    found = in_sessions(memories, traces, given).all
    return found.again, found.although_shown, found.avoided


@requirement("PRV-3")
def test_a_failure_inside_a_session_comes_again_if_its_warning_was_stored_before() -> None:
    assert met([port()], session(FAILS)) == (1, 0, 0)
    assert met([port(hour=1)], session(FAILS)) == (0, 0, 0), "stored when it happened"
    assert met([port()], session(FAILS, FAILS, FAILS)) == (1, 0, 0), "one session, one mistake"
    assert met([port()], session((60, "serve", "exit code 0\nready"))) == (0, 0, 0)
    other = (60, "serve", "exit code 1\nOSError: [Errno 2] No such file: 'a'")
    assert met([port()], session(other)) == (0, 0, 0)
    assert met([a_memory(created_at=NOON)], session(FAILS)) == (0, 0, 0), "no warning"


@requirement("PRV-3")
def test_it_counts_apart_what_came_although_the_warning_was_shown_and_what_did_not_come() -> None:
    assert met([port()], session(FAILS), shown=59) == (1, 1, 0)
    assert met([port()], session(FAILS), shown=61) == (1, 0, 0), "shown as an answer"
    passes = (60, "serve", "exit code 0\nready")
    assert met([port()], session(passes), shown=59) == (0, 0, 1)
    assert met([port()], session(passes), shown=61) == (0, 0, 0), "nothing was done after that"
    assert met([port(hour=2)], session(FAILS, (180, "ls", "exit code 0")), shown=150) == (0, 0, 1)


@requirement("PRV-3")
def test_the_session_that_a_warning_was_learned_from_did_not_repeat_it() -> None:
    own = session(FAILS, memories_learned=("w",))
    assert met([port()], own, shown=50) == (0, 0, 0)


def test_a_session_without_times_happened_when_it_was_stored() -> None:
    step = Step(iteration=1, action="command", content="serve", feedback=IN_USE)
    trace = a_trace(trajectory=(step,), outcome=None, created_at=NOON + timedelta(hours=1))
    assert met([port()], trace) == (1, 0, 0) and met([port(hour=1)], trace) == (0, 0, 0)
    later = Step(iteration=2, action="command", content="serve", feedback=IN_USE)
    timed = replace(step, at=NOON, feedback="exit code 0")
    assert met([port(hour=1)], replace(trace, trajectory=(timed, later))) == (0, 0, 0)


def test_warnings_are_told_the_most_repeated_first() -> None:
    deadlock = warned("a", 0)
    busy = session((60, "migrate", "exit code 1\nDeadlockDetected: rows"), FAILS)
    found = in_sessions([deadlock, port()], [busy, replace(session(FAILS), id="u")], {})
    assert found == InSessions(
        all=Met(again=3), by_warning=(("w", Met(again=2)), ("a", Met(again=1)))
    )
    assert in_sessions([], [busy], {}) == InSessions()

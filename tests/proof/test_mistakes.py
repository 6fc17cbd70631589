"""Failures that a warning was there for, told from memories and traces alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reasonbank.model import Memory, Outcome, Step, Trace
from reasonbank.proof.mistakes import Repeated, repeated
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

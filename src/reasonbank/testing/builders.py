"""Ready-made nouns, each fit to be stored: a test names only what it is about."""

from __future__ import annotations

from typing import Any

from reasonbank.model import ErrorContext, Memory, Outcome, Step, Trace


def a_memory(**overrides: Any) -> Memory:
    lesson: dict[str, Any] = {
        "title": "Retry uploads with growing pauses",
        "description": "When an upload fails for a moment and works later",
        "content": "Wait 1, 2, 4 … seconds between attempts, with jitter; stop after five.",
        "outcome": Outcome.SUCCESS,
    }
    return Memory(**lesson | overrides)


def a_warning(
    error_type: str = "DeadlockDetected",
    failure_pattern: str = "two transactions lock the same rows in opposite order",
    corrective_guidance: str = "lock rows in the order of their ids",
    **overrides: Any,
) -> Memory:
    """A memory of a failure, with its error context."""
    lesson: dict[str, Any] = {
        "title": "Do not lock rows in any order",
        "description": "When several workers update the same table",
        "content": "Transactions that lock rows in different orders wait for each other.",
        "outcome": Outcome.FAILURE,
        "error_context": ErrorContext(
            error_type=error_type,
            failure_pattern=failure_pattern,
            corrective_guidance=corrective_guidance,
        ),
    }
    return Memory(**lesson | overrides)


def a_trace(**overrides: Any) -> Trace:
    known: dict[str, Any] = {
        "task": "Make the upload survive a flaky network",
        "outcome": Outcome.SUCCESS,
        "trajectory": (
            Step(iteration=1, action="think", content="retry at once"),
            Step(iteration=1, action="evaluate", score=0.4, feedback="hammers the server"),
        ),
    }
    return Trace(**known | overrides)

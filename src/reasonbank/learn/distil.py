"""From a finished session to memories: what a model is asked, and what its answer becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reasonbank.fence import Prompt, fenced, fixed, prompt
from reasonbank.fields import LIMITS
from reasonbank.learn.judge import verified
from reasonbank.learn.transcript_text import BUDGET, account, steps, task
from reasonbank.ledger.sessions import learned_steps
from reasonbank.llm.port import Completion, Message, Model, Schema, system, user
from reasonbank.llm.prompts import words
from reasonbank.llm.reply import closed, one_of, string
from reasonbank.llm.roles import acting
from reasonbank.model import JSON, ErrorContext, Memory, Outcome, Source, Trace

MOST_BY_SESSION = 3
MOST_BY_CONTRAST = 5
# Three of the longest fit into a reply, even of a model that does not know when to stop.
LONGEST = {"title": LIMITS.title, "description": 300, "content": 1500, "error": 300}
MAX_TOKENS = 4096
# After the paper: different sessions should not be read in one and the same way.
TEMPERATURE = 1.0


LESSON: JSON = {
    "title": string(LONGEST["title"]),
    "description": string(LONGEST["description"]),
    "content": string(LONGEST["content"]),
    "tags": {"type": "array", "items": string(LIMITS.tag), "maxItems": 5},
}
_SPAN: JSON = {
    "first_step": {"type": "integer", "minimum": 1},
    "last_step": {"type": "integer", "minimum": 1},
}
_ERROR: JSON = {
    "error_type": string(LIMITS.error_type),
    "failure_pattern": string(LONGEST["error"]),
    "corrective_guidance": string(LONGEST["error"]),
}


def _schema(fields: JSON, optional: JSON, most: int) -> JSON:
    lessons = {"type": "array", "items": closed(fields, optional), "maxItems": most}
    return closed({"memories": lessons})


def schema_of(outcome: Outcome) -> JSON:
    """What an answer must look like; a warning says how to recognise what it warns of."""
    error = {} if outcome is Outcome.SUCCESS else _ERROR
    return _schema(LESSON | _SPAN | error, {}, MOST_BY_SESSION)


CONTRAST = _schema(
    LESSON
    | {
        "outcome": one_of(("success", "failure")),
        "attempts": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 32},
    },
    _ERROR,
    MOST_BY_CONTRAST,
)


# An agent that hands in an answer knows when to stop: only what a memory can hold bounds it.
SESSION = _schema(
    LESSON
    | {"description": string(LIMITS.description), "content": string(LIMITS.content)}
    | _SPAN
    | {"outcome": one_of(("success", "failure"))},
    _ERROR | dict.fromkeys(("failure_pattern", "corrective_guidance"), string(LIMITS.error_text)),
    MOST_BY_SESSION,
)
"""What an agent answers that does the thinking itself: how it went, and what to keep."""
SESSION["properties"] = {
    "outcome": one_of(Outcome),
    "score": {"type": "number", "minimum": 0, "maximum": 1},
    "reason": {"type": "string", "maxLength": 2000},
    **SESSION["properties"],
}


_UNKNOWN = fixed("""
The outcome is not known. Judge the result, not the effort: tests that ran, exit codes, what the
user said last. What an agent claims settles nothing. `mixed` when it cannot be told.
""")


def session_question(trace: Trace) -> Prompt:
    seen = verified(trace)
    known = (
        _UNKNOWN
        if seen is None
        else fixed("The outcome is known: {outcome}.", outcome=seen.outcome)
    )
    return prompt(words("learn", "session", most=MOST_BY_SESSION), known, *account(trace))


def session_memories(answer: Any, trace: Trace) -> list[Memory]:
    return [_memory(lesson, Outcome(lesson["outcome"]), trace) for lesson in answer["memories"]]


def question(trace: Trace, outcome: Outcome) -> list[Message]:
    """Something that went half well has more to warn of than to recommend."""
    form = "success" if outcome is Outcome.SUCCESS else "failure"
    told = words("learn", form, most=MOST_BY_SESSION)
    return [system(told), user(prompt(*account(trace)))]


async def distil(model: Model, trace: Trace, outcome: Outcome) -> Any:
    """The model's answer, valid by the schema; ``memories`` makes memories of it."""
    return (await _asked(model, question(trace, outcome), schema_of(outcome))).value


async def _asked(model: Model, messages: list[Message], schema: Schema) -> Completion:
    with acting("distilling"):
        return await model.complete(
            messages, schema=schema, temperature=TEMPERATURE, max_tokens=MAX_TOKENS
        )


async def contrast(model: Model, attempts: Sequence[Trace]) -> list[Memory]:
    """What made the difference between several attempts at one task."""
    each = BUDGET // max(1, len(attempts))
    told = [
        fenced(
            "attempt", steps(trace, budget=each),
            number=number, outcome=trace.outcome, final_score=trace.final_score,
        )
        for number, trace in enumerate(attempts, 1)
    ]  # fmt: skip
    form = words("learn", "contrast", most=MOST_BY_CONTRAST)
    asked = [system(form), user(prompt(task(attempts[0]), *told))]
    reply = await _asked(model, asked, CONTRAST)
    return [
        _memory(lesson, Outcome(lesson["outcome"]), attempts[0])
        for lesson in reply.value["memories"]
    ]


def memories(answer: Any, trace: Trace, outcome: Outcome) -> list[Memory]:
    kept = Outcome.SUCCESS if outcome is Outcome.SUCCESS else Outcome.FAILURE
    return [_memory(lesson, kept, trace) for lesson in answer["memories"]]


def new_of(found: list[Memory], trace: Trace) -> list[Memory]:
    """Without what only the part of a session shows that was learned from before."""
    learned = learned_steps(trace)
    return [m for m in found if m.source_span is None or m.source_span[1] > learned]


def _memory(lesson: JSON, outcome: Outcome, trace: Trace) -> Memory:
    error = None
    if outcome is Outcome.FAILURE and all(lesson.get(name) for name in _ERROR):
        error = ErrorContext(**{name: lesson[name] for name in _ERROR})
    span = None
    if steps := len(trace.trajectory):
        first = min(lesson.get("first_step", 1), steps)
        span = (first, max(first, min(lesson.get("last_step", steps), steps)))
    return Memory(
        title=lesson["title"],
        description=lesson["description"],
        content=lesson["content"],
        tags=tuple(lesson["tags"]),
        outcome=outcome,
        error_context=error,
        source=Source.DISTILLED,
        source_session=trace.id,
        source_span=span,
    )

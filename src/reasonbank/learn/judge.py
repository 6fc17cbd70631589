"""How a task went, where nobody knows for sure."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.fence import prompt
from reasonbank.learn import outcome, session
from reasonbank.learn.transcript_text import account
from reasonbank.llm.port import Message, Model, system, user
from reasonbank.llm.prompts import words
from reasonbank.llm.reply import closed, one_of
from reasonbank.llm.roles import acting
from reasonbank.model import Outcome, Trace

# Servers that enforce a schema bound whole numbers, and some of them no others.
SCHEMA = closed(
    {
        "reason": {"type": "string", "maxLength": 1000},
        "outcome": one_of(Outcome),
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``by`` says who decided: the caller, what was verified, or the judge."""

    outcome: Outcome
    by: str
    score: float | None = None
    reason: str | None = None


async def judge(model: Model, trace: Trace) -> Verdict:
    with acting("judging"):
        reply = await model.complete(asking(trace), schema=SCHEMA, temperature=0.0)
    return verdict(reply.value)


def asking(trace: Trace) -> list[Message]:
    return [system(words("learn", "judge")), user(prompt(*account(trace)))]


def verified(trace: Trace) -> Verdict | None:
    """What needs no opinion: the caller's word, tests, exit codes, a revert."""
    if trace.outcome is not None:
        return Verdict(outcome=trace.outcome, by="caller")
    seen = outcome.verdict(session.of_trace(trace))
    if seen.outcome is None or seen.basis is None:
        return None
    return Verdict(outcome=seen.outcome, by=str(seen.basis), reason=seen.reason)


def verdict(value: dict[str, object]) -> Verdict:
    """From an answer that is valid by the schema."""
    return Verdict(
        outcome=Outcome(str(value["outcome"])),
        score=float(str(value["score"])) / 100,
        reason=str(value["reason"]),
        by="judge",
    )

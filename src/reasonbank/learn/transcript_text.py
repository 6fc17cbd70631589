"""A trace as text for a model: numbered steps, within a budget, without our own echo."""

from __future__ import annotations

import json

from reasonbank.learn.session import without_echo
from reasonbank.llm.excerpt import excerpt
from reasonbank.model import Step, Trace

BUDGET = 60_000
"""Characters; about 15,000 tokens."""
STEP = 4_000


def _cut(text: str, most: int) -> str:
    return excerpt(text, most, head=2 / 3)


def account(trace: Trace, *, budget: int = BUDGET) -> str:
    """The end of a record says how it ended, and the beginning what it was about."""
    steps = [_told(number, step) for number, step in enumerate(trace.trajectory, 1)]
    record = _cut("\n\n".join(steps), budget)
    known = f"\n\nFinal score: {trace.final_score}" if trace.final_score is not None else ""
    return (
        f"<task>\n{_cut(without_echo(trace.task), STEP)}\n</task>\n\n"
        f"<record>\n{record}\n</record>{known}"
    )


def _told(number: int, step: Step) -> str:
    parts = [f"[step {number}] {_cut(without_echo(step.action), STEP)}"]
    if step.content:
        parts.append(_cut(without_echo(step.content), STEP))
    if step.score is not None:
        parts.append(f"score: {json.dumps(step.score)}")
    if step.feedback:
        parts.append(f"feedback: {_cut(without_echo(step.feedback), STEP)}")
    return "\n".join(parts)

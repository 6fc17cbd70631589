"""A trace as text for a model: numbered steps, within a budget, without our own echo."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from reasonbank.fence import Fenced, Piece, Prompt, fenced, fixed, piece
from reasonbank.learn.echo import without_echo
from reasonbank.ledger.sessions import learned_steps
from reasonbank.llm.excerpt import excerpt
from reasonbank.model import Step, Trace

BUDGET = 60_000
"""Characters; about 15,000 tokens."""
STEP = 4_000
READ = 100 * STEP
"""Characters of a text that are looked at: an echo is taken out before the cut."""
CONTEXT = 10
"""Steps before the new part of a session, to understand it by."""
MARK = 40
"""Characters that the mark before a piece takes, about."""

log = logging.getLogger(__name__)


def _cut(text: str, most: int = STEP) -> str:
    return excerpt(without_echo(excerpt(text, READ)), most, head=2 / 3)


_CONTINUED = """
The record goes on where an earlier one ended: what steps up to {learned} teach was written down
then, and they are here so that the later ones can be understood. Write down only what the steps
after {learned} teach.
"""


def account(trace: Trace) -> tuple[Fenced | Prompt, ...]:
    """The task, and a record of what was done; of a session that has grown, its new part."""
    record = fenced("record", steps(trace), final_score=trace.final_score)
    if learned := learned_steps(trace):
        return task(trace), record, fixed(_CONTINUED, learned=learned)
    return task(trace), record


def task(trace: Trace) -> Fenced:
    return fenced("task", _cut(trace.task))


def steps(trace: Trace, *, budget: int = BUDGET) -> list[Piece]:
    """The end of a record says how it ended, and the beginning what it was about."""
    before = max(0, learned_steps(trace) - CONTEXT)
    numbered = list(enumerate(trace.trajectory, 1))[before:]
    first = _fitting(numbered, budget * 2 // 3)
    left = numbered[len(first) :]
    last = _fitting(reversed(left), budget - _size(first))[::-1]
    missing = len(left) - len(last)
    if missing:
        log.warning("%d of %d steps did not fit into a prompt", missing, len(numbered))
        first.append([piece("step", f"[… {missing:,} steps left out …]")])
    return [part for told in (*first, *last) for part in told]


def _fitting(numbered: Iterable[tuple[int, Step]], budget: int) -> list[list[Piece]]:
    """Steps one after the other, as long as they fit; at least one of them does."""
    most = min(STEP, budget // 4)
    kept: list[list[Piece]] = []
    for number, step in numbered:
        told = list(_told(number, step, most))
        budget -= _size([told])
        if budget < 0:
            break
        kept.append(told)
    return kept


def _size(told: Iterable[Iterable[Piece]]) -> int:
    return sum(len(part.text) + MARK for parts in told for part in parts)


def _told(number: int, step: Step, most: int) -> Iterator[Piece]:
    said = filter(None, (_cut(step.action, most), _cut(step.content or "", most)))
    yield piece("step", "\n".join(said), number=number, score=step.score)
    if step.feedback:
        yield piece("feedback", _cut(step.feedback, most))

"""How likely a newer memory is another wording of what an older one says. Pure.

Rules tell it where both are worded alike (``search.rivals``). Elsewhere the question tells more
than the words do: two that are near each other and the question, and stand out of all else, mostly
say two things of one subject. Unless they are worded alike after all, and what is asked for is
what they differ in: then both can be true. How much each sign weighs is fitted
(``tools/fit_rivals.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf

from reasonbank.embed.calibration import RevisionWeights
from reasonbank.model import Memory
from reasonbank.search.rivals import comparable, differ_in_values, difference, identifiers, stems

LONGEST = 200
"""Letters of what is taken for a fact; two longer ones are lessons that stand side by side."""
WORDED_ALIKE = 0.75
"""From here on the rules have decided."""
NEAREST = 0.75
"""What is less near, on the scale of `Signs.near`, is about something else."""
LEAST, MOST = 0.6, 2.0
"""What fits so much less, or more, tells no more: in a small bank nothing else is near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    near: float
    """Their cosine, as a share of the one from which on two memories are related."""
    behind: float
    """How much nearer the older one is to the question, on the same scale."""
    third: float
    """How well the best of all others fits the question, beside the newer one."""
    shared: float
    """The share of the shorter one's words that both have."""
    alike: float
    """How much of their sentences is the same, word by word."""
    asked: float
    """Whether the question has the older one's word where the newer one has another."""
    named: float
    """Whether it names an identifier that only the older one has."""
    apart: float
    """Whether they say alike of two things."""
    values: float
    """Whether each states a value that the other does not."""


SIGNS = tuple(field.name for field in fields(Signs))


def may_revise(older: Memory, newer: Memory) -> bool:
    """Whether it is worth a look: two facts of one place and occasion."""
    if max(len(older.content), len(newer.content)) > LONGEST or not comparable(older, newer):
        return False
    # Two lessons that say when to use them, and state no values, may say the same.
    lessons = all(memory.description != memory.title for memory in (older, newer))
    return not lessons or differ_in_values(older.content, newer.content)


def signs(
    question: str,
    older: Memory,
    newer: Memory,
    *,
    near: float | None,
    behind: float,
    third: float,
) -> Signs:
    """``near`` may be unknown: then the words that both have stand for it."""
    mine, theirs = (older.title, older.content), (newer.title, newer.content)
    told = difference(mine, theirs)
    asked = stems(question)
    known, new = identifiers("\n".join(mine)), "\n".join(theirs).lower()
    return Signs(
        near=told.shared if near is None else near,
        behind=behind,
        third=min(max(third, LEAST), MOST),
        shared=told.shared,
        alike=told.alike,
        asked=any(here & asked and not there & asked for here, there in told.places),
        named=any(name in known and name not in new for name in identifiers(question)),
        apart=told.apart,
        values=told.values,
    )


def odds(seen: Signs, weights: RevisionWeights) -> float:
    """Above 0 it is likely enough to put the newer one first."""
    # Who names an identifier wants the memory that has it, if they have nothing else in common.
    if (seen.named and not seen.shared) or seen.alike >= WORDED_ALIKE or seen.near < NEAREST:
        return -inf
    weighed = (float(getattr(weights, name) * getattr(seen, name)) for name in SIGNS)
    return weights.base + sum(weighed)

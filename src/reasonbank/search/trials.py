"""What is known of how candidates did when they were tried, and who failed each time.

A prompt gets nothing that is proven to fail (docs/concepts-belief.md), by two rules. What never
worked and failed at least twice is left out where its forecast for this question is under
``belief.inject_above``, or where nobody knows which questions it failed with. What failed as often
and worked elsewhere is left out where its forecast is under ``belief.prune_below`` and under half
of what its resemblance promised: lower, as a forecast says how tasks end, and tasks fail for other
reasons too. Where four of ten succeed, 0.4 is no reason for silence. Of the failure of a task that
was given several memories each has its share, and no more than that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from reasonbank.ledger.port import Candidates, Reading, Trials
from reasonbank.settings import BeliefSettings
from reasonbank.store.context import Context
from reasonbank.trust.belief import SLOTS, speaks_for, without_usage
from reasonbank.trust.confidence import Confidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.floating[Any]]

DAY = 86_400_000_000
ENOUGH = 2
"""So many failures are no accident."""
UNTRIED = Trials(0, 0, 0.0, 0.0)


def trials_of(
    context: Context, reading: Reading, rows: Candidates, places: NDArray[np.intp]
) -> Mapping[int, Trials]:
    """Of the rows at these places, those that were tried, by place."""
    known = context.trust(reading)
    # Most were never tried: what their evidence amounts to says so, and nobody is asked.
    tried = places[without_usage(known.masses(rows)[places]).any(axis=1)].tolist()
    nums = [int(rows.nums[place]) for place in tried]
    found = reading.trials(nums, known.viewer, since(known))
    return {place: found[num] for place, num in zip(tried, nums, strict=True) if num in found}


def since(known: Confidence) -> int:
    """Failures of before that are too long ago to prove anything (microseconds)."""
    return 0 if known.half_life == inf else int(known.today - known.half_life) * DAY


def is_failing(seen: Trials, expected: float, settings: BeliefSettings) -> bool:
    """Whether it failed whenever it was tried for such questions."""
    if seen.worked or seen.failed < ENOUGH:
        return False
    return expected < settings.inject_above or seen.unasked >= ENOUGH


def is_hopeless(seen: Trials, expected: float, alike: float, settings: BeliefSettings) -> bool:
    """Whether it hardly ever helps with such questions, though it may with others.

    ``alike`` is how it resembles the question: what is merely far off was not proven wrong.
    """
    return seen.failed >= ENOUGH and expected < min(settings.prune_below, alike / 2)


def is_left_out(seen: Trials, expected: float, alike: float, settings: BeliefSettings) -> bool:
    """Whether no prompt gets it as something to go by."""
    return is_failing(seen, expected, settings) or is_hopeless(seen, expected, alike, settings)


def left_out(
    context: Context, reading: Reading, rows: Candidates, expected: Reals, alike: Reals
) -> tuple[dict[int, Trials], list[int]]:
    """By place: those that failed each time, and the others that no prompt gets."""
    import numpy as np

    settings = context.settings.belief
    failing: dict[int, Trials] = {}
    hopeless: list[int] = []
    doubted = np.flatnonzero((expected < settings.inject_above) | ~_ever_praised(rows))
    for place, seen in trials_of(context, reading, rows, doubted).items():
        chance = float(expected[place])
        if is_failing(seen, chance, settings):
            failing[place] = seen
        elif is_hopeless(seen, chance, float(alike[place]), settings):
            hopeless.append(place)
    return failing, hopeless


def _ever_praised(rows: Candidates) -> NDArray[np.bool_]:
    import numpy as np

    praise = without_usage(rows.masses)[:, speaks_for(np.arange(len(SLOTS)))]
    praised: NDArray[np.bool_] = np.greater(praise.sum(axis=1), 0.0)
    return praised

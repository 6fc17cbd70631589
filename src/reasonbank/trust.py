"""How far to trust memories with the question at hand: docs/decisions/0010-belief-in-context.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reasonbank import belief
from reasonbank.events import day_of
from reasonbank.ledger.port import Candidates, Reading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.bank import Bank

    Floats = NDArray[np.float64]


@dataclass(slots=True)
class Trust:
    """How far to trust each candidate with this question; ``heard``: how far its author."""

    confidence: Floats
    heard: Floats
    fit: Floats
    expected: Floats


def trust_in(
    bank: Bank,
    reading: Reading,
    rows: Candidates,
    confidence: Floats,
    vector: NDArray[np.float32] | None,
) -> Trust:
    """Confidence as this question sees it.

    Evidence whose question is known counts by how near that was to this one, and no longer
    in the confidence; a memory that is hardly tried starts from how its author's others fared.
    """
    import numpy as np

    settings = bank.settings.belief
    count = len(rows.nums)
    if settings.model != "contextual" or not count:
        return Trust(confidence, np.ones(count), np.ones(count), confidence)
    today = day_of(bank.core.clock())
    embedder = bank.core.indexing.embedder
    found = None
    if vector is not None:
        found = reading.occasions(rows.nums, embedder.name, embedder.dimensions)

    def fold(rows: Candidates, masses: Floats, initial: Floats) -> Floats:
        return by_workspace(
            rows,
            lambda workspace, mine: belief.bayesian_means(
                initial[mine], masses[mine], belief.Weights(lessons=reading.lessons(workspace)),
                today, settings.half_life_days, own=rows.lessons[mine],
            ),
        )  # fmt: skip

    def anywhere(rows: Candidates) -> Floats:
        initial, heard = _by_author(reading, rows)
        return np.column_stack([fold(rows, _rated(rows), initial), initial, heard])

    trust, initial, heard = rows.derived(("trust", today), anywhere).T
    if vector is None or found is None or not len(found.nums):
        return Trust(trust * heard, heard, np.ones(count), trust * heard)
    masses = _rated(rows)
    helped, failed = np.zeros(count), np.zeros(count)
    by_num = np.argsort(rows.nums)
    place = by_num[np.searchsorted(rows.nums, found.nums, sorter=by_num)]
    weight = belief.strength_then(found.days, settings.half_life_days)
    np.subtract.at(masses, (place, found.slots), weight)
    asked = found.vectors.astype(np.float32)
    length = np.linalg.norm(asked, axis=1) * float(np.linalg.norm(vector)) + 1e-9
    near = belief.nearness((asked @ vector / length).astype(np.float64))
    near *= weight / belief.strength_then(np.array([today]), settings.half_life_days)
    good = found.slots % 2 == 0
    np.add.at(helped, place[good], near[good])
    np.add.at(failed, place[~good], near[~good])
    trust = fold(rows, masses.clip(0.0), initial)
    likely = belief.expected(trust, helped, failed)
    return Trust(trust * heard, heard, belief.fit(helped, failed), likely * heard)


def _rated(rows: Candidates) -> Floats:
    """What is known of each, but for this: that a search returned it would only make the
    served be served again."""
    import numpy as np

    masses = np.array(rows.masses)
    masses[:, 2:4] = 0.0
    return masses


def by_workspace(
    rows: Candidates, make: Callable[[str, NDArray[np.intp] | slice], Floats]
) -> Floats:
    """What ``make`` says of the rows of each workspace, in the order of the rows."""
    import numpy as np

    workspaces = set(rows.workspaces)
    if len(workspaces) == 1:
        return make(workspaces.pop(), slice(None))
    result = np.empty(len(rows.nums))
    owners = np.array(rows.workspaces, dtype=object)
    for workspace in workspaces:
        mine = np.flatnonzero(owners == workspace)
        result[mine] = make(workspace, mine)
    return result


def _by_author(reading: Reading, rows: Candidates) -> tuple[Floats, Floats]:
    """What to start from, by how the memories of the same author fared, and how far to
    listen to that author beside others."""
    import numpy as np

    known = reading.authors(set(rows.workspaces))
    told = [known.get(key, (0, 0)) for key in zip(rows.workspaces, rows.authors, strict=True)]
    helped, failed = np.array(told, np.float64).reshape(-1, 2).T
    all_helped, all_failed = np.array(list(known.values()) or [(0, 0)], np.float64).sum(0)
    return (
        belief.prior_of_author(rows.initial, helped, failed),
        belief.weight_of_author(helped, failed, all_helped - helped, all_failed - failed),
    )


def crowded_out(reading: Reading, rows: Candidates) -> bool:
    """Whether somebody has written memories here of which not one is a candidate."""
    present = set(zip(rows.workspaces, rows.authors, strict=True))
    return not present.issuperset(reading.authors({workspace for workspace, _ in present}))

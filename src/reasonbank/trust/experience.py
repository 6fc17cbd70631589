"""What outcomes of similar questions say about this one: docs/decisions/0016-experience.md. Pure.

That a memory resembles a question is a first guess at whether it helps. Each outcome corrects
that guess, most where the questions are alike: a Gaussian process for each memory, whose mean
is the resemblance and whose observations are the outcomes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

SAME = 1.0
"""What is known of the very same question only, beside what related ones share."""
DOUBT = 1.0
"""How far one outcome may be chance: as much as related questions have in common."""
MARGIN = 0.1
"""An outcome is taken for so much more than 1 or less than 0: it only says on which side. In a
forecast this fades with what is known, or what helps nine times of ten would be said to always."""
AGEING = 0.5
"""Outcomes of known questions fade half as fast as ratings do: newer ones correct them anyway."""
BOLD = 0.2
"""Resemblance plus surprise stays too near the middle: its log odds are stretched by so much, as
far as the question is new."""
NEAREST = 64
"""So many outcomes of each memory are heard, those of the most similar questions."""
MOST_OUTCOMES = 2_048
"""And so many of all memories together."""
# Memories are solved together with others that have about as many outcomes.
_SIZES = (0, 2, 4, 8, 16, 32, NEAREST)


def nearness(cosine: Floats) -> Floats:
    """How far two questions share what is right: cosine² + the same question, cosine¹²⁸."""
    near = cosine.clip(0.0, None)
    related = near * near
    total: Floats = related + SAME * _sameness(related)
    return total


def _sameness(related: Floats) -> Floats:
    """Of cosine²: 1 for the very same question, and next to nothing for any other."""
    for _ in range(6):
        related = related * related
    return related


def familiar(count: int, place: NDArray[np.intp], cosine: Floats, strength: Floats) -> Floats:
    """How far outcomes of this very question say all there is to say of it, 0..1; the arguments
    are those of ``gp_lift``."""
    import numpy as np

    near = cosine.clip(0.0, None)
    times = np.bincount(place, strength * _sameness(near * near), minlength=count) * (1.0 + SAME)
    known: Floats = times / (times + DOUBT)
    return known


def share(place: int, count: int) -> float:
    """Of the outcome of a task that was given ``count`` memories: what falls to the one at this
    place, from 0. Each gets twice as much as the next, for whoever reads them starts at the top."""
    return float(0.5**place / (2.0 - 0.5 ** (count - 1)))


def shares(given: Sequence[str], weak: Collection[str]) -> dict[str, float]:
    """What falls to each memory of one answer, of which the best came first.

    Sure hits share as if they were alone: of weak matches beside them it is unlikely that they
    had a part in how the task went. Theirs is negative, and counts (without the sign) only where
    the session was seen to go by them.
    """
    sure = [id for id in given if id not in weak] or given
    doubted = {id: -share(place, len(given)) for place, id in enumerate(given)}
    return doubted | {id: share(place, len(sure)) for place, id in enumerate(sure)}


def gp_lift(
    count: int,
    place: NDArray[np.intp],
    cosine: Floats,
    asked: NDArray[np.float32],
    succeeded: NDArray[np.bool_],
    resembled: Floats,
    strength: Floats,
) -> tuple[Floats, Floats]:
    """What experience adds to the resemblance of each of ``count`` memories, or takes from it:
    where it ranks, and in the forecast whether it helps.

    One entry for each outcome: ``place`` says whose it is, ``cosine`` how near its question
    was to the one at hand, ``asked`` is that question's direction (unit length), ``resembled``
    how the memory resembles it (0..1), and ``strength`` (0..1) what time has left of the
    memory's share in the outcome. A memory without outcomes gets 0.
    """
    import numpy as np

    kept = _nearest(place, cosine)
    place, near = place[kept], nearness(cosine[kept])
    won = succeeded[kept]
    # What was seen beyond what was expected, the margin, and what turns weights into a sum.
    said = np.stack([won - resembled[kept], np.where(won, MARGIN, -MARGIN), np.ones(len(won))], 1)
    noise = DOUBT / strength[kept].clip(1e-6, 1.0)
    each = np.bincount(place, minlength=count)
    seat = np.arange(len(kept)) - (np.cumsum(each) - each)[place]
    rank, forecast = np.zeros(count), np.zeros(count)
    table = np.zeros(count, np.intp)
    for least, most in pairwise(_SIZES):
        memories = np.flatnonzero((each > least) & (each <= most))
        if not len(memories):
            continue
        table[memories] = np.arange(len(memories))
        mine = np.flatnonzero((each[place] > least) & (each[place] <= most))
        at = table[place[mine]], seat[mine]
        shape = (len(memories), most)
        # An empty seat is a question that resembles none: it changes nothing.
        vectors = np.zeros((*shape, asked.shape[1]), np.float32)
        vectors[at] = asked[kept[mine]]
        alike = nearness(vectors @ vectors.transpose(0, 2, 1)).astype(np.float64)
        doubt, told, here = np.full(shape, DOUBT), np.zeros((*shape, 3)), np.zeros(shape)
        doubt[at], told[at], here[at] = noise[mine], said[mine], near[mine]
        alike[:, range(most), range(most)] += doubt
        learnt = (here[:, None] @ np.linalg.solve(alike, told))[:, 0]
        surprise, margin, weight = learnt.T
        rank[memories] = surprise + margin
        forecast[memories] = surprise + margin * (1.0 - weight.clip(0.0, 1.0) ** 2)
    return rank, forecast


def _nearest(place: NDArray[np.intp], cosine: Floats) -> NDArray[np.intp]:
    """Which outcomes are heard, memory by memory."""
    import numpy as np

    order = np.lexsort((-cosine, place))
    each = np.bincount(place)
    rank = np.arange(len(order)) - (np.cumsum(each) - each)[place[order]]
    order = order[rank < NEAREST]
    if len(order) > MOST_OUTCOMES:
        least = np.partition(cosine[order], len(order) - MOST_OUTCOMES)[len(order) - MOST_OUTCOMES]
        order = order[cosine[order] >= least]
    return order


def decided(chance: Floats, known: Floats) -> Floats:
    """A forecast of ``chance``, where this very question is ``known`` so far."""
    power = 1.0 + BOLD * (1.0 - known)
    yes, no = chance**power, (1.0 - chance) ** power
    forecast: Floats = yes / (yes + no)
    return forecast


def adjusted(similarity: Floats, lift: Floats) -> Floats:
    """Resemblance and experience together; never below 0, and never two alike that differ:
    what failed here ranks by how clearly it failed."""
    import numpy as np

    total = similarity + lift
    floor = np.minimum(0.1, similarity).clip(1e-9)
    low = floor * np.exp(np.minimum(0.0, (total - floor) / floor).clip(-30.0))
    result: Floats = np.where(total < floor, low, total)
    return result

"""Groups of vectors that are near each other, without an n × n matrix.

A cluster never chains: any two members are near each other, so what is near a centre
from opposite sides is not thrown together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Whole = NDArray[np.int64]

BLOCK = 1024
FEW = 2_000
PER_LANDMARK = 64
MOST_LANDMARKS = 1024
SHARED = 4
"""With 4 of its nearest landmarks a row meets 99 % of those that are near it (measured)."""
MOST_NEIGHBOURS = 64
"""Of a row; the nearest ones. Bounds what is kept when all rows are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Rows whose cosine reaches a threshold, ``first`` < ``second``, the nearest first."""

    first: Whole
    second: Whole
    cosines: Floats

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        return zip(self.first.tolist(), self.second.tolist(), self.cosines.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.first)

    def above(self, threshold: float) -> Pairs:
        end = int((self.cosines >= threshold).sum())
        return Pairs(first=self.first[:end], second=self.second[:end], cosines=self.cosines[:end])


def pairs(vectors: Floats, threshold: float) -> Pairs:
    """Pairs of unit vectors at least this near; of a crowd only the nearest.

    Up to ``FEW`` rows all are compared. Of more, each row is compared with those that share
    one of its nearest landmarks: two rows that are near each other nearly always do.
    """
    import numpy as np

    kept = []
    for rows in _cells(vectors):
        for start in range(0, max(1, len(rows)), BLOCK):
            here = rows[start : start + BLOCK]
            # Nothing is compared twice: only with what comes later.
            cosines = vectors[here] @ vectors[rows[start:]].T
            left, right = np.divmod(np.flatnonzero(cosines >= threshold), cosines.shape[1])
            later = left < right
            left, right = left[later], right[later]
            one, other = here[left], rows[start:][right]
            kept.append((np.minimum(one, other), np.maximum(one, other), cosines[left, right]))
    first, second, cosines = (np.concatenate(column) for column in zip(*kept, strict=True))
    _, once = np.unique(first * len(vectors) + second, return_index=True)
    return _few(first[once], second[once], cosines[once])


def _cells(vectors: Floats) -> Iterator[Whole]:
    import numpy as np

    count = len(vectors)
    if count <= FEW:
        yield np.arange(count)
        return
    landmarks = vectors[:: max(PER_LANDMARK, count // MOST_LANDMARKS)]
    nearest = np.empty((count, SHARED), np.int64)
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        cosines = vectors[part] @ landmarks.T
        nearest[part] = np.argpartition(-cosines, SHARED, axis=1)[:, :SHARED]
    flat = nearest.ravel()
    order = np.argsort(flat, kind="stable")
    ends = np.cumsum(np.bincount(flat, minlength=len(landmarks)))
    for rows in np.split(order // SHARED, ends[:-1]):
        yield np.unique(rows)


def _few(first: Whole, second: Whole, cosines: Floats) -> Pairs:
    """Nearest first; of each row no more than ``MOST_NEIGHBOURS`` later ones."""
    import numpy as np

    order = np.lexsort((second, -cosines, first))
    first, second, cosines = first[order], second[order], cosines[order]
    begins = np.flatnonzero(np.r_[True, first[1:] != first[:-1]]) if len(first) else first
    rank = np.arange(len(first)) - np.repeat(begins, np.diff(np.r_[begins, len(first)]))
    few = rank < MOST_NEIGHBOURS
    first, second, cosines = first[few], second[few], cosines[few]
    order = np.lexsort((second, first, -cosines))
    return Pairs(first=first[order], second=second[order], cosines=cosines[order])


def grouped(
    near: Pairs, *, most: int, together: Callable[[int, int], bool] = lambda a, b: True
) -> list[list[int]]:
    """Clusters of at least two and at most ``most`` rows, any two of them a pair.

    The two groups whose least similar members are most alike are joined first, until none
    are left that may be. ``together`` says whether two near rows may share a cluster.
    """
    cosine = {(a, b): c for a, b, c in near if together(a, b)}
    groups = {row: [row] for pair in cosine for row in pair}
    # Between two groups: how near their least similar members are.
    beside: dict[int, dict[int, float]] = {row: {} for row in groups}
    for (a, b), c in cosine.items():
        beside[a][b] = beside[b][a] = c
    waiting = [(-c, a, b) for (a, b), c in cosine.items()]
    heapq.heapify(waiting)
    while waiting:
        negative, a, b = heapq.heappop(waiting)
        if beside.get(a, {}).get(b) != -negative:
            continue  # One of them has grown since.
        if len(groups[a]) + len(groups[b]) > most:
            continue
        groups[a] += groups.pop(b)
        far = beside.pop(b)
        mine = beside[a]
        for other in [*mine]:
            if other == b or other not in far:
                del mine[other]
                beside.get(other, {}).pop(a, None)
            else:
                mine[other] = beside[other][a] = min(mine[other], far[other])
                heapq.heappush(waiting, (-mine[other], min(a, other), max(a, other)))
        for other in far:
            if other != a:
                beside[other].pop(b, None)
    return [sorted(rows) for rows in groups.values() if len(rows) > 1]


def centre(vectors: Floats) -> tuple[int, float, float]:
    """The row that is nearest to all others, and the mean and least cosine of any two."""
    import numpy as np

    cosines = vectors @ vectors.T
    among = cosines[np.triu_indices(len(vectors), 1)]
    return int(cosines.sum(axis=1).argmax()), float(among.mean()), float(among.min())

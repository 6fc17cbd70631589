"""Groups of vectors that are near each other, without an n × n matrix.

A cluster never chains: any two members are near each other, so what is near a centre
from opposite sides is not thrown together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reasonbank.forking import computation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Whole = NDArray[np.int64]

BLOCK = 256
FEW = 2_000
PER_LANDMARK = 64
MOST_LANDMARKS = 1024
SAMPLE = 16
"""Rows for each landmark that say where it should lie."""
STEPS = 2
SHARED = 3
AS_NEAR = 0.12
"""A row belongs to its nearest landmark, and to up to 2 more whose cosine is at most this much
less. So it meets 98.7 % of the rows that are near it (measured)."""
MOST_NEIGHBOURS = 64
"""Of a row; the nearest ones. Bounds what is kept when all rows are alike."""
MOST_AT_ONCE = 1_000_000


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

    def of(self, one: Whole, other: Whole, which: NDArray[np.bool_] | None = None) -> Pairs:
        """The same pairs, counted in the rows that these parts were taken from."""
        keep = slice(None) if which is None else which
        return Pairs(
            first=one[self.first[keep]], second=other[self.second[keep]], cosines=self.cosines[keep]
        )

    def above(self, threshold: float) -> Pairs:
        end = int((self.cosines >= threshold).sum())
        return Pairs(first=self.first[:end], second=self.second[:end], cosines=self.cosines[:end])


def pairs(vectors: Floats, threshold: float) -> Pairs:
    """Pairs of unit vectors at least this near; of a crowd only the nearest.

    Up to ``FEW`` rows all are compared. Of more, each row is compared with those that share
    one of its nearest landmarks: two rows that are near each other nearly always do.
    """

    kept: list[Pairs] = []
    for rows in _cells(vectors):
        mine = vectors[rows]
        for start in range(0, len(rows), BLOCK):
            block, later = mine[start : start + BLOCK], mine[start + BLOCK :]
            with computation():
                # numpy computes half of a matrix times itself. Nothing is compared twice.
                near = _above(block @ block.T, threshold)
                upper = near.first < near.second
                kept.append(near.of(rows[start:], rows[start:], upper))
                if len(later):
                    near = _above(block @ later.T, threshold)
                    kept.append(near.of(rows[start:], rows[start + BLOCK :]))
            if sum(map(len, kept)) > MOST_AT_ONCE:
                kept = [_few(kept, len(vectors))]
    return _few(kept, len(vectors))


def _above(cosines: Floats, threshold: float) -> Pairs:
    import numpy as np

    first, second = np.divmod(np.flatnonzero(cosines >= threshold), cosines.shape[1])
    return Pairs(first=first, second=second, cosines=cosines[first, second])


def _cells(vectors: Floats) -> Iterator[Whole]:
    """Rows that share a landmark, in ascending order."""
    import numpy as np

    count = len(vectors)
    if count <= FEW:
        yield np.arange(count)
        return
    landmarks = _landmarks(vectors)
    nearest = np.empty((count, SHARED), np.int64)
    for start in range(0, count, FEW):
        cosines = vectors[start : start + FEW] @ landmarks.T
        every = np.arange(len(cosines))
        least = cosines.max(axis=1) - AS_NEAR
        for place in range(SHARED):
            best = cosines.argmax(axis=1)
            far = cosines[every, best] < least
            nearest[start : start + FEW, place] = np.where(far, len(landmarks), best)
            cosines[every, best] = -np.inf
    flat = nearest.ravel()
    order = np.argsort(flat, kind="stable")
    ends = np.cumsum(np.bincount(flat, minlength=len(landmarks) + 1))
    yield from np.split(order // SHARED, ends[:-1])[:-1]


def _landmarks(vectors: Floats) -> Floats:
    """Some of the rows, moved to where the rows around them are (a few steps of k-means)."""
    import numpy as np

    count = len(vectors)
    apart = max(PER_LANDMARK, count // MOST_LANDMARKS)
    landmarks = vectors[::apart].copy()
    sample = vectors[:: max(1, apart // SAMPLE)]
    for _ in range(STEPS):
        nearest = np.concatenate(
            [
                (sample[start : start + FEW] @ landmarks.T).argmax(axis=1)
                for start in range(0, len(sample), FEW)
            ]
        )
        order = np.argsort(nearest, kind="stable")
        used, begins = np.unique(nearest[order], return_index=True)
        middles = np.add.reduceat(sample[order], begins, axis=0)
        lengths = np.linalg.norm(middles, axis=1, keepdims=True)
        landmarks[used] = middles / np.maximum(lengths, 1e-9)
    return landmarks


def _few(kept: Sequence[Pairs], count: int) -> Pairs:
    """Each once, the nearest first; of each row at most ``MOST_NEIGHBOURS`` later ones."""
    import numpy as np

    if not kept:
        return Pairs(first=np.empty(0, np.int64), second=np.empty(0, np.int64),
                     cosines=np.empty(0, np.float32))  # fmt: skip
    first = np.concatenate([part.first for part in kept])
    second = np.concatenate([part.second for part in kept])
    cosines = np.concatenate([part.cosines for part in kept])
    _, order = np.unique(first * count + second, return_index=True)
    order = order[np.argsort(-cosines[order], kind="stable")]
    if len(order) and np.bincount(first).max() > MOST_NEIGHBOURS:
        by_row = np.argsort(first[order], kind="stable")
        rows = first[order][by_row]
        begins = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        rank = np.arange(len(rows)) - np.repeat(begins, np.diff(np.r_[begins, len(rows)]))
        order = order[np.sort(by_row[rank < MOST_NEIGHBOURS])]
    return Pairs(first=first[order], second=second[order], cosines=cosines[order])


def grouped(
    near: Pairs, *, most: int, together: Callable[[int, int], bool] = lambda a, b: True
) -> list[list[int]]:
    """Clusters of at least two and at most ``most`` rows, any two of them a pair.

    The two groups whose least similar members are most alike are joined first, until none
    are left that may be. ``together`` says whether two near rows may share a cluster.
    """
    sides = zip(near.first.tolist(), near.second.tolist(), strict=True)
    allowed = [pair for pair in sides if together(*pair)]
    home = {row: row for pair in allowed for row in pair}
    groups = {row: [row] for row in home}
    # How many pairs join two groups. The nearest come first, so whichever two groups are
    # joined by all pairs of their rows are at that moment the two that are most alike.
    beside: dict[int, dict[int, int]] = {row: {} for row in home}
    for one, other in allowed:
        a, b = home[one], home[other]
        rows, more, mine = groups[a], groups[b], beside[a]
        count = mine.get(b, 0) + 1
        if count < len(rows) * len(more) or len(rows) + len(more) > most:
            mine[b] = beside[b][a] = count
            continue
        for row in more:
            home[row] = a
        rows += groups.pop(b)
        mine.pop(b, None)
        for third, count in beside.pop(b).items():
            if third != a:
                theirs = beside[third]
                del theirs[b]
                mine[third] = theirs[a] = mine.get(third, 0) + count
    return [sorted(rows) for rows in groups.values() if len(rows) > 1]


def centre(vectors: Floats) -> tuple[int, float, float]:
    """The row that is nearest to all others, and the mean and least cosine of any two."""
    import numpy as np

    cosines = vectors @ vectors.T
    among = cosines[np.triu_indices(len(vectors), 1)]
    return int(cosines.sum(axis=1).argmax()), float(among.mean()), float(among.min())

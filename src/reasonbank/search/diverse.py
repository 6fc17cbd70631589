"""Of memories that say the same, the best come first and the others make room. Pure.

A paraphrase may be just what was asked for, so that at the default lambda paraphrases keep all
their places but the last, and that one goes only to another memory that is surely relevant.
Copies keep half of the places, and leave the others to whatever is relevant at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.search.rank import Fusion

    Floats = NDArray[np.floating[Any]]
    Places = NDArray[np.intp]

PARAPHRASE = 0.1
"""So far above ``near`` a cosine is surely that of a paraphrase."""
COPY = 0.9
"""The share of the way from ``same`` to 1 at which nothing is left of a copy's worth."""
SHARPNESS = 16.0
"""At lambda 0.5 the eighth power: three paraphrases in four places hardly count, four do."""
FAINT = 0.02
"""What a shared subject costs at lambda 0, where nothing but difference counts."""
COPIES = 2.0
"""A copy takes as much room as so many paraphrases."""
CROWDED = 0.5


def diverse(
    by_score: Places,
    score: Floats,
    vectors: NDArray[np.float32] | None,
    fusion: Fusion,
    limit: int,
    diversity: float,
) -> tuple[Places, Floats, Places]:
    """Greedy MMR over the best; who was penalised, how much, and because of whom."""
    import numpy as np

    penalty = np.zeros(len(score))
    rival = np.full(len(score), -1, np.intp)
    if vectors is None or diversity >= 1.0 or len(by_score) < 2 or limit < 1:
        return by_score[: max(limit, 0)], penalty, rival
    reach = max(3 * limit, 30)
    while True:
        pool = by_score[:reach]
        greedy = _Greedy(pool, score, vectors, fusion, limit, diversity)
        greedy.choose()
        # A crowd that says one thing can fill the whole pool: then look further down.
        if not greedy.crowded or reach >= len(by_score):
            penalty[pool] = greedy.paid
            rival[pool] = greedy.to_blame(pool)
            return pool[greedy.chosen], penalty, rival
        reach *= 4


@dataclass(slots=True)
class _Alike:
    """What each pair of the pool has in common, 0..1: as copies, as paraphrases, by subject."""

    copies: Floats
    paraphrases: Floats
    subjects: Floats


def beyond(cosines: Floats, asked: Floats) -> Floats:
    """How alike two memories are besides both being like the question: the partial cosine.

    Where the question is itself a paraphrase of the answers, they are what was asked for.
    """
    import numpy as np

    known = np.where(np.isfinite(asked), asked, 0.0).clip(0.0, 1.0)
    rest = np.sqrt((1.0 - known**2).clip(1e-6))
    return np.asarray((cosines - np.outer(known, known)) / np.outer(rest, rest))


def _alike(cosines: Floats, beyond: Floats, near: float, same: float) -> _Alike:
    return _Alike(
        copies=((cosines - same) / (COPY * (1.0 - same))).clip(0.0, 1.0),
        paraphrases=((beyond - near) / PARAPHRASE).clip(0.0, 1.0),
        subjects=cosines.clip(0.0, 1.0),
    )


class _Greedy:
    """Place after place the candidate that is worth most beside those already chosen."""

    def __init__(
        self,
        pool: Places,
        score: Floats,
        vectors: NDArray[np.float32],
        fusion: Fusion,
        limit: int,
        diversity: float,
    ) -> None:
        import numpy as np

        own = vectors[pool].astype(np.float64)
        cosines = own @ own.T
        cosines.flat[:: len(pool) + 1] = 0.0
        besides = beyond(cosines, fusion.cosine[pool])
        self.alike = _alike(cosines, besides, fusion.calibration.near, fusion.calibration.same)
        self.places = min(limit, len(pool))
        # Beside one other, a paraphrase is half a crowd.
        self.others = max(limit - 1, 2)
        self.power = max(1.0, SHARPNESS * diversity)
        self.gain = diversity * score[pool]
        self.cost = (1.0 - diversity) * float(score[pool[0]])
        self.faint = FAINT * max(0.0, 1.0 - 2.0 * diversity)
        self.sure = _sure(fusion.nearness[pool], fusion.calibration.threshold, diversity)
        self.copied = np.zeros(len(pool))
        self.repeated = np.zeros(len(pool))
        self.subject = np.zeros(len(pool))
        self.closest = np.full(len(pool), -1, np.intp)
        self.chosen: list[int] = []
        self.crowded = False

    def choose(self) -> None:
        import numpy as np

        for _ in range(self.places):
            alone = self.gain - self.cost * self._crowd(COPIES * self.copied)
            alone[self.chosen] = -np.inf
            value = alone - self.cost * self._sameness
            # Only who is surely relevant takes a place from what says something again.
            other = int(np.argmax(np.where(self.sure, value, -np.inf)))
            best = int(np.argmax(alone))
            self._take(other if value[other] > value[best] else best)

    def _crowd(self, so_many: Floats) -> Floats:
        share: Floats = (so_many / self.others).clip(0.0, 1.0)
        return share**self.power

    @property
    def _sameness(self) -> Floats:
        return self._crowd(self.repeated) + self.faint * self.subject

    def _take(self, one: int) -> None:
        import numpy as np

        share = max(COPIES * self.copied[one], self.repeated[one]) / self.others
        self.crowded = self.crowded or bool(share >= CROWDED)
        self.chosen.append(one)
        closer = self.alike.subjects[one] > self.subject
        self.closest[closer] = one
        self.subject = np.maximum(self.subject, self.alike.subjects[one])
        self.copied = self.copied + self.alike.copies[one]
        self.repeated = self.repeated + self.alike.paraphrases[one]

    @property
    def paid(self) -> Floats:
        return self.cost * (self._crowd(COPIES * self.copied) + self._sameness)

    def to_blame(self, pool: Places) -> Places:
        """Whom each candidate repeats that has lost its place by it; -1 where nobody."""
        import numpy as np

        lost = (self.repeated > 0) & (np.arange(len(pool)) < self.places)
        return np.where((self.closest >= 0) & ((self.copied > 0) | lost), pool[self.closest], -1)


def _sure(nearness: Floats, threshold: float, diversity: float) -> NDArray[np.bool_]:
    """Who is near enough to be shown instead of something that fits better.

    A quarter of the way from the threshold to the best by default; less, the less fit counts.
    """
    best = max(float(nearness.max()), threshold)
    sure: NDArray[np.bool_] = nearness >= threshold + diversity**2 * (best - threshold)
    return sure

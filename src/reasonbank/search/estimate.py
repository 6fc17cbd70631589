"""How far to trust memories with the question at hand: docs/decisions/0016-experience.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reasonbank.errors import StorageError
from reasonbank.ledger.port import Candidates, PastOutcomes, Reading
from reasonbank.store.context import Context
from reasonbank.trust import belief, experience
from reasonbank.trust.experience import Learnt, Past

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Reals = NDArray[np.floating[Any]]


@dataclass(slots=True)
class Trust:
    """How far to trust each candidate with this question; ``author_weight``: how far its author.

    ``learnt`` is what outcomes of such questions say; ``rating_factor`` what ratings and its
    author make of that, 1 where they say nothing. Models other than ``contextual`` know neither.
    """

    confidence: Floats
    author_weight: Floats
    learnt: Learnt
    rating_factor: Floats | None

    @property
    def fit(self) -> Reals:
        """What outcomes add to resemblance, or take from it."""
        return self.learnt.lift

    def expected(self, similarity: Reals, cosine: Reals) -> Reals:
        """The chance to help with this question.

        A first guess goes by meaning: that words match as well puts a memory first, but says
        little of whether it works.
        """
        import numpy as np

        if self.rating_factor is None:
            return self.confidence
        guess = np.where(np.isnan(cosine), np.tanh(similarity), resemblance(cosine))
        chance = self.learnt.chance(guess + self.learnt.lift)
        return (chance * self.rating_factor).clip(0.0, 1.0)

    def counted(self, expected: Reals) -> Reals:
        """What a score is multiplied by: the forecast as far as anything speaks for this
        question, else the confidence."""
        heard = self.learnt.heard
        counted: Reals = self.confidence ** (1.0 - heard) * expected**heard
        return counted if heard else self.confidence

    @property
    def likely(self) -> Reals:
        """How far to expect help, whatever the memory resembles."""
        return (self.confidence + self.learnt.lift).clip(0.0, 1.0)


def trust_in(
    context: Context,
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

    known = context.trust(reading)
    count = len(rows.nums)
    if known.model != "contextual" or not count:
        return Trust(confidence, np.ones(count), Learnt(lift=np.zeros(count)), None)
    embedder = context.store.indexing.embedder
    found = None
    if vector is not None:
        found = reading.past_outcomes(
            rows.nums, known.viewer, embedder.name, embedder.dimensions,
            context.store.indexing.compatible,
        )  # fmt: skip

    def anywhere(rows: Candidates) -> Floats:
        initial, author_weight = _by_author(reading, rows)
        trust = known.folded(rows, initial, belief.without_usage(known.masses(rows)))
        return np.column_stack([trust, initial, author_weight])

    # An author is compared with those of all workspaces that are in view here.
    key = ("trust", known.today, known.viewer, frozenset(rows.workspaces))
    trust, initial, author_weight = rows.derived(key, anywhere).T
    if vector is None or found is None or not len(found.nums):
        nothing = Learnt(lift=np.zeros(count))
        return Trust(trust * author_weight, author_weight, nothing, trust / initial * author_weight)
    place = places(found.nums, rows.nums)
    weight = belief.strength_then(found.days.clip(max=known.today), known.half_life)
    masses = belief.without_usage(known.masses(rows))
    np.subtract.at(masses, (place, found.slots), weight)
    trust = known.folded(rows, initial, masses.clip(0.0))
    now = belief.strength_then(np.array([known.today]), known.half_life)
    strength = (weight / now) ** experience.AGEING
    learnt = _learnt(context, found, rows, place, vector, strength)
    return Trust(trust * author_weight, author_weight, learnt, trust / initial * author_weight)


def resemblance(cosine: Reals) -> Reals:
    """The first guess at the chance to help, by meaning alone."""
    import numpy as np

    guess: Reals = np.tanh(cosine.clip(0.0))
    return guess


def _learnt(
    context: Context,
    found: PastOutcomes,
    rows: Candidates,
    place: NDArray[np.intp],
    vector: NDArray[np.float32],
    strength: Floats,
) -> Learnt:
    import numpy as np

    count = len(rows.nums)
    tried, mine = np.unique(place, return_inverse=True)
    try:
        memories = context.store.indexing.index.vectors(rows.nums[tried])
    except StorageError:
        return Learnt(lift=np.zeros(count))
    asked = found.vectors.astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True) + 1e-9
    past = Past(
        place=place,
        task=found.tasks,
        cosine=(asked @ (vector / (np.linalg.norm(vector) + 1e-9))).astype(np.float64),
        asked=asked,
        resembled=resemblance(np.einsum("ij,ij->i", asked, memories[mine])),
        share=found.shares,
        strength=strength,
        succeeded=belief.speaks_for(found.slots),
    )
    return experience.learnt(count, past)


def places(nums: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each of these is in ``among``, which has them all."""
    import numpy as np

    order = np.argsort(among)
    return order[np.searchsorted(among, nums, sorter=order)]


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


def crowded_out(reading: Reading, rows: Candidates, trust: Trust, likely: float) -> bool:
    """Whether memories of somebody are missing among the candidates: not one of theirs is there,
    or their memories help more often than the best candidate is ``likely`` to."""
    import numpy as np

    present = set(zip(rows.workspaces, rows.authors, strict=True))
    known = reading.authors({workspace for workspace, _ in present})
    if not present.issuperset(known):
        return True
    if trust.rating_factor is None or len(known) < 2:
        return False
    helped, failed = np.array(list(known.values()), np.float64).T
    fared = belief.prior_of_author(np.full(len(known), 0.5), helped, failed)
    return bool((fared > likely).any())

"""How far to trust memories with the question at hand: docs/decisions/0022-one-posterior.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reasonbank.errors import StorageError
from reasonbank.ledger.port import Candidates, PastOutcomes, Reading
from reasonbank.store.context import Context
from reasonbank.trust import authors, belief, experience
from reasonbank.trust.experience import Learnt, Past

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Reals = NDArray[np.floating[Any]]

DAY = 86_400_000_000


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

    def resembled(self, similarity: Reals, cosine: Reals) -> Reals:
        """What outcomes are read against is resemblance by meaning: as far as anything is heard,
        that words match as well counts no more."""
        import numpy as np

        by_meaning = np.where(np.isnan(cosine), similarity, resemblance(cosine))
        resembled: Reals = similarity + self.learnt.heard * (by_meaning - similarity)
        return np.where(similarity < 0.0, similarity, resembled)

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
        masses = belief.without_usage(known.masses(rows))
        initial, author_weight = _by_author(context, reading, rows)
        trust = known.folded(rows, initial, masses)
        return np.column_stack([trust, initial, author_weight])

    key = ("trust", known.today, known.viewer)
    trust, initial, author_weight = rows.derived(key, anywhere).T
    if vector is None or found is None or not len(found.nums):
        nothing = Learnt(lift=np.zeros(count))
        return Trust(trust * author_weight, author_weight, nothing, trust / initial * author_weight)
    place = places(found.nums, rows.nums)
    weight = belief.strength_then(found.days.clip(max=known.today), known.half_life)
    masses = belief.without_usage(known.masses(rows))
    np.subtract.at(masses, (place, found.slots), weight * belief.counted(found.shares))
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

    try:
        memories = context.store.indexing.index.vectors(rows.nums)
    except StorageError:
        return Learnt(lift=np.zeros(len(rows.nums)))
    asked = found.vectors.astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True) + 1e-9
    direction = vector / (np.linalg.norm(vector) + 1e-9)
    past = Past(
        place=place,
        task=found.tasks,
        cosine=(asked @ direction).astype(np.float64),
        asked=asked,
        resembled=resemblance(np.einsum("ij,ij->i", asked, memories[place])),
        share=found.shares,
        strength=strength,
        succeeded=belief.speaks_for(found.slots),
    )
    return experience.learnt(memories, _traits(rows), resemblance(memories @ direction), past)


def _traits(rows: Candidates) -> NDArray[np.int64]:
    """How each came into the bank, who wrote it, and on which day."""
    import numpy as np

    named: list[NDArray[np.int64]] = []
    for names in (rows.sources, rows.authors):
        number = {name: place for place, name in enumerate(dict.fromkeys(names))}
        named.append(np.array([number[name] for name in names], np.int64))
    return np.column_stack([*named, rows.created_at // DAY])


def places(nums: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each of these is in ``among``, which has them all."""
    import numpy as np

    order = np.argsort(among)
    return order[np.searchsorted(among, nums, sorter=order)]


def _by_author(context: Context, reading: Reading, rows: Candidates) -> tuple[Floats, Floats]:
    """What to start from, by how the memories of the same author fared, and how far to
    listen to that author beside others."""
    import numpy as np

    records = authors.records_of(reading.authors(context.view), {*rows.authors})
    told = {author: (known.helped, known.failed, known.weight) for author, known in records.items()}
    helped, failed, weight = np.array([told[author] for author in rows.authors], np.float64).T
    # What has helped, or was rated so, is judged by that: only the untried can be hidden.
    proven = context.trust(reading).masses(rows)[:, authors.HELPFUL].any(axis=1)
    return (
        authors.prior_of_author(rows.initial, helped, failed),
        np.where(proven, weight.clip(authors.LEAST), weight),
    )


def crowded_out(
    context: Context, reading: Reading, rows: Candidates, trust: Trust, likely: float
) -> bool:
    """Whether memories of somebody are missing among the candidates: not one of theirs is there,
    or their memories help more often than the best candidate is ``likely`` to."""
    import numpy as np

    places = {*rows.workspaces}
    found = {key: told for key, told in reading.authors(context.view).items() if key[0] in places}
    known = authors.records_of(found, {author for _, author in found})
    if not {*rows.authors}.issuperset(known):
        return True
    if trust.rating_factor is None or len(known) < 2:
        return False
    helped, failed = np.array([record[:2] for record in known.values()], np.float64).T
    fared = authors.prior_of_author(np.full(len(known), 0.5), helped, failed)
    return bool((fared > likely).any())

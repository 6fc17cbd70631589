"""Evidence in, confidence out: a pure fold, without clock or disk.

Evidence enters only as a tally: how often was each kind seen, for or against, on
which day. Days are whole days since 1970-01-01 UTC. Since nothing finer than a
tally is ever looked at, neither the order of arrival nor rolling evidence up into
daily counts can change a result, not even in its last bit.

Eight numbers per memory come up again and again (masses, counts, lessons). Their
order is fixed: for each `Kind` in order of definition, first for, then against.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reasonbank.errors import InvalidInput
from reasonbank.model import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Tally = Mapping[tuple[Kind, bool, int], int]
"""(kind, positive, day) -> count. Rows of a database do as they are: "usage", 1, 20089."""

Masses = tuple[float, ...]
Counts = tuple[int, ...]

SLOTS = {
    (kind, positive): 2 * place + (not positive)
    for place, kind in enumerate(Kind)
    for positive in (True, False)
}
PRIOR_STRENGTH = 2.0
HALF_LIFE = 180.0
SHORTEST_HALF_LIFE = 30.0
USAGE_CAP = 3.0
LESSON_WINDOW = 30
FIRST_LESSONS = (7, 3, 5, 5, 5, 5, 5, 5)
EPOCH_DAY = 20_089  # 2025-01-01
# Two factors of 2**480 and a count of 2**60 still multiply to a finite number.
_FURTHEST = 480.0


def initial_confidence(source: str, outcome: str) -> float:
    match source, outcome:
        case "explicit", _:
            return 0.8
        case "distilled", "success":
            return 0.7
        case "distilled", "failure":
            return 0.6
    return 0.5


def prior(initial: float) -> tuple[float, float]:
    """Alpha and beta before any evidence: its mean is `initial`.

    A flat Beta(1, 1) would throw `initial` away, and the first praise of a memory
    that was recorded at 0.8 would lower it.
    """
    return PRIOR_STRENGTH * initial, PRIOR_STRENGTH * (1 - initial)


# What a ledger keeps for each memory: all of it can be rebuilt from the tally.


def masses(tally: Tally, half_life: float = HALF_LIFE) -> Masses:
    """The evidence as it would weigh on EPOCH_DAY; reading fades it to the day of reading.

    Stored masses never change with time, so there is no daily run that could fade
    them twice. They belong to one half-life: rebuild them when the setting changes.
    Evidence dated after the day of reading weighs more than one; refuse such dates
    where evidence enters.
    """
    shares: list[list[float]] = [[] for _ in SLOTS]
    last_use: dict[bool, int] = {}
    for (kind, positive, day), count in tally.items():
        shares[SLOTS[kind, positive]].append(count * 2.0 ** _half_lives(day, half_life))
        if kind == Kind.USAGE and count:
            last_use[positive] = max(day, last_use.get(positive, day))
    sums = [math.fsum(share) for share in shares]
    for positive, day in last_use.items():
        # Popularity must not outvote outcomes. Capped on the day of the last use, and
        # not on the day of reading: a cap that does not fade with the rest would let
        # fading carry a belief past its prior.
        cap = USAGE_CAP * 2.0 ** _half_lives(day, half_life)
        sums[SLOTS[Kind.USAGE, positive]] = min(sums[SLOTS[Kind.USAGE, positive]], cap)
    return tuple(sums)


def counts(tally: Tally) -> Counts:
    totals = [0] * len(SLOTS)
    for (kind, positive, _), count in tally.items():
        totals[SLOTS[kind, positive]] += count
    return tuple(totals)


def last_day(tally: Tally, created: int) -> int:
    """When evidence last spoke for the memory, or when it was created if that is later.

    Blame does not count: it would end a long idleness, and so raise confidence.
    """
    spoke = [day for (_, positive, day), count in tally.items() if positive and count]
    return max([created, *spoke])


def rating_lessons(tally: Tally) -> Counts:
    """How often each kind foretold an explicit rating of this memory, rightly and wrongly.

    A kind foretells by its balance over the rating's day and the 30 days before. No
    evidence, or as much for as against, foretells nothing. A project's lessons are the
    sum over its memories: to keep it, subtract a memory's old ones and add the new.
    """
    balances: dict[tuple[Kind, int], int] = {}
    for (kind, positive, day), count in tally.items():
        if kind != Kind.EXPLICIT:
            change = count if positive else -count
            balances[kind, day] = balances.get((kind, day), 0) + change
    lessons = [0] * len(SLOTS)
    for (rated, helpful, day), count in tally.items():
        if rated != Kind.EXPLICIT:
            continue
        for kind in Kind:
            window = range(day - LESSON_WINDOW, day + 1)
            balance = sum(balances.get((kind, seen), 0) for seen in window)
            if balance:
                lessons[SLOTS[kind, (balance > 0) == helpful]] += count
    return tuple(lessons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A Beta distribution over "this memory helps"."""

    alpha: float
    beta: float

    @property
    def mean(self) -> float:
        # Each step of this form rounds in one direction only. In alpha / (alpha + beta)
        # praise can lower the result by one bit.
        return 1 / (1 + self.beta / self.alpha) if self.alpha else 0.0

    @property
    def strength(self) -> float:
        return self.alpha + self.beta

    @property
    def lower_bound(self) -> float:
        """About 95 % of the belief lies above; a few lucky successes do not raise it far."""
        mean = self.mean
        return max(0.0, mean - 1.64 * math.sqrt(mean * (1 - mean) / (self.strength + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each kind of evidence says in one project: `Weights()` is a new project's."""

    lessons: Counts = (0,) * len(SLOTS)

    def of(self, kind: Kind) -> Belief:
        """How far to believe that this kind foretells a rating."""
        right, wrong = SLOTS[kind, True], SLOTS[kind, False]
        return Belief(
            alpha=FIRST_LESSONS[right] + self.lessons[right],
            beta=FIRST_LESSONS[wrong] + self.lessons[wrong],
        )

    def without(self, own: Counts) -> Weights:
        """The weights to read a memory with, given its own lessons.

        A rating must not weigh the evidence of the memory that it rates: "not helpful"
        after recent successes would discount older failures too, and could raise it.
        """
        return Weights(lessons=tuple(a - b for a, b in zip(self.lessons, own, strict=True)))

    def normalised(self) -> tuple[float, ...]:
        """One weight per kind, in order of `Kind`; they sum to 1."""
        means = [self.of(kind).mean for kind in Kind]
        return tuple(mean / math.fsum(means) for mean in means)


def bayesian(
    initial: float, masses: Masses, weights: Weights, today: int, half_life: float = HALF_LIFE
) -> Belief:
    alpha, beta = prior(initial)
    fade = 2.0 ** -_half_lives(today, half_life)
    for weight, gained, lost in zip(weights.normalised(), masses[::2], masses[1::2], strict=True):
        alpha += weight * (fade * gained)
        beta += weight * (fade * lost)
    return Belief(alpha=alpha, beta=beta)


def bayesian_means(
    initial: NDArray[np.float64],
    masses: NDArray[np.float64],
    weights: Weights,
    today: int,
    half_life: float = HALF_LIFE,
    *,
    own: NDArray[np.int64] | int = 0,
) -> NDArray[np.float64]:
    """`bayesian(...).mean` of many memories at once.

    `masses` has a row of eight for each, and so has `own`: the lessons to leave out.
    """
    import numpy as np

    lessons = np.array(FIRST_LESSONS) + np.array(weights.lessons) - own
    trust = lessons[..., ::2] / (lessons[..., ::2] + lessons[..., 1::2])
    share = trust / trust.sum(-1, keepdims=True) * 2.0 ** -_half_lives(today, half_life)
    alpha = PRIOR_STRENGTH * initial + (masses[:, ::2] * share).sum(-1)
    beta = PRIOR_STRENGTH * (1 - initial) + (masses[:, 1::2] * share).sum(-1)
    means: NDArray[np.float64] = alpha / (alpha + beta)
    return means


def strength_then(days: NDArray[np.int64], half_life: float = HALF_LIFE) -> NDArray[np.float64]:
    """What one piece of evidence of each day adds to `masses`."""
    import numpy as np

    _half_lives(EPOCH_DAY, half_life)
    strength: NDArray[np.float64] = np.exp2(
        ((days - EPOCH_DAY) / half_life).clip(-_FURTHEST, _FURTHEST)
    )
    return strength


def _half_lives(day: int, half_life: float) -> float:
    # Shorter half-lives would leave the range in which masses are exact (480 half-lives
    # around EPOCH_DAY) within a few years. An infinite one is fine: nothing fades.
    if not half_life >= SHORTEST_HALF_LIFE:
        raise InvalidInput(
            "half_life", f"{half_life} days is too short; use {SHORTEST_HALF_LIFE:g} or more"
        )
    return max(-_FURTHEST, min(_FURTHEST, (day - EPOCH_DAY) / half_life))


# Whom to believe. See docs/decisions/0010-belief-in-context.md.

PATIENCE = 10.0
LUCK = 2.0
"""So many successes more or less are taken for chance."""


def prior_of_author(
    initial: NDArray[np.float64], helped: NDArray[np.float64], failed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Where to start from, given how other memories by the same author fared.

    It takes ten failures to halve the trust in an author; a memory's own evidence then
    speaks against this prior as it would against any.
    """
    return (PATIENCE * initial + helped) / (PATIENCE + helped + failed)


def weight_of_author(
    helped: NDArray[np.float64],
    failed: NDArray[np.float64],
    others_helped: NDArray[np.float64],
    others_failed: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How far to listen to an author at all: 1, and 0 for one who is half as often right as
    the others. Where there are no others to compare with, everybody is listened to."""
    import numpy as np

    known = helped + failed + others_helped + others_failed
    rate = (1.0 + helped + others_helped) / (2.0 + known)
    others = (PATIENCE * rate + others_helped) / (PATIENCE + others_helped + others_failed)
    # Twelve failures say little where even the others hardly ever help: what counts is how many
    # successes are missing.
    missed = (helped + LUCK) / ((helped + failed) * others + LUCK)
    weight: NDArray[np.float64] = np.where(
        others_helped + others_failed > 0, (2.0 * missed - 1.0).clip(0.0, 1.0), 1.0
    )
    return weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that a model may know about a memory on the day of reading."""

    initial: float
    masses: Masses
    counts: Counts
    weights: Weights
    """The project's, without the memory's own lessons."""
    today: int
    last_day: int
    """See the function of that name."""
    half_life: float = HALF_LIFE
    project_uses: int = 0
    """How often searches returned any memory of the project, this one included."""
    context: float | None = None
    """How well it matches the question at hand, 0 to 1; None when nothing was asked."""

    @property
    def idle_days(self) -> int:
        return max(0, self.today - self.last_day)


class Model(Protocol):
    """How far to trust a memory.

    Requirements: the answer lies in 0..1 and depends on nothing but the standing; at
    given weights one more piece of evidence for the memory never lowers it, and one
    more against never raises it.
    """

    def __call__(self, standing: Standing, /) -> float: ...


def _bayesian(standing: Standing) -> float:
    return bayesian(
        standing.initial, standing.masses, standing.weights, standing.today, standing.half_life
    ).mean


def additive(standing: Standing) -> float:
    """Fixed steps up and down, and one down for each idle month.

    The steps for ratings, successes, kept code and idleness are those of the system it
    is taken from; failures and reverted code mirror them, which is our addition.
    """
    helped, hindered, _, _, succeeded, failed, kept, reverted = standing.counts
    total = standing.initial + 0.3 * helped - 0.2 * hindered
    total += 0.1 * succeeded - 0.1 * failed + 0.2 * kept - 0.2 * reverted
    # Clipped once: clipping at each step would make the order of evidence matter.
    return _clip(total - 0.05 * standing.idle_days / 30)


def safla(standing: Standing) -> float:
    """Success rate, usage frequency, recency and context match, mixed 4 : 3 : 2 : 1."""
    helped, hindered, uses, _, succeeded, failed, kept, reverted = standing.counts
    alpha, beta = prior(standing.initial)
    success = Belief(
        alpha=alpha + helped + succeeded + kept, beta=beta + hindered + failed + reverted
    )
    frequency = uses / standing.project_uses if standing.project_uses else 0.0
    recency = 2.0 ** (-standing.idle_days / 30)
    total = 0.4 * success.mean + 0.3 * frequency + 0.2 * recency
    if standing.context is None:
        return _clip(total / 0.9)
    return _clip(total + 0.1 * standing.context)


def _clip(value: float) -> float:
    return max(0.0, min(1.0, value))


MODELS: dict[str, Model] = {
    # In context, the confidence of a memory is that of `bayesian`; what differs is the
    # trust that a search ranks by.
    "contextual": _bayesian,
    "bayesian": _bayesian,
    "additive": additive,
    "safla": safla,
}
FOLDED = frozenset({"contextual", "bayesian"})
"""The models that need nothing but the stored masses."""

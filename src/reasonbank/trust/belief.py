"""Evidence in, confidence out: a pure fold, without clock or disk.

Evidence enters only as a tally: how much was seen of each kind, for or against, on
which day. Days are whole days since 1970-01-01 UTC. Since nothing finer than a
tally is ever looked at, neither the order of arrival nor rolling evidence up into
daily counts can change a result, not even in its last bit. Nor can it by a share of a
task's outcome: a tally counts in whole parts of one observation.

Some numbers come up again and again, one for each of `SLOTS` (masses, counts, lessons).
Their order is fixed: for each `Kind` in order of definition, first for, then against.
Where masses and lessons are arrays instead, each holds a column of many memories; the
arithmetic is the same, so that one memory and many agree to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from reasonbank.errors import InvalidInput
from reasonbank.model import EvidenceKind
from reasonbank.values import valueclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

N = TypeVar("N", float, "NDArray[np.float64]")
"""Of one memory, or of many."""

Tally = Mapping[tuple[EvidenceKind, bool, int], int]
"""(kind, positive, day) -> count, in parts of which `WHOLE` are one observation. Rows of a
database do as they are: "usage", 1, 20089."""

WHOLE = 1024
"""A power of two, so that dividing by it rounds nothing."""

Masses = tuple[float, ...]
Counts = tuple[int, ...]


class Opinion(NamedTuple):
    """What the evidence of one project about another's memory amounts to."""

    masses: Masses
    newest_day: int


SLOTS = {
    (kind, positive): 2 * place + (not positive)
    for place, kind in enumerate(EvidenceKind)
    for positive in (True, False)
}
NOTHING = (0,) * len(SLOTS)
_USAGE = list(EvidenceKind).index(EvidenceKind.USAGE)
PRIOR_STRENGTH = 2.0
HALF_LIFE = 180.0
SHORTEST_HALF_LIFE = 30.0
USAGE_CAP = 3.0
LESSON_WINDOW = 30
PRIOR_TRACK_RECORD = {EvidenceKind.EXPLICIT: (7, 3)}
"""Rightly and wrongly foretold, before anything was; `UNKNOWN` of any other kind."""
UNKNOWN = (5, 5)
EPOCH_DAY = 20_089  # 2025-01-01
# Two factors of 2**480 and a count of 2**60 still multiply to a finite number.
_FURTHEST = 480.0


def day_of(at: int) -> int:
    """Of microseconds since 1970."""
    return at // 86_400_000_000


Number = TypeVar("Number", int, float)


class EvidenceCounts(NamedTuple, Generic[Number]):
    """How often each was seen, in the order of `SLOTS`; fractions where tasks count by share."""

    rated_helpful: Number
    rated_unhelpful: Number
    used: Number
    used_in_vain: Number
    tasks_succeeded: Number
    tasks_failed: Number
    code_kept: Number
    code_reverted: Number


def initial_confidence(source: str, outcome: str) -> float:
    match source, outcome:
        case "explicit", _:
            return 0.8
        case "distilled", "success":
            return 0.7
        case "distilled", "failure":
            return 0.6
    return 0.5


def prior(initial: N) -> tuple[N, N]:
    """Alpha and beta before any evidence: its mean is `initial`.

    A flat Beta(1, 1) would throw `initial` away, and the first praise of a memory
    that was recorded at 0.8 would lower it.
    """
    return PRIOR_STRENGTH * initial, PRIOR_STRENGTH * (1 - initial)


def parts(kind: str, share: float | None) -> int:
    """What an observation adds to a tally. Of a task of which only the outcome is told, a memory
    takes its share: whoever stood by is neither blamed nor praised for all of it. What is told
    of the memory itself has no share, and a use is a use whatever fell to it."""
    if share is None or kind != EvidenceKind.OUTCOME:
        return WHOLE
    return max(1, round(share * WHOLE))


def counted(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of one observation each share counts for, as `parts` has it."""
    import numpy as np

    rounded: NDArray[np.float64] = np.maximum(1.0, np.rint(shares * WHOLE)) / WHOLE
    return rounded


# What a ledger keeps for each memory: all of it can be rebuilt from the tally.


def masses(tally: Tally, half_life: float = HALF_LIFE) -> Masses:
    """The evidence as it would weigh on EPOCH_DAY; reading fades it to the day of reading.

    Stored masses never change with time, so there is no daily run that could fade
    them twice. They belong to one half-life: rebuild them when the setting changes.
    Evidence dated after the day of reading would weigh more than one: see `no_later`.
    """
    shares: list[list[float]] = [[] for _ in SLOTS]
    last_use: dict[bool, int] = {}
    for (kind, positive, day), count in tally.items():
        strength = 2.0 ** _half_lives(day, half_life)
        shares[SLOTS[kind, positive]].append(count / WHOLE * strength)
        if kind == EvidenceKind.USAGE and count:
            last_use[positive] = max(day, last_use.get(positive, day))
    sums = [math.fsum(share) for share in shares]
    for positive, day in last_use.items():
        # Popularity must not outvote outcomes. Capped on the day of the last use, and
        # not on the day of reading: a cap that does not fade with the rest would let
        # fading carry a belief past its prior.
        cap = USAGE_CAP * 2.0 ** _half_lives(day, half_life)
        sums[SLOTS[EvidenceKind.USAGE, positive]] = min(
            sums[SLOTS[EvidenceKind.USAGE, positive]], cap
        )
    return tuple(sums)


def newest(tally: Tally) -> int:
    """The day of the newest evidence; 0 if there is none."""
    return max((day for (_, _, day), count in tally.items() if count), default=0)


def no_later(tally: Tally, today: int) -> Tally:
    """What a clock that was ahead dated after today happened today: nothing is younger."""
    found: dict[tuple[EvidenceKind, bool, int], int] = {}
    for (kind, positive, day), count in tally.items():
        key = (kind, positive, min(day, today))
        found[key] = found.get(key, 0) + count
    return found


def counts(tally: Tally) -> EvidenceCounts[float]:
    totals = [0] * len(SLOTS)
    for (kind, positive, _), count in tally.items():
        totals[SLOTS[kind, positive]] += count
    return EvidenceCounts(*(total / WHOLE for total in totals))


def last_day(tally: Tally, created: int) -> int:
    """When evidence last spoke for the memory, or when it was created if that is later.

    Blame does not count: it would end a long idleness, and so raise confidence. Nor does use
    of what fails (`worth_of_use`).
    """
    fails = not worth_of_use(counts(tally))
    spoke = [
        day
        for (kind, positive, day), count in tally.items()
        if positive and count and not (fails and kind == EvidenceKind.USAGE)
    ]
    return max([created, *spoke])


def track_record_of(tally: Tally) -> Counts:
    """How often each kind foretold an explicit rating of this memory, rightly and wrongly.

    A kind foretells by its balance over the rating's day and the 30 days before. No
    evidence, or as much for as against, foretells nothing. A project's lessons are the
    sum over its memories: to keep it, subtract a memory's old ones and add the new.
    """
    balances: dict[tuple[EvidenceKind, int], int] = {}
    for (kind, positive, day), count in tally.items():
        if kind != EvidenceKind.EXPLICIT:
            change = count if positive else -count
            balances[kind, day] = balances.get((kind, day), 0) + change
    track_record = [0] * len(SLOTS)
    for (rated, helpful, day), count in tally.items():
        if rated != EvidenceKind.EXPLICIT:
            continue
        for kind in EvidenceKind:
            window = range(day - LESSON_WINDOW, day + 1)
            balance = sum(balances.get((kind, seen), 0) for seen in window)
            if balance:
                track_record[SLOTS[kind, (balance > 0) == helpful]] += count // WHOLE
    return tuple(track_record)


@valueclass(frozen=True, slots=True, kw_only=True)
class Belief(Generic[N]):
    """A Beta distribution over "this memory helps"."""

    alpha: N
    beta: N

    @property
    def mean(self) -> N:
        # Each step of this form rounds in one direction only. In alpha / (alpha + beta)
        # praise can lower the result by one bit. Where alpha is 0, so is the mean.
        mean: N = (self.alpha > 0) / (1 + self.beta / (self.alpha + (self.alpha == 0)))
        return mean

    @property
    def strength(self) -> N:
        return self.alpha + self.beta

    @property
    def lower_bound(self: Belief[float]) -> float:
        """About 95 % of the belief lies above; a few lucky successes do not raise it far."""
        return max(0.0, self.mean - self._spread)

    @property
    def upper_bound(self: Belief[float]) -> float:
        """About 95 % of the belief lies below."""
        return min(1.0, self.mean + self._spread)

    @property
    def _spread(self: Belief[float]) -> float:
        mean = self.mean
        return 1.64 * math.sqrt(mean * (1 - mean) / (self.strength + 1))


@valueclass(frozen=True, slots=True, kw_only=True)
class EvidenceWeights:
    """How much each kind of evidence says in one project: `Weights()` is a new project's."""

    track_record: Sequence[Any] = NOTHING

    def of(self, kind: EvidenceKind) -> Belief[Any]:
        """How far to believe that this kind foretells a rating."""
        right, wrong = PRIOR_TRACK_RECORD.get(kind, UNKNOWN)
        return Belief(
            alpha=right + self.track_record[SLOTS[kind, True]],
            beta=wrong + self.track_record[SLOTS[kind, False]],
        )

    def without(self, own: Iterable[Any]) -> EvidenceWeights:
        """The weights to read a memory with, given its own track record.

        A rating must not weigh the evidence of the memory that it rates: "not helpful"
        after recent successes would discount older failures too, and could raise it.
        """
        return EvidenceWeights(
            track_record=tuple(a - b for a, b in zip(self.track_record, own, strict=True))
        )

    def normalised(self) -> tuple[Any, ...]:
        """One weight per kind, in order of `Kind`; they sum to 1."""
        means = [held.alpha / held.strength for held in map(self.of, EvidenceKind)]
        total = sum(means)
        return tuple(mean / total for mean in means)


def bayesian(
    initial: N,
    masses: Sequence[N],
    weights: EvidenceWeights,
    today: int,
    half_life: float = HALF_LIFE,
) -> Belief[N]:
    alpha, beta = prior(initial)
    fade = 2.0 ** -_half_lives(today, half_life)
    gains = list(masses[::2])
    gains[_USAGE] = gains[_USAGE] * worth_of_use(masses)
    for weight, gained, lost in zip(weights.normalised(), gains, masses[1::2], strict=True):
        alpha = alpha + weight * (fade * gained)
        beta = beta + weight * (fade * lost)
    return Belief(alpha=alpha, beta=beta)


def worth_of_use(seen: Sequence[N]) -> N:
    """How far to count that searches return a memory: 1 where nothing speaks against it, and 0
    where outcomes, ratings and stability speak as much against it as for it. What fails is not
    to be trusted more for being found more often. ``seen``: masses or counts, as in `SLOTS`."""
    if len(seen) != len(SLOTS):
        raise ValueError(f"{len(seen)} numbers, not {len(SLOTS)}")
    telling = [kind for kind in EvidenceKind if kind != EvidenceKind.USAGE]
    for_it: Any = sum(seen[SLOTS[kind, True]] for kind in telling)
    against: Any = sum(seen[SLOTS[kind, False]] for kind in telling)
    # Each step rounds in one direction only, as in `Belief.mean`.
    lead = 1.0 - 2.0 / (1.0 + for_it / (against + (against == 0)))
    worth: N = (against == 0) + (against != 0) * (lead > 0) * lead
    return worth


def without_usage(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """A row for each memory, all but this: that a search returned it would only make the
    served be served again."""
    kept = masses.copy()
    kept[:, [SLOTS[EvidenceKind.USAGE, positive] for positive in (True, False)]] = 0.0
    return kept


def speaks_for(slots: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of these are slots of evidence for a memory."""
    even: NDArray[np.bool_] = slots % 2 == 0
    return even


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


@valueclass(frozen=True, slots=True, kw_only=True)
class BeliefInputs:
    """All that a model may know about a memory on the day of reading."""

    initial: float
    masses: Masses
    counts: EvidenceCounts[float]
    weights: EvidenceWeights
    """The project's, without the memory's own track record."""
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


class BeliefModel(Protocol):
    """How far to trust a memory.

    Requirements: the answer lies in 0..1 and depends on nothing but the inputs; at
    given weights one more piece of evidence for the memory never lowers it, and one
    more against never raises it.
    """

    def __call__(self, inputs: BeliefInputs, /) -> float: ...


def _bayesian(inputs: BeliefInputs) -> float:
    return bayesian(
        inputs.initial, inputs.masses, inputs.weights, inputs.today, inputs.half_life
    ).mean


def additive(inputs: BeliefInputs) -> float:
    """Fixed steps up and down, and one down for each idle month.

    The steps for ratings, successes, kept code and idleness are those of the system it
    is taken from; failures and reverted code mirror them, which is our addition.
    """
    seen = inputs.counts
    total = inputs.initial + 0.3 * seen.rated_helpful - 0.2 * seen.rated_unhelpful
    done = 0.1 * seen.tasks_succeeded - 0.1 * seen.tasks_failed
    total += done + 0.2 * seen.code_kept - 0.2 * seen.code_reverted
    # Clipped once: clipping at each step would make the order of evidence matter.
    return _clip(total - 0.05 * inputs.idle_days / 30)


def safla(inputs: BeliefInputs) -> float:
    """Success rate, usage frequency, recency and context match, mixed 4 : 3 : 2 : 1."""
    seen = inputs.counts
    alpha, beta = prior(inputs.initial)
    success = Belief(
        alpha=alpha + seen.rated_helpful + seen.tasks_succeeded + seen.code_kept,
        beta=beta + seen.rated_unhelpful + seen.tasks_failed + seen.code_reverted,
    )
    frequency = seen.used / inputs.project_uses if inputs.project_uses else 0.0
    frequency *= worth_of_use(seen)
    recency = 2.0 ** (-inputs.idle_days / 30)
    total = 0.4 * success.mean + 0.3 * frequency + 0.2 * recency
    if inputs.context is None:
        return _clip(total / 0.9)
    return _clip(total + 0.1 * inputs.context)


def _clip(value: float) -> float:
    return max(0.0, min(1.0, value))


MODELS: dict[str, BeliefModel] = {
    # In context, the confidence of a memory is that of `bayesian`; what differs is the
    # trust that a search ranks by.
    "contextual": _bayesian,
    "bayesian": _bayesian,
    "additive": additive,
    "safla": safla,
}
FOLDED = frozenset({"contextual", "bayesian"})
"""The models that need nothing but the stored masses."""

"""What outcomes of similar questions say about this one: see docs/decisions/0022. Pure.

That a memory resembles a question is a first guess at whether it helps. How a task went is one
observation of all memories that it was given: the sum of their shares times what each was worth.
One Gaussian process over all of them says what each is worth for the question at hand. How wide
a question's neighbourhood is, and how far to believe an outcome, differs from bank to bank: a few
`READINGS` are weighed by how well each foretells every outcome from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


class Reading(NamedTuple):
    """How to read outcomes: ``narrow`` times as narrow as is usual, and ``doubt`` is how far one
    outcome may be chance."""

    narrow: int
    doubt: float


NARROW = (1, 2, 4)
READINGS = tuple(Reading(narrow, doubt) for narrow in NARROW for doubt in (1.0, 4.0, 16.0))
PLAIN = 4.0
"""Beside these: that only what holds anywhere can be learnt, read with this doubt."""
DECISION = 2.0
"""How clearly a reading is preferred that foretells better."""
STRANGERS = 0.02
"""So much two questions have in common that are as near as any two of the bank usually are."""
USUAL, USUAL_COUNT = 0.13, 10.0
"""How near any two questions are, and how many outcomes it takes to know better."""
POWERS = (1.0, 12.0)
MISLED = 1.0
"""How far resemblance itself may mislead in a bank, as where much of it is poisoned."""
BASE = 0.25
"""How far all memories of a bank may help more, or less, than they resemble. What failed because
most things fail is then not held against the memory that was tried."""
TRAIT = 0.5
"""How far memories fare alike, and unlike others, that came in the same way, from one author or on
one day."""
SAME = 1.0
"""What is known of the very same question only, beside what related ones share."""
MARGIN = 0.1
"""An outcome is taken for so much more than 1 or less than 0: it only says on which side."""
AGEING = 0.5
"""Outcomes of known questions fade half as fast as ratings do: newer ones correct them anyway."""
NEAREST = 96
"""So many outcomes are heard, those of the most similar questions."""
KIN, KIN_POWER = 0.25, 8
"""How far memories that read alike fare alike: this share of what an outcome says goes by the
cosine of the memories, to this power."""
CERTAIN = 0.03
"""No forecast is nearer to 0 or 1 than this."""
SHIFT, SLOPE = 1.0, 0.25
"""How far the curve from resemblance to chance may differ from bank to bank (variances)."""
FRESH = 48
"""So many newer outcomes halve what one counts for that curve: what held before things changed
says little of how forecasts come true now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Earlier outcomes, one row for each memory that a task was given, the newest first.

    ``place`` says whose it is, ``task`` which rows were one task (any number, the same), ``cosine``
    how near its question was to the one at hand, ``asked`` is that question's direction (unit
    length), ``resembled`` how the memory resembles it (0..1), ``share`` what part of the outcome is
    this memory's, ``strength`` (0..1) what time has left of it.
    """

    place: NDArray[np.intp]
    task: NDArray[np.int64]
    cosine: Floats
    asked: NDArray[np.float32]
    resembled: Floats
    share: Floats
    strength: Floats
    succeeded: NDArray[np.bool_]

    def nearest(self, most: int) -> Past:
        import numpy as np

        if len(self.place) <= most:
            return self
        kept = np.sort(np.argsort(-self.cosine, kind="stable")[:most])
        return Past(**{name: getattr(self, name)[kept] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """``lift``: what outcomes add to the resemblance of each memory, or take from it.

    ``base`` is what they add to all alike: a forecast counts it, an order need not. ``heard``: how
    much of what was told concerns the question at hand, 0..1. ``shift`` and ``slope`` turn a guess
    into a chance, by how such guesses came true.
    """

    lift: Floats
    base: float = 0.0
    heard: float = 0.0
    shift: float = 0.0
    slope: float = 1.0

    def chance(self, guess: Floats) -> Floats:
        import numpy as np

        odds = _log_odds(guess + self.base)
        chance: Floats = 1.0 / (1.0 + np.exp(-self.shift - self.slope * odds))
        return chance.clip(CERTAIN, 1.0 - CERTAIN)


def learnt(
    memories: NDArray[np.float32], traits: NDArray[np.int64], guess: Floats, past: Past
) -> Learnt:
    """From outcomes of these ``memories`` (unit length), of which resemblance lets ``guess`` so
    much for the question at hand; without any outcomes, everything is as it seems. ``traits``: a
    column for each of them, in which equals have the same number."""
    import numpy as np

    if not len(past.place):
        return Learnt(lift=np.zeros(len(memories)))
    power = _power(past.cosine)
    past = past.nearest(NEAREST)
    tasks, task = np.unique(past.task, return_inverse=True)
    part = np.zeros((len(tasks), len(past.place)))
    part[task, np.arange(len(task))] = past.share
    # Several answers may have been given to one task: together they are all of it.
    part /= part.sum(1, keepdims=True).clip(1.0)
    share = part[task, np.arange(len(task))]
    told = _Told.of(task, part, past)
    related = (past.asked @ past.asked.T).astype(np.float64).clip(0.0, 1.0)
    kin = _kin(memories, past.place)
    shared = [part @ (kin[past.place] * each) @ part.T for each in _shared(related, power)]
    company = TRAIT * _company(traits, past.place)
    anywhere = MISLED * np.outer(guess, past.resembled) + company
    theirs = MISLED * np.outer(past.resembled, past.resembled) + company[past.place] + BASE
    every = np.arange(len(tasks))
    near_by = [shared[NARROW.index(each.narrow)] for each in READINGS]
    alike = np.stack([*near_by, np.zeros_like(shared[0])])
    alike += part @ theirs @ part.T
    doubt = np.array([*(each.doubt for each in READINGS), PLAIN])
    # What is not known to have had a part may be worth anything.
    alike[:, every, every] += doubt[:, None] / told.strength + told.rest**2
    inverse = np.linalg.inv(alike)
    weight = inverse @ told.surprise
    foretold = (told.target - weight / inverse[:, every, every]).clip(0.0, 1.0)
    preferred = _preferred(foretold, told)
    near = past.cosine.astype(np.float64).clip(0.0, 1.0)
    here = _shared(near, power)
    said = preferred[:, None] * share * weight[:, task]
    lift = anywhere @ said.sum(0)
    for each, how in zip(READINGS, said, strict=False):
        lift += kin @ (here[NARROW.index(each.narrow)] * how)
    heard = float((here[1] * share * past.strength).sum())
    shift, slope = _curve(preferred @ foretold, told, told.strength * _fresh(task))
    return Learnt(
        lift=lift, base=BASE * float(said.sum()), heard=heard / (1.0 + heard), shift=shift,
        slope=slope,
    )  # fmt: skip


class _Told(NamedTuple):
    """How tasks went: ``guess`` is what resemblance promised, ``surprise`` what came beyond it,
    ``rest`` the part of memories of which nothing is known here."""

    guess: Floats
    surprise: Floats
    target: Floats
    strength: Floats
    rest: Floats
    succeeded: Floats

    @classmethod
    def of(cls, task: NDArray[np.intp], part: Floats, past: Past) -> _Told:
        import numpy as np

        known = part.sum(1)
        guess = part @ past.resembled / known.clip(1e-9)
        succeeded = np.zeros(len(part))
        succeeded[task] = past.succeeded
        strength = np.zeros(len(part))
        np.maximum.at(strength, task, past.strength)
        target = np.where(succeeded > 0, 1.0 + MARGIN, -MARGIN)
        return cls(
            guess, target - guess, target, strength.clip(1e-6, 1.0), (1.0 - known).clip(0.0),
            succeeded,
        )  # fmt: skip


def _power(cosine: Floats) -> float:
    """Of the cosine: what leaves `STRANGERS` to questions that are as near as they usually are.
    In a bank of one subject all questions are near, and only the nearest are related."""
    usual = (USUAL * USUAL_COUNT + float(cosine.clip(0.0, 0.95).sum())) / (
        USUAL_COUNT + len(cosine)
    )
    return min(max(log(STRANGERS) / log(usual), POWERS[0]), POWERS[1])


def _shared(cosine: Floats, power: float) -> tuple[Floats, ...]:
    """What questions have in common, read as narrow as each of `NARROW`."""
    import numpy as np

    wide: Floats = np.exp(power * np.log(cosine.clip(1e-9)))
    same = cosine
    for _ in range(7):  # To the power of 128: next to nothing but for the very same question.
        same = same * same
    return tuple(wide**narrow + SAME * same for narrow in NARROW)


def _company(traits: NDArray[np.int64], place: NDArray[np.intp]) -> Floats:
    """How far each memory keeps company with that of each outcome: what both have and others
    lack. What all have says nothing of any."""
    import numpy as np

    company: Floats = np.zeros((len(traits), len(place)))
    for column in traits.T:
        _, which, count = np.unique(column, return_inverse=True, return_counts=True)
        often = count / len(column)
        usual = often[which]
        company += which[:, None] == which[place][None, :]
        company += (often**2).sum() - usual[:, None] - usual[place][None, :]
    return company


def _kin(memories: NDArray[np.float32], place: NDArray[np.intp]) -> Floats:
    """How far each memory fares like that of each outcome: 1 for itself."""
    import numpy as np

    alike = (memories @ memories[place].T).astype(np.float64).clip(0.0, 1.0) ** KIN_POWER
    same = np.arange(len(memories))[:, None] == place[None, :]
    kin: Floats = KIN * alike + (1.0 - KIN) * same
    return kin


def _preferred(foretold: Floats, told: _Told) -> Floats:
    """How far to go by each reading."""
    import numpy as np

    loss = ((foretold - told.succeeded) ** 2 * told.strength).sum(1)
    standing: Floats = np.exp(DECISION * (loss.min() - loss))
    preferred: Floats = standing / standing.sum()
    return preferred


def _log_odds(chance: Floats) -> Floats:
    import numpy as np

    bounded = chance.clip(CERTAIN, 1.0 - CERTAIN)
    odds: Floats = np.log(bounded / (1.0 - bounded))
    return odds


def _fresh(task: NDArray[np.intp]) -> Floats:
    """What each task counts beside newer ones; ``task`` says of each row, the newest first,
    whose it is."""
    import numpy as np

    _, first = np.unique(task, return_index=True)
    newer = first.argsort().argsort()
    fresh: Floats = np.exp2(-newer / FRESH)
    return fresh


def _curve(foretold: Floats, told: _Told, strength: Floats) -> tuple[float, float]:
    """The logistic curve that turns what was foretold into how often it came true: four steps of
    Newton's method from the diagonal, near which it stays while there is little to go by."""
    import numpy as np

    x = _log_odds(foretold)
    shift, slope = 0.0, 1.0
    for _ in range(4):
        chance = 1.0 / (1.0 + np.exp(-shift - slope * x))
        wrong = (chance - told.succeeded) * strength
        unsure = chance * (1.0 - chance) * strength
        ahead = np.array([wrong.sum() + shift / SHIFT, wrong @ x + (slope - 1.0) / SLOPE])
        bend = np.array([
            [unsure.sum() + 1.0 / SHIFT, unsure @ x],
            [unsure @ x, unsure @ (x * x) + 1.0 / SLOPE],
        ])  # fmt: skip
        step = np.linalg.solve(bend, ahead)
        shift, slope = shift - float(step[0]), slope - float(step[1])
    # A curve that falls would say that what fits worse helps more.
    return shift, max(0.0, slope)


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


def adjusted(similarity: Floats, lift: Floats) -> Floats:
    """Resemblance and experience together; never below 0, and never two alike that differ:
    what failed here ranks by how clearly it failed."""
    import numpy as np

    total = similarity + lift
    floor = np.minimum(0.1, similarity).clip(1e-9)
    low = floor * np.exp(np.minimum(0.0, (total - floor) / floor).clip(-30.0))
    result: Floats = np.where(total < floor, low, total)
    return result

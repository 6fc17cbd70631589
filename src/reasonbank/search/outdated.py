"""Of the hits that state one fact with two values, the newest first and the older marked.

Recency compares rivals with each other, not with today: a millisecond is enough. The older is
marked only where both surely state one fact; what likely does is put in order, no more: that
costs little where both are true.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import TYPE_CHECKING

from reasonbank.embed.calibration import EmbeddingCalibration, RevisionWeights
from reasonbank.ledger.events import revisions
from reasonbank.ledger.port import Reading, Row
from reasonbank.model import Memory, to_micros
from reasonbank.search.gather import Gathered, Question
from reasonbank.search.rank import Ranking
from reasonbank.search.revised import Signs, may_revise, odds, signs
from reasonbank.search.rivals import outdates
from reasonbank.store.context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REACH = 10
"""So many of the answer, and as many of what comes after it, are compared with each other."""
NEIGHBOURS = 4
"""So many that are near the best answer are compared with it, however they fit the question."""
NEAR = 0.6
"""The share of the cosine at which two memories are related that two wordings of a fact have."""
CONTENDER = 0.7
"""Only among those that fit the question nearly as well as the best, the order matters."""
VALUES = 3
"""So many may be newer wordings of one memory."""
BETTER_KNOWN = 0.1
"""So much more confidence keeps the older in its place: then trust is not equal."""
MORE_HELPFUL = 0.02
"""The same of what experience adds, where it is not sure that both state one fact."""
LEAST_SCORE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A candidate, and what decides between rivals."""

    memory: Memory
    at: tuple[int, int]
    """Since when it says what it says; of the same instant, which was recorded later."""
    score: float
    confidence: float
    cosine: float = nan
    """To the question; NaN where it is unknown."""
    answers: bool = True
    """Whether it is relevant enough by itself."""
    fit: float = 0.0
    """What experience with such questions says for it."""


def settled(
    question: str,
    stated: Sequence[Stated],
    order: Sequence[int],
    cosines: NDArray[np.float32],
    calibration: EmbeddingCalibration,
) -> tuple[list[int], dict[int, int]]:
    """The order with newer rivals first, and who is outdated by whom. Pure.

    ``cosines`` are those of each two, NaN where one has no vector. A newer value comes in even
    if it was not among the answers: the older one alone would mislead.
    """
    result = list(order)
    outdated: dict[int, int] = {}
    # Of what has no vector, words decide.
    near = ~(cosines < NEAR * calibration.merge.related)
    newest = sorted(range(len(stated)), key=lambda i: stated[i].at, reverse=True)
    # The oldest are placed first, so that of three values the newest ends up before all.
    for newer in reversed(newest):
        for older in (*result, *(i for i in newest if i not in result)):
            if not near[newer, older] or not _may_replace(stated[older], stated[newer]):
                continue
            if outdates(stated[newer].memory, stated[older].memory):
                outdated[older] = newer
                _place(newer, older, result)
    if calibration.revision is None:
        return result, outdated
    rivals = Rivals(question, stated, cosines, calibration.merge.related, calibration.revision)
    # What may be another wording takes no place from a value that is surely the newer one.
    standing = [i for i in newest if i not in outdated]
    best = CONTENDER * max((stated[i].score for i in order), default=0.0)
    settled_by = set(outdated.values())
    for older in [i for i in result if i in standing and i not in settled_by]:
        if stated[older].score < best:
            continue
        for newer in rivals.of(older, standing):
            _place(newer, older, result)
    return result, outdated


@dataclass(frozen=True, slots=True)
class Rivals:
    """Who likely says in other words what is newer."""

    question: str
    stated: Sequence[Stated]
    cosines: NDArray[np.float32]
    related: float
    weights: RevisionWeights | None

    def of(self, older: int, among: Sequence[int]) -> list[int]:
        """The likeliest first."""
        assert self.weights is not None
        first, found = self.first(among), []
        for newer in among:
            one, other = self.stated[older], self.stated[newer]
            if not other.answers or one.fit > other.fit + MORE_HELPFUL:
                continue
            if _may_replace(one, other) and may_revise(one.memory, other.memory):
                how_likely = odds(self.signs(older, newer, first), self.weights)
                if how_likely > 0.0:
                    found.append((how_likely, newer))
        return [newer for _, newer in sorted(found, reverse=True)[:VALUES]]

    def first(self, among: Iterable[int]) -> list[int]:
        """The three that fit the question best: whoever is beside two of them is a third."""
        return sorted(among, key=lambda i: self.stated[i].score, reverse=True)[:3]

    def signs(self, older: int, newer: int, first: Sequence[int]) -> Signs:
        one, other = self.stated[older], self.stated[newer]
        third = max((self.stated[i].score for i in first if i not in (older, newer)), default=0.0)
        near, behind = float(self.cosines[newer, older]), one.cosine - other.cosine
        return signs(
            self.question,
            one.memory,
            other.memory,
            near=None if isnan(near) else near / self.related,
            behind=0.0 if isnan(behind) else behind / self.related,
            third=third / max(other.score, LEAST_SCORE),
        )


def _may_replace(older: Stated, newer: Stated) -> bool:
    """Whether it is newer, at about equal trust."""
    return newer.at > older.at and older.confidence <= newer.confidence + BETTER_KNOWN


def _place(newer: int, older: int, result: list[int]) -> None:
    """Right before the older one, if that is among the answers and comes first."""
    if older not in result:
        return
    place = result.index(older)
    if newer in result:
        if result.index(newer) < place:
            return
        result.remove(newer)
    result.insert(place, newer)


def settle(
    context: Context, reading: Reading, question: Question, found: Gathered, ranked: Ranking
) -> tuple[Ranking, Mapping[str, str]]:
    """The ranking with rivals in their order, and for each outdated id the newer one."""
    import numpy as np

    pool = _pool(found, ranked)
    if len(pool) < 2 or not len(ranked.order):
        return ranked, {}
    rows = {row.num: row for row in reading.rows(context.view, found.rows.nums[pool].tolist())}
    # Else somebody has just forgotten it.
    pool = pool[[int(num) in rows for num in found.rows.nums[pool]]]
    score, answers, closest = ranked.score, ranked.answers, found.cosines.max(axis=0)
    stated = [
        Stated(
            memory=rows[int(found.rows.nums[place])].memory(),
            at=_since(context, reading, rows[int(found.rows.nums[place])]),
            score=float(score[place]),
            confidence=float(found.confidence[place]),
            cosine=float(closest[place]),
            answers=bool(answers[place]),
            fit=float(ranked.fit[place]),
        )
        for place in pool.tolist()
    ]
    places = {place: i for i, place in enumerate(pool.tolist())}
    order = [places[place] for place in ranked.order.tolist() if place in places]
    cosines = _cosines(found, pool)
    new, outdated = settled(question.text, stated, order, cosines, ranked.calibration)
    ids = {
        found.rows.ids[pool[older]]: found.rows.ids[pool[newer]]
        for older, newer in outdated.items()
    }
    if new == order:
        return ranked, ids
    whole = _woven(ranked.order.tolist(), [int(pool[i]) for i in new], set(pool.tolist()))
    kept = np.array(whole[: max(question.limit, 0)], np.intp)
    return replace(ranked, order=kept, scores=score[kept]), ids


def _since(context: Context, reading: Reading, row: Row) -> tuple[int, int]:
    """Since when it says what it says: one that was revised is as new as its last wording."""
    if row.revision == 1:
        return row.created_at, row.num
    since, later = row.created_at, row.num
    said = None
    for revision in revisions(reading.changes_of(context.view, row.id)):
        now = revision.memory.title, revision.memory.content
        if said is not None and now != said:
            since, later = to_micros(revision.at), sys.maxsize
        said = now
    return since, later


def _woven(order: list[int], new: list[int], moved: set[int]) -> list[int]:
    """The new order of those that were compared, among the others that stay where they were."""
    result: list[int] = []
    rest = list(new)
    for place in order:
        if place not in moved:
            result.append(place)
            continue
        # Whoever came in stands right before the one that it outdates.
        while rest and rest[0] not in order:
            result.append(rest.pop(0))
        if rest:
            result.append(rest.pop(0))
    return result + rest


def _pool(found: Gathered, ranked: Ranking) -> NDArray[np.intp]:
    """The first of the answer, the best of what was left out, and what is near the very first;
    all of it if the filter allows it."""
    import numpy as np

    first = ranked.order[:REACH]
    by_score = np.argsort(-ranked.score, kind="stable")
    left = by_score[found.allowed[by_score] & ~np.isin(by_score, ranked.order)]
    left, further = left[:REACH], left[REACH:]
    if found.vectors is None or not len(first) or not len(further):
        return np.concatenate([first, left]).astype(np.intp)
    # Its newer value may have nothing of the question, and be near the best answer all the same.
    near = found.vectors[further] @ found.vectors[first[0]]
    closest = further[np.argsort(-near, kind="stable")[:NEIGHBOURS]]
    return np.concatenate([first, left, closest]).astype(np.intp)


def _cosines(found: Gathered, pool: NDArray[np.intp]) -> NDArray[np.float32]:
    """How near they are to each other by meaning; NaN where it is unknown."""
    import numpy as np

    if found.vectors is None:
        return np.full((len(pool), len(pool)), np.nan, np.float32)
    own = found.vectors[pool]
    cosines: NDArray[np.float32] = own @ own.T
    known = own.any(axis=1)
    cosines[~np.outer(known, known)] = np.nan
    return cosines

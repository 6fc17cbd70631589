"""Of the hits that state one fact with two values, the newest first and the older marked.

Recency compares rivals with each other, not with today: a millisecond is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reasonbank.ledger.port import Reading
from reasonbank.model import Memory
from reasonbank.search.gather import Gathered, Question
from reasonbank.search.rank import Ranking
from reasonbank.search.rivals import Rivalry, asked_for, rivalry
from reasonbank.store.context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REACH = 10
"""So many of the answer, and as many of what comes after it, are compared with each other."""
NEAR = 0.6
"""The share of the cosine at which two memories are related that two wordings of a fact have."""
IN_THE_RUNNING = 0.5
"""What fits the question so much less is no other wording of its answer."""
BETTER_KNOWN = 0.1
"""So much more confidence keeps the older in its place: then trust is not equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A candidate, and what decides between rivals."""

    memory: Memory
    at: tuple[int, int]
    """When it was recorded; of the same instant, which was later."""
    score: float
    confidence: float
    answers: bool = True
    """Whether it is relevant enough by itself."""


def settled(
    question: str, stated: Sequence[Stated], order: Sequence[int], near: NDArray[np.bool_]
) -> tuple[list[int], dict[int, int]]:
    """The order with newer rivals first, and who is outdated by whom. Pure.

    ``near`` says which pairs are near by meaning. A newer value comes in even if it was not
    among the answers: the older one alone would mislead.
    """
    result = list(order)
    outdated: dict[int, int] = {}
    newest = sorted(range(len(stated)), key=lambda i: stated[i].at, reverse=True)
    # The oldest are placed first, so that of three values the newest ends up before all.
    for newer in reversed(newest):
        for older in (*result, *(i for i in newest if i not in result)):
            if not near[newer, older] or stated[older].at >= stated[newer].at:
                continue
            kind = _between(question, stated[older], stated[newer])
            sure = kind is Rivalry.SURE
            if sure:
                outdated[older] = newer
            if older not in result:
                continue
            place = result.index(older)
            if not (sure or (kind and _next(newer, place, result, stated, outdated))):
                continue
            if newer in result:
                if result.index(newer) < place:
                    continue
                result.remove(newer)
            result.insert(place, newer)
    return result, outdated


def _between(question: str, older: Stated, newer: Stated) -> Rivalry:
    if older.confidence > newer.confidence + BETTER_KNOWN:
        return Rivalry.NONE
    kind = rivalry(older.memory, newer.memory)
    if kind is Rivalry.POSSIBLE and asked_for(question, older.memory, newer.memory):
        return Rivalry.NONE
    return kind


def _next(
    newer: int, place: int, order: list[int], stated: Sequence[Stated], outdated: Mapping[int, int]
) -> bool:
    """Whether it would be the next after that place, and fits the question about as well."""
    one, before = stated[newer], stated[order[place]]
    if not one.answers or one.score < IN_THE_RUNNING * before.score:
        return False
    following = [i for i in order[place + 1 :] if i not in outdated]
    return not following or following[0] == newer


def settle(
    context: Context, reading: Reading, question: Question, found: Gathered, ranked: Ranking
) -> tuple[Ranking, Mapping[str, str]]:
    """The ranking with rivals in their order, and for each outdated id the newer one."""
    import numpy as np

    pool = _pool(found, ranked)
    if len(pool) < 2 or not len(ranked.order):
        return ranked, {}
    if not _near(found, ranked, pool).any():
        return ranked, {}
    rows = {row.num: row for row in reading.rows(context.view, found.rows.nums[pool].tolist())}
    # Else somebody has just forgotten it.
    pool = pool[[int(num) in rows for num in found.rows.nums[pool]]]
    score = ranked.score
    stated = [
        Stated(
            memory=rows[int(found.rows.nums[place])].memory(),
            at=(int(found.rows.created_at[place]), int(found.rows.nums[place])),
            score=float(score[place]),
            confidence=float(found.confidence[place]),
            answers=bool(ranked.answers[place]),
        )
        for place in pool.tolist()
    ]
    places = {place: i for i, place in enumerate(pool.tolist())}
    order = [places[place] for place in ranked.order.tolist() if place in places]
    new, outdated = settled(question.text, stated, order, _near(found, ranked, pool))
    ids = {
        found.rows.ids[pool[older]]: found.rows.ids[pool[newer]]
        for older, newer in outdated.items()
    }
    if new == order:
        return ranked, ids
    whole = _woven(ranked.order.tolist(), [int(pool[i]) for i in new], set(pool.tolist()))
    kept = np.array(whole[: max(question.limit, 0)], np.intp)
    return replace(ranked, order=kept, scores=score[kept]), ids


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
    """The first of the answer, then the best of what was left out, if the filter allows it."""
    import numpy as np

    first = ranked.order[:REACH]
    by_score = np.argsort(-ranked.score, kind="stable")
    left = by_score[found.allowed[by_score] & ~np.isin(by_score, ranked.order)]
    return np.concatenate([first, left[:REACH]]).astype(np.intp)


def _near(found: Gathered, ranked: Ranking, pool: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of them are near each other by meaning; where it is unknown, words decide."""
    import numpy as np

    near = np.ones((len(pool), len(pool)), np.bool_)
    if found.vectors is not None:
        own = found.vectors[pool]
        known = np.asarray(own.any(axis=1))
        near = own @ own.T >= NEAR * ranked.calibration.merge.related
        near |= ~np.outer(known, known)
    np.fill_diagonal(near, False)
    return near

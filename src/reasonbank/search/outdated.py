"""Of the hits that state one fact with two values, the newest first and the older marked.

Recency compares rivals with each other, not with today: a millisecond is enough.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reasonbank.ledger.events import revisions
from reasonbank.ledger.port import Reading, Row
from reasonbank.model import Memory, to_micros
from reasonbank.search.asked import Bearing, bearing
from reasonbank.search.gather import Gathered, Question
from reasonbank.search.rank import Ranking
from reasonbank.search.rivals import Rivalry, asked_for, rivalry
from reasonbank.store.context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REACH = 10
"""So many of the answer, and as many of what comes after it, are compared with each other."""
NEIGHBOURS = 4
"""So many that are near the best answer are compared with it, however they fit the question."""
READ = 1_000
"""Letters of a memory in which its subject is looked for; what states a fact has fewer."""
NEAR = 0.6
"""The share of the cosine at which two memories are related that two wordings of a fact have."""
CONTENDER = 0.8
"""Only among those that fit the question nearly as well as the best, the order matters."""
IN_THE_RUNNING = 0.5
"""What fits the question so much less is no other wording of its answer."""
STAND_OUT = 0.75
"""Whoever else fits that well shows that the question has many answers, not two values."""
NEXT_BEST = 0.88
"""The same beside the newer of the two."""
AS_LIKELY = 0.65
"""The same of what does not surely answer it."""
SUBJECT_IN_PART = 0.67
"""The same where the newer lacks some of what the question is about."""
AS_GOOD = 0.75
"""Where nothing but the question tells that two state one fact, they fit it about as well."""
BETTER_KNOWN = 0.1
"""So much more confidence keeps the older in its place: then trust is not equal."""
MORE_HELPFUL = 0.02
"""The same of what outcomes of such questions say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A candidate, and what decides between rivals."""

    memory: Memory
    at: tuple[int, int]
    """Since when it says what it says; of the same instant, which was recorded later."""
    score: float
    confidence: float
    fit: float = 0.0
    """What outcomes of such questions say for it, or against it."""
    answers: bool = True
    """Whether it is relevant enough by itself."""
    weak: bool = False
    """Whether it is not surely so."""


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
            if _between(stated[older], stated[newer]) is Rivalry.SURE:
                outdated[older] = newer
                _place(newer, older, result)
    # What may be another wording takes no place from a value that is surely the newer one.
    standing = [i for i in reversed(newest) if i not in outdated]
    best = CONTENDER * max((stated[i].score for i in order), default=0.0)
    contenders = [i for i in result if i in standing and _contends(stated[i], best)]
    by_score = sorted(stated, key=lambda one: one.score, reverse=True)
    for newer in standing:
        for older in contenders:
            one, other = stated[older], stated[newer]
            # To compare texts costs more than all the rest.
            as_good = other.score >= AS_GOOD * one.score
            if other.at <= one.at or not (near[newer, older] or as_good):
                continue
            kind = _asked_about(question, one, other)
            kind = kind if near[newer, older] else min(kind, Rivalry.OPEN)
            if _first(question, kind, one, other, by_score):
                _place(newer, older, result)
    return result, outdated


def _in_the_running(older: Stated, newer: Stated) -> bool:
    return newer.answers and newer.score >= IN_THE_RUNNING * older.score


def _third(question: str, older: Stated, newer: Stated, by_score: Sequence[Stated]) -> float:
    """The best score of all others, of which those that are about something else do not count."""
    for one in by_score:
        if one is older or one is newer:
            continue
        if one.score <= newer.score or _bearing(question, older, one) is not Bearing.APART:
            return one.score
    return 0.0


def _contends(one: Stated, least: float) -> bool:
    return one.score >= least and not one.weak


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


def _between(older: Stated, newer: Stated) -> Rivalry:
    if older.confidence > newer.confidence + BETTER_KNOWN or older.fit > newer.fit + MORE_HELPFUL:
        return Rivalry.NONE
    return rivalry(older.memory, newer.memory)


def _asked_about(question: str, older: Stated, newer: Stated) -> Rivalry:
    """What they are to each other for who asks that."""
    kind = _between(older, newer)
    if kind is Rivalry.NONE:
        return kind
    bears = _bearing(question, older, newer)
    wants_older = bears is Bearing.UNKNOWN and asked_for(question, older.memory, newer.memory)
    return Rivalry.NONE if bears is Bearing.APART or wants_older else kind


def _bearing(question: str, older: Stated, newer: Stated) -> Bearing:
    memories = older.memory, newer.memory
    one, other = (f"{memory.title}\n{memory.content[:READ]}" for memory in memories)
    return bearing(question, one, other)


def _first(
    question: str, kind: Rivalry, older: Stated, newer: Stated, by_score: Sequence[Stated]
) -> bool:
    """Whether the newer comes first though nothing says for sure that it is the same fact."""
    if kind is Rivalry.LIKELY:
        return True
    if kind is Rivalry.NONE or not _in_the_running(older, newer):
        return False
    share = newer.score / older.score if older.score > 0 else 1.0
    third = _third(question, older, newer, by_score)
    bears = _bearing(question, older, newer)
    if bears >= Bearing.PARTLY:
        return third <= newer.score and (bears is Bearing.SAME or share >= SUBJECT_IN_PART)
    stand_out = third <= max(STAND_OUT * older.score, NEXT_BEST * newer.score)
    if kind is Rivalry.POSSIBLE:
        return (share >= AS_LIKELY or not newer.weak) and (stand_out or third <= newer.score)
    return not newer.weak and share >= AS_GOOD and stand_out


def settle(
    context: Context, reading: Reading, question: Question, found: Gathered, ranked: Ranking
) -> tuple[Ranking, Mapping[str, str]]:
    """The ranking with rivals in their order, and for each outdated id the newer one."""
    import numpy as np

    pool = _pool(found, ranked)
    if len(pool) < 2 or not len(ranked.order):
        return ranked, {}
    if not (_near(found, ranked, pool).any() or _contested(ranked)):
        return ranked, {}
    rows = {row.num: row for row in reading.rows(context.view, found.rows.nums[pool].tolist())}
    # Else somebody has just forgotten it.
    pool = pool[[int(num) in rows for num in found.rows.nums[pool]]]
    score, answers, weak, fit = ranked.score, ranked.answers, ranked.weak, found.trust.fit
    stated = [
        Stated(
            memory=rows[int(found.rows.nums[place])].memory(),
            at=_since(context, reading, rows[int(found.rows.nums[place])]),
            score=float(score[place]),
            confidence=float(found.confidence[place]),
            fit=float(fit[place]),
            answers=bool(answers[place]),
            weak=bool(weak[place]),
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


def _contested(ranked: Ranking) -> bool:
    """Whether the second answers as surely as the first, and about as well."""
    first = ranked.order[:2]
    one, other = ranked.score[first] if len(first) == 2 else (1.0, 0.0)
    return bool(other >= AS_GOOD * one and not ranked.weak[first].any())


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

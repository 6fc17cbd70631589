"""Storing what a session taught: once, and not what is known already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reasonbank.embed.calibration import Nearness, calibration_for
from reasonbank.errors import EmbeddingError
from reasonbank.fields import LIMITS
from reasonbank.index.port import Unreachable
from reasonbank.learn import about
from reasonbank.learn.credits import judge, names_of, whose
from reasonbank.learn.judge import Verdict
from reasonbank.learn.session import shown_to
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Filter, Reading, Row, Writing
from reasonbank.ledger.sessions import learned_steps
from reasonbank.model import (
    JSON,
    EvidenceKind,
    Memory,
    Outcome,
    Principal,
    Scope,
    State,
    Trace,
    derived_id,
)
from reasonbank.search.rivals import state_two_values
from reasonbank.search.text import WORD
from reasonbank.store import evidence, memories
from reasonbank.store.context import Context
from reasonbank.store.traces import common_steps
from reasonbank.store.vectors import Embedded, embedding_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOURS = 5
MOST_GIVEN = 20  # So many memories that a task was given are looked at as parents.
NAMESAKES = 20  # So many memories with this title are compared word for word.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """``twin`` is the stored memory that says the same already; ``embedded`` is what it means.

    The twin was looked for among the vectors up to number ``seen``.
    """

    memory: Memory
    twin: str | None = None
    embedded: Embedded | None = field(default=None, compare=False, repr=False)
    seen: int = 0


def prepare(context: Context, told: Sequence[Memory], trace: Trace) -> list[Lesson]:
    """Lessons fit to be stored, each with the id that it always has."""
    learned = learned_steps(trace)
    part = (str(learned),) if learned else ()
    fit = [
        context.fit(
            replace(
                memory,
                id=derived_id("lesson", context.view.workspace, trace.id, *part, str(position)),
                source_session=trace.id,
            )
        )
        for position, memory in enumerate(about.filled(told, trace))
    ]
    if not fit:
        return []
    indexing = context.store.indexing
    try:
        indexing.catch_up()
        embedded = indexing.embedded(fit)
        seen = indexing.index.position
    except (EmbeddingError, Unreachable):
        return [Lesson(memory=memory) for memory in fit]
    given = _given(context, trace)
    known = [one.vector for one in indexing.embedded(given)]
    found: list[Lesson] = []
    for memory, meant in zip(fit, embedded, strict=True):
        if not _said(context, found, memory, meant.vector):
            twin = _twin_of(context, memory, meant.vector)
            near = [float(vector @ meant.vector) for vector in known] if twin is None else ()
            kin = _refined(context, memory, given, near)
            lesson = replace(memory, parents=kin)
            found.append(Lesson(memory=lesson, twin=twin, embedded=meant, seen=seen))
    return found


def _given(context: Context, trace: Trace) -> list[Memory]:
    """The memories that the task was given: used, shown or searched for."""
    reading = context.read()
    ids = dict.fromkeys((*trace.memories_used, *shown_to(trace)))
    for session in sorted(names_of(trace)):
        ids |= dict.fromkeys(reading.session_uses(context.view, session))
    rows = [reading.row(context.view, id) for id in list(ids)[:MOST_GIVEN]]
    return [row.memory() for row in rows if row is not None and row.state == State.ACTIVE]


def _refined(
    context: Context, memory: Memory, given: Sequence[Memory], near: Sequence[float]
) -> tuple[str, ...]:
    """Of what the task was given, that which the lesson says more about."""
    related = _nearness(context).related
    kin = [
        old.id
        for old, cosine in zip(given, near, strict=False)
        if old.id != memory.id and (cosine >= related or _same_failure(old, memory))
    ]
    return tuple(dict.fromkeys((*memory.parents, *kin)))[: LIMITS.parents]


def _nearness(context: Context) -> Nearness:
    return calibration_for(context.store.indexing.embedder.name).merge


def _same_failure(old: Memory, new: Memory) -> bool:
    if old.error_context is None or new.error_context is None:
        return False
    return old.error_context.failure_pattern == new.error_context.failure_pattern


def _said(
    context: Context, lessons: Sequence[Lesson], memory: Memory, vector: NDArray[np.float32]
) -> bool:
    """Whether the same session says it already: small models like to repeat themselves."""
    return any(
        lesson.memory.outcome is memory.outcome
        and lesson.embedded is not None
        and float(lesson.embedded.vector @ vector) >= _nearness(context).sure
        and not state_two_values(lesson.memory, memory)
        for lesson in lessons
    )


def _twin_of(context: Context, memory: Memory, vector: NDArray[np.float32]) -> str | None:
    """The active memory that says what this one says, if there is one."""
    import numpy as np

    indexing = context.store.indexing
    reading = context.read()
    realms = reading.realms(context.view, tuple(Scope), (State.ACTIVE,))
    try:
        nums, cosines = indexing.index.nearest(vector, realms=realms, limit=NEIGHBOURS, among=None)
    except Unreachable:
        return None  # Two that say the same are merged when the index is back.
    near = nums[np.asarray(cosines) >= _nearness(context).sure].tolist()
    return _first_like(context, reading, near, memory)


def _first_like(
    context: Context, reading: Reading, nums: Sequence[int], memory: Memory, *, exact: bool = False
) -> str | None:
    """Of these rows the first that is active and ended the same way; ``exact``: in its words.

    One with another value says something else, however near it is by meaning.
    """
    for row in reading.rows(context.view, nums):
        known = row.memory()
        if (
            row.state == State.ACTIVE
            and known.id != memory.id
            and known.outcome is memory.outcome
            and (_wording(known) == _wording(memory) if exact else _same_values(known, memory))
        ):
            return known.id
    return None


def _same_values(known: Memory, memory: Memory) -> bool:
    # Where it will belong is decided when it is stored.
    return not state_two_values(known, replace(memory, workspace=known.workspace))


def _twin_now(context: Context, txn: Writing, lesson: Lesson) -> str | None:
    """Its twin, as things are in the transaction that stores it.

    Between the look and the transaction another process may have stored the same.
    """
    if lesson.twin is not None and txn.row(context.view, lesson.twin) is not None:
        return lesson.twin
    return _stored_since(context, txn, lesson) or _worded_alike(context, txn, lesson.memory)


def _stored_since(context: Context, txn: Writing, lesson: Lesson) -> str | None:
    if lesson.embedded is None:
        return None
    new = context.store.indexing.changes(txn, lesson.seen)
    near = (new.vectors @ lesson.embedded.vector >= _nearness(context).sure) & ~new.deleted
    return _first_like(context, txn, new.nums[near].tolist(), lesson.memory)


def _worded_alike(context: Context, txn: Writing, memory: Memory) -> str | None:
    """One that no vector leads to: it has none yet, or there is no embedder just now."""
    title = " ".join(WORD.findall(memory.title.lower()))
    titles = (title,) if title else ()
    nums, _ = txn.words(context.view, Filter(scopes=tuple(Scope)), titles, NAMESAKES, None)
    return _first_like(context, txn, nums.tolist(), memory, exact=True)


def _wording(memory: Memory) -> list[str]:
    return embedding_text(memory).casefold().split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The ids of the memories that are new, and of those that said the same already."""

    learned: tuple[str, ...]
    confirmed: tuple[str, ...]


def store(
    context: Context,
    txn: Writing,
    trace: Trace,
    lessons: Sequence[Lesson],
    verdict: Verdict | None,
    *,
    said: Sequence[str] = (),
) -> Stored:
    """In one transaction: new memories, evidence for known ones, and the trace's outcome.

    ``said`` are memories that were kept of what was said in the session.
    """
    learned, confirmed = [], []
    learner = for_whom(context, txn, trace)
    given = {id for name in names_of(trace) for id in txn.session_uses(context.view, name)}
    for lesson in lessons:
        memory = lesson.memory
        twin = _twin_now(context, txn, lesson)
        if twin in learned:
            continue  # The same session says it twice, and nobody could tell before.
        if twin is not None:
            # Found again by another session: that is a success of the lesson, whatever it
            # says; within the session that it was recalled into, or came from, it is an echo.
            if twin not in given.union(trace.memories_used, trace.memories_learned):
                evidence.observe_in(learner, txn, twin, EvidenceKind.OUTCOME, True, trace.id)
            confirmed.append(twin)
        elif not txn.taken(memory.id) and not txn.forgotten(memory.id):
            # A parent may have been forgotten since it was looked at.
            here = tuple(id for id in memory.parents if txn.row(context.view, id) is not None)
            memories.record_in(learner, txn, replace(memory, parents=here))
            learned.append(memory.id)
            if lesson.embedded is not None:
                _keep(context, txn, memory, lesson.embedded)
    _archive_what_was_put_right(context, txn, trace, learned)
    if verdict is not None:
        judge(context, txn, trace, verdict)
    if verdict is not None and verdict.outcome is not Outcome.MIXED:
        succeeded = verdict.outcome is Outcome.SUCCESS
        shared = len(trace.memories_used) > 1
        for id in trace.memories_used:
            if txn.row(context.view, id) is not None:
                evidence.observe_in(
                    learner, txn, id, EvidenceKind.OUTCOME, succeeded, trace.id, shared=shared
                )
    learned += said
    told: JSON = {"ids": learned, "steps": _seen(context, txn, trace)}
    told |= {"confirmed": confirmed} if confirmed else {}
    if verdict is not None:
        told |= {"outcome": str(verdict.outcome), "by": verdict.by, "score": verdict.score,
                 "reason": verdict.reason}  # fmt: skip
    context.append(txn, EventType.LEARNED, trace.id, told)
    return Stored(learned=tuple(learned), confirmed=tuple(confirmed))


def for_whom(context: Context, txn: Writing, trace: Trace) -> Context:
    """Whose session it was, they are to be tested by what is learned from it, and what it says
    of memories is their word, whoever reads it. What an agent told of itself, it told through the
    door at which it did so."""
    told = txn.about([trace.id], frozenset({EventType.TRACED}))
    door = next((e.surface for e in told if e.principal is Principal.AGENT), "worker")
    who = whose(context, txn, trace.id)
    return replace(context, acts_as=Principal.MODEL, identity=who, surface=door)


def _archive_what_was_put_right(
    context: Context, txn: Writing, trace: Trace, learned: Sequence[str]
) -> None:
    """A session that went on may have solved what it warned of half-way."""
    solved = {_error(txn.row(context.view, id), Outcome.SUCCESS) for id in learned} - {None}
    for id in trace.memories_learned:
        row = txn.row(context.view, id)
        if row is not None and row.state == State.ACTIVE and _error(row, Outcome.FAILURE) in solved:
            reason = {"reason": "the session that it was learned from put it right later"}
            context.append(txn, EventType.ARCHIVED, id, reason)


def _error(row: Row | None, outcome: Outcome) -> str | None:
    memory = row.memory() if row is not None else None
    if memory is None or memory.outcome is not outcome or memory.error_context is None:
        return None
    return memory.error_context.failure_pattern


def _seen(context: Context, txn: Writing, trace: Trace) -> int:
    """How many steps were learned from; the session may have been rewritten meanwhile."""
    now = txn.trace(context.view, trace.id)
    return len(trace.trajectory) if now is None else common_steps(trace.trajectory, now.trajectory)


def _keep(context: Context, txn: Writing, memory: Memory, embedded: Embedded) -> None:
    """It was embedded to look for its twin, and need not be again."""
    row = txn.row(context.view, memory.id)
    assert row is not None
    context.store.indexing.put(txn, [embedded.packed(row.num, row.revision)])

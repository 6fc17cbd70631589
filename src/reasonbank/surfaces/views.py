"""What people look at: lessons with how far they are trusted and why, in pages, and as a graph."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from reasonbank.arguments import AnId, Query, Results, Share
from reasonbank.errors import InvalidInput
from reasonbank.fields import Id, Many, Whole, checked, plain
from reasonbank.ledger.events import Event, EventType, hand_of
from reasonbank.ledger.port import Filter, Order, Reading, Row
from reasonbank.model import (
    JSON,
    Link,
    Memory,
    Outcome,
    Principal,
    Source,
    State,
    Step,
    from_micros,
)
from reasonbank.store import beliefs, given, links, peer_names
from reasonbank.store.beliefs import Believed, OverTime, Trust
from reasonbank.store.context import Context
from reasonbank.store.given import GivenFilter
from reasonbank.surfaces.call import Call

if TYPE_CHECKING:
    from reasonbank.answers import Looked

MOST = 200
MOST_DRAWN = 60
"""Of its kin, the nearest; a drawing of more could not be read."""
FREQUENT = 50
RECENT = 1000
WEEK = 7 * 86_400_000_000

Page = Annotated[int, Whole(1, MOST), "Maximum number of results."]
Cursor = Annotated[str, "Where the page before ended, as it said itself."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A memory, how far it is trusted, and why its text looks like an instruction, if it does."""

    memory: Memory
    belief: Believed
    suspicious: tuple[str, ...]

    def to_json(self) -> JSON:
        told = {"belief": plain(self.belief), "suspicious": list(self.suspicious)}
        return self.memory.to_json() | told


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """``total`` counts all pages; ``cursor`` leads to the next one, if there is one."""

    total: int
    memories: tuple[Lesson, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequent:
    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """``known`` counts what is active, ``trust`` all that is here, by how far it is trusted. The
    ``tags`` are those of the newest thousand."""

    known: int
    trust: dict[str, int]
    agents: tuple[Frequent, ...]
    domains: tuple[Frequent, ...]
    tags: tuple[Frequent, ...]
    authors: tuple[Frequent, ...]
    learned_this_week: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBelief:
    id: str
    title: str
    state: State
    belief: Believed


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Of what was forgotten, or is out of sight, only the id is told."""

    id: str
    title: str | None = None
    state: State | None = None
    trust: Trust | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    source: str
    target: str
    type: str
    strength: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What a memory was made from and led to, and what it is linked to."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival(Lesson):
    why: Literal["contradicts", "newer", "older"]

    def to_json(self) -> JSON:
        # Not `super()`: a class with slots is made anew, and does not find itself.
        return Lesson.to_json(self) | {"why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginTrace:
    """``span`` is the first and the last of the ``steps`` that it was learned from."""

    id: str
    task: str
    outcome: Outcome | None
    created_at: datetime | None
    steps: int
    span: tuple[int, int] | None
    shown: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who recorded it, through what, when, and in the course of what. ``peer`` is what the bank is
    called here that it came from, if it is another one's."""

    author: str
    peer: str | None
    surface: str
    principal: Principal
    at: datetime
    source: Source
    session: str | None
    batch: str | None
    trace: OriginTrace | None


def look(
    call: Call,
    query: Query,
    *,
    limit: Results | None = None,
    filter: GivenFilter | None = None,
    min_confidence: Share | None = None,
    follow_links: bool = False,
    include_weak: Annotated[bool, "Also what may be about something else."] = True,
) -> Looked:
    """Search for somebody who looks around: explained, and nothing is noted of it.

    No use is counted and no gap kept; what agents ask belongs to the other search.
    """
    context = call.bank.context
    return _looked(
        context, query, limit=limit or context.settings.search.limit, filter=given.filter(filter),
        min_confidence=min_confidence, follow_links=follow_links, include_weak=include_weak,
    )  # fmt: skip


def _looked(context: Context, query: str, **options: Any) -> Looked:
    from reasonbank.search.look import look

    return look(context, query, **options)


def browse(
    call: Call,
    filter: GivenFilter | None = None,
    *,
    sort: Literal["newest", "oldest", "used", "trust", "doubt"] = "newest",
    trust: tuple[Trust, ...] = (),
    limit: Page = 50,
    cursor: Cursor | None = None,
) -> Lessons:
    """List memories page by page: in some order, and by how far they are trusted."""
    context = call.bank.context
    chosen = checked(given.filter(filter) or Filter(), context.settings.limits)
    words = {*map(Trust, trust)}
    if sort in tuple(Order):
        if not words:
            return _in_order(context, chosen, Order(sort), limit, cursor)
        if words == {Trust.ARCHIVED}:
            archived = replace(chosen, states=(State.ARCHIVED,))
            return _in_order(context, archived, Order(sort), limit, cursor)
    return _by_trust(context, chosen, sort, words, limit, cursor)


def _in_order(
    context: Context, filter: Filter, order: Order, limit: int, cursor: str | None
) -> Lessons:
    reading = context.settled_read()
    after = None if cursor is None else _numbers(cursor)
    rows = reading.page(context.view, filter, limit + 1, order=order, after=after)
    last = rows[limit - 1] if len(rows) > limit else None
    return Lessons(
        total=reading.how_many(context.view, filter),
        memories=tuple(_lesson(context, reading, row) for row in rows[:limit]),
        cursor=last and f"{last.usage_count}.{last.num}",
    )


def _by_trust(
    context: Context, filter: Filter, sort: str, words: set[Trust], limit: int, cursor: str | None
) -> Lessons:  # fmt: skip
    import numpy as np

    context.store.try_to_flush()
    found = beliefs.standings(context, filter, told=bool(words) and Trust.UNTESTED not in words)
    nums = found.nums
    keys = {"trust": -found.low, "doubt": found.confidence, "oldest": nums}.get(sort, -nums)
    order = np.lexsort((-nums, keys))
    if words:
        wanted = [beliefs.WORDS.index(word) for word in words]
        order = order[np.isin(found.words[order], wanted)]
    start = 0 if cursor is None else _numbers(cursor)[0]
    reading = context.read()
    rows = reading.rows(context.view, nums[order[start : start + limit]].tolist())
    following = start + limit
    return Lessons(
        total=len(order),
        memories=tuple(_lesson(context, reading, row) for row in rows),
        cursor=f"{following}.0" if following < len(order) else None,
    )


def _numbers(cursor: str) -> tuple[int, int]:
    first, _, second = cursor.partition(".")
    # No more than a database can count.
    if not all(part.isdecimal() and len(part) < 19 for part in (first, second)):
        raise InvalidInput("cursor", "is not one that a page ended with")
    return int(first), int(second)


def _lesson(context: Context, reading: Reading, row: Row) -> Lesson:
    memory = context.memory(reading, row)
    return Lesson(
        memory=memory,
        belief=beliefs.of(context, reading, row),
        suspicious=tuple(context.store.flags.of(memory)),
    )


def overview(call: Call) -> Overview:
    """Count what is known here, by how far it is trusted, and name what it is about."""
    context = call.bank.context
    found = beliefs.counts(context)
    reading = context.store.ledger.cached_read()

    def frequent(what: str) -> tuple[Frequent, ...]:
        def count() -> list[tuple[str, int]]:
            return reading.frequent(context.view, what, FREQUENT)

        return _frequent(reading.cached(("frequent", context.view, what), count))

    tags = reading.cached(("tags", context.view), lambda: _tags(context, reading))
    return Overview(
        known=sum(found.values()) - found[Trust.ARCHIVED],
        trust=found,
        agents=frequent("agent"),
        domains=frequent("domain"),
        tags=_frequent(tags),
        authors=frequent("author"),
        learned_this_week=reading.recorded_since(context.view, context.now() - WEEK),
    )


def _frequent(counted: list[tuple[str, int]]) -> tuple[Frequent, ...]:
    return tuple(Frequent(name=name, count=count) for name, count in counted)


def _tags(context: Context, reading: Reading) -> list[tuple[str, int]]:
    rows = reading.page(context.view, Filter(), RECENT, order=Order.NEWEST)
    found = Counter(tag for row in rows for tag in row.memory().tags)
    return sorted(found.items(), key=lambda each: (-each[1], each[0]))[:FREQUENT]


def beliefs_of(
    call: Call, *, ids: Annotated[tuple[str, ...], Many(Id(), MOST, least=1)]
) -> list[NamedBelief]:
    """Tell how far some memories are trusted; those out of sight are left out."""
    context = call.bank.context
    reading = context.settled_read()
    rows = [reading.row(context.view, id) for id in dict.fromkeys(ids)]
    return [
        NamedBelief(
            id=row.id, title=row.memory().title, state=State(row.state),
            belief=beliefs.of(context, reading, row),
        )
        for row in rows
        if row is not None
    ]  # fmt: skip


def belief(call: Call, id: AnId) -> OverTime:
    """Show how far a memory was trusted from day to day, and each piece of evidence."""
    context = call.bank.context
    return beliefs.over_time(context, context.whole_id("memory", id))


def graph(call: Call, id: AnId) -> Graph:
    """Show a memory among what it was made from, led to and is linked to."""
    context = call.bank.context
    id = context.whole_id("memory", id)
    kin = links.genealogy(context, id)
    reading = context.read()
    linked: list[Link] = links.of(context, id)
    ends = (end for link in linked for end in (link.source, link.target))
    # The nearest of each kind, in turn.
    every = list(dict.fromkeys((id, *_in_turn(kin.ancestors, kin.descendants, tuple(ends)))))
    drawn = every[:MOST_DRAWN]
    edges = [Edge(source=parent, target=child, type="made") for parent, child in kin.edges]
    edges += [
        Edge(source=link.source, target=link.target, type=str(link.type), strength=link.strength)
        for link in linked
    ]
    there = {*drawn}
    return Graph(
        nodes=tuple(_node(context, reading, one) for one in drawn),
        edges=tuple(edge for edge in edges if edge.source in there and edge.target in there),
        left_out=len(every) - len(drawn),
    )


def _in_turn(*lists: tuple[str, ...]) -> list[str]:
    longest = max(map(len, lists))
    return [each[place] for place in range(longest) for each in lists if place < len(each)]


def _node(context: Context, reading: Reading, id: str) -> Node:
    row = reading.row(context.view, id)
    if row is None:
        return Node(id=id)
    held = beliefs.of(context, reading, row)
    return Node(
        id=id, title=row.memory().title, state=State(row.state), trust=held.trust,
        confidence=held.confidence,
    )  # fmt: skip


def rivals(call: Call, id: AnId) -> list[Rival]:
    """List what says the opposite of a memory, or states another value of the same fact."""
    context = call.bank.context
    id = context.whole_id("memory", id)
    reading = context.settled_read()
    memory = context.row(reading, id).memory()
    found = dict.fromkeys((one.id for one in links.contradicting(context, id)), "contradicts")
    asked = f"{memory.title}\n{memory.description}"
    looked = _looked(
        context, asked, limit=10, filter=None, min_confidence=0.0, follow_links=False,
        include_weak=True,
    ).reply  # fmt: skip
    for hit in looked.hits:
        if hit.memory.id == id and hit.outdated_by is not None:
            found.setdefault(hit.outdated_by, "newer")
        elif hit.outdated_by == id:
            found.setdefault(hit.memory.id, "older")
    rows = [row for other in found if (row := reading.row(context.view, other)) is not None]
    told = [(_lesson(context, reading, row), found[row.id]) for row in rows]
    return [
        Rival(memory=one.memory, belief=one.belief, suspicious=one.suspicious, why=why)  # type: ignore[arg-type]
        for one, why in told
    ]


def origin(call: Call, id: AnId) -> Origin:
    """Show who recorded a memory, how, and the steps of the session that it was learned from."""
    context = call.bank.context
    id = context.whole_id("memory", id)
    reading = context.read()
    memory = context.memory(reading, context.row(reading, id))
    events = reading.changes_of(context.view, id)
    first = min(
        (event for event in events if event.type is EventType.RECORDED), key=lambda e: e.order
    )
    return Origin(
        author=first.author, peer=_peer(reading, first), surface=first.surface,
        principal=first.principal, at=from_micros(first.at), source=memory.source,
        session=memory.source_session, batch=first.batch, trace=_trace(context, reading, memory),
    )  # fmt: skip


def _peer(reading: Reading, event: Event) -> str | None:
    # What a trusted one says stands in the name of whoever said it there.
    known = reading.peers.peer(event.origin)
    return known.name if known else peer_names.named(reading, hand_of(event))


def _trace(context: Context, reading: Reading, memory: Memory) -> OriginTrace | None:
    if memory.source_session is None:
        return None
    found = reading.trace(context.view, memory.source_session)
    if found is None:
        return None
    span = memory.source_span
    return OriginTrace(
        id=found.id, task=found.task, outcome=found.outcome, created_at=found.created_at,
        steps=len(found.trajectory), span=span,
        shown=found.trajectory[span[0] - 1 : span[1]] if span else (),
    )  # fmt: skip

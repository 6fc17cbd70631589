"""How memories hang together: links that were drawn, and who was made from whom."""

from __future__ import annotations

from collections.abc import Collection

from reasonbank.errors import InvalidInput
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Reading, Writing
from reasonbank.model import Genealogy, Link, LinkType, Memory, State
from reasonbank.store.context import Context
from reasonbank.store.probation import is_offered


def link(context: Context, source: str, target: str, type: LinkType | str, strength: float) -> Link:
    link = Link(source=source, target=target, type=LinkType(type), strength=strength)
    if link.source == link.target:
        raise InvalidInput("target", "a memory cannot be linked to itself")

    def work(txn: Writing) -> None:
        context.own_row(txn, link.source)
        context.row(txn, link.target)
        payload = {"target": link.target, "type": str(link.type), "strength": link.strength}
        context.append(txn, EventType.LINKED, link.source, payload)

    context.write(work)
    return link


def unlink(context: Context, source: str, target: str, type: LinkType | str) -> None:
    def work(txn: Writing) -> None:
        context.own_row(txn, source)
        payload = {"target": target, "type": str(type)}
        context.append(txn, EventType.UNLINKED, source, payload)

    context.write(work)


def of(context: Context, id: str) -> list[Link]:
    reading = context.read()
    context.row(reading, id)
    found = reading.links(context.view, id)
    ends = {one.target if one.source == id else one.source for one in found}
    kept = _kept_elsewhere(context, reading, ends)
    return [one for one in found if kept.isdisjoint((one.source, one.target))]


def contradicting(context: Context, id: str) -> list[Memory]:
    reading = context.settled_read()
    context.row(reading, id)
    ends = {end for pair in reading.contradictions([id]) for end in pair} - {id}
    rows = [row for end in sorted(ends) if (row := reading.row(context.view, end))]
    shown = (row for row in rows if is_offered(context, row, unread=False))
    return [context.memory(reading, row) for row in shown if row.state == State.ACTIVE]


def genealogy(context: Context, id: str) -> Genealogy:
    reading = context.read()
    row = context.row(reading, id)
    edges: set[tuple[str, str]] = set()

    def walk(towards: int) -> tuple[str, ...]:
        seen, frontier = {id: None}, [id]
        while frontier:
            ties = [t for t in reading.kin(frontier) if t[1 - towards] in set(frontier)]
            edges.update(ties)
            frontier = [t[towards] for t in ties if t[towards] not in seen]
            seen.update(dict.fromkeys(frontier))
        return tuple(seen)[1:]

    ancestors, descendants = walk(0), walk(1)
    kin = {*ancestors, *descendants}
    hidden = context.hidden(reading, kin) | _kept_elsewhere(context, reading, kin)
    ancestors, descendants = (
        tuple(kin for kin in found if kin not in hidden) for found in (ancestors, descendants)
    )
    return Genealogy(
        id=id,
        stage=row.stage,
        ancestors=ancestors,
        descendants=descendants,
        edges=tuple(sorted(edge for edge in edges if not hidden.intersection(edge))),
        memories=reading.titles(context.view, (id, *ancestors, *descendants)),
    )


def _kept_elsewhere(context: Context, reading: Reading, ids: Collection[str]) -> frozenset[str]:
    """Those that another workspace shares and nothing has confirmed: they say nothing here."""
    owners = reading.owners(ids) if ids else {}
    rows = (
        reading.row(context.view, id)
        for id, owner in owners.items()
        if owner != context.view.workspace
    )
    return frozenset(row.id for row in rows if row and not is_offered(context, row, unread=False))

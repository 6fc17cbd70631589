"""How memories hang together: links that were drawn, and who was made from whom."""

from __future__ import annotations

from reasonbank.errors import InvalidInput
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.model import Genealogy, Link, LinkType, Memory, State
from reasonbank.store.context import Context


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
    return reading.links(context.view, id)


def contradicting(context: Context, id: str) -> list[Memory]:
    reading = context.settled_read()
    context.row(reading, id)
    ends = {end for pair in reading.contradictions([id]) for end in pair} - {id}
    rows = [row for end in sorted(ends) if (row := reading.row(context.view, end))]
    return [context.memory(reading, row) for row in rows if row.state == State.ACTIVE]


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
    hidden = context.hidden(reading, (*ancestors, *descendants))
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

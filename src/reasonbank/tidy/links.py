"""Links that nobody had to draw: from what memories say, and from what was used together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from reasonbank.index.clusters import Pairs
from reasonbank.ledger.port import Reading
from reasonbank.model import Link, LinkType, Memory, View

MOST_OF_A_KIND = 2
"""Links of one kind that a memory begins or ends, the strongest."""
LEAST_SESSIONS = 2
NOTICEABLE = 0.05
"""A strength that moved by less is not written down again."""


def found(
    memories: Sequence[Memory],
    near: Pairs,
    *,
    merged: Mapping[str, str],
    conflict: Callable[[Memory, Memory, float], bool],
) -> tuple[Link, ...]:
    """What near memories are to each other; ``near`` has the nearest first.

    Those that will be one memory need no link.
    """
    result = []
    drawn: dict[tuple[str, LinkType], int] = {}
    for a, b, cosine in near:
        one, other = memories[a], memories[b]
        if one.id in merged and merged[one.id] == merged.get(other.id):
            continue
        if conflict(one, other, cosine):
            kind = LinkType.CONTRADICTS
        elif one.domain and other.domain and one.domain != other.domain:
            kind = LinkType.ANALOGY
        else:
            kind = LinkType.SIMILAR
        if kind is not LinkType.CONTRADICTS:
            ends = [(one.id, kind), (other.id, kind)]
            if any(drawn.get(end, 0) >= MOST_OF_A_KIND for end in ends):
                continue
            for end in ends:
                drawn[end] = drawn.get(end, 0) + 1
        result.append(_link(one.id, other.id, kind, min(1.0, cosine)))
    return tuple(result)


def used_together(reading: Reading, view: View) -> list[Link]:
    """Memories that came up in the same sessions: of all sessions with either, how many."""
    result = []
    drawn: dict[str, int] = {}
    shares = (
        (both / either, one, other)
        for one, other, both, either in reading.used_together(view, LEAST_SESSIONS)
    )
    for strength, one, other in sorted(shares, key=lambda s: (-s[0], s[1], s[2])):
        if max(drawn.get(one, 0), drawn.get(other, 0)) < MOST_OF_A_KIND:
            drawn[one], drawn[other] = drawn.get(one, 0) + 1, drawn.get(other, 0) + 1
            result.append(_link(one, other, LinkType.CO_USED, strength))
    return result


def inherited(
    reading: Reading, view: View, heir: str, sources: Sequence[Memory]
) -> tuple[Link, ...]:
    """What the sources were linked to, the merged memory is linked to.

    A link that begins at a memory of another project is that project's to draw.
    """
    ids = {source.id for source in sources}
    best: dict[tuple[str, str, str], Link] = {}
    for id in sorted(ids):
        for link in reading.links(view, id):
            if {link.source, link.target} <= ids:
                continue
            begins = reading.row(view, link.source)
            if begins is None or begins.workspace != view.workspace:
                continue
            ends = [heir if end in ids else end for end in (link.source, link.target)]
            new = Link(source=ends[0], target=ends[1], type=link.type, strength=link.strength)
            key = (new.source, new.target, str(new.type))
            if key not in best or best[key].strength < new.strength:
                best[key] = new
    return tuple(best.values())


def new(
    wanted: Iterable[Link],
    known: Mapping[tuple[str, str, str], float | None],
    merged: Mapping[str, str],
) -> list[Link]:
    """Those that are not there yet, nor were removed by somebody; merged ends follow."""
    result: dict[tuple[str, str, str], Link] = {}
    for link in wanted:
        source, target = (merged.get(id, id) for id in (link.source, link.target))
        if source == target:
            continue
        here, there = (source, target, str(link.type)), (target, source, str(link.type))
        if there in known or there in result:
            if link.type is LinkType.CAUSES:
                continue  # Somebody says that it is the other way round.
            here, source, target = there, target, source
        if here in known:
            strength = known[here]
            if strength is None or abs(strength - link.strength) < NOTICEABLE:
                continue
        result[here] = Link(source=source, target=target, type=link.type, strength=link.strength)
    return list(result.values())


def _link(one: str, other: str, kind: LinkType, strength: float) -> Link:
    source, target = sorted((one, other))
    return Link(source=source, target=target, type=kind, strength=round(strength, 3))

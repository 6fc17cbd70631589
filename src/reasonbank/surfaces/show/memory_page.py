"""The page of one memory: what it says, what it was made from, what speaks against it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from reasonbank.bank import Bank
from reasonbank.model import Genealogy, Link, Memory
from reasonbank.surfaces.show.fitting import clean
from reasonbank.surfaces.show.page import document

MOST_DRAWN = 60
"""Of its kin, the nearest; a drawing of more could not be read."""
WIDTH, HEIGHT = 210, 52
ACROSS, DOWN = WIDTH + 20, HEIGHT + 44
LETTERS = 27
HIDDEN = "(not visible)"


def memory_page(bank: Bank, id: str, workspace: str | None) -> str:
    """``workspace`` is what the caller named, so that the links of the page name it too."""
    memory = bank.get(id)
    kin = bank.genealogy(id)
    links = bank.links(id)
    ends = {end for link in links for end in (link.source, link.target)}
    titles = bank.store.ledger.read().titles(bank.view, ends)
    address = _Address(workspace)
    parts = [
        '<p><a href="/">ReasonBank</a></p>',
        f"<h1>{_text(memory.title)}</h1>",
        f'<p class="soft lines">{_text(memory.description)}</p>',
        f'<pre class="said" tabindex="0" aria-label="Content">{_text(memory.content)}</pre>',
        _facts(memory, bank.store.flags.of(memory), address),
        _against(memory, bank.contradicting(id), address),
        "<h2>Genealogy</h2>",
        _drawing(kin, address),
        _links(memory.id, links, titles, address),
    ]
    return document(memory.title, "\n".join(part for part in parts if part))


class _Address:
    def __init__(self, workspace: str | None) -> None:
        self._query = f"?{urlencode({'workspace': workspace})}" if workspace else ""

    def of(self, id: str) -> str:
        return escape(f"/memory/{id}{self._query}")


def _text(text: str) -> str:
    return escape(clean(text))


def _facts(memory: Memory, suspicious: Sequence[str], address: _Address) -> str:
    facts = {
        "Outcome": escape(str(memory.outcome)),
        "Confidence": "unknown" if memory.confidence is None else f"{memory.confidence:.2f}",
        "Used": str(memory.usage_count),
        "State": escape(str(memory.state)),
        "Scope": escape(str(memory.scope)),
        "Source": escape(str(memory.source)),
        "Stage": str(memory.stage),
        "Author": _text(memory.author or "unknown"),
    }
    if memory.tags:
        facts["Tags"] = _text(", ".join(memory.tags))
    if error := memory.error_context:
        facts["Warning"] = _text(f"{error.error_type}: {error.failure_pattern}")
        facts["Instead"] = _text(error.corrective_guidance)
    if suspicious:
        facts["Suspicious"] = _text(", ".join(suspicious))
    if memory.merged_into:
        facts["Merged into"] = f'<a href="{address.of(memory.merged_into)}">another memory</a>'
    rows = "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())
    return f"<dl>\n{rows}\n</dl>"


def _against(memory: Memory, others: Sequence[Memory], address: _Address) -> str:
    """Both sides beside each other, each with what it is trusted."""
    if not others:
        return ""
    sides = "\n".join(
        f'<article><h3><a href="{address.of(side.id)}">{_text(side.title)}</a></h3>'
        f'<p class="soft">confidence {side.confidence or 0:.2f}, used {side.usage_count}</p>'
        f'<pre class="said">{_text(side.content)}</pre></article>'
        for side in (memory, *others)
    )
    return f'<h2>Contradictions</h2>\n<div class="sides">\n{sides}\n</div>'


def _links(id: str, links: Sequence[Link], titles: Mapping[str, str], address: _Address) -> str:
    if not links:
        return ""
    rows = []
    for link in links:
        other = link.target if link.source == id else link.source
        title = _text(titles.get(other, HIDDEN))
        name = f'<a href="{address.of(other)}">{title}</a>' if other in titles else title
        way = f"{escape(str(link.type))} {'→' if link.source == id else '←'}"
        rows.append(f"<dt>{way} {link.strength:.2f}</dt><dd>{name}</dd>")
    return "<h2>Links</h2>\n<dl>\n" + "\n".join(rows) + "\n</dl>"


# The drawing


def _drawing(kin: Genealogy, address: _Address) -> str:
    """Parents above children; the memory itself has a strong frame."""
    if not kin.edges:
        return '<p class="soft">It was made from no other memory, and none from it.</p>'
    every = list(dict.fromkeys((kin.id, *kin.ancestors, *kin.descendants)))
    half = MOST_DRAWN // 2
    drawn = {kin.id, *kin.ancestors[:half], *kin.descendants[:half]}
    levels = _levels(kin.id, [edge for edge in kin.edges if drawn.issuperset(edge)])
    edges = [edge for edge in kin.edges if levels.keys() >= set(edge)]
    rows = [
        [id for id in every if levels.get(id) == level] for level in sorted(set(levels.values()))
    ]
    widest = max(map(len, rows))
    places = {
        id: ((widest - len(row)) * ACROSS // 2 + across * ACROSS + 10, down * DOWN + 4)
        for down, row in enumerate(rows)
        for across, id in enumerate(row)
    }
    lines = "\n".join(_line(places[parent], places[child]) for parent, child in edges)
    boxes = "\n".join(_box(id, places[id], kin, address) for row in rows for id in row)
    left = len(every) - len(places)
    more = f'\n<p class="soft">{left} more are not drawn.</p>' if left else ""
    size = f'width="{widest * ACROSS}" height="{len(rows) * DOWN - DOWN + HEIGHT + 8}"'
    return (
        '<div class="drawing" tabindex="0" role="group" aria-label="Genealogy">\n'
        f"<svg {size}>\n{lines}\n{boxes}\n</svg>\n</div>{more}"
    )


def _levels(id: str, edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Steps up (negative) or down from the memory, on the shortest way."""
    levels = {id: 0}
    upwards = [(child, parent) for parent, child in edges]
    for step, ties in ((-1, upwards), (1, edges)):
        level, frontier = 0, {id}
        while frontier:
            level += step
            frontier = {there for here, there in ties if here in frontier} - levels.keys()
            levels |= dict.fromkeys(frontier, level)
    return levels


def _line(parent: tuple[int, int], child: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = parent, child
    x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
    bend = max(22, abs(y2 - y1) // 2)
    return f'<path d="M{x1} {y1} C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"/>'


def _box(id: str, place: tuple[int, int], kin: Genealogy, address: _Address) -> str:
    x, y = place
    title = kin.memories.get(id, HIDDEN)
    lines = textwrap.wrap(clean(title), LETTERS, max_lines=2, placeholder="…")
    top = y + HEIGHT // 2 + 5 - 9 * (len(lines) - 1)
    told = "".join(
        f'<tspan x="{x + WIDTH // 2}" y="{top + 18 * number}">{escape(line)}</tspan>'
        for number, line in enumerate(lines)
    )
    frame = ' class="self"' if id == kin.id else ""
    box = (
        f"<title>{_text(title)}</title>"
        f'<rect{frame} x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f"<text>{told}</text>"
    )
    if id not in kin.memories or id == kin.id:
        return f"<g>{box}</g>"
    return f'<a href="{address.of(id)}">{box}</a>'

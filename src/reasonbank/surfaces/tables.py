"""What people see in the terminal; rich is loaded only when something is drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reasonbank.model import Evidence, Genealogy, Link, Memory, Reply, Revision, Trace, Workspace

if TYPE_CHECKING:
    from reasonbank.surfaces.doctor import Check

_SIGNS = {"success": "✓", "failure": "✗", "mixed": "±"}
_COLOURS = {"success": "green", "failure": "red", "mixed": "yellow"}


def _print(thing: Any) -> None:
    Console(highlight=False).print(thing)


def plain(value: Any) -> Any:
    """Any of our values as JSON."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Enum) else value


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        name, _, side = column.partition(":")
        table.add_column(name, justify="right" if side == "r" else "left", overflow="fold")
    return table


def _sign(memory: Memory) -> Text:
    return Text(_SIGNS[memory.outcome], style=_COLOURS[memory.outcome])


def reply(found: Reply, *, explain: bool) -> None:
    for note in found.notes:
        _print(Text(f"Note: {note}", style="yellow"))
    if not found.hits:
        _print("Nothing relevant enough is known here.")
    for place, hit in enumerate(found.hits, 1):
        memory = hit.memory
        body: list[Any] = [Text(memory.description, style="italic"), Text(memory.content)]
        if error := memory.error_context:
            body.append(Text(f"Warning: {error.error_type}: {error.failure_pattern}", style="red"))
            body.append(Text(f"Instead: {error.corrective_guidance}", style="red"))
        if hit.parts:
            parts = "  ".join(f"{name} {value:.3f}" for name, value in hit.parts.items())
            body.append(Text(parts, style="dim"))
        facts = (
            f"relevance {hit.relevance:.2f} · confidence {memory.confidence:.2f} · "
            f"used {memory.usage_count} · {memory.scope}"
        )
        body.append(Text(f"{memory.id}{' · linked' if hit.via else ''}", style="dim"))
        title = Text.assemble(f"{place}. ", _sign(memory), " ", (memory.title, "bold"))
        _print(
            Panel(Group(*body), title=title, title_align="left", subtitle=Text(facts, style="dim"),
                  subtitle_align="left", border_style=_COLOURS[memory.outcome])
        )  # fmt: skip
    if explain and found.dropped:
        table = _table("left out", "why")
        for id, reason in found.dropped:
            table.add_row(id, reason)
        _print(table)
    total = f"{found.total_found}{'+' if found.more else ''}"
    _print(
        Text(
            f"{len(found.hits)} of {total} found · {found.tokens_used} tokens · "
            f"{found.embedder}{' · degraded' if found.degraded else ''}",
            style="dim",
        )
    )


def memories(found: Sequence[Memory]) -> None:
    table = _table("id", "", "title", "confidence:r", "used:r", "scope", "state", "tags")
    for memory in found:
        table.add_row(
            memory.id, _sign(memory), Text(memory.title), f"{memory.confidence:.2f}",
            str(memory.usage_count), memory.scope, memory.state, Text(", ".join(memory.tags)),
        )  # fmt: skip
    _print(table if found else "No memories here.")


def memory(found: Memory, evidence: Sequence[Evidence], links: Sequence[Link]) -> None:
    _print(Panel(Text(found.content), title=Text(found.title), title_align="left"))
    facts("", {k: v for k, v in found.to_json().items()
               if k not in ("title", "content") and v not in (None, [], "")})  # fmt: skip
    if evidence:
        table = _table("when", "kind", "", "session", "by", "comment", title="Evidence")
        for e in evidence:
            sign = Text("for" if e.positive else "against", style="green" if e.positive else "red")
            table.add_row(f"{e.at:%Y-%m-%d %H:%M}", e.kind, sign, Text(e.session or ""),
                          Text(e.rater or ""), Text(e.comment or ""))  # fmt: skip
        _print(table)
    if links:
        table = _table("from", "type", "to", "strength:r", title="Links")
        for link in links:
            table.add_row(link.source, link.type, link.target, f"{link.strength:.2f}")
        _print(table)


def history(revisions: Sequence[Revision]) -> None:
    table = _table("revision:r", "when", "change", "by", "through", "title", "state")
    for r in revisions:
        table.add_row(str(r.number), f"{r.at:%Y-%m-%d %H:%M:%S}", r.change, Text(r.author),
                      r.surface, Text(r.memory.title), r.memory.state)  # fmt: skip
    _print(table)


def genealogy(found: Genealogy) -> None:
    def name(id: str) -> str:
        return f"{escape(found.memories.get(id, '(not visible)'))} [dim]{id}[/dim]"

    tree = Tree(f"[bold]{name(found.id)}[/bold] (stage {found.stage})")
    for label, ids in (("made from", found.ancestors), ("led to", found.descendants)):
        if ids:
            branch = tree.add(f"[dim]{label}[/dim]")
            for id in ids:
                branch.add(name(id))
    _print(tree)


def advice(found: Mapping[str, Any]) -> None:
    if strategy := found["strategy"]:
        _print(Panel(Text(strategy["content"]), title=Text(strategy["title"]),
                            title_align="left", border_style="green"))  # fmt: skip
    _print(Text(found["reasoning"]))
    facts("", {"keywords": found["keywords"], "domain": found["domain"]})
    for warning in found["warnings"]:
        _print(Text(f"Warning: {warning['title']}: {warning['description']}", style="red"))


def traces(found: Sequence[Trace]) -> None:
    table = _table("id", "when", "outcome", "score:r", "steps:r", "task")
    for t in found:
        table.add_row(t.id, f"{t.created_at:%Y-%m-%d %H:%M}", t.outcome, _short(t.final_score),
                      str(len(t.trajectory)), Text(t.task))  # fmt: skip
    _print(table if found else "No traces here.")


def trace(found: Trace) -> None:
    _print(Panel(Text(found.task), title="Task", title_align="left"))
    table = _table("#:r", "action", "score:r", "what")
    for step in found.trajectory:
        score = "" if step.score is None else f"{step.score:.2f}"
        table.add_row(str(step.iteration), Text(step.action), score,
                      Text(step.content or step.feedback or ""))  # fmt: skip
    _print(table)
    facts("", {"outcome": found.outcome, "score": found.final_score, "used": found.memories_used,
               "learned": found.memories_learned, "metadata": found.metadata})  # fmt: skip


def facts(title: str, values: Mapping[str, Any]) -> None:
    table = _table("", "", title=title or None)
    table.show_header = False
    for name, value in values.items():
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {_short(v)}" for k, v in value.items()) or "none"
        elif isinstance(value, list | tuple):
            shown = ", ".join(map(str, value)) or "none"
        else:
            shown = _short(value)
        table.add_row(Text(name.replace("_", " "), style="dim"), Text(shown))
    _print(table)


def _short(value: Any) -> str:
    if value is None:
        return "not known"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def workspaces(places: Sequence[Workspace], here: str) -> None:
    table = _table("", "id", "name", "path", "team", "org", "memories:r")
    for w in places:
        mark = "→" if w.id == here else ""
        table.add_row(mark, w.id, Text(w.name or ""), Text(w.path or ""), w.team, w.org,
                      str(w.memories))  # fmt: skip
    _print(table if places else "No workspaces yet: one comes with its first memory.")


def checks(found: Sequence[Check]) -> None:
    signs = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    table = _table("", "what", "found", "repair")
    for check in found:
        sign, colour = signs[check.status]
        table.add_row(Text(sign, style=colour), check.name, Text(check.found),
                      Text(check.repair or "", style="bold"))  # fmt: skip
    _print(table)


@contextmanager
def progress(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while long work goes on; nothing where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

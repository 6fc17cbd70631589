"""What people see in the terminal; rich is loaded only when something is drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reasonbank.llm.excerpt import excerpt
from reasonbank.model import (
    JSON,
    Change,
    Evidence,
    ForReview,
    Gap,
    Genealogy,
    Job,
    Link,
    Memory,
    Revision,
    Trace,
    Workspace,
    counted,
)
from reasonbank.surfaces.show.fitting import clean, shortener

if TYPE_CHECKING:
    from datetime import datetime

    from reasonbank.access import StoredToken
    from reasonbank.health import Check
    from reasonbank.integrity import Verified
    from reasonbank.learn.bring import Brought
    from reasonbank.search.recommend import Recommendation
    from reasonbank.store.batches import Batch
    from reasonbank.store.revert import Reverted
    from reasonbank.surfaces.peers import OfferShown
    from reasonbank.tidy.promote import Proposal

SHOWN = 600
"""Characters of what came of one step."""
LISTED = 50
"""Rows of a table that could have thousands."""
TASK = 160
"""Characters of a task, where many are listed."""
_SIGNS = {"success": "✓", "failure": "✗", "mixed": "±"}
_COLOURS = {"success": "green", "failure": "red", "mixed": "yellow"}


def _print(thing: Any) -> None:
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(thing)
        return
    with console.capture() as drawn:
        console.print(thing)
    # A program that reads it has no use for what fills a row up.
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def _panel(title: str, body: str, **look: Any) -> Panel:
    """A title that does not fit the edge stands inside, where it is wrapped."""
    told = _text(title, "bold")
    inside = told.cell_len > Console().width - 8 or "\n" in title
    text = Text.assemble(told, "\n\n", _text(body)) if inside else _text(body)
    return Panel(text, title=None if inside else told, title_align="left", **look)


def _text(value: str, style: str = "") -> Text:
    return Text(clean(value), style=style)


def _table(*columns: str, title: str | None = None) -> Table:
    """A column is its name, and ``:r`` if it is of numbers, ``:w`` if its words may be wrapped.

    What may not, as an id, can be copied in one piece.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        name, _, kind = column.partition(":")
        table.add_column(
            name, justify="right" if kind == "r" else "left", overflow="fold", no_wrap=kind != "w"
        )
    return table


def _wide() -> bool:
    """Whether there is room for whole ids, and for what is the same in most rows."""
    return Console().width >= 110


def _ids(ids: Iterable[str]) -> Callable[[str], str]:
    return str if _wide() else shortener(ids)


def _sign(memory: Memory) -> Text:
    return _text(_SIGNS[memory.outcome], style=_COLOURS[memory.outcome])


def memories(found: Sequence[Memory]) -> None:
    if not found:
        _print("No memories here.")
        return
    wide, short = _wide(), _ids(memory.id for memory in found)
    more = ("scope", "state", "tags:w") if wide else ()
    table = _table("id", "", "title:w", "confidence:r", "used:r", *more)
    for memory in found:
        title = _text(memory.title) if wide else _titled(memory)
        facts = (memory.scope, memory.state, _text(", ".join(memory.tags))) if wide else ()
        table.add_row(
            short(memory.id), _sign(memory), title, f"{memory.confidence:.2f}",
            str(memory.usage_count), *facts,
        )  # fmt: skip
    _print(table)


def _titled(memory: Memory) -> Text:
    """A title, with what else is worth a word where there is little room."""
    told = [f"#{tag}" for tag in memory.tags]
    told += [memory.state] if memory.state != "active" else []
    told += [memory.scope] if memory.scope != "project" else []
    return Text.assemble(_text(memory.title), _text("".join(f"  {each}" for each in told), "dim"))


def memory(
    found: Memory,
    evidence: Sequence[Evidence],
    links: Sequence[Link],
    against: Sequence[Memory] = (),
) -> None:
    _print(_panel(found.title, found.content))
    facts("", {k: v for k, v in found.to_json().items()
               if k not in ("title", "content") and v not in (None, [], "")})  # fmt: skip
    if evidence:
        table = _table("when", "kind", "", "session:w", "by:w", "comment:w", title="Evidence")
        for e in evidence:
            sign = _text("for" if e.positive else "against", style="green" if e.positive else "red")
            table.add_row(f"{e.at:%Y-%m-%d %H:%M}", e.kind, sign, _text(e.session or ""),
                          _text(e.rater or ""), _text(e.comment or ""))  # fmt: skip
        _print(table)
    for other in against:
        _print(
            _panel(
                f"Contradicts: {other.title}",
                f"{other.description}\n\n{other.content}",
                subtitle=f"{other.id} · confidence {other.confidence:.2f}",
                subtitle_align="left",
                border_style="yellow",
            )
        )
    if links:
        short = _ids(id for link in links for id in (link.source, link.target))
        table = _table("from", "type", "to", "strength:r", title="Links")
        for link in links:
            ends = (short(link.source), link.type, short(link.target))
            table.add_row(*ends, f"{link.strength:.2f}")
        _print(table)


def history(revisions: Sequence[Revision]) -> None:
    if _wide():
        table = _table("revision:r", "when", "change", "by:w", "through", "title:w", "state")
    else:
        table = _table("revision:r", "when", "change", "by:w", "title:w")
    for r in revisions:
        who = (_text(r.author), r.surface) if _wide() else (_text(f"{r.author}, {r.surface}"),)
        what = (_text(r.memory.title), r.memory.state) if _wide() else (_titled(r.memory),)
        table.add_row(str(r.number), _moment(r.at), r.change, *who, *what)
    _print(table)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if _wide() else f"{at:%Y-%m-%d %H:%M}"


def genealogy(found: Genealogy) -> None:
    short = _ids((found.id, *found.ancestors, *found.descendants))

    def name(id: str) -> str:
        return f"{escape(clean(found.memories.get(id, '(not visible)')))} [dim]{short(id)}[/dim]"

    tree = Tree(f"[bold]{name(found.id)}[/bold] (stage {found.stage})")
    upwards = [(child, parent) for parent, child in found.edges]
    for label, ties in (("made from", upwards), ("led to", found.edges)):
        further: dict[str, list[str]] = {}
        for here, there in ties:
            further.setdefault(here, []).append(there)
        seen = {found.id}
        growing = [(tree.add(f"[dim]{label}[/dim]"), found.id)] if found.id in further else []
        while growing:
            branch, id = growing.pop(0)
            for other in further.get(id, ()):
                twig = branch.add(name(other) + (" [dim]…[/dim]" if other in seen else ""))
                # Whoever is met again, by another way or in a ring, grows once.
                if other not in seen:
                    seen.add(other)
                    growing.append((twig, other))
    _print(tree)


def mermaid(found: Genealogy) -> str:
    """The tree as a Mermaid graph; titles are quoted, so that no text can become a part of it."""

    def box(id: str) -> str:
        title = clean(found.memories.get(id, "(not visible)")).replace("\n", " ")
        for sign, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"),
                           ("`", "#96;"), ("\\", "#92;")):  # fmt: skip
            title = title.replace(sign, code)
        return f'  m{id.replace("-", "")}["{title}"]'

    ids = dict.fromkeys((found.id, *found.ancestors, *found.descendants))
    lines = ["graph TD", *map(box, ids)]
    for parent, child in found.edges:
        lines.append(f"  m{parent.replace('-', '')} --> m{child.replace('-', '')}")
    lines.append(f"  style m{found.id.replace('-', '')} stroke-width:3px")
    return "\n".join(lines)


def consolidation(found: Mapping[str, Any]) -> None:
    if found["clusters"]:
        short = _ids(m["id"] for cluster in found["clusters"] for m in cluster["members"])
        table = _table("similarity:r", "would be merged:w", title="Plan")
        for cluster in found["clusters"]:
            titles = "\n".join(f"{short(m['id'])}  {m['title']}" for m in cluster["members"])
            table.add_row(f"{cluster['least_similarity']:.2f}", _text(titles))
            table.add_row("", "")
        _print(table)
    for reason, count in found["skipped_reasons"].items():
        _print(_text(f"Left apart: {count} × {reason}", style="dim"))
    if found["links_drawn"]:
        verb = "would be drawn" if found["dry_run"] else "were drawn"
        _print(_text(f"{found['links_drawn']} links {verb}", style="dim"))
    _print(_text(found["message"]))


def proposals(found: Sequence[Proposal]) -> None:
    short = _ids(p.id for p in found)
    table = _table("id", "title:w", "to", "projects:r", "lower bound:r", ":w")
    for p in found:
        table.add_row(short(p.id), _text(p.title), p.to, str(p.projects),
                      f"{p.lower_bound:.2f}", _text(p.waiting or "ready"))  # fmt: skip
    _print(table if found else "Nothing recurs in other projects.")


def batches(found: Sequence[Batch]) -> None:
    table = _table("id", "what", "when", "created:r", "archived:r", "links:r", "undone:r")
    short = _ids(b.batch for b in found)
    for b in found:
        table.add_row(
            short(b.batch), b.kind, f"{b.at:%Y-%m-%d %H:%M}", str(len(b.created)),
            str(len(b.archived)), str(b.links), f"{b.undone} of {b.steps}",
        )  # fmt: skip
    _print(table if found else "No batches here.")


def reverted(found: Reverted, titles: Mapping[str, str]) -> None:
    table = _table("id", "title:w", "")
    rows = [
        (id, what)
        for ids, what in (
            (found.archived, "archived"), (found.restored, "comes back"),
            (found.changed, "as before"),
        )
        for id in ids
    ]  # fmt: skip
    short = _ids(id for id, _ in rows)
    for id, what in rows[:LISTED]:
        table.add_row(short(id), _text(titles.get(id, "")), what)
    if rows:
        _print(table)
    _print_more(len(rows))
    told = f"With them {{}} {found.evidence} observations and {found.links} links"
    if not (rows or found.evidence or found.links or found.batch):
        _print("There is nothing to take back.")
    elif found.dry_run:
        _print(_text(f"{told.format('would go')}. Nothing was changed."))
    else:
        _print(_text(f"{told.format('went')}. To bring all of it back:"))
        _print(_text(f"reasonbank undo {found.batch}", style="bold"))
    if found.left:
        _print(_text(
            f"{len(found.left)} stay: those of other workspaces (--all takes them back too), and "
            "what a person said, if you are none.",
            style="yellow",
        ))  # fmt: skip


def advice(found: Recommendation) -> None:
    if strategy := found.strategy:
        _print(_panel(strategy.title, strategy.content, border_style="green"))
    _print(_text(found.reasoning))
    told: dict[str, Any] = {"keywords": found.keywords, "domain": found.domain}
    if found.strategy:
        worked = f"{found.worked} of {found.tried}" if found.tried else "untried"
        told |= {"expected": found.expected, "worked": worked,
                 "successful uses": found.successful_uses}  # fmt: skip
    facts("", told)
    for warning in found.warnings:
        _print(_text(f"Warning: {warning.title}: {warning.description}", style="red"))
    for memory in found.failed:
        _print(_text(f"Failed whenever it was tried: {memory.title}", style="red"))


def traces(found: Sequence[Trace]) -> None:
    short = _ids(t.id for t in found)
    table = _table("id", "when", "outcome", "score:r", "steps:r", "task:w")
    for t in found:
        table.add_row(short(t.id), f"{t.created_at:%Y-%m-%d %H:%M}", t.outcome or "?",
                      "–" if t.final_score is None else _short(t.final_score),
                      str(len(t.trajectory)), _text(_start(t.task)))  # fmt: skip
    _print(table if found else "No traces here.")


def _start(task: str) -> str:
    """So much of a task as tells it from others."""
    line = " ".join(task.split())
    if len(line) <= TASK:
        return line
    return (line[:TASK].rpartition(" ")[0] or line[:TASK]) + " …"


def trace(found: Trace) -> None:
    _print(_panel("Task", found.task))
    table = _table("#:r", "action:w", "score:r", "what:w")
    for step in found.trajectory:
        score = "" if step.score is None else f"{step.score:.2f}"
        told = "\n".join(filter(None, (step.content, excerpt(step.feedback or "", SHOWN))))
        table.add_row(str(step.iteration), _text(step.action), score, _text(told))
    _print(table)
    facts("", {"outcome": found.outcome, "score": found.final_score, "used": found.memories_used,
               "learned": found.memories_learned, "metadata": found.metadata})  # fmt: skip


def facts(title: str, values: Mapping[str, Any]) -> None:
    table = _table("", ":w", title=title or None)
    table.show_header = False
    for name, value in values.items():
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {_short(v)}" for k, v in value.items()) or "none"
        elif isinstance(value, list | tuple):
            shown = ", ".join(map(str, value)) or "none"
        else:
            shown = _short(value)
        table.add_row(_text(name.replace("_", " "), style="dim"), _text(shown))
    _print(table)


def statistics(numbers: Mapping[str, Any]) -> None:
    where = f"workspace {numbers['workspace']}" if numbers["workspace"] else "all workspaces"
    facts(f"In the bank ({where})", {
        "memories": f"{numbers['memories']}{_counts(numbers['by_state'], ': ')}",
        "by outcome": _counts(numbers["by_outcome"]) or "none",
        "by source": _counts(numbers["by_source"]) or "none",
        "by scope": _counts(numbers["by_scope"]) or "none",
        "by standing": _counts(numbers["by_standing"]) or "none",
        "whose": ", ".join(map(_influence, numbers["influence"][:5])) or "nobody's",
        "growth": "new in a day {day}, in a week {week}, in a month {month}".format(
            **numbers["growth"]
        ),
        "warnings": numbers["warnings"],
        "not embedded": f"{numbers['not_embedded']}, by other models "
                        f"{numbers['embedded_by_other_models']}",
        "evidence": f"{numbers['evidence']}, uses {numbers['uses']}, links {numbers['links']}",
        "traces": f"{numbers['traces']}{_counts(numbers['traces_by_outcome'], ': ')}",
        "success rate": _percent(numbers["success_rate"]),
        "whole bank": f"{numbers['workspaces']} workspaces, {numbers['events']} log entries, "
                      f"{numbers['forgotten']} forgotten",
        "store": numbers["store"],
        "embedder": f"{numbers['embedder']}{' (degraded)' if numbers['degraded'] else ''}",
        "belief": f"{numbers['belief_model']}{_counts(numbers['evidence_weights'], ': ')}",
    })  # fmt: skip
    since = numbers["since"]
    label = f"since {since[:16].replace('T', ' ')} UTC" if since else "nothing counted yet"
    _print(_text(f"\nUse of the whole bank, {label}", style="italic"))
    table = _table("", "count:r", "p50:r", "p95:r", "p99:r")
    for name, shown in (("retrieval", "searches"), ("embedding", "questions embedded")):
        found = numbers["latency"][name]
        times = (found["p50_ms"], found["p95_ms"], found["p99_ms"])
        table.add_row(_text(shown, style="dim"), str(found["count"]),
                      *("–" if t is None else f"{t:.3g} ms" for t in times))  # fmt: skip
    _print(table)
    searches, cache = numbers["searches"], numbers["query_cache"]
    facts("", {
        "searches": f"{searches['empty']} found nothing, {searches['weak']} only weak matches, "
                    f"{searches['degraded']} degraded, {searches['failed']} failed",
        "query cache": f"hits {_percent(cache['hit_rate'])} ({cache['hits']} of "
                       f"{cache['hits'] + cache['misses']}), {cache['evictions']} evicted",
        "model cache": _model_cache(numbers["model"]),
        "model": _counts(_known(numbers["model"])) or "none asked yet",
        "queue": _counts(_known(numbers["queue"])),
    })  # fmt: skip


def _influence(one: Mapping[str, Any]) -> str:
    share = "" if one["share"] is None else f", {one['share']:.0%} of what was given"
    return f"{one['hand'] or 'unknown'} {one['memories']} ({one['confirmed']} confirmed{share})"


def _model_cache(used: Mapping[str, Any] | None) -> str:
    if used is None:
        return "none asked yet"
    hits, asked = used["cache_hits"], used["cache_hits"] + used["cache_misses"]
    return (
        f"hits {_percent(used['cache_hit_rate'])} ({hits} of {asked}), "
        f"{used['cache_bypasses']} not for a cache, {used['cache_evictions']} evicted"
    )


def _counts(values: Mapping[str, Any], lead: str = "") -> str:
    shown = ", ".join(f"{name} {_short(value)}" for name, value in values.items())
    return f"{lead}{shown}" if shown else ""


def _known(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is worth a word: neither nothing nor unknown, apart from what is waiting."""
    found = values or {}
    return {k.replace("_", " "): v for k, v in found.items() if v or k == "waiting"}


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{share:.1%}"


def audit(changes: Sequence[Change]) -> None:
    short = _ids(c.subject for c in changes)
    table = _table("seq:r", "when", "what", "id:w", "by:w", "through")
    for c in changes:
        table.add_row(str(c.seq), f"{c.at:%Y-%m-%d %H:%M:%S}", c.what, _text(short(c.subject)),
                      _text(c.author), _text(c.surface))  # fmt: skip
    _print(table if changes else "No changes here.")
    if changes and changes[-1].seq > 1:
        _print(_text(f"Older: --before {changes[-1].seq}", style="dim"))


def _short(value: Any) -> str:
    if value is None:
        return "not known"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def gaps(found: Sequence[Gap]) -> None:
    table = _table("asked:r", "last", "question:w")
    for gap in found:
        others = "".join(f"\n  also: {wording}" for wording in gap.wordings)
        table.add_row(str(gap.asked), f"{gap.last_asked:%Y-%m-%d %H:%M}",
                      _text(gap.question + others))  # fmt: skip
    _print(table if found else "No gaps: nothing was asked in vain.")


def review(found: Sequence[ForReview]) -> None:
    short = _ids(each.id for each in found)
    table = _table("id", "", "title:w", "by:w", "why:w")
    for each in found:
        by = f"peer:{each.peer}" if each.peer else each.hand or each.author
        table.add_row(short(each.id), each.kind, _text(each.title), _text(by), _text(each.reason))
    _print(table if found else "Nothing waits for you.")
    if found:
        _print(_text("reasonbank review accept ID… | edit ID | reject ID…", style="dim"))


def jobs(found: Sequence[Job]) -> None:
    short = _ids(job.id for job in found)
    table = _table("id", "what", "state", "attempts:r", "queued", "last error:w")
    for job in found:
        table.add_row(short(job.id), job.kind, str(job.state), str(job.attempts),
                      f"{job.created_at:%Y-%m-%d %H:%M}", _text(job.error or ""))  # fmt: skip
    _print(table if found else "The queue is empty.")


def workspaces(places: Sequence[Workspace], here: str) -> None:
    table = _table("", "id:w", "name:w", "path:w", "team:w", "org:w", "memories:r")
    for w in places:
        mark = "→" if w.id == here else ""
        name = w.name or (f"of {w.peer}" if w.peer else "")
        table.add_row(mark, w.id, _text(name), _text(w.path or ""), w.team, w.org,
                      str(w.memories))  # fmt: skip
    _print(table if places else "No workspaces yet: one comes with its first memory.")


def tokens(found: Sequence[StoredToken]) -> None:
    table = _table("id", "name:w", "scope", "reaches", "state", "expires", "last used")
    for t in found:
        spent = "" if t.max_tokens is None else f"\nspent {t.spent_tokens:,} of {t.max_tokens:,}"
        places = "all" if t.workspaces is None else "\n".join(t.workspaces)
        table.add_row(t.id, _text(f"{t.name}{spent}"), t.scope, places, t.state,
                      _day(t.expires_at), _day(t.last_used))  # fmt: skip
    _print(table if found else "No tokens yet: `reasonbank token create` makes one.")


def peers(found: Sequence[JSON]) -> None:
    table = _table("name:w", "key", "state", "shares:w", "said", "brought", "last seen")
    for each in found:
        seen = f"{each['seen_at']:%Y-%m-%d %H:%M}" if each["seen_at"] else "never"
        table.add_row(_text(each["name"]), each["key"][:8], each["state"],
                      _text("\n".join(each["channels"])), f"{each['entries']:,}",
                      f"{each['brought']:,}", seen)  # fmt: skip
    _print(table if found else "No other bank yet: `reasonbank peer invite` finds one.")


def offers(found: Sequence[OfferShown]) -> None:
    short = _ids(each.trace for each in found if each.trace)
    table = _table("task:w", "whose", "state", "spent", "until", "trace")
    for each in found:
        whose = (
            (f"ours, by {each.peer}" if each.peer else "ours") if each.ours else f"of {each.peer}"
        )
        table.add_row(_text(each.task), _text(whose), each.state,
                      f"${each.spent:.2f} of ${each.most:.2f}", f"{each.expires_at:%m-%d %H:%M}",
                      short(each.trace) if each.trace else "")  # fmt: skip
    _print(table if found else "No task was offered yet: `reasonbank peer offer` does so.")


def _day(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d}"


def checks(found: Sequence[Check]) -> None:
    signs = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    table = _table("", "what:w", "found:w", "repair:w")
    for check in found:
        sign, colour = signs[check.status]
        table.add_row(_text(sign, style=colour), check.name, _text(check.found),
                      _text(check.repair or "", style="bold"))  # fmt: skip
    _print(table)


def verified(found: Verified) -> None:
    if found.sound:
        told = f"{found.events:,} events are as they were written, and {found.rows:,} rows are"
        _print(_text(f"{told} what they tell.", style="green"))
        return
    table = _table("where", "found:w", "written:w", "origin:w")
    for fault in found.faults[:LISTED]:
        at = "" if fault.at is None else f"{fault.at:%Y-%m-%d %H:%M:%S} UTC"
        table.add_row(fault.where, _text(fault.found, style="red"), at, fault.origin or "")
    _print(table)
    _print_more(len(found.faults))


def on_probation(batch: str) -> None:
    """What an import that nobody vouched for waits for."""
    _print(_text(
        f"Untested: found by who asks, given to no agent unasked. To confirm them all: reasonbank"
        f" review accept --import {batch}", style="dim",
    ))  # fmt: skip


def brought(found: Brought, *, trusted: bool = False) -> None:
    table = _table("", "title:w", "from:w", ":w")
    for each in found.memories[:LISTED]:
        told = ", ".join(f"⚠ {reason}" for reason in each.suspicious)
        mark = _text(_SIGNS[each.outcome], style=_COLOURS[each.outcome])
        known = "" if each.new else "known already"
        table.add_row(mark, _text(each.title), _text(each.where), _text(told or known))
    if found.memories:
        _print(table)
    _print_more(len(found.memories))
    if found.left_out:
        table = _table("left out:w", "why:w")
        for left in found.left_out[:LISTED]:
            table.add_row(_text(left.where), _text(left.reason))
        _print(table)
        _print_more(len(found.left_out))
    verb = "Would take" if found.dry_run else "Took"
    told = f"{verb} {counted(found.new)} from {found.format}"
    told += f", {found.known} known already" if found.known else ""
    told += f", {len(found.left_out)} left out" if found.left_out else ""
    _print(_text(told))
    if found.batch and not trusted:
        on_probation(found.batch)
    if found.batch:
        _print(_text(f"To take it all back: reasonbank undo {found.batch}", style="dim"))


def _print_more(count: int) -> None:
    if count > LISTED:
        _print(_text(f"… and {count - LISTED} more; --json lists all", style="dim"))

"""Search results for people, drawn without rich: its import would take longer than the search."""

from __future__ import annotations

import os

import click

from reasonbank.model import Hit, Reply, Standing, failed_each_time
from reasonbank.surfaces.show.fitting import clean, columns, wrapped

_SIGNS = {"success": "✓", "failure": "✗", "mixed": "±"}
_COLOURS = {"success": "green", "failure": "red", "mixed": "yellow"}


def reply(found: Reply, *, explain: bool) -> None:
    for note in found.notes:
        told(f"Note: {note}", fg="yellow")
    if not found.hits and not found.held_out:
        click.echo("Nothing relevant enough is known here.")
    elif found.hits and not found.sure:
        click.echo("Nothing is surely about this; the nearest that is known:")
    if found.hint is not None:
        click.echo(clean(found.hint))
    for place, hit in enumerate(found.hits, 1):
        _card(place, hit)
    if explain and found.dropped:
        click.echo("Left out:")
        for id, reason in found.dropped:
            told(f"  {id}  {reason}")
    total = f"{found.total_found}{'+' if found.more else ''}"
    weak = len(found.hits) - len(found.sure)
    told(
        f"{len(found.hits)} of {total} found{f', {weak} weak' if weak else ''} · "
        f"{found.tokens_used} tokens · "
        f"{found.embedder}{' · degraded' if found.degraded else ''}"
        f"{''.join(f' · {part} not searched' for part in found.skipped)}",
        dim=True,
    )


def _card(place: int, hit: Hit) -> None:
    memory = hit.memory
    colour = _COLOURS[memory.outcome]
    # What may be about something else, fails, or is no longer so, is not to catch the eye.
    doubted = hit.weak or hit.failing or hit.outdated_by is not None
    sign = click.style(_SIGNS[memory.outcome], fg=colour)
    edge = "╭─"
    lead = f" {place}. {sign} "
    room = _width() - columns(f"╭─ {place}. ✓ ")
    for part in wrapped(clean(memory.title), room):
        click.echo(f"{_edge(edge, colour)}{lead}{click.style(part, bold=not doubted, dim=doubted)}")
        edge, lead = "│", " " * columns(f"─ {place}. ✓ ")
    if memory.description != memory.title:
        _lines(memory.description, colour, italic=True, dim=doubted)
    if hit.passage is not None:
        _lines(f"…\n{hit.passage}\n…", colour, dim=doubted)
        whole = f"the nearest part; all {len(memory.content):,} characters:"
        _lines(f"{whole}\nreasonbank show {memory.id}", colour, dim=True)
    elif memory.content not in (memory.title, memory.description):
        _lines(memory.content, colour, dim=doubted)
    if error := memory.error_context:
        _lines(f"Warning: {error.error_type}: {error.failure_pattern}", colour, fg="red")
        _lines(f"Instead: {error.corrective_guidance}", colour, fg="red")
    if hit.parts:
        parts = "  ".join(f"{name} {value:.3f}" for name, value in hit.parts.items())
        _lines(parts, colour, dim=True)
    facts = (
        f"relevance {hit.relevance:.2f} · {_forecast(hit)} · confidence {memory.confidence:.2f} · "
        f"used {memory.usage_count} · {memory.scope}{' · linked' if hit.via else ''}"
    )
    if memory.standing is not Standing.CONFIRMED:
        facts = f"{memory.standing} · {facts}"
    if hit.weak:
        facts = f"weak match · {facts}"
    _lines(facts, colour, dim=True)
    if hit.failing:
        _lines(f"Warning: {failed_each_time(hit.tried)}", colour, fg="red")
    if hit.outdated_by is not None:
        _lines(f"Outdated: newer is {hit.outdated_by}", colour, fg="yellow")
    if hit.suspicious:
        _lines(f"Suspicious: {', '.join(hit.suspicious)}", colour, fg="red", bold=True)
    if hit.contradicts:
        _lines(f"Contradicts: {', '.join(hit.contradicts)}", colour, fg="yellow")
    click.echo(f"{_edge('╰─', colour)} {click.style(memory.id, dim=True)}")


def _forecast(hit: Hit) -> str:
    expected = "" if hit.expected is None else f"expected {hit.expected:.2f}"
    record = f"worked {hit.worked} of {hit.tried}" if hit.tried else "untried"
    return f"{expected} ({record})" if expected else record


def _lines(text: str, colour: str, **style: object) -> None:
    for line in clean(text).splitlines():
        for part in wrapped(line.expandtabs(4), _width() - 2):
            click.echo(f"{_edge('│', colour)} {click.style(part, **style)}")  # type: ignore[arg-type]


def told(text: str, **style: object) -> None:
    """Lines that fit the terminal."""
    for line in clean(text).splitlines():
        for part in wrapped(line, _width()):
            click.secho(part, **style)  # type: ignore[arg-type]


def _edge(line: str, colour: str) -> str:
    return click.style(line, fg=colour)


def _width() -> int:
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size().columns))
    except (OSError, ValueError):
        return 80

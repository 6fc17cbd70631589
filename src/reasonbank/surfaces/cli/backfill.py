"""The command that learns from what coding agents wrote down before."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from reasonbank.errors import InvalidInput
from reasonbank.learn.transcripts.places import AGENTS
from reasonbank.model import counted
from reasonbank.surfaces.cli.shell import Shell, command, confirm, say

if TYPE_CHECKING:
    from reasonbank.jobs.backfill import Filled, Prospect
    from reasonbank.learn.transcripts.places import History
    from reasonbank.store.context import Progress

_AGO = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
INTERRUPTED = 130
SHOWN = 10
FREE = ("none", "ollama")
"""Models that run here, or none at all."""


@command()
@click.option("--agent", "agents", multiple=True, type=click.Choice(AGENTS),
              help="Only its sessions; may be repeated [default: all].")  # fmt: skip
@click.option("--since", help="Only what changed since: 2026-10-01, or 30d, 12h, 8w ago.")
@click.option("--dry-run", is_flag=True, help="Say what there is to learn, and what it costs.")
@click.option("--yes", is_flag=True, help="Spend what the model costs without being asked.")
def backfill(
    shell: Shell, agents: tuple[str, ...], since: str | None, dry_run: bool, yes: bool
) -> None:
    """Learn from the sessions that coding agents wrote down before.

    Each is read once, and again when it has grown; what it teaches belongs to the project that
    it worked in, also if its folder is gone. It can be stopped at any time: begun again, it
    goes on. If a server or a worker has this bank open, it does the learning.
    """
    from reasonbank.learn.transcripts import places

    found = places.histories(agents, os.environ, since=_since(since))
    if dry_run:
        look = _looked(shell, found)
        shell.show(look, lambda: _draw_prospect(look))
        return
    if not yes and _costs_money():
        look = _looked(shell, found)
        if look.tokens:
            confirm(shell, yes, f"{_price(look)} Go on?")
    filled = _filled(shell, found)
    shell.show(filled, lambda: _draw(filled))
    if filled.stopped:
        click.get_current_context().exit(INTERRUPTED)


def _costs_money() -> bool:
    """Whether somebody else's model would learn."""
    from reasonbank.settings import load

    settings = load()
    return settings.learn.reasoner in ("auto", "model") and settings.llm.provider not in FREE


def _looked(shell: Shell, found: Sequence[History]) -> Prospect:
    from reasonbank.jobs import backfill as histories

    with shell.bank() as bank, _progress("Read", shell) as progress:
        new, waiting = histories.new_of(bank.context, found)
        known = len(found) - len(new) - len(waiting)
        return histories.prospect(bank.context, [*new, *waiting], known=known, progress=progress)


def _filled(shell: Shell, found: Sequence[History]) -> Filled:
    from reasonbank.embed.port import told
    from reasonbank.jobs import backfill as histories
    from reasonbank.opening import model_for, quicken
    from reasonbank.store.context import reasoner_of
    from reasonbank.store.working import who

    with shell.bank(creates=bool(found)) as bank:
        new, waiting = histories.new_of(bank.context, found)
        filled = histories.Filled(
            found=len(found), new=len(new), known=len(found) - len(new) - len(waiting)
        )
        if not new and not histories.left(bank.context):
            return filled
        other = who(bank.context)
        # Whoever has no key for the model is told so before anything is queued.
        thinks = other is None and reasoner_of(bank.context) == "model"
        model = model_for(bank.store) if thinks else None
        try:
            histories.hand_over(bank.context, new)
            if other is not None:
                filled.by, filled.waiting = str(other), len(new) + len(waiting)
                return filled
            quicken(bank.store)
            if not shell.json:
                click.echo(f"Embeds with {told(bank.store.indexing.embedder)}", err=True)
            with _progress("Done", shell) as progress:
                histories.learn(bank.context, model, filled, progress)
            if filled.memories:
                with _progress("Embedded", shell) as progress:
                    bank.embed_new(progress)
        except KeyboardInterrupt:
            filled.stopped = True
        return filled


def _since(told: str | None) -> datetime | None:
    if told is None:
        return None
    if ago := _AGO.fullmatch(told.strip()):
        return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
    try:
        found = datetime.fromisoformat(told.strip())
    except ValueError:
        raise InvalidInput(
            "since", f"{told[:80]!r} is no time; write 2026-10-01, or 30d for 30 days ago"
        ) from None
    return found.astimezone()


@contextmanager
def _progress(label: str, shell: Shell) -> Iterator[Progress]:
    """A session takes a while: told also of a few."""
    from reasonbank.surfaces.show.progress import progress

    with progress(label, quiet=shell.json, many=1) as advance:
        yield advance


def _draw_prospect(look: Prospect) -> None:
    if not look.sessions:
        say("There is nothing new to learn from" + _besides(look))
        return
    told = ", ".join(f"{agent} {number}" for agent, number in look.agents.items())
    say(f"{_many(look.sessions, 'session')} to learn from ({told}): "
        f"{_size(look.bytes)}, {look.steps} steps{_besides(look)}")  # fmt: skip
    say(f"Rules find {_many(look.lessons, 'lesson')} in them.")
    if look.tokens is not None:
        say(_price(look))
    say(f"{_many(len(look.projects), 'project')}:")
    for project in look.projects[:SHOWN]:
        gone = "  (the folder is gone)" if project.gone else ""
        say(f"  {project.sessions:5}  {project.path or 'not said: this project'}{gone}")
    if len(look.projects) > SHOWN:
        say(f"         and {len(look.projects) - SHOWN} more; --json lists all")
    for reason in look.unreadable[:SHOWN]:
        say(f"Not read: {reason}")
    say("Nothing was changed. `reasonbank backfill` learns from them.")


def _price(look: Prospect) -> str:
    known = "what they cost is not known here"
    money = known if look.cost is None else f"about {look.cost:.2f}, as until now"
    return f"The model would read and write about {look.tokens} tokens ({money})."


def _besides(look: Prospect) -> str:
    parts = [f"{look.known} were read before"] if look.known else []
    parts += [f"{look.empty} are empty"] if look.empty else []
    return f" ({', '.join(parts)})" if parts else ""


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(bytes: int) -> str:
    return f"{bytes / 1e6:.1f} MB" if bytes >= 100_000 else f"{bytes / 1e3:.1f} KB"


def _draw(filled: Filled) -> None:
    if not filled.found:
        say("No sessions of a coding agent were found on this machine.")
        return
    if filled.by:
        say(f"Queued {_many(filled.new, 'session')}; {filled.by} learns from them")
        return
    say(f"Read {_many(filled.read, 'session')}, learned {counted(len(filled.memories))}"
        + (f"; {filled.known} were read before" if filled.known else ""))  # fmt: skip
    for path, reason in filled.failed[:SHOWN]:
        say(f"  not read: {path}: {reason}")
    if len(filled.failed) > SHOWN:
        say(f"  and {len(filled.failed) - SHOWN} more; `reasonbank queue list` shows all")
    if filled.stopped:
        say("Stopped. What was read is kept; `reasonbank backfill` goes on from here.")
    if filled.waiting:
        waits = f"{_many(filled.waiting, 'job')} left"
        say(f"{waits}; `reasonbank backfill`, a server or a worker does the rest.")

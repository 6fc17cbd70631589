"""`reasonbank review`: what waits for a person, and their word on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reasonbank.surfaces.cli.shell import Shell, command, common, main, say

if TYPE_CHECKING:
    from reasonbank.model import Memory

_BATCH = click.option("--import", "batch", metavar="BATCH", help="All that this import brought.")


@main.group(invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@common
@click.pass_context
def review(context: click.Context, limit: int) -> None:
    """Show what waits for you; accept, edit or reject it."""
    if context.invoked_subcommand is not None:
        return
    from reasonbank.surfaces.show import tables

    shell = context.ensure_object(Shell)
    with shell.bank() as bank:
        found = bank.review(limit=limit)
    shell.show(found, lambda: tables.review(found))


@command(group=review)
@click.argument("ids", nargs=-1)
@_BATCH
def accept(shell: Shell, ids: tuple[str, ...], batch: str | None) -> None:
    """Confirm memories: from now on they are used like your own."""
    with shell.bank() as bank:
        found = bank.accept(ids, batch=batch)
    shell.show(found, lambda: _told("Accepted", found))


@command(group=review)
@click.argument("id")
@click.option("--title")
@click.option("--description")
@click.option("--content")
def edit(shell: Shell, id: str, **changes: Any) -> None:
    """Change a memory and accept it; without an option, in your editor."""
    given = {name: value for name, value in changes.items() if value is not None}
    with shell.bank() as bank:
        if not given:
            before = bank.get(id).content
            after = click.edit(before)
            if after is None:
                raise click.UsageError("Nothing was changed; `review accept` takes it as it is.")
            given = {"content": after.strip()}
        found = bank.accept((id,), changes=given)
    shell.show(found, lambda: _told("Changed and accepted", found))


@command(group=review)
@click.argument("ids", nargs=-1)
@_BATCH
@click.option("--reason", default="rejected in review", show_default=True)
def reject(shell: Shell, ids: tuple[str, ...], batch: str | None, reason: str) -> None:
    """Archive memories; no agent can bring them back."""
    with shell.bank() as bank:
        found = bank.reject(ids, batch=batch, reason=reason)
    shell.show(found, lambda: _told("Rejected", found))


def _told(what: str, found: Sequence[Memory]) -> None:
    for memory in found:
        say(f"{what} “{memory.title}”")

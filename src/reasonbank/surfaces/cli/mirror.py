"""The command that keeps a folder of Markdown and a project's memories in step."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reasonbank.errors import ConfirmationNeeded
from reasonbank.model import counted
from reasonbank.surfaces.cli.shell import Shell, command, confirm, say, tell

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.store.mirror import Mirrored

Seen = tuple[object, object]
PAUSE = 0.5
"""Seconds between two looks at the folder."""


@command()
@click.argument("folder", type=click.Path())
@click.option("--adopt", is_flag=True,
              help="Also a folder with files of yours: its Markdown becomes memories.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--watch", is_flag=True, help="Go on until stopped: look twice a second.")
@click.option("--yes", is_flag=True, help="Archive also if most files are gone at once.")
def mirror(shell: Shell, folder: str, adopt: bool, dry_run: bool, watch: bool, yes: bool) -> None:
    """Keep a Markdown file per memory in a folder, and take over what you edit.

    A new file becomes a memory, a deleted one archives its memory, an edit is a revision. Where
    both sides changed the same, the file gets the bank's text and yours is kept beside it.
    """
    if watch and (dry_run or shell.json):
        raise click.UsageError("--watch goes with neither --dry-run nor --json.")
    path = Path(folder)
    with shell.bank(creates=not dry_run) as bank:
        before = _seen(bank, path)
        try:
            done = keep(bank, path, adopt=adopt, yes=yes, dry_run=dry_run)
        except ConfirmationNeeded as warning:
            confirm(shell, yes, f"{warning}. Go on?")
            done = keep(bank, path, adopt=adopt, yes=True, dry_run=dry_run)
        shell.show(done, lambda: _draw(done))
        with suppress(KeyboardInterrupt):
            while watch:
                before = _await_change(bank, path, before)
                again = keep(bank, path, yes=yes)
                if again.steps:
                    _draw(again)


def keep(
    bank: Bank, path: Path, *, adopt: bool = False, yes: bool = False, dry_run: bool = False
) -> Mirrored:
    from reasonbank.store.mirror import mirror as kept

    return kept(bank.context, path, adopt=adopt, confirm=yes, dry_run=dry_run)


def _seen(bank: Bank, path: Path) -> Seen:
    from reasonbank.store.mirror.files import stamps

    return stamps(path), bank.store.ledger.version()


def _await_change(bank: Bank, path: Path, known: Seen) -> Seen:
    """Until a file or the bank is not as it was, and stays so for a moment: an editor may write
    a file in pieces. ``known`` is how they were before the last run, so that nothing is missed."""
    now = _seen(bank, path)
    while True:
        time.sleep(PAUSE)
        before, now = now, _seen(bank, path)
        if now == before != known:
            return now


def _draw(done: Mirrored) -> None:
    for step in done.steps:
        say(f"{step.what:9} {step.file}{f' ({step.why})' if step.why else ''}")
    for name in done.conflicts:
        tell(
            f"{name} holds what was written in the file while the bank had changed, too. Take over "
            "what is right into the file without “conflict”, then delete this one.",
            fg="yellow",
        )
    would = "would be " if done.dry_run else ""
    changed = sum(step.what != "left" for step in done.steps)
    told = f"{changed} {would}changed" if changed else "nothing to do"
    say(f"{done.folder}: {counted(done.memories)}, {told}")

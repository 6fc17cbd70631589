"""The command that keeps a folder of Markdown and a project's memories in step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reasonbank.errors import ConfirmationNeeded
from reasonbank.model import counted
from reasonbank.surfaces.cli.shell import Shell, command, confirm, say, tell

if TYPE_CHECKING:
    from reasonbank.store.mirror import Mirrored


@command()
@click.argument("folder", type=click.Path())
@click.option("--adopt", is_flag=True,
              help="Also a folder with files of yours: its Markdown becomes memories.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Archive also if most files are gone at once.")
def mirror(shell: Shell, folder: str, adopt: bool, dry_run: bool, yes: bool) -> None:
    """Keep a folder with one Markdown file per memory in step with this project.

    What you edit becomes a revision, a new file a memory; a deleted file archives its memory.
    Where both sides changed the same, the file gets the bank's text and yours is kept beside it.
    """
    from reasonbank.store.mirror import mirror as keep

    with shell.bank(creates=not dry_run) as bank:
        path = Path(folder)
        try:
            done = keep(bank.context, path, adopt=adopt, confirm=yes, dry_run=dry_run)
        except ConfirmationNeeded as warning:
            confirm(shell, yes, f"{warning}. Go on?")
            done = keep(bank.context, path, adopt=adopt, confirm=True, dry_run=dry_run)
    shell.show(done, lambda: _draw(done))


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

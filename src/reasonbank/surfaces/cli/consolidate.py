"""Commands that change many memories in one go: merge, share, take back."""

from __future__ import annotations

from pathlib import Path

import click

from reasonbank.bank import Bank
from reasonbank.errors import Refused
from reasonbank.surfaces.cli.shell import Shell, command, reading, say, tell


@command()
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--force", is_flag=True, help="Run even if it ran within the last 24 hours.")
@click.option("--max-clusters", type=int, default=0, show_default=True,
              help="Maximum number of clusters to merge; 0 means no limit.")  # fmt: skip
@click.option("--threshold", type=float, help="0 to 1: how alike they must be [default: measured].")
def consolidate(
    shell: Shell, dry_run: bool, force: bool, max_clusters: int, threshold: float | None
) -> None:
    """Merge memories that say the same; link those that disagree."""
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with (
        shell.bank() as bank,
        progress("Merging", quiet=shell.json or dry_run) as advance,
    ):
        found = bank.consolidate(
            dry_run=dry_run, force=force, max_clusters=max_clusters, threshold=threshold,
            progress=advance,
        ).to_json()  # fmt: skip
    shell.show(found, lambda: tables.consolidation(found))


@command()
@click.option("--dry-run", is_flag=True, help="Show what recurs and change nothing.")
@click.option("--accept", metavar="ID", multiple=True,
              help="Share this one on your word, though one hand alone stands for it.")  # fmt: skip
@click.option("--reject", metavar="ID", multiple=True,
              help="Propose this one no more.")  # fmt: skip
def promote(shell: Shell, dry_run: bool, accept: tuple[str, ...], reject: tuple[str, ...]) -> None:
    """Share with the team what proved itself here and elsewhere."""
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        accepted, rejected = (
            tuple(bank.context.whole_id("memory", id) for id in ids) for ids in (accept, reject)
        )
        found = bank.promote(dry_run=dry_run, accept=accepted, reject=rejected)

    def draw() -> None:
        tables.proposals(found.proposals)
        if found.promoted:
            say(f"Promoted {len(found.promoted)}; `reasonbank undo {found.batch}` takes it back")
        elif any(proposal.acceptable for proposal in found.proposals):
            tell("`reasonbank promote --accept ID` shares one on your word, `--reject ID` ends it.")

    shell.show(found, draw)


@command()
@click.option("--author", help="What they wrote: a name of the log, or agent:alice, person:alice.")
@click.option("--session", help="What came of this session.")
@click.option("--import", "imported", metavar="BATCH_OR_FILE", help="What this import brought.")
@click.option("--since", metavar="WHEN",
              help="Not before 2026-01-31, 2026-01-31T12:00 (UTC), or 2h, 3d, 1w ago.")  # fmt: skip
@click.option("--all", "everywhere", is_flag=True, help="In all workspaces.")
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
def revert(
    shell: Shell, author: str | None, session: str | None, imported: str | None,
    since: str | None, everywhere: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Take back what somebody wrote, and all that was made from it.

    What is given must all hold. Memories that they recorded go to the archive, what they changed
    is as before, and what they observed counts no longer. `undo` takes the revert back.
    """
    if author is session is imported is since is None:
        raise click.UsageError("Say what: --author, --session, --import, --since, or several.")
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        batch = None if imported is None else _batch_of(bank, imported)
        found = bank.revert(
            author=author, session=session, batch=batch, since=since, everywhere=everywhere,
            dry_run=dry_run,
        )  # fmt: skip
        titles = bank.context.read().titles(
            bank.view, (*found.archived, *found.restored, *found.changed)
        )
    shell.show(found, lambda: tables.reverted(found, titles))


def _batch_of(bank: Bank, imported: str) -> str:
    """The import that is meant: by its id, or by the file that it read."""
    if not Path(imported).is_file():
        return imported
    from reasonbank.store.revert import batches_of
    from reasonbank.store.transfer import memories_in

    with reading(imported) as source:
        found = batches_of(bank.context, memories_in(bank.context, source))
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(
            f"no import into this bank recorded memories of {imported}; what was taken with "
            "--trusted is taken back with --author or --since"
        )
    raise Refused(f"{imported} was imported in several goes; name one of them: {', '.join(found)}")

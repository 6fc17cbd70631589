"""Commands that tidy a bank up: merge, share, and see what was done in one go."""

from __future__ import annotations

import click

from reasonbank.surfaces.cli.shell import Shell, command, say


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
def promote(shell: Shell, dry_run: bool) -> None:
    """Share with the team what proved itself here and elsewhere."""
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        found = bank.promote(dry_run=dry_run)

    def draw() -> None:
        tables.proposals(found.proposals)
        if found.promoted:
            say(f"Promoted {len(found.promoted)}; `reasonbank undo {found.batch}` takes it back")

    shell.show(found, draw)

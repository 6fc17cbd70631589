"""Commands that tidy a bank up: merge, share, and see what was done in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reasonbank.surfaces.cli.shell import Shell, command

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.llm.port import Model
    from reasonbank.tidy.consolidate import Progress, Result


@command()
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--force", is_flag=True, help="Also when it was done within the last 24 hours.")
@click.option("--max-clusters", type=int, default=0, show_default=True,
              help="Merge at most this many; 0 is no limit.")  # fmt: skip
@click.option("--threshold", type=float, help="0 to 1: how alike they must be [default: measured].")
def consolidate(
    shell: Shell, dry_run: bool, force: bool, max_clusters: int, threshold: float | None
) -> None:
    """Merge memories that say the same; link those that disagree."""
    from reasonbank.surfaces.show import tables

    with (
        shell.bank() as bank,
        tables.progress("Merging", quiet=shell.json or dry_run) as progress,
    ):
        found = run(
            bank, dry_run=dry_run, force=force, max_clusters=max_clusters, threshold=threshold,
            progress=progress,
        ).to_json()  # fmt: skip
    shell.show(found, lambda: tables.consolidation(found))


def run(
    bank: Bank,
    *,
    dry_run: bool,
    force: bool,
    max_clusters: int,
    threshold: float | None,
    progress: Progress,
) -> Result:
    """Consolidate with the model that the settings name, if they name one."""
    import anyio

    from reasonbank.tidy.consolidate import consolidate as merge

    async def all_of_it() -> Result:
        model = reasoner(bank)
        try:
            return await merge(
                bank, model=model, dry_run=dry_run, force=force, max_clusters=max_clusters,
                threshold=threshold, progress=progress,
            )  # fmt: skip
        finally:
            if model is not None:
                await model.close()

    return anyio.run(all_of_it)


def reasoner(bank: Bank) -> Model | None:
    from reasonbank.opening import model_for

    if bank.settings.learn.reasoner not in ("auto", "model"):
        return None
    return model_for(bank.core)


@command()
@click.option("--dry-run", is_flag=True, help="Show what recurs and change nothing.")
def promote(shell: Shell, dry_run: bool) -> None:
    """Share with the team what proved itself here and is known in another project."""
    from reasonbank.surfaces.show import tables
    from reasonbank.tidy.promote import promote as share

    with shell.bank() as bank:
        found = share(bank, dry_run=dry_run)

    def draw() -> None:
        tables.proposals(found["proposals"])
        if found["promoted"]:
            click.echo(
                f"Promoted {len(found['promoted'])}; "
                f"`reasonbank undo {found['batch']}` takes it back"
            )

    shell.show(found, draw)


@command()
@click.option("--limit", type=int, default=20, show_default=True)
def batches(shell: Shell, limit: int) -> None:
    """List what was merged or shared in one go; `undo` takes one back."""
    from reasonbank.fields import whole
    from reasonbank.store.batches import listed
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        found = listed(bank, limit=whole(limit, "limit", least=1, most=100_000))
    shell.show(found, lambda: tables.batches(found))

"""The tool `memory_consolidate`: what it takes, and what it answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from reasonbank.errors import Refused
from reasonbank.store.context import Progress
from reasonbank.surfaces.call import Call
from reasonbank.tidy.consolidate import Result


def _stopping(call: Call) -> Progress:
    """A call that was cancelled ends between two merges; one task's end would not end the rest."""
    import anyio

    def progress(done: int, total: int) -> None:
        try:
            call.progress(done, total)
        except anyio.get_cancelled_exc_class():
            raise Refused(
                "the call was cancelled; what was merged until then stays, and "
                "`reasonbank batches` shows it"
            ) from None

    return progress


def memory_consolidate(
    call: Call,
    project_id: Annotated[
        str | None,
        Field(
            max_length=4096,
            description="A path, id or name; yours if left out.",
        ),
    ] = None,
    similarity_threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="How alike they must be; best left out: measured for the model.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Field(description="Show what would be merged; change nothing.")
    ] = False,
    max_clusters: Annotated[
        int,
        Field(ge=0, le=1_000_000, description="How many to merge; 0: all."),
    ] = 0,
    force: Annotated[
        bool, Field(description="Run even if it ran within the last 24 hours.")
    ] = False,
) -> Result:
    """Merge memories that say the same into one, and archive their sources.

    Done once a day by itself; call this when searches return near-duplicates, or when your user
    asks. See the plan first with dry_run=true. What contradicts is linked, never merged. Your
    user takes it back with `reasonbank undo BATCH`.
    """
    bank = call.bank
    if project_id is not None:
        bank = call.caller.bank(bank, project_id)
    return bank.consolidate(
        dry_run=dry_run, force=force, max_clusters=max_clusters,
        threshold=similarity_threshold, progress=_stopping(call),
    )  # fmt: skip

"""The tool `memory_consolidate`: what it takes, and what it answers."""

from __future__ import annotations

from typing import Annotated, TypedDict, cast

from pydantic import Field

from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput
from reasonbank.learn.consolidate import Progress
from reasonbank.model import LIMITS
from reasonbank.surfaces.consolidate_commands import run


class PlannedMember(TypedDict):
    id: str
    title: str


class PlannedCluster(TypedDict):
    id: str
    members: list[PlannedMember]
    mean_similarity: float
    least_similarity: float


class Consolidated(TypedDict):
    created_memories: list[str]
    archived_memories: list[str]
    skipped_count: int
    total_processed: int
    duration_seconds: float
    batch: str | None
    dry_run: bool
    links_drawn: int
    skipped_reasons: dict[str, int]
    clusters: list[PlannedCluster]
    message: str


def memory_consolidate(
    bank: Bank,
    project_id: Annotated[
        str | None,
        Field(
            max_length=LIMITS.label,
            description="The id or name of the workspace to consolidate; this one if left out.",
        ),
    ] = None,
    similarity_threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="How alike memories must be (0.0-1.0); if left out, the value that was "
            "measured for the embedding model (0.8 for the built-in one).",
        ),
    ] = None,
    dry_run: Annotated[bool, Field(description="Show what would be merged; change nothing.")] = (
        False
    ),
    max_clusters: Annotated[
        int, Field(ge=0, le=1_000_000, description="Merge at most so many clusters; 0: no limit.")
    ] = 0,
    force: Annotated[
        bool, Field(description="Also when it was done within the last 24 hours.")
    ] = False,
) -> Consolidated:
    """Merge memories that say the same into one, and put their sources into the archive.

    Call this when searches keep returning near-duplicates, or when your user asks to tidy up;
    otherwise it is done once a day by itself. Look at the plan first with dry_run=true.
    Memories that contradict each other are never merged but linked. `batch` names all that was
    done: your user takes it back with `reasonbank undo BATCH`.
    """
    return consolidated(
        bank,
        project_id,
        similarity_threshold,
        dry_run,
        max_clusters,
        force,
        lambda done, total: None,
    )


def consolidated(
    bank: Bank,
    project_id: str | None,
    threshold: float | None,
    dry_run: bool,
    max_clusters: int,
    force: bool,
    progress: Progress,
) -> Consolidated:
    here = next((w for w in bank.workspaces() if w.id == bank.view.workspace), None)
    if project_id is not None and project_id not in (
        bank.view.workspace,
        here.name if here else None,
        here.path if here else None,
    ):
        raise InvalidInput(
            "project_id",
            f"{project_id!r} is not the workspace of this call; name it with `workspace`",
        )
    found = run(
        bank, dry_run=dry_run, force=force, max_clusters=max_clusters, threshold=threshold,
        progress=progress,
    ).to_json()  # fmt: skip
    return cast(Consolidated, {name: found[name] for name in Consolidated.__annotations__})

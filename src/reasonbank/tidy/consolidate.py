"""Memories that say the same become one; those that disagree are linked, never merged.

``plan`` decides and changes nothing; ``apply`` carries a plan out, cluster by cluster, each
in one transaction: the merged memory, its sources in the archive, its links. Whoever is
killed in between leaves a bank in which each cluster is merged or is not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from reasonbank.embed.calibration import calibration_for
from reasonbank.errors import (
    InvalidInput,
    InvalidReply,
    LeaseLost,
    ModelError,
    NotFound,
    Refused,
)
from reasonbank.fence import fenced, prompt, said
from reasonbank.ledger.port import LEASE, Filter, Reading, Row, Writing
from reasonbank.llm.layers import AGAIN
from reasonbank.llm.port import Model, assistant, user
from reasonbank.llm.roles import acting
from reasonbank.model import JSON, Job, Link, LinkType, Memory, Standing, State, counted
from reasonbank.store import batches, leases, maintenance
from reasonbank.store.context import Context
from reasonbank.tidy import links, merge
from reasonbank.tidy.merge import Member
from reasonbank.tidy.plan import Cluster, MergePlan, Skipped, plan, skip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

KIND = "consolidate"
AT_ONCE = 10  # So many clusters are merged side by side.
LINKS_AT_ONCE = 200
MOST_TOLD = 20
"""Of what was left apart; the reasons are counted in full."""

Progress = Callable[[int, int], None]


@dataclass(slots=True, kw_only=True)
class Result:
    created: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    links: int = 0
    processed: int = 0
    seconds: float = 0.0
    batch: str | None = None
    dry_run: bool = False
    message: str = ""
    clusters: tuple[Cluster, ...] = ()
    """What a dry run would merge."""

    def to_json(self) -> JSON:
        return {
            "created_memories": self.created,
            "archived_memories": self.archived,
            "skipped_count": self.processed - len(self.archived),
            "total_processed": self.processed,
            "duration_seconds": round(self.seconds, 3),
            "batch": self.batch,
            "dry_run": self.dry_run,
            "links_drawn": self.links,
            "skipped": [{"ids": list(s.ids), "reason": s.reason} for s in self.skipped[:MOST_TOLD]],
            "skipped_reasons": dict(Counter(s.reason for s in self.skipped).most_common()),
            "clusters": [cluster.to_json() for cluster in self.clusters],
            "message": self.message,
        }


def look(
    context: Context, *, threshold: float | None = None, max_clusters: int = 0, unread: bool = False
) -> tuple[MergePlan, tuple[str, ...]]:
    """The plan for a bank's own active memories, and notes on what it does not cover.

    ``unread``: neither a person nor a model reads it before it is carried out, so that only
    what is nearly identical is merged, unless the settings name a threshold.
    """
    import numpy as np

    indexing = context.store.indexing
    if not context.store.ledger.read_only:
        maintenance.embed_new(context)
    indexing.follow()
    reading = context.read()
    rows = [
        row
        for row in reading.listed(context.view, Filter(), 1_000_000)
        if row.workspace == context.view.workspace
    ]
    rows.reverse()
    vectors = indexing.index.vectors(np.array([row.num for row in rows], np.int64))
    known = np.flatnonzero(vectors.any(axis=1))
    members = [member(context, reading, rows[place]) for place in known.tolist()]
    nearness = calibration_for(indexing.embedder.name).merge
    if threshold is None and context.settings.merge.threshold >= 0:
        threshold = context.settings.merge.threshold
    if threshold is None and unread:
        threshold = nearness.sure
    if threshold is not None:
        nearness = replace(nearness, same=threshold, related=min(nearness.related, threshold))
    found = plan(
        members,
        vectors[known] if rows else np.empty((0, indexing.embedder.dimensions), np.float32),
        workspace=context.view.workspace,
        nearness=nearness,
        undone=batches.undone(reading, context),
        max_clusters=max_clusters,
    )
    together = links.used_together(reading, context.view)
    found = replace(found, links=(*found.links, *together))
    missing = len(rows) - len(members)
    notes = (f"{counted(missing)} without a vector of this model left out",)
    return found, notes if missing else ()


def member(context: Context, reading: Reading, row: Row) -> Member:
    lower_bound = context.trust(reading).belief(row).lower_bound
    return Member(memory=context.memory(reading, row), lower_bound=lower_bound, hand=row.hand)


# Carrying out


class _Consolidation:
    """One plan being carried out; clusters side by side, transactions one by one."""

    def __init__(
        self, context: Context, plan: MergePlan, job: Job, model: Model | None, progress: Progress
    ) -> None:
        self.context = context
        self.plan = plan
        self.job = job
        self.model = model
        self.progress = progress
        self.related = calibration_for(context.store.indexing.embedder.name).merge.related
        self.result = Result(processed=plan.evaluated, skipped=list(plan.skipped), batch=job.id)
        self.merged: dict[str, str] = {}
        self.down: str | None = None
        self.done = 0

    async def run(self) -> Result:
        limiter = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as group:
            for cluster in self.plan.clusters:
                group.start_soon(self._one, cluster, limiter)
        await anyio.to_thread.run_sync(self._link)
        return self.result

    async def _one(self, cluster: Cluster, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            try:
                if self.down is not None:
                    raise ModelError(self.down)
                memory = await self._written(cluster)
                await anyio.to_thread.run_sync(self._store, cluster, memory)
            except LeaseLost:
                raise
            except (ModelError, Refused, NotFound, InvalidInput) as error:
                # A reply that cannot be used says nothing about the next one.
                if isinstance(error, ModelError) and not isinstance(error, InvalidReply):
                    self.down = str(error)
                self.result.skipped.append(skip(cluster, str(error)))
            self.done += 1
            self.progress(self.done, len(self.plan.clusters))

    async def _written(self, cluster: Cluster) -> Memory:
        limits = self.context.settings.limits
        if self.model is None:
            return self.context.fit(merge.by_rules(cluster.id, cluster.members, limits))
        asked = merge.question(cluster.members)
        schema = merge.schema(cluster.members)
        for last in (False, True):
            with acting("merging"):
                reply = await self.model.complete(asked, schema=schema, temperature=0.0)
            answer: JSON = reply.value
            if answer["contradiction"].strip():
                await anyio.to_thread.run_sync(self._disagree, cluster)
                raise Refused(f"they contradict each other: {answer['contradiction'][:300]}")
            if answer["different"].strip():
                raise Refused(f"they are about different things: {answer['different'][:300]}")
            memory = merge.by_answer(cluster.id, cluster.members, answer, limits)
            near = await anyio.to_thread.run_sync(self._nearness, cluster, memory)
            problem = merge.refused(answer, near, self.related, cluster.members)
            if problem is None:
                problem = merge.added(memory, cluster.members)
            if problem is None:
                return self.context.fit(memory)
            if last:
                raise problem
            asked = [
                *asked,
                assistant(said(reply.text)),
                user(prompt(AGAIN, fenced("problem", str(problem)))),
            ]
        raise AssertionError

    def _nearness(self, cluster: Cluster, memory: Memory) -> float:
        """Someone else's lesson must not take the place of these."""
        vector = self.context.store.indexing.embedded([memory])[0].vector
        length = float(cluster.middle @ cluster.middle) ** 0.5
        return float(vector @ cluster.middle) / length if length else 0.0

    def _store(self, cluster: Cluster, memory: Memory) -> None:
        context = self.context

        def work(txn: Writing) -> None:
            txn.queue.hold(self.job, context.now() + LEASE)
            sources, stage = [], 0
            hands: set[str | None] = set()
            for planned in cluster.members:
                row = txn.row(context.view, planned.memory.id)
                if row is None or row.state != State.ACTIVE:
                    raise Refused(f"memory {planned.memory.id} was archived or forgotten meanwhile")
                if row.revision != planned.memory.revision:
                    raise Refused(f"memory {planned.memory.id} was changed meanwhile")
                if row.probation != planned.memory.standing.level:
                    raise Refused(f"memory {planned.memory.id} was confirmed or doubted meanwhile")
                sources.append(context.memory(txn, row))
                hands.add(row.hand)
                stage = max(stage, row.stage + 1)
            step = batches.BatchStep(
                created=memory,
                initial=merge.confidence(sources, hands=len(hands)),
                stage=stage,
                standing=Standing.least(source.standing for source in sources),
                hand=hands.pop() if len(hands) == 1 else None,
                archived=tuple(source.id for source in sources),
                links=links.inherited(txn, context.view, memory.id, sources),
            )
            batches.apply(context, txn, self.job.id, "consolidation", step)

        context.write(work)
        context.store.indexing.wake()
        self.result.created.append(memory.id)
        for source in cluster.members:
            self.result.archived.append(source.memory.id)
            self.merged[source.memory.id] = memory.id

    def _disagree(self, cluster: Cluster) -> None:
        first, *others = (m.memory.id for m in cluster.members)
        kind = LinkType.CONTRADICTS
        self._draw(
            [
                Link(source=first, target=id, type=kind, strength=round(cluster.mean_similarity, 3))
                for id in others
            ]
        )

    def _link(self) -> None:
        self._draw(self.plan.links)

    def _draw(self, wanted: Iterable[Link]) -> None:
        context = self.context
        known = context.read().linked(context.view)
        new = links.new(wanted, known, self.merged)
        for start in range(0, len(new), LINKS_AT_ONCE):
            part = new[start : start + LINKS_AT_ONCE]

            def work(txn: Writing, part: Sequence[Link] = part) -> int:
                txn.queue.hold(self.job, context.now() + LEASE)
                here = tuple(
                    link
                    for link in part
                    if all(txn.row(context.view, id) for id in (link.source, link.target))
                )
                if here:
                    batches.apply(context, txn, self.job.id, "links", batches.BatchStep(links=here))
                return len(here)

            self.result.links += context.write(work)


async def carry_out(
    context: Context,
    plan: MergePlan,
    job: Job,
    *,
    model: Model | None = None,
    progress: Progress | None = None,
) -> Result:
    """``job`` is the lease under which it is done: whoever loses it changes nothing more."""
    started = time.monotonic()
    result = await _Consolidation(
        context, plan, job, model, progress or (lambda done, total: None)
    ).run()
    result.seconds = time.monotonic() - started
    result.message = _told(result)
    return result


async def consolidate(
    context: Context,
    *,
    model: Model | None = None,
    threshold: float | None = None,
    dry_run: bool = False,
    max_clusters: int = 0,
    force: bool = False,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Merge what says the same in this workspace, unless that was done within the window.

    Without a ``threshold`` the calibrated one of the embedding model counts. 0
    ``max_clusters`` is no limit. ``only``: of the clusters that a dry run named.
    """
    started = time.monotonic()

    def decide() -> tuple[MergePlan, tuple[str, ...]]:
        found, notes = look(context, threshold=threshold, max_clusters=max_clusters)
        if only is not None:
            chosen = tuple(cluster for cluster in found.clusters if cluster.id in only)
            found = replace(found, clusters=chosen)
        return found, notes

    if dry_run:
        found, notes = await anyio.to_thread.run_sync(decide)
        result = _foreseen(context, found)
        result.message = "; ".join((_told(result), *notes))
    else:
        window = context.settings.schedule.consolidate_hours
        job = await anyio.to_thread.run_sync(
            lambda: leases.take(context, KIND, hours=0.0 if force else window)
        )
        if job is None:
            hours = f"{window:g} hours"
            return Result(message=f"done already within the last {hours}; force does it again")
        async with leases.held(context, job):
            found, notes = await anyio.to_thread.run_sync(decide)
            result = await carry_out(context, found, job, model=model, progress=progress)
            result.message = "; ".join((result.message, *notes))
    result.seconds = time.monotonic() - started
    return result


def _foreseen(context: Context, plan: MergePlan) -> Result:
    merged = {m.memory.id: cluster.id for cluster in plan.clusters for m in cluster.members}
    known = context.read().linked(context.view)
    return Result(
        created=[cluster.id for cluster in plan.clusters],
        archived=list(merged),
        skipped=list(plan.skipped),
        links=len(links.new(plan.links, known, merged)),
        processed=plan.evaluated,
        dry_run=True,
        clusters=plan.clusters,
    )


def _told(result: Result) -> str:
    if not result.created:
        return "nothing to merge"
    verb = "would become" if result.dry_run else "became"
    told = f"{counted(len(result.archived))} {verb} {len(result.created)}"
    return told if result.dry_run else f"{told}; `reasonbank undo {result.batch}` takes it back"


def consolidate_now(
    context: Context,
    model: Model | None,
    *,
    threshold: float | None,
    dry_run: bool,
    max_clusters: int,
    force: bool,
    only: Sequence[str] | None,
    progress: Progress | None,
) -> Result:
    """The same for callers that have no event loop; closes ``model``."""

    async def run() -> Result:
        try:
            return await consolidate(
                context, model=model, threshold=threshold, dry_run=dry_run,
                max_clusters=max_clusters, force=force, only=only, progress=progress,
            )  # fmt: skip
        finally:
            if model is not None:
                await model.close()

    return anyio.run(run)

"""Bank: the face of ReasonBank, which every surface calls. A sentence, a check, a call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from reasonbank import private
from reasonbank.arguments import (
    AnId,
    BatchId,
    Budget,
    Called,
    Comment,
    Days,
    DryRun,
    Everywhere,
    JobId,
    Like,
    Name,
    Newest,
    Query,
    Readable,
    Reason,
    Results,
    RevisionNumber,
    Session,
    Share,
    TaskAtHand,
    TraceId,
    Writable,
    checks_arguments,
)
from reasonbank.embed.port import Embedder
from reasonbank.fields import LIMITS, Id, Json, Many, OneOf, Text, Whole
from reasonbank.index.port import Index
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Ledger
from reasonbank.model import (
    Change,
    Evidence,
    ForReview,
    Gap,
    Genealogy,
    HandedIn,
    Hit,
    Job,
    JobState,
    Label,
    Link,
    LinkType,
    Memory,
    Principal,
    Reply,
    Revision,
    Right,
    Trace,
    View,
    Workspace,
)
from reasonbank.opening import capped, model_for, needed_model, open_store
from reasonbank.settings import Settings
from reasonbank.store import (
    audit,
    batches,
    evidence,
    given,
    links,
    maintenance,
    memories,
    queue,
    reviewing,
    traces,
    undo,
    workspaces,
)
from reasonbank.store.context import Context, Progress, Store, view_of
from reasonbank.store.given import GivenFilter, GivenMemory, GivenTrace

if TYPE_CHECKING:
    from reasonbank import answers
    from reasonbank.agent.thinking import OnProgress
    from reasonbank.agent.verify import Verifier
    from reasonbank.llm.port import Effort, Model


@checks_arguments
class Bank:
    """A bank, seen from one workspace. Safe to use from several threads.

    >>> with Bank.open() as bank:  # doctest: +SKIP
    ...     bank.record("Run the suite with -p no:randomly when a test is flaky")
    ...     hits = bank.search("flaky test", limit=5)
    ...     bank.outcome(hits[0].memory.id, succeeded=True)
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        read_only: bool = False,
        create: bool = True,
        surface: str = "library",
        principal: Principal | None = None,
        ledger: Ledger | None = None,
        embedder: Embedder | None = None,
        index: Index | None = None,
        clock: Callable[[], int] | None = None,
        model: Annotated[Model, Like("complete", "close")] | None = None,
        background: bool = False,
    ) -> Self:
        """Open, and make if need be, the bank at ``url`` (default: the user's own bank).

        ``workspace`` is a directory, by default the current one; what is stored belongs to its
        project, which is the repository it lies in or a workspace known above it. ``ledger``,
        ``embedder``, ``index`` and ``model`` take the place of those that url and settings
        name. ``clock`` gives microseconds since 1970. ``create=False`` raises ``NotFound`` where
        there is no bank yet. ``principal`` is who acts through it, by default an agent; what a
        person writes need not be confirmed (docs/concepts.md). With ``background`` a thread learns
        from what is queued until the bank is closed; see ``work``.
        """
        store = open_store(
            url, settings=settings, read_only=read_only, create=create, ledger=ledger,
            embedder=embedder, index=index, clock=clock, model=model,
        )  # fmt: skip
        here = workspaces.project_of(store.ledger.read(), workspace)
        user = os.environ.get("USER") or os.environ.get("USERNAME") or "local"
        author = store.settings.author or user
        bank = cls(Context(
            store=store, view=view_of(store, here.id), path=here.path, author=author,
            identity=private.account(), surface=surface, acts_as=principal,
        ))  # fmt: skip
        if background and not store.ledger.read_only:
            from reasonbank.jobs.background import Background

            worker = Background(bank.context, lambda: model_for(store))
            store.end_work = worker.stop
            worker.start()
        return bank

    def within(self, workspace: str | os.PathLike[str]) -> Bank:
        """The same bank seen from another workspace; neither affects the other."""
        there = workspaces.project_of(self.context.read(), workspace)
        return self.seen_by(workspace=there.id, path=there.path)

    def seen_by(
        self,
        *,
        workspace: str | None = None,
        path: str | None = None,
        author: str | None = None,
        surface: str | None = None,
        principal: Principal | None = None,
        right: Right | None = None,
    ) -> Bank:
        """The same bank for another caller: the id of a workspace, who writes, through what."""
        return Bank(self.context.seen_by(
            workspace=workspace, path=path, author=author, surface=surface, principal=principal,
            right=right,
        ))  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, *, embed: bool = True) -> None:
        """``embed=False`` leaves what has no vector yet to the next opener, and so is quick."""
        self.store.close(embed=embed)

    @property
    def store(self) -> Store:
        """What all that look at this bank share."""
        return self.context.store

    @property
    def view(self) -> View:
        return self.context.view

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def author(self) -> str:
        """Who signs what is written through this bank."""
        return self.context.author

    # Writing

    def record(self, memory: GivenMemory) -> Memory:
        """Store a lesson, or a sentence; it is on disk, and the next search sees it, at once."""
        return memories.record(self.context, given.memory(self.context, memory))

    def update(self, id: AnId, **changes: Any) -> Memory:
        """Change some fields; every earlier revision is kept (see ``history``, ``undo``)."""
        return memories.update(self.context, id, changes)

    def archive(self, id: AnId, *, reason: Reason = "by hand") -> Memory:
        """Take a memory out of normal search; nothing of it is lost."""
        return memories.archive(self.context, id, reason)

    def restore(self, id: AnId) -> Memory:
        """Bring an archived memory back."""
        return memories.restore(self.context, id)

    def undo(self, id: AnId, *, to: RevisionNumber | None = None) -> Memory:
        """Take back the last change of a memory, or return to revision ``to``.

        Of a memory that was made by a merge, with no change since, the merge is taken back.
        """
        return undo.undo(self.context, id, to)

    def undo_batch(self, id: BatchId) -> answers.Undone:
        """Take back all that one run did: a consolidation, or a promotion."""
        return undo.undo_batch(self.context, id)

    def forget(self, id: AnId) -> None:
        """Remove a memory's content for good, from every place where it was kept.

        A tombstone stays, so that no import and no peer brings it back. What a merge or a
        promotion made of it goes as well; the other sources of a merge are active again.
        """
        undo.forget(self.context, id)

    # Evidence

    def feedback(
        self,
        id: AnId,
        *,
        helpful: bool,
        comment: Comment | None = None,
        session: Session | None = None,
    ) -> Memory:
        """Rate a memory; rating it the same in one session again changes nothing."""
        return evidence.feedback(self.context, id, helpful, comment, session)

    def outcome(self, id: AnId, *, succeeded: bool, session: Session | None = None) -> Memory:
        """Say how the task went that used a memory; twice in one session counts once."""
        return evidence.outcome(self.context, id, succeeded, session)

    def stability(self, id: AnId, *, kept: bool, session: Session | None = None) -> Memory:
        """Say whether the code that a memory led to was kept for 7 days, or reverted."""
        return evidence.stability(self.context, id, kept, session)

    def credit(
        self,
        session: Session,
        *,
        succeeded: bool,
        must_be_known: Annotated[bool, "Refuse a task of which nothing is known here."] = False,
    ) -> int:
        """Credit or blame the memories that searches of this session returned; how many.

        Those that came first are credited most, and what ``outcome`` says of a single one
        stands. The task's outcome counts even if it was given no memory: the report compares
        the two. Reporting the same outcome twice changes nothing. With ``must_be_known``, a
        task that nobody searched, recorded or was taught in is not found.
        """
        return evidence.credit(self.context, session, succeeded, must_be_known=must_be_known)

    # Reading

    def get(self, id: AnId) -> Memory:
        """Show a memory."""
        return memories.get(self.context, id)

    def history(self, id: AnId) -> list[Revision]:
        """List how a memory stood after each change, oldest first, and who changed it."""
        return memories.history(self.context, id)

    def evidence(self, id: AnId) -> list[Evidence]:
        """List what a memory's confidence was made of in the last 30 days, newest first."""
        return evidence.of(self.context, id)

    def memories(
        self, filter: GivenFilter | None = None, *, limit: Annotated[int, Whole(1, 1_000_000)] = 50
    ) -> list[Memory]:
        """List the newest memories that pass the filter."""
        return memories.listed(self.context, given.filter(filter), limit)

    def search(
        self,
        query: Query,
        *,
        limit: Results | None = None,
        filter: GivenFilter | None = None,
        min_confidence: Share | None = None,
        max_tokens: Budget | None = None,
        session: TaskAtHand | None = None,
        explain: bool = False,
        follow_links: bool = False,
        include_weak: Annotated[bool, "Also what may be about something else."] = True,
        cost: Callable[[Hit], int] | None = None,
    ) -> Reply:
        """Find the memories that fit a question or a task best; nothing when none fits.

        What is near but not surely about it comes last, marked as ``weak``.
        ``session`` names the task at hand, so that its outcome can be credited to what
        was found. ``min_confidence`` defaults to the level under which memories are
        pruned. ``cost`` says how many tokens a hit takes where it is shown: ``max_tokens``
        and the answer's ``tokens_used`` count by it; else as text for a prompt.
        """
        from reasonbank.search.answer import search

        return search(
            self.context, query, limit=limit, filter=given.filter(filter), session=session,
            min_confidence=min_confidence, max_tokens=max_tokens, explain=explain,
            follow_links=follow_links, include_weak=include_weak, cost=cost,
        )  # fmt: skip

    def recommend(self, task: Query) -> answers.Recommendation:
        """Name the strategy that the evidence backs best for a task, and why."""
        from reasonbank.search.recommend import recommend

        return recommend(self.context, task)

    def gaps(self, *, limit: Annotated[int, Whole(1, 10_000)] = 20) -> list[Gap]:
        """What was asked here and is not known: questions that found nothing, and still do not.

        Weak matches are no answer: what found only those is listed as well.
        Those that mean the same are one gap; the one asked most often comes first.
        """
        from reasonbank.search.gaps import gaps

        return gaps(self.context, limit)

    def forget_gaps(self, question: Query | None = None) -> int:
        """Remove the gap that has this question, or all of this workspace; how many questions."""
        from reasonbank.search.gaps import forget

        return forget(self.context, question)

    def review(
        self,
        *,
        limit: Annotated[int, Whole(1, 10_000)] = 20,
        hand: Annotated[str, Text(200), "Only what is by this hand, as the list names it."]
        | None = None,
    ) -> list[ForReview]:
        """List what a person should look at, and why: what waits for one, what searches hide
        because of who wrote it, and what nothing has confirmed yet."""
        from reasonbank.search.review import review

        return review(self.context, limit, hand)

    def accept(
        self,
        ids: Annotated[tuple[str, ...], Many(Text(64), 1_000)] = (),
        *,
        batch: Annotated[BatchId, "All that this import brought."] | None = None,
        changes: Annotated[
            Mapping[str, Any], Json(LIMITS.nesting), "Fields to change first; of one memory."
        ]
        | None = None,
    ) -> list[Memory]:
        """Say, as a person, that memories may be used: they are confirmed from then on."""
        return reviewing.accept(self.context, ids, batch, changes)

    def reject(
        self,
        ids: Annotated[tuple[str, ...], Many(Text(64), 1_000)] = (),
        *,
        batch: Annotated[BatchId, "All that this import brought."] | None = None,
        reason: Reason = "rejected in review",
    ) -> list[Memory]:
        """Say, as a person, that memories must not be used: they go to the archive."""
        return reviewing.reject(self.context, ids, batch, reason)

    # Links and genealogy

    def link(
        self, source: AnId, target: AnId, *, type: LinkType | str, strength: Share = 1.0
    ) -> Link:
        """Link two memories."""
        return links.link(self.context, source, target, type, strength)

    def unlink(self, source: AnId, target: AnId, *, type: LinkType | str) -> None:
        """Remove a link between two memories."""
        links.unlink(self.context, source, target, type)

    def links(self, id: AnId) -> list[Link]:
        """List what a memory is linked to."""
        return links.of(self.context, id)

    def contradicting(self, id: AnId) -> list[Memory]:
        """List the active memories that say the opposite of this one."""
        return links.contradicting(self.context, id)

    def genealogy(self, id: AnId) -> Genealogy:
        """Show all ancestors and all descendants of a memory, nearest first."""
        return links.genealogy(self.context, id)

    # Traces

    def store_trace(self, trace: GivenTrace) -> Trace:
        """Store a task, the steps taken, the outcome, and the memories used and learned."""
        return traces.store(self.context, given.trace(trace))

    def trace(self, id: TraceId) -> Trace:
        """Show a trace with its steps."""
        return traces.get(self.context, id)

    def traces(self, *, limit: Newest = 50) -> list[Trace]:
        """List the newest traces of this workspace."""
        return traces.listed(self.context, limit)

    def purge_traces(self, *, older_than_days: Days) -> int:
        """Remove this workspace's old traces; memories learned from them stay."""
        return traces.purge(self.context, older_than_days)

    # Sessions to learn from

    def distil(self, session: GivenTrace) -> HandedIn:
        """Store a finished session and queue it to be learned from; no model is waited for.

        A session that has grown since is learned from again, its new part only; the same one
        twice is queued once. Whatever has the bank open for long does the learning: a server, a
        ``reasonbank worker``, a bank opened with ``background``; else call ``work``.
        """
        return queue.distil(self.context, given.trace(session))

    def work(self, *, everywhere: Everywhere = False) -> answers.Worked:
        """Do now what waits in this workspace, or ``everywhere``, and return when it is done.

        Learns from queued sessions, and consolidates, maintains and promotes what is due. What
        another process is just doing is left to it.
        """
        from reasonbank.jobs.service import work_now

        workspace = None if everywhere else self.view.workspace
        return work_now(self.context, model_for(self.store), workspace=workspace)

    def distil_prepare(self, session: GivenTrace | None = None) -> answers.Prepared:
        """For an agent that thinks itself: the prompt for a session, and a ticket.

        Without a session, the oldest of this workspace that waits.
        """
        from reasonbank.learn.tickets import prepare

        return prepare(self.context, None if session is None else given.trace(session))

    def distil_submit(
        self, ticket: Annotated[str, Text(200)], answer: Mapping[str, Any]
    ) -> answers.Submitted:
        """What the agent made of it; a bad answer is refused, a second one changes nothing."""
        from reasonbank.learn.tickets import submit

        return submit(self.context, ticket, answer)

    def capture(
        self,
        question: Query,
        answer: Annotated[str, Text(LIMITS.trace)],
        *,
        session: Session | None = None,
    ) -> answers.Captured:
        """Keep a question and its answer if they are worth it; twice gives one memory."""
        from reasonbank.learn.passive import capture

        return capture(self.context, question, answer, session=session)

    def inject(
        self,
        task: Query,
        *,
        max_tokens: Budget = 1000,
        limit: Results | None = None,
        session: Session | None = None,
    ) -> answers.Injection:
        """Print the memories for a task, or a branch of one, as text for its prompt.

        Only what is surely relevant, trusted enough and does not look like an instruction.
        """
        from reasonbank.search.inject import inject

        return inject(self.context, task, max_tokens=max_tokens, limit=limit, session=session)

    def jobs(self, *, state: JobState | str | None = None, limit: Newest = 50) -> list[Job]:
        """List this workspace's jobs, newest first."""
        return queue.listed(self.context, state, limit)

    def retry_job(self, id: JobId) -> Job:
        """Reset a dead job's attempts and requeue it."""
        return queue.retry(self.context, id)

    def drop_job(self, id: JobId) -> Job:
        """Remove a job; its session stays."""
        return queue.drop(self.context, id)

    # Workspaces

    def workspaces(self) -> list[Workspace]:
        """List the workspaces of the whole bank."""
        return workspaces.listed(self.context)

    def name_workspace(self, id: str, name: Label) -> Workspace:
        """Give a workspace a name; here and below, ``id`` may also be its name or its path."""
        return workspaces.name(self.context, id, self.context.fit_name(name, LIMITS.label))

    def move_workspace(self, id: str, path: str | os.PathLike[str]) -> Workspace:
        """The project's directory has moved: its memories are found from the new path."""
        return workspaces.move(self.context, id, path)

    def merge_workspace(self, id: str, into: str) -> Workspace:
        """Make one of two workspaces: all that is known in the first belongs to the second."""
        return workspaces.merge(self.context, id, into)

    def join_workspace(
        self, id: str | None = None, *, team: Label | None = None, org: Label | None = None
    ) -> Workspace:
        """Put a workspace, by default this one, into a team and an org: they share memories."""
        return workspaces.join(self.context, id, team=team, org=org)

    def delete_workspace(self, id: str, *, confirm: bool = False) -> int:
        """Remove a workspace with all that belongs to it; how many memories went."""
        return workspaces.delete(self.context, id, confirm=confirm)

    # Many memories to one

    def consolidate(
        self,
        *,
        threshold: Share | None = None,
        dry_run: DryRun = False,
        max_clusters: Annotated[int, Whole(0, 1_000_000), "0 means no limit."] = 0,
        force: Annotated[bool, "Also within 24 hours of the last run."] = False,
        only: Annotated[tuple[str, ...], Many(Id(), 1000), "Clusters that a dry run named."]
        | None = None,
        progress: Progress | None = None,
    ) -> answers.Result:
        """Merge what says the same in this workspace, unless that was done within the window.

        Without a ``threshold`` the calibrated one of the embedding model counts. 0
        ``max_clusters`` is no limit. The model that the settings name writes what is merged;
        without one, rules do.
        """
        from reasonbank.tidy.consolidate import consolidate_now

        wanted = self.settings.learn.reasoner in ("auto", "model")
        model = model_for(self.store) if wanted else None
        return consolidate_now(
            self.context, model and capped(self.context, model), threshold=threshold,
            dry_run=dry_run, max_clusters=max_clusters, force=force, only=only,
            progress=progress,
        )  # fmt: skip

    def promote(
        self,
        *,
        dry_run: DryRun = False,
        accept: Annotated[
            tuple[str, ...], Many(Id(), 1_000), "Memories to share on your word, and no others."
        ] = (),
        reject: Annotated[
            tuple[str, ...], Many(Id(), 1_000), "Memories that are not to be shared, ever."
        ] = (),
    ) -> answers.Promotion:
        """Share with the team what proved itself here and is known in another project.

        Two who do not act for each other must stand for it, or a person who accepts it.
        """
        from reasonbank.tidy.promote import promote

        return promote(self.context, dry_run=dry_run, accept=accept, reject=reject)

    def batches(self, *, limit: Newest = 50) -> list[answers.Batch]:
        """List what was merged or shared in one go, newest first; `undo` takes one back."""
        return batches.listed(self.context, limit=limit)

    def revert(
        self,
        *,
        author: Annotated[Name, "What they wrote: a name of the log, or agent:alice, person:alice."]
        | None = None,
        session: Annotated[Name, "What came of this session."] | None = None,
        batch: Annotated[BatchId, "What this import brought."] | None = None,
        since: Annotated[str, Text(64), "Not before this time, or this long ago: 2h, 3d."]
        | None = None,
        everywhere: Everywhere = False,
        dry_run: DryRun = False,
    ) -> answers.Reverted:
        """Take back what somebody wrote, and all that was made from it, in one go.

        What is given must all hold. Memories that they recorded go to the archive, what they
        changed is as before, and what they observed counts no longer; what was merged, promoted
        or learned from it goes too, and its other sources come back. `undo` takes the revert back.
        """
        from reasonbank.store.revert import revert

        return revert(
            self.context, author=author, session=session, batch=batch, since=since,
            everywhere=everywhere, dry_run=dry_run,
        )  # fmt: skip

    def verify(self, progress: Progress | None = None) -> answers.Verified:
        """Verify that the log is what was written, and every table what the log tells.

        The log is a chain: what was changed, removed or added behind the program's back breaks
        it. What was forgotten does not. Nothing is repaired.
        """
        from reasonbank.integrity import verify

        self.store.try_to_flush()
        return verify(self.context, progress or (lambda done, total: None))

    # Thinking

    async def solve(
        self,
        task: str,
        *,
        model: Annotated[Model, Like("complete", "close")] | None = None,
        mode: str | None = None,
        k: int | None = None,
        iterations: int | None = None,
        verify: Annotated[str | Verifier, Like("verify", text=True)] | None = None,
        ask_model: bool = True,
        use_memory: bool = True,
        store: bool = True,
        budget: int | None = None,
        effort: Annotated[Effort, OneOf("low", "medium", "high")] | None = None,
        difficulty: str | None = None,
        parent: str | None = None,
        on_progress: Annotated[OnProgress, Called()] | None = None,
    ) -> answers.Solution:
        """Think, evaluate and refine until a solution is good enough, and learn from it.

        ``model`` is by default the one that the settings name. ``verify`` is the name of a
        verifier that the operator allows, or one of your own; with ``ask_model=False`` it alone
        evaluates. ``budget`` is in tokens, for all that this task asks of the model; 0 is no
        limit. ``difficulty`` (simple, moderate, complex) is for the adaptive mode.
        ``BudgetExhausted`` carries the best ``Solution`` so far, if there is one.
        """
        from reasonbank.agent.solve import solve

        thinker = model or needed_model(self.store)
        try:
            return await solve(
                self.context, task, model=capped(self.context, thinker), mode=mode, k=k,
                iterations=iterations, verify=verify, ask_model=ask_model,
                use_memory=use_memory, store=store, budget=budget, effort=effort,
                difficulty=difficulty, parent=parent, on_progress=on_progress,
            )  # fmt: skip
        finally:
            if model is None:
                await thinker.close()

    # Care

    def health(self) -> answers.Health:
        """Examine the store, the models, the queue and the disk; each problem names its repair."""
        from reasonbank.health import report

        self.store.try_to_flush()
        return report(self.context)

    def report(self) -> answers.Report:
        """Show what memory is worth, whether forecasts can be believed, and repeated mistakes."""
        from reasonbank.proof.report import report

        return report(self.context)

    def maintain(self) -> answers.Maintained:
        """Roll old evidence up, archive what proved useless, purge old traces.

        Running it again on the same day changes nothing.
        """
        return maintenance.maintain(self.context)

    def embed_new(self, progress: Progress | None = None) -> int:
        """Embed now what was just recorded or imported, rather than in the background."""
        return maintenance.embed_new(self.context, progress)

    def reindex(self, progress: Progress | None = None) -> answers.Reindexed:
        """Give every memory a vector of the active model; can be stopped and resumed."""
        return maintenance.reindex(self.context, progress)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Rebuild every table from the log."""
        maintenance.rebuild(self.context, progress)

    def export(
        self, file: Writable, progress: Progress | None = None, *, format: str = "jsonl",
        only_here: bool = False,
    ) -> int:  # fmt: skip
        """Write the bank, or only this workspace, as JSON lines or Markdown."""
        from reasonbank.store import transfer

        self.store.try_to_flush()
        progress = progress or (lambda done, total: None)
        return transfer.export(self.context, file, format, only_here, progress)

    def backup(
        self, file: str | os.PathLike[str], progress: Progress | None = None, *,
        overwrite: bool = False,
    ) -> answers.BackedUp:  # fmt: skip
        """Write the whole bank to a file, as it is at this moment, while others use it.

        `reasonbank restore` makes a bank of it. ``overwrite``: in the place of an earlier backup.
        """
        from pathlib import Path

        from reasonbank import moves

        self.store.try_to_flush()
        return moves.back_up(
            self.store.ledger, Path(file), self.store.settings, moves.told(progress),
            overwrite=overwrite,
        )  # fmt: skip

    def import_(
        self, file: Readable, progress: Progress | None = None, *, trusted: bool = False
    ) -> answers.Imported:
        """Read what ``export`` wrote, all of it or nothing; a second time changes nothing.

        Of another bank's export, only what its memories say is recorded, in your name;
        ``trusted`` takes all of it, deletions and evidence included.
        """
        from reasonbank.store import transfer

        progress = progress or (lambda done, total: None)
        return transfer.import_(self.context, file, progress, trusted=trusted)

    def statistics(self, *, everywhere: Everywhere = False) -> answers.Statistics:
        """What is in the bank, seen from this workspace or ``everywhere``, and how it is used.

        Searches, latencies, the cache and models are counted for the whole bank, by all
        processes, ``since`` the last reset; ``process`` is what this one saw. What is not
        known is null.
        """
        from reasonbank.store.statistics import statistics

        self.store.try_to_flush()
        return statistics(self.context, everywhere=everywhere)

    def reset_statistics(self) -> None:
        """Reset the counts of searches, latencies, the cache and models; memories stay."""
        self.store.reset_meters(lambda txn: self.context.note(txn, EventType.RESET))

    def audit(
        self,
        *,
        limit: Newest = 100,
        before: Annotated[int, Whole(0), "Continue at this `seq`."] | None = None,
        author: Name | None = None,
        surface: Name | None = None,
        memory: AnId | None = None,
        uses: Annotated[bool, "Also what searches returned."] = False,
        everywhere: Everywhere = False,
    ) -> list[Change]:
        """Who changed what, when and through which surface, newest first.

        What is forgotten keeps its entries. ``before`` continues where a list ended, at its
        last ``seq``. ``uses`` adds what searches returned, which is nobody's change.
        """
        self.store.try_to_flush()
        return audit.changes(
            self.context, limit=limit, before=before, author=author, surface=surface,
            memory=memory, uses=uses, everywhere=everywhere,
        )  # fmt: skip

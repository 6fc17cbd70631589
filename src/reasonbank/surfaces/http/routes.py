"""The JSON API as one table: method, path, what it takes, does with a bank, and answers.

The routes of the server, its OpenAPI document and the reference page are made from it.
Docstrings here are what the document says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar, get_type_hints

from reasonbank.access import Caller, Tokens
from reasonbank.bank import Bank
from reasonbank.errors import ConfirmationNeeded, NotFound
from reasonbank.fields import moment
from reasonbank.ledger.port import Filter
from reasonbank.model import JSON, Memory, Right, Trace, Workspace, to_micros
from reasonbank.store.context import Progress
from reasonbank.surfaces import shapes

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One call: who makes it, and which workspace it is about."""

    root: Bank
    caller: Caller
    workspace: str | None
    tokens: Tokens
    progress: Progress
    """Raises when the server is about to stop, which ends what can be resumed."""

    @property
    def bank(self) -> Bank:
        return self.caller.bank(self.root, self.workspace, surface="http")

    @property
    def whole(self) -> Bank:
        """For what concerns all workspaces at once."""
        self.caller.must(Right.ADMIN)
        self.caller.must_reach_all()
        return self.bank


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """``takes`` is the type of the body, or of the query for GET and DELETE."""

    method: str
    path: str
    function: Callable[..., Any]
    right: Right
    takes: Any = None
    answers: Any = None
    status: int = 200
    alone: bool = False
    """Long work: one such call at a time, so that quick ones keep their threads."""
    tags: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.function.__name__.rstrip("_")

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def in_query(self) -> bool:
        return self.method in ("GET", "DELETE")

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


ROUTES: list[Route] = []


def _route(
    method: str,
    path: str,
    right: Right,
    *,
    answers: Any = None,
    status: int = 200,
    alone: bool = False,
) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        ROUTES.append(
            Route(
                method=method,
                path=path,
                function=function,
                right=right,
                takes=get_type_hints(function, include_extras=True).get("given"),
                answers=answers,
                status=status,
                alone=alone,
                tags=(path.split("/")[1],),
            )
        )
        return function

    return decorate


READ, WRITE, ADMIN = Right


# Memories


@_route("POST", "/search", READ, answers=shapes.Answer)
def search(visit: Visit, given: shapes.Question) -> object:
    """Find the memories that fit a question or a task best.

    Nothing is returned when nothing fits well enough. That a memory was found is counted.
    """
    options: Any = dict(given)
    filter = _filter(options)
    return visit.bank.search(options.pop("query"), filter=filter, **options)


@_route("POST", "/recommend", READ, answers=shapes.Recommendation)
def recommend(visit: Visit, given: shapes.Task) -> object:
    """Name the strategy that the evidence backs best for a task, and why."""
    return visit.bank.recommend(given["task"])


@_route("GET", "/gaps", READ, answers=list[shapes.FoundGap])
def gaps(visit: Visit, given: shapes.Newest) -> object:
    """List what was asked here and is not known, the most asked first."""
    return visit.bank.gaps(**given)


@_route("DELETE", "/gaps", ADMIN, answers=shapes.ForgottenGaps)
def forget_gaps(visit: Visit, given: shapes.GapOf) -> object:
    """Remove the questions of one gap, or all that found nothing here."""
    return {"forgotten": visit.bank.forget_gaps(**given)}


@_route("POST", "/memories", WRITE, status=201, answers=shapes.StoredMemory)
def record(visit: Visit, given: shapes.Lesson) -> object:
    """Store a lesson; it is on disk, and the next search sees it, when this returns."""
    return visit.bank.record(Memory.from_json(dict(given)))


@_route("GET", "/memories", READ, answers=list[shapes.StoredMemory])
def memories(visit: Visit, given: shapes.Listing) -> object:
    """List the newest memories that pass the filter."""
    options: Any = dict(given)
    filter = _filter(options)
    return visit.bank.memories(filter, **options)


@_route("GET", "/memories/{id}", READ, answers=shapes.StoredMemory)
def get(visit: Visit, id: str) -> object:
    """Show a memory."""
    return visit.bank.get(id)


@_route("PATCH", "/memories/{id}", WRITE, answers=shapes.StoredMemory)
def update(visit: Visit, id: str, given: shapes.Correction) -> object:
    """Change some fields; every earlier revision is kept. A null clears a field."""
    return visit.bank.update(id, **given)


@_route("DELETE", "/memories/{id}", ADMIN, answers=shapes.Forgotten)
def forget(visit: Visit, id: str, given: shapes.Confirmed) -> object:
    """Remove a memory's content for good. A tombstone stays, so that nothing brings it back."""
    bank = visit.bank
    memory = bank.get(id)
    if not given.get("confirm"):
        raise ConfirmationNeeded(
            f"this removes memory {memory.id} for good, which nobody has confirmed; call again "
            "with confirm=true, or archive it"
        )
    bank.forget(memory.id)
    return {"id": memory.id, "message": "Memory forgotten"}


@_route("POST", "/memories/{id}/feedback", WRITE, answers=shapes.StoredMemory)
def feedback(visit: Visit, id: str, given: shapes.Rating) -> object:
    """Rate a memory; rating it the same in one session again changes nothing."""
    return visit.bank.feedback(id, **given)


@_route("POST", "/memories/{id}/outcome", WRITE, answers=shapes.StoredMemory)
def outcome(visit: Visit, id: str, given: shapes.TaskOutcome) -> object:
    """Say how the task went that used a memory; twice in one session counts once."""
    return visit.bank.outcome(id, **given)


@_route("POST", "/memories/{id}/stability", WRITE, answers=shapes.StoredMemory)
def stability(visit: Visit, id: str, given: shapes.CodeStability) -> object:
    """Say whether the code that a memory led to was kept for 7 days, or reverted."""
    return visit.bank.stability(id, **given)


@_route("POST", "/memories/{id}/archive", WRITE, answers=shapes.StoredMemory)
def archive(visit: Visit, id: str, given: shapes.Reason) -> object:
    """Take a memory out of normal search; nothing of it is lost."""
    return visit.bank.archive(id, **given)


@_route("POST", "/memories/{id}/restore", WRITE, answers=shapes.StoredMemory)
def restore(visit: Visit, id: str, given: shapes.Nothing) -> object:
    """Bring an archived memory back."""
    return visit.bank.restore(id)


@_route("POST", "/memories/{id}/undo", WRITE, answers=shapes.StoredMemory)
def undo(visit: Visit, id: str, given: shapes.Target) -> object:
    """Take back the last change of a memory, or return to a revision."""
    return visit.bank.undo(id, **given)


@_route("GET", "/memories/{id}/history", READ, answers=list[shapes.StoredRevision])
def history(visit: Visit, id: str) -> object:
    """List how a memory stood after each change, oldest first, and who changed it."""
    return visit.bank.history(id)


@_route("GET", "/memories/{id}/evidence", READ, answers=list[shapes.StoredEvidence])
def evidence(visit: Visit, id: str) -> object:
    """List what a memory's confidence was made of in the last 30 days, newest first."""
    return visit.bank.evidence(id)


@_route("GET", "/memories/{id}/links", READ, answers=list[shapes.StoredLink])
def links(visit: Visit, id: str) -> object:
    """List what a memory is linked to."""
    return visit.bank.links(id)


@_route("GET", "/memories/{id}/genealogy", READ, answers=shapes.Genealogy)
def genealogy(visit: Visit, id: str) -> object:
    """Show all ancestors and all descendants of a memory, nearest first."""
    return visit.bank.genealogy(id)


@_route("POST", "/links", WRITE, status=201, answers=shapes.StoredLink)
def link(visit: Visit, given: shapes.Linking) -> object:
    """Link two memories."""
    return visit.bank.link(**given)


@_route("DELETE", "/links", WRITE, answers=shapes.Unlinked)
def unlink(visit: Visit, given: shapes.Unlinking) -> object:
    """Remove a link between two memories."""
    visit.bank.unlink(**given)
    return {**given, "message": "Removed"}


@_route("POST", "/sessions/{session}/outcome", WRITE, answers=shapes.Credited)
def credit(visit: Visit, session: str, given: shapes.SessionOutcome) -> object:
    """Credit or blame the memories that searches of this session returned, the first most."""
    return {"credited": visit.bank.credit(session, succeeded=given["succeeded"])}


@_route("GET", "/memories/{id}/contradicting", READ, answers=list[shapes.StoredMemory])
def contradicting(visit: Visit, id: str) -> object:
    """List the active memories that say the opposite of this one."""
    return visit.bank.contradicting(id)


# Traces


@_route("POST", "/traces", WRITE, status=201, answers=shapes.StoredTrace)
def store_trace(visit: Visit, given: shapes.GivenTrace) -> object:
    """Store a task, the steps taken, the outcome, and the memories used and learned."""
    return visit.bank.store_trace(Trace.from_json(dict(given)))


@_route("GET", "/traces", READ, answers=list[shapes.StoredTrace])
def traces(visit: Visit, given: shapes.Newest) -> object:
    """List the newest traces of this workspace."""
    return visit.bank.traces(**given)


@_route("DELETE", "/traces", ADMIN, answers=shapes.Purged)
def purge_traces(visit: Visit, given: shapes.Age) -> object:
    """Remove this workspace's old traces; memories learned from them stay."""
    return {"purged": visit.bank.purge_traces(**given)}


@_route("GET", "/traces/{id}", READ, answers=shapes.StoredTrace)
def trace(visit: Visit, id: str) -> object:
    """Show a trace with its steps."""
    return visit.bank.trace(id)


# Sessions to learn from


@_route("POST", "/sessions", WRITE, status=202, answers=shapes.StoredJob)
def distil(visit: Visit, given: shapes.GivenTrace) -> object:
    """Store a finished session and queue it to be learned from; no model is waited for."""
    return visit.bank.distil(Trace.from_json(dict(given)))


@_route("POST", "/sessions/prepare", WRITE, answers=shapes.Prepared)
def distil_prepare(visit: Visit, given: shapes.GivenSession) -> object:
    """Hand out the prompt for a session and a ticket, to a caller that thinks itself."""
    session = given.get("session")
    return visit.bank.distil_prepare(None if session is None else Trace.from_json(dict(session)))


@_route("POST", "/sessions/submit", WRITE, answers=shapes.Submitted)
def distil_submit(visit: Visit, given: shapes.GivenAnswer) -> object:
    """Take the answer for a ticket: validated, stored once."""
    return visit.bank.distil_submit(given["ticket"], given["answer"])


@_route("POST", "/capture", WRITE, answers=shapes.Captured)
def capture(visit: Visit, given: shapes.Exchange) -> object:
    """Keep a question and its answer, if they are worth it."""
    return visit.bank.capture(**given)


@_route("POST", "/inject", READ, answers=shapes.Injected)
def inject(visit: Visit, given: shapes.Injecting) -> object:
    """The memories for a task as text for its prompt, within a budget of tokens."""
    return visit.bank.inject(**given)


@_route("GET", "/jobs", READ, answers=list[shapes.StoredJob])
def jobs(visit: Visit, given: shapes.Waiting) -> object:
    """List this workspace's jobs, newest first."""
    return visit.bank.jobs(**given)


@_route("POST", "/jobs/{id}/retry", WRITE, answers=shapes.StoredJob)
def retry_job(visit: Visit, id: str, given: shapes.Nothing) -> object:
    """Give a job that failed for good its attempts anew."""
    return visit.bank.retry_job(id)


@_route("DELETE", "/jobs/{id}", WRITE, answers=shapes.StoredJob)
def drop_job(visit: Visit, id: str) -> object:
    """Remove a job; its session stays."""
    return visit.bank.drop_job(id)


# Workspaces


@_route("GET", "/workspaces", READ, answers=list[shapes.Place])
def workspaces(visit: Visit) -> object:
    """List the workspaces that you reach. A token that reaches all needs admin for this."""
    if visit.caller.workspaces is None:
        visit.caller.must(ADMIN)
    return _reached(visit)


@_route("POST", "/workspaces/{id}/name", ADMIN, answers=shapes.Place)
def name_workspace(visit: Visit, id: str, given: shapes.Name) -> object:
    """Give a workspace a name."""
    return _own(visit).name_workspace(_place(visit, id).id, given["name"])


@_route("POST", "/workspaces/{id}/move", ADMIN, answers=shapes.Place)
def move_workspace(visit: Visit, id: str, given: shapes.Path) -> object:
    """Say that a project's directory has moved: its memories are found from the new path."""
    return visit.whole.move_workspace(_place(visit, id).id, given["path"])


@_route("DELETE", "/workspaces/{id}", ADMIN, answers=shapes.DeletedWorkspace)
def delete_workspace(visit: Visit, id: str, given: shapes.Confirmed) -> object:
    """Remove a workspace with all that belongs to it."""
    place = _place(visit, id)
    try:
        gone = _own(visit).delete_workspace(place.id, confirm=given.get("confirm", False))
    except ConfirmationNeeded as warning:
        raise ConfirmationNeeded(f"{warning}; call again with confirm=true") from None
    return {"id": place.id, "memories": gone, "message": "Workspace deleted"}


# The bank


@_route("GET", "/statistics", READ, answers=shapes.Statistics)
def statistics(visit: Visit, given: shapes.Extent) -> object:
    """Show what is in the bank, seen from one workspace or everywhere."""
    everywhere = given.get("everywhere", False)
    bank = visit.whole if everywhere else visit.bank
    return bank.statistics(everywhere=everywhere)


@_route("DELETE", "/statistics", ADMIN, answers=shapes.Reset)
def reset_statistics(visit: Visit, given: shapes.Nothing) -> object:
    """Begin to count searches, latencies and the cache anew; the bank's content stays."""
    visit.whole.reset_statistics()
    return {"message": "Statistics reset"}


@_route("GET", "/health", READ, answers=shapes.Health)
def health(visit: Visit) -> object:
    """Examine the store, the embedding model and the disk; each problem names its repair."""
    return visit.bank.health()


@_route("GET", "/report", READ, alone=True, answers=shapes.LearningReport)
def learning_report(visit: Visit) -> object:
    """Show what memory is worth, whether forecasts can be believed, and repeated mistakes.

    What memory is worth can be told once tasks are held out (setting `proof.hold_out`).
    """
    return visit.bank.report()


@_route("GET", "/audit", READ, answers=list[shapes.AuditEntry])
def audit(visit: Visit, given: shapes.AuditQuery) -> object:
    """Who changed what, when and through which surface, newest first; never the text."""
    everywhere = given.get("everywhere", False)
    return (visit.whole if everywhere else visit.bank).audit(**given)


@_route("POST", "/consolidate", WRITE, alone=True, answers=shapes.Consolidated)
def consolidate(visit: Visit, given: shapes.Consolidating) -> object:
    """Merge memories of this workspace that say the same; link those that disagree."""
    return visit.bank.consolidate(
        dry_run=given.get("dry_run", False),
        force=given.get("force", False),
        max_clusters=given.get("max_clusters", 0),
        threshold=given.get("threshold"),
        progress=visit.progress,
    )


@_route("POST", "/promote", ADMIN, alone=True, answers=dict[str, Any])
def promote(visit: Visit, given: shapes.Trying) -> object:
    """Share with the team what proved itself here and is known in another project."""
    # It names memories of the other projects that agree.
    return visit.whole.promote(dry_run=given.get("dry_run", False))


@_route("GET", "/batches", READ, answers=list[dict[str, Any]])
def batches(visit: Visit, given: shapes.Newest) -> object:
    """List what was merged or shared in one go."""
    return visit.bank.batches(**given)


@_route("POST", "/batches/{id}/undo", WRITE, answers=dict[str, Any])
def undo_batch(visit: Visit, id: str, given: shapes.Nothing) -> object:
    """Take back all that one run did: a consolidation, or a promotion."""
    return visit.bank.undo_batch(id)


@_route("POST", "/maintain", ADMIN, alone=True, answers=shapes.Maintained)
def maintain(visit: Visit, given: shapes.Nothing) -> object:
    """Roll old evidence up, archive what proved useless, purge old traces."""
    visit.caller.must_reach_all()
    return visit.bank.maintain()


@_route("POST", "/embed", ADMIN, alone=True, answers=shapes.Embedded)
def embed_new(visit: Visit, given: shapes.Nothing) -> object:
    """Embed now what was just recorded or imported, rather than in the background."""
    return {"embedded": visit.whole.embed_new(visit.progress)}


@_route("POST", "/reindex", ADMIN, alone=True, answers=shapes.Reindexed)
def reindex(visit: Visit, given: shapes.Nothing) -> object:
    """Give every memory a vector of the active model; it goes on if the caller hangs up."""
    return visit.whole.reindex(visit.progress)


@_route("POST", "/rebuild", ADMIN, alone=True, answers=shapes.Rebuilt)
def rebuild(visit: Visit, given: shapes.Nothing) -> object:
    """Make every table anew from the log."""
    visit.whole.rebuild()
    return {"message": "Rebuilt"}


@_route("GET", "/export", READ, alone=True)
def export(visit: Visit, file: IO[str], given: shapes.Portion) -> None:
    """Export one workspace, or the whole bank, as JSON lines or Markdown."""
    only_here = given.get("only_here", False)
    bank = visit.bank if only_here else visit.whole
    bank.export(file, format=given.get("format", "jsonl"), only_here=only_here)


@_route("POST", "/import", ADMIN, alone=True, answers=shapes.Imported)
def import_(visit: Visit, file: IO[str]) -> object:
    """Read what an export wrote, or memories as JSON lines: all of it or nothing."""
    visit.caller.must_reach_all()
    return visit.bank.import_(file, visit.progress)


# Tokens


@_route("POST", "/tokens", ADMIN, status=201, answers=shapes.NewToken)
def create_token(visit: Visit, given: shapes.GivenToken) -> object:
    """Make a bearer token. Its secret is in this answer, and nowhere afterwards."""
    token, secret = visit.tokens.create(**given, by=visit.whole)
    return visit.tokens.told(token) | {"token": secret}


@_route("GET", "/tokens", ADMIN, answers=list[shapes.StoredToken])
def tokens(visit: Visit) -> object:
    """List all tokens that were ever made, without their secrets."""
    visit.caller.must_reach_all()
    return visit.tokens.list()


@_route("DELETE", "/tokens/{id}", ADMIN, answers=shapes.StoredToken)
def revoke_token(visit: Visit, id: str) -> object:
    """Revoke a token; it opens nothing from now on."""
    return visit.tokens.revoke(id, by=visit.whole)


def _filter(options: JSON) -> Filter:
    """Takes the filter's fields out of ``options``."""
    chosen: Any = {name: options.pop(name) for name in _SIEVE if name in options}
    for name in ("created_after", "created_before"):
        if name in chosen:
            chosen[name] = to_micros(moment(chosen[name], name))
    tuples: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in chosen.items()}
    return Filter(**tuples)


_SIEVE = tuple(shapes.Sieve.__annotations__)


def _reached(visit: Visit) -> list[Workspace]:
    return [place for place in visit.root.workspaces() if visit.caller.reaches(place.id)]


def _own(visit: Visit) -> Bank:
    return visit.root.seen_by(author=visit.caller.name, surface="http")


def _place(visit: Visit, id: str) -> Workspace:
    """What is out of reach is as unknown as what does not exist."""
    for place in _reached(visit):
        if id in (place.id, place.name):
            return place
    raise NotFound(f"there is no workspace {id[:80]!r} that you reach; GET /workspaces lists them")


def by_path() -> Mapping[str, Mapping[str, Route]]:
    """The table by path, then by method."""
    found: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        found.setdefault(route.path, {})[route.method] = route
    return found

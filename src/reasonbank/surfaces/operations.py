"""Every operation once: what does it, who may, where it is in HTTP, what it is in a shell.

The routes of the server, its OpenAPI document, the plain commands, the reference page and the
test that all doors agree are made from this table. What an operation takes is the signature of
its function, with the rules that stand there; what it answers is the type that it returns.
Docstrings are what the document and ``--help`` say. MCP tools have words of their own, for models.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from reasonbank.access import NewToken, Permission, StoredToken
from reasonbank.arguments import AnId, Session
from reasonbank.bank import Bank
from reasonbank.errors import ConfirmationNeeded
from reasonbank.fields import LIMITS, Many, Text, Whole
from reasonbank.model import JSON, HandedIn, Label, LinkType, Memory, Right, Trace, Workspace
from reasonbank.store import evidence, given
from reasonbank.store.given import GivenTrace, missing
from reasonbank.store.maintenance import Maintained
from reasonbank.surfaces import activity, peers, views
from reasonbank.surfaces.call import Call

if TYPE_CHECKING:
    from reasonbank.agent.solution import Solution
    from reasonbank.store.transfer import Imported

READ, WRITE, ADMIN = Right
PAGE = 1000
"""The most entries of a list that one request over HTTP gets."""

Confirm = Annotated[bool, "Must be true: this cannot be undone."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """``run`` is a method of Bank, or a function whose first parameter is the ``call``."""

    run: Callable[..., Any]
    right: Right
    http: str
    command: str | None = None
    """Its words in a shell, where a plain command will do."""
    says: str = ""
    """How a shell tells the answer: a format, or the name of a table in ``show.tables``."""
    tool: str | None = None
    """Its name for agents, where its own sentences will do; tools with words for models are
    functions of ``surfaces/mcp``."""
    body: type[Memory] | type[Trace] | None = None
    """The parameter that the whole body is, if it is one."""
    key: str | None = None
    """A bare answer has this name in JSON."""
    message: str | None = None
    """What is answered where there is nothing to say."""
    status: int = 200
    alone: bool = False
    """Long work: one such call at a time, so that quick ones keep their threads."""
    waits: bool = False
    """Whether one such call waits for the other: people look at it, and from several pages."""
    whole: bool = False
    """It concerns all workspaces at once."""
    nullable: bool = False
    """Whether null stands for what is left out."""
    most: Mapping[str, int] = field(default_factory=lambda: {"limit": PAGE}, hash=False)
    """Over HTTP a number may be smaller than in the library, which has no other callers."""

    @property
    def name(self) -> str:
        return self.run.__name__.strip("_")

    @property
    def method(self) -> str:
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.http.partition(" ")[2]

    @property
    def in_path(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def in_query(self) -> bool:
        return self.method in ("GET", "DELETE") or "file" in self.signature.parameters

    @property
    def of_call(self) -> bool:
        return next(iter(self.signature.parameters)) == "call"

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.run)

    @property
    def description(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]

    def perform(self, call: Call, arguments: Mapping[str, Any]) -> Any:
        """Run it for this caller; what it answers, ready to be written as JSON."""
        options = dict(arguments)
        if "progress" in self.signature.parameters:
            options["progress"] = call.progress
        if self.of_call:
            result = self.run(call, **options)
        else:
            everywhere = self.whole or options.get("everywhere", False)
            result = self.run(call.whole if everywhere else call.bank, **options)
        if self.message is not None:
            return {"message": self.message}
        return result if self.key is None else {self.key: result}


def op(run: Callable[..., Any], right: Right, http: str, **more: Any) -> Operation:
    return Operation(run=run, right=right, http=http, **more)


# What needs more than a method of Bank


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    id: str
    message: str = "Memory forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlinked:
    source: str
    target: str
    type: LinkType
    message: str = "Removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedWorkspace:
    id: str
    memories: int
    message: str = "Workspace deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The memory, and which of its fields were left out and so taken from its content."""

    memory: Memory
    derived: tuple[str, ...]

    def to_json(self) -> JSON:
        return self.memory.to_json() | ({"derived": list(self.derived)} if self.derived else {})


def record(call: Call, memory: Mapping[str, Any]) -> Recorded:
    """Store a lesson; it is on disk, and the next search sees it, when this returns.

    Its content will do: what else is left out is taken from it, and named as derived.
    """
    return Recorded(memory=call.bank.record(memory), derived=tuple(missing(memory)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """``held_out``: the task was given no memory on purpose, to measure what memory is worth."""

    credited: int
    held_out: bool


def credit(
    call: Call,
    session: Session,
    *,
    succeeded: bool,
    must_be_known: Annotated[bool, "Refuse a task of which nothing is known here."] = False,
) -> Credited:
    """Report how a task went: the memories that its searches returned are credited or blamed.

    Those that came first are credited most, and what is said of a single memory stands. The
    outcome counts even if the task was given no memory: the report compares the two. Reporting
    the same outcome twice changes nothing.
    """
    count = call.bank.credit(session, succeeded=succeeded, must_be_known=must_be_known)
    return Credited(credited=count, held_out=evidence.held_out(call.bank.context, session))


def forget(call: Call, id: AnId, *, confirm: Confirm = False) -> Forgotten:
    """Remove a memory's content for good. A tombstone stays, so that nothing brings it back."""
    memory = call.bank.get(id)
    if not confirm:
        raise ConfirmationNeeded(
            f"this removes memory {memory.id} for good, which nobody has confirmed; call again "
            "with confirm=true, or archive it"
        )
    call.bank.forget(memory.id)
    return Forgotten(id=memory.id)


def distil(call: Call, session: GivenTrace) -> HandedIn:
    """Store a finished session and queue it to be learned from; no model is waited for.

    It belongs to the project that is asked for, else to the one that it worked in (`directory` in
    its `metadata`) if the caller reaches that, else to the caller's own. A session that has grown
    since is learned from again, its new part only.
    """
    trace = given.trace(session)
    return call.project_of(trace).distil(trace)


def unlink(call: Call, source: AnId, target: AnId, *, type: LinkType) -> Unlinked:
    """Remove a link between two memories."""
    bank = call.bank
    source, target = (bank.context.whole_id("memory", id) for id in (source, target))
    bank.unlink(source, target, type=type)
    return Unlinked(source=source, target=target, type=type)


def workspaces(call: Call) -> list[Workspace]:
    """List the workspaces that you reach. A token that reaches all needs admin for this."""
    if call.caller.workspaces is None:
        call.caller.must(ADMIN)
    return call.workspaces()


def name_workspace(call: Call, id: str, *, name: Label) -> Workspace:
    """Give a workspace a name."""
    return call.own.name_workspace(call.place(id).id, name)


def move_workspace(
    call: Call, id: str, *, path: Annotated[str, Text(4096), "An absolute path."]
) -> Workspace:
    """Say that a project's directory has moved: its memories are found from the new path."""
    return call.whole.move_workspace(call.place(id).id, path)


def merge_workspace(
    call: Call, id: str, *, into: Annotated[str, Text(4096), "Its id, name or full path."]
) -> Workspace:
    """Make one of two workspaces: all that is known in the first belongs to the second."""
    return call.whole.merge_workspace(call.place(id).id, call.place(into).id)


def join_workspace(
    call: Call, id: str, *, team: Label | None = None, org: Label | None = None
) -> Workspace:
    """Put a workspace into a team and an org: they share memories."""
    return call.whole.join_workspace(call.place(id).id, team=team, org=org)


def delete_workspace(call: Call, id: str, *, confirm: Confirm = False) -> DeletedWorkspace:
    """Remove a workspace with all that belongs to it."""
    place = call.place(id)
    try:
        gone = call.own.delete_workspace(place.id, confirm=confirm)
    except ConfirmationNeeded as warning:
        raise ConfirmationNeeded(f"{warning}; call again with confirm=true") from None
    return DeletedWorkspace(id=place.id, memories=gone)


def maintain(call: Call) -> Maintained:
    """Roll old evidence up, archive what proved useless, purge old traces."""
    call.caller.must_reach_all()
    return call.bank.maintain()


def export(
    call: Call,
    file: IO[str],
    *,
    format: Literal["jsonl", "markdown"] = "jsonl",
    only_here: Annotated[bool, "One workspace; all of them needs admin."] = False,
) -> int:
    """Export one workspace, or the whole bank, as JSON lines or Markdown."""
    bank = call.bank if only_here else call.whole
    return bank.export(file, call.progress, format=format, only_here=only_here)


def import_(
    call: Call,
    file: IO[str],
    *,
    trusted: Annotated[bool, "Take all that another bank says, deletions included."] = False,
) -> Imported:
    """Read what an export wrote, or memories as JSON lines: all of it or nothing.

    This bank's own export restores everything. Of another's, only what its memories say is
    recorded, in your name, unless it is trusted.
    """
    return call.whole.import_(file, call.progress, trusted=trusted)


def solve(
    call: Call,
    task: Annotated[str, Text(LIMITS.content)],
    *,
    mode: Literal["parallel", "sequential", "adaptive", "off"] | None = None,
    k: Annotated[int, Whole(1, 5), "How many attempts, at most."] | None = None,
    iterations: Annotated[int, Whole(1, 10), "Maximum number of rounds."] | None = None,
    use_memory: Annotated[bool, "Show the solver what is known from earlier tasks."] = True,
    store: Annotated[bool, "Keep the trace, learn from it, credit the memories used."] = True,
    budget: Annotated[int, Whole(0, 1_000_000_000), "In tokens; 0 means no limit."] | None = None,
    effort: Annotated[Literal["low", "medium", "high"], "How hard the model thinks."] | None = None,
    difficulty: Annotated[
        Literal["simple", "moderate", "complex"], "How hard the task is, for mode adaptive."
    ] | None = None,
    parent: Annotated[AnId, "The trace that this task is a part of."] | None = None,
) -> Solution:  # fmt: skip
    """Have a task solved by the language model of this server, with what memory knows of it.

    It spends the operator's tokens. Verifiers cannot be named here.
    """
    import anyio

    bank = call.bank
    return anyio.run(
        lambda: bank.solve(
            task, mode=mode, k=k, iterations=iterations, use_memory=use_memory, store=store,
            budget=budget, effort=effort, difficulty=difficulty, parent=parent,
        )
    )  # fmt: skip


def create_token(
    call: Call,
    *,
    scope: Right,
    name: Annotated[str, Text(LIMITS.label)] | None = None,
    workspaces: Annotated[
        tuple[str, ...], Many(Text(4096), 100, least=1), "Full paths, ids or names."
    ] | None = None,
    expires_days: Annotated[int, Whole(1, 36_500)] | None = None,
    may: tuple[Permission, ...] = (),
    max_tokens: Annotated[
        int, Whole(0, 1_000_000_000_000), "How many tokens of the model it may spend in all."
    ] | None = None,
) -> NewToken:  # fmt: skip
    """Make a bearer token. Its secret is in this answer, and nowhere afterwards."""
    return call.tokens.create(
        scope=scope,
        name=name,
        workspaces=workspaces,
        expires_days=expires_days,
        may=may,
        max_tokens=max_tokens,
        by=call.whole,
    )


def tokens(call: Call) -> list[StoredToken]:
    """List all tokens that were ever made, without their secrets."""
    call.caller.must_reach_all()
    return call.tokens.list()


def revoke_token(call: Call, id: str) -> StoredToken:
    """Revoke a token; it opens nothing from now on."""
    return call.tokens.revoke(id, by=call.whole)


OPERATIONS = (
    # Memories
    op(Bank.search, READ, "POST /search"),
    op(Bank.recommend, READ, "POST /recommend", command="recommend", says="advice"),
    op(Bank.gaps, READ, "GET /gaps"),
    op(Bank.review, READ, "GET /review"),
    op(Bank.accept, WRITE, "POST /review/accept", key="accepted", nullable=True),
    op(Bank.reject, WRITE, "POST /review/reject", key="rejected", nullable=True),
    op(Bank.forget_gaps, ADMIN, "DELETE /gaps", key="forgotten"),
    op(record, WRITE, "POST /memories", body=Memory, status=201),
    op(Bank.memories, READ, "GET /memories"),
    op(Bank.get, READ, "GET /memories/{id}"),
    op(Bank.update, WRITE, "PATCH /memories/{id}"),
    op(forget, ADMIN, "DELETE /memories/{id}"),
    op(Bank.feedback, WRITE, "POST /memories/{id}/feedback", nullable=True),
    op(Bank.outcome, WRITE, "POST /memories/{id}/outcome", nullable=True),
    op(Bank.stability, WRITE, "POST /memories/{id}/stability", nullable=True),
    op(Bank.archive, WRITE, "POST /memories/{id}/archive", command="archive",
       says="Archived “{0.title}”"),
    op(Bank.restore, WRITE, "POST /memories/{id}/restore"),
    op(Bank.undo, WRITE, "POST /memories/{id}/undo"),
    op(Bank.history, READ, "GET /memories/{id}/history", command="history", says="history"),
    op(Bank.evidence, READ, "GET /memories/{id}/evidence"),
    op(Bank.links, READ, "GET /memories/{id}/links"),
    op(Bank.genealogy, READ, "GET /memories/{id}/genealogy"),
    op(Bank.contradicting, READ, "GET /memories/{id}/contradicting"),
    op(Bank.link, WRITE, "POST /links", status=201),
    op(unlink, WRITE, "DELETE /links"),
    op(credit, WRITE, "POST /sessions/{session}/outcome"),
    # Traces and sessions
    op(Bank.store_trace, WRITE, "POST /traces", body=Trace, status=201),
    op(Bank.traces, READ, "GET /traces", command="trace list", says="traces"),
    op(Bank.purge_traces, ADMIN, "DELETE /traces", key="purged"),
    op(Bank.trace, READ, "GET /traces/{id}", command="trace show", says="trace"),
    op(distil, WRITE, "POST /sessions", body=Trace, status=202),
    op(Bank.distil_prepare, WRITE, "POST /sessions/prepare"),
    op(Bank.distil_submit, WRITE, "POST /sessions/submit"),
    op(Bank.capture, WRITE, "POST /capture"),
    op(Bank.inject, READ, "POST /inject", most={"max_tokens": 1_000_000}),
    op(Bank.jobs, READ, "GET /jobs", command="queue list", says="jobs"),
    op(Bank.retry_job, WRITE, "POST /jobs/{id}/retry", command="queue retry",
       says="Job {0.id} waits for a worker again"),
    op(Bank.drop_job, WRITE, "DELETE /jobs/{id}", command="queue drop", says="Dropped job {0.id}"),
    # What people look at
    op(views.look, READ, "POST /look"),
    op(views.browse, READ, "GET /browse"),
    op(views.overview, READ, "GET /overview"),
    op(views.beliefs_of, READ, "GET /beliefs"),
    op(views.belief, READ, "GET /memories/{id}/belief"),
    op(views.graph, READ, "GET /memories/{id}/graph"),
    op(views.rivals, READ, "GET /memories/{id}/rivals"),
    op(views.origin, READ, "GET /memories/{id}/origin"),
    op(activity.sessions, READ, "GET /sessions"),
    op(activity.session, READ, "GET /sessions/{id}"),
    op(activity.work, READ, "GET /work"),
    op(activity.agents, ADMIN, "GET /agents"),
    op(activity.about, READ, "GET /about"),
    # Workspaces
    op(workspaces, READ, "GET /workspaces"),
    op(name_workspace, ADMIN, "POST /workspaces/{id}/name"),
    op(move_workspace, ADMIN, "POST /workspaces/{id}/move"),
    op(merge_workspace, ADMIN, "POST /workspaces/{id}/merge"),
    op(join_workspace, ADMIN, "POST /workspaces/{id}/join"),
    op(delete_workspace, ADMIN, "DELETE /workspaces/{id}"),
    # The bank
    op(Bank.statistics, READ, "GET /statistics"),
    op(Bank.reset_statistics, ADMIN, "DELETE /statistics", whole=True, message="Statistics reset"),
    op(activity.health, READ, "GET /health"),
    op(Bank.report, READ, "GET /report", alone=True, waits=True),
    op(Bank.audit, READ, "GET /audit", most={}),
    op(Bank.verify, ADMIN, "GET /audit/verify", alone=True, whole=True),
    op(Bank.consolidate, WRITE, "POST /consolidate", alone=True),
    op(Bank.promote, ADMIN, "POST /promote", alone=True, whole=True),
    op(Bank.batches, READ, "GET /batches", command="batches", says="batches"),
    op(Bank.undo_batch, WRITE, "POST /batches/{id}/undo"),
    op(Bank.revert, ADMIN, "POST /revert", alone=True),
    op(solve, ADMIN, "POST /solve", alone=True),
    op(maintain, ADMIN, "POST /maintain", alone=True),
    op(Bank.embed_new, ADMIN, "POST /embed", alone=True, whole=True, key="embedded"),
    op(Bank.reindex, ADMIN, "POST /reindex", alone=True, whole=True),
    op(Bank.rebuild, ADMIN, "POST /rebuild", alone=True, whole=True, message="Rebuilt"),
    op(export, READ, "GET /export", alone=True),
    op(import_, ADMIN, "POST /import", alone=True),
    # Other banks
    op(peers.peers, ADMIN, "GET /peers"),
    op(peers.trust_peer, ADMIN, "POST /peers/{name}/trust", alone=True, waits=True),
    op(peers.revoke_peer, ADMIN, "POST /peers/{name}/revoke", alone=True, waits=True),
    # Tokens
    op(create_token, ADMIN, "POST /tokens", status=201),
    op(tokens, ADMIN, "GET /tokens"),
    op(revoke_token, ADMIN, "DELETE /tokens/{id}"),
)  # fmt: skip


def by_path() -> Mapping[str, Mapping[str, Operation]]:
    """The table by path, then by method."""
    found: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        found.setdefault(operation.path, {})[operation.method] = operation
    return found

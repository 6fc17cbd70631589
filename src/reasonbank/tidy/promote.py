"""What proved itself in one project, and is known in another, is shared with both.

From a project to its team, when another project of the team knows the same; from a team to
its org, when another team does. Two hands must stand for it, or a person who accepts it; what an
author says of their own does not count. The copy records all of them as its parents, starts with
what they are trusted, and can be undone like any batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reasonbank.embed.calibration import Nearness, calibration_for
from reasonbank.errors import Forbidden, InvalidInput, NotFound
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import LEASE, Filter, Reading, Row, Writing
from reasonbank.model import (
    Job,
    Memory,
    Principal,
    Scope,
    Standing,
    State,
    View,
    Workspace,
    derived_id,
)
from reasonbank.safety.prompt_injection import suspicions_of
from reasonbank.store import batches, leases, maintenance
from reasonbank.store.context import Context
from reasonbank.tidy import merge
from reasonbank.tidy.merge import Member
from reasonbank.tidy.plan import apart

KIND = "promote"
NEIGHBOURS = 5
FLOOR = 0.6
"""A lower bound from which on a memory is shared, when projects agree."""
ONE_HAND = "one hand wrote it everywhere; another must say that it helps, or a person accept it"
WIDER = {Scope.PROJECT: Scope.TEAM, Scope.TEAM: Scope.ORG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory that others know too. ``waiting`` says what it lacks; None: it is ready."""

    member: Member
    scope: Scope
    """The wider one that it would get."""
    twins: tuple[Memory, ...]
    """The nearest memory of each other project, or team, that says the same."""
    hands: int = 1
    """How many who do not act for each other stand for it."""
    waiting: str | None = None
    acceptable: bool = False
    """Whether it lacks nothing but evidence, or a second hand."""

    @property
    def id(self) -> str:
        """The copy's: so that the same memory is promoted once."""
        return derived_id("promotion", str(self.scope), self.member.memory.id)

    def proposal(self) -> Proposal:
        memory = self.member.memory
        return Proposal(
            id=memory.id,
            title=memory.title,
            scope=memory.scope,
            to=self.scope,
            lower_bound=round(self.member.lower_bound, 3),
            projects=1 + len(self.twins),
            hands=self.hands,
            agreeing=tuple(Agreeing(id=t.id, workspace=t.workspace) for t in self.twins),
            ready=self.waiting is None,
            acceptable=self.waiting is None or self.acceptable,
            waiting=self.waiting,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreeing:
    id: str
    workspace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What could be shared, and with whom; ``waiting`` says what it lacks. Where it is
    ``acceptable`` all the same, a person's word is enough."""

    id: str
    title: str
    scope: Scope
    to: Scope
    lower_bound: float
    projects: int
    hands: int
    agreeing: tuple[Agreeing, ...]
    ready: bool
    acceptable: bool
    waiting: str | None


def propose(context: Context) -> list[Candidate]:
    """What recurs beyond this workspace, the best proven first."""
    indexing = context.store.indexing
    if not context.store.ledger.read_only:
        maintenance.embed_new(context)
    indexing.follow()
    reading = context.read()
    places = reading.workspaces()
    proposals = []
    for scope, wider in WIDER.items():
        others = list(_others(context, places, scope))
        if not others:
            continue
        for row in reading.listed(context.view, Filter(scopes=(scope,)), 1_000_000):
            if row.workspace == context.view.workspace:
                found = _proposal(context, reading, row, wider, others)
                if found is not None:
                    proposals.append(found)
    return sorted(proposals, key=lambda p: (-p.member.lower_bound, p.member.memory.id))


def _others(context: Context, places: Sequence[Workspace], scope: Scope) -> Iterator[list[View]]:
    """Who may agree: each other project of the team, or the projects of each other team."""
    view = context.view
    teams: dict[str, list[View]] = {}
    for place in places:
        if place.org != view.org or place.id == view.workspace:
            continue
        other = View(workspace=place.id, team=place.team, org=place.org)
        if scope is Scope.PROJECT and place.team == view.team:
            yield [other]
        elif scope is Scope.TEAM and place.team != view.team:
            teams.setdefault(place.team, []).append(other)
    yield from teams.values()


def _proposal(
    context: Context, reading: Reading, row: Row, wider: Scope, others: Sequence[Sequence[View]]
) -> Candidate | None:
    import numpy as np

    index = context.store.indexing.index
    vector = index.vectors(np.array([row.num], np.int64))[0]
    if not vector.any():
        return None
    mine = _shared_member(context, reading, row)
    nearness = calibration_for(context.store.indexing.embedder.name).merge
    # What the wider circle knows already needs no promotion.
    if _twin(context, context.view, reading, mine.memory, vector, nearness, (wider,)) is not None:
        return None
    twins = []
    for projects in others:
        for project in projects:
            scopes = (Scope.PROJECT,) if wider is Scope.TEAM else (Scope.PROJECT, Scope.TEAM)
            twin = _twin(context, project, reading, mine.memory, vector, nearness, scopes)
            if twin is not None:
                twins.append(twin)
                break
    if not twins:
        return None
    nums = [row.num, *(num for num, _ in twins)]
    hands = len({
        who
        for kind, _, who in (hand.partition(":") for hand in reading.hands_for(nums))
        if kind not in (Principal.BANK, Principal.PEER)
    })  # fmt: skip
    found = Candidate(member=mine, scope=wider, twins=tuple(twin for _, twin in twins), hands=hands)
    if reading.forgotten(found.id):
        return replace(found, waiting="somebody did not want it shared")
    if reading.taken(found.id):
        return replace(found, waiting="it was shared before, and that was taken back")
    if reasons := suspicions_of(mine.memory):
        return replace(found, waiting=f"its text {', '.join(reasons)}")
    if mine.memory.standing is not Standing.CONFIRMED:
        return replace(found, waiting="nothing has confirmed it yet")
    if found.hands < 2:
        return replace(found, waiting=ONE_HAND, acceptable=True)
    if mine.lower_bound < FLOOR:
        low = f"its lower bound {mine.lower_bound:.2f} is under {FLOOR:g}"
        return replace(found, waiting=low, acceptable=True)
    return found


def _shared_member(context: Context, reading: Reading, row: Row) -> Member:
    """A memory as others see it, to whom its author's own word says nothing."""
    belief = context.trust(reading).shared_belief(row)
    memory = replace(context.memory(reading, row), confidence=round(belief.mean, 6))
    return Member(memory=memory, lower_bound=belief.lower_bound, hand=row.hand)


def _twin(
    context: Context,
    view: View,
    reading: Reading,
    memory: Memory,
    vector: object,
    nearness: Nearness,
    scopes: tuple[Scope, ...],
) -> tuple[int, Memory] | None:
    """The nearest memory that this view has in these scopes, says the same, and is trusted."""
    realms = reading.realms(view, scopes, (State.ACTIVE,))
    nums, cosines = context.store.indexing.index.nearest(
        vector,  # type: ignore[arg-type]
        realms=realms,
        limit=NEIGHBOURS,
    )
    near = nums[cosines >= nearness.same].tolist()
    for row in reading.rows(view, near):
        twin = _shared_member(context, reading, row).memory
        trusted = (twin.confidence or 0.0) >= context.settings.belief.inject_above
        if (
            twin.id != memory.id
            and trusted
            and twin.standing is Standing.CONFIRMED
            and apart(replace(memory, scope=twin.scope), twin) is None
        ):
            return row.num, twin
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """``batch`` takes all of it back; None where nothing was shared."""

    promoted: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    batch: str | None
    dry_run: bool


def promote(
    context: Context,
    *,
    dry_run: bool = False,
    accept: Sequence[str] = (),
    reject: Sequence[str] = (),
    job: Job | None = None,
) -> Promotion:
    """Share what is ready, each in one transaction; what is not is only told of.

    A person may ``accept`` what only lacks evidence or a second hand, and ``reject`` what shall
    never be shared; then nothing else is.
    """
    named = {*accept, *reject}
    if named and context.principal is not Principal.PERSON:
        raise Forbidden("only a person accepts or rejects what is to be shared; nothing was shared")
    found = [_accepted(candidate, accept) for candidate in propose(context)]
    if unknown := named - {candidate.member.memory.id for candidate in found}:
        raise NotFound(f"memory {min(unknown)} is not proposed; `reasonbank promote` shows what is")
    if both := {*accept} & {*reject}:
        raise InvalidInput("reject", f"names {min(both)}, and so does accept; choose one")
    if reject and not dry_run:
        found = _without(context, found, reject)
    ready = [
        candidate
        for candidate in found
        if candidate.waiting is None and (not named or candidate.member.memory.id in accept)
    ]
    promoted: list[str] = []
    if not dry_run and (ready or job):
        turn = job or leases.take(context, KIND, hours=0.0)
        assert turn is not None
        promoted = [one.id for one in ready if _share(context, one, turn)]
        if job is None:
            context.store.ledger.write(lambda txn: txn.queue.finish(turn))
        batch = turn.id
    context.store.indexing.wake()
    return Promotion(
        promoted=tuple(promoted),
        proposals=tuple(candidate.proposal() for candidate in found),
        batch=batch if promoted else None,
        dry_run=dry_run,
    )


def _without(
    context: Context, found: Sequence[Candidate], reject: Sequence[str]
) -> list[Candidate]:
    """What is buried under the copy's id before there is a copy is proposed no more."""
    unwanted = [candidate for candidate in found if candidate.member.memory.id in reject]

    def work(txn: Writing) -> None:
        for candidate in unwanted:
            if not txn.taken(candidate.id):
                context.append(txn, EventType.FORGOTTEN, candidate.id, {})

    context.write(work)
    return [candidate for candidate in found if candidate not in unwanted]


def _accepted(candidate: Candidate, accept: Sequence[str]) -> Candidate:
    accepted = candidate.acceptable and candidate.member.memory.id in accept
    return replace(candidate, waiting=None) if accepted else candidate


def _share(context: Context, proposal: Candidate, job: Job) -> bool:
    memory = proposal.member.memory
    copy = replace(
        memory,
        id=proposal.id,
        scope=proposal.scope,
        parents=(memory.id, *(twin.id for twin in proposal.twins)),
        source_session=None,
        source_span=None,
    )

    def work(txn: Writing) -> bool:
        txn.queue.hold(job, context.now() + LEASE)
        row = txn.row(context.view, memory.id)
        if row is None or row.state != State.ACTIVE or row.revision != memory.revision:
            return False
        if row.probation:
            return False  # Changed since it was looked at: its turn comes again.
        if txn.taken(copy.id):
            return False
        stages = [row.stage, *(twin.stage for twin in proposal.twins)]
        step = batches.BatchStep(
            created=copy,
            initial=merge.confidence([memory, *proposal.twins], hands=proposal.hands),
            stage=1 + max(stages),
            standing=Standing.CONFIRMED,
        )
        batches.apply(context, txn, job.id, "promotion", step)
        return True

    return context.write(work)

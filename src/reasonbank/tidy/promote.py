"""What proved itself in one project, and is known in another, is shared with both.

From a project to its team, when another project of the team knows the same; from a team to
its org, when another team does. The copy records all of them as its parents, starts with
what they are trusted, and can be undone like any batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reasonbank.bank import Bank
from reasonbank.ledger.port import LEASE, Filter, Reading, Row, Writing
from reasonbank.model import JSON, Job, Memory, Scope, State, View, Workspace, derived_id
from reasonbank.safety.prompt_injection import suspicions_of
from reasonbank.store import batches, leases
from reasonbank.tidy import merge
from reasonbank.tidy.consolidate import member
from reasonbank.tidy.merge import Member
from reasonbank.tidy.plan import Nearness, apart, nearness_of

KIND = "promote"
NEIGHBOURS = 5
FLOOR = 0.6
"""A lower bound from which on a memory is shared, when projects agree."""
WIDER = {Scope.PROJECT: Scope.TEAM, Scope.TEAM: Scope.ORG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A memory that others know too. ``waiting`` says what it lacks; None: it is ready."""

    member: Member
    scope: Scope
    """The wider one that it would get."""
    twins: tuple[Memory, ...]
    """The nearest memory of each other project, or team, that says the same."""
    waiting: str | None = None

    @property
    def id(self) -> str:
        """The copy's: so that the same memory is promoted once."""
        return derived_id("promotion", str(self.scope), self.member.memory.id)

    def to_json(self) -> JSON:
        memory = self.member.memory
        return {
            "id": memory.id,
            "title": memory.title,
            "scope": str(memory.scope),
            "to": str(self.scope),
            "lower_bound": round(self.member.lower_bound, 3),
            "projects": 1 + len(self.twins),
            "agreeing": [{"id": t.id, "workspace": t.workspace} for t in self.twins],
            "ready": self.waiting is None,
            "waiting": self.waiting,
        }


def propose(bank: Bank) -> list[Proposal]:
    """What recurs beyond this workspace, the best proven first."""
    indexing = bank.core.indexing
    if not bank.core.ledger.read_only:
        bank.embed_new()
    indexing.follow()
    reading = bank.core.ledger.read()
    places = reading.workspaces()
    proposals = []
    for scope, wider in WIDER.items():
        others = list(_others(bank, places, scope))
        if not others:
            continue
        for row in reading.listed(bank.view, Filter(scopes=(scope,)), 1_000_000):
            if row.workspace == bank.view.workspace:
                found = _proposal(bank, reading, row, wider, others)
                if found is not None:
                    proposals.append(found)
    return sorted(proposals, key=lambda p: (-p.member.lower_bound, p.member.memory.id))


def _others(bank: Bank, places: Sequence[Workspace], scope: Scope) -> Iterator[list[View]]:
    """Who may agree: each other project of the team, or the projects of each other team."""
    view = bank.view
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
    bank: Bank, reading: Reading, row: Row, wider: Scope, others: Sequence[Sequence[View]]
) -> Proposal | None:
    import numpy as np

    index = bank.core.indexing.index
    vector = index.vectors(np.array([row.num], np.int64))[0]
    if not vector.any():
        return None
    mine = member(bank, reading, row)
    nearness = nearness_of(bank.core.indexing.embedder.name)
    # What the wider circle knows already needs no promotion.
    if _twin(bank, bank.view, reading, mine.memory, vector, nearness, (wider,)) is not None:
        return None
    twins = []
    for projects in others:
        for project in projects:
            scopes = (Scope.PROJECT,) if wider is Scope.TEAM else (Scope.PROJECT, Scope.TEAM)
            twin = _twin(bank, project, reading, mine.memory, vector, nearness, scopes)
            if twin is not None:
                twins.append(twin)
                break
    if not twins:
        return None
    found = Proposal(member=mine, scope=wider, twins=tuple(twins))
    if reading.taken(found.id) or reading.forgotten(found.id):
        # It is not there any more: somebody did not want it.
        return replace(found, waiting="it was shared before, and that was taken back")
    if reasons := suspicions_of(mine.memory):
        return replace(found, waiting=f"its text {', '.join(reasons)}")
    if mine.lower_bound < FLOOR:
        return replace(found, waiting=f"its lower bound {mine.lower_bound:.2f} is under {FLOOR:g}")
    return found


def _twin(
    bank: Bank,
    view: View,
    reading: Reading,
    memory: Memory,
    vector: object,
    nearness: Nearness,
    scopes: tuple[Scope, ...],
) -> Memory | None:
    """The nearest memory that this view has in these scopes, says the same, and is trusted."""
    realms = reading.realms(view, scopes, (State.ACTIVE,))
    nums, cosines = bank.core.indexing.index.nearest(
        vector,  # type: ignore[arg-type]
        realms=realms,
        limit=NEIGHBOURS,
    )
    near = nums[cosines >= nearness.same].tolist()
    for row in reading.rows(view, near):
        twin = bank._memory(reading, row)
        trusted = (twin.confidence or 0.0) >= bank.settings.belief.inject_above
        if (
            twin.id != memory.id
            and trusted
            and apart(replace(memory, scope=twin.scope), twin) is None
        ):
            return twin
    return None


def promote(bank: Bank, *, dry_run: bool = False, job: Job | None = None) -> JSON:
    """Share what is ready, each in one transaction; what is not is only told of."""
    proposals = propose(bank)
    ready = [p for p in proposals if p.waiting is None]
    promoted: list[str] = []
    if not dry_run and (ready or job):
        turn = job or leases.take(bank, KIND, hours=0.0)
        assert turn is not None
        promoted = [proposal.id for proposal in ready if _share(bank, proposal, turn)]
        if job is None:
            bank.core.ledger.write(lambda txn: txn.queue.finish(turn))
        batch = turn.id
    bank.core.indexing.wake()
    return {
        "promoted": promoted,
        "proposals": [p.to_json() for p in proposals],
        "batch": batch if promoted else None,
        "dry_run": dry_run,
    }


def _share(bank: Bank, proposal: Proposal, job: Job) -> bool:
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
        txn.queue.hold(job, bank.core.clock() + LEASE)
        row = txn.row(bank.view, memory.id)
        if row is None or row.state != State.ACTIVE or row.revision != memory.revision:
            return False  # Changed since it was looked at: its turn comes again.
        if txn.taken(copy.id):
            return False
        stages = [row.stage, *(twin.stage for twin in proposal.twins)]
        step = batches.Step(
            created=copy,
            initial=merge.confidence([memory, *proposal.twins]),
            stage=1 + max(stages),
        )
        batches.apply(bank, txn, job.id, "promotion", step)
        return True

    return bank._write(work)

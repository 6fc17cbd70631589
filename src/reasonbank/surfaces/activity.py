"""What goes on: sessions and what they were given and taught, work that is done unasked, agents."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version

from reasonbank.arguments import TraceId
from reasonbank.health import Health
from reasonbank.ledger.port import Reading
from reasonbank.model import JobState, Outcome, State, Trace, from_micros
from reasonbank.store import beliefs, traces, working
from reasonbank.store.beliefs import Trust
from reasonbank.store.context import Context, reasoner_of
from reasonbank.store.statistics import Queue, queue_of
from reasonbank.surfaces.agents import AGENTS
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.views import WEEK, Page

# Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """``given`` and ``learned`` count memories; ``held_out``: it went without on purpose."""

    id: str
    task: str
    agent: str | None
    outcome: Outcome | None
    created_at: datetime | None
    steps: int
    given: int
    learned: int
    held_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """``total`` counts all pages; ``cursor`` leads to the next one, if there is one."""

    total: int
    sessions: tuple[SessionLine, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGiven:
    """``title`` is null of what was forgotten, or is out of sight."""

    id: str
    title: str | None
    weak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenThen:
    """``moment`` is the hook that gave it; empty where the session asked."""

    at: datetime
    moment: str
    memories: tuple[MemoryGiven, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedMemory:
    id: str
    title: str
    span: tuple[int, int] | None
    state: State
    trust: Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShown:
    trace: Trace
    given: tuple[GivenThen, ...]
    learned: tuple[LearnedMemory, ...]
    held_out: bool


def sessions(call: Call, *, limit: Page = 50, cursor: TraceId | None = None) -> Sessions:
    """List what agents did here, newest first: what each session was given and taught."""
    context = call.bank.context
    reading = context.settled_read()
    found = reading.traces(context.view, limit + 1, before=cursor)
    return Sessions(
        total=reading.trace_count(context.view),
        sessions=tuple(_line(context, reading, trace) for trace in found[:limit]),
        cursor=found[limit - 1].id if len(found) > limit else None,
    )


def _line(context: Context, reading: Reading, trace: Trace) -> SessionLine:
    names = _names_of(trace)
    given = {id for name in names for id in reading.session_uses(context.view, name)}
    agent = trace.metadata.get("agent")
    return SessionLine(
        id=trace.id, task=trace.task, agent=None if agent is None else str(agent),
        outcome=trace.outcome, created_at=trace.created_at, steps=len(trace.trajectory),
        given=len(given | {*trace.memories_used}), learned=len(trace.memories_learned),
        held_out=_held_out(context, reading, names),
    )  # fmt: skip


def _names_of(trace: Trace) -> list[str]:
    from reasonbank.learn.credits import names_of

    return names_of(trace)


def _held_out(context: Context, reading: Reading, names: list[str]) -> bool:
    return any(reading.withheld(context.view, name) is not None for name in names)


def session(call: Call, id: TraceId) -> SessionShown:
    """Show a session with its steps, what it was given and when, and what was learned from it."""
    context = call.bank.context
    reading = context.settled_read()
    trace = traces.get(context, context.whole_id("trace", id))
    names = _names_of(trace)
    givings = [giving for name in names for giving in reading.givings(context.view, name)]
    wanted = {id for giving in givings for id in giving.memories}
    titles = reading.titles(context.view, wanted)
    rows = [reading.row(context.view, one) for one in trace.memories_learned]
    return SessionShown(
        trace=trace,
        given=tuple(
            GivenThen(
                at=giving.at,
                moment=giving.moment,
                memories=tuple(
                    MemoryGiven(id=one, title=titles.get(one), weak=one in giving.weak)
                    for one in giving.memories
                    if one in titles or context.whole
                ),
            )
            for giving in sorted(givings, key=lambda giving: giving.at)
        ),
        learned=tuple(
            LearnedMemory(
                id=row.id, title=memory.title, span=memory.source_span, state=memory.state,
                trust=beliefs.of(context, reading, row).trust,
            )
            for row in rows
            if row is not None
            for memory in [row.memory()]
        ),
        held_out=_held_out(context, reading, names),
    )  # fmt: skip


# Work


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoWorks:
    surface: str
    process: str
    since: datetime
    last_run: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTurn:
    at: datetime | None
    state: JobState
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is done for this workspace every so many hours; 0 hours: never."""

    kind: str
    every_hours: float
    last: LastTurn | None
    next: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkShown:
    """Of this workspace: ``queue``, ``done_this_week`` and ``schedule``. ``worker`` is null where
    nobody works on the bank."""

    queue: Queue
    done_this_week: int
    worker: WhoWorks | None
    schedule: tuple[Turn, ...]


def work(call: Call) -> WorkShown:
    """Show what waits to be done, who does it, and when what is done now and then comes next."""
    from reasonbank.jobs.schedule import turns

    context = call.bank.context
    reading = context.read()
    found = working.who(context)
    week_ago = from_micros(context.now() - WEEK)
    done = reading.queue.jobs(context.view.workspace, (JobState.DONE,), 10_000)
    return WorkShown(
        queue=queue_of(reading.queue.depth(context.view.workspace), context.now()),
        done_this_week=sum(1 for job in done if job.created_at and job.created_at >= week_ago),
        worker=None if found is None else WhoWorks(
            surface=found.surface, process=str(found), since=found.since, last_run=found.last_run,
        ),
        schedule=tuple(_turn(context, reading, *turn) for turn in turns(context.settings)),
    )  # fmt: skip


def _turn(context: Context, reading: Reading, kind: str, hours: float) -> Turn:
    from reasonbank.jobs.schedule import next_turn

    latest = reading.queue.latest(kind, context.view.workspace)
    following = next_turn(reading, kind, context.view.workspace, hours)
    return Turn(
        kind=kind,
        every_hours=hours,
        last=None if latest is None else LastTurn(
            at=latest.created_at, state=latest.state, error=latest.error,
        ),
        next=None if following is None else from_micros(max(following, context.now())),
    )  # fmt: skip


# Agents


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    event: str
    at: datetime
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentShown:
    """How far an agent of the server's user is connected. ``server`` is the program that it
    starts; ``works``: that can be started. ``run`` is the command that connects it fully."""

    name: str
    title: str
    found: bool
    server: str | None
    works: bool
    allowed: bool
    hooks: tuple[str, ...]
    missing: tuple[str, ...]
    last: LastCall | None
    problem: str | None
    run: str | None


def agents(call: Call) -> list[AgentShown]:
    """List the agents of this machine, how far each is connected, and what is left to do."""
    from reasonbank.surfaces.install.look import look

    call.whole  # noqa: B018  # It tells of the machine that the server runs on.
    seen = {state.agent: state for state in look(os.environ)}
    return [_agent(agent.name, agent.title, seen.get(agent.name)) for agent in AGENTS]


def _agent(name: str, title: str, state: object) -> AgentShown:
    from reasonbank.surfaces.hooks.fired import last
    from reasonbank.surfaces.install.look import State as Wired

    run = f"reasonbank install {name}"
    if not isinstance(state, Wired):
        return AgentShown(
            name=name, title=title, found=False, server=None, works=False, allowed=False,
            hooks=(), missing=(), last=None, problem=None, run=None,
        )  # fmt: skip
    fired = max(last(name).items(), key=lambda each: each[1][0], default=None)
    missing = tuple(map(str, state.missing))
    ready = state.program is not None and state.there and state.allowed and not missing
    return AgentShown(
        name=name, title=title, found=True, server=state.program, works=state.there,
        allowed=state.allowed, hooks=tuple(sorted(state.events)), missing=missing,
        last=fired and LastCall(event=str(fired[0]), at=fired[1][0], how=fired[1][1]),
        problem=state.problem or None, run=None if ready else run,
    )  # fmt: skip


# The bank


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """``store`` is told to who looks after the whole bank."""

    version: str
    bank: str
    store: str | None
    engine: str
    embedder: str
    semantic: bool
    reasoner: str
    model: str | None
    belief: str
    hold_out: float
    workspace: str
    team: str
    org: str


def health(call: Call) -> Health:
    """Examine the store, the models, the queue and the disk; each problem names its repair."""
    found = call.bank.health()
    if _keeps(call):
        return found
    ledger = call.root.store.ledger
    shorter = {ledger.url: ledger.url.partition(":")[0]}
    if ledger.beside is not None:
        shorter = {str(ledger.beside): ledger.beside.name} | shorter
    checks = found.checks
    for place, name in shorter.items():
        checks = tuple(replace(each, found=each.found.replace(place, name)) for each in checks)
    return replace(found, checks=checks)


def _keeps(call: Call) -> bool:
    """Whether they look after the whole bank, and may hear where it lies."""
    return call.caller.whole or call.caller.local


def about(call: Call) -> About:
    """Tell what this bank is made of, and from where it is seen."""
    context = call.bank.context
    settings, ledger = context.settings, context.store.ledger
    embedder = context.store.indexing.embedder
    return About(
        version=version("reasonbank"), bank=ledger.bank_id,
        store=ledger.url if _keeps(call) else None, engine=" ".join(ledger.engine),
        embedder=embedder.name, semantic=embedder.semantic,
        reasoner=reasoner_of(context),
        model=settings.llm.model if settings.llm.provider != "none" else None,
        belief=settings.belief.model, hold_out=settings.proof.hold_out,
        workspace=context.view.workspace, team=context.view.team, org=context.view.org,
    )  # fmt: skip

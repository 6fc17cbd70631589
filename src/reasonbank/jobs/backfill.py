"""Learning from what agents wrote down before ReasonBank was there.

Transcripts are handed over like those of hooks, and read by whoever works: so what was queued
is done once, whatever happens meanwhile, and to begin again is to go on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from reasonbank.errors import ReasonBankError
from reasonbank.jobs.learner import by_rules
from reasonbank.jobs.service import WorkerService
from reasonbank.jobs.worker import Work
from reasonbank.learn.distil import question
from reasonbank.learn.judge import asking, verified
from reasonbank.learn.session import Session, to_trace
from reasonbank.learn.transcripts import files
from reasonbank.learn.transcripts.places import History
from reasonbank.llm.port import Model
from reasonbank.llm.tokens import Count, counter, tokens_in
from reasonbank.model import Job, JobState, Outcome
from reasonbank.store import queue
from reasonbank.store.context import Context, Progress, reasoner_of
from reasonbank.store.workspaces import is_place, project_of

BATCH = 200
REPLY = 700
"""Tokens of a usual answer."""


def new_of(context: Context, histories: Sequence[History]) -> tuple[list[History], list[History]]:
    """Those that were not read yet, or have grown since; and those that wait to be read."""
    new, waiting = [], []
    reading = context.read().queue
    for history in histories:
        job = reading.job(queue.id_of(history.transcript))
        if job is not None and job.state in (JobState.WAITING, JobState.RUNNING):
            waiting.append(history)
        elif job is None or not _is_read(job, history):
            new.append(history)
    return new, waiting


def _is_read(job: Job, history: History) -> bool:
    mark = (job.checkpoint or {}).get("mark")
    return job.state is JobState.DONE and mark == files.mark_of(history.transcript) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Where sessions worked; None is where they do not say. One that is ``gone`` is learned for
    all the same, by the path it had."""

    path: str | None
    sessions: int
    gone: bool


@dataclass(slots=True, kw_only=True)
class Prospect:
    """What there is to learn from, and what a model would cost.

    ``lessons`` is what rules find without one. ``tokens`` is an estimate, None without a model;
    so is ``cost``, which also takes that the bank has paid such a model before.
    """

    sessions: int = 0
    empty: int = 0
    known: int = 0
    bytes: int = 0
    steps: int = 0
    lessons: int = 0
    tokens: int | None = None
    cost: float | None = None
    agents: dict[str, int] = field(default_factory=dict)
    projects: list[Project] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def prospect(
    context: Context, histories: Sequence[History], *, known: int, progress: Progress
) -> Prospect:
    """Reads all of them, and changes nothing."""
    found = Prospect(known=known)
    thinks = reasoner_of(context) == "model"
    count = counter(context.settings.llm.tokenizer)
    agents: Counter[str] = Counter()
    places: Counter[str | None] = Counter()
    for number, history in enumerate(histories, 1):
        try:
            told = files.session_at(history.transcript)
        except ReasonBankError as error:
            found.unreadable.append(str(error))
            told = None
        if told is not None and told[0].entries:
            session = told[0]
            agents[session.agent] += 1
            places[_place(context, session)] += 1
            found.bytes += history.size
            _look(context, session, found, count if thinks else None)
        elif told is not None:
            found.empty += 1
        progress(number, len(histories))
    found.agents = dict(sorted(agents.items()))
    found.projects = [
        Project(path=path, sessions=number, gone=path is not None and not os.path.isdir(path))
        for path, number in places.most_common()
    ]
    if found.tokens is not None:
        found.cost = _cost(context, found.tokens)
    return found


def _look(context: Context, session: Session, found: Prospect, count: Count | None) -> None:
    trace = to_trace(session, None)
    found.sessions += 1
    found.steps += len(trace.trajectory)
    lessons, verdict = by_rules(trace)
    found.lessons += len(lessons)
    if count is None:
        return
    # The judge is asked only where nothing tells how a session went.
    calls = [question(trace, Outcome.SUCCESS if verdict is None else verdict.outcome)]
    if verified(trace) is None:
        calls.append(asking(trace))
    most = context.settings.llm.input_tokens
    sizes = [tokens_in(tuple(messages), count) for messages in calls]
    tokens = sum((min(size, most) if most else size) + REPLY for size in sizes)
    found.tokens = (found.tokens or 0) + tokens


def _place(context: Context, session: Session) -> str | None:
    if not is_place(session.directory):
        return None
    return project_of(context.read(), session.directory).path


def _cost(context: Context, tokens: int) -> float | None:
    """By what this bank's model has cost until now."""
    meters = context.store.all_meters()
    used = sum(meters.total(f"model.{part}_tokens") or 0 for part in ("input", "output"))
    paid = (meters.total("model.cost") or 0) / 1e6
    return round(paid / used * tokens, 4) if used and paid else None


@dataclass(slots=True, kw_only=True)
class Filled:
    """What came of it. ``failed`` are transcripts that could not be read, each with the reason;
    ``waiting`` counts what is still to be done, by ``by`` if somebody else works."""

    found: int
    new: int
    known: int
    read: int = 0
    learned_from: int = 0
    memories: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    waiting: int = 0
    by: str | None = None
    stopped: bool = False


def hand_over(context: Context, histories: Sequence[History]) -> None:
    for start in range(0, len(histories), BATCH):
        part = [history.transcript for history in histories[start : start + BATCH]]
        queue.hand_over_all(context, part)


def learn(context: Context, model: Model | None, filled: Filled, progress: Progress) -> None:
    """Read and learn until nothing is due, or until Ctrl-C; what is under way is finished."""

    def finished(work: Work) -> None:
        if work.job.kind == queue.TRANSCRIPT:
            filled.read += 1
        else:
            filled.learned_from += 1
            filled.memories.extend(work.learned)
        tell()

    def failed(job: Job, reason: str) -> None:
        told = job.subject.rpartition(" ")[2] if job.kind == queue.TRANSCRIPT else job.subject
        filled.failed.append((told, reason))
        tell()

    total = 0

    def tell() -> None:
        nonlocal total
        done = filled.read + filled.learned_from + len(filled.failed)
        total = max(total, done + left(context))
        progress(done, total)

    async def run() -> None:
        service = WorkerService(context, model, turns=False)
        service.worker.finished, service.worker.failed = finished, failed

        def stop() -> None:
            filled.stopped = True
            service.stop()

        with _on_interrupt(stop):
            await service.run(until_empty=True)

    asyncio.run(run())
    filled.waiting = left(context)


def left(context: Context) -> int:
    """What waits to be read or learned from, whoever handed it over."""
    depth = context.read().queue.depth(None)
    return depth.waiting + depth.running


@contextmanager
def _on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Within, Ctrl-C is a request; only the main thread is told of signals."""
    loop = asyncio.get_running_loop()
    with suppress(RuntimeError, ValueError, NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with suppress(RuntimeError, ValueError, NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)

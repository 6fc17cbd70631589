"""The calling agent does the thinking: it gets a prompt and a ticket, and hands in an answer.

No key and no model of ours is needed, and any client can do it. A ticket is good for one
session of one workspace, for half an hour; handing it in twice changes nothing. A client that
offers MCP sampling is asked the same question for the same ticket by us.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from reasonbank.errors import (
    InvalidInput,
    InvalidReply,
    LeaseLost,
    ModelError,
    NotFound,
    Refused,
)
from reasonbank.fields import parse_id
from reasonbank.learn import credits, exchanges, lessons
from reasonbank.learn.distil import (
    SESSION,
    TEMPERATURE,
    new_of,
    session_memories,
    session_question,
)
from reasonbank.learn.judge import Verdict, verified
from reasonbank.ledger.port import Writing
from reasonbank.llm.port import Model, user
from reasonbank.llm.reply import conforming
from reasonbank.model import JSON, Job, JobState, Outcome, Trace
from reasonbank.safety.scrub import clean
from reasonbank.store import queue, traces
from reasonbank.store.context import Context

HELD = 1_800_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prompt to think about; ``ticket`` is None when nothing waits."""

    ticket: str | None = None
    trace_id: str | None = None
    prompt: str | None = None
    answer_schema: JSON | None = None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """``replayed``: the ticket was handed in before, and nothing was changed."""

    learned: tuple[str, ...]
    confirmed: tuple[str, ...]
    replayed: bool


def prepare(context: Context, session: Trace | None = None) -> Prepared:
    """The prompt for a session, or for the oldest that waits; ``ticket`` is null if none does."""
    job = _taken(context, session)
    if job is None:
        return Prepared(message="no session waits to be learned from")
    trace = traces.get(context, job.subject)
    return Prepared(
        ticket=f"{job.id}.{job.claim}",
        trace_id=trace.id,
        prompt=session_question(trace),
        answer_schema=SESSION,
        message="think about it, then hand in the answer with the ticket",
    )


async def think(context: Context, model: Model, ticket: str, trace_id: str) -> None:
    """Have a model answer a ticket; if it cannot, the session waits for somebody else."""
    trace = await anyio.to_thread.run_sync(lambda: traces.get(context, trace_id))
    try:
        reply = await model.complete(
            [user(session_question(trace))], schema=SESSION, temperature=TEMPERATURE
        )
    except ModelError as error:
        reason = clean(f"{type(error).__name__}: {error}")[:2000]
        await anyio.to_thread.run_sync(lambda: give_back(context, ticket, reason))
        return
    await anyio.to_thread.run_sync(lambda: submit(context, ticket, reply.value))


def give_back(context: Context, ticket: str, reason: str) -> None:
    job = _held(context, ticket)
    context.write(lambda txn: txn.queue.fail(job, reason, context.now()))


def _taken(context: Context, session: Trace | None) -> Job | None:
    if session is not None:
        session = traces.fit(context, session)
    now = context.now()
    worker = f"agent-{secrets.token_hex(16)}"

    def this(txn: Writing) -> Job:
        assert session is not None
        job = queue.distil_in(context, txn, session)
        if taken := txn.queue.claim_one(job.id, worker, now, now + HELD):
            return taken
        raise Refused(f"session {job.subject} is {job.state}: each step is learned from once")

    def oldest(txn: Writing) -> Job | None:
        job = txn.queue.oldest("distil", context.view.workspace, now)
        return txn.queue.claim_one(job.id, worker, now, now + HELD) if job else None

    return context.write(this if session else oldest)


def submit(context: Context, ticket: str, answer: Any) -> Submitted:
    """Store what the agent made of the session: how many memories are new, which are known."""
    job = _held(context, ticket)
    trace = traces.get(context, job.subject)
    if job.state is JobState.DONE:
        return Submitted(learned=trace.memories_learned, confirmed=(), replayed=True)
    try:
        answer = conforming(answer, SESSION)
    except InvalidReply as error:
        raise InvalidInput("answer", f"{error}; correct it and hand it in again") from None
    new = new_of(session_memories(answer, trace), trace)
    found = lessons.prepare(context, new, trace)
    kept = exchanges.prepare(context, trace, new)
    seen = credits.prepare(context, trace)
    # What ran outranks what the agent thinks of its own work.
    told = verified(trace) or _said(answer)

    def work(txn: Writing) -> lessons.Stored:
        txn.queue.finish(job)
        said = exchanges.store(lessons.for_whom(context, txn, trace), txn, kept)
        credits.store(context, txn, trace, seen)
        result = lessons.store(context, txn, trace, found, told, said=said)
        queue.again_if_grown(context, txn, job)
        return result

    result = context.write(work)
    context.store.indexing.wake()
    return Submitted(learned=result.learned, confirmed=result.confirmed, replayed=False)


def _held(context: Context, ticket: str) -> Job:
    id, _, claim = ticket.partition(".")
    job = context.read().queue.job(parse_id(id, "ticket"))
    if job is None or job.workspace != context.view.workspace:
        raise NotFound("there is no such ticket in this workspace; ask for a new one")
    if not claim or not secrets.compare_digest((job.claim or "").encode(), claim.encode()):
        raise LeaseLost("this ticket has run out, or its session was taken over; ask for a new one")
    return job


def _said(answer: Any) -> Verdict | None:
    if "outcome" not in answer:
        return None
    return Verdict(
        outcome=Outcome(answer["outcome"]),
        by="agent",
        score=answer.get("score"),
        reason=answer.get("reason"),
    )

"""A queued session becomes memories: by a model, or by rules where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import anyio.to_thread

from reasonbank.jobs.worker import Effects, Task, Work
from reasonbank.learn import credits, exchanges, lessons, session
from reasonbank.learn.distil import distil, memories as told_memories, new_of
from reasonbank.learn.exchanges import MOST_BY_MODEL, Kept
from reasonbank.learn.judge import Verdict, judge, verified
from reasonbank.learn.passive import EXTRACT
from reasonbank.learn.rules import rules
from reasonbank.ledger.port import Writing
from reasonbank.ledger.sessions import learned_steps
from reasonbank.llm.port import Model
from reasonbank.model import JSON, Memory, Outcome, Trace
from reasonbank.store import memories, queue, traces
from reasonbank.store.context import Context, reasoner_of

T = TypeVar("T")


def tasks(model: Model | None) -> dict[str, Task]:
    """What a worker does, by the kind of job."""

    async def learn(work: Work) -> Effects:
        context = work.context
        trace = await _thread(lambda: traces.get(context, work.job.subject))
        found, verdict = by_rules(trace) if model is None else await _by_model(model, work, trace)
        ready = await _thread(lambda: lessons.prepare(context, found, trace))
        kept = await _thread(lambda: exchanges.prepare(context, trace, found))
        seen = await _thread(lambda: credits.prepare(context, trace))
        if model is not None and kept.memories:
            kept = await _known_by_model(model, work, trace, kept)

        def effects(context: Context, txn: Writing) -> None:
            said = exchanges.store(lessons.for_whom(context, txn, trace), txn, kept)
            credits.store(context, txn, trace, seen)
            work.learned = lessons.store(context, txn, trace, ready, verdict, said=said).learned
            queue.again_if_grown(context, txn, work.job)

        return effects

    async def extract(work: Work) -> Effects:
        assert model is not None
        draft = await _thread(lambda: memories.get(work.context, work.job.subject))
        answer = await exchanges.extract(model, [draft])
        found = exchanges.knowledge(work.context, answer, [draft])
        return lambda context, txn: exchanges.think_over(context, txn, draft, found)

    return {"distil": learn} if model is None else {"distil": learn, EXTRACT: extract}


def by_rules(trace: Trace) -> tuple[list[Memory], Verdict | None]:
    told = session.of_trace(trace)
    found = [
        replace(finding.memory, source_span=(finding.first, finding.last))
        for finding in rules.findings(told, outcome=trace.outcome, since=learned_steps(trace))
    ]
    return found, verified(trace)


def nothing_new(context: Context, trace: Trace) -> str:
    """Why a session that was learned from left no new memory, as the end of a sentence."""
    known = trace.metadata.get("confirmed")
    titles = context.read().titles(context.view, known if isinstance(known, list) else [])
    if titles:
        said = "; ".join(f"{title} ({id})" for id, title in titles.items())
        return f"teaches nothing that is not known already: {said}"
    if reasoner_of(context) == "model":
        return "teaches nothing: the model found nothing in it that is worth keeping"
    told = session.of_trace(trace)
    if rules.findings(told, outcome=trace.outcome):
        return "teaches nothing new: what there was to learn was learned before, or forgotten"
    return f"teaches nothing: {rules.nothing_found(told)}"


async def _by_model(model: Model, work: Work, trace: Trace) -> tuple[list[Memory], Verdict | None]:
    """Both answers are kept as soon as they are there: a retry costs nothing."""
    kept = _paid_for(work, trace)
    verdict = verified(trace)
    if verdict is None:
        if "verdict" not in kept:
            said = await judge(model, trace)
            kept["verdict"] = {"outcome": str(said.outcome), "score": said.score,
                               "reason": said.reason}  # fmt: skip
            await work.checkpoint(kept)
        verdict = Verdict(
            outcome=Outcome(kept["verdict"]["outcome"]), by="judge",
            score=kept["verdict"]["score"], reason=kept["verdict"]["reason"],
        )  # fmt: skip
    if "answer" not in kept:
        kept["answer"] = await distil(model, trace, verdict.outcome)
        await work.checkpoint(kept)
    return new_of(told_memories(kept["answer"], trace, verdict.outcome), trace), verdict


def _paid_for(work: Work, trace: Trace) -> JSON:
    """What an earlier attempt kept; what was said of less of the session counts no more."""
    kept: JSON = dict(work.job.checkpoint or {})
    steps = len(trace.trajectory)
    return kept if kept.get("steps") == steps else {"steps": steps}


async def _known_by_model(model: Model, work: Work, trace: Trace, kept: Kept) -> Kept:
    """The knowledge in the first exchanges; what is more than a prompt holds stays a draft."""
    paid = _paid_for(work, trace)
    drafts, more = kept.memories[:MOST_BY_MODEL], kept.memories[MOST_BY_MODEL:]
    if "knowledge" not in paid:
        paid["knowledge"] = await exchanges.extract(model, drafts)
        await work.checkpoint(paid)
    found = exchanges.knowledge(work.context, paid["knowledge"], drafts)
    return replace(kept, memories=(*found, *more))


async def _thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)

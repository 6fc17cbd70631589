"""A queued session becomes memories: by a model, or by rules where there is none."""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread

from reasonbank.jobs.worker import Effects, Task, Work
from reasonbank.learn import lessons, session
from reasonbank.learn.distil import distil, memories
from reasonbank.learn.judge import Verdict, judge, verified
from reasonbank.learn.rules import rules
from reasonbank.ledger.port import Writing
from reasonbank.llm.port import Model
from reasonbank.model import JSON, Memory, Outcome, Trace
from reasonbank.settings import Settings
from reasonbank.store import traces
from reasonbank.store.context import Context


def reasoner_of(settings: Settings, *, model: bool = False) -> str:
    """Who learns: model, agent or rules; ``model``: one was handed in."""
    chosen = settings.learn.reasoner
    if chosen != "auto":
        return chosen
    return "model" if model or settings.llm.provider != "none" else "rules"


def tasks(model: Model | None) -> dict[str, Task]:
    """What a worker does, by the kind of job."""

    async def learn(work: Work) -> Effects:
        trace = await anyio.to_thread.run_sync(lambda: traces.get(work.context, work.job.subject))
        found, verdict = by_rules(trace) if model is None else await _by_model(model, work, trace)
        ready = await anyio.to_thread.run_sync(lambda: lessons.prepare(work.context, found, trace))

        def effects(context: Context, txn: Writing) -> None:
            lessons.store(context, txn, trace, ready, verdict)

        return effects

    return {"distil": learn}


def by_rules(trace: Trace) -> tuple[list[Memory], Verdict | None]:
    told = session.of_trace(trace)
    found = [
        replace(finding.memory, source_span=(finding.first, finding.last))
        for finding in rules.findings(told, outcome=trace.outcome)
    ]
    return found, verified(trace)


def nothing_new(context: Context, trace: Trace) -> str:
    """Why a session that was learned from left no new memory, as the end of a sentence."""
    known = trace.metadata.get("confirmed")
    titles = context.read().titles(context.view, known if isinstance(known, list) else [])
    if titles:
        said = "; ".join(f"{title} ({id})" for id, title in titles.items())
        return f"teaches nothing that is not known already: {said}"
    if reasoner_of(context.settings, model=context.store.thinker is not None) == "model":
        return "teaches nothing: the model found nothing in it that is worth keeping"
    told = session.of_trace(trace)
    if rules.findings(told, outcome=trace.outcome):
        return "teaches nothing new: what there was to learn was learned before, or forgotten"
    return f"teaches nothing: {rules.nothing_found(told)}"


async def _by_model(model: Model, work: Work, trace: Trace) -> tuple[list[Memory], Verdict | None]:
    """Both answers are kept as soon as they are there: a retry costs nothing."""
    kept: JSON = dict(work.job.checkpoint or {})
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
    return memories(kept["answer"], trace, verdict.outcome), verdict

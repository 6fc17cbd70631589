"""The strategy that the evidence backs best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reasonbank.model import Hit, Memory, Outcome, failed_each_time
from reasonbank.search.answer import search
from reasonbank.search.inject import CHECKED, is_warning
from reasonbank.search.subjects import of_task
from reasonbank.search.text import keywords
from reasonbank.store.context import Context
from reasonbank.trust.belief import NOTHING, EvidenceCounts

AS_GOOD = 0.05
"""Of forecasts that differ by less, the order of the search decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """``strategy`` is None when nothing is relevant enough, or all that is has only failed.

    ``expected`` is its forecast: how likely it is to help with this task. ``failed`` fit as well,
    and are never recommended, as they failed whenever they were tried.
    """

    keywords: tuple[str, ...]
    domain: str | None
    strategy: Memory | None
    expected: float | None
    confidence: float | None
    tried: int
    worked: int
    successful_uses: int
    reasoning: str
    warnings: tuple[Memory, ...]
    failed: tuple[Memory, ...]
    embedder: str
    degraded: bool


def recommend(context: Context, task: str) -> Recommendation:
    """Recognise what a task is about, and name the strategy that the evidence backs best."""
    words = keywords(task)
    least = context.settings.belief.inject_above
    reply = search(context, task, limit=10, filter=CHECKED, min_confidence=least, unread=True)
    # Whoever asks for one does not look at others: nothing that poses as an instruction.
    hits = [hit for hit in reply if not hit.suspicious]
    only_failed = [hit for hit in hits if hit.tried and not hit.worked]
    failed = [hit for hit in (*reply.failed, *only_failed) if is_warning(hit)]
    best = _best([hit for hit in hits if hit not in only_failed])
    domain = _domain(task, [*hits, *failed])
    seen = _evidence(context, best)
    return Recommendation(
        keywords=tuple(words),
        domain=domain,
        strategy=best.memory if best else None,
        expected=best.expected if best else None,
        confidence=best.memory.confidence if best else None,
        tried=best.tried if best else 0,
        worked=best.worked if best else 0,
        successful_uses=seen.tasks_succeeded,
        reasoning=_reasoning(best, seen, domain, failed),
        warnings=tuple(hit.memory for hit in hits if hit.warning)[:3],
        failed=tuple(hit.memory for hit in failed)[:3],
        embedder=reply.embedder,
        degraded=reply.degraded,
    )


def _best(hits: Sequence[Hit]) -> Hit | None:
    """By its forecast; of about the same, whichever the search has first."""
    strategies = [hit for hit in hits if hit.memory.outcome is not Outcome.FAILURE]
    most = max((hit.expected or 0.0 for hit in strategies), default=0.0)
    return next((hit for hit in strategies if (hit.expected or 0.0) >= most - AS_GOOD), None)


def _domain(task: str, hits: Sequence[Hit]) -> str | None:
    """The domain that the most relevant memories speak of; where nobody set one, what the words
    of the task, or else of these memories, are about."""
    votes: dict[str, float] = {}
    for hit in hits:
        if hit.memory.domain:
            votes[hit.memory.domain] = votes.get(hit.memory.domain, 0.0) + hit.relevance
    named = max(votes, key=lambda name: votes[name], default=None)
    told = "\n".join(f"{hit.memory.title}\n{hit.memory.description}" for hit in hits[:3])
    return named or of_task(task) or of_task(told)


def _evidence(context: Context, best: Hit | None) -> EvidenceCounts[int]:
    reading = context.read()
    row = reading.row(context.view, best.memory.id) if best else None
    return reading.seen(row.num, context.view.workspace) if row else EvidenceCounts(*NOTHING)


def _reasoning(
    best: Hit | None, seen: EvidenceCounts[int], domain: str | None, failed: Sequence[Hit]
) -> str:
    doubts = "; ".join(f"“{hit.memory.title}” {_failed(hit)}" for hit in failed[:3])
    if best is None:
        if doubts:
            return f"Nothing is left to recommend: {doubts}."
        return "Nothing in this bank is relevant enough to recommend."
    said = []
    if tasks := seen.tasks_succeeded + seen.tasks_failed:
        said.append(f"{seen.tasks_succeeded} of {tasks} tasks that used it succeeded")
    if ratings := seen.rated_helpful + seen.rated_unhelpful:
        said.append(f"{seen.rated_helpful} of {ratings} ratings call it helpful")
    if times := seen.code_kept + seen.code_reverted:
        said.append(f"the code was kept {seen.code_kept} of {times} times")
    guess = ""
    if not said:
        said.append("nobody has reported an outcome yet")
        guess = ", a guess by how well it fits"
    about = f" in {domain}" if domain and best.memory.domain == domain else ""
    return (
        f"“{best.memory.title}” fits this task best{about} (relevance {best.relevance:.2f}); "
        f"{'; '.join(said)}; the forecast for this task is {best.expected or 0.0:.2f}{guess}; "
        f"confidence {best.memory.confidence:.2f}{f'; {doubts}' if doubts else ''}."
    )


def _failed(hit: Hit) -> str:
    return "was tried once and failed" if hit.tried == 1 else failed_each_time(hit.tried)

"""The strategy that the evidence backs best."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.model import Hit, Memory, Outcome
from reasonbank.search.answer import search
from reasonbank.search.inject import CHECKED
from reasonbank.search.text import keywords
from reasonbank.store.context import Context
from reasonbank.trust.belief import EvidenceCounts, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """``strategy`` is None when nothing is relevant enough."""

    keywords: tuple[str, ...]
    domain: str | None
    strategy: Memory | None
    confidence: float | None
    successful_uses: int
    reasoning: str
    warnings: tuple[Memory, ...]
    embedder: str
    degraded: bool


def recommend(context: Context, task: str) -> Recommendation:
    """Recognise what a task is about, and name the strategy that the evidence backs best."""
    words = keywords(task)
    least = context.settings.belief.inject_above
    reply = search(context, task, limit=10, filter=CHECKED, min_confidence=least, unread=True)
    domain = _domain(reply.hits)
    # Whoever asks for one does not look at others: nothing that poses as an instruction.
    hits = [hit for hit in reply if not hit.suspicious]
    strategies = [hit for hit in hits if hit.memory.outcome is not Outcome.FAILURE]
    best = max(strategies, key=lambda hit: hit.score, default=None)
    seen = _evidence(context, best)
    return Recommendation(
        keywords=tuple(words),
        domain=domain,
        strategy=best.memory if best else None,
        confidence=best.memory.confidence if best else None,
        successful_uses=seen.tasks_succeeded,
        reasoning=_reasoning(best, seen, domain),
        warnings=tuple(hit.memory for hit in hits if hit.warning)[:3],
        embedder=reply.embedder,
        degraded=reply.degraded,
    )


def _domain(hits: tuple[Hit, ...]) -> str | None:
    """The domain that the most relevant memories speak of."""
    votes: dict[str, float] = {}
    for hit in hits:
        if hit.memory.domain:
            votes[hit.memory.domain] = votes.get(hit.memory.domain, 0.0) + hit.relevance
    return max(votes, key=lambda name: votes[name], default=None)


def _evidence(context: Context, best: Hit | None) -> EvidenceCounts:
    reading = context.read()
    row = reading.row(context.view, best.memory.id) if best else None
    return counts(reading.tallies([row.num], context.view.workspace)[row.num] if row else {})


def _reasoning(best: Hit | None, seen: EvidenceCounts, domain: str | None) -> str:
    if best is None:
        return "Nothing in this bank is relevant enough to recommend."
    said = []
    if tasks := seen.tasks_succeeded + seen.tasks_failed:
        said.append(f"{seen.tasks_succeeded} of {tasks} tasks that used it succeeded")
    if ratings := seen.rated_helpful + seen.rated_unhelpful:
        said.append(f"{seen.rated_helpful} of {ratings} ratings call it helpful")
    if times := seen.code_kept + seen.code_reverted:
        said.append(f"the code was kept {seen.code_kept} of {times} times")
    if not said:
        said.append("nobody has reported an outcome yet")
    about = f" in {domain}" if domain and best.memory.domain == domain else ""
    return (
        f"“{best.memory.title}” fits this task best{about} (relevance {best.relevance:.2f}); "
        f"{'; '.join(said)}; confidence {best.memory.confidence:.2f}."
    )

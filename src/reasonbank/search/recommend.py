"""The strategy that the evidence backs best."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.model import Hit, Memory, Outcome
from reasonbank.search.answer import search
from reasonbank.search.text import keywords
from reasonbank.store.context import Context
from reasonbank.trust import belief


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
    reply = search(context, task, limit=10, min_confidence=context.settings.belief.inject_above)
    domain = _domain(reply.hits)
    # Whoever asks for one does not look at others: nothing that poses as an instruction.
    hits = [hit for hit in reply if not hit.suspicious]
    strategies = [hit for hit in hits if hit.memory.outcome is not Outcome.FAILURE]
    best = max(strategies, key=lambda hit: hit.score, default=None)
    return Recommendation(
        keywords=tuple(words),
        domain=domain,
        strategy=best.memory if best else None,
        confidence=best.memory.confidence if best else None,
        successful_uses=_successes(context, best.memory) if best else 0,
        reasoning=_reasoning(context, best, domain),
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


def _outcomes(context: Context, memory: Memory) -> tuple[int, ...]:
    reading = context.read()
    row = reading.row(context.view, memory.id)
    return belief.counts(reading.tallies([row.num])[row.num]) if row else (0,) * 8


def _successes(context: Context, memory: Memory) -> int:
    return _outcomes(context, memory)[4]


def _reasoning(context: Context, best: Hit | None, domain: str | None) -> str:
    if best is None:
        return "Nothing in this bank is relevant enough to recommend."
    helped, hindered, _, _, succeeded, failed, kept, reverted = _outcomes(context, best.memory)
    said = []
    if succeeded or failed:
        said.append(f"{succeeded} of {succeeded + failed} tasks that used it succeeded")
    if helped or hindered:
        said.append(f"{helped} of {helped + hindered} ratings call it helpful")
    if kept or reverted:
        said.append(f"the code was kept {kept} of {kept + reverted} times")
    if not said:
        said.append("nobody has reported an outcome yet")
    about = f" in {domain}" if domain and best.memory.domain == domain else ""
    return (
        f"“{best.memory.title}” fits this task best{about} (relevance {best.relevance:.2f}); "
        f"{'; '.join(said)}; confidence {best.memory.confidence:.2f}."
    )

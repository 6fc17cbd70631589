"""A search of which nothing is noted: for people, who look before they have said all."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

from reasonbank.fields import checked, plain
from reasonbank.ledger.port import Filter, Reading
from reasonbank.model import JSON, Gap, Reply
from reasonbank.safety.patterns import compile
from reasonbank.search.answer import recall
from reasonbank.search.gaps import asked
from reasonbank.search.gather import Question
from reasonbank.settings import Search
from reasonbank.store import beliefs
from reasonbank.store.context import Context
from reasonbank.store.nearby import hint

MOST_TOLD = 50
"""Of what was left out, one by one; the reasons are counted in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    id: str
    title: str
    reason: str
    relevance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """An explained answer, how far each hit is trusted, and what was left out, nearest first.

    ``asked``: this very question was asked before, in vain, perhaps in other words as well.
    ``weights``: of each part in the composite score, 1 in all.
    """

    reply: Reply
    believed: tuple[beliefs.Believed | None, ...]
    dropped: tuple[LeftOut, ...]
    reasons: tuple[tuple[str, int], ...]
    asked: Gap | None
    weights: dict[str, float]
    milliseconds: float

    def to_json(self) -> JSON:
        told = self.reply.to_json()
        for memory, believed in zip(told["memories"], self.believed, strict=True):
            memory["belief"] = plain(believed)
        return told | {
            "considered": len(self.reply.hits) + sum(count for _, count in self.reasons),
            "dropped": plain(self.dropped),
            "left_out": [{"reason": reason, "count": count} for reason, count in self.reasons],
            "nearest": None if self.reply.sure else plain(self._nearest()),
            "asked": plain(self.asked),
            "weights": self.weights,
            "hint": self.reply.hint,
            "milliseconds": round(self.milliseconds, 1),
        }

    def _nearest(self) -> LeftOut | None:
        """Of what is near but not surely meant, and of what was left out."""
        weak = (
            LeftOut(id=hit.memory.id, title=hit.memory.title, reason="near, but not surely meant",
                    relevance=self.reply.relevance.get(hit.memory.id))
            for hit in self.reply.hits
        )  # fmt: skip
        near = (one for one in (*weak, *self.dropped) if one.relevance)
        return max(near, key=lambda one: one.relevance or 0.0, default=None)


def look(
    context: Context,
    query: str,
    *,
    limit: int,
    filter: Filter | None,
    min_confidence: float | None,
    follow_links: bool,
    include_weak: bool,
) -> Looked:
    started = time.perf_counter()
    settings = context.settings
    reply = recall(context, Question(
        text=query, limit=limit, filter=checked(filter or Filter(), settings.limits),
        min_confidence=settings.belief.prune_below if min_confidence is None else min_confidence,
        explain=True, follow_links=follow_links, sure_only=not include_weak,
    ))  # fmt: skip
    reading = context.read()
    if not reply.sure:
        reply = replace(reply, hint=hint(context))
    rows = [reading.row(context.view, hit.memory.id) for hit in reply.hits]
    return Looked(
        reply=reply,
        believed=tuple(row and beliefs.of(context, reading, row) for row in rows),
        dropped=_dropped(context, reading, reply),
        reasons=tuple(Counter(_general(reason) for _, reason in reply.dropped).most_common()),
        asked=asked(context, query),
        weights=_weights(settings.search),
        milliseconds=1000 * (time.perf_counter() - started),
    )


def _weights(search: Search) -> dict[str, float]:
    given = {
        "similarity": search.similarity, "recency": search.recency,
        "error_match": search.error_match,
    }  # fmt: skip
    total = sum(given.values())
    return {name: round(weight / total, 6) for name, weight in given.items()}


def _dropped(context: Context, reading: Reading, reply: Reply) -> tuple[LeftOut, ...]:
    reasons = dict(reply.dropped)
    near = [id for id in reply.relevance if id in reasons]
    wanted = list(dict.fromkeys((*near, *reasons)))[:MOST_TOLD]
    titles = reading.titles(context.view, wanted)
    return tuple(
        LeftOut(id=id, title=titles[id], reason=reasons[id], relevance=reply.relevance.get(id))
        for id in wanted
        if id in titles
    )


_OWN_NUMBER = compile(r"^(relevance|nearness|confidence) -?[\d.]+ is ")
_OWN_RIVAL = compile(r"^(redundant with|outdated by) \S+$")


def _general(reason: str) -> str:
    """Without what only one of them has: its number, its rival, its length."""
    if "tokens do not fit" in reason:
        return "too long for the answer"
    return _OWN_RIVAL.sub(r"\1 another", _OWN_NUMBER.sub(r"\1 is ", reason))

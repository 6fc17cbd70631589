from __future__ import annotations

from dataclasses import dataclass, fields

from reasonbank.llm.port import Usage
from reasonbank.model import JSON


@dataclass(slots=True, kw_only=True)
class Meters:
    """What the models of one process did. ``None`` means that no server has said it yet."""

    calls: int = 0
    """Calls that went to a server; a re-ask counts, a retry of the transport does not."""
    retries: int = 0
    failures: int = 0
    """Calls that ended in an error."""
    repairs: int = 0
    """Replies that broke their schema and were asked for again."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    unreported: int = 0
    """Replies whose server did not say what they used; the sums are without them."""
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bypasses: int = 0
    cache_evictions: int = 0
    shared: int = 0
    """Calls that waited for an identical one in flight instead of being made."""

    def count(self, usage: Usage) -> None:
        if usage.input is None or usage.output is None:
            self.unreported += 1
        self.input_tokens = _more(self.input_tokens, usage.input)
        self.output_tokens = _more(self.output_tokens, usage.output)
        self.reasoning_tokens = _more(self.reasoning_tokens, usage.reasoning)
        self.cached_tokens = _more(self.cached_tokens, usage.cached)
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def reset(self) -> None:
        for f in fields(self):
            setattr(self, f.name, f.default)

    def to_json(self) -> JSON:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _more(sum: int | None, amount: int | None) -> int | None:
    return sum if amount is None else (sum or 0) + amount

"""A long text made shorter: its head and its tail, and how much is missing between them."""

from __future__ import annotations

FIFTH = 0.2
"""Of what is kept, this much at least is the beginning, and as much the end."""
MARK = "\n[… {:,} characters left out …]\n"
CUT = MARK.rpartition("}")[2]
"""What every text has in it that was cut."""


def excerpt(text: str, most: int, *, head: float = 0.5) -> str:
    """``text`` in at most ``most`` characters; ``head`` is the share of the beginning.

    What matters most stands at the ends: the task first, how it went last.
    """
    if len(text) <= most:
        return text
    kept = max(0, most - len(MARK.format(len(text))))
    first = int(kept * min(max(head, FIFTH), 1 - FIFTH))
    last = kept - first
    return text[:first] + MARK.format(len(text) - kept) + text[len(text) - last :]

"""A long question, sentence by sentence.

What a model makes of a whole page is about everything on it, and of a long one it reads only
the beginning. So the sentences of a long text are looked for one by one, and the best counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from textwrap import wrap

from reasonbank.safety.patterns import Pattern
from reasonbank.search.text import MAX_QUERY

LONG = 400
"""A text of fewer characters is one thought, and looked for as it is."""
MOST = 32
"""So many sentences are looked for; of more, those that tell most, and both ends of the text."""
FIRST, LAST = 4, 8
LONGEST = 300
SHORTEST = 24
"""Less than that says too little by itself."""

_ENDS = Pattern(r"[.!?][\"')\]]?\s+|\n\s*")
_EDGES = " .!?\n\r\t"
# Lines that a machine wrote: frames of a stack, places in files, marks under code, diffs, and
# what stands far to the right.
_PRINTED = Pattern(
    r"^\s*(?:File \"|at [\w.$<>/]+|#\d+ |\d+:|\^|~|[|+-]{1,3}\s|-->|\.{3}\s|goroutine |"
    r"Traceback |Caused by|\s{4})"
    r"|[\w./\\-]+\.\w{1,5}[:(]\d+|\bline \d+\b|0x[0-9a-f]{4}|[{};]\s*$"
    r"|\b\w{2,60}(?:Error|Exception)\b|\b(?:error|warning|note|fatal|panic)(?:\[\w+\])?:"
)
PRINTED_SHARE = 0.4


@lru_cache(maxsize=64)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a long text, each once; none of a short one.

    None of a text that is mostly a stack trace or a compiler's output either: its lines mean
    something together only.
    """
    text = text[:MAX_QUERY]
    if len(text) < LONG or is_printed(text):
        return ()
    return tuple(dict.fromkeys(_sentences(text)))


def pieces(text: str, telling: Callable[[str], float]) -> tuple[str, ...]:
    """The sentences to look for, in their order; ``telling`` says how much one promises."""
    every = sentences(text)
    if len(every) <= MOST:
        return every
    middle = range(FIRST, len(every) - LAST)
    best = sorted(middle, key=lambda i: telling(every[i]), reverse=True)[: MOST - FIRST - LAST]
    ends = (*range(FIRST), *range(len(every) - LAST, len(every)))
    return tuple(every[i] for i in sorted((*best, *ends)))


def is_printed(text: str) -> bool:
    """Whether most of it is what a program printed."""
    lines = [line for line in text.splitlines() if line.strip()]
    printed = sum(len(line) for line in lines if _PRINTED.search(line[:300]))
    return len(lines) > 2 and printed > PRINTED_SHARE * sum(map(len, lines))


def _sentences(text: str) -> list[str]:
    found: list[str] = []
    begun = ""
    for part in _ENDS.split(text):
        begun = f"{begun} {part.strip(_EDGES)}".strip()
        if len(begun) >= SHORTEST:
            found += wrap(begun, LONGEST) if len(begun) > LONGEST else [begun]
            begun = ""
    return [*found, begun] if begun else found

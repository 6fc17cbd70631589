"""Whether a command failed in the way that a stored memory tells of. Pure."""

from __future__ import annotations

from functools import lru_cache

from reasonbank.learn.rules.failure import VAGUE, Failure, complaint_of, stable
from reasonbank.learn.session import Command
from reasonbank.model import ErrorContext
from reasonbank.safety.patterns import compile
from reasonbank.search.text import WORD, error_match

SAME = 0.8
"""From this match of error type or pattern on, it is the same mistake."""
CLOSE = 0.9
"""From this share of common words on, two messages of one kind of error say the same."""
LEAST = 3
"""Fewer common words are chance."""
LONGEST = 8_000


def is_same(error: ErrorContext | None, failed: Command) -> bool:
    """``failed`` is a command that did; what it printed is compared with what is known."""
    if error is None:
        return False
    failure = _failure(failed.output[-LONGEST:])
    pattern = stable(error.failure_pattern or "")
    if failure is not None:
        mine, theirs = _words(pattern), _words(failure.pattern)
        common = len(mine & theirs)
        if pattern.startswith(f"{failure.type}: "):
            # Both were read from what a program printed: what differs makes the difference.
            return common >= CLOSE * len(mine | theirs)
        if common >= max(LEAST, CLOSE * min(len(mine), len(theirs))):
            return True
    # By its name alone no `error` is known for any other.
    type = None if error.error_type in VAGUE else error.error_type
    return error_match(failed.output[-LONGEST:], type, error.failure_pattern) >= SAME


@lru_cache(maxsize=256)
def _failure(output: str) -> Failure | None:
    return complaint_of(output)


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(_PLACEHOLDER.sub(" ", text).lower()))


_PLACEHOLDER = compile(r"<[a-z]{1,10}>")

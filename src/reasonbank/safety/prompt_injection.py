"""Text that looks like an instruction to the model rather than a lesson.

It flags what speaks to the model, poses as somebody else, hides, or sends data away. It cannot
tell a false statement from a true one: against that only provenance and evidence help.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from reasonbank.bounded import Bounded
from reasonbank.model import Memory, labels
from reasonbank.safety import patterns
from reasonbank.safety.disguises import BIDI, readings
from reasonbank.safety.signs import SIGNS, without_blanks

MOST_KNOWN = 20_000

_INVISIBLE = re.compile(r"[\u200b\u2060\u2061-\u2064\ufeff\u00ad\u180e]")
_TAGS = re.compile(r"(?<!\U0001f3f4)(?<![\U000e0020-\U000e007f])[\U000e0000-\U000e007f]")
_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")


def suspicions(text: str) -> tuple[str, ...]:
    """Why ``text`` should not reach a model unasked; nothing for an ordinary lesson."""
    reasons = dict.fromkeys(_hidden(text))
    read = readings(text)
    for said in (*read.shown, *read.words):
        reasons |= _matched(_signs(), said)
    for letters in read.spelled:
        reasons |= _matched(_spelled_signs(), letters)
    return tuple(reasons)


def suspicions_of(memory: Memory) -> tuple[str, ...]:
    error = memory.error_context
    parts = [memory.title, memory.description, memory.content, " ".join(memory.tags)]
    parts += [label for name in labels() if (label := getattr(memory, name))]
    if error:
        parts += [error.error_type, error.failure_pattern, error.corrective_guidance,
                  error.error_message or "", error.stack_trace or ""]  # fmt: skip
    return suspicions("\n\n".join(parts))


class Flags:
    """Remembers what was found, by memory and revision: a search asks for the same ones often.

    Reasons only, never a text: what is forgotten is not in it.
    """

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, int], tuple[str, ...]] = Bounded(MOST_KNOWN)

    def of(self, memory: Memory) -> tuple[str, ...]:
        key = (memory.id, memory.revision)
        found = self._known.get(key)
        if found is None:
            found = suspicions_of(memory)
            self._known.put(key, found)
        return found


def _hidden(text: str) -> list[str]:
    found = []
    if len(_INVISIBLE.findall(text.lstrip("\ufeff"))) >= 2 or _SELECTORS.search(text):
        found.append("has invisible characters")
    if _TAGS.search(text):
        found.append("has invisible characters")
    if BIDI.search(text):
        found.append("changes the direction of writing")
    return found


def _matched(signs: Any, text: str) -> dict[str, None]:
    found = signs.Match(text.encode("utf-8", "replace")) or ()
    return dict.fromkeys(SIGNS[number][0] for number in found)


@cache
def _signs() -> Any:
    return patterns.any_of([pattern for _, pattern in SIGNS])


@cache
def _spelled_signs() -> Any:
    return patterns.any_of([without_blanks(pattern) for _, pattern in SIGNS])

"""What ReasonBank itself put into a session: nothing is learned from its own words.

Each agent writes down in its own way what a hook said: as an attachment, as a developer's
message, in a tag, or at the end of a command's output with its marks escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from reasonbank.safety.patterns import compile

MOST_SHOWN = 50
_SHOWN = compile(
    r"(?:<|&lt;)memory id=\\{0,4}\"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\\{0,4}\""
)
AN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shown_in(text: str) -> tuple[str, ...]:
    """The ids of the memories that a transcript shows to have been put before the agent."""
    found = (match[1] for match in _SHOWN.finditer(text))
    return tuple(islice(dict.fromkeys(found), MOST_SHOWN))


class Shown:
    """The same of a transcript that goes by, line by line."""

    def __init__(self) -> None:
        self.ids: tuple[str, ...] = ()

    def watching(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if "memory id=" in line:
                self.ids = tuple(dict.fromkeys((*self.ids, *shown_in(line))))[:MOST_SHOWN]
            yield line


_FENCES = (("<memory id=", "</memory>"), ("&lt;memory id=", "&lt;/memory&gt;"))
_ASIDE = re.compile(
    r"<(system[-_]reminder|reasonbank[a-z-]{0,40}|user-prompt-submit-hook|hook_context"
    r"|qwen:user-prompt-submit-context)\b[^>]{0,200}>"
)
_HEADING = re.compile(
    r"(?:From earlier tasks, recalled by|This failed before, as|This error is known, as)"
    r"\s{1,5}ReasonBank[^<&]{0,400}(?=<memory id=|&lt;memory id=)"
)
_QUESTION = re.compile(
    r"Before you finish: something failed in this session[^<&]{0,500}?only true today\."
)
"""What a hook asks at the end of a turn; some agents write it down as if the user had asked."""


def without_echo(text: str) -> str:
    """``text`` without what ReasonBank put there."""
    if "ReasonBank" in text:
        text = _HEADING.sub("", text)
    if "Before you finish" in text:
        text = _QUESTION.sub("", text)
    for opening, closing in _FENCES:
        text = _without_fences(text, opening, closing)
    return _without_asides(text)


def _without_fences(text: str, opening: str, closing: str) -> str:
    parts, position = [], 0
    last = text.rfind(closing)
    while (start := text.find(opening, position)) >= 0:
        parts.append(text[position:start])
        if start < last:
            position = text.find(closing, start) + len(closing)
        else:
            position = _end_of_fence(text, start)
    return "".join((*parts, text[position:]))


def _end_of_fence(text: str, start: int) -> int:
    """Where a fence ends that was cut off: each of its lines is marked."""
    position = text.find("\n", start)
    while position >= 0 and text.startswith(
        ("|", "WARNING: ", "SUSPICIOUS: ", "DRAFT: ", "WEAK: ", "OUTDATED: "), position + 1
    ):
        position = text.find("\n", position + 1)
    return len(text) if position < 0 else position


def _without_asides(text: str) -> str:
    parts, position = [], 0
    while found := _ASIDE.search(text, position):
        parts.append(text[position : found.start()])
        closing = f"</{found[1]}>"
        end = text.find(closing, found.end())
        position = end + len(closing) if end >= 0 else len(text)
    return "".join((*parts, text[position:]))


_OWN_COMMAND = compile(r"(?:^|[;&|(]\s*|\brun\s+|/)reasonbank\s+[a-z]")
_OWN_TOOL = re.compile(r"(?:^|[_./-])reasonbank(?:[_./-]|$)", re.IGNORECASE)


def is_own(*, command: str = "", tool: str = "") -> bool:
    """Whether a step asked ReasonBank itself: its answer is no experience."""
    return bool(_OWN_COMMAND.search(command) or _OWN_TOOL.search(tool))

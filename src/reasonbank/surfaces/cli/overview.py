"""What `reasonbank --help` lists: every command in a line, under what it is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

GROUPS = {
    "Ask": "search recommend inject solve gaps",
    "Teach": "remember record feedback outcome stability capture distil backfill ticket",
    "Look": "list show history genealogy trace stats report audit batches",
    "Correct": "review update link archive restore undo revert forget",
    "Care": "doctor maintain consolidate promote reindex queue worker workspace export import "
    "mirror backup migrate",
    "Connect": "mcp serve open peer token install uninstall hook llm demo",
}
OTHERS = "More"
_CLAUSE = re.compile(r"[;:,.](?= )")


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """These commands by what they are for, in the order of ``GROUPS``."""
    left = list(names)
    found: dict[str, list[str]] = {}
    for title, members in GROUPS.items():
        found[title] = [name for name in members.split() if name in left]
        left = [name for name in left if name not in found[title]]
    found[OTHERS] = left
    return {title: members for title, members in found.items() if members}


def line(help: str, width: int) -> str:
    """The first sentence, or as many clauses of it as fit; words are cut off only if none does."""
    sentence = " ".join(help.partition("\n\n")[0].split())
    ends = [found.start() for found in _CLAUSE.finditer(sentence)]
    whole = sentence.partition(". ")[0].rstrip(".")
    if len(whole) <= width:
        return whole
    if fitting := [end for end in ends if width // 3 < end <= width]:
        return sentence[: fitting[-1]]
    return whole[: width - 1].rpartition(" ")[0] + "…"


def drawn(
    names: Iterable[str], help_of: Callable[[str], str], width: int
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles, and under each the names of commands with their lines."""
    groups = grouped(names)
    longest = max((len(name) for members in groups.values() for name in members), default=0)
    room = width - longest - 4
    return [
        (title, [(name.ljust(longest), line(help_of(name), room)) for name in members])
        for title, members in groups.items()
    ]

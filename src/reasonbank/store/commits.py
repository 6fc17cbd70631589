"""Which commits a session made: the code that its memories led to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from reasonbank.model import Step, Trace

KEY = "commits"
"""Of a trace's metadata: ids of commits, as git printed them or as the caller gave them."""
MOST = 50

_ID = re.compile(r"[0-9a-f]{7,64}")
_COMMAND = re.compile(r"\bgit\b[^|;&\n]{0,200}\bcommit\b")
_FAILED = re.compile(r"exit(?:ed with)?(?: code| status)?:? -?[1-9]", re.IGNORECASE)
# [main 1a2b3c4] title; [main (root-commit) 1a2b3c4] title; [detached HEAD 1a2b3c4] title
_MADE = re.compile(r"^\[[^\[\]\n]{1,200} ([0-9a-f]{7,64})\] \S", re.MULTILINE)


def with_commits(trace: Trace) -> Trace:
    """The trace, whose metadata says which commits it made, if it made any."""
    given = trace.metadata.get(KEY, trace.metadata.get("commit"))
    named = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    found = [id.lower() for id in named if isinstance(id, str) and _ID.fullmatch(id.lower())]
    found = list(dict.fromkeys([*found, *_made(trace.trajectory)]))[-MOST:]
    if not found or trace.metadata.get(KEY) == found:
        return trace
    return replace(trace, metadata={**trace.metadata, KEY: found})


def commits_of(trace: Trace) -> list[str]:
    known = trace.metadata.get(KEY)
    known = known if isinstance(known, list) else []
    return [id for id in known if isinstance(id, str) and _ID.fullmatch(id)]


def _made(steps: Iterable[Step]) -> list[str]:
    found: list[str] = []
    for step in steps:
        command, printed = step.content or "", step.feedback or ""
        if not _COMMAND.search(command) or _FAILED.match(printed) or step.score == 0:
            continue
        made = _MADE.findall(printed)
        if made and found and "--amend" in command:
            found.pop()  # It is another commit now.
        found += made
    return found

"""An agent that noted itself, again and again, that it was getting nowhere: how, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, at_home, noted, short
from reasonbank.learn.rules.surroundings import visited
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

LEAST = 3
"""So often must it have noted it, and so often must it have been at one place."""
MOST_PLACES = 5

_NOTED = compile(
    r"(?i)([^\".{}\n]{0,200}\b(?:in a loop|going in circles|repeated(?:ly)?|repeating|repetitive)\b"
    r"[^\".{}\n]{0,200})"
)
_NOT_SO = compile(
    r"(?i)\b(?:not|no|[a-z]+n't|avoid\w*|prevent\w*|yet|might|may|could|without)\b"
    r"[^.]{0,60}\b(?:loop|repeat\w*|repetitive)\b"
)
_IN_VAIN = compile(
    r"(?i)\b(?:without|unsuccessful\w*|fail\w*|no (?:new|success|progress)|not|error\w*|issues?)\b"
)
_PLAIN = compile(r"[^a-z0-9]")
_SEARCH = compile(r"(?i)(?:^|\.)(?:bing|google|duckduckgo|yahoo)\.")
_OUT_OF_TIME = compile(r"(?i)\bmax(?:imum)? (?:time|turns|steps|rounds)\b[^\n]{0,30}\breached\b")
_ANSWERED = compile(r"(?m)FINAL ANSWER: (.{1,80})$")


def stuck(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    notes: dict[int, str] = {}
    for entry in entries:
        if isinstance(entry, Turn) and not entry.by_user and (note := _note(entry.text)):
            notes[entry.number] = note
    if len(notes) < LEAST:
        return
    first, last = min(notes), max(notes)
    between = [e for e in entries if first - 6 <= e.number <= last]
    places = Counter(host for e in between for host, _ in visited(e) if not _SEARCH.search(host))
    for host, times in places.most_common(MOST_PLACES):
        if times >= LEAST and any(_names(note, host) for note in notes.values()):
            yield _got_nowhere(session, entries, notes, (host, times))
            return


def _names(note: str, host: str) -> bool:
    """Whether it speaks of this very site: by the name before the last dot."""
    name = _PLAIN.sub("", f".{host}".split(".")[-2].lower())
    return len(name) > 2 and name in _PLAIN.sub("", note.lower())


def _note(text: str) -> str:
    """What it says, where it says that something is repeated in vain."""
    for found in _NOTED.finditer(text[:8_000]):
        said = " ".join(found[1].split()).strip("' ,:;")
        if len(said.split()) >= 8 and not _NOT_SO.search(said) and _IN_VAIN.search(said):
            return said
    return ""


def _got_nowhere(
    session: Session, entries: Sequence[Entry], notes: dict[int, str], place: tuple[str, int]
) -> Finding:
    host, times = place
    told = [note for note in notes.values() if _names(note, host)]
    said = list(dict.fromkeys([*told[-1:], *list(notes.values())[-2:]]))[:2]
    listed = "\n".join(f"- “{short(note, 240)}”" for note in said)
    guidance = (
        f"What has not come off at {host} twice is not to be tried a third time: change the way "
        "(a direct address, another page, a file to download) or the source, and do not end with "
        "a guess."
    )
    return noted(
        session, "stuck", min(notes), max(notes), weight=0.5,
        title=f"Got nowhere at {host}: {at_home(said[0])}",
        description=f"When a task leads to {host}, as in: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe agent noted itself {len(notes)} times that it "
        f"repeated itself in vain:\n{listed}\n{host} was shown {times} times meanwhile."
        f"{_ended(entries)}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="GotNowhere",
            failure_pattern=short(f"{host}: {said[0]}", 500),
            corrective_guidance=guidance,
        ),
        tags=("stuck",),
    )  # fmt: skip


def _ended(entries: Sequence[Entry]) -> str:
    last = [e.text for e in entries[-3:] if isinstance(e, Turn)]
    time = " It ran out of time." if any(map(_OUT_OF_TIME.search, last)) else ""
    answers = [found[1].strip() for text in last for found in _ANSWERED.finditer(text[-2_000:])]
    return f"{time} Then it answered “{short(answers[-1], 80)}”." if answers else time

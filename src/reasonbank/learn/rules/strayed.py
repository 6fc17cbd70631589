"""A session that worked on something else than what it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.matters import stems
from reasonbank.learn.rules.task import gist, labelled
from reasonbank.learn.session import Call, Command, Edit, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

LEAST_WORDS = 6
"""A task of fewer words may well be met without any of them."""
MOST_WORDS = 60
"""A longer one quotes what nobody needs to say again."""
IN_COMMON = 0.2
MOST_TOLD = 40_000

_ERROR = compile(
    r"(?im)^\s*((?:error|\w{0,30}error|exitcode|unknown language|traceback)\b[^\n]{0,120})"
)


def strayed(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    asked = stems(session.given)
    acts = [entry for entry in entries if isinstance(entry, Command)]
    brief = entries[0] if entries else None
    # Only where the task is known from elsewhere can a session have lost it.
    if not LEAST_WORDS <= len(asked) <= MOST_WORDS or not acts:
        return
    if not isinstance(brief, Turn) or brief.by_user or not (errors := _errors(brief.text)):
        return
    done = stems(" ".join(_told(entry) for entry in entries)[:MOST_TOLD])
    if len(asked & done) > IN_COMMON * len(asked):
        return
    yield _other_task(session, brief, errors, acts[-1])


def _errors(brief: str) -> list[str]:
    """What it says to have failed; that something did is told by an exit code alone."""
    found = [" ".join(match[1].split()) for match in _ERROR.finditer(brief[:4_000])]
    return sorted(found, key=lambda error: error.lower().startswith("exit"))


def _told(entry: Entry) -> str:
    match entry:
        case Turn(text=text):
            return text[:4_000]
        case Command(command=command, output=output):
            return f"{command[:2_000]} {output[:1_000]}"
        case Call(arguments=arguments, answer=answer):
            return f"{arguments[:2_000]} {answer[:1_000]}"
        case Edit(path=path, change=change):
            return f"{path} {change[:2_000]}"


def _other_task(session: Session, brief: Turn, errors: list[str], last: Command) -> Finding:
    instead = labelled(brief.text, 240).partition(" #")[0].strip()
    error = short(errors[0], 120)
    guidance = (
        "An error of what runs the code, or of a helper, is not the task. Where a brief speaks of "
        "it and not of the question, go back to the question, put right the step that failed (a "
        "block without its language, a helper that is not there) and go on; do not write programs "
        "that show the same message, and do not call it solved."
    )
    return noted(
        session, "strayed", brief.number, last.number, weight=0.56,
        title=f"An error message was worked on instead of the question: {error}",
        description=f"When a brief says something else than the task, which was: {gist(session)}",
        content=f"Task: {gist(session)}\n\nInstead of it an error was handed on (“{error}”), and "
        f"this was worked on: “{instead}” Hardly a word of the task occurs in anything that was "
        f"done: the question was never looked at.\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="Strayed",
            failure_pattern="a brief about an error in place of the task",
            corrective_guidance=guidance,
        ),
        tags=("strayed",),
    )  # fmt: skip

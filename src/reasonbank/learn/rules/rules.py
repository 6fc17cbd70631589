"""Lessons without any model: what failed and was put right, what kept failing, what a user
corrected, what a tool refused, what the agent wrote about its mistakes, which policy it hung on.

A lesson needs three things in a session: a failure that can be named, something that changed,
and the same check passing afterwards. A check that fails and passes with nothing in between is
flaky and teaches nothing; so do commands that only look around, tests that were written to
fail, typing mistakes, and ways to skip a check instead of passing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reasonbank.learn.rules.calls import calls
from reasonbank.learn.rules.changes import only_new_lines, tells_nothing
from reasonbank.learn.rules.corrections import corrections
from reasonbank.learn.rules.fixes import put_right, replaced
from reasonbank.learn.rules.lesson import Finding, Run
from reasonbank.learn.rules.looking import looking
from reasonbank.learn.rules.missing import missing
from reasonbank.learn.rules.policies import policies
from reasonbank.learn.rules.printed import letter_by_letter, never_sent
from reasonbank.learn.rules.programs import is_program, programs
from reasonbank.learn.rules.records import records
from reasonbank.learn.rules.reflections import reflections
from reasonbank.learn.rules.strayed import strayed
from reasonbank.learn.rules.surroundings import surroundings
from reasonbank.learn.rules.unsolved import ended_in_failure, stubborn
from reasonbank.learn.rules.ways import ways
from reasonbank.learn.session import (
    LONGEST_POLICY,
    Call,
    Command,
    Edit,
    Entry,
    Session,
    Turn,
    told,
)
from reasonbank.model import Outcome

MOST_LESSONS = 3


def findings(session: Session, *, outcome: Outcome | None = None, since: int = 0) -> list[Finding]:
    """At most three, the best first; the same session gives the same lessons, with equal ids.

    ``outcome`` is how it ended, where the caller knows. ``since``: only those that end after so
    many steps.
    """
    entries = only_new_lines([_fit(entry) for entry in session.entries])
    session = replace(session, entries=tuple(entries), given=told(session.given))
    runs = _runs(entries)
    found = [
        *corrections(session, entries),
        *replaced(session, entries, runs),
        *put_right(session, entries, runs),
        *stubborn(session, entries, runs),
        *ended_in_failure(session, entries, runs, outcome),
        *programs(session, entries),
        *looking(session, entries),
        *letter_by_letter(session, entries),
        *never_sent(session, entries),
        *calls(session, entries, outcome),
        *records(session, entries, outcome),
        *missing(session, entries),
        *surroundings(session, entries),
        *ways(session, entries),
        *strayed(session, entries),
        *reflections(session, entries, outcome),
        *policies(session, entries, outcome),
    ]
    found = [lesson for lesson in found if lesson.last > since]
    found.sort(key=lambda lesson: (-lesson.weight, lesson.first))
    return _distinct(found)[:MOST_LESSONS]


def _runs(entries: Sequence[Entry]) -> list[Run]:
    """The command lines; a program that was run is none."""
    return [Run(e) for e in entries if isinstance(e, Command) and not is_program(e.command)]


def _fit(entry: Entry) -> Entry:
    match entry:
        case Turn(role="system", text=text):
            return replace(entry, text=told(text, LONGEST_POLICY))
        case Turn(text=text):
            return replace(entry, text=told(text))
        case Call(tool=tool, arguments=arguments, answer=answer):
            return replace(
                entry, tool=told(tool), arguments=told(arguments), answer=told(answer)
            )  # fmt: skip
        case Command(command=command, output=output):
            return replace(entry, command=told(command), output=told(output))
        case Edit(path=path, change=change):
            return replace(entry, path=told(path), change=told(change))


def _distinct(found: list[Finding]) -> list[Finding]:
    """One lesson for one error, and one for one stretch of the session."""
    kept: list[Finding] = []
    for lesson in found:
        if not any(
            _is_same(lesson, other) or (other.first <= lesson.first <= other.last
                                              and other.rule != "correction")
            for other in kept
        ):  # fmt: skip
            kept.append(lesson)
    return kept


def _is_same(one: Finding, other: Finding) -> bool:
    mine, its = one.memory.error_context, other.memory.error_context
    if mine is None or its is None:
        return one.memory.id == other.memory.id
    # What two rules found in the same words is one thing.
    said = mine.error_message if one.rule != other.rule else None
    return bool(said and said == its.error_message) or mine.failure_pattern == its.failure_pattern


def nothing_found(session: Session) -> str:
    """What was looked for in a session that taught nothing, and not found."""
    runs = _runs([_fit(entry) for entry in session.entries])
    failed = [
        run for run in runs if run.passed is False and not tells_nothing(run.what, run.failure)
    ]
    first = "no command failed and then passed"
    if failed:
        count, them = (
            ("1 command", "it") if len(failed) == 1 else (f"{len(failed)} commands", "them")
        )
        first = f"{count} failed, and nothing that was changed made {them} pass"
    return (
        f"{first}; no check kept failing; no clear error at the end; no correction by the user; "
        "no tool that said what it wants; no reflection of the agent; no policy that decided"
    )

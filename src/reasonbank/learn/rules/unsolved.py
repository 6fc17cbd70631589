"""What kept failing, and what a session ended with: warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.outcome import verdict, was_no_failure
from reasonbank.learn.rules.changes import as_edit
from reasonbank.learn.rules.failure import Failure
from reasonbank.learn.rules.lesson import Finding, Run, error_line, lesson, name_of, named, short
from reasonbank.learn.session import Entry, Session
from reasonbank.model import Outcome

_words = str.split

STUBBORN = 3
"""So many failures of one check in a row, and none passed after them, make a warning."""


def stubborn(session: Session, entries: Sequence[Entry], runs: list[Run]) -> Iterator[Finding]:
    last_pass: dict[str, int] = {}
    for run in runs:
        if run.passed:
            last_pass[run.what.program] = run.number
    for failed in _open(runs).values():
        last = failed[-1]
        # Something like it passed in the end.
        if len(failed) < STUBBORN or last_pass.get(last.what.program, 0) > last.number:
            continue
        if failure := last.failure:
            alike = [run for run in failed if run.failure and run.failure.type == failure.type]
            if len(alike) >= 2:
                yield _kept_failing(session, entries, failed, failure)


def _open(runs: list[Run]) -> dict[tuple[str, ...], list[Run]]:
    """The checks that failed and did not pass any more, each with its failures."""
    row: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if run.passed:
            row.pop(run.what.words, None)
        elif run.passed is False and not run.what.looks_around:
            row.setdefault(run.what.words, []).append(run)
    return row


def _kept_failing(
    session: Session, entries: Sequence[Entry], row: list[Run], failure: Failure
) -> Finding:
    line = row[-1].line
    tried = _tried(entries, row)
    return lesson(
        session, "stubborn", row[0], row[-1].number, failure, weight=0.7,
        title=f"`{short(line, 80)}` kept failing with {named(failure)}",
        guidance="Do not repeat it as it is; look for the cause of the error first."
        + (f" These changes did not help: {tried}." if tried else ""),
        content=f"`{line}` failed {len(row)} times in a row and never passed. "
        f"The last time:\n{error_line(failure)}"
        + (f"\n\nTried in vain: {tried}." if tried else ""),
        outcome=Outcome.FAILURE,
    )  # fmt: skip


def _tried(entries: Sequence[Entry], row: list[Run]) -> str:
    between = entries[row[0].number : row[-1].number]
    names = dict.fromkeys(name_of(e.path) for entry in between if (e := as_edit(entry)))
    return ", ".join(f"editing {name}" for name in list(names)[:4])


# What a session ended with.

_STYLE = frozenset(_words("ruff flake8 eslint prettier black pylint rubocop isort shellcheck"))


def ended_in_failure(
    session: Session, entries: Sequence[Entry], runs: list[Run], told: Outcome | None
) -> Iterator[Finding]:
    """One clear error that the session could not put right, where that was its task."""
    open = [run for row in _open(runs).values() for run in row]
    if not open or verdict(session, told=told).outcome is not Outcome.FAILURE:
        return
    if told is None and was_no_failure(session):
        return
    last = open[-1]
    failure = last.failure
    if failure is None or failure.vague or last.what.program in _STYLE:
        return
    later = [entry for entry in entries[last.number :] if as_edit(entry)]
    if later and told is None:
        return  # Perhaps that has put it right: nobody looked.
    if any(run.failure is None or run.failure.type != failure.type for run in open):
        return
    if len([run for run in open if run.repeats(last)]) < STUBBORN:
        yield _unsolved(session, entries, [run for run in open if run.repeats(last)], failure)


def _unsolved(
    session: Session, entries: Sequence[Entry], row: list[Run], failure: Failure
) -> Finding:
    last = row[-1]
    tried = _tried(entries, row)
    times = "" if len(row) == 1 else f" {len(row)} times"
    return lesson(
        session, "unsolved", row[0], last.number, failure, weight=0.5,
        title=f"`{short(last.line, 80)}` fails with {named(failure)}, and was not put right",
        guidance="Expect this error, and look for its cause before anything else."
        + (f" These changes did not help: {tried}." if tried else ""),
        content=f"`{last.line}` failed{times} and the session ended with it:\n"
        f"{error_line(failure)}" + (f"\n\nTried in vain: {tried}." if tried else ""),
        outcome=Outcome.FAILURE,
    )  # fmt: skip

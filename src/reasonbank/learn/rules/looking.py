"""A program that ran and found nothing, and what was changed until it found something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.programs import (
    ALIKE,
    MOST_PROGRAMS,
    Program,
    changed,
    diff,
    is_no_remedy,
    is_program,
)
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Command, Entry, Session
from reasonbank.model import Outcome
from reasonbank.safety.patterns import compile

SHORT = 200
MOST_LINES = 14
NEXT = 6
"""So many of the programs after it are compared."""

_NOTHING = compile(
    r"(?i)\A\s*(?:no (?:[\w'\"-]+ ){1,6}(?:were |was )?(?:found|available|match\w*)|none found|"
    r"\[\]|\{\}|none\z|0\z|0 \w+ found|found 0 \w+|nothing found|empty dataframe)"
)
# What was counted or listed, under the name that the program gave it.
_VALUE = compile(r"(?m)^\s*([^\n:=]{4,80})[:=]\s*([^\n]{1,200}?)\s*$")
_NO_VALUE = frozenset(["0", "[]", "{}", "none", "set()", "0.0", "nan"])


def looking(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    found = [Program(e) for e in entries if isinstance(e, Command) and is_program(e.command)]
    found = found[-MOST_PROGRAMS:]
    for place, program in enumerate(found):
        if not _nothing(program):
            continue
        for later in found[place + 1 : place + NEXT]:
            if lines := _made_the_difference(program, later):
                yield _found(session, program, later, lines)
                return


def _nothing(program: Program) -> bool:
    said = program.command.output.strip()
    if program.command.exit_code != 0 or len(said) > SHORT:
        return False
    return bool(_NOTHING.match(said) or _empty(program))


def _empty(program: Program) -> set[str]:
    """The names under which it printed that there is nothing."""
    told = _VALUE.findall(program.command.output[: 2 * SHORT])
    return {name for name, value in told if value.lower() in _NO_VALUE}


def _made_the_difference(program: Program, later: Program) -> tuple[list[str], list[str]] | None:
    """The lines that are no more and those that are new, where they are few and it found some."""
    if not later.ran or not later.command.output.strip() or _nothing(later):
        return None
    empty = _empty(program)
    if empty and not empty & {name for name, _ in _VALUE.findall(later.command.output[:2_000])}:
        return None
    if SequenceMatcher(None, program.lines, later.lines).quick_ratio() < ALIKE:
        return None
    gone, new = changed(program.lines, later.lines)
    few = new and len(gone) + len(new) <= MOST_LINES
    return (gone, new) if few and not is_no_remedy(later, new) else None


def _found(
    session: Session, program: Program, later: Program, lines: tuple[list[str], list[str]]
) -> Finding:
    printed = program.command.output.splitlines()
    empty = [line for line in printed if any(name in line for name in _empty(program))]
    said = short(" ".join(" ".join(empty or printed).split()), 120)
    return noted(
        session, "found", program.command.number, later.command.number, weight=0.6,
        title=f"“{said}” until the program had `{short(lines[1][0], 80)}`",
        description=f"When a program finds nothing, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nA program ran, and printed: {said}\n\nIt found "
        f"something after this change:\n{diff(lines)}\n\nThat it found something was seen; its "
        "result was not checked.",
        outcome=Outcome.SUCCESS,
    )  # fmt: skip

"""What failed and was put right: by another command, or by what was changed in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

from reasonbank.learn.rules.changes import Change, Failed, as_edit, between, tells_nothing
from reasonbank.learn.rules.corrections import names_in
from reasonbank.learn.rules.failure import Failure
from reasonbank.learn.rules.lesson import Finding, Run, error_line, lesson, name_of, named, short
from reasonbank.learn.rules.programs import invents
from reasonbank.learn.rules.shell import Invocation, invocation, is_test_file, kind_of_check
from reasonbank.learn.session import Command, Edit, Entry, Session, Turn
from reasonbank.safety.patterns import compile

_words = str.split

FAR = 12
"""How many steps may lie between a command and the one that took its place."""
MOST_FIXES, LONGEST_STRETCH = 40, 60
"""So many pairs of a failure and its end are looked at, and so many steps before the end."""
MOST_CHANGES = 5
"""So many candidates for a remedy are named, those that have to do with the failure first."""

# A changed command, where the first way failed.

_EVADING = compile(
    r"^(?:--no-verify|--ignore\S*|--deselect\S*|-k|-m|--skip\S*|--exclude\S*|--exit-zero|--force|-f|"
    r"--force-with-lease|--help|-h|--version|-v+|-q+|--verbose|--quiet|--no-strict|--tb\S*|-x|-s|"
    r"--maxfail\S*|--|--lf|--dry-run|--list|--no-fail\S*|--passWithNoTests|-p|--last-failed|"
    r"-DskipTests\S*|-Dmaven\.test\.skip\S*)$"
)


def replaced(session: Session, entries: Sequence[Entry], runs: list[Run]) -> Iterator[Finding]:
    for position, failed in enumerate(runs):
        if failed.passed is not False or failed.what.looks_around:
            continue
        failure = failed.failure
        if failure is None or failure.only_a_test:
            continue
        better = _better(failed, runs[position + 1 :])
        if better is None:
            continue
        said = _failed_with(failed, failure)
        steps = between(entries[failed.number : better.number - 1], _as_failed(failed)) or []
        beside = [change.line for change in steps if change.related][-MOST_CHANGES:]
        also = f"\n\nDone before that, and perhaps part of it: {_listed(beside)}" if beside else ""
        yield lesson(
            session, "replaced", failed, better.number, failure, weight=0.85,
            title=f"Use `{better.line}` where `{failed.line}` fails with {_type(failure)}",
            guidance=f"Run `{better.line}` instead of `{failed.line}`.",
            content=f"{said}\n\nWhat worked: `{better.line}`.{also}",
        )  # fmt: skip


def _type(failure: Failure) -> str:
    return named(failure) if failure.vague else failure.type


def _failed_with(failed: Run, failure: Failure) -> str:
    return f"`{failed.line}` failed with:\n{error_line(failure)}"


def _as_failed(run: Run) -> Failed:
    return Failed(what=run.what, told=f"{run.command.command}\n{run.command.output}")


def _better(failed: Run, later: list[Run]) -> Run | None:
    """The command that did what ``failed`` could not: another way to the same end."""
    for run in later:
        if run.number - failed.number > FAR or (run.repeats(failed) and not _around(failed, run)):
            return None
        if run.passed and not run.what.looks_around and _another_way(failed, run):
            return run
    return None


def _around(failed: Run, run: Run) -> bool:
    """Whether the same was run in other surroundings."""
    old, new = failed.what, run.what
    return old.around != new.around or _one_part_differs(old.before, new.before)


def _one_part_differs(old: Sequence[tuple[str, ...]], new: Sequence[tuple[str, ...]]) -> bool:
    different = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    return len(old) == len(new) and len(different) == 1 and different[0][0][0] == different[0][1][0]


def _another_way(failed: Run, run: Run) -> bool:
    old, new = failed.what, run.what
    if new.masked and not kind_of_check(new):
        return False
    if old.words == new.words and _one_part_differs(old.before, new.before):
        return True
    added = [word for word in (*new.around, *new.words) if word not in (*old.around, *old.words)]
    if not added or any(_EVADING.match(word) for word in added):
        return False
    if old.words == new.words:
        return True  # With another wrapper, or with a variable set.
    if kind_of_check(old) == "tests" and len(new.words) > len(old.words):
        return False  # Fewer tests, most likely.
    if _misspelt(failed, new):
        return False
    operands = [w for w in old.words[1:] if not w.startswith("-")]
    kept = [w for w in operands if w in new.words]
    if old.program != new.program:
        # Another tool for the same thing: it must be asked for the very same.
        return bool(operands) and kept == operands and len(new.words) <= len(old.words) + 2
    flags = any(word.startswith("-") or "=" in word for word in added)
    return flags and len(kept) * 2 >= len(operands) and len(kept) == len(operands)


def _misspelt(failed: Run, new: Invocation) -> bool:
    """`pyhton` for `python`: nobody learns from that."""
    old = failed.what
    alike = SequenceMatcher(None, old.text, new.text).ratio() > 0.8
    unknown = failed.failure is not None and failed.failure.type in (
        "CommandNotFound",
        "UsageError",
    )
    same_length = len(old.words) == len(new.words)
    return unknown and alike and same_length and sorted(old.program) == sorted(new.program)


# The same check, failing and then passing, and what was changed in between.


def put_right(session: Session, entries: Sequence[Entry], runs: list[Run]) -> Iterator[Finding]:
    for before, fixed in islice(_pairs(runs), MOST_FIXES):
        if failure := before[-1].failure:
            yield from _fix(session, entries, before, fixed, failure)


def _pairs(runs: list[Run]) -> Iterator[tuple[list[Run], Run]]:
    """The failures of a check in a row, and the run that ended them."""
    row: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if run.passed is None:
            continue
        if run.passed:
            for key in _passed_with(run, row):
                yield row.pop(key), run
        elif not tells_nothing(run.what, run.failure):
            row.setdefault(_check(run), []).append(run)
            if len(row) > MOST_FIXES:
                del row[next(iter(row))]


_TALK = frozenset(_words("-v -vv -q -s -x --verbose --quiet --tb=short --tb=long --tb=line"))


def _check(run: Run) -> tuple[str, ...]:
    """What is checked, however much is said about it."""
    return tuple(word for word in run.what.words if word not in _TALK)


def _passed_with(run: Run, row: dict[tuple[str, ...], list[Run]]) -> list[tuple[str, ...]]:
    """What failed before and passes now: the same, and of tests what is part of the whole."""
    check = _check(run)
    if run.verifies != "tests":
        return [check] if check in row else []
    return [key for key in row if key == check or key[: len(check)] == check]


def _fix(
    session: Session, entries: Sequence[Entry], before: list[Run], fixed: Run, failure: Failure
) -> Iterator[Finding]:
    failed = before[-1]
    first = max(failed.number, fixed.number - 1 - LONGEST_STRETCH)
    changes = between(entries[first : fixed.number - 1], _as_failed(failed))
    if not changes:
        return
    edits = [change for change in changes if change.is_edit]
    if edits and (
        _written_to_fail(entries, before, edits)
        or _own_slip(entries, failed, failure, edits)
        or _is_no_remedy(failed, edits)
    ):
        return
    chosen = _chosen(changes)
    if len(chosen) == 1 and edits:
        yield _edited(session, failed, fixed, edits[-1], failure)
    elif len(chosen) == 1:
        yield _prepared(session, failed, fixed, chosen[0], failure)
    else:
        yield _one_of(session, failed, fixed, chosen, failure)


def _chosen(changes: list[Change]) -> list[Change]:
    """Those that have to do with the failure, the latest of them; any, where none has."""
    related = [change for change in changes if change.related]
    return (related or changes)[-MOST_CHANGES:]


def _prepared(
    session: Session, failed: Run, fixed: Run, change: Change, failure: Failure
) -> Finding:
    remedy = short(change.line, 300)
    return lesson(
        session, "prepared", failed, fixed.number, failure, weight=0.8,
        title=f"Run `{short(remedy, 70)}` when `{short(failed.line, 50)}` fails with "
        f"{named(failure, 60)}",
        guidance=f"Run `{remedy}`{change.aside} first.",
        content=f"{_failed_with(failed, failure)}\n\n"
        f"After `{remedy}`{change.aside}, {_same(failed, fixed)} passed.",
    )  # fmt: skip


def _same(failed: Run, fixed: Run) -> str:
    return "the same command" if failed.line == fixed.line else f"`{fixed.line}`"


MOST_LINES = 8
"""More lines of a change than that are a listing, and no lesson."""


def _quoted(edit: Change, failure: Failure) -> str:
    """The change if it is small; else those of its lines that speak of what failed."""
    lines = [line.rstrip() for line in edit.quoted.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        names = names_in(failure.message)
        lines = [line for line in lines if names & names_in(line)][:MOST_LINES]
    return short("\n".join(short(line, 160) for line in lines), 600)


def _unchecked(failed: Run) -> str:
    """What a program that ends well does not show."""
    checks = kind_of_check(failed.what) or failed.what.program not in _INTERPRETERS
    return "" if checks else "\n\nThat it ran was seen; its result was not checked."


_INTERPRETERS = frozenset(_words("python python3 node ruby perl php Rscript julia"))


def _edited(session: Session, failed: Run, fixed: Run, edit: Change, failure: Failure) -> Finding:
    path = name_of(edit.path)
    quoted = _quoted(edit, failure)
    return lesson(
        session, "edited", failed, fixed.number, failure, weight=0.55 - 0.2 * failure.vague,
        title=f"`{short(failed.line, 60)}` fails with {named(failure)}: fixed in {path}",
        guidance=f"Look at {path}; this change made the check pass:\n{quoted}"
        if quoted else f"Look at {path}: changing it made the check pass.",
        content=f"{_failed_with(failed, failure)}\n\nIt passed after a change of {path}"
        + (f":\n{quoted}" if quoted else ".") + _unchecked(failed),
    )  # fmt: skip


def _one_of(
    session: Session, failed: Run, fixed: Run, changes: list[Change], failure: Failure
) -> Finding:
    """Nobody can tell which of them it was, and the lesson does not claim to."""
    edits = [change for change in changes if change.is_edit]
    lines = [_told(change, failure) for change in changes]
    rule, weight = ("edited", 0.45) if edits else ("prepared", 0.75)
    briefly = [name_of(c.path) if c.is_edit else f"`{short(c.line, 40)}`" for c in changes]
    return lesson(
        session, rule, failed, fixed.number, failure,
        weight=weight - 0.1 * (failure.vague and bool(edits)),
        title=f"`{short(failed.line, 50)}` fails with {named(failure, 60)}: one of "
        f"{', '.join(briefly)} helped",
        guidance=f"One of these, or several together, made it pass:\n{_listed(lines)}",
        content=f"{_failed_with(failed, failure)}\n\nAfter one of these, or several together, "
        f"{_same(failed, fixed)} passed:\n{_listed(lines)}{_unchecked(failed)}",
    )  # fmt: skip


def _told(change: Change, failure: Failure) -> str:
    if not change.is_edit:
        return f"`{short(change.line, 300)}`{change.aside}"
    quoted = short(_quoted(change, failure), 400)
    return f"a change of {name_of(change.path)}" + (f": {quoted}" if quoted else "")


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _is_no_remedy(failed: Run, edits: list[Change]) -> bool:
    """Whether what runs is another program, or one whose data are no longer real."""
    return failed.what.program in _INTERPRETERS and any(
        edit.anew or invents(edit.quoted) for edit in edits
    )


_SLIPS = frozenset({"SyntaxError", "IndentationError", "TabError", "NameError"})


def _own_slip(entries: Sequence[Entry], failed: Run, failure: Failure, edits: list[Change]) -> bool:
    """A slip in what the session itself has just written: nobody learns from that."""
    wrote = {e.path for entry in entries[: failed.number - 1] if (e := as_edit(entry))}
    return failure.type in _SLIPS and all(edit.path in wrote for edit in edits)


def _written_to_fail(entries: Sequence[Entry], before: list[Run], edits: list[Change]) -> bool:
    """A test that is written first fails until there is something to test."""
    since: list[Edit] = []
    for entry in reversed(entries[: before[0].number - 1]):
        if isinstance(entry, Edit):
            since.append(entry)
        elif (isinstance(entry, Command) and not invocation(entry).looks_around) or (
            isinstance(entry, Turn) and entry.by_user
        ):
            break
    wrote_tests = any(is_test_file(edit.path) for edit in since)
    return wrote_tests and not all(is_test_file(edit.path) for edit in edits)

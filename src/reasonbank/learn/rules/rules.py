"""Lessons without any model: what failed and was put right, what kept failing, what a user
corrected.

A lesson needs three things in a session: a failure that can be named, something that changed,
and the same check passing afterwards. A check that fails and passes with nothing in between is
flaky and teaches nothing; so do commands that only look around, tests that were written to
fail, typing mistakes, and ways to skip a check instead of passing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property

from reasonbank.fields import LIMITS
from reasonbank.learn.outcome import passed
from reasonbank.learn.rules.corrections import correction
from reasonbank.learn.rules.failure import Failure, failure_of
from reasonbank.learn.rules.shell import Invocation, invocation, kind_of_check
from reasonbank.learn.session import Command, Edit, Entry, Session, Turn, told
from reasonbank.model import ErrorContext, Memory, Outcome, Source, derived_id
from reasonbank.safety.patterns import compile

MOST_LESSONS = 3
STUBBORN = 3
"""So many failures of one check in a row, and none passed after them, make a warning."""
FAR = 12
"""How many steps may lie between a command and the one that took its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A memory, and the steps of the session that it was drawn from."""

    memory: Memory
    rule: str
    first: int
    last: int
    weight: float


def findings(session: Session, *, since: int = 0) -> list[Finding]:
    """At most three, the best first; the same session gives the same lessons, with equal ids.

    ``since``: only those that end after so many steps.
    """
    entries = [_fit(entry) for entry in session.entries]
    runs = [_Run(entry) for entry in entries if isinstance(entry, Command)]
    found = [
        *_corrections(session, entries),
        *_replaced(session, entries, runs),
        *_put_right(session, entries, runs),
        *_stubborn(session, entries, runs),
    ]
    found = [lesson for lesson in found if lesson.last > since]
    found.sort(key=lambda lesson: (-lesson.weight, lesson.first))
    return _distinct(found)[:MOST_LESSONS]


def _fit(entry: Entry) -> Entry:
    match entry:
        case Turn(text=text):
            return replace(entry, text=told(text))
        case Command(command=command, output=output):
            return replace(entry, command=told(command), output=told(output))
        case Edit(path=path, change=change):
            return replace(entry, path=told(path), change=told(change))


def _distinct(found: list[Finding]) -> list[Finding]:
    """One lesson for one error, and one for one stretch of the session."""
    kept: list[Finding] = []
    for lesson in found:
        pattern = _pattern_of(lesson)
        if not any(
            _pattern_of(other) == pattern or (other.first <= lesson.first <= other.last
                                              and other.rule != "correction")
            for other in kept
        ):  # fmt: skip
            kept.append(lesson)
    return kept


def _pattern_of(lesson: Finding) -> str:
    error = lesson.memory.error_context
    return error.failure_pattern if error else lesson.memory.id


class _Run:
    """A command together with what it means."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.what = invocation(command)
        self.passed = passed(command)
        self.number = command.number

    @cached_property
    def failure(self) -> Failure | None:
        return failure_of(self.command.output)

    def repeats(self, other: _Run) -> bool:
        return bool(self.what.words) and self.what.words == other.what.words

    @property
    def line(self) -> str:
        """The command as it goes into a lesson."""
        last = (*self.what.around, *self.what.words)
        return _short(_at_home(" && ".join(map(" ".join, (*self.what.before, last)))), 160)


# A changed command, where the first way failed.

_EVADING = compile(
    r"^(?:--no-verify|--ignore\S*|--deselect\S*|-k|-m|--skip\S*|--exclude\S*|--exit-zero|--force|-f|"
    r"--force-with-lease|--help|-h|--version|-v+|-q+|--verbose|--quiet|--no-strict|--tb\S*|-x|-s|"
    r"--maxfail\S*|--|--lf|--dry-run|--list|--no-fail\S*|--passWithNoTests|-p|--last-failed)$"
)


def _replaced(session: Session, entries: Sequence[Entry], runs: list[_Run]) -> Iterator[Finding]:
    for position, failed in enumerate(runs):
        if failed.passed is not False or failed.what.looks_around:
            continue
        failure = failed.failure
        if failure is None or failure.type in ("TestFailure", "AssertionError"):
            continue
        better = _better(failed, runs[position + 1 :])
        if better is None:
            continue
        yield _lesson(
            session, "replaced", failed, better.number, failure, weight=0.85,
            title=f"Use `{better.line}` where `{failed.line}` fails with {failure.type}",
            guidance=f"Run `{better.line}` instead of `{failed.line}`.",
            content=f"`{failed.line}` failed here with:\n{failure.pattern}\n\n"
            f"What worked: `{better.line}`.",
        )  # fmt: skip


def _better(failed: _Run, later: list[_Run]) -> _Run | None:
    """The command that did what ``failed`` could not: another way to the same end."""
    for run in later:
        if run.number - failed.number > FAR or (run.repeats(failed) and not _around(failed, run)):
            return None
        if run.passed and _another_way(failed, run):
            return run
    return None


def _around(failed: _Run, run: _Run) -> bool:
    """Whether the same was run in other surroundings."""
    old, new = failed.what, run.what
    return old.around != new.around or _one_part_differs(old.before, new.before)


def _one_part_differs(old: Sequence[tuple[str, ...]], new: Sequence[tuple[str, ...]]) -> bool:
    different = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    return len(old) == len(new) and len(different) == 1 and different[0][0][0] == different[0][1][0]


def _another_way(failed: _Run, run: _Run) -> bool:
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


def _misspelt(failed: _Run, new: Invocation) -> bool:
    """`pyhton` for `python`: nobody learns from that."""
    old = failed.what
    alike = SequenceMatcher(None, old.text, new.text).ratio() > 0.8
    unknown = failed.failure is not None and failed.failure.type in (
        "CommandNotFound",
        "UsageError",
    )
    same_length = len(old.words) == len(new.words)
    return unknown and alike and same_length and sorted(old.program) == sorted(new.program)


# The same check, failing and then passing, and what was done in between.

_ESTABLISHING = compile(
    r"\b(?:install|add|sync|up|start|migrate|upgrade|pull|fetch|init|create|generate|login|build|"
    r"compile|restart|enable|chmod|chown|createdb|mkdir|submodule|lfs|bootstrap|seed|restore|codegen|"
    r"gen|protoc|prisma)\b"
)
_WRITING = compile(r"\bsed\s+-i|\bperl\s+-p?i|\bgit\s+apply|\bpatch\s+-p|>\s*\S+\s*<<|\btee\s+\S")
_A_FILE = compile(r"\w\.\w+$")
_OBJECTION = compile(r"(?i)^(?:ugh|no+|nope|wrong|stop|actually)\b[,.! ]*")
_HOME = compile(r"(?:/home|/Users)/[^/\s\"']+")
_TEST_FILE = compile(r"(?i)(?:^|[/_.-])(?:tests?|specs?|__tests__)(?:[/_.-]|$)")


def _put_right(session: Session, entries: Sequence[Entry], runs: list[_Run]) -> Iterator[Finding]:
    row: dict[tuple[str, ...], list[_Run]] = {}
    for run in runs:
        if run.passed is None or run.what.looks_around:
            continue
        before = row.setdefault(run.what.words, [])
        if not run.passed:
            before.append(run)
            continue
        del row[run.what.words]
        if before and (failure := before[-1].failure):
            yield from _fix(session, entries, before, run, failure)


def _fix(
    session: Session, entries: Sequence[Entry], before: list[_Run], fixed: _Run, failure: Failure
) -> Iterator[Finding]:
    failed = before[-1]
    between = entries[failed.number : fixed.number - 1]
    edits = [edit for entry in between if (edit := _as_edit(entry))]
    steps = [_Run(entry) for entry in between if isinstance(entry, Command)]
    established = [run for run in steps if run.passed and _establishes(run.what)]
    if established and not edits:
        yield _prepared(session, failed, fixed, established, failure)
    elif edits and not _written_to_fail(entries, before, edits):
        yield _edited(session, failed, fixed, edits, failure)


def _establishes(what: Invocation) -> bool:
    if what.program == "git":
        return what.words[1:2] in (("submodule",), ("lfs",))
    return bool(_ESTABLISHING.search(what.text))


def _as_edit(entry: Entry) -> Edit | None:
    """Some agents edit with commands."""
    if isinstance(entry, Command) and entry.exit_code == 0 and _WRITING.search(entry.command):
        path = next((w for w in reversed(invocation(entry).words) if _A_FILE.search(w)), "")
        return Edit(number=entry.number, path=path, change=entry.command) if path else None
    return entry if isinstance(entry, Edit) else None


def _prepared(
    session: Session, failed: _Run, fixed: _Run, established: list[_Run], failure: Failure
) -> Finding:
    remedy = " && ".join(dict.fromkeys(run.line for run in established[-2:]))
    return _lesson(
        session, "prepared", failed, fixed.number, failure, weight=0.8,
        title=f"Run `{_short(remedy, 80)}` when `{_short(failed.line, 60)}` fails with "
        f"{failure.type}",
        guidance=f"Run `{remedy}` first.",
        content=f"`{failed.line}` failed with:\n{failure.pattern}\n\n"
        f"After `{remedy}` the same command passed.",
    )  # fmt: skip


def _edited(
    session: Session, failed: _Run, fixed: _Run, edits: list[Edit], failure: Failure
) -> Finding:
    paths = list(dict.fromkeys(_name(edit.path) for edit in edits))
    change = _short(edits[-1].change.strip(), 600)
    vague = failure.type in ("AssertionError", "TestFailure", "error")
    return _lesson(
        session, "edited", failed, fixed.number, failure,
        weight=0.6 - 0.2 * vague - 0.05 * min(len(paths), 4),
        title=f"{failure.type} in `{_short(failed.line, 60)}`: fixed in {', '.join(paths[:3])}",
        guidance=f"Look at {', '.join(paths[:5])}; this change made the check pass:\n{change}"
        if change else f"Look at {', '.join(paths[:5])}: changing it made the check pass.",
        content=f"`{failed.line}` failed with:\n{failure.pattern}\n\n"
        f"It passed after a change of {', '.join(paths[:5])}" + (f":\n{change}" if change else "."),
    )  # fmt: skip


def _written_to_fail(entries: Sequence[Entry], before: list[_Run], edits: list[Edit]) -> bool:
    """A test that is written first fails until there is something to test."""
    since: list[Edit] = []
    for entry in reversed(entries[: before[0].number - 1]):
        if isinstance(entry, Edit):
            since.append(entry)
        elif (isinstance(entry, Command) and not invocation(entry).looks_around) or (
            isinstance(entry, Turn) and entry.by_user
        ):
            break
    wrote_tests = any(_TEST_FILE.search(edit.path) for edit in since)
    return wrote_tests and not all(_TEST_FILE.search(edit.path) for edit in edits)


# A check that kept failing.


def _stubborn(session: Session, entries: Sequence[Entry], runs: list[_Run]) -> Iterator[Finding]:
    row: dict[tuple[str, ...], list[_Run]] = {}
    last_pass: dict[str, int] = {}
    for run in runs:
        if run.passed:
            row.pop(run.what.words, None)
            last_pass[run.what.program] = run.number
        elif run.passed is False and not run.what.looks_around:
            row.setdefault(run.what.words, []).append(run)
    for failed in row.values():
        last = failed[-1]
        # Something like it passed in the end.
        if len(failed) < STUBBORN or last_pass.get(last.what.program, 0) > last.number:
            continue
        if failure := last.failure:
            alike = [run for run in failed if run.failure and run.failure.type == failure.type]
            if len(alike) >= 2:
                yield _kept_failing(session, entries, failed, failure)


def _kept_failing(
    session: Session, entries: Sequence[Entry], row: list[_Run], failure: Failure
) -> Finding:
    line = row[-1].line
    tried = _tried(entries, row)
    return _lesson(
        session, "stubborn", row[0], row[-1].number, failure, weight=0.7,
        title=f"`{_short(line, 80)}` kept failing with {failure.type}",
        guidance="Do not repeat it as it is; look for the cause of the error first."
        + (f" These changes did not help: {tried}." if tried else ""),
        content=f"`{line}` failed {len(row)} times in a row and never passed. "
        f"The last time:\n{failure.pattern}" + (f"\n\nTried in vain: {tried}." if tried else ""),
        outcome=Outcome.FAILURE,
    )  # fmt: skip


def _tried(entries: Sequence[Entry], row: list[_Run]) -> str:
    between = entries[row[0].number : row[-1].number]
    names = dict.fromkeys(_name(e.path) for e in between if isinstance(e, Edit))
    return ", ".join(f"editing {name}" for name in list(names)[:4])


# What a user corrected.


def _corrections(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    acted = False
    last: Command | Edit | None = None
    for entry in entries:
        if not isinstance(entry, Turn):
            acted, last = True, entry
            continue
        if not entry.by_user:
            acted = True
            continue
        if acted and (said := correction(entry.text)):
            yield _corrected(session, entry, said, last)
        acted, last = False, None


def _corrected(session: Session, turn: Turn, said: str, last: Command | Edit | None) -> Finding:
    did, first = "the agent's last answer", turn.number - 1
    match last:
        case Command(command=command, number=first):
            did = f"running `{_short(_at_home(command), 120)}`"
        case Edit(path=path, number=first):
            did = f"the edit of {_name(path)}"
    error = ErrorContext(
        error_type="UserCorrection",
        failure_pattern=f"the user objected to {did}",
        corrective_guidance=said,
    )
    gist = _OBJECTION.sub("", said) or said
    memory = Memory(
        id=_id(session, "correction", turn.number),
        title=_short(f"As the user wants it: {gist}", LIMITS.title),
        description=_short(f"Before {did} or the like: the user corrected it", LIMITS.description),
        content=f"After {did}, the user said: {said}",
        outcome=Outcome.FAILURE,
        error_context=error,
        source=Source.DISTILLED,
        source_session=session.id[: LIMITS.label],
        tags=("user-correction",),
    )
    return Finding(
        memory=memory, rule="correction", first=max(1, first), last=turn.number, weight=0.9
    )


# How a lesson is written down.


def _lesson(
    session: Session, rule: str, failed: _Run, last: int, failure: Failure, *,
    weight: float, title: str, guidance: str, content: str, outcome: Outcome = Outcome.SUCCESS,
) -> Finding:  # fmt: skip
    error = ErrorContext(
        error_type=failure.type,
        failure_pattern=_short(failure.pattern, 500),
        corrective_guidance=_short(guidance, 1_500),
        error_message=_at_home(failure.message) or None,
    )
    tags = dict.fromkeys(tag for tag in (failed.what.program[:64], failure.type[:64]) if tag)
    memory = Memory(
        id=_id(session, rule, last),
        title=_short(title, LIMITS.title),
        description=_short(
            f"When `{_short(failed.line, 120)}` fails with {failure.pattern}", LIMITS.description
        ),
        content=content,
        outcome=outcome,
        error_context=error,
        source=Source.DISTILLED,
        source_session=session.id[: LIMITS.label],
        tags=tuple(tags),
    )
    return Finding(memory=memory, rule=rule, first=failed.number, last=last, weight=weight)


def _id(session: Session, rule: str, position: int) -> str:
    return derived_id(f"{session.agent}/{session.id}/{rule}/{position}")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _name(path: str) -> str:
    """The last two parts of a path say enough, and nothing about the machine."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _at_home(command: str) -> str:
    return _HOME.sub("~", " ".join(command.split()))

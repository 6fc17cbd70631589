"""How a session ended, as far as it can be verified: no model, no opinion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reasonbank.learn.rules.changes import as_edit, only_reads
from reasonbank.learn.rules.shell import invocation, kind_of_check
from reasonbank.learn.session import Command, Edit, Session, Turn
from reasonbank.ledger.sessions import TAKEN_BACK
from reasonbank.model import Outcome
from reasonbank.safety.patterns import brief, compile, spaced


class Basis(StrEnum):
    """What an outcome rests on, the most telling first."""

    CALLER = "the caller's word"
    REVERT = TAKEN_BACK
    TESTS = "tests"
    BUILD = "a build or a linter"
    EXIT_CODE = "an exit code"
    CORRECTION = "the user's correction"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedOutcome:
    """``outcome`` is None where nothing verifiable happened: then a judge may decide."""

    outcome: Outcome | None
    basis: Basis | None
    reason: str


def verdict(session: Session, *, told: Outcome | None = None) -> VerifiedOutcome:
    """The outcome of a session; ``told`` is the caller's word, which outranks all else."""
    if told is not None:
        return VerifiedOutcome(outcome=told, basis=Basis.CALLER, reason=f"the caller said {told}")
    if revert := reverted(session):
        reason = f"`{revert.command[:80]}` took the work back (step {revert.number})"
        return VerifiedOutcome(outcome=Outcome.FAILURE, basis=Basis.REVERT, reason=reason)
    for basis, checks in _checks(session).items():
        if checks:
            return _judged(session, basis, checks)
    if last := _ended_in_failure(session):
        reason = f"`{last.command[:80]}` (step {last.number}) ended with {last.exit_code}"
        return VerifiedOutcome(outcome=Outcome.FAILURE, basis=Basis.EXIT_CODE, reason=reason)
    return VerifiedOutcome(outcome=None, basis=None, reason="no test, build or revert tells")


_STOPPED = (124, 129, 130, 137, 143)
_WANTED = brief(
    r"(?i)\b(?:reproduc\w*|repro|expected|as (?:it|they) should|should fail|shall fail|"
    r"failing test|test first|tests first|tdd)\b",
    4_000,
)


def _ended_in_failure(session: Session) -> Command | None:
    """The last command that did something, if it failed and nothing was done about it.

    That one ends well proves nothing, and so does the failure of what the session wrote itself.
    """
    acting = [c for c in session.commands() if not only_reads(invocation(c))]
    if not acting or was_no_failure(session):
        return None
    last = acting[-1]
    code = None if invocation(last).masked else last.exit_code
    edits = [edit for entry in session.entries if (edit := as_edit(entry))]
    own = any(edit.path.rpartition("/")[2] in last.command for edit in edits)
    done_since = any(edit.number > last.number for edit in edits)
    return last if code and code not in _STOPPED and not own and not done_since else None


def was_no_failure(session: Session) -> bool:
    """Whether a question was asked, or a failure wanted: then one is no failure of the task."""
    said = [entry.text for entry in session.entries if isinstance(entry, Turn)]
    return session.task.rstrip().endswith("?") or any(_WANTED.search(text) for text in said)


_REVERT = compile(
    r"\bgit\s+(?:-C\s+\S+\s+)?(?:revert\b|reset\s+--hard|checkout\s+(?:HEAD\s+)?(?:--\s+)?\.(?:\s|$)"
    r"|restore\s+(?:--\S+\s+)*\.(?:\s|$))"
)
_RESTORE = compile(r"\bgit\s+(?:-C\s+\S+\s+)?(?:checkout|restore)\s")
_HARMLESS_EDIT = (".md", ".rst", ".txt", "CHANGELOG")


def _reverts(command: str) -> bool:
    return bool(_REVERT.search(command)) and "--abort" not in command


def takes_back(command: Command) -> bool:
    """Whether it may have undone what was edited before it."""
    return command.exit_code == 0 and bool(
        _reverts(command.command) or _RESTORE.search(command.command)
    )


def reverted(session: Session) -> Command | None:
    """The command that undid what was edited before it, if nothing was edited after it."""
    edits = [edit for entry in session.entries if (edit := as_edit(entry))]
    last_edit = max((edit.number for edit in edits), default=0)
    later = [c for c in session.commands() if c.number > last_edit > 0 and c.exit_code == 0]
    whole = [command for command in later if _reverts(command.command)]
    if whole:
        return whole[-1]
    paths = {edit.path for edit in edits}
    restored = [c for c in later if _RESTORE.search(c.command)]
    named = {word for command in restored for word in command.command.split()}
    all_named = all(not named.isdisjoint(_ways_to_name(path)) for path in paths)
    return restored[-1] if restored and all_named else None


def _ways_to_name(path: str) -> set[str]:
    parts = path.split("/")[-20:]
    return {path, *("/".join(parts[n:]) for n in range(len(parts)))}


def _checks(session: Session) -> dict[Basis, dict[str, tuple[Command, bool]]]:
    """By basis and program, the last run whose end is known; a later run supersedes.

    A script of the agent's own that ends well proves nothing: of 67 sessions that failed their
    task and had one, 37 ended with it passing.
    """
    found: dict[Basis, dict[str, tuple[Command, bool]]] = {Basis.TESTS: {}, Basis.BUILD: {}}
    for command in session.commands():
        what = invocation(command)
        kind = kind_of_check(what)
        ended = passed(command)
        if kind and ended is not None and not (ended and command.claimed):
            found[Basis.TESTS if kind == "tests" else Basis.BUILD][what.program] = (command, ended)
    return found


def _judged(
    session: Session, basis: Basis, checks: dict[str, tuple[Command, bool]]
) -> VerifiedOutcome:
    last, ended = max(checks.values(), key=lambda check: check[0].number)
    later = [
        e for e in session.entries
        if isinstance(e, Edit) and e.number > last.number and not e.path.endswith(_HARMLESS_EDIT)
    ]  # fmt: skip
    name = f"`{last.command[:80]}` (step {last.number})"
    if later and ended:
        reason = f"{name} passed, but {later[-1].path} was edited afterwards"
        return VerifiedOutcome(outcome=None, basis=None, reason=reason)
    others = {end for _, end in checks.values()}
    if len(others) > 1:
        reason = f"{name} {'passed' if ended else 'failed'}, another check did not agree"
        return VerifiedOutcome(outcome=Outcome.MIXED, basis=basis, reason=reason)
    outcome = Outcome.SUCCESS if ended else Outcome.FAILURE
    return VerifiedOutcome(
        outcome=outcome, basis=basis, reason=f"{name} {'passed' if ended else 'failed'} at the end"
    )


_FAILED = compile(
    "(?m)"
    + spaced(r"""
      ^=*\ ?(?:.*,\ )?\d+\ (?:failed|errors?)\b.*\ in\ [\d.]+s | ^FAILED\ \( | ^FAIL(?:ED)?\b[\ \t:]
    | ^\s*Tests?(?:\ Files| \ Suites)?:?\s+\d+\ failed | ^\s+\d+\ failing\b | test\ result:\ FAILED
    | ^-*\ ?BUILD\ FAIL(?:ED|URE) | \b\d+\ examples?,\ [1-9]\d*\ failures? | ^FAILURES!
    | ^Found\ \d+\ errors? | ^✖\ \d+\ problems?\ \([1-9] | ^make(?:\[\d+\])?:\ \*\*\*
    | \b[1-9]\d*\ tests?\ failed\ out\ of | ^not\ ok\ \d+ | ^(?:npm\ )?(?:ERR!|error)\ code\ E
    | ^error(?:\[E\d+\])?:\ (?:aborting|could\ not\ compile) | ^Failed!\ +- | ^panic:[\ ]
    | ^Traceback\ \(most\ recent\ call\ last\):""")
)
_PASSED = compile(
    "(?m)"
    + spaced(r"""
      ^=*\ ?\d+\ passed\b[^\n]*\ in\ [\d.]+s | ^OK(?:\ \(.*\))?$ | ^ok\ +\t?\S+\s+[\d.(]
    | ^\s*Tests:?\s+(?:\d+\ (?:passed|skipped|todo)[,\ |]*)+ | ^\s+\d+\ passing\b
    | test\ result:\ ok | BUILD\ SUCCESS | \b\d+\ examples?,\ 0\ failures
    | ^All\ checks\ passed! | ^Success:\ no\ issues | \b100%\ tests\ passed | ^Passed!\ +-""")
)


def passed(command: Command) -> bool | None:
    """Whether a command did what it was to do; None where its end tells nothing.

    The exit code decides, unless it is that of a pager or an `echo` behind the command: then
    the summary that known runners print. A line that stands in the command itself was printed
    by whoever wrote the command, and is no runner's.
    """
    what = invocation(command)
    if command.exit_code is not None and not what.masked:
        return command.exit_code == 0
    if _FAILED.search(command.output):
        return False
    if _PASSED.search(_not_dictated(command)):
        return True
    return None


def _not_dictated(command: Command) -> str:
    written = _QUOTES.sub("", command.command)
    return "\n".join(
        line for line in command.output.splitlines() if _QUOTES.sub("", line).strip() not in written
    )


_QUOTES = compile(r"[\"'\\]")

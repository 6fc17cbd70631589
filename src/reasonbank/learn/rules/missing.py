"""A file that a task names and that nobody could open: an answer without it is a guess."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, name_of, noted, short
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Call, Command, Edit, Entry, Session
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

_words = str.split

_MISSING = compile(
    r"(?:No such file or directory|FileNotFound\w*|File not found|does not exist)[:\s]{1,4}"
    r"(?:\[Errno 2\] No such file or directory: )?['\"]?([\w./\\ -]{1,200}\.\w{1,8})"
)

_ANSWERING = frozenset(_words("final_answer finish submit submit_answer answer respond"))
_HANDED_IN = compile(r"(?s)\b(?:final_answer|finish|submit|submit_answer)\((.{1,400})\)")
_NAMED = compile(r"^\s*\w+\s*=\s*|^[\"']|[\"']\z")
_VARIABLE = compile(r"[A-Za-z_]\w*\z")


def missing(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    task = f"{session.given}\n{session.task}"
    acts = [entry for entry in entries if isinstance(entry, Command | Call)]
    for place, act in enumerate(acts):
        name = _missing_in(act, task)
        written = any(isinstance(e, Edit) and e.path.endswith(name or "") for e in entries)
        if name and not written and not any(_opens(other, name) for other in acts[place + 1 :]):
            tries = [other for other in acts if _missing_in(other, task) == name]
            answer = next((a for act in reversed(acts) if (a := _handed_in(act))), "")
            yield _not_there(session, name, tries, _place_of(task, name), answer)
            return


def _handed_in(act: Command | Call) -> str:
    if isinstance(act, Call):
        return short(act.arguments, 80) if act.tool in _ANSWERING else ""
    found = _HANDED_IN.search(act.command)
    if not found:
        return ""
    given = _NAMED.sub("", " ".join(found[1].split()))
    if _VARIABLE.match(given):
        given = act.output.strip().rpartition("\n")[2] or given
    return short(given.strip("\"'"), 80)


def _place_of(task: str, name: str) -> str:
    """Where the task says that the file is."""
    before = task.partition(name)[0].split()
    folder = before[-1].strip("\"'`(") if before and before[-1].endswith("/") else ""
    return folder if len(folder) > 2 and not folder.startswith(("/home", "/Users", "http")) else ""


def _told(act: Command | Call) -> tuple[str, str]:
    if isinstance(act, Command):
        return act.command, act.output
    return act.arguments, act.answer


def _missing_in(act: Command | Call, task: str) -> str | None:
    """The name of a file of the task that was not there."""
    found = _MISSING.search(_told(act)[1][-4_000:])
    name = found[1].replace("\\", "/").rpartition("/")[2].strip() if found else ""
    return name if len(name) > 4 and name in task else None


def _opens(act: Command | Call, name: str) -> bool:
    asked, answer = _told(act)
    if isinstance(act, Command) and act.exit_code not in (0, None):
        return False
    return name in asked and bool(answer.strip()) and "Error" not in answer[:4_000]


def _not_there(
    session: Session, name: str, tries: Sequence[Command | Call], folder: str, answer: str
) -> Finding:
    times = "" if len(tries) == 1 else f" ({len(tries)} tries)"
    guidance = (
        "Open the file first, before any plan. Where nothing opens it, say so; no other tool has "
        "it, and nothing is to be made of what it may contain."
    )
    guessed = f" It handed in “{answer}” all the same: a guess." if answer else ""
    shown = name_of(name)
    where = f" in {folder}" if folder else ""
    return noted(
        session, "missing", tries[0].number, tries[-1].number, weight=0.55,
        title=f"The file of the task ({short(shown, 80)}{where}) could not be opened, and was "
        "never read",
        description=f"When a task comes with a file, as in: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe task names {shown}{where}, and nothing could open "
        f"it{times}: No such file or directory. Whatever was answered was not taken from it."
        f"{guessed}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="FileNotFoundError",
            failure_pattern="No such file or directory: a file that the task names",
            corrective_guidance=guidance,
        ),
        tags=("FileNotFoundError",),
    )  # fmt: skip

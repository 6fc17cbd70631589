"""Decides what an install or uninstall changes, and carries it out: a dry run is the first half."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reasonbank.errors import InvalidInput, Refused
from reasonbank.safety.scrub import scrub
from reasonbank.surfaces.agents import AGENTS
from reasonbank.surfaces.install import files
from reasonbank.surfaces.install.edits import changes
from reasonbank.surfaces.install.fitting_in import Outcome, unwired, wired
from reasonbank.surfaces.install.jsonc import Malformed
from reasonbank.surfaces.install.notes import Note, Notes, before, copy_of
from reasonbank.surfaces.install.wiring import PLUGS, Target, Wish, targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one file: ``old`` and ``new`` are None where there is none."""

    agent: str
    file: Path
    old: bytes | None
    new: bytes | None
    copies: tuple[bytes, ...] = ()
    """States that are kept beside it."""
    note: Note | None = None
    notes: tuple[str, ...] = ()
    private: bool = True

    @property
    def action(self) -> str:
        if self.old == self.new:
            return "unchanged"
        return "created" if self.old is None else "removed" if self.new is None else "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    changes: tuple[Change, ...]
    problems: tuple[str, ...] = field(default=())
    """Files that cannot be read: nothing is changed for their agents."""


def found(environment: Mapping[str, str]) -> list[str]:
    """The agents of this user: those with a folder, or with a program on the PATH."""
    path = environment.get("PATH")
    return [
        agent.name
        for agent in AGENTS
        if PLUGS[agent.name].home(environment).is_dir()
        or any(shutil.which(program, path=path) for program in PLUGS[agent.name].programs)
    ]


def installing(
    agents: Iterable[str], wish: Wish, environment: Mapping[str, str], *, replace: bool = False
) -> Plan:
    return _planned(agents, wish, environment, install=True, replace=replace)


def uninstalling(agents: Iterable[str], wish: Wish, environment: Mapping[str, str]) -> Plan:
    return _planned(agents, wish, environment, install=False, replace=False)


def _planned(
    agents: Iterable[str], wish: Wish, environment: Mapping[str, str], *,
    install: bool, replace: bool,
) -> Plan:  # fmt: skip
    known = Notes(environment).read()
    made: list[Change] = []
    problems: list[str] = []
    for agent in agents:
        try:
            made += [
                _change(agent, target, known, wish, install=install, replace=replace)
                for target in targets(agent, wish, environment)
            ]
        except (InvalidInput, Refused) as error:
            said = error.problem if isinstance(error, InvalidInput) else error
            problems.append(f"{agent}: {said}; nothing was changed for this agent")
    return Plan(changes=tuple(made), problems=tuple(problems))


def _change(
    agent: str, target: Target, known: Mapping[str, Note], wish: Wish, *,
    install: bool, replace: bool,
) -> Change:  # fmt: skip
    file = files.real(target.file)
    old = files.read(file)
    note = known.get(str(file))
    try:
        text = None if old is None else old.decode()
        had = before(note, file)
        if install:
            outcome = wired(text, target, had, replace=replace)
        else:
            outcome = Outcome(text=None) if text is None else unwired(text, target, had)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        column = error.start - (error.object.rfind(b"\n", 0, error.start) + 1) + 1
        raise InvalidInput(
            "file", f"{target.file}: line {line}, column {column}: not UTF-8 text"
        ) from None
    except Malformed as error:
        raise InvalidInput("file", f"{target.file}: {error}") from None
    new = None if outcome.text is None else outcome.text.encode()
    written = had is not None and text == had.written
    copies = [old] if old is not None and old != new and not written else []
    if install and old != new:
        base = None if outcome.base is None else outcome.base.encode()
        copies += [base] if base is not None and base != old else []
        folders = note.folders if note else tuple(map(str, files.folders_to_make(file)))
        note = Note(
            agent=agent, base=None if base is None else copy_of(file, base).name,
            edits=tuple(outcome.edits), entries=target.entries, folders=folders,
        )  # fmt: skip
    return Change(
        agent=agent, file=file, old=old, new=new, copies=tuple(copies), note=note,
        notes=tuple(outcome.notes), private=wish.project is None,
    )  # fmt: skip


def install(plan: Plan, environment: Mapping[str, str]) -> Plan:
    """First the copies and the note, then the file: whenever this is killed, all is undone by
    `uninstall`."""
    return _carried_out(plan, lambda change: _put(change, environment))


def uninstall(plan: Plan, environment: Mapping[str, str]) -> Plan:
    return _carried_out(plan, lambda change: _taken(change, environment))


def _carried_out(plan: Plan, act: Callable[[Change], None]) -> Plan:
    """What was done; one agent's trouble is not another's."""
    done, problems = [], {}
    for change in plan.changes:
        try:
            if change.agent not in problems:
                act(change)
                done.append(change)
        except (InvalidInput, Refused) as error:
            said = error.problem if isinstance(error, InvalidInput) else error
            problems[change.agent] = f"{change.agent}: {said}"
    return Plan(changes=tuple(done), problems=(*plan.problems, *problems.values()))


def _put(change: Change, environment: Mapping[str, str]) -> None:
    if change.action == "unchanged" or change.new is None:
        return
    for copy in change.copies:
        files.keep(copy_of(change.file, copy), copy, change.file)
    _note(change, environment, change.note)
    files.write(change.file, change.new, old=change.old, private=change.private)


def _taken(change: Change, environment: Mapping[str, str]) -> None:
    if change.action != "unchanged":
        for copy in change.copies:
            files.keep(copy_of(change.file, copy), copy, change.file)
        if change.new is None:
            files.delete(change.file, old=change.old)
        else:
            files.write(change.file, change.new, old=change.old, private=change.private)
    _tidied(change)
    _note(change, environment, None)


def _tidied(change: Change) -> None:
    """A copy of what the file says again is of no use, nor is a folder that was made for it."""
    part = change.file.with_name(f".{change.file.name}.reasonbank-part")
    part.unlink(missing_ok=True)
    if change.new is not None:
        copy_of(change.file, change.new).unlink(missing_ok=True)
    for folder in reversed(change.note.folders if change.note else ()):
        with suppress(OSError):  # Somebody else has put something there.
            Path(folder).rmdir()


def _note(change: Change, environment: Mapping[str, str], note: Note | None) -> None:
    notes = Notes(environment)
    known = {file: had for file, had in notes.read().items() if file != str(change.file)}
    notes.write({**known, str(change.file): note} if note else known)


def difference(change: Change) -> str:
    """Our lines only: a line of the user's that only gets a comma may hold a secret."""
    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines() for data in (change.old, change.new)
    )
    found = changes(old, new)
    if found is None:
        return "(too much to be shown)"
    lines = []
    for start, end, instead in found:
        lines += [*(f"-{line}" for line in old[start:end]), *(f"+{line}" for line in instead)]
    went = {line[1:].rstrip(",") for line in lines if line.startswith("-")}
    came = {line[1:].rstrip(",") for line in lines if line.startswith("+")}
    shown = (line for line in lines if line[1:].rstrip(",") not in went & came)
    return scrub("\n".join(shown)).text

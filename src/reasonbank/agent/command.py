"""What a verifier's command comes to inside a box; Python is run by a program of ours."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reasonbank.agent.seen import named

_PYTHON = re.compile(r"python(\d(\.\d{1,3})?)?").fullmatch
_FIRST_LINE = 512
_OFTEN_RUN = ("python", "python3", "pytest")
_WITH_A_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``options`` are the interpreter's; ``words`` what follows them, or all of it."""

    programs: tuple[str, ...]
    checks: tuple[str, ...]
    options: tuple[str, ...] = ()
    words: tuple[str, ...]
    python: bool = False

    def inside(self, root: str) -> list[str]:
        if not self.words or not self.python:
            return list(self.words)
        return [*self.options, f"{root}/run/reasonbank/boot.py", *self.words]

    def shims(self) -> dict[str, str]:
        """What a command that is no Python finds as `python`: it may run checks by it."""
        if self.python:
            return {}
        shims = {}
        for name, path in _often_run().items():
            interpreter, words = _interpreted(os.path.abspath(path), [name])
            if interpreter is not None:
                words = [interpreter, "/run/reasonbank/boot.py", *words]
                shims[f"bin/{name}"] = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
        return shims


def _often_run() -> dict[str, str]:
    """The full paths. What only chooses among several Pythons stays outside the box with what
    it chooses by: there, ours takes its place."""
    found = {}
    for name in _OFTEN_RUN:
        if (path := shutil.which(name)) is None:
            continue
        with Path(path).open("rb") as file:
            if _PYTHON(name) and file.read(4) != b"\x7fELF":
                path = sys.executable
        found[name] = os.path.abspath(path)
    return found


def command_of(program: str, command: Sequence[str]) -> Command:
    """``program`` is the full path of the command's first word."""
    checks = tuple(named(command))
    interpreter, words = _interpreted(program, command)
    plain = Command(
        programs=(
            program,
            *_often_run().values(),
        ),
        checks=checks,
        words=(program, *command[1:]),
    )
    if interpreter is None:
        return plain
    options = [interpreter]
    while words and words[0].startswith("-") and words[0] not in ("-c", "-m", "-"):
        taken = 2 if words[0] in _WITH_A_VALUE else 1
        options += words[:taken]
        words = words[taken:]
    if not words or words[0] == "-" or (words[0] in ("-c", "-m") and len(words) == 1):
        return plain
    return Command(
        programs=(interpreter, program), checks=checks, options=tuple(options),
        words=tuple(words), python=True,
    )  # fmt: skip


def _interpreted(program: str, command: Sequence[str]) -> tuple[str | None, list[str]]:
    """The Python that runs a program, and the words that it is given."""
    if _PYTHON(os.path.basename(program)):
        return program, list(command[1:])
    try:
        with Path(program).open("rb") as file:
            first, _, second = file.read(_FIRST_LINE).decode("utf-8", "replace").partition("\n")
    except OSError:
        return None, []
    if not first.startswith("#!"):
        return None, []
    words = first[2:].split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    # Where the path is too long for a first line, installers go by way of the shell.
    elif long := re.match(r"'''exec' \"?([^\"\s]+)", second):
        words = [long[1]]
    found = shutil.which(words[0]) if words else None
    if found is None or not _PYTHON(os.path.basename(found)):
        return None, []
    return os.path.abspath(found), [*words[1:], program, *command[1:]]

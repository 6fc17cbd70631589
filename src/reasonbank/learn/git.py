"""Reading a project's own git repository, and nothing else: no hook, no network, no program
that its configuration names, nothing outside of the project's folder, and not for long."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0
LARGEST = 8_000_000
"""Bytes of an answer; a commit that changed more is not looked into."""

_OPTIONS = (
    "--no-optional-locks", "--no-pager", "--no-replace-objects", "--literal-pathspecs",
    "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "protocol.allow=never", "-c", "log.showSignature=false",
    "-c", f"core.attributesFile={os.devnull}", "-c", "core.quotePath=false",
)  # fmt: skip
_HEX = re.compile(r"[0-9a-f]{7,64}")


class CannotTell(Exception):
    """Git is missing, the folder is no repository of its own, or it did not answer in time."""


@dataclass(frozen=True, slots=True)
class Repository:
    """What is in the repository at ``folder``; a folder inside of another one's is none."""

    folder: Path
    program: str

    def ask(self, *words: str, fails: bool = False) -> str | None:
        """What git prints. With ``fails`` an exit code of 1 is an answer, too: None."""
        code, out = _run([self.program, *_OPTIONS, *words], self.folder)
        if code == 0:
            return out
        if fails and code == 1:
            return None
        raise CannotTell(f"git {words[0]} ended with {code}")

    def commit(self, id: str) -> str | None:
        """The whole id of a commit; None where there is no such commit here."""
        if not _HEX.fullmatch(id):
            return None
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{id}^{{commit}}")
        try:
            found = self.ask(*words, fails=True)
        except CannotTell:
            return None  # Several begin like this.
        return None if found is None else found.strip()

    def made_at(self, commit: str) -> int:
        """In seconds since 1970."""
        try:
            return int(_text(self.ask("show", "-s", "--format=%ct", commit)).split()[-1])
        except (ValueError, IndexError):
            raise CannotTell("git does not say when it was made") from None

    def includes(self, tip: str, commit: str) -> bool:
        found = self.ask("merge-base", "--is-ancestor", commit, tip, fails=True)
        return found is not None

    def tip_before(self, seconds: int) -> str:
        """The last commit of the current branch that was made until then."""
        return _text(self.ask("rev-list", "-1", f"--before={seconds}", "HEAD")).strip()

    def commit_of_head(self) -> str:
        return _text(self.ask("rev-parse", "--verify", "HEAD^{commit}")).strip()

    def is_on_a_branch(self, commit: str) -> bool:
        words = ("for-each-ref", "--count=1", f"--contains={commit}", "refs/heads", "refs/remotes")
        return bool(_text(self.ask(*words)).strip())

    def naming(self, commit: str, tip: str) -> list[str]:
        """The commits up to ``tip`` that say they revert this one."""
        said = f"This reverts commit {commit}"
        return _text(self.ask("rev-list", "-F", f"--grep={said}", f"{commit}..{tip}")).split()

    def patch(self, commit: str) -> str:
        return _text(
            self.ask("diff-tree", "-p", "-U0", "-r", "--root", "-m", "--first-parent",
                     "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color",
                     "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", commit)
        )  # fmt: skip

    def renamed(self, old: str, new: str) -> dict[str, str]:
        """Where files of one commit are in another."""
        words = ("diff-tree", "-r", "-M", "-z", "--name-status", "--diff-filter=R",
                 "--no-ext-diff", old, new)  # fmt: skip
        parts = _text(self.ask(*words)).split("\0")
        return dict(zip(parts[1::3], parts[2::3], strict=False))

    def lines(self, commit: str, path: str) -> list[str]:
        """Of a file in a commit; none where it is not there."""
        listed = _text(self.ask("ls-tree", "-z", commit, "--", path))
        mode, _, rest = listed.partition(" ")
        if not mode.startswith("100"):
            return []
        return _text(self.ask("cat-file", "blob", rest.split()[1])).split("\n")


def _text(answer: str | None) -> str:
    return answer or ""


def repository(path: str | None) -> Repository:
    program = shutil.which("git")
    if program is None:
        raise CannotTell("git is not installed")
    if path is None or not os.path.isdir(path):
        raise CannotTell("the project's folder is not there")
    folder = Path(os.path.realpath(path))
    if not (folder / ".git").exists():
        raise CannotTell(f"{path} is no git repository of its own")
    found = Repository(folder, program)
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    try:
        top, data = map(os.path.realpath, _text(found.ask(*asked)).splitlines())
    except (CannotTell, ValueError):
        raise CannotTell(f"{path} is no git repository that may be read") from None
    if top != str(folder) or not data.startswith(f"{folder}{os.sep}"):
        raise CannotTell(f"the git repository of {path} is elsewhere")
    return found


def _run(words: list[str], folder: Path) -> tuple[int, str]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent), "HOME": os.devnull,
    }  # fmt: skip
    try:
        process = subprocess.Popen(  # nosec B603  # git, with words of ours
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise CannotTell(f"git could not be run: {error.strerror}") from None
    assert process.stdout is not None
    end = threading.Timer(SECONDS, process.kill)
    end.start()
    try:
        with process.stdout as pipe:
            printed = pipe.read(LARGEST + 1)
        if len(printed) > LARGEST:
            process.kill()
        code = process.wait()
    finally:
        end.cancel()
    if len(printed) > LARGEST:
        raise CannotTell("its answer is too long")
    if code < 0:
        raise CannotTell(f"git did not answer within {SECONDS:g} seconds")
    return code, printed.decode("utf-8", "replace")

"""The table of sources, and their files out of git."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TABLE = Path(__file__).with_name("sources.toml")
# What lets a model be given away; share-alike, non-commercial and copyleft do not.
ALLOWED = {
    "MIT",
    "BSD-3-Clause",
    "Apache-2.0",
    "MIT OR Apache-2.0",
    "PostgreSQL",
    "CC0-1.0",
    "CC-BY-3.0",
    "CC-BY-4.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    repository: str
    commit: str
    licence: str
    licence_file: str
    holder: str
    kind: str
    files: str
    use: str
    licence_commit: str = ""
    language: str = ""  # of the whole repository, where its paths do not say it
    english: str = ""  # "OWNER/NAME@COMMIT": the pages that such a repository translates

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.files)

    @property
    def original(self) -> Source | None:
        repository, _, commit = self.english.partition("@")
        return replace(self, repository=repository, commit=commit, english="") if commit else None


def table(path: Path = TABLE) -> list[Source]:
    return [Source(**row) for row in tomllib.loads(path.read_text("utf-8"))["source"]]


class Checkout:
    """One repository's objects: a mirror that is there already, or fetched once to a cache."""

    def __init__(self, source: Source, mirrors: Path | None, cache: Path) -> None:
        name = source.repository.replace("/", "+")
        places = (mirrors / name / "repo" / ".git", mirrors / name / "repo") if mirrors else ()
        self._git = next((p for p in places if (p / "HEAD").is_file()), cache / f"{name}.git")
        for commit in filter(None, (source.commit, source.licence_commit)):
            if not self._has(commit):
                self._fetch(source.repository, commit)

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "--git-dir", str(self._git), *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout

    def _has(self, commit: str) -> bool:
        command = ["git", "--git-dir", str(self._git), "cat-file", "-e", commit]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _fetch(self, repository: str, commit: str) -> None:
        subprocess.run(["git", "init", "--quiet", "--bare", str(self._git)], check=True)
        address = f"https://github.com/{repository}.git"
        self._run("fetch", "--quiet", "--depth=1", address, commit)

    def text(self, commit: str, path: str) -> str:
        return self._run("show", f"{commit}:{path}").decode("utf-8", "replace")

    def files(self, commit: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
        """Path and text of each file that the pattern matches, in the order of the tree."""
        listed = self._run("ls-tree", "-r", "-z", "--name-only", commit).decode("utf-8", "replace")
        paths = [path for path in listed.split("\0") if path and pattern.fullmatch(path)]
        asked = "".join(f"{commit}:{path}\n" for path in paths).encode()
        answer, at = self._run("cat-file", "--batch", given=asked), 0
        for path in paths:
            end = answer.index(b"\n", at)
            head = answer[at:end].split()
            at = end + 1
            if head[1:2] == [b"blob"]:
                size = int(head[2])
                yield path, answer[at : at + size].decode("utf-8", "replace")
                at += size + 1

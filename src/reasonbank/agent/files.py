"""The files of a solution: what a verifier gets to see of what a model wrote.

Code blocks whose fence names a file (```` ```python app/main.py ````) become these files.
Without any, the longest code block becomes ``solution.py``, and a text without a code block
is ``solution.py`` as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

SINGLE = "solution.py"
MOST_FILES = 64
MOST_CHARACTERS = 1_000_000
DEEPEST = 8

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")
# Read by test tools before any test: with one of these, a solution could switch tests off.
_STEERING = {
    "conftest.py", "pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml",
    "sitecustomize.py", "usercustomize.py",
}  # fmt: skip


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """What follows the fence, and the code, of each block; one that nothing ends is none.

    Each line is looked at once, however many blocks begin and never end.
    """
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line.startswith(("```", "~~~")) and not (end := line.rstrip(" \t")).strip(end[0]):
            ends.setdefault(end, []).append(number)
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.startswith(("```", "~~~")):
            continue
        info = line.lstrip(line[0])
        fence = line[: len(line) - len(info)]
        later = bisect_left(ends.get(fence, ()), number)
        if "`" not in info and later < len(ends.get(fence, ())):
            last = ends[fence][later]
            yield info, "".join(f"{each}\n" for each in lines[number:last])
            number = last + 1


class UnusableFiles(ValueError):
    """What is wrong with the files of a solution; the model may read it."""


def files_of(solution: str) -> dict[str, str]:
    """Names are relative, of plain characters, and never lead out of the folder."""
    named: dict[str, str] = {}
    plain: list[str] = []
    for info, code in _blocks(solution):
        name = _named(info)
        if name is None:
            plain.append(code)
        else:
            named[_safe(name)] = code
    files = named or {SINGLE: max(plain, key=len) if plain else solution}
    if len(files) > MOST_FILES:
        raise UnusableFiles(f"{len(files)} files; at most {MOST_FILES} are allowed")
    if sum(map(len, files.values())) > MOST_CHARACTERS:
        raise UnusableFiles(f"more than {MOST_CHARACTERS:,} characters")
    folders = {"/".join(parts[:n]) for name in files if (parts := name.split("/"))
               for n in range(1, len(parts))}  # fmt: skip
    if both := folders & files.keys():
        raise UnusableFiles(f"{min(both)!r} is a file and a folder")
    return files


def _named(info: str) -> str | None:
    """The file that a fence names: its second word, or a first one that looks like a path."""
    words = [word for word in info.split() if not word.startswith("{")]
    if len(words) > 1:
        return re.sub(r"^(?:file|filename|title|path)[=:]", "", words[1]).strip("\"'")
    if words and ("/" in words[0] or "." in words[0]):
        return words[0]
    return None


def _safe(name: str) -> str:
    parts = name.split("/")
    if len(parts) > DEEPEST or not all(_PART.fullmatch(part) for part in parts):
        raise UnusableFiles(
            f"{name[:80]!r} is not a usable file name; use a relative path of plain characters"
        )
    if parts[-1].lower() in _STEERING:
        raise UnusableFiles(f"{name!r} steers the verifier and is not taken from a solution")
    return name

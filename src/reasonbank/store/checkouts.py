"""Where a git repository begins, read from the files that git keeps; no program is run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from reasonbank.safety.patterns import compile

# A path has 4,096 characters at most, of up to 4 bytes; what is longer was not written by git.
LONGEST_POINTER = 20_000
LONGEST_CONFIG = 200_000
MOST_CHECKOUTS = 50
_WORKTREE = compile(r"(?im)^\s*worktree\s*=\s*\"?([^\"\n]+?)\"?\s*$")


@dataclass(frozen=True, slots=True)
class Checkout:
    """``root`` is where it begins; ``main`` is what all checkouts of its repository share: the
    root of the first one, or the repository itself where that is bare."""

    root: str
    main: str


def checkout_of(path: str) -> Checkout | None:
    """The nearest at or above this path, whose symbolic links are resolved."""
    for folder in upwards(path):
        entry = os.path.join(folder, ".git")
        mode = _mode(entry)
        if stat.S_ISDIR(mode):
            if _is_repository(entry):
                return Checkout(folder, folder)
        elif stat.S_ISREG(mode) and (main := _main_of(folder, entry)):
            return Checkout(folder, main)
    return None


def checkouts(main: str) -> list[str]:
    """The roots of some other checkouts of a repository, as it tells them itself."""
    folder = os.path.join(main, ".git", "worktrees")
    try:
        with os.scandir(folder) as found:
            names = [entry.name for entry in islice(found, MOST_CHECKOUTS)]
    except OSError:
        return []
    entries = (
        _pointed_at(os.path.join(folder, name, "gitdir"), os.path.join(folder, name))
        for name in names
    )
    return [os.path.dirname(entry) for entry in entries if entry]


def upwards(path: str) -> Iterator[str]:
    """A path and all above it, nearest first."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _main_of(folder: str, entry: str) -> str | None:
    """What a ``.git`` that is a file leads to; None if it lies.

    Anybody can write such a file, also in what they have cloned: it is believed to belong to
    another folder's repository only if that one says the same.
    """
    own = _pointed_at(entry, folder, "gitdir:")
    if own is None:
        return None
    if not stat.S_ISREG(_mode(os.path.join(own, "commondir"))):
        # A submodule, or a repository that is kept elsewhere: one of its own.
        return folder if _is_repository(own) else None
    common = _pointed_at(os.path.join(own, "commondir"), own)
    inside = common and os.path.dirname(own) == os.path.join(common, "worktrees")
    back = _pointed_at(os.path.join(own, "gitdir"), own)
    if common is None or not inside or back != os.path.realpath(entry):
        return None
    return _root_of(common) if _is_repository(common) else None


def _root_of(repository: str) -> str:
    if os.path.basename(repository) == ".git":
        return os.path.dirname(repository)
    # A submodule keeps its repository within that of its parent, and says where it is checked out.
    told = _WORKTREE.search(_text(os.path.join(repository, "config"), LONGEST_CONFIG))
    if told is not None:
        root = os.path.realpath(os.path.join(repository, told[1]))
        if _pointed_at(os.path.join(root, ".git"), root, "gitdir:") == repository:
            return root
    return repository


def _pointed_at(file: str, base: str, prefix: str = "") -> str | None:
    """The path that a file of git's holds, which may be relative to ``base``."""
    told = _text(file, LONGEST_POINTER)
    target = told.removeprefix(prefix).strip()
    if not told.startswith(prefix) or not target or "\n" in target or "\0" in target:
        return None
    return os.path.realpath(os.path.join(base, target))


def _is_repository(folder: str) -> bool:
    """As git tells it."""
    return stat.S_ISREG(_mode(os.path.join(folder, "HEAD"))) and all(
        stat.S_ISDIR(_mode(os.path.join(folder, name))) for name in ("objects", "refs")
    )


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _text(file: str, most: int) -> str:
    """Nothing, where it is longer or no regular file: to open a pipe would wait for a writer."""
    if not stat.S_ISREG(_mode(file)):
        return ""
    try:
        with open(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:
            found = opened.read(most + 1)
    except OSError:
        return ""
    return os.fsdecode(found) if len(found) <= most else ""

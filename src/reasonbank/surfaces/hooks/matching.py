"""Whether what an agent is about to do, or what just failed, is what a memory tells of.

Only where it is the very same: a warning that is wrong costs more than one that is missing.
"""

from __future__ import annotations

import os
import re

from reasonbank.learn.rules.failure import Failure
from reasonbank.learn.rules.shell import Invocation, kind_of_check, parsed, parts
from reasonbank.model import Memory, Outcome

# As lessons have it; to load those for it would take as long as all the rest.
HOME = re.compile(r"(?:/home|/Users)/[^/\s\"']{1,100}")
_QUOTED = re.compile(r"`([^`\n]{2,300})`")
_REMEDY = re.compile(r"(?i)\b(?:run|use|with|after|try|by)\s{1,9}`([^`\n]{2,300})`")
_NAMES = re.compile(r"[\w.@+-]{1,100}(?:[/\\][\w.@+-]{1,80}){0,10}")
_PLAIN = frozenset({
    "__init__", "main", "index", "mod", "lib", "app", "utils", "util", "test", "tests", "setup",
    "config", "conftest", "README", "package", "types",
})  # fmt: skip
SHORTENED = "…"


def words_of(command: str) -> list[str]:
    """What is run, for each part of a line that does something; the first words of each are in
    every memory that tells of it."""
    found = [part.what.text for part in parts(command) if not part.what.looks_around]
    return list(dict.fromkeys(words for words in found if words))


def _said(what: Invocation) -> str:
    return HOME.sub("~", " ".join((*what.around, *what.words)))


def repeats(memory: Memory, command: str) -> bool:
    """Whether this command is the one that failed. A test that failed and was put right by
    changing the code is nothing to be warned of: it is there to be run."""
    error = memory.error_context
    if error is None:
        return False
    remedies = {_said(parsed(found)) for found in _REMEDY.findall(error.corrective_guidance)}
    told = f"{memory.description}\n{error.failure_pattern}"
    failing = [found for found in _QUOTED.findall(told) if _said(parsed(found)) not in remedies]
    for part in parts(command):
        if part.what.looks_around or _said(part.what) in remedies:
            continue
        if kind_of_check(part.what) and memory.outcome is Outcome.SUCCESS and not remedies:
            continue
        if any(_is_same(part.what, found) for found in failing):
            return True
        if _is_named(_said(part.what), error.failure_pattern):
            return True
    return False


def _is_same(what: Invocation, line: str) -> bool:
    """``line`` may have lost its end, where it was too long for a memory."""
    for part in parts(line.removesuffix(SHORTENED)):
        if part.what.looks_around:
            continue
        if line.endswith(SHORTENED):
            if len(line) > 60 and _said(what).startswith(_said(part.what)):
                return True
        elif part.what.words == what.words and _within(part.what) == _within(what):
            return True
    return False


def _within(what: Invocation) -> list[str]:
    """What a command is run by, which may make all the difference; variables seldom do."""
    return [word for word in what.around if "=" not in word and word not in ("time", "nice")]


def _is_named(words: str, pattern: str) -> bool:
    """Whether a failure that somebody described in their own words names this command: one of a
    single word might stand in any sentence."""
    if " " not in words or len(words) < 6:
        return False
    at = pattern.find(words)
    while at >= 0:
        before, after = pattern[:at][-1:], pattern[at + len(words) :][:1]
        if not _goes_on(before, "./-") and not _goes_on(after, "./=-"):
            return True
        at = pattern.find(words, at + 1)
    return False


def _goes_on(letter: str, joining: str) -> bool:
    return bool(letter) and (letter.isalnum() or letter == "_" or letter in joining)


def concerns(memory: Memory, path: str) -> bool:
    """Whether a memory warns of changing this file. One that was changed to put something right
    is none of these: nobody is warned of what helped."""
    error = memory.error_context
    if error is None or memory.outcome is Outcome.SUCCESS or not path:
        return False
    wanted = path.replace("\\", "/").split("/")
    stem = wanted[-1].partition(".")[0]
    told = "\n".join((memory.title, memory.description, error.failure_pattern))
    for found in _NAMES.findall(told):
        named = found.replace("\\", "/").strip("./").split("/")
        if wanted[-len(named) :] != named:
            continue
        # `utils.py` may be any of many.
        if len(named) > 1 or ("." in named[0] and stem not in _PLAIN):
            return True
    return False


def name_in(path: str) -> str:
    return os.path.basename(path.replace("\\", "/"))


def is_the_same(memory: Memory, failure: Failure, command: str) -> bool:
    """Whether this is the failure that a memory tells how to put right. That some test failed is
    the same only of the same command."""
    error = memory.error_context
    if error is None or error.failure_pattern.removesuffix(SHORTENED) not in failure.pattern:
        return False
    if len(error.failure_pattern) < 8:
        return False
    if not failure.vague:
        return True
    return any(
        _is_same(part.what, found)
        for part in parts(command)
        for found in _QUOTED.findall(memory.description)
    )

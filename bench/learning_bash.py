"""NL2Bash as two streams: which utility does what is asked, and which options of ``find``.

The second has many close classes: every question is about finding files. What is right is what
the recorded command begins with; commands that come alike are on the same side of the split
between tuning and test.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

from bench.learning_choice import choice
from bench.learning_loop import Stream

UTILITY_LEAST, UTILITY_MOST = 20, 40
"""A utility with fewer commands than this is left out; of others, no more than so many are
asked, or the stream would be one of ``find``."""
OPTIONS_LEAST, OPTIONS_MOST = 24, 30
BEFORE = ("sudo", "time")
UTILITIES = {
    "alias": "name a longer command so that a short word runs it",
    "awk": "process text field by field, and compute with columns",
    "cal": "show a calendar of a month or a year",
    "cat": "print files one after another",
    "cd": "change the working directory of the shell",
    "chgrp": "change which group a file belongs to",
    "chmod": "change the permissions of files",
    "chown": "change who owns a file",
    "comm": "compare two sorted files line by line",
    "cp": "copy files and directories",
    "crontab": "edit or list the jobs that run at set times",
    "curl": "transfer data from or to a URL",
    "date": "print or set the date and time",
    "df": "show the free space of file systems",
    "diff": "show the differences between files or directories",
    "dig": "ask name servers about a domain",
    "du": "estimate the space that files and directories take",
    "echo": "print a line of text",
    "env": "run a command in a changed environment, or print the variables",
    "file": "tell the type of a file",
    "find": "search for files in a directory tree by name, size, age and more",
    "finger": "show information about a user",
    "fold": "wrap long lines to a width",
    "for": "repeat a command for each item of a list",
    "git": "version control: commits, branches and history",
    "grep": "print the lines that match a pattern",
    "gzip": "compress or unpack files",
    "head": "print the first lines of a file",
    "history": "list or repeat earlier commands",
    "ifconfig": "show or set up network interfaces and addresses",
    "join": "join the lines of two files on a common field",
    "kill": "send a signal to a process to end it",
    "ln": "make hard or symbolic links",
    "ls": "list the contents of a directory",
    "mkdir": "make directories",
    "mount": "attach a file system to the directory tree",
    "mv": "move or rename files",
    "nl": "number the lines of a file",
    "od": "dump a file in octal or hexadecimal",
    "paste": "merge the lines of files side by side",
    "ping": "test whether a host on the network answers",
    "ps": "report the processes that run now",
    "pstree": "show the processes as a tree",
    "read": "read a line of input into variables",
    "rm": "remove files or directories",
    "rsync": "copy and synchronise files between directories or machines",
    "screen": "keep terminal sessions that can be detached and resumed",
    "sed": "edit a stream of text: replace, delete and print lines",
    "seq": "print a sequence of numbers",
    "set": "set or unset options and parameters of the shell",
    "shopt": "switch optional behaviour of bash on or off",
    "sort": "sort the lines of text files",
    "source": "run the commands of a file in this shell",
    "split": "split a file into pieces",
    "ssh": "log in to a remote machine and run commands there",
    "su": "become another user",
    "tac": "print files with their lines reversed",
    "tail": "print the last lines of a file, or follow it",
    "tar": "pack files into an archive, or unpack one",
    "tmux": "several terminals in one window, in sessions",
    "top": "show the busiest processes as they change",
    "tree": "list a directory as a tree",
    "unset": "remove variables or functions of the shell",
    "watch": "run a command again and again and show what it prints",
    "wc": "count lines, words and bytes",
    "who": "show who is logged in",
    "yes": "print a line over and over, to answer questions",
    "yum": "install, update and remove packages",
    "zcat": "print compressed files",
}
OPTIONS = {
    "amin": "last read so many minutes ago",
    "atime": "last read so many days ago",
    "empty": "without contents",
    "exec": "run a command on each",
    "execdir": "run a command in the directory of each",
    "iname": "by name, in upper or lower case",
    "maxdepth": "only so many levels down",
    "mmin": "changed so many minutes ago",
    "mtime": "changed so many days ago",
    "name": "by name",
    "newer": "changed after another file",
    "path": "by path",
    "perm": "by permissions",
    "printf": "print details in a format",
    "prune": "leave out directories",
    "regex": "by a regular expression",
    "size": "by size",
    "type": "only files or only directories",
    "user": "by owner",
}
OTHERS = {
    "cmin", "ctime", "delete", "fstype", "follow", "group", "inum", "ipath", "iregex", "links",
    "ls", "mindepth", "mount", "nogroup", "nouser", "ok", "quit", "samefile", "uid", "wholename",
    "xdev",
}  # fmt: skip
"""Options of ``find`` that also make a class of their own, but a rare one."""


def utility(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    lessons = {name: (name, f"{name}: {about}.") for name, about in UTILITIES.items()}
    asked = questions(data, "utility", tuning)
    return choice("bash", lessons, asked, seed, condition)


def options(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    asked = questions(data, "options", tuning)
    lessons = {}
    for name in sorted({each for _, right in asked for each in right}):
        about = ", ".join(OPTIONS[each] for each in name.split()) or "everything below a directory"
        said = " ".join(["find", *(f"-{each}" for each in name.split())])
        lessons[name] = (said, f"Find files: {about}.")
    return choice("options", lessons, asked, seed, condition)


@cache
def questions(data: Path, what: str, tuning: bool) -> list[tuple[str, frozenset[str]]]:
    """What was asked, and what the command that answers it begins with."""
    place = data / "nl2bash"
    texts = (place / "all.nl").read_text("utf-8").split("\n")
    commands = (place / "all.cm").read_text("utf-8").split("\n")
    label, least, most = {
        "utility": (utility_of, UTILITY_LEAST, UTILITY_MOST),
        "options": (options_of, OPTIONS_LEAST, OPTIONS_MOST),
    }[what]
    named = [(" ".join(text.split()), " ".join(command.split()), label(command))
             for text, command in zip(texts, commands, strict=True)]  # fmt: skip
    often = Counter(name for _, _, name in named)
    side = {command: number % 2 == 0 for number, command in enumerate(dict.fromkeys(
        command for _, command, _ in named))}  # fmt: skip
    by_name: dict[str, dict[str, None]] = {}
    for text, command, name in named:
        if name is not None and often[name] >= least and text and side[command] == tuning:
            by_name.setdefault(name, {})[text] = None
    rng = random.Random(f"nl2bash {what}")
    kept: dict[str, set[str]] = {}
    for name, said in sorted(by_name.items()):
        for text in rng.sample(list(said), min(most, len(said))):
            # The same question with two answers: either is right.
            kept.setdefault(text, set()).add(name)
    return [(text, frozenset(right)) for text, right in kept.items()]


def utility_of(command: str) -> str | None:
    words = command.split()
    while words and words[0] in BEFORE:
        words = words[1:]
    return words[0] if words and words[0] in UTILITIES else None


def options_of(command: str) -> str | None:
    if utility_of(command) != "find":
        return None
    words = {word[1:] for word in command.split("|", maxsplit=1)[0].split() if word.startswith("-")}
    return " ".join(sorted(words & (OPTIONS.keys() | OTHERS)))

"""What a command line that ran did of what needs a person's word, apart from what it only named.

To print a command, to look for it or to write it down is not to run it: who was told to follow it
could do so first, and then say that the project does such things. Where it is not clear that
something was done, it was not.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reasonbank.safety import patterns
from reasonbank.safety.risky import Action, Risk, risks

_words = str.split
_NAMES = frozenset(_words("""
    echo printf grep egrep fgrep rg ag ack find fd sed awk gawk tr jq yq tee man help type
    which whereis command [ [[ test history alias reasonbank for case
"""))  # fmt: skip
"""They print, look for or write down what they are given."""
_READS = frozenset(
    _words("cat bat head tail less more cut sort uniq wc strings xxd diff cmp stat file ls")
)
"""They open the files that they are given, and do nothing else."""
_NAMING_PARTS = {
    "git": frozenset(_words("add blame commit diff grep log notes show stash status tag")),
    "gh": frozenset(_words("issue pr release")),
}
_BEFORE = frozenset(
    _words("sudo time nice nohup env exec timeout if elif while until then do else !")
)
_WRAPPED = patterns.compile(r"-\S*|\d+[smh]?|[A-Za-z_]\w*=[^$`]*")
_DOCUMENT = patterns.compile(r"<<-?[ \t]{0,20}[\\\"']?([^\s\\\"'`<>|&;()]{1,100})")
_BEGINS_WITHIN = 128
LONGEST = 20_000
"""Letters of a command that are looked at."""


def ran(command: str) -> Iterator[Risk]:
    did, read = "", ""
    for piece, operator in pieces(command[:LONGEST]):
        program, part = _program(piece)
        if program in _READS:
            read += f"{piece}\n"
        elif not program or program in _NAMES or part in _NAMING_PARTS.get(program, ()):
            # What it substitutes ran all the same.
            substituted = piece.find("$(") if "'" not in piece else -1
            did += piece[substituted:] + operator if substituted >= 0 else ""
        else:
            did += piece + operator
    yield from risks(did)
    yield from (risk for risk in risks(read) if risk.action is Action.CREDENTIALS)


def _program(piece: str) -> tuple[str, str]:
    """The program that is run and the first word that it is given."""
    try:
        words = shlex.split(piece)
    except ValueError:  # A quote that is never closed.
        words = piece.split()
    while words and (words[0] in _BEFORE or _WRAPPED.fullmatch(words[0])):
        del words[: 2 if words[0] in ("-u", "-g") else 1]
    program, part = (*words, "", "")[:2]
    return program.rpartition("/")[2].strip("\"'({"), part


def pieces(command: str) -> Iterator[tuple[str, str]]:
    """A line cut at its operators, each piece with the one behind it. What stands in quotes and in
    here-documents is left alone; comments are left out."""
    begun, position, quote = 0, 0, ""
    ends: list[str] = []
    fed = 0
    kept = ""
    while position < len(command):
        letter = command[position]
        if letter == "\\" and quote != "'":
            position += 2
            continue
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#" and (position == begun or command[position - 1].isspace()):
            kept += command[begun:position]
            begun = position = _line_end(command, position)
            continue
        elif command.startswith("<<<", position):  # A word to read, and no document.
            position += 3
            continue
        elif letter == "<" and (
            document := _DOCUMENT.match(command[position : position + _BEGINS_WITHIN])
        ):
            ends.append(document[1])
            fed, position = begun, position + document.end()
            continue
        elif letter == "\n" and ends:
            behind = _behind(command, position, ends)
            if fed != begun:  # To a piece before this one.
                kept += command[begun:position]
                begun = behind
            position, ends = behind, []
            continue
        elif letter in "|&;\n" and not _redirects(command, position):
            operator = letter * 2 if command.startswith(letter * 2, position) else letter
            yield kept + command[begun:position], operator
            kept = ""
            position += len(operator)
            begun = position
            continue
        position += 1
    yield kept + command[begun:], ""


def _line_end(command: str, position: int) -> int:
    found = command.find("\n", position)
    return len(command) if found < 0 else found


def _redirects(command: str, position: int) -> bool:
    """Whether it is the ``&`` of ``2>&1`` or ``&>``."""
    around = command[max(0, position - 1) : position], command[position + 1 : position + 2]
    return command[position] == "&" and (around[0] == ">" or around[1] == ">")


def _behind(command: str, position: int, ends: list[str]) -> int:
    """The end of the last line of the here-documents that begin with the next one."""
    for end in ends:
        while position < len(command):
            start, position = position + 1, _line_end(command, position + 1)
            if command[start:position].strip() == end:
                break
    return position

"""Shell commands, read as a person would: what was run, and what only surrounds it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from reasonbank.safety.patterns import brief, compile, spaced
from reasonbank.safety.ran import pieces

if TYPE_CHECKING:
    from reasonbank.learn.session import Command

_words = str.split

# They look around: that one of them fails says nothing about the work.
LOOKING = frozenset(_words("""
    ls cat head tail less more find fd grep egrep rg ag ack which type command whereis file stat
    wc diff cmp test [ [[ tree pwd cd echo printf sed awk jq cut sort uniq tr xxd strings ps
    pgrep df du env printenv history man help sleep true false kill pkill lsof netstat ss ping
    nslookup dig read export source . set unset rm mkdir touch cp mv xargs
"""))  # fmt: skip
_LOOKING_PARTS = {
    program: frozenset(_words(parts))
    for program, parts in {
        "git": "status log diff show branch remote rev-parse ls-files blame grep config",
        "docker": "ps logs images inspect",
        "kubectl": "get describe logs",
        "npm": "ls view outdated",
        "pip": "list show freeze index",
        "gh": "pr issue run api",
        "cargo": "search tree",
        "go": "doc list env",
    }.items()
}
_VIEWING = frozenset(_words("tail head grep egrep rg tee cat less sed awk cut sort uniq wc jq tr"))
_WRAPPERS = frozenset(
    _words("sudo time nice nohup env exec stdbuf command xvfb-run npx bunx xargs")
)
_WITH_FLAGS = {"sudo": ("-u", "-g", "--user"), "xargs": ("-n", "-I", "-P", "-L", "-d")}
"""Wrappers whose flags come before the command, and those of them that take a value."""
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "bundle", "conda", "mise"})
_OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&", "\n"})
_ASSIGNMENT = compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """``words`` begin with the program, without its folder. ``around`` is what was put before
    it (variables, wrappers), ``before`` what the same line did first. With ``masked`` the exit
    code is that of something else."""

    words: tuple[str, ...]
    around: tuple[str, ...] = ()
    masked: bool = False
    before: tuple[tuple[str, ...], ...] = ()

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def looks_around(self) -> bool:
        program, second = (*self.words, "", "")[:2]
        return program in LOOKING or not self.words or second in _LOOKING_PARTS.get(program, ())


def invocation(command: Command) -> Invocation:
    return parsed(command.command)


@lru_cache(maxsize=512)
def parsed(command: str) -> Invocation:
    """What a command line is about: its last part that does something."""
    chain = _chain(command)
    best = Invocation(words=())
    before: list[tuple[str, ...]] = []
    for position, (words, operator) in enumerate(chain):
        fed_by = chain[position - 1][1] if position else ""
        if fed_by in ("|", "|&") and words[0] in _VIEWING:
            continue
        later = [op for _, op in chain[position:-1]]
        piped = operator in ("|", "|&") and "pipefail" not in command
        masked = piped or operator in ("||", "&") or ";" in later
        found = replace(_unwrapped(words), masked=masked, before=tuple(before))
        if _weight(found) >= _weight(best):
            best = found
        if not found.looks_around:
            before.append(found.words)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One command of a line, as it was written, and the operator behind it.

    ``feeds``: it is piped into the next one, whose ``line`` has it too.
    """

    what: Invocation
    line: str
    operator: str
    feeds: bool = False


@lru_cache(maxsize=512)
def parts(command: str) -> tuple[Part, ...]:
    """The commands of a line; what is piped into another one stands with it."""
    found: list[Part] = []
    piped = ""
    for raw, operator in pieces(_without_document(command)):
        line = " ".join(f"{piped}{raw}".split())
        words = _split(raw)
        if not words:
            continue
        if found and piped and words[0] in _VIEWING:
            piped = ""
            continue
        if piped:
            found[-1] = replace(found[-1], feeds=True)
        found.append(Part(what=_unwrapped(words), line=line, operator=operator))
        piped = f"{raw.strip()} | " if operator in ("|", "|&") else ""
    return tuple(found)


def _split(raw: str) -> list[str]:
    try:
        return shlex.split(raw, comments=True)
    except ValueError:
        return raw.split()


_TEST_FILE = compile(r"(?i)(?:^|[/_.-])(?:tests?|specs?|__tests__)(?:[/_.-]|$)")


def is_test_file(path: str) -> bool:
    return bool(_TEST_FILE.search(path))


def _weight(found: Invocation) -> int:
    """What verifies the work counts most, then what does some, then what looks around."""
    if not found.words:
        return 0
    return 3 if kind_of_check(found) else 1 if found.looks_around else 2


def _chain(command: str) -> list[tuple[list[str], str]]:
    """The parts of a command line, each with the operator behind it."""
    lexer = shlex.shlex(_without_document(command), posix=True, punctuation_chars="|&;\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
    parts: list[tuple[list[str], str]] = []
    words: list[str] = []
    try:
        for word in lexer:
            if word in _OPERATORS or set(word) <= set("|&;\n"):
                parts.append((words, word.strip("\n") or ";"))
                words = []
            else:
                words.append(word)
    except ValueError:
        words = command.split()
    parts.append((words, ""))
    return [(words, operator) for words, operator in parts if words]


_REDIRECTION = compile(r"\s*(?:\d?>>?&\d|&>>?\s*\S+|\s\d?>>?\s*[\w/.~$-]+)")


_DOCUMENT = compile(r"<<-?\s*[\"']?\w+")
_PYTHON = compile(r"python[\d.]*")


def _without_document(command: str) -> str:
    """Here-documents are data of the command, not commands."""
    line = _DOCUMENT.split(command, 1)[0][:2_000]
    return _REDIRECTION.sub("", line)


def _unwrapped(words: list[str]) -> Invocation:
    around: list[str] = []
    rest = list(words)
    while rest:
        word = rest[0].rpartition("/")[2]
        if _ASSIGNMENT.match(rest[0]) or word in _WRAPPERS:
            around.append(rest.pop(0))
            while word in _WITH_FLAGS and len(rest) > 1 and rest[0].startswith("-"):
                flag = rest.pop(0)
                around.append(flag)
                if flag in _WITH_FLAGS[word] and len(rest) > 1:
                    around.append(rest.pop(0))
        elif word == "timeout" and len(rest) > 1:
            del rest[: 2 if not rest[1].startswith("-") else 3]
        elif word in _RUNNERS and rest[1:2] in (["run"], ["exec"]):
            around += rest[:2]
            del rest[:2]
        elif _PYTHON.fullmatch(word) and rest[1:2] == ["-m"] and len(rest) > 2:
            around += [word, "-m"]
            del rest[:2]
        else:
            rest[0] = word
            break
    return Invocation(words=tuple(rest), around=tuple(around))


_CHECK = compile(
    spaced(r"""^(?:
      (?P<tests>
          (?:py\.?test|unittest|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|bats|karma)\b
        | (?:npm|pnpm|yarn|bun)\ (?:run\ )?(?:t|test|tests|e2e)\b\S*
        | (?:go|cargo|dotnet|mix|swift|deno|zig|stack|cabal|mvn|sbt|flutter|dart|rails|rake|make|just)
          \ (?:\S+\ )*?test\b\S*
        | (?:\./)?gradlew?\ \S*[tT]est\b | \S*(?:run_?)?tests?\.(?:sh|py|js)\b
        | cypress\ run\b | playwright\ test\b | manage\.py\ test\b | cargo\ nextest\b
      )
    | (?P<build>
          (?:npm|pnpm|yarn|bun)\ (?:run\ )?(?:build|lint|type-?check|check|compile)\b\S*
        | (?:go|cargo|dotnet|swift|zig|stack|cabal|flutter)\ (?:build|check|clippy|vet|run)\b
        | (?:mypy|pyright|ruff|flake8|pylint|black|isort|tsc|eslint|prettier|biome|rubocop)\b
        | (?:make|just|ninja|cmake|mvn|gradlew?|bazel|meson|webpack|vite|esbuild|rollup|next)\b
        | (?:gcc|g\+\+|clang|clang\+\+|clang-tidy|cc|c\+\+|javac|rustc|ghc)\b
        | docker\ (?:compose\ )?build\b | terraform\ (?:plan|validate|apply)\b | pre-commit\ run\b
        | golangci-lint\b | lint-imports\b | helm\ (?:lint|template)\b | actionlint\b | shellcheck\b
      )
    )""")  # noqa: E501
)


def kind_of_check(found: Invocation) -> str | None:
    """``tests`` or ``build`` for what verifies work, None for everything else."""
    text = found.text.removeprefix("python ").removeprefix("python3 ")
    text = text.removeprefix("node ").removeprefix("bash ").removeprefix("sh ")
    matched = _CHECK.match(text)
    if matched is None or _checks_nothing(found):
        return None
    group: str | None = matched.lastgroup
    return group


_IDLE = frozenset(_words("""
    --version --help -h --collect-only --co --list --list-tests --listTests --dry-run
    --just-print --setup-plan --fixtures --markers --showConfig --show-settings --no-run
    --recon --question --touch --show-only --print-config --print-data-base --cache-show
    --trace-config --list-suites -version -list -DskipTests -Dmaven.test.skip=true
"""))  # fmt: skip


def _by_program(table: dict[str, str]) -> dict[str, frozenset[str]]:
    return {
        program: frozenset(_words(told))
        for programs, told in table.items()
        for program in programs.split()
    }


# Flags with which a program only says what it would do, or what it is.
_IDLE_OF = _by_program({
    "make gmake": "-n -q -t -p -v", "just": "-l -n -V", "ninja": "-n -t", "tox": "-l -a",
    "nox": "-l", "ctest": "-N", "gradle gradlew": "-m -v", "mvn tsc eslint terraform": "-v",
    "bats": "-c --count -v", "pytest py.test mypy ruff black flake8 rustc": "-V",
})  # fmt: skip
# What verifies nothing where it is all that was asked for.
_ERRANDS = _by_program({
    "make gmake just": "help clean distclean mrproper list",
    "ruff": "help version rule clean config linter", "tox": "list l config", "vitest": "list",
    "gradle gradlew": "help tasks clean projects properties dependencies",
    "mvn": "help:help clean validate dependency:tree", "bazel": "help version info query clean",
})  # fmt: skip
_COMPILERS = frozenset(_words("gcc g++ cc c++ clang clang++ javac rspec"))
# Words of a sentence: what begins with one of these may be no command at all.
_ENGLISH = frozenset(_words("make just next black go mix rake swift dart stack rails karma"))
_SENTENCE = brief(
    r"(?i)\b(?:the|an?|it|its|is|was|were|be|that|this|sure|to|and|of|we|i|you|they|"
    r"everything|works|then|now|with|for|by|my|our|your|should|must|will|has|have)(?![\w./=:-])|\w[,:!?](?:\s|$)",
    2_000,
)


def _checks_nothing(found: Invocation) -> bool:
    """Whether it only names what it would run, or is a sentence and no command."""
    program, rest = found.program, found.words[1:]
    if not _IDLE.isdisjoint(found.words) or not _IDLE_OF.get(program, frozenset()).isdisjoint(rest):
        return True
    if program in _COMPILERS and rest == ("-v",):
        return True
    asked = {word for word in rest if not word.startswith("-") and "=" not in word}
    if asked and asked <= _ERRANDS.get(program, frozenset()):
        return True
    return found.program.rstrip(",:!?") in _ENGLISH and bool(_SENTENCE.search(found.text))

"""What was changed between a failure and its end: commands and edits, without what only looks.

A list of what puts things right could never be complete. So everything counts as a change that
is not known to leave things as they are: reading, keeping books, running other checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from reasonbank.learn.rules.failure import Failure, failure_of
from reasonbank.learn.rules.shell import (
    LOOKING,
    Invocation,
    Part,
    is_test_file,
    kind_of_check,
    parts,
)
from reasonbank.learn.session import Command, Edit, Entry
from reasonbank.safety.patterns import brief, compile
from reasonbank.search import subjects

_words = str.split

# Of what else only looks around, these change something.
_ACTING = frozenset(_words("kill pkill export source . set unset rm mkdir touch cp mv sed xargs"))
_READING = (LOOKING - _ACTING) | frozenset(_words("""
    whoami id uname hostname uptime free top htop nproc date clear reset tput open xdg-open code
    vim nano notify-send say tmux screen gh glab apt-cache journalctl ldd nm objdump otool
    md5sum sha256sum base64 getent who last dmesg bat exa eza column rev tac nl od wait jobs fg
    bg alias watch yes
"""))  # fmt: skip
_READING_WORDS = frozenset(_words("""
    status log logs diff show list ls get describe inspect view info ps images tree why outdated
    search doc version help whoami history events top explain get-contexts current-context
    rev-parse ls-files ls-remote blame grep shortlog reflog cat-file is-active is-enabled
    list-units list-unit-files cat metadata freeze audit doctor plan validate output port stats
    --version -V --help -h -v --list -l --get get-clusters get-url ping --info -version --status
    --show-config --verify
"""))  # fmt: skip
_GROUPS = frozenset(_words("""
    config context contexts cluster network volume image images container compose stack auth
    remote branch worktree submodule secret repo env bisect tag --user
"""))  # fmt: skip
_DRY = frozenset(_words("--dry-run --check --help --version --noEmit --no-emit --list --diff"))
_FIXING = frozenset(_words("--fix --write -w -i -a -A --autocorrect --apply fmt format"))
_LINTERS = frozenset(_words("""
    mypy pyright flake8 pylint ruff eslint tsc rubocop prettier black isort biome shellcheck
    actionlint golangci-lint lint-imports clang-tidy phpstan ktlint stylelint hadolint yamllint
    markdownlint
"""))  # fmt: skip
_CHECKING = frozenset({("cargo", "check"), ("cargo", "clippy"), ("go", "vet"), ("helm", "lint"),
                       ("helm", "template"), ("pre-commit", "run")})  # fmt: skip
# They keep the books of the work; only git itself minds.
_BOOKKEEPING = frozenset(_words("add commit push tag stash checkout switch restore reset revert "
                                "merge rebase cherry-pick branch fetch worktree"))  # fmt: skip
# They may be about anything: these count where they have to do with what failed.
_WEAK = frozenset(_words("mkdir touch cp mv rm ln curl wget tar unzip rsync scp git"))
_STATE = compile(
    r"(?i)(?:^|/)(?:node_modules|build|dist|target|out|vendor|__pycache__|venv|tmp|cache|\.env\S*|"
    r"\.(?:next|nuxt|cache|venv|terraform|gradle|tox|mypy_cache|pytest_cache|parcel-cache|turbo|"
    r"angular|eggs|direnv)|\S*[.-]lock\S*|\S*\.(?:pid|sock|sum))(?:/|$|\s|\*)"
)
ESTABLISHING = compile(
    r"\b(?:install|add|sync|up|start|migrate|upgrade|update|init|create|generate|login|restart|"
    r"enable|createdb|submodule|lfs|bootstrap|seed|restore|codegen|gen|protoc|prisma|prune|clean|"
    r"setup|deps|get|tidy|download|fetch|pull|activate|allow|trust|use)\b"
)
_EVADING = brief(
    r"""(?ix) @?pytest\.mark\.(?:skip|xfail) | \bpytest\.skip\b | \bskipif\b | \bXCTSkip
    | @unittest\.(?:skip|expectedFailure) | \b(?:it|test|describe|context)\.(?:skip|todo)\b
    | \bx(?:it|describe|test)\( | @(?:Disabled|Ignore)\b | \#\[ignore | \bt\.Skip(?:f|Now)?\(
    | \bmarkTestSkipped | \[Fact\(Skip | \#\s*(?:noqa|type:\s*ignore|pragma:\s*no\s*cover)
    | pylint:\s*disable | eslint-disable | @ts-(?:ignore|nocheck|expect-error) | \#\[allow\(
    | @SuppressWarnings | //\s*nolint | rubocop:disable | \|\|\s*true\b | \bexit\s+0\s*$
    | \bcontinue-on-error:\s*true | --passWithNoTests | \bignore_errors\s*[=:]\s*true""",
    8_000,
)
_PROSE = (".md", ".rst", ".adoc", "changelog", "license", "notes.txt", "todo.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that was done; ``related``: it has visibly to do with what failed."""

    number: int
    line: str
    path: str = ""
    quoted: str = ""
    related: bool = True
    aside: str = ""
    """What else one has to know to do it again."""
    anew: bool = False

    @property
    def is_edit(self) -> bool:
        return bool(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What failed, as far as changes can have to do with it."""

    what: Invocation
    told: str
    """The command and what it printed."""

    @property
    def kind(self) -> str | None:
        return subjects.of_program(self.what.program)


def between(entries: Sequence[Entry], failed: Failed) -> list[Change] | None:
    """What may have put it right, in order; None where the check was evaded, not passed."""
    found: list[Change] = []
    for position, entry in enumerate(entries):
        if evades(entry):
            return None
        found += _changes(entry, failed, entries[:position])
    edits = [change for change in found if change.is_edit]
    if edits:
        # Where something was written, commands beside it are mostly for looking on.
        found = [change for change in found if change.is_edit or change.related]
    return _once(found)


def _once(found: list[Change]) -> list[Change]:
    """The last of equal commands; all edits of one file are one change."""
    last = {(change.path or change.line): change for change in found}
    return sorted(last.values(), key=lambda change: change.number)


def evades(entry: Entry) -> bool:
    """Whether it takes the check away instead of passing it."""
    match entry:
        case Edit(path=path, change=change):
            return bool(_EVADING.search(change)) or (is_test_file(path) and not change.strip())
        case Command(command=command, exit_code=0):
            if _EVADING.search(command):
                return True
            return any(_takes_tests_away(part.what.words) for part in parts(command))
    return False


def _takes_tests_away(words: Sequence[str]) -> bool:
    rest = words[1:] if words[:1] == ("git",) else words
    return rest[:1] in (("rm",), ("mv",)) and any(is_test_file(word) for word in rest[1:])


def _changes(entry: Entry, failed: Failed, earlier: Sequence[Entry]) -> Iterator[Change]:
    edit = as_edit(entry)
    if edit is not None:
        if not _beside_the_point(edit, failed):
            yield Change(
                number=edit.number, line=f"editing {edit.path}", path=edit.path,
                quoted=edit.change.strip(), anew=edit.anew,
            )  # fmt: skip
        return
    if not isinstance(entry, Command) or not _ended_well(entry):
        return
    acting = [p for p in parts(entry.command) if not p.feeds and _acts(p.what, failed)]
    if acting:
        line, aside = _line(acting, earlier)
        yield Change(
            number=entry.number,
            line=line,
            aside=aside,
            related=any(_has_to_do(part.what, failed) for part in acting),
        )


def _ended_well(command: Command) -> bool:
    """Started in the background, nobody knows its end, but it was started."""
    if command.exit_code == 0:
        return failure_of(command.output) is None or not _masked(command)
    return command.exit_code is None and command.command.rstrip().endswith("&")


def _masked(command: Command) -> bool:
    found = parts(command.command)
    return any(part.operator in ("|", "||") for part in found)


def only_reads(what: Invocation) -> bool:
    program, words = what.program, what.words[1:]
    if not program or program in _READING:
        return True
    if program == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in words)
    if program in ("curl", "wget"):
        return program == "curl" and _DOWNLOADS.isdisjoint(words)
    if program in ("python", "python3", "node", "ruby", "perl") and words[:1] in (("-c",), ("-e",)):
        return True
    if program == "ulimit":
        return not any(word.isdigit() or word == "unlimited" for word in words)
    if words and not _DRY.isdisjoint(words):
        return True
    if what.words[:2] == ("go", "env") or "fix" in words[1:2]:
        return "fix" not in words
    first, second = (*[w for w in words if w not in _PLACE][:2], "", "")[:2]
    if first in _READING_WORDS and subjects.of_program(program) != "system":
        return not (program in ("go", "flutter", "mix") and first == "get")
    if program in ("systemctl", "service", "brew", "apt", "dpkg"):
        return first in _READING_WORDS or second == "status"
    if first == "stash":
        return second in _READING_WORDS
    return first in _GROUPS and (second in _READING_WORDS or (not second and first != "env"))


_DOWNLOADS = frozenset(_words("""
    -o -O -X -d --data --output --remote-name --request -T -F -fsSLO -LO -sLO
"""))  # fmt: skip
_PLACE = frozenset(_words("-C -n --namespace -q -y --silent"))


# Why a command that only looks may fail for a reason that one can learn from.
_IN_THE_WAY = frozenset(
    _words("""
    AccessDenied PermissionDenied ConnectionRefused ConnectionFailed CertificateError DiskFull
    VersionMismatch CommandNotFound
""")
)


def tells_nothing(what: Invocation, failure: Failure | None) -> bool:
    """Whether its failing says only that there was nothing to be seen."""
    if kind_of_check(what) or not only_reads(what):
        return False
    return what.program in _READING or failure is None or failure.type not in _IN_THE_WAY


def _acts(what: Invocation, failed: Failed) -> bool:
    """Whether it can have made the difference."""
    program, first = (*what.words, "", "")[:2]
    if only_reads(what) or kind_of_check(what) == "tests" or (program, first) in _CHECKING:
        return False
    if program in _LINTERS and _FIXING.isdisjoint(what.words):
        return program in ("black", "isort")
    if _is_variant(what, failed.what):
        return False
    if program == "git" and first in _BOOKKEEPING and failed.what.program not in ("git", "gh"):
        return False
    if program in ("rm", "kill", "pkill", "export", "source", ".", "set", "unset"):
        return program != "set" and (program != "rm" or _has_to_do(what, failed))
    if program in _WEAK and program != failed.what.program:
        return _has_to_do(what, failed)
    mine, its = subjects.of_program(program), failed.kind
    foreign = mine in subjects.LANGUAGES and its in subjects.LANGUAGES and mine != its
    return not foreign or _shares_a_name(what, failed)


def _is_variant(what: Invocation, failed: Invocation) -> bool:
    """The same with other flags: another try, not a change."""
    operands = [w for w in what.words if not w.startswith("-")]
    return operands == [w for w in failed.words if not w.startswith("-")]


def _has_to_do(what: Invocation, failed: Failed) -> bool:
    kind = subjects.of_program(what.program)
    if what.program not in _WEAK and (
        what.program == failed.what.program or (kind is not None and kind == failed.kind)
    ):
        return True
    if what.program not in _WEAK and ESTABLISHING.search(what.text):
        return True
    if what.program in ("rm", "cp", "mv", "ln", "touch") and _STATE.search(what.text):
        return True
    if what.program == "git" and what.words[1:2] in (("submodule",), ("lfs",), ("pull",)):
        return True
    if what.program == "git" and failed.kind == "git":
        return True
    return _shares_a_name(what, failed)


_NAME = compile(r"[A-Za-z][\w]{2,}")
_COMMON = frozenset(_words("""
    the and for not with from run file line error failed home usr bin src app main test tests
    make sudo set install you your this that are was has have can could cannot but new all any
    out use get import module package directory such found true false none null com org net http
    https www local opt var lib etc github command exit code python node npm version
"""))  # fmt: skip


def _names(text: str) -> set[str]:
    return {name.lower() for name in _NAME.findall(text[-4_000:])} - _COMMON


def _shares_a_name(what: Invocation, failed: Failed) -> bool:
    return not _names(what.text).isdisjoint(_names(failed.told))


def _beside_the_point(edit: Edit, failed: Failed) -> bool:
    """Prose, or code of another language, unless what failed speaks of it."""
    name = edit.path.replace("\\", "/").rpartition("/")[2]
    if name and name in failed.told:
        return False
    prose = edit.path.lower().endswith(_PROSE)
    mine, its = subjects.of_file(edit.path), failed.kind
    foreign = mine in subjects.LANGUAGES and its in subjects.LANGUAGES and mine != its
    return foreign or (prose and "doc" not in failed.what.text)


# A file that is written anew is quoted with what is new in it.

LEAST_LINES, SAME, OTHER = 4, 0.5, 0.35


def only_new_lines(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, with edits that write again what they wrote before cut to the lines that are
    new."""
    written: dict[str, list[str]] = {}
    found: list[Entry] = []
    for entry in entries:
        if not isinstance(entry, Edit):
            found.append(entry)
            continue
        before, lines = written.get(entry.path, []), entry.change.splitlines()
        written[entry.path] = lines
        found.append(_compared(entry, before, lines))
    return found


def _compared(edit: Edit, before: list[str], lines: list[str]) -> Edit:
    if min(len(lines), len(before)) < LEAST_LINES:
        return edit
    # By the lines they share, whatever their order: that takes linear time.
    alike = SequenceMatcher(None, before, lines, autojunk=False).quick_ratio()
    known = frozenset(before)
    if alike >= SAME:
        return replace(edit, change="\n".join(line for line in lines if line not in known))
    return replace(edit, anew=alike < OTHER)


# Edits that are made with commands.

_WRITING = compile(r"\bsed\s+(?:-\w+\s+)*-i|\bperl\s+-p?i|\bgit\s+apply\b|\bpatch\s+-p")
_INTO = compile(r"(?:\b(?:cat|echo|printf)\b[^|;&\n]{0,500}>>?|\btee\s+(?:-a\s+)?)\s*([\w./~$-]+)")
_A_FILE = compile(r"\w\.\w+$|^\.\w+")


def as_edit(entry: Entry) -> Edit | None:
    """Some agents edit with commands."""
    if isinstance(entry, Edit):
        return entry
    if not isinstance(entry, Command) or entry.exit_code != 0:
        return None
    into = _INTO.search(entry.command[:4_000])
    if into and not into[1].startswith("/dev/"):
        return Edit(number=entry.number, path=into[1], change=entry.command)
    if not _WRITING.search(entry.command):
        return None
    words = [word for part in parts(entry.command) for word in part.what.words]
    path = next((word for word in reversed(words) if _A_FILE.search(word)), "")
    return Edit(number=entry.number, path=path, change=entry.command) if path else None


# How a change is written down.

_PID = compile(r"\b\d{2,7}\b")


def _line(acting: list[Part], earlier: Sequence[Entry]) -> tuple[str, str]:
    told = " && ".join(dict.fromkeys(part.line for part in acting))
    if acting[-1].what.program != "kill" or not (pids := _PID.findall(told)):
        return told, ""
    # The number of a process is another one the next time; how it was found is not.
    found = next(
        (e.command for e in reversed(earlier)
         if isinstance(e, Command) and any(pid in e.output for pid in pids)),
        "",
    )  # fmt: skip
    return _PID.sub("<pid>", told), f" (the pid from `{found[:120]}`)" if found else ""

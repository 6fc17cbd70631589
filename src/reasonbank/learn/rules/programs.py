"""Programs that an agent wrote and ran: what made one run that failed, and what never worked.

Only the few lines that changed are kept. That a program ends well shows that it runs, and nothing
about its result; where the data were made up or the error was swallowed, not even that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from reasonbank.learn.rules.failure import Failure, failure_of, stable
from reasonbank.learn.rules.lesson import Finding, at_home, error_line, named, noted, short
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Command, Entry, Session
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile, spaced

_words = str.split

FAR = 16
"""How many steps may lie between a program and the one that runs."""
ALIKE = 0.5
MOST_LINES = 6
STUBBORN = 3
MOST_PROGRAMS = 60

_CODE = compile(
    "(?m)"
    + spaced(r"""
      ^\s*(?:from\ [\w.]+\ import\b|import\ \w|def\ \w+\(|class\ \w+|print\(|async\ def\b
           |const\ \w+\ =|let\ \w+\ =|for\ \w+\ in\ .*:$|if\ .*:$)
    | ^\s*\w[\w.]*\ =\ \S | ^[a-z_]\w*\(.*\)\s*$""")
)
_SHELL = compile(
    r"(?m)^\s*(?:\$ |sudo |cd |pip |npm |git |apt|brew |docker |kubectl |echo |export |ls\b|cat |"
    r"make\b|pytest\b|python3? [\w./-]+|curl |mkdir |uv |cargo |go |bash |sh )"
)


def is_program(command: str) -> bool:
    """Whether it is code and no command line."""
    return bool(_CODE.search(command)) and not _SHELL.search(command[:4_000])


# Errors of the program itself, or of its data: the next program has others.
_OWN = frozenset(_words("""
    SyntaxError IndentationError TabError NameError UnboundLocalError KeyError IndexError
    ZeroDivisionError AssertionError FileNotFoundError FileNotFound RecursionError EOFError
    StopIteration KeyboardInterrupt TestFailure JSONDecodeError EmptyDataError ParserError
"""))  # fmt: skip
_NOTHING_THERE = compile(
    r"(?i)'?NoneType'? |no results?\b|not found|no such|404\b|does not exist|out of range|"
    r"could not convert string|invalid literal|no tables|line \d+\b.*\bcolumn"
)
# What an environment does not let a program do; it will not let the next one either.
_FORBIDDEN = compile(
    r"(?i)\bis not allowed\b|\bnot (?:permitted|authori[sz]ed|supported|installed)\b|"
    r"\bforbidden\b|failed to start|no module named|cannot import name|"
    r"would erase the existing|api[_ ]?key|credentials|\b40[13]\b|rate.?limit|"
    r"\b429\b|max(?:imum)? number of|limit exceeded|connection refused|"
    r"network is unreachable|name resolution|failed to establish a new connection|"
    r"not subscribed|quota"
)
_MADE_UP = compile(
    r"(?i)\b(?:mock(?:ed)?|simulat\w+|placeholder|dummy|fake|hypothetical|sample (?:data|dataset)|"
    r"for (?:demonstration|illustration)|assum(?:e|ed|ing|ption)s?|example data|hard-?coded)\b"
)
_QUOTED_NAME = compile(r"name '(\w+)' is not defined")
_INVENTED = compile(
    r"(?i)\b(?:mock(?:ed)?|simulat\w+|placeholder|dummy|fake|hypothetical|sample|made.?up)"
    r"[ _](?:\w+[ _])?(?:data\w*|values?|table|results?|records?|entries|content)\b"
)
_SWALLOWED = compile(r"^\s*(?:except\b|pass$|try:|continue$)|errors\s*=\s*['\"](?:ignore|coerce)")
_STILL_WRONG = compile(
    r"(?i)^\s*(?:\w*(?:error|exception)\b|traceback|failed|could not|unable)|"
    r"\b(?:not found|failed to)\b|\berror:"
)


@dataclass(frozen=True)
class Program:
    command: Command

    @cached_property
    def lines(self) -> list[str]:
        stripped = (line.rstrip() for line in self.command.command.splitlines())
        return [line for line in stripped if line.strip() and not line.lstrip().startswith("#")]

    @cached_property
    def failure(self) -> Failure | None:
        """The error that it ended with; None where it did not, or nobody can name it."""
        if self.command.exit_code == 0:
            return None
        found = failure_of(self.command.output)
        unknown = self.command.exit_code is None
        return None if unknown and not _FAILED.match(self.command.output) else found

    @cached_property
    def ran(self) -> bool:
        """Whether it ended well, as far as its environment tells."""
        if self.command.exit_code is None:
            said = self.command.output.strip()
            return bool(said) and not _FAILED.match(said) and not _STILL_WRONG.search(said[:2_000])
        told = self.command.output[:2_000]
        return self.command.exit_code == 0 and not _STILL_WRONG.search(told)


_FAILED = compile(
    r"(?i)\s*(?:error\b|\w*(?:Error|Exception)\b|traceback|(?:code )?execution failed)"
)


def programs(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    found = [Program(e) for e in entries if isinstance(e, Command) and is_program(e.command)]
    found = found[-MOST_PROGRAMS:]
    helped: set[int] = set()
    for place, failed in enumerate(found):
        failure = failed.failure
        if failure is None or not failure.message:
            continue
        lesson = _mended(session, failed, failure, found[place + 1 :]) or _imported(
            session, failed, failure, found[place + 1 :]
        )
        if lesson is not None:
            helped.add(failed.command.number)
            yield lesson
        elif _teaches(failure) and _FORBIDDEN.search(failure.message):
            helped.add(failed.command.number)
            yield _forbidden(session, failed, failure)
        elif denied := _denied(failed):
            helped.add(failed.command.number)
            yield _forbidden(session, failed, denied)
        elif helper := _that_gave_nothing(failed, failure):
            helped.add(failed.command.number)
            yield _gave_nothing(session, failed, failure, helper)
    yield from _never_worked(session, [p for p in found if p.command.number not in helped])
    yield from _made_up(session, found)


def _teaches(failure: Failure) -> bool:
    return failure.type not in _OWN and not _NOTHING_THERE.search(failure.message)


def _mended(
    session: Session, failed: Program, failure: Failure, later: Sequence[Program]
) -> Finding | None:
    """The next program that does the same and runs, if little was changed."""
    for program in later:
        if program.command.number - failed.command.number > FAR:
            return None
        alike = SequenceMatcher(None, failed.lines, program.lines).quick_ratio() >= ALIKE
        if not alike or not program.ran:
            continue
        gone, new = changed(failed.lines, program.lines)
        if not new or len(gone) + len(new) > MOST_LINES or is_no_remedy(program, new):
            return None
        if not _teaches(failure) and not _brought_in(failure, new):
            return None
        return _changed_lines(session, failed, program, failure, (gone, new))
    return None


def changed(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """The lines that are no more, and those that are new; what is only printed does not count."""
    before, after = Counter(map(_bare, old)), Counter(map(_bare, new))
    gone = [line.strip() for line in old if not after[_bare(line)]]
    added = [line.strip() for line in new if not before[_bare(line)]]
    return [g for g in gone if not g.startswith("print(")], [
        a for a in added if not a.startswith("print(")
    ]


def _bare(line: str) -> str:
    """A comma that follows, because something follows, changes nothing."""
    return line.strip().removesuffix(",")


def diff(lines: tuple[list[str], list[str]]) -> str:
    gone, new = lines
    return "\n".join([*(f"- {short(g, 160)}" for g in gone), *(f"+ {short(n, 160)}" for n in new)])


def _brought_in(failure: Failure, new: list[str]) -> bool:
    """Whether what had no name was imported: that is how this environment gives it; or whether
    what is nothing is no longer taken for something."""
    named = _QUOTED_NAME.search(failure.message)
    imported = named and any(line.startswith("from ") and named[1] in line for line in new)
    return bool(imported) or (failure.type == "TypeError" and "NoneType" in failure.message)


def _imported(
    session: Session, failed: Program, failure: Failure, later: Sequence[Program]
) -> Finding | None:
    """Where what had no name comes from: from the next program that brings it in and runs."""
    named = _QUOTED_NAME.search(failure.message)
    for program in later if named else ():
        lines = [line for line in program.lines if line.startswith("from ")]
        line = next((n for n in lines if named[1] in _WORD.findall(n.partition("import")[2])), "")
        near = program.command.number - failed.command.number <= FAR
        if near and line and program.ran:
            return _changed_lines(session, failed, program, failure, ([], [line]))
    return None


def is_no_remedy(program: Program, new: list[str]) -> bool:
    return bool(_MADE_UP.search(program.command.command)) or any(map(_SWALLOWED.search, new))


def _changed_lines(
    session: Session, failed: Program, program: Program, failure: Failure,
    lines: tuple[list[str], list[str]],
) -> Finding:  # fmt: skip
    _, new = lines
    told_lines = diff(lines)
    return noted(
        session, "program", failed.command.number, program.command.number, weight=0.6,
        title=f"{named(failure, 100)}: it ran with `{short(new[0], 80)}`",
        description=_when(session, failure),
        content=f"Task: {gist(session)}\n\nA program failed with:\n{error_line(failure)}\n\n"
        f"It ran after this change:\n{told_lines}\n\nThat it ran was seen; its result was not "
        "checked.",
        outcome=Outcome.SUCCESS,
        error=_error(failure, f"Change it so:\n{told_lines}"),
        tags=(failure.type,),
    )  # fmt: skip


def _when(session: Session, failure: Failure) -> str:
    return f"When a program fails with {failure.pattern}, as in the task: {gist(session)}"


def _error(failure: Failure, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type=failure.type,
        failure_pattern=short(failure.pattern, 500),
        corrective_guidance=short(guidance, 1_500),
        error_message=at_home(failure.message) or None,
    )


_DENIED = compile(
    r"(?i)(you are not subscribed to this api|(?:monthly |daily )?quota (?:was )?exceeded|"
    r"invalid api key[^\n'\"]{0,40}|too many requests)"
)


def _denied(failed: Program) -> Failure | None:
    """What a service said beside the error that the program then made of it."""
    found = _DENIED.search(failed.command.output[-4_000:])
    if not found:
        return None
    said = found[1].strip()
    return Failure(type="AccessDenied", message=said, pattern=stable(f"AccessDenied: {said}"))


_LIMIT = compile(r"(?i)max(?:imum)? number of ([a-z]{3,20}) (?:of |\()?(\d{1,12})\b")
_MODULE = compile(r"(?:No module named '?|cannot import name '?|Import of )([A-Za-z_][\w.]{0,60})")
_GIVEN = compile(r"Import from (\w{1,60}) is not allowed")
_EXECUTED = compile(r"tried to execute (\w{1,60})")
_HOST = compile(r"host='([\w.-]{3,100})'")
_CAUSE = compile(
    r"(?i)(connection timed out|connection refused|name resolution|network is unreachable)"
)
_KEY = compile(
    r"(?i)api[_ ]?key|credentials|not subscribed|quota|\b40[13]\b|\b429\b|rate.?limit|denied"
)


def _forbidden(session: Session, failed: Program, failure: Failure) -> Finding:
    what, guidance = _refusal(failed, failure)
    title = f"Programs here cannot do this: {what}"
    if limit := _LIMIT.search(failure.message):
        title, guidance = _limited(failure.type, f"{int(limit[2]):,} {limit[1]}")
    return noted(
        session, "forbidden", failed.command.number, failed.command.number, weight=0.5,
        title=title,
        description=_when(session, failure),
        content=f"Task: {gist(session)}\n\nThe environment refused a program:\n"
        f"{short(error_line(failure), 400)}\n\nThe line was: `{_line_of(failed)}`\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error(failure, guidance),
        tags=(failure.type,),
    )  # fmt: skip


def _limited(error: str, many: str) -> tuple[str, str]:
    return (
        f"Programs here are broken off after {many} ({error})",
        f"Reckon before the run how many steps it takes. Where that may be more than {many}: cut "
        "the data down to what the task needs before looping over them, take fewer rounds, or "
        "work it out by a formula.",
    )


def _refusal(failed: Program, failure: Failure) -> tuple[str, str]:
    """What could not be done, in short, and what to do instead."""
    said = named(failure, 150)
    line = _line_of(failed)
    called = next((n for n in _NAME.findall(line) if n not in _COMMON), "")
    if module := _MODULE.search(failure.message):
        name = module[1]
        return said, f"`{name}` is not to be had here: plan without it, or see first what is there."
    if (own := _GIVEN.search(failure.message)) and f"import {own[1]}" in line:
        return said, f"`{own[1]}` is a tool that is given and no module: call it without an import."
    if tried := _EXECUTED.search(failure.message):
        return (
            f"`{tried[1]}` may not be called ({failure.type})",
            f"Only given tools and what a program imports itself may be called: do without "
            f"`{tried[1]}`.",
        )
    if host := _HOST.search(failure.message):
        cause = _CAUSE.search(failure.message)
        why = cause[1] if cause else "no connection"
        return f"{host[1]} cannot be reached ({why})", f"Do not plan with {host[1]} from here."
    if called and _KEY.search(failure.message):
        return (
            f"`{called}` is refused: {said}",
            f"`{called}` needs a right that is not there (a key, a subscription, an allowance): "
            "get what it would give from elsewhere.",
        )
    return said, "Expect it, and do it another way from the start."


# A helper of the environment that gives nothing where something is expected.

_IMPORTED = compile(r"(?m)^\s*from\s+([\w.]+)\s+import\s+(.+)$")
_WORD = compile(r"[A-Za-z_]\w*")


def _that_gave_nothing(failed: Program, failure: Failure) -> tuple[str, str] | None:
    """The imported function whose result was None, and where it comes from."""
    if "NoneType" not in failure.message:
        return None
    code, line = failed.command.command, _last_line_of(failed)
    asked = _ASKED_OF_NOTHING.search(failure.message)
    for module, names in _IMPORTED.findall(code):
        for name in _WORD.findall(names):
            held = _holding(name, code)
            for used in _WORD.findall(line):
                if used in held and (not asked or f"{used}.{asked[1]}" in line):
                    return name, module
    return None


_PUT = compile(r"^\s*(\w+)(?:\[[^\]]{1,80}\] = |\.append\()(\w+)\)?\s*$")
_TAKEN = compile(r"^\s*for (?:\w+, ?)?(\w+) in (\w+)(?:\.(?:items|values)\(\))?:")


def _holding(name: str, code: str) -> set[str]:
    """The names of what a function gave: at once, or by way of a list or a table of it."""
    held: set[str] = set()
    for line in code.splitlines():
        made, _, rest = line.strip().partition(" = ")
        if rest.startswith(f"{name}(") and made.isidentifier():
            held.add(made)
        elif (put := _PUT.search(line[:200])) and put[2] in held:
            held.add(put[1])
        elif (taken := _TAKEN.search(line[:200])) and taken[2] in held:
            held.add(taken[1])
    return held


_ASKED_OF_NOTHING = compile(r"has no attribute '(\w+)'")


def _gave_nothing(
    session: Session, failed: Program, failure: Failure, helper: tuple[str, str]
) -> Finding:
    name, module = helper
    guidance = f"Check what `{name}` returns before it is used; it may only print."
    return noted(
        session, "nothing", failed.command.number, failed.command.number, weight=0.6,
        title=f"`{name}` of {module} may return None: {failure.message}",
        description=f"When a program uses `{name}` of {module}, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\n`{name}` returned None, and the program failed with:\n"
        f"{error_line(failure)}\n\nThe line was: `{_last_line_of(failed)}`\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error(failure, guidance),
        tags=(name, failure.type),
    )  # fmt: skip


# Data that could not be had, and were made up.


def _made_up(session: Session, found: list[Program]) -> Iterator[Finding]:
    missing: Program | None = None
    for program in found:
        if program.failure is not None:
            missing = program if _is_out_of_reach(program.failure) else missing
        elif missing and program.ran and invents(program.command.command):
            yield _invented(session, missing, program)
            return


def invents(code: str) -> bool:
    """Whether data that a program works on were made up."""
    return bool(_INVENTED.search(code))


_OUT_OF_REACH = compile(
    r"(?i)\b(?:no such file|http|https|url|api|connection|retries|timed out|not found|download)\b"
)


def _is_out_of_reach(failure: Failure) -> bool:
    return bool(
        failure.type.startswith("FileNotFound")
        or _FORBIDDEN.search(failure.message)
        or _OUT_OF_REACH.search(f"{failure.type} {failure.message}")
    )


def _invented(session: Session, missing: Program, program: Program) -> Finding:
    failure = failure_of(missing.command.output)
    assert failure is not None
    guidance = "Say that the data are missing, or find them; do not answer from made-up data."
    result = short(" ".join(program.command.output.split()), 160)
    return noted(
        session, "made-up", missing.command.number, program.command.number, weight=0.65,
        title=f"Made-up data after {named(failure, 90)}: the result is worth nothing",
        description=f"When data for a task cannot be had, as in: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe real data could not be had:\n"
        f"{error_line(failure)}\n\nThen a program ran on data that were made up, and printed: "
        f"{result}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error(failure, guidance),
        tags=(failure.type, "made-up"),
    )  # fmt: skip


# What was called again and again, and never worked.

_QUOTED = compile(r"(?s)failed at line '(.{1,400}?)' due to")
_SOURCE = compile(r"(?m)^\s+File \"[^\n]*\", line \d+, in <module>\n\s+(\S.*)$")
_FRAME = compile(r"(?m)^\s+File \"[^\n]*\", line \d+, in \S+\n\s+(\S.*)$")
_NAME = compile(r"\b([A-Za-z_][\w.]{2,60})\(")
_COMMON = frozenset(_words("""
    print asyncio.run run open len range str int list dict set sorted json.loads json.dumps get
"""))  # fmt: skip


def _line_of(program: Program) -> str:
    """The line of the program that failed, as far as the error names it."""
    output = program.command.output
    found = _QUOTED.search(output[:2_000]) or _SOURCE.search(output[-4_000:])
    return short(" ".join(found[1].split()), 200) if found else short(program.lines[0].strip(), 120)


def _last_line_of(program: Program) -> str:
    """The line that failed, in whatever function."""
    frames = _FRAME.findall(program.command.output[-4_000:])
    return short(frames[-1], 200) if frames else _line_of(program)


def _never_worked(session: Session, found: list[Program]) -> Iterator[Finding]:
    tried: dict[str, list[Program]] = {}
    for program in found:
        if program.failure is not None:
            for name in set(_NAME.findall(_line_of(program))) - _COMMON:
                tried.setdefault(name, []).append(program)
    for name, failed in tried.items():
        last = failed[-1].command.number
        worked = any(p.ran and f"{name}(" in p.command.command for p in found)
        errors = {stable(p.failure.message) for p in failed if p.failure}
        if len(failed) >= STUBBORN and not worked and len(errors) > 1:
            yield _given_up(session, name, failed, last)


def _given_up(session: Session, name: str, failed: list[Program], last: int) -> Finding:
    ways = {_line_of(p): p.failure for p in failed if p.failure}
    lines = [f"- `{short(way, 140)}`: {named(f, 100)}" for way, f in list(ways.items())[-4:]]
    failure = failed[-1].failure
    assert failure is not None
    listed = "\n".join(lines)
    guidance = (
        f"Do not try these ways again; look for another way than `{name}`, or for its manual."
    )
    return noted(
        session, "stubborn", failed[0].command.number, last, weight=0.7,
        title=f"`{name}` failed {len(failed)} times in different ways, and never worked",
        description=f"When a program calls `{name}`, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\n`{name}` never worked. Tried in vain:\n{listed}\n\n"
        f"{guidance}",
        outcome=Outcome.FAILURE,
        error=_error(failure, guidance),
        tags=(name.rpartition(".")[2], failure.type),
    )  # fmt: skip

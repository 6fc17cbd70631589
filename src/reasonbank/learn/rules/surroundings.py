"""What the surroundings of an agent do that it did not expect.

Programs that start afresh, blocks of a language that nothing runs, a run that its own machinery
broke off, sites that let no program in: all of that holds for the next task too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.pages import pages
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import Command, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile


def surroundings(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    yield from _afresh(session, entries)
    yield from _of_unknown_language(session, entries)
    yield from _indented(session, entries)
    yield from _ended_early(session, entries)
    yield from _told_in_words(session, entries)
    yield from _shut_out(session, entries)


# A name that an earlier program had, and the next one has not.

_NO_NAME = compile(r"(?m)^NameError: name '(\w{2,60})' is not defined")
_FENCE = "```"
MOST_PROGRAMS = 60
"""So many programs before it may have had a name."""


def _afresh(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    earlier: list[str] = []
    for entry in entries:
        if isinstance(entry, Command):
            missed = _NO_NAME.search(entry.output[-2_000:]) if entry.exit_code else None
            made = missed and _made(missed[1], earlier[-MOST_PROGRAMS:])
            if missed and made and not (_ran(entry) and _makes(missed[1], entry.command)):
                yield _starts_afresh(session, entry, missed[1], made)
                return
            earlier.append(entry.command)
        elif isinstance(entry, Turn) and not entry.by_user:
            earlier += entry.text.split(_FENCE)[1::2]


_SOURCE = compile(r"(?m)^\s+File \"[^\"\n]*\", line \d+, in <module>\n\s+(\S.*)$")


def _ran(command: Command) -> bool:
    """Whether it is this program that failed: of several blocks only the last may be known."""
    line = _SOURCE.search(command.output[-4_000:])
    return line is None or line[1].strip() in command.command


def _made(name: str, programs: Sequence[str]) -> str | None:
    """The line that brought a name in, in one of these programs."""
    lines = (line for program in reversed(programs) for line in program.splitlines())
    return next((line.strip() for line in lines if _brings_in(name, line)), None)


def _makes(name: str, program: str) -> bool:
    return any(_brings_in(name, line) for line in program.splitlines())


_WORD = compile(r"\w+")


def _brings_in(name: str, line: str) -> bool:
    said = line.strip()[:400]
    if name not in said or line[:1].isspace():
        return False
    if said.startswith(("import ", "from ")):
        return name in _WORD.findall(said.partition("import")[2])
    return said.startswith((f"{name} = ", f"def {name}(", f"class {name}"))


def _starts_afresh(session: Session, failed: Command, name: str, made: str) -> Finding:
    guidance = "Every block that is run starts afresh: repeat its imports and its definitions."
    return _warned(
        session, "afresh", (failed.number, failed.number), 0.6,
        title=f"Each program here starts afresh: `{name}` of an earlier one is not defined",
        when="When several programs are run one after another",
        seen=f"An earlier program had `{short(made, 160)}`. The next one used `{name}` without it, "
        f"and failed with:\nNameError: name '{name}' is not defined",
        guidance=guidance,
        error=("NameError", f"NameError: name '{name}' is not defined"),
    )  # fmt: skip


# A block that nothing runs.

_UNKNOWN = compile(r"(?i)^\s*(?:error:\s*)?((?:unknown|unsupported) language\b[^\n]{0,60})\s*\z")

_SCRIPT = compile(r"\s*(?:\$ )?(?:python[\d.]*|bash|sh|node|\./)\b")


def _of_unknown_language(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if not isinstance(entry, Command) or _SCRIPT.match(entry.command):
            continue
        if found := _UNKNOWN.match(entry.output):
            said = " ".join(found[1].split())
            yield _warned(
                session, "language", (entry.number, entry.number), 0.55,
                title=f"What runs the programs here refuses a block: {said}",
                when="When code is handed over to be run",
                seen=f"A message with fenced blocks was handed over to be run and refused:\n{said}",
                guidance="Fence only what is to be run, and name its language (python, sh); put "
                "data, output and explanations outside of fences.",
                error=("UnknownLanguage", said),
            )  # fmt: skip
            return


# A block that was run with the indentation of the list that it stands in.

_INDENTED = compile(
    r"line 1\n\s{3,}(\S[^\n]{0,200})\n(?:[^\n]{0,200}\n)?IndentationError: unexpected indent"
)


def _indented(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        found = _INDENTED.search(entry.output) if isinstance(entry, Command) else None
        if found:
            yield _warned(
                session, "indented", (entry.number, entry.number), 0.55,
                title="Code in a list is run with its indentation: IndentationError in line 1",
                when="When code is handed over to be run from within a list",
                seen=f"A block was run as it stood, indented, and failed in its first line "
                f"(`{short(found[1].strip(), 80)}`) with:\nIndentationError: unexpected indent",
                guidance="Put code that is to be run at the left margin, outside of list items.",
                error=("IndentationError", "IndentationError: unexpected indent in line 1"),
            )  # fmt: skip
            return


# A text with quotes of three within quotes of three.

_PARSING = compile(r"(?i)SyntaxError|invalid syntax|unterminated (?:triple-quoted )?string")
_QUOTES = ('"""', "'''")


def _ended_early(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if not isinstance(entry, Command) or not _PARSING.search(entry.output[:4_000]):
            continue
        mark = next((q for q in _QUOTES if entry.command.count(q) > 2 and q in entry.output), "")
        if mark:
            other = next(quote for quote in _QUOTES if quote != mark)
            yield _warned(
                session, "quotes", (entry.number, entry.number), 0.55,
                title=f"A text that has {mark} in it cannot stand between {mark}: SyntaxError",
                when="When a patch or a source file is handed over as a string",
                seen=f"A program held a text between {mark}, and the text had {mark} in it. The "
                "string ended there, and the rest was read as code: SyntaxError.",
                guidance=f"Put such a text between {other}, or read it from a file.",
                error=("SyntaxError", f"SyntaxError: {mark} within {mark}"),
            )  # fmt: skip
            return


# Who runs code does nothing that is only said.

_NO_CODE = compile(
    r"(?i)\bno (?:executable )?(?:code|command|script)s?(?: blocks?)?\b[^.\n]{0,60}"
    r"\b(?:execute|run)\b"
)
_WISH = compile(
    r"(?i)\b(?:please|let's|let us|let me|i will|i'll|we need to|we will)\b[^.\n]{0,60}"
    r"\b(?:access\w*|check|visit\w*|open\w*|search\w*|fetch\w*|extract\w*|look\w*|retriev\w*|download\w*|scrap\w*|"
    r"provide|locate|find|inspect|consult|browse)\b"
)
IN_VAIN = 2
MOST_ASKED = 3


def _told_in_words(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    answers: list[tuple[Turn, str]] = []
    before = ""
    for entry in entries:
        if not isinstance(entry, Turn) or entry.by_user:
            before = ""
        elif _NO_CODE.search(entry.text[:400]) and _FENCE not in before:
            answers.append((entry, before))
            before = ""
        else:
            before = entry.text
    asked = [(turn, wish) for turn, text in answers if (wish := _wish(text))]
    if len(asked) < IN_VAIN:
        return
    first, last = asked[0][0], asked[-1][0]
    said = " ".join(sentences(first.text)[0].split())
    listed = "".join(f"\n- “{short(wish, 160)}”" for _, wish in asked[:MOST_ASKED])
    ran = next((e for e in entries if isinstance(e, Command) and not e.exit_code), None)
    worked = " What came in a fenced block was run." if ran else ""
    yield _warned(
        session, "in-words", (first.number, last.number), 0.57,
        title=f"Who runs the code here does nothing that is only said: “{short(said, 90)}”",
        when="When something is to be looked up or worked out by running code",
        seen=f"It was asked for in words:{listed}\nThe answer was, {len(asked)} times: “"
        f"{short(said, 160)}”{worked}",
        guidance="Hand over a program in a fenced block that does it (fetches the page, searches, "
        "counts) and prints what it finds; a link, a plan or a question reaches nobody, and what "
        "nobody looked up is not to be taken as confirmed.",
        error=("NoCode", said),
    )  # fmt: skip


def _wish(text: str) -> str:
    """What was asked for last."""
    told = (s for line in text[:6_000].splitlines() for s in sentences(line))
    wishes = [s for s in told if _WISH.search(s[:400])]
    return wishes[-1] if wishes else ""


# A site that lets no program in.

WALL = compile(
    r"(?i)just a moment\.\.\.|verify(?:ing)? (?:that )?you are (?:a )?human|access denied|"
    r"unusual traffic|enable javascript and cookies|are you a robot|error 40[13]\b|error 429\b|"
    r"\b(?:401|403|429) client error"
)


def _shut_out(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    walls: dict[str, list[tuple[int, str]]] = {}
    opened: set[str] = set()
    for entry in entries:
        for page in pages(entry):
            if wall := WALL.search(page.begins):
                walls.setdefault(page.host, []).append((entry.number, wall[0]))
            else:
                opened.add(page.host)
    for host, seen in walls.items():
        if host in opened:
            continue
        times = "" if len(seen) == 1 else f" {len(seen)} times"
        yield _warned(
            session, "shut-out", (seen[0][0], seen[-1][0]), 0.55 + 0.02 * min(len(seen), 5),
            title=f"{host} {'lets no program in' if times else 'did not let a program in'}: "
            f"“{seen[0][1]}”",
            when=f"When a task leads to {host}",
            seen=f"{host} was opened{times} and showed only “{seen[0][1]}”; nothing of it could be "
            "read.",
            guidance=f"Do not plan with {host}; look for the same elsewhere (a copy, an archive, "
            "another source).",
            error=("AccessDenied", f"{host}: {seen[0][1]}"),
        )  # fmt: skip


def _warned(
    session: Session, rule: str, steps: tuple[int, int], weight: float, *, title: str, when: str,
    seen: str, guidance: str, error: tuple[str, str],
) -> Finding:  # fmt: skip
    kind, pattern = error
    return noted(
        session, rule, *steps, weight=weight,
        title=title,
        description=f"{when}, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\n{seen}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type=kind, failure_pattern=short(pattern, 500), corrective_guidance=guidance
        ),
        tags=(kind,),
    )  # fmt: skip

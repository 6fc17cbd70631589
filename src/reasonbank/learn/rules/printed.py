"""What a program's print shows of a mistake that no error tells: a request that was only printed,
and a text that was taken for a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import Command, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

MOST_PROGRAMS = 60
LEAST_REQUEST = 60
"""A shorter text that is printed may be anything."""

_CALLED = compile(r"\b([A-Za-z_][\w.]{0,60})\(")
_TEXT = compile(r"(?s)\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_MEANT = compile(
    r"(?i:\b(?:ask|call|contact|instruct|request|delegate|send|message|query|consult)\w{0,3}"
    r"(?: (?:to|from|on|our|the|a|my|with|help|of|team|member|this|it|for|out)){0,4}) [`'\"]?"
    r"([a-z]{2,20}(?:_[a-z]{2,20}){1,3})\b"
)
_HARMLESS = frozenset(["print", "str", "repr", "format", "f", "r"])


# A request to a tool or to another agent, which the program wrote and printed.


def never_sent(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    unsent: list[tuple[Command, str]] = []
    thought: Turn | None = None
    for entry in entries:
        if isinstance(entry, Turn) and not entry.by_user:
            thought = entry
        elif isinstance(entry, Command) and thought is not None:
            if (name := _meant(thought.text)) and _only_prints(entry):
                unsent.append((entry, name))
            thought = None
    if unsent:
        name = unsent[0][1]
        yield _not_sent(session, entries, [c for c, its in unsent if its == name], name)


def _meant(text: str) -> str | None:
    """The tool or agent that the thought before a program means to ask."""
    found = _MEANT.search(text[:4_000])
    return found[1] if found else None


def _only_prints(program: Command) -> bool:
    """Whether it wrote a request, printed it, and called nothing."""
    texts = [found[0].strip("\"'") for found in _TEXT.finditer(program.command)]
    code = _TEXT.sub(" ", program.command)
    called = set(_CALLED.findall(code))
    if "print" not in called or not called <= _HARMLESS or program.exit_code:
        return False
    request = " ".join(" ".join(texts).split())
    shown = " ".join(program.output.split())
    return len(request) >= LEAST_REQUEST and _begins(texts) in shown


def _begins(texts: Sequence[str]) -> str:
    return " ".join(texts[0].replace("\\n", " ").split())[:40]


def _not_sent(
    session: Session, entries: Sequence[Entry], unsent: Sequence[Command], name: str
) -> Finding:
    first, last = unsent[0], unsent[-1]
    times = "" if len(unsent) == 1 else f" {len(unsent)} times"
    after = [entry for entry in entries if entry.number > last.number]
    way = _sent_later(after, name)
    never = not any(isinstance(e, Command) and f"{name}(" in e.command for e in entries)
    done = f" Later it was called: `{way}`." if way else " It was never called." if never else ""
    claim = _claim(after, name) if never else ""
    wrote = f"\nYet the agent wrote: “{short(claim, 240)}” Nothing shows that." if claim else ""
    guidance = (
        f"To ask `{name}`, call it with the request (`{way or f'answer = {name}(request)'}`) and "
        "print what it returns; a request that is only printed reaches nobody. Do not answer as "
        "if it had replied."
    )
    return noted(
        session, "only-printed", first.number, last.number, weight=0.7,
        title=f"The request to `{name}` was only printed: it was not called",
        description=f"When a program is to ask `{name}` or another tool, as in the task: "
        f"{gist(session)}",
        content=f"Task: {gist(session)}\n\nA program wrote a request to `{name}` into a text and "
        f"printed it{times}; what came back was the request itself.{done}{wrote}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error("NeverCalled", f"a request to {name} that was only printed", guidance),
        tags=(name,),
    )  # fmt: skip


def _sent_later(entries: Sequence[Entry], name: str) -> str:
    """The line of a later program that did call it."""
    for entry in entries:
        if isinstance(entry, Command) and not entry.exit_code:
            lines = [line.strip() for line in entry.command.splitlines() if f"{name}(" in line]
            if lines and len(lines[0]) <= 120 and lines[0].endswith(")"):
                return lines[0]
    return ""


_CLAIMING = compile(r"(?i)\b(?:confirm\w*|verif\w*|provided|according|based on|found|result\w*)\b")
_INTENDING = compile(r"(?i)\b(?:will|would|should|need|try|let me|simulate|not|asking|request)\b")
_THOUGHT = compile(r"^Thought: ")


def _claim(entries: Sequence[Entry], name: str) -> str:
    for entry in entries:
        if isinstance(entry, Turn) and not entry.by_user:
            for said in sentences(entry.text[:4_000]):
                if name in said and _CLAIMING.search(said) and not _INTENDING.search(said):
                    return _THOUGHT.sub("", " ".join(said.split()))
    return ""


# A loop over a text gives its letters.

LETTERS = 6
_LETTERS = compile(
    rf"(?m)(?:^\S[ \t]*\n){{{LETTERS},}}|\[?(?:['\"](?:\\n|[^'\"\n])?['\"], ){{{LETTERS},}}"
)
_LOOP = compile(
    r"(?m)\bfor \w+(?:, ?\w+)? in (?:enumerate\(|sorted\(|list\(|set\(){0,2}"
    r"([A-Za-z_]\w*)(?:\[[^\]\n]{0,20}\])?(?:[):\]}]| if )"
)
_A_TEXT = "<class 'str'>"
_NOTED = compile(
    r"(?i)\b(?:individual|single) (?:characters|letters)\b|\bis (?:actually )?a string\b"
)


def letter_by_letter(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    """A loop over what a call gave, and something that shows that it is a text."""
    programs = [entry for entry in entries if isinstance(entry, Command)][:MOST_PROGRAMS]
    for place, program in enumerate(programs):
        for name in dict.fromkeys(_LOOP.findall(program.command)):
            came = _came_from(name, programs[: place + 1])
            later = programs[place + 1 :]
            letters = bool(_LETTERS.search(program.output[:20_000]))
            seen = came and (letters or _typed(name, later))
            split = _split(name, later)
            if seen and (
                split or _joined(name, later) or _typed(name, later) or _noted(entries, program)
            ):
                yield _is_text(session, program, name, came, split)
                return


def _joined(name: str, later: Sequence[Command]) -> bool:
    """Who puts it together again has seen that it came apart."""
    return any(f"''.join({name})" in each.command.replace('"', "'") for each in later)


def _typed(name: str, later: Sequence[Command]) -> bool:
    return any(f"type({name})" in each.command and _A_TEXT in each.output for each in later)


def _noted(entries: Sequence[Entry], program: Command) -> bool:
    """Whether the agent saw it itself."""
    said = (e.text for e in entries if isinstance(e, Turn) and e.number > program.number)
    return bool(_NOTED.search(next(said, "")[:1_000]))


def _came_from(name: str, programs: Sequence[Command]) -> str:
    """What was called to get it."""
    for program in reversed(programs):
        for line in program.command.splitlines():
            names, _, rest = line.partition(" = ")
            if name in [part.strip() for part in names.split(",")]:
                called = [c for c in _CALLED.findall(rest) if c not in ("asyncio.run", "await")]
                return called[0] if called else ""
    return ""


def _split(name: str, later: Sequence[Command]) -> tuple[Command, str] | None:
    for program in later:
        for line in program.command.splitlines():
            if (f"{name}.split" in line) and not program.exit_code:
                return program, line.strip()
    return None


def _is_text(
    session: Session, first: Command, name: str, came: str, split: tuple[Command, str] | None
) -> Finding:
    last, line = split or (first, f"for line in {name}.splitlines():")
    gave = "It gave lines with" if split else "It gives lines with"
    guidance = f"`{name}` that `{came}` gives is one text: split it into lines before a loop."
    return noted(
        session, "letters", first.number, last.number, weight=0.66,
        title=f"`{name}` of `{came}` is one text, no list: a loop over it gives single letters",
        description=f"When `{came}` is used, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nA loop over `{name}`, which `{came}` had given, went "
        f"through it letter by letter and found nothing. {gave}:\n`{short(line, 160)}`\n\n"
        f"{guidance}",
        outcome=Outcome.SUCCESS,
        error=_error("TextTakenForList", f"a loop over the text {name} of {came}", guidance),
        tags=(came,),
    )  # fmt: skip


def _error(kind: str, pattern: str, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type=kind, failure_pattern=short(pattern, 500), corrective_guidance=guidance
    )

"""What an agent wrote about its own mistakes, as far as what followed bears it out.

One reflection, and then a checked success: it helped. One, and then a checked failure: what it made
of the task did not hold, and that is worth a warning. Who reflects again and again guesses, mostly
at checks of its own that are wrong: then only readings that were tried in turn are told, where the
task leaves them open, with the few lines that passed. Where nothing was checked, only the last word
of a session counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import REFLECTION, Edit, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile, spaced

LONGEST, LONGEST_PLAN = 900, 320
LEAST_WORDS, MOST_EMPTY = 9, 18
SAME = 0.6
"""From this share of words in the same order on, two reflections say the same."""
NEARER = 0.15
"""So much nearer must a reflection be to the one before the last, if two take turns."""
REPEATED, DIFFERENT = 0.9, 0.7
MOST_READINGS = 3
MOST_LINES = 12
FEW_LINES = 8
"""A longer program may fail for another reason than the one that was put right."""
MOST_WRITTEN = 40
LAST_WORDS = 2
"""So many turns may follow the last word of a session."""

# How an agent begins to write about its own mistake.
_HEADED = compile(
    r"(?im)^[\s#*_>-]{0,10}(?:(?:self-?)?reflections?|lessons? learned|post-?mortem|retrospective|"
    r"(?:the )?root cause(?: of (?:the )?(?:failure|problem|error))?|what went wrong)\b"
    r"[ \t]*[*_:]{0,4}"
)
_OWNING = compile(
    "(?i)"
    + spaced(r"""
      \bi\ (?:should|could)\ (?:not\ )?have\b | \bnext\ (?:time|trial|attempt)\b | \bin\ hindsight\b
    | \bmy\ (?:mistake|error)\ was\b
    | \b(?:implementation|solution|approach|attempt|try|program|code)\ (?:is|was)
      \ (?:wrong|incorrect|flawed)\ because\b
    | \b(?:my|the)\ (?:first|previous|earlier|last|initial)
      \ (?:attempt|approach|try|implementation|plan)
      \ (?:failed|was\ wrong|was\ incorrect|did\ not\ work)\b""")
)
_NEXT_PART = compile(r"(?m)^\s{0,3}(?:#{1,4}\s|\*\*[^*\n]{3,60}:?\*\*\s*:?\s*$)")
_PLAN = compile(r"(?i)\b(?:plan|instead|overcome|next|fix|remedy|solution|approach)\b")
_SLIP = compile(r"(?i)\b(?:indentation|syntax|typo|import(?:ed)?)\b.{0,40}\berror|\bSyntaxError\b")
_CODE = compile(r"(?s)```.*?(?:```|$)")
_MARKS = compile(r"^[\s#*_>:-]{1,10}|[*_]{2,3}")

# What teaches says why, or what to do; what may be said of anything teaches nothing.
_CAUSE = compile(
    r"(?i)\b(?:because|instead|rather than|due to|should|must|need(?:s|ed)?|forgot|did(?: not|n't)|"
    r"does(?: not|n't)|only|never|without)\b"
)
_EMPTY = compile(
    r"(?i)\b(?:all (?:possible )?(?:cases|edge cases)|properly handle|handle all|given test cases|"
    r"(?:in)?correct(?:ly)? (?:results?|output)|expected (?:results?|output)|failed tests?|"
    r"test cases? to fail)\b"
)


@dataclass(frozen=True, slots=True)
class _Reflection:
    number: int
    text: str
    said: str
    """All of it, with what teaches nothing."""


def reflections(
    session: Session, entries: Sequence[Entry], told: Outcome | None
) -> Iterator[Finding]:
    looking_back = [e for e in entries if isinstance(e, Turn) and _looks_back(e)]
    if not looking_back:
        return
    outcome = verdict(session, told=told).outcome
    tries = entries[looking_back[-1].number :]
    tried_since = any(not isinstance(entry, Turn) for entry in tries)
    if tried_since and outcome is Outcome.SUCCESS:
        yield from _that_helped(session, looking_back[-MOST_WRITTEN:], _program(tries))
    elif tried_since and outcome is Outcome.FAILURE:
        yield from _that_misled(session, looking_back, tries)
    elif not tried_since and len(looking_back) == 1 and len(tries) <= LAST_WORDS:
        last = _written(looking_back[0])
        yield from [_learned(session, last, helped=False)] if last else []


def _looks_back(turn: Turn) -> bool:
    if turn.by_user:
        return False
    return turn.role == REFLECTION or bool(_HEADED.search(turn.text) or _OWNING.search(turn.text))


def _program(tries: Sequence[Entry]) -> str:
    """What was written last."""
    return next((e.change for e in reversed(tries) if isinstance(e, Edit)), "")


def _that_helped(session: Session, turns: list[Turn], program: str) -> Iterator[Finding]:
    texts = [turn.text for turn in turns]
    if len(turns) == 1 or (len(turns) == 2 and _alike(*texts) < SAME):
        found = _written(turns[-1])
        if found and not _contradicted(found.said, program):
            yield _learned(session, found, helped=True)
    elif len(turns) > 2 and 0 < len(lines := _body(program)) <= MOST_LINES:
        if _take_turns(texts):
            tried = [_written(turn) for turn in turns[-2:]]
        elif _quotes(texts[-1], program) or (
            _differ(texts) and not _SHOWN.search(session.given or session.task)
        ):
            tried = [_written(turn) for turn in turns[-MOST_READINGS:]]
        else:
            return
        read = [one for one in tried if one]
        if len(read) == len(tried) and not _contradicted(read[-1].said, program):
            yield _readings(session, read, lines)


def _quotes(text: str, program: str) -> bool:
    """Whether the last code that it quotes is in the program."""
    quoted = _CODE_QUOTED.findall(text)
    return bool(quoted) and "".join(quoted[-1].split()) in "".join(program.split())


_CODE_QUOTED = compile(r"`([^`\n]{6,80})`")


def _differ(texts: list[str]) -> bool:
    """Who comes back to the same words has no other reading, but a check that is wrong."""
    if any(_alike(texts[-1], text) >= REPEATED for text in texts[:-1]):
        return False
    return all(_alike(*pair) < DIFFERENT for pair in combinations(texts[-MOST_READINGS:], 2))


def _alike(one: str, other: str) -> float:
    mine, its = one.lower().split()[:200], other.lower().split()[:200]
    return SequenceMatcher(None, mine, its, autojunk=False).ratio()


def _take_turns(texts: list[str]) -> bool:
    """Whether the last returns to what was said two before it, and the one before it too."""
    *_, third, second, last = texts
    if _alike(last, third) <= _alike(last, second) + NEARER:
        return False
    return len(texts) == 3 or _alike(second, texts[-4]) > _alike(second, third)


# A task that shows what is to come out leaves little to read into it.
_SHOWN = compile(r"(?i)>>>|\bexamples?\b|==|=>|➞|\binput\s*:")


# What a reflection asks for, and how a program would say it.
_ASKED = tuple(
    (compile(f"(?i)\\bshould\\b[^.]{{0,120}}\\b{words}"), sign)
    for words, sign in (
        ("less than or equal", "<="), ("greater than or equal", ">="), ("modulo", "%"),
        ("absolute value", "abs("), ("lower ?case", "lower("), ("upper ?case", "upper("),
        ("return None", "None"),
    )
)  # fmt: skip
_QUOTED = compile(
    r"(?i)\b(?:should be|changed to|replaced (?:by|with)|should use)\s+`([^`\n]{3,80})`"
)


def _contradicted(said: str, program: str) -> bool:
    """Whether what passed is not what the reflection asked for."""
    if not program:
        return False
    plain = "".join(program.split())
    wanted = [sign for pattern, sign in _ASKED if pattern.search(said)]
    wanted += ["".join(quoted.split()) for quoted in _QUOTED.findall(said)]
    return any(each not in plain for each in wanted)


_BESIDE = compile(r"^\s*(?:#|import\b|from\b|(?:async )?def\b|class\b|@)")


def _body(program: str) -> list[str]:
    """The lines that do something."""
    told = program.replace("'''", '"""').split('"""')[::2]  # Without what documents it.
    lines = "".join(told).splitlines()
    return [line.rstrip() for line in lines if line.strip() and not _BESIDE.match(line)]


def _that_misled(session: Session, turns: list[Turn], tries: Sequence[Entry]) -> Iterator[Finding]:
    """One that was acted upon, and nothing else."""
    [first, *others] = turns
    program = _program(tries)
    if others or first.role != REFLECTION or not program or len(_body(program)) > FEW_LINES:
        return
    found = _written(first)
    if found and not _contradicted(found.said, program):
        yield _did_not_hold(session, found)


def _written(turn: Turn) -> _Reflection | None:
    if turn.by_user:
        return None
    text = _CODE.sub(" ", turn.text)
    if turn.role != REFLECTION:
        text = _part(text)
    text = _plain(text)
    kept = [s for s in sentences(text) if _teaches(s)]
    said = short(" ".join(kept), LONGEST)
    if len(said.split()) < LEAST_WORDS or not _CAUSE.search(said) or _SLIP.search(said):
        return None
    return _Reflection(turn.number, said, text)


def _plain(text: str) -> str:
    """Without marks of emphasis; in quoted code the same signs mean something."""
    parts = text.strip().split("`")
    return "`".join(_MARKS.sub(" ", part) if n % 2 == 0 else part for n, part in enumerate(parts))


def _part(text: str) -> str:
    """The part of what was said that looks back: under its heading, or its sentences."""
    if headed := _HEADED.search(text):
        rest = text[headed.end() :].lstrip()
        # `The root cause was …` is a sentence and no heading.
        return _with_plan(text[headed.start() :].lstrip() if rest[:1].islower() else rest)
    said = sentences(text)
    places = [n for n, s in enumerate(said) if _OWNING.search(s)]
    return " ".join(said[places[0] : places[-1] + 2]) if places else ""


def _with_plan(text: str) -> str:
    """A section, and the beginning of the next one where that says what to do instead."""
    end = _NEXT_PART.search(text)
    if end is None:
        return text[: 2 * LONGEST]
    title, _, rest = text[end.start() :].lstrip().partition("\n")
    plain = " ".join(_MARKS.sub(" ", line) for line in rest.splitlines()[:12])
    planned = " ".join(plain.split())[:LONGEST_PLAN]
    instead = f" What was planned instead: {planned}…" if _PLAN.search(title) and planned else ""
    return text[: end.start()].rstrip() + instead


def _teaches(sentence: str) -> bool:
    """Not what may be said of anything."""
    return not (_EMPTY.search(sentence) and len(sentence.split()) < MOST_EMPTY)


def _learned(session: Session, last: _Reflection, *, helped: bool) -> Finding:
    task = gist(session)
    proof = (
        "The next try was checked, and succeeded."
        if helped
        else "Nothing has shown yet that it helps."
    )
    error = None if helped else _error(task, last.text)
    return noted(
        session, "reflection", last.number, last.number, weight=0.8 if helped else 0.6,
        title=f"{short(task, 70)}: {sentences(last.text)[0]}",
        description=f"When the task is like this: {task}",
        content=f"Task: {gist(session, 400)}\n\n"
        f"After a failed try the agent wrote: {last.text}\n\n{proof}",
        outcome=Outcome.SUCCESS if helped else Outcome.FAILURE,
        error=error, tags=("reflection",),
    )  # fmt: skip


def _did_not_hold(session: Session, found: _Reflection) -> Finding:
    task = gist(session)
    guidance = f"This correction was made, checked, and failed: {found.text}"
    return noted(
        session, "misled", found.number, found.number, weight=0.6,
        title=f"{short(task, 70)}: a correction that failed: {sentences(found.text)[0]}",
        description=f"When the task is like this: {task}",
        content=f"Task: {gist(session, 400)}\n\nOf its first try the agent wrote: {found.text}\n\n"
        "The program was rewritten to this, checked, and failed: the correction does not hold, or "
        "is not enough. Do not rewrite it so because a check of your own asks for it.",
        outcome=Outcome.FAILURE,
        error=_error(task, guidance), tags=("reflection",),
    )  # fmt: skip


def _readings(session: Session, read: list[_Reflection], lines: list[str]) -> Finding:
    task = gist(session)
    listed = "\n".join(f"- {_first(one)}" for one in read)
    passed = "\n".join(lines)
    return noted(
        session, "readings", read[0].number, read[-1].number, weight=0.7,
        title=f"{short(task, 70)}: of {_COUNTS[len(read)]} readings that were tried in turn, which "
        "one passed",
        description=f"When the task is like this: {task}",
        content=f"Task: {gist(session, 400)}\n\nThe agent changed its program between "
        f"{_COUNTS[len(read)]} readings, because each failed checks of its own:\n{listed}\n\n"
        f"This was checked, and passed:\n{passed}\n\nBegin with the reading that it has.",
        outcome=Outcome.SUCCESS, tags=("reflection",),
    )  # fmt: skip


_COUNTS = {2: "two", 3: "three"}


def _first(found: _Reflection) -> str:
    return short(" ".join(sentences(found.text)[:2]), 320)


def _error(task: str, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type="OwnMistake",
        failure_pattern=short(f"a try at: {task}", 500),
        corrective_guidance=short(guidance, 1_500),
    )

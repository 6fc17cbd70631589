"""What an agent wrote about its own mistakes, where nothing shows that it was mistaken in that too.

The one before a verified success helped, and the last word of a session is worth a try. Those that
were acted upon and followed by the next failure did not help, and may be as wrong as the try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import REFLECTION, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile, spaced

LONGEST, LONGEST_PLAN = 900, 320
LEAST_WORDS, MOST_EMPTY = 9, 18

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
    headed: bool
    """Whether it was written as one, and did not just slip in."""


def reflections(
    session: Session, entries: Sequence[Entry], told: Outcome | None
) -> Iterator[Finding]:
    written = [r for entry in entries if isinstance(entry, Turn) and (r := _written(entry))]
    if not written:
        return
    last = written[-1]
    outcome = verdict(session, told=told).outcome
    tried_since = any(_tries(entry) for entry in entries[last.number :])
    if not tried_since or outcome is Outcome.SUCCESS:
        yield _learned(session, last, helped=tried_since)
    elif outcome is None and last.headed:
        yield _learned(session, last, helped=False)


def _tries(entry: Entry) -> bool:
    return not isinstance(entry, Turn)


def _written(turn: Turn) -> _Reflection | None:
    if turn.by_user:
        return None
    text = _CODE.sub(" ", turn.text)
    headed = turn.role == REFLECTION or bool(_HEADED.search(text))
    if turn.role != REFLECTION:
        text = _part(text)
    text = _MARKS.sub(" ", text.strip())
    kept = [s for s in sentences(text) if _teaches(s)]
    said = short(" ".join(kept), LONGEST)
    if len(said.split()) < LEAST_WORDS or not _CAUSE.search(said) or _SLIP.search(said):
        return None
    return _Reflection(turn.number, said, headed)


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


def _error(task: str, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type="OwnMistake",
        failure_pattern=short(f"a try at: {task}", 500),
        corrective_guidance=short(guidance, 1_500),
    )

"""What a session was about, in one line: a lesson names it."""

from __future__ import annotations

from reasonbank.learn.session import Session
from reasonbank.safety.patterns import compile

LONGEST = 200
BEGINS = 1_000
"""A function that is to be written stands here; further down it may be any example."""

_FUNCTION = compile(r"(?m)^\s{0,40}(?:async\s)?(?:def|fn|func|function)\s+(\w+)\s?\(")
_DOCUMENTED = compile(r"(?s)(?:\"\"\"|'''|///|/\*\*)\s*(.{1,600})")
_LABEL = compile(
    r"(?im)^[\s#*>]{0,10}(?:here is (?:the|your) (?:task|question|issue|problem)|general task|task"
    r"(?: description)?|question|issue|problem|request|goal)[*\s]{0,10}:?[*\s]{0,10}$"
    r"|^(?:here is (?:the|your) (?:task|question|issue|problem)|task|question|issue|request|goal):"
    r"|<(?:issue|task|question|problem|request)>"
)
_ENDING = compile(r"</\w{1,20}>|\"\"\"|'''|(?:^|\s)Example(?:s|\s*1)?\s*:|>>>")
_AFTER_A_SENTENCE = compile(r"([.!?])\s+([A-Z`\"'(*])")
_GREETING = compile(r"(?i)^(?:hi|hello|hey|good (?:morning|day|evening))\b[^.!?,\n]{0,30}[.!,]\s*")


def gist(session: Session, longest: int = LONGEST) -> str:
    """The first sentence or two of what was asked, without what stands around it."""
    text = (session.given or session.task).strip()[:20_000]
    if (named := _FUNCTION.search(text[:BEGINS])) and (told := _DOCUMENTED.search(text)):
        return _short(f"`{named[1]}`: {_sentences(told[1], longest)}", longest)
    return labelled(text, longest)


def labelled(text: str, longest: int = LONGEST) -> str:
    """The beginning of what stands under the last heading that says it is the task."""
    under = (text[found.end() :].strip() for found in _LABEL.finditer(text))
    told = [rest for rest in under if len(rest) > 20]
    return first_of(told[-1] if told else text, longest)


def first_of(text: str, longest: int = LONGEST) -> str:
    asked = _GREETING.sub("", text.strip()) or text
    return _short(_sentences(asked, longest), longest)


def sentences(text: str) -> list[str]:
    return _AFTER_A_SENTENCE.sub(r"\1\n\2", " ".join(text.split())).splitlines()


def _sentences(text: str, longest: int) -> str:
    plain = " ".join(_ENDING.split(text.strip(), 1)[0].split())
    said = ""
    for sentence in sentences(plain):
        if said and len(said) + len(sentence) >= longest:
            break
        said = f"{said} {sentence}".strip()
    return said


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"

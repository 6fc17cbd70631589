"""A long question, sentence by sentence.

What a model makes of a whole page is about everything on it, and of a long one it reads only
the beginning. So the sentences of a long text are looked for one by one, and the best counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from textwrap import wrap

from reasonbank.safety.patterns import Pattern
from reasonbank.search.text import MAX_QUERY, MAX_TERM

LONG = 400
"""A text of fewer characters is one thought, and looked for as it is."""
MOST = 32
"""So many sentences are looked for; of more, those that tell most, and both ends of the text."""
FIRST, LAST = 4, 8
LONGEST, LONGEST_OUTPUT = 300, 3000
SHORTEST = 24
"""Less than that says too little by itself."""

_APART = Pattern(r"\n\s*\n")
_ENDS = Pattern(r"[.!?][\"')\]]?\s+|\n\s*")
_EDGES = " .!?\n\r\t"
_WORD = Pattern(r"[\"'(`*]{0,3}\pL+(?:['’-]\pL+)*[\"')`*]{0,3}[.,;:!?]{0,3}")
_STOPS = tuple(".!?:;,")
_CLOSING = ")]\"'`*"
_COLUMN = "   "
A_LINE = 8
"""A line of so many plain words may go on in the next one."""
PROSE = 0.54
"""So much of a text that somebody wrote are plain words; of logs and traces about a sixth."""
OUTPUT = 24
"""Of fewer words even a line of names is a question."""


@lru_cache(maxsize=64)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a long text, each once; none of a short one.

    None of a text that is mostly a stack trace or a compiler's output either: its lines mean
    something together only.
    """
    text = text[:MAX_QUERY]
    if len(text) < LONG or is_printed(text):
        return ()
    return tuple(dict.fromkeys(_parts(text)))


def pieces(text: str, telling: Callable[[str], float]) -> tuple[str, ...]:
    """The sentences to look for, in their order; ``telling`` says how much one promises."""
    every = sentences(text)
    if len(every) <= MOST:
        return every
    middle = range(FIRST, len(every) - LAST)
    best = sorted(middle, key=lambda i: telling(every[i]), reverse=True)[: MOST - FIRST - LAST]
    ends = (*range(FIRST), *range(len(every) - LAST, len(every)))
    return tuple(every[i] for i in sorted((*best, *ends)))


@lru_cache(maxsize=256)
def is_output(text: str) -> bool:
    """Whether it is the output of a program, and not a name or a command alone."""
    return len(text.split(maxsplit=OUTPUT)) > OUTPUT and is_printed(text)


def is_printed(text: str) -> bool:
    """Whether it is mostly what a program printed: hardly any lines of plain words in it."""
    lines = [line.strip() for line in text.splitlines()]
    written = sum(map(_written, lines))
    return written < PROSE * sum(len(word) for line in lines for word in line.split())


def _written(line: str) -> int:
    """How many letters of it are plain words, if it ends like a sentence or is as long as one."""
    words = line.split()
    plain = [len(word) for word in words if _WORD.fullmatch(word[:MAX_TERM])]
    if not plain or _COLUMN in line:
        return 0
    ends = words[-1].rstrip(_CLOSING).endswith(_STOPS)
    return sum(plain) if ends or len(plain) >= A_LINE or _LISTED.match(line) else 0


def _parts(text: str) -> Iterator[str]:
    """Its sentences; a paragraph of output is one, its lines mean something together only."""
    for paragraph in _APART.split(text):
        if is_output(paragraph):
            yield paragraph.strip()[:LONGEST_OUTPUT]
        else:
            yield from _sentences(paragraph)


def _sentences(text: str) -> list[str]:
    found: list[str] = []
    begun = ""
    for part in _ENDS.split(text):
        begun = f"{begun} {part.strip(_EDGES)}".strip()
        if len(begun) >= SHORTEST:
            found += wrap(begun, LONGEST) if len(begun) > LONGEST else [begun]
            begun = ""
    return [*found, begun] if begun else found


# In a prompt the problem stands among rules, introductions and notes. What somebody complains
# about can be told from what somebody asks for, in English at least.
_LISTED = Pattern(r"^(?:[-*•#>|+]|\d{1,3}[.)])")
_ASKED_FOR = Pattern(
    r"(?i)\b(?:please|you|your|thanks?|hello|hi|must|should|prefer|always|do not|don't|"
    r"commits?|pull requests?|merge requests?|let me know|feel free|conventions?|rules?)\b"
)
_ORDER = Pattern(
    r"(?i)^\W{0,4}(?:use|run|keep|write|add|put|read|ask|say|show|tell|leave|open|make|do|don't|"
    r"never|always|prefer|follow|give|work|explain|answer|start|stop|avoid|check|list|mention|"
    r"update|change|be|if you)\b"
)
_WHO = Pattern(
    r"(?i)\b(?:I am|I'm|I work|my (?:background|name|team)|we (?:are|use|work|have)|"
    r"our (?:team|company))\b"
)
_WRONG = Pattern(
    r"(?i)\b(?:fail\w*|errors?|crash\w*|wrong\w*|miss\w*|brok\w*|break\w*|stuck|hang\w*|slow\w*|"
    r"never|refus\w*|reject\w*|los[et]\w*|empty|blank|no longer|not|cannot|\w+n't|stop\w*|although|"
    r"despite|suddenly|since|twice|still|instead|only|nothing|nobody|gone|vanish\w*|disappear\w*|"
    r"kill\w*|leak\w*|grow\w*|time\w* out|giv\w* up|even though|but|whenever|every time|why|keeps?|"
    r"goes|without|after|while)\b"
)
ANY_SENTENCE, LISTED, MEANT_FOR_ME, WRONG, VERY_WRONG = 0.15, 0.2, 0.1, 0.1, 0.05


def doubts(texts: Sequence[str]) -> Sequence[float | None]:
    """Of a question and its sentences: how little each looks like the problem; 0 if it does,
    None for a question that has none."""
    if len(texts) == 1:
        return [None]
    return [ANY_SENTENCE, *map(_doubt, texts[1:])]


def _doubt(sentence: str) -> float:
    wrong = len(_WRONG.findall(sentence))
    return (
        ANY_SENTENCE
        + LISTED * bool(_LISTED.match(sentence))
        + MEANT_FOR_ME * bool(_ASKED_FOR.search(sentence))
        + MEANT_FOR_ME * bool(_ORDER.match(sentence))
        + MEANT_FOR_ME * bool(_WHO.search(sentence))
        - WRONG * (wrong > 0)
        - VERY_WRONG * (wrong > 1)
    )

"""What a text says, sentence by sentence: does another say it too, or the opposite?

No model is asked. Two sentences speak of the same thing when they share most of their
words; they are opposed when one of them has an odd number of negations more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from reasonbank.fields import LIMITS
from reasonbank.safety.patterns import brief, compile

SAME = 0.6
"""The share of words that two sentences about one thing have in common."""
KNOWN = 0.75
"""The share of a sentence's words that another one must have to say it, if all are known."""
FEWEST = 2

_SENTENCE = brief(
    r"(?s)```.*?(?:```|\Z)|[^\n.!?;]+(?:[.!?;](?!\s|\Z)[^\n.!?;]*)*[.!?;]?", LIMITS.content
)
_WORD = brief(r"[^\W_]+(?:['’][^\W_]+)?", LIMITS.content)
_NEGATIONS = frozenset((
    "not", "never", "no", "none", "nothing", "avoid", "avoids", "avoiding", "without",
    "cannot", "neither", "nor", "don't", "dont", "doesn't", "didn't", "can't", "won't",
    "isn't", "aren't", "wasn't", "shouldn't", "mustn't", "couldn't", "wouldn't", "skip",
    "skips", "refrain", "stop", "stops", "unless",
))  # fmt: skip
# Each word means the other one with a negation.
_OPPOSITES = {
    "disable": "enable", "disabled": "enabled", "remove": "add", "removing": "adding",
    "deny": "allow", "forbid": "allow", "decrease": "increase", "lower": "raise",
    "exclude": "include", "off": "on", "false": "true", "unsafe": "safe", "wrong": "right",
    "slower": "faster", "worse": "better", "after": "before", "unlock": "lock", "last": "first",
    "downgrade": "upgrade", "fails": "works", "fail": "work", "failed": "worked",
}  # fmt: skip
IDLE = frozenset((
    "a", "an", "and", "each", "every", "all", "are", "as", "at", "be", "been", "by", "do",
    "does", "for", "from", "has", "have", "if", "in", "into", "is", "it", "its", "must", "of",
    "on", "or", "should", "so", "than", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "use", "used", "using", "was", "were", "when", "which", "will",
    "with", "you", "your", "always", "only",
))  # fmt: skip


@lru_cache(4096)
def sentences(text: str) -> tuple[str, ...]:
    """A block of code is one."""
    found = (part.strip(" \t-*•") for part in _SENTENCE.findall(text))
    return tuple(part.strip() for part in found if _WORD.search(part))


@lru_cache(16384)
def _meaning(sentence: str) -> tuple[frozenset[str], bool]:
    """Its telling words, and whether it negates them."""
    negative = False
    words = set()
    for word in _WORD.findall(sentence.lower().replace("’", "'")):
        if word in _NEGATIONS:
            negative = not negative
        elif word in _OPPOSITES:
            negative = not negative
            words.add(_stem(_OPPOSITES[word]))
        elif word not in IDLE:
            words.add(_stem(word))
    return frozenset(words), negative


def telling(text: str) -> frozenset[str]:
    """The words of a text that tell what it is about."""
    return _meaning(text)[0]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def opposed(one: str, other: str) -> bool:
    """Whether a sentence of one text says the opposite of a sentence of the other."""
    for sentence in sentences(one):
        words, negative = _meaning(sentence)
        if len(words) < FEWEST:
            continue
        for against in sentences(other):
            theirs, negates = _meaning(against)
            if negates is not negative and len(words & theirs) >= SAME * len(words | theirs):
                return True
    return False


def unsaid(text: str, by: Iterable[str]) -> list[str]:
    """The sentences of ``text`` that ``by`` does not say.

    One word that is nowhere else is enough: it may be the one that matters.
    """
    told = [_meaning(sentence)[0] for other in by for sentence in sentences(other)]
    known = {word for words in told for word in words}
    result = []
    for sentence in sentences(text):
        words, _ = _meaning(sentence)
        said = words <= known and any(len(words & other) >= KNOWN * len(words) for other in told)
        if words and not said:
            result.append(sentence)
            told.append(words)
            known |= words
    return result


_NUMBER = brief(r"\d+(?:\.\d+)?", LIMITS.content)
_LISTED = compile(r"(?m)^[ \t]{0,100}\d{1,9}[.)]\s")


def differ_in_numbers(one: str, other: str) -> bool:
    """Whether each names a number that the other does not: 5 days are not 7 days.

    An embedding hardly sees the difference. The numbers of a list are not looked at.
    """
    mine, theirs = (set(_NUMBER.findall(_LISTED.sub("", text))) for text in (one, other))
    return not (mine <= theirs or theirs <= mine)

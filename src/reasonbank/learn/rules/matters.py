"""What a rule, a request or an answer is about: what is to be done, and to what.

To cancel, to change and to upgrade a booking are three matters, and a rule of one says nothing of
the others. Where it cannot be told what a text is about, it is about nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import log

from reasonbank.learn.rules.corrections import names_in
from reasonbank.safety.patterns import compile

_words = str.split

_ACTS = {
    name: compile(rf"(?i)\b(?:{words})\b")
    for name, words in {
        "change": r"chang(?:e|ed|ing)|modif\w{1,8}|updat(?:e|es|ed|ing)|edit(?:s|ed|ing)?|"
        r"alter(?:s|ed|ing)?|mov(?:e|es|ed|ing)|reschedul\w{1,3}|switch(?:ed|ing)?|adjust\w{0,5}",
        "upgrade": r"(?:up|down)grad(?:e|es|ed|ing)",
        "book": r"book(?:s|ed|ing)?|buy(?:ing)?|bought|purchas(?:e|es|ed|ing)|creat(?:e|es|ed|ing)",
        "cancel": r"cancel\w{0,8}|delet(?:e|es|ed|ing|ion)|revok(?:e|es|ed|ing)|"
        r"terminat(?:e|es|ed|ing|ion)",
        "remove": r"remov(?:e|es|ed|ing|al)|drop(?:ped|ping)?|take off",
        "add": r"add(?:s|ed|ing)?|includ(?:e|ing)",
        "refund": r"refund\w{0,5}|reimburs\w{1,6}|money back",
        "compensate": r"compensat\w{1,5}",
        "return": r"return(?:s|ed|ing)?",
        "exchange": r"exchang(?:e|es|ed|ing)",
        "pay": r"pay(?:s|ing|ment|ments)?|paid",
        "share": r"shar(?:e|es|ed|ing)|disclos(?:e|es|ed|ing|ure)|reveal\w{0,3}",
        "hand over": r"transfer\w{0,5}|escalat\w{1,4}|hand\w{0,3} over",
    }.items()
}
_NO_ACT = compile(r"(?i)\bchange[sd]? (?:of|in|my) (?:\w{1,12} )?(?:plans?|mind|heart)\b")
"""Why somebody wants something, not what."""
_FORMAL = frozenset(_words("id on one user name number first also"))
LONGEST = 2_000


@lru_cache(maxsize=1024)
def acts(text: str) -> frozenset[str]:
    """What is to be done, by the verbs that are known here."""
    said = _NO_ACT.sub(" ", text[:LONGEST])
    return frozenset(name for name, found in _ACTS.items() if found.search(said))


@lru_cache(maxsize=1024)
def stems(text: str) -> frozenset[str]:
    """Cancel, cancelled and cancellation are one word here; that something binds is none."""
    return frozenset(_ENDING.sub("", name)[:5] for name in names_in(text) - _BINDING_WORDS)


_BINDING_WORDS = frozenset(_words("cannot may shall unable policy rule allowed possible"))
_ENDING = compile(r"(?:ation|ions?|ing|ed|e?s|e|y)\z")


@lru_cache(maxsize=1024)
def objects(text: str) -> frozenset[str]:
    """What it is to be done to: the words without the verbs."""
    kept = text[:LONGEST]
    for found in _ACTS.values():
        kept = found.sub(" ", kept)
    return stems(kept)


def of_rule(heading: str, sentence: str) -> frozenset[str]:
    """What a rule is about: of what it names, what its heading has too."""
    said = acts(sentence)
    return said & acts(heading) or said or acts(heading)


def rarity(texts: Sequence[str]) -> dict[str, float]:
    """How much a word tells: little, where every line has it."""
    found = Counter(name for text in texts for name in stems(text))
    return {name: log(1 + len(texts) / count) for name, count in found.items()}


def fits_best(request: str, line: str, lines: Iterable[str], weights: Mapping[str, float]) -> bool:
    """Whether no other line that was stated says more about a request than this one."""
    asked = stems(request) - _FORMAL

    def fit(text: str) -> float:
        return sum(weights.get(name, 0.0) for name in stems(text) & asked)

    return fit(line) >= max((fit(text) for text in lines), default=0.0)

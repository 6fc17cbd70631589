"""What a short question is about, as against what it wants to know. Pure; no model is asked.

"Which port does the cart service listen on?" is about the cart service. A memory that says the
same in other words may do without "port" and "listen"; one that has a port, but no cart, is about
something else. So it is told from where a word stands: what follows "which", and what ends a
question as its verb, is what it wants to know. Function words of English, German, French and
Spanish are known; in other languages every word counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from math import ceil

from reasonbank.fields import LIMITS
from reasonbank.safety.patterns import brief
from reasonbank.search.question_words import (
    AMOUNTS,
    ARTICLES,
    AUXILIARIES,
    BEING,
    CALLED,
    DONE,
    FUNCTION,
    GERMAN,
    HOW,
    INSTEAD,
    LIGHT,
    MANNER,
    OF,
    OR,
    PLACES,
    PREPOSITIONS,
    PRONOUNS,
    WHEN,
    WHICH,
    WHO,
)

LONGEST = 32
"""Words of a question that is read so; a longer one is a task."""
ROOT = 0.65
"""The share of letters at the beginning that "validated" and "validation" have in common."""
WHOLE = 5
"""Letters of a word that another may begin with."""
COMPOUND = 4
"""Letters of a word that another may end with."""

_WORD = brief(r"['’]s\b|[^\W_]+(?:[-_./][^\W_]+)*", LIMITS.content)
_PIECE = brief(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])|\d+", LIMITS.content)
_ENDINGS = (
    "isation", "ization", "ations", "ation", "ings", "ing", "ions", "ion", "ies", "ied",
    "ed", "es", "en", "s", "e", "y",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    about: tuple[tuple[str, ...], ...]
    """Groups of words that stand together: ("cart", "service")."""
    names: frozenset[str]
    """Which of them are written like names or numbers."""
    owners: frozenset[str]
    """With which words those begin that say whose it is: "of the shop"."""
    how: bool
    """Whether it asks how somebody does something: then each of them matters."""
    amount: bool
    """Whether it asks how many, how long or when."""
    words: frozenset[str]


@lru_cache(256)
def read(question: str) -> Asked | None:
    """None if it is no short question."""
    said = question.replace("’", "'")
    words = [word.lower() for word in _WORD.findall(said)]
    if not words or len(words) > LONGEST:
        return None
    at = next((i for i, word in enumerate(words) if word in WHICH), None)
    if at is None and words[0] not in AUXILIARIES:
        return None  # A task: many of those read alike, and each is one of its own.
    rest = words if at is None else _rest(words[at], words[at + 1 :])
    amount = at is not None and (
        words[at] in WHEN or (at + 1 < len(words) and words[at + 1] in HOW)
    )
    groups = [
        tuple(word for word in group if word not in _choice(words)) for group in _groups(rest)
    ]
    first, written = words[0], _WORD.findall(said)
    # In German every noun has a capital.
    capitals = at is not None and words[at] not in GERMAN
    names = frozenset(
        word.lower()
        for word in written
        if word.lower() != first and (_is_coded(word) or (capitals and word.istitle()))
    )
    # What somebody does says little: "how do I restart it", "the age to register".
    deeds = {
        (word,)
        for before, word in pairwise(words)
        if before in PRONOUNS or (before == "to" and word not in names)
    }
    about = tuple(group for group in groups if group and group not in deeds)
    how = at is not None and words[at] in MANNER and any(map(_of_doing, pairwise(words[at + 1 :])))
    return Asked(about, names, frozenset(_owners(words)), how, amount, frozenset(words))


def _of_doing(pair: tuple[str, str]) -> bool:
    return pair[0] in AUXILIARIES and pair[1] in PRONOUNS


def _owners(words: list[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word in OF:
            yield next(filter(_tells, words[at + 1 :]), "")


def _is_coded(word: str) -> bool:
    return not word.isalpha() and word != "'s"


def _rest(which: str, words: list[str]) -> list[str]:
    """What follows of a question, but for what it asks for."""
    at = 1 if words and words[0] in HOW else 0
    if words[at:] and words[at] in BEING:
        # "What is the budget for the offsite", "What is the session timeout".
        start = next((i for i in range(at + 1, len(words)) if words[i] not in ARTICLES), at + 1)
        end = _until_function(words, start)
        if end < len(words) and words[end] == "'s":
            return words[start:]
        if which in PLACES and not (at and _of_something(words[end:])):
            return words[at:]
        if end < len(words) and words[end] in PREPOSITIONS | AUXILIARIES:
            rest = words[end:]
            return rest if any(map(_tells, rest)) else words[start:end][:1]
        return words[start:end][:1] if end - start > 1 else []
    end = _until_function(words, at)
    asked, rest = words[at:end], words[end:]
    if any(map(_tells, rest[1:])) and not (len(rest) > 1 and rest[1] in PRONOUNS):
        return rest
    if which in WHO:
        return asked[1:] + rest
    # "Which Chrome versions do we support?"
    return asked[:-1] + rest


def _of_something(words: list[str]) -> bool:
    return words[:1] in (["of"], ["for"], ["für"], ["von"], ["de"]) and any(map(_tells, words))


def _until_function(words: list[str], start: int) -> int:
    return next((i for i in range(start, len(words)) if words[i] in FUNCTION), len(words))


def _tells(word: str) -> bool:
    return bool(word) and word not in FUNCTION and word not in LIGHT


def _groups(rest: list[str]) -> list[list[str]]:
    if not rest:
        return []
    groups: list[list[str]] = [[]]
    for word, following in zip(rest, [*rest[1:], ""], strict=True):
        if word == "'s" or (rest[0] in AUXILIARIES and _is_done(word, following)):
            continue
        if _tells(word):
            groups[-1].append(word)
        elif groups[-1]:
            groups.append([])
    groups = [group for group in groups if group]
    if groups and rest[0] in AUXILIARIES and _tells(rest[-1]):
        # What ends it is its verb: "does the shop open", "are logs kept".
        alone = len(groups[-1]) == 1
        if not alone:
            groups[-1].pop()
        elif len(groups) > 1 and rest[-2] not in ARTICLES | PREPOSITIONS | {"'s"}:
            groups.pop()
    return groups


def _is_done(word: str, following: str) -> bool:
    """ "Kept in", "formatted for", "backed up"."""
    participle = word.endswith(("ed", "en")) or word in DONE
    return participle and following in PREPOSITIONS | AUXILIARIES


def _choice(words: list[str]) -> frozenset[str]:
    """ "Tabs or spaces" are values."""
    beside = (words[max(0, i - 1) : i + 2] for i, word in enumerate(words) if word in OR)
    return frozenset(word for few in beside for word in few)


@lru_cache(4096)
def _stem(word: str) -> str:
    word = CALLED.get(word, word)
    if not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    # "Running", "run".
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _akin(one: str, other: str) -> bool:
    """ "Validated" and "validation", "Urlaub" and "Urlaubsantrag", "email" and "mail"."""
    fewer, more = (one, other) if len(one) <= len(other) else (other, one)
    if one[0] != other[0]:
        return len(fewer) >= COMPOUND and more.endswith(fewer)
    if len(fewer) >= WHOLE and more.startswith(fewer):
        return True
    least = max(WHOLE, ceil(ROOT * len(more)))
    return len(fewer) >= least and more.startswith(fewer[:least])


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    order: tuple[str, ...]
    whole: frozenset[str]
    stems: frozenset[str]


@lru_cache(1024)
def _text(text: str) -> _Text:
    order: list[str] = []
    whole: set[str] = set()
    for word in _WORD.findall(text):
        pieces = [piece.lower() for piece in _PIECE.findall(word)]
        order.extend(pieces)
        whole.update(pieces, (word.lower(),))
    return _Text(tuple(order), frozenset(whole), frozenset(map(_stem, whole)))


@lru_cache(8192)
def _has(text: _Text, word: str) -> bool:
    if word in text.whole or _stem(word) in text.stems:
        return True
    pieces = _PIECE.findall(word)
    if len(pieces) > 1:
        return all(_has(text, piece) for piece in pieces)
    return word.isalpha() and any(_akin(_stem(word), other) for other in text.stems)


class Bearing(IntEnum):
    """What a newer text is to a question that an older one answers."""

    APART = 0
    """It lacks what the question is about, and what the older one has."""
    UNKNOWN = 1
    PARTLY = 2
    """It lacks one of several words that tell what the question is about: that may go without
    saying."""
    SAME = 3
    """It has what both the question and the older one have."""


@lru_cache(2048)
def bearing(question: str, older: str, newer: str) -> Bearing:
    asked = read(question)
    if asked is None:
        return Bearing.UNKNOWN
    old, new = _text(older), _text(newer)
    if _instead(asked, old, new) or (asked.amount and _amount(old) and not _amount(new)):
        return Bearing.APART
    known = [few for few in asked.about if any(_has(old, word) for word in few)]
    lacking = [few for few in known if _lacks(asked, few, old, new)]
    named = any(word in asked.names for few in lacking for word in few if not _has(new, word))
    whose = any(few[0] in asked.owners for few in lacking)
    if named or whose or (lacking and (asked.how or len(lacking) == len(known))):
        return Bearing.APART
    words = [word for few in known for word in few if _has(old, word) and not _is_verb(word, old)]
    there = sum(_has(new, word) for word in words)
    if not there:
        return Bearing.APART if lacking else Bearing.UNKNOWN
    return Bearing.SAME if there == len(words) else Bearing.PARTLY


def _amount(text: _Text) -> bool:
    return not text.whole.isdisjoint(AMOUNTS) or any(w[:1].isdigit() for w in text.whole)


def _lacks(asked: Asked, group: tuple[str, ...], old: _Text, new: _Text) -> bool:
    known = [word for word in group if _has(old, word) and not _is_verb(word, old)]
    missing = [word for word in known if not _has(new, word)]
    if not missing:
        return False
    if len(missing) == len(known) or any(word in asked.names for word in missing):
        return True
    # "The cart service", "the mail service". "The audit trail" may well be "audit entries".
    before = list(_before(group[-1], new))
    return bool(before) and all(
        _tells(word) and word not in asked.words and not _has(old, word) for word in before
    )


def _before(word: str, text: _Text) -> Iterator[str]:
    """What stands before it there, wherever it does."""
    wanted = _stem(word)
    for one, other in zip(("", *text.order), text.order, strict=False):
        if _stem(other) == wanted:
            yield one


def _is_verb(word: str, old: _Text) -> bool:
    """The question says "listen" where the memory says "listens"."""
    if word in old.whole:
        return False
    return any(word + ending in old.whole for ending in ("s", "es", "d", "ed", "ing"))


def _instead(asked: Asked, old: _Text, new: _Text) -> bool:
    """Whether it is told of what comes after, and the question is what comes before."""
    for line in INSTEAD:
        for forms in line:
            if forms & asked.words and forms & old.whole and not forms & new.whole:
                others = frozenset().union(*(other for other in line if other is not forms))
                if others & new.whole and not others & old.whole:
                    return True
    return False

"""What the words of a question are: terms, keywords, tokens, and the errors that it names."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from reasonbank.fields import LIMITS
from reasonbank.safety.patterns import brief

MAX_TERMS = 48
MANY_TERMS = 1_000
"""Of so many the most telling ``MAX_TERMS`` are chosen."""
MAX_QUERY = 20_000
MAX_TERM = 64

# Function words and question words: a match on them says nothing, and in SQLite each
# one costs a walk through most of the table.
_STOP = """
    a about after again all also am an and any are as at be because been before being
    but by can could did do does doing don for from had has have having he her here him
    his how i if in into is it its just let me more most my no nor not of on or our please
    s she should so some such t than that the their them then there these they this those
    to too us very was we were what when where which while who whom why will with would
    you your ll re ve
"""
STOP_WORDS = frozenset(_STOP.split())

WORD = re.compile(r"[^\W_]+")
_CHUNK = re.compile(r"\S+")
# Possessive, and only from where a word begins: otherwise a long word is read from each letter.
_IDENTIFIER = brief(r"(?<!\w)_*+[^\W_]++(?:[._:/\\#@$-]++[^\W_]++)++_*+", MAX_QUERY)
_NAME = brief(r"(?<![^\W_])[^\W_]++(?:[_-]++[^\W_]++)++", MAX_QUERY)
_HUMPS = brief(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}", MAX_TERM)
_CAMEL = brief(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", LIMITS.error_type)


def terms(query: str, limit: int = MAX_TERMS) -> tuple[str, ...]:
    """What a full-text search for ``query`` looks for, each once, in order of appearance.

    Stop words are left out unless there is nothing else. An identifier such as
    ``parse_config`` or ``libssl.so.3`` counts word by word and also as a phrase, so
    that its exact form is worth more than its pieces; ``parseConfig`` is looked for as
    ``parse_config`` too, and the other way round. Any text is safe: terms hold
    letters, digits and spaces only, and their number is bounded, so that a query of ten
    megabytes costs no more than one of a page.
    """
    return tuple(_terms(query, limit))[:limit]


def words(text: str, limit: int) -> tuple[str, ...]:
    """Every word of what a program printed, each once, in order of appearance.

    It is full of names that no other text has: how they are put together tells nothing, and the
    few plain words between them are the message, "not" and "while" as well.
    """
    every = (word.lower()[:MAX_TERM] for word in WORD.findall(text[:MAX_QUERY]))
    return tuple(dict.fromkeys(every))[:limit]


def terms_asked(query: str) -> int:
    """How many terms ``query`` has, another spelling of one not counted; at least 1."""
    return max(1, min(MAX_TERMS, sum(_terms(query, MAX_TERMS).values())))


@lru_cache(maxsize=64)
def _terms(query: str, limit: int) -> dict[str, bool]:
    """The terms; False for one that is another spelling of its neighbours."""
    found: dict[str, bool] = {}
    spare: dict[str, bool] = {}
    for chunk in _CHUNK.findall(query[:MAX_QUERY]):
        words = WORD.findall(chunk)
        for word in words:
            said = word.lower()
            (spare if said in STOP_WORDS else found)[said[:MAX_TERM]] = True
            if _HUMPS.search(word):
                parts = [part.lower() for part in _CAMEL.findall(word)]
                for term in (*parts, " ".join(parts)):
                    if term not in STOP_WORDS:
                        found.setdefault(term[:MAX_TERM], False)
        for identifier in _IDENTIFIER.findall(chunk) if len(words) > 1 else ():
            found[" ".join(WORD.findall(identifier.lower()))[:MAX_TERM]] = True
            for name in _NAME.findall(identifier.lower()):
                found.setdefault("".join(WORD.findall(name))[:MAX_TERM], False)
        if len(found) >= limit:
            break
    return found or spare


def keywords(text: str, limit: int = 8) -> list[str]:
    """The words that say most about a task, most useful first; identifiers stay whole."""
    counted: Counter[str] = Counter()
    for chunk in _CHUNK.findall(text[:MAX_QUERY]):
        bare = chunk.strip("\"'`.,;:!?()[]{}<>*")
        whole = [bare] if _is_identifier(bare) else WORD.findall(bare)
        for word in whole:
            key = word if _is_identifier(word) else word.lower()
            if len(key) > 1 and key.lower() not in STOP_WORDS and len(key) <= MAX_TERM:
                counted[key] += 1

    def usefulness(word: str) -> float:
        weight = counted[word] * (1.0 + 0.1 * min(len(word), 10))
        return weight * (2.0 if _is_identifier(word) else 1.0)

    # Of equals, the one that was said first.
    return sorted(counted, key=usefulness, reverse=True)[:limit]


@lru_cache(maxsize=64)
def share_of_names(text: str) -> float:
    """How much of what it says are identifiers, codes and paths, 0..1: that one is among many
    plain words says nothing of those."""
    said = {chunk.strip("\"'`.,;:!?()[]{}<>*") for chunk in _CHUNK.findall(text[:MAX_QUERY])}
    said = {word for word in said if word.lower() not in STOP_WORDS and WORD.search(word)}
    return sum(map(_is_identifier, said)) / max(1, len(said))


def _is_identifier(word: str) -> bool:
    has_mark = bool(_IDENTIFIER.fullmatch(word)) or "_" in word.strip("_")
    has_digit = any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
    return has_mark or has_digit or bool(re.search(r"[a-z][A-Z]", word))


def tokens_in(text: str) -> int:
    """About how many tokens a model sees in ``text``: four characters each, rounded up."""
    return tokens_of(len(text))


def tokens_of(characters: int) -> int:
    return (characters + 3) // 4


def error_match(query: str, error_type: str | None, failure_pattern: str | None) -> float:
    """How far ``query`` names this error (1.0) or resembles its failure pattern, 0..1."""
    return max(_type_match(query, error_type or ""), _pattern_match(query, failure_pattern or ""))


def _type_match(query: str, error_type: str) -> float:
    name = error_type.strip().lower()
    if not name:
        return 0.0
    text = query[:MAX_QUERY].lower()
    if _stands_alone(name, text):
        return 1.0
    parts = _parts_of_type(error_type)
    if len(parts) < 2:
        return 0.0
    share = len(parts & _words_of(query)) / len(parts)
    return 0.8 * share if share > 0.6 else 0.0


def _stands_alone(name: str, text: str) -> bool:
    at = text.find(name)
    while at >= 0:
        around = text[max(0, at - 1) : at] + text[at + len(name) : at + len(name) + 1]
        if not _IN_WORD.search(around):
            return True
        at = text.find(name, at + 1)
    return False


_IN_WORD = re.compile(r"\w")


def _pattern_match(query: str, pattern: str) -> float:
    wanted = _words_of(pattern)
    shared = wanted & _words_of(query)
    # One word in common is chance, unless the pattern is a single word.
    if not shared or (len(shared) == 1 and len(wanted) > 1):
        return 0.0
    return len(shared) / len(wanted)


@lru_cache(maxsize=4096)
def _parts_of_type(error_type: str) -> frozenset[str]:
    """ "ModuleNotFoundError" is also named by "module not found"."""
    return frozenset(_stem(part.lower()) for part in _CAMEL.findall(error_type)) - _ERROR_NOISE


_ERROR_NOISE = frozenset({"error", "exception", "failure", "err"})


@lru_cache(maxsize=4096)
def _words_of(text: str) -> frozenset[str]:
    words = WORD.findall(text[:MAX_QUERY].lower())
    return frozenset(_stem(word) for word in words if word not in STOP_WORDS)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word

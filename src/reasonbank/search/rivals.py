"""Which of two memories states the newer value of one fact, and which is outdated. Pure.

No model is asked. Two sentences state one fact when they are worded alike but for their
values: numbers, versions, names, paths, identifiers, whatever is quoted. Where a word of the
subject differs ("the billing service", "the search service") both can be true. A newer memory
may also say so: "no longer", "was replaced by", "from now on".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import IntEnum
from functools import lru_cache

from reasonbank.fields import LIMITS
from reasonbank.model import Memory
from reasonbank.safety.patterns import brief
from reasonbank.search.sentences import IDLE, opposed, sentences, telling

ALIKE = 0.4
"""The share of words, their values aside, that two sentences of one form have in common."""
FORM = 0.6
"""The same with words that say nothing: a short sentence has few others."""
RENEWED = 0.4
"""The share of the shorter one's words that a memory takes up if it says what has changed."""
STEM = 6
"""Letters by which "deploying" and "deployment" are one word."""
SHORT = 160
"""A longer text is a lesson; two of those may well stand side by side."""
LONGEST = 60
"""Words of a sentence that are compared; a fact is said in fewer."""
MOST_SENTENCES = 8
SHARED = 2
"""Words that two wordings of one fact have in common, whatever they are."""


class Rivalry(IntEnum):
    NONE = 0
    POSSIBLE = 1
    """They may state one fact in other words: the newer first, if both fit the question."""
    SURE = 2
    """They state one fact and differ in its value: the older is outdated."""


_TOKEN = brief(r"`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|[^\s`\"“”]+", LIMITS.content)
_NUMBER = brief(r"^[-+~<>=$€£v]{0,2}\d[\d.,:x×-]*(?:\w{1,3}|%)?$", 64)
_STRIPPED = ".,;:!?()[]{}<>'‘’"
_NUMBER_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty
    forty fifty sixty ninety hundred thousand once twice thrice half hourly daily weekly
    monthly quarterly yearly never always first second third last monday tuesday wednesday
    thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april june july august september october november december
"""
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_VERB_WORDS = """
    is are was were be been has have had must may can should shall will use uses run runs come
    comes go goes live lives lie lies belong belongs set sets keep keeps take takes need needs
    get gets send sends write writes read reads listen listens start starts end ends wait waits
    expire expires allow allows require requires support supports accept accepts hold holds
"""
_VERBS = frozenset(_VERB_WORDS.split())
# What a newer memory says of the older one.
_CHANGED = brief(
    r"(?i)\b(?:no longer|any ?more|any longer|(?:replaced|superseded) (?:by|with)|instead of"
    r"|in place of|from now on|now|stopped|switched (?:off|from|to|over)|migrated"
    r"|(?:was|were|been|has|have) (?:moved|renamed|changed|raised|lowered|abolished|dropped)"
    r"|nicht mehr|ab sofort|jetzt|ersetzt durch|ne \w{1,20} plus|désormais|remplacée? par"
    r"|ya no|a partir de ahora|ahora)\b",
    LIMITS.content,
)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    """In lower case, without the signs around it."""
    value: bool
    number: bool
    """A value that is a number, a version or a time: hardly ever what a sentence is about."""


@lru_cache(4096)
def _tokens(sentence: str) -> tuple[Token, ...]:
    found: list[Token] = []
    for piece in _TOKEN.findall(sentence)[:LONGEST]:
        bare = piece.strip(_STRIPPED)
        if quoted := bare[:1] in '`"“' and len(bare) > 1:
            bare = bare[1:-1]
        if bare:
            found.append(_token(bare, quoted=quoted, first=not found))
    return tuple(found)


def _token(bare: str, *, quoted: bool, first: bool) -> Token:
    lower = bare.lower()
    number = bool(_NUMBER.search(lower)) or lower in _NUMBERS
    # A capital at the beginning of a sentence says nothing.
    named = bare[:1].isupper() and not first
    inside = bare[1:]
    shaped = any(c.isdigit() or c in "_/#@:\\.-=*" for c in bare) or inside != inside.lower()
    return Token(lower, quoted or number or named or shaped, number)


def _is_telling(token: Token) -> bool:
    return token.value or token.text not in IDLE


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where two sentences differ, and what stands there."""

    one: tuple[Token, ...]
    other: tuple[Token, ...]
    before: tuple[Token, ...]
    verbal: bool
    """Whether the verb is here, so that this is no longer about whom the sentence is."""
    last: bool
    """Whether nothing telling comes after it."""

    @property
    def values(self) -> bool:
        return all(side and all(token.value for token in side) for side in (self.one, self.other))

    @property
    def numbers(self) -> bool:
        return self.values and all(token.number for token in (*self.one, *self.other))

    @property
    def after_verb(self) -> bool:
        return any(map(_is_verb, self.before))


def _is_verb(token: Token) -> bool:
    return token.text in _VERBS or token.text.endswith("ed")


def _spots(one: tuple[Token, ...], other: tuple[Token, ...]) -> list[_Spot]:
    """Where they differ; words that say nothing are not looked at."""
    texts = [t.text for t in one], [t.text for t in other]
    found = []
    for kind, a, b, c, d in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        parts = one[a:b], other[c:d]
        mine, theirs = (tuple(filter(_is_telling, part)) for part in parts)
        if mine or theirs:
            verbs = [any(map(_is_verb, part)) for part in parts]
            verbal = all(verbs) or (any(verbs) and len(mine) != len(theirs))
            last = not any(map(_is_telling, one[b:]))
            found.append(_Spot(mine, theirs, one[:a], verbal, last))
    return found


def _common(one: tuple[Token, ...], other: tuple[Token, ...]) -> float:
    """The share of words that both have; values count only where they are the same."""
    mine, theirs = ({t.text for t in side if _is_telling(t)} for side in (one, other))
    values = {t.text for t in (*one, *other) if t.value}
    shared = mine & theirs
    return len(shared) / max(1, len(shared | ((mine | theirs) - values)))


def _form(one: tuple[Token, ...], other: tuple[Token, ...]) -> float:
    """The share of all words, "the" and "is" too, that both have."""
    mine, theirs = ({t.text for t in side} for side in (one, other))
    return len(mine & theirs) / max(1, len(mine), len(theirs))


def _changed_value(spots: list[_Spot]) -> bool:
    """Whether sentences that differ there state one fact with two values."""
    if not spots or not all(spot.values for spot in spots):
        return False
    if all(spot.numbers for spot in spots) and any(map(_is_telling, spots[0].before)):
        return True
    # "The office in Berlin opens at 8" and "in Munich at 9": the name is whom it is about.
    if len(spots) > 1 and any(spot.numbers for spot in spots):
        return False
    return all(spot.after_verb for spot in spots)


def _changed_word(spots: list[_Spot]) -> bool:
    """One thing that differs, after the verb or at the end: "indent with tabs", "with spaces"."""
    if len(spots) != 1 or not any(map(_is_telling, spots[0].before)):
        return False
    spot = spots[0]
    short = len(spot.one) == len(spot.other) == 1 or spot.values
    return short and (spot.after_verb or spot.last)


def _apart(spots: list[_Spot]) -> bool:
    """Whether they are about two things: what comes before the verb differs, in the same place."""
    for spot in spots:
        if not (spot.one and spot.other) or spot.verbal or spot.numbers:
            continue
        # "The option max_size is 100", "min_size is 5": even a value can be what it is about.
        if not spot.after_verb and (not spot.values or len(spots) > 1):
            return True
        if not spot.values and any(other.values for other in spots):
            return True
    return False


class _Subject(IntEnum):
    OTHER = 0
    UNCLEAR = 1
    SAME = 2


def _subject(one: str, other: str) -> _Subject:
    """Whether two titles name one thing."""
    mine, theirs = _tokens(one), _tokens(other)
    spots = _spots(mine, theirs)
    if not spots or all(spot.numbers for spot in spots) or _changed_value(spots):
        return _Subject.SAME
    if _common(mine, theirs) < ALIKE or not all(spot.one and spot.other for spot in spots):
        return _Subject.UNCLEAR
    return _Subject.OTHER


@lru_cache(4096)
def _between(older: tuple[str, str], newer: tuple[str, str]) -> Rivalry:
    subject = _subject(older[0], newer[0])
    if all(content.startswith(title.rstrip(".… ")) for title, content in (older, newer)):
        subject = _Subject.SAME  # A title that was made of the content says nothing more.
    changed = unclear = False
    for mine, theirs in _alike(older[1], newer[1]):
        spots = _spots(mine, theirs)
        if _changed_value(spots) or (subject is _Subject.SAME and _changed_word(spots)):
            changed = True
        elif _apart(spots):
            # "Marta owns the service" and "Tomasz owns the service" may be one fact.
            unclear = len(spots) == 1 and subject is _Subject.SAME
            if not unclear:
                return Rivalry.NONE
    if _says_it_changed(older, newer):
        return Rivalry.SURE
    if subject is _Subject.OTHER:
        return Rivalry.NONE
    if opposed(older[1], newer[1]) or (changed and subject is _Subject.SAME):
        return Rivalry.SURE
    unclear = unclear or differ_in_values(older[1], newer[1])
    short = len(older[1]) <= SHORT and len(newer[1]) <= SHORT
    possible = unclear and short and len(_shared(older, newer)[0]) >= SHARED
    return Rivalry.POSSIBLE if possible else Rivalry.NONE


def _alike(one: str, other: str) -> Iterator[tuple[tuple[Token, ...], tuple[Token, ...]]]:
    """The sentences of two texts that are worded alike."""
    for sentence in sentences(one)[:MOST_SENTENCES]:
        for against in sentences(other)[:MOST_SENTENCES]:
            mine, theirs = _tokens(sentence), _tokens(against)
            if _common(mine, theirs) >= ALIKE or _form(mine, theirs) >= FORM:
                yield mine, theirs


def _says_it_changed(older: tuple[str, str], newer: tuple[str, str]) -> bool:
    """Whether the newer memory says itself that what the older one says holds no more."""
    if not any(_CHANGED.search(text) for text in newer):
        return False
    shared, fewer = _shared(older, newer)
    return len(shared) >= max(SHARED, RENEWED * fewer)


def _shared(one: tuple[str, str], other: tuple[str, str]) -> tuple[frozenset[str], int]:
    """The words that both memories have, and how many the shorter one has."""
    mine, theirs = (frozenset(map(_stem, telling("\n".join(said)))) for said in (one, other))
    return mine & theirs, min(len(mine), len(theirs))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            word = word.removesuffix(ending)
    return word[:STEM]


def differ_in_values(one: str, other: str) -> bool:
    """Whether each states a value that the other does not."""
    mine, theirs = _values(one), _values(other)
    return bool(mine - theirs) and bool(theirs - mine)


def _values(text: str) -> frozenset[str]:
    return frozenset(t.text for s in sentences(text) for t in _tokens(s) if t.value)


def asked_for(question: str, older: Memory, newer: Memory) -> bool:
    """Whether the question names an identifier that only the older one has: it wants that one."""
    known = _values(f"{older.title}\n{older.content}")
    new = f"{newer.title}\n{newer.content}".lower()
    return any(
        token.text in known and token.text not in new and not token.text.isalpha()
        for token in _tokens(question)
    )


def rivalry(older: Memory, newer: Memory) -> Rivalry:
    """What two memories are to each other that are near by meaning."""
    if older.workspace != newer.workspace or older.scope is not newer.scope:
        return Rivalry.NONE
    if older.agent != newer.agent:
        return Rivalry.NONE
    for name in ("domain", "task_type"):
        one, other = getattr(older, name), getattr(newer, name)
        if one and other and one != other:
            return Rivalry.NONE
    return _between((older.title, older.content), (newer.title, newer.content))


def state_two_values(one: Memory, other: Memory) -> bool:
    """Whether one text made of both would state two values of something.

    Stricter than ``rivalry``: whoever doubts leaves them apart.
    """
    if rivalry(one, other) or rivalry(other, one):
        return True
    pairs = _alike(one.content, other.content)
    return any(spot.values for pair in pairs for spot in _spots(*pair))

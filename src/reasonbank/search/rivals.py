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
from typing import NamedTuple

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
OCCASION = 0.5
"""The share of the words that say when to use them that two memories of one fact have in common."""
SHARED = 2
"""Words that two wordings of one fact have in common, whatever they are."""
MAIN = 0.33
"""The least share of a memory without a title of its own that the sentence has which counts."""
MANY, MOST = 4, 0.5
"""So many words, and such a share of the shorter one's, are more than a subject in common."""


class Rivalry(IntEnum):
    NONE = 0
    """They are about two things, or no value differs."""
    OPEN = 1
    """Only the question can tell: the newer first, if both surely answer it, about as well."""
    POSSIBLE = 2
    """They may state one fact in other words: the newer first, if both fit the question."""
    LIKELY = 3
    """They have most of their words in common: the newer first, however it fits."""
    SURE = 4
    """They state one fact and differ in its value: the older is outdated."""


_TOKEN = brief(r"`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|[^\s`\"“”]+", LIMITS.content)
_NUMBER = brief(r"^[-+~<>=$€£v]{0,2}\d[\d.,:x×-]*(?:\w{1,3}|%)?$", 64)
_OPTION = brief(r"(?<!\S)(?:--?[a-z][\w.-]*|[a-z_][\w.-]*(?==))", 200)
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
# What begins so asks for something or orders it, and states nothing.
_ORDER_WORDS = """
    what who whom whose which when where why how is are does do did can could would will should
    tell show give find search look list print display output count calculate compute check get
    fetch download upload copy move rename remove delete clean create make add insert append
    write read open close save load set unset change replace convert format sort split join
    merge compare extract compress archive unzip run execute start stop restart kill
    install build compile test deploy configure enable disable use using pass put go navigate
    book order buy cancel return exchange update edit draft post fork invite assign like follow
    send recursively force switch exit enter connect monitor locate view turn rotate
    increase decrease reduce ask help generate approve star subscribe
"""
_ORDERS = frozenset(_ORDER_WORDS.split())
_ASKED = brief(r"(?i)\b(?:tell|show|give|help|remind) (?:me|us)\b|\bplease\b", LIMITS.content)
# What a newer memory says of the older one.
_CHANGED = brief(
    r"(?i)\b(?:no longer|any ?more|any longer|(?:replaced|superseded) (?:by|with)|instead of"
    r"|in place of|from now on|now|stopped|switched (?:off|from|to|over)|migrated"
    r"|(?:was|were|been|has|have) (?:moved|renamed|changed|raised|lowered|abolished|dropped)"
    r"|(?:moved|renamed|changed|raised|lowered|upgraded) (?:from|to)"
    r"|nicht mehr|ab sofort|jetzt|ersetzt durch|ne \w{1,20} plus|désormais|remplacée? par"
    r"|ya no|a partir de ahora|ahora)\b",
    LIMITS.content,
)

# These say it plainly; "no longer", "now" and "instead of" stand in many a sentence besides.
_PLAINLY = brief(
    r"(?i)\b(?:any ?more|any longer|(?:replaced|superseded) (?:by|with)|from now on|switched off"
    r"|abolished|nicht mehr|ab sofort|ersetzt durch|désormais|remplacée? par|ya no"
    r"|a partir de ahora)\b",
    LIMITS.content,
)
_GONE = brief(
    r"(?i)\b(?:no longer|any ?more|stopped|instead of|in place of|replaced|nicht mehr|ya no"
    r"|anstatt|anstelle|en lugar de|au lieu de|remplac\w{1,4}|ne)\b"
    r"\W{0,3}(\w{1,40}(?:\W{1,3}\w{1,40}){0,2})",
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
    if not spots or not all(spot.values for spot in spots) or any(map(_two_options, spots)):
        return False
    if all(spot.numbers for spot in spots) and any(map(_is_telling, spots[0].before)):
        return True
    # "The office in Berlin opens at 8" and "in Munich at 9": the name is whom it is about.
    if len(spots) > 1 and any(spot.numbers for spot in spots):
        return False
    return all(spot.after_verb for spot in spots)


def _two_options(spot: _Spot) -> bool:
    """ "observed=True" and "dropna=False", `ls -a` and `ls -t`: both can be given."""
    for one, other in zip(spot.one, spot.other, strict=False):
        mine, theirs = _options(one), _options(other)
        if mine and theirs and not mine & theirs:
            return True
    return False


def _options(token: Token) -> frozenset[str]:
    """What they are called, if it looks like options, or like a command that has some."""
    return frozenset() if token.number else frozenset(_OPTION.findall(token.text))


def _changed_word(spots: list[_Spot]) -> bool:
    """One thing that differs, after the verb or at the end: "indent with tabs", "with spaces"."""
    if len(spots) != 1 or not any(map(_is_telling, spots[0].before)):
        return False
    spot = spots[0]
    if _two_options(spot):
        return False
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
    if len(mine) == len(theirs) == 1:
        return _Subject.OTHER  # A title of one word is a name.
    if _common(mine, theirs) < ALIKE or not all(spot.one and spot.other for spot in spots):
        return _Subject.UNCLEAR
    return _Subject.OTHER


@lru_cache(4096)
def _between(older: tuple[str, str], newer: tuple[str, str]) -> Rivalry:
    subject = _subject(older[0], newer[0])
    untitled = all(said.startswith(title.rstrip(".… ")) for title, said in (older, newer))
    if untitled:
        subject = _Subject.SAME  # A title that was made of the content says nothing more.
        if not (_is_statement(older[1]) or _is_statement(newer[1])):
            return Rivalry.OPEN if _may_differ(older[1], newer[1]) else Rivalry.NONE
    changed = unclear = options = alike = False
    for mine, theirs in _alike(older[1], newer[1]):
        spots = _spots(mine, theirs)
        if _changed_value(spots) or (subject is _Subject.SAME and _changed_word(spots)):
            changed = changed or not untitled or _is_main(mine, older[1], theirs, newer[1])
        elif _apart(spots):
            # "Marta owns the service" and "Tomasz owns the service" may be one fact.
            unclear = len(spots) == 1 and subject is _Subject.SAME
            if not unclear:
                return Rivalry.NONE
        alike = True
        options = options or any(map(_two_options, spots))
    if _says_it_changed(older, ("", newer[1]) if untitled else newer):
        return Rivalry.SURE
    short = len(older[1]) <= SHORT and len(newer[1]) <= SHORT
    if options or (subject is _Subject.OTHER and (alike or not short)):
        return Rivalry.NONE
    if subject is _Subject.OTHER:
        # Two titles that differ in a word say little of texts that are worded otherwise.
        return Rivalry.OPEN if _tell_apart(older[1], newer[1]) else Rivalry.NONE
    if opposed(older[1], newer[1]) or (changed and subject is _Subject.SAME):
        return Rivalry.SURE
    if not short or _two_subjects(older[1], newer[1]):
        return Rivalry.NONE
    if unclear or differ_in_values(older[1], newer[1]):
        return _by_words(older, newer)
    return Rivalry.OPEN if _tell_apart(older[1], newer[1]) else Rivalry.NONE


def _is_statement(text: str) -> bool:
    """Whether it states something. Two tasks that differ in a value are two tasks."""
    first = sentences(text)[:1]
    tokens = _tokens(first[0]) if first else ()
    if not tokens or first[0].endswith("?") or _ASKED.search(text):
        return False
    word = tokens[0].text
    return word not in _ORDERS and word.removesuffix("s") not in _ORDERS


def _by_words(older: tuple[str, str], newer: tuple[str, str]) -> Rivalry:
    """How likely two wordings state one fact, by how many words they share."""
    shared, fewer = _shared(older, newer)
    if len(shared) >= max(MANY, MOST * fewer):
        return Rivalry.LIKELY
    return Rivalry.POSSIBLE if len(shared) >= SHARED else Rivalry.OPEN


def _two_subjects(one: str, other: str) -> bool:
    """Whether they say the same of two things: "A listens on port 1", "B listens on port 2"."""
    for sentence in sentences(one)[:MOST_SENTENCES]:
        for against in sentences(other)[:MOST_SENTENCES]:
            mine, theirs = _parted(_tokens(sentence)), _parted(_tokens(against))
            if (mine.subject & theirs.said) or (theirs.subject & mine.said):
                continue  # "Grandma takes 5 mg", "the doctor set 5 mg for grandma".
            if mine.subject and theirs.subject and not mine.subject & theirs.subject:
                same = mine.frame == theirs.frame and len(mine.frame) >= SHARED
                if same or len(mine.said & theirs.said) >= SHARED:
                    return True
    return False


class _Parted(NamedTuple):
    """A sentence with its values left out."""

    subject: frozenset[str]
    said: frozenset[str]
    frame: tuple[str, ...]
    """All words from the verb on, "at" and "by" too."""


@lru_cache(4096)
def _parted(sentence: tuple[Token, ...]) -> _Parted:
    verb = next((i for i, token in enumerate(sentence) if _is_verb(token)), 0)
    rest = [token for token in sentence[verb:] if not token.value]
    subject, said = (
        frozenset(_stem(t.text) for t in part if _is_telling(t)) for part in (sentence[:verb], rest)
    )
    return _Parted(subject, said, tuple(token.text for token in rest))


def _is_main(one: tuple[Token, ...], of: str, other: tuple[Token, ...], of_other: str) -> bool:
    """Not "Ann: Thanks!" and "Ann: Great!": they have a word in common, and say nothing."""
    if len(one) < MAIN * len(of.split()) or len(other) < MAIN * len(of_other.split()):
        return False
    mine, theirs = ({t.text for t in side if _is_telling(t)} for side in (one, other))
    numbers = all(any(token.number for token in side) for side in (one, other))
    return numbers or len(mine & theirs) >= SHARED


def _alike(one: str, other: str) -> Iterator[tuple[tuple[Token, ...], tuple[Token, ...]]]:
    """The sentences of two texts that are worded alike."""
    for sentence in sentences(one)[:MOST_SENTENCES]:
        for against in sentences(other)[:MOST_SENTENCES]:
            if sentence.endswith("?") or against.endswith("?"):
                continue
            mine, theirs = _tokens(sentence), _tokens(against)
            if _common(mine, theirs) >= ALIKE or _form(mine, theirs) >= FORM:
                yield mine, theirs


def _says_it_changed(older: tuple[str, str], newer: tuple[str, str]) -> bool:
    """Whether the newer memory says itself that what the older one says holds no more."""
    known, new = "\n".join(older), "\n".join(newer)
    # "Updates no longer suffer from it" takes nothing back that the older one said.
    plain = _PLAINLY.search(new) or differ_in_values(known, new)
    if not (plain or _takes_back(known, new)):
        return False
    for said in sentences(newer[1]):
        if not said.endswith("?") and any(map(_CHANGED.search, (newer[0], said))):
            shared, fewer = _shared(older, (newer[0], said))
            if max(len(older[1]), len(newer[1])) > SHORT:
                # Two words in common with a sentence of a lesson are nothing.
                _, fewer = _shared(older, newer)
            if len(shared) >= max(SHARED, RENEWED * fewer):
                return True
    return False


def _takes_back(older: str, newer: str) -> bool:
    """Whether what holds no more, by the newer one, is a thing that the older one says."""
    known = frozenset(map(_stem, telling(older)))
    gone = (telling(found) for found in _GONE.findall(newer))
    return not _GONE.search(older) and any(_stem(word) in known for few in gone for word in few)


def _shared(one: tuple[str, str], other: tuple[str, str]) -> tuple[frozenset[str], int]:
    """The words that both memories have, and how many the shorter one has."""
    mine, theirs = (frozenset(map(_stem, telling("\n".join(said)))) for said in (one, other))
    return mine & theirs, min(len(mine), len(theirs))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            word = word.removesuffix(ending)
    return word[:STEM]


def _tell_apart(one: str, other: str) -> bool:
    """Whether the other says what the one does not."""
    return opposed(one, other) or bool(telling(other) - telling(one))


def _may_differ(one: str, other: str) -> bool:
    """Whether each says what the other does not, and one of them a value: "weekly", "by 1 May"."""
    if opposed(one, other):
        return True
    if not telling(one) - telling(other) or not telling(other) - telling(one):
        return False
    return bool(_values(one) ^ _values(other))


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
    if _apply_elsewhere(older, newer):
        return Rivalry.NONE
    return _between((older.title, older.content), (newer.title, newer.content))


def _apply_elsewhere(one: Memory, other: Memory) -> bool:
    """Whether they are for two occasions: what went wrong, or when to use them, differs."""
    if one.error_context and other.error_context:
        patterns = [m.error_context.failure_pattern for m in (one, other) if m.error_context]
        if patterns[0] != patterns[1]:
            return True
    occasions = [frozenset(map(_stem, telling(m.description))) for m in (one, other)]
    if _says_no_occasion(one) or _says_no_occasion(other):
        return False
    return len(occasions[0] & occasions[1]) < OCCASION * max(map(len, occasions))


def _says_no_occasion(memory: Memory) -> bool:
    """Whether what says when to use it was made of its own text."""
    said = memory.description.strip(" .…").casefold()
    return said in memory.title.casefold() or said in memory.content.casefold()


def state_two_values(one: Memory, other: Memory) -> bool:
    """Whether one text made of both would state two values of something.

    Stricter than ``rivalry``: whoever doubts leaves them apart.
    """
    if max(rivalry(one, other), rivalry(other, one)) >= Rivalry.POSSIBLE:
        return True
    pairs = _alike(one.content, other.content)
    return any(spot.values for pair in pairs for spot in _spots(*pair))


def contradicts_itself(text: str) -> bool:
    """Whether it states two values of one fact, in sentences that are worded alike."""
    said = sentences(text)[: 2 * MOST_SENTENCES]
    for number, sentence in enumerate(said):
        for against in said[number + 1 :]:
            mine, theirs = _tokens(sentence), _tokens(against)
            if _common(mine, theirs) >= ALIKE and _changed_value(_spots(mine, theirs)):
                return True
    return False

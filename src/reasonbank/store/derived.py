"""One sentence is enough: title, description and outcome of a lesson, taken from its content.

No model is asked, and nothing is made up: the title is the first sentence or clause, the
description the situation that the text itself names, else that sentence, and a text that warns is
a failure. Each step reads the text once, from left to right.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from reasonbank.fields import Limits
from reasonbank.model import Outcome

READ = 4_000
"""Characters of a content that are looked at; what matters is said first."""
TITLE = 100
"""A title is for lists: a longer sentence is cut, at a clause if that leaves enough."""
LEAST = 20

_ENDS = ".!?…。！？"
_WIDE_ENDS = "。！？"
_CLAUSES = ",;:，；：、—–"
_MARKS = " \t-*•#>\"'“”„«»`_"
# Words that begin a situation, wherever they stand.
_SITUATIONS = frozenset((
    "when", "whenever", "if", "before", "after", "while", "unless", "once", "during", "until",
    "wenn", "falls", "sobald", "bevor", "nachdem", "während",
    "quand", "lorsque", "avant", "après", "dès",
    "cuando", "antes", "después", "mientras",
    "quando", "prima", "dopo", "depois", "wanneer", "voordat", "nadat",
    "когда", "если", "перед", "после",
))  # fmt: skip
# The same for words that mean something else in the middle of a sentence.
_OPENING_SITUATIONS = frozenset(("si", "se", "als", "при", "in", "with", "on", "for", "under"))
# What one finds out "if": no situation.
_WHETHER = frozenset((
    "check", "checks", "see", "ask", "know", "test", "verify", "decide", "even", "as", "only",
    "tell", "what", "look", "long", "soon",
))  # fmt: skip
_WIDE_SITUATIONS = (
    "的时候", "的時候", "之前", "之后", "之後", "时", "時", "とき", "ときは", "場合", "場合は",
    "前に",
)  # fmt: skip
_FORBIDDING = frozenset((
    "never", "no", "don't", "dont", "avoid", "beware", "mustn't", "shouldn't", "can't", "cannot",
    "nie", "niemals", "nicht", "kein", "keine", "keinen", "vermeide", "vermeiden",
    "ne", "jamais", "évite", "évitez", "éviter", "nunca", "jamás", "evita", "evitar", "evite",
    "mai", "non", "não", "nooit", "niet", "vermijd",
    "никогда", "не", "нельзя", "избегай", "избегайте",
))  # fmt: skip
_FORBIDDING_PAIRS = frozenset((
    ("do", "not"), ("must", "not"), ("should", "not"), ("no", "longer"), ("not", "to"),
    ("watch", "out"),
))  # fmt: skip
_WIDE_FORBIDDING = (
    "不要", "切勿", "避免", "禁止", "请勿", "絕不", "绝不", "不可", "别", "しないで",
    "ないでください", "てはいけない", "てはならない", "避け", "하지 마", "지 마세요", "절대",
)  # fmt: skip
_REMINDING = frozenset(
    (
        "need",
        "problem",
        "matter",
        "forget",
        "hesitate",
        "worry",
        "mind",
        "miss",
        "vergessen",
        "oublie",
    )
)
# Whoever begins with these says what to do; what fails is why.
_ADVISING = frozenset((
    "use", "prefer", "run", "set", "add", "call", "keep", "put", "pin", "make", "install", "check",
    "start", "restart", "clear", "pass", "wrap", "retry", "build", "export", "enable", "disable",
    "increase", "raise", "lower", "quote", "escape", "close", "commit", "rebase", "update",
    "upgrade", "write", "read", "test", "verify", "wait", "remember", "ensure", "try", "stop",
    "nimm", "benutze", "verwende", "nutze", "setze", "utilise", "utilisez", "usa", "use", "usar",
))  # fmt: skip
_FAILING = frozenset((
    "fails", "breaks", "crashes", "hangs", "deadlocks", "corrupts", "leaks", "broke", "crashed",
    "backfires", "backfired", "scheitert", "échoue", "falla", "fallisce", "falha",
))  # fmt: skip
_FAILING_PAIRS = frozenset((
    ("not", "work"), ("doesn't", "work"), ("didn't", "work"), ("don't", "work"),
    ("does", "nothing"), ("failed", "because"), ("failed", "with"), ("is", "broken"),
    ("was", "wrong"), ("a", "mistake"),
))  # fmt: skip
# What fails there is what the advice is for: "retry uploads that failed".
_SPOKEN_OF = frozenset((
    "that", "which", "who", "what", "whatever", "it", "they", "of", "the", "a", "if", "when", "so",
    "until", "any", "each", "every", "not", "never", "have", "has", "had",
))  # fmt: skip


class Derived(NamedTuple):
    title: str
    description: str
    outcome: Outcome


def derived(content: str, limits: Limits) -> Derived:
    """What the content says of itself. Of a blank one, blanks: it is refused elsewhere."""
    sentence = _first_sentence(content[:READ])
    situation, rest = _split(sentence)
    if not situation:
        situation = next((s for each in _sentences(content[:READ]) if (s := _split(each)[0])), "")
    return Derived(
        title=_cut(sentence.rstrip(".。 "), min(TITLE, limits.title)) or sentence[: limits.title],
        description=_cut(_capital(situation) or sentence, limits.description),
        outcome=Outcome.FAILURE if _warns(rest) else Outcome.SUCCESS,
    )


# Sentences


def _sentences(text: str) -> Iterator[str]:
    """In prose; a mark inside code, or before a small letter, ends none."""
    for line in text.splitlines():
        bare = _bare(line)
        start, code = 0, False
        for place, letter in enumerate(bare):
            if letter == "`":
                code = not code
            if code or letter not in _ENDS:
                continue
            after = bare[place + 1 : place + 3]
            if (
                letter in _WIDE_ENDS
                or not after
                or (after[0].isspace() and not after[1:].islower())
            ):
                if part := _bare(bare[start : place + 1]):
                    yield part
                start = place + 1
        if part := _bare(bare[start:]):
            yield part


def _first_sentence(text: str) -> str:
    return next(_sentences(text), text.strip())


def _bare(line: str) -> str:
    """Without the marks of a list or a heading; blank if there is no word in it."""
    line = line.strip()
    number, dot, rest = line.partition(" ")
    if dot and number[:-1].isdigit() and number[-1] in ".)":
        line = rest
    if line[:2] in ("- ", "* ", "• ") or line[:1] in ("#", ">"):
        line = line.lstrip("-*•#> \t")
    return line.strip() if any(map(str.isalnum, line)) else ""


def _cut(text: str, most: int) -> str:
    """At most so many characters: up to a clause, or else a word, and never within a letter."""
    if len(text) <= most:
        return text
    kept = text[:most]
    clause = max((place for place, c in enumerate(kept) if _ends_clause(text, place)), default=0)
    if clause >= LEAST:
        return kept[:clause].rstrip()
    space = kept.rfind(" ", 0, most - 1)
    end = space if space >= most // 2 else most - 1
    while end > 1 and _continues(text[end]):
        end -= 1
    return f"{text[:end].rstrip()}…"


def _ends_clause(text: str, place: int) -> bool:
    letter = text[place]
    if letter not in _CLAUSES:
        return False
    return letter in "，；：、" or text[place + 1 : place + 2] in ("", " ")


def _continues(letter: str) -> bool:
    """Belongs to the letter before it: an accent, a variant, the tail of a joined emoji."""
    return unicodedata.combining(letter) > 0 or letter in "\u200d\ufe0e\ufe0f"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Situations and warnings


def _words(text: str) -> list[tuple[str, int]]:
    """Each word in small letters, and where it begins."""
    found: list[tuple[str, int]] = []
    start = -1
    for place, letter in enumerate(f"{text} "):
        inside = letter.isalnum() or letter in "'’_" or unicodedata.combining(letter) > 0
        if inside and start < 0:
            start = place
        elif not inside and start >= 0:
            found.append((text[start:place].lower().replace("’", "'"), start))
            start = -1
    return found


def _split(sentence: str) -> tuple[str, str]:
    """The situation that a sentence names, and the rest of it."""
    before = ""
    for word, start in _words(sentence):
        opens = not before
        known = word in _SITUATIONS or (opens and word in _OPENING_SITUATIONS)
        if known and before not in _WHETHER:
            ends = (
                place
                for place in range(start, len(sentence))
                if sentence[place] in ";；" or _ends_clause(sentence, place)
            )
            end = next(ends, len(sentence))
            named = sentence[start:end].strip(_MARKS + _ENDS)
            rest = f"{sentence[:start]} {sentence[end + 1 :]}".strip()
            if " " in named and (rest or not opens):
                return named, rest
        before = word
    return _wide_split(sentence)


def _wide_split(sentence: str) -> tuple[str, str]:
    """The same where words are not divided by blanks, and the mark comes last."""
    for place, letter in enumerate(sentence):
        if letter in "，、,":
            clause = sentence[:place].strip()
            if clause.endswith(_WIDE_SITUATIONS):
                return clause, sentence[place + 1 :]
            break
    return "", sentence


def _warns(text: str) -> bool:
    """Whether the advice begins by forbidding something, or tells of a failure."""
    words = [word for word, _ in _words(text)]
    pairs = list(pairwise(words))
    first = [word for word in words[:3] if word not in ("please", "always", "you", "we", "i")]
    if first and (first[0] in _FORBIDDING or tuple(first[:2]) in _FORBIDDING_PAIRS):
        return not _REMINDING.intersection(words[:4])
    if any(mark in text for mark in _WIDE_FORBIDDING):
        return True
    if first and first[0] in _ADVISING:
        return False
    if any(pair in _FAILING_PAIRS for pair in pairs):
        return True
    return any(word in _FAILING and before not in _SPOKEN_OF for before, word in pairs)

"""What a text says to whoever reads past its disguise.

A model reads ``i g n o r e``, ``1gn0re``, ``ign&#111;re``, letters of other alphabets and base64
as easily as plain words; a pattern does not. `readings` gives the text as it stands and each other
way to read it, so that patterns can be written for plain words. They are for matching only: people
are shown the text.

Every step takes linear time. What is decoded is shorter than what it was decoded from, and is
decoded again a bounded number of times. It is not complete, and cannot be: a cipher that a model
can undo and that is not here passes.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote_to_bytes

from reasonbank.safety import patterns

DEPTH = 3

_INVISIBLE = re.compile(
    r"[\u200b-\u200f\u2060-\u2064\ufeff\u00ad\u180e\u034f\u061c\u115f\u1160\u3164\uffa0]"
)
BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_MARKS = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_BREAKS = re.compile(r"[\x0b\x0c\x85\u2028\u2029\r]")
# Invisible copies of ASCII, in which whole sentences are smuggled.
_TAGGED = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}

# Letters that look like one of ours. Read in pairs: those, ours.
_ALIKE = (
    ("аɑαᴀ", "a"), ("ЬьʙƄβ", "b"), ("сϲᴄ", "c"), ("ԁᴅđɗ", "d"), ("еɛεᴇҽ", "e"), ("ꜰƒ", "f"),
    ("ɡɢց", "g"), ("һհʜћħ", "h"), ("іıɪιӏ", "i"), ("јȷᴊϳ", "j"), ("кκᴋ", "k"), ("ʟłⅼ", "l"),
    ("мᴍ", "m"), ("пηոɴ", "n"), ("оοօᴏøσ", "o"), ("рρᴘ", "p"), ("ԛզǫ", "q"), ("гʀ", "r"),
    ("ѕꜱ", "s"), ("тτᴛŧ", "t"), ("υսᴜμ", "u"), ("ѵνᴠ", "v"), ("ѡԝωᴡ", "w"), ("хχ", "x"),
    ("уγʏ", "y"), ("ᴢ", "z"),
    ("АΑᎪ", "A"), ("ВΒ", "B"), ("СϹᏟ", "C"), ("ᎠÐĐ", "D"), ("ЕΕᎬ", "E"), ("ԌᏀ", "G"),
    ("НΗᎻ", "H"), ("ІΙᏆӀ", "I"), ("ЈᎫ", "J"), ("КΚᏦ", "K"), ("ᏞŁ", "L"), ("МΜᎷ", "M"), ("Ν", "N"),
    ("ОΟՕØ", "O"), ("РΡᏢ", "P"), ("Ꭱ", "R"), ("ЅᏚ", "S"), ("ТΤᎢ", "T"), ("Ս", "U"), ("ᏙѴ", "V"),
    ("ᎳԜ", "W"), ("ХΧ", "X"), ("УΥҮ", "Y"), ("ΖᏃ", "Z"),
)  # fmt: skip
_LOOKALIKES = {ord(one): ours for those, ours in _ALIKE for one in those} | {
    first + n: chr(97 + n) for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for n in range(26)
}
_LEET = str.maketrans("01345789@$", "oieastbgas")

_ENTITY = patterns.compile(r"&(?:#x?[0-9A-Fa-f]{1,7}|[A-Za-z]{2,31});?")
_PERCENT = patterns.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ESCAPE = patterns.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|[nrt])"
)
_TAG = patterns.compile(r"(?s)<!--.{0,300}?-->|</?[A-Za-z][^<>\n]{0,200}>")
_HAS_LEET = patterns.compile(r"[A-Za-z][0134578@$]+[A-Za-z]|\b[0134578][A-Za-z]{3}")
_WORD = patterns.compile(r"[A-Za-z0-9@$]*[A-Za-z][A-Za-z0-9@$]*")
_CHAIN = patterns.compile(
    r"[A-Za-z]{2,20}(?:(?:[-_/+~]{1,3}[A-Za-z]{2,20}){3,}|(?:\.{1,3}[A-Za-z]{2,20}){3,})"
)
_BETWEEN = patterns.compile(r"[-_./+~]{1,3}")
_SPELLED = patterns.compile(r"[A-Za-z](?:[ \t\n._*|/,-]{1,5}[A-Za-z]){7,}")
_BETWEEN_LETTERS = patterns.compile(r"[ \t\n_*|/,-]{1,5}")
_BASE64 = patterns.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = patterns.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,]{0,2}){12,}")
_NOT_HEX = patterns.compile(r"0x|\\x|[ :,]")
_LIST_MARKS = " \t-*+>•·–—#|/0123456789.)("
_ENDS = (".", "!", "?", "。", "！", "？", "…")
# By two of these, written in rot13 or backwards, a text in that disguise is known.
_COMMON = (
    "the", "and", "you", "all", "that", "with", "from", "this", "your", "were", "when", "told",
    "tell", "send", "have", "will", "always", "never", "before", "about", "user", "users",
    "asked", "answer", "assistant", "everything", "forget", "ignore", "previous",
    "instructions", "rules", "system", "prompt", "without", "disable", "safety", "passwords",
    "tokens",
)  # fmt: skip


def _written(words: Iterable[str]) -> patterns.Pattern:
    return patterns.compile(rf"(?i)\b(?:{'|'.join(words)})\b")


_ROTATED = _written(codecs.encode(word, "rot13") for word in _COMMON)
_BACKWARDS = _written(word[::-1] for word in _COMMON)


@dataclass(frozen=True)
class Readings:
    shown: tuple[str, ...]
    """The text as it stands, first; as it is seen; and what is encoded in it."""
    words: tuple[str, ...]
    """The same with what only looks like letters read as letters, and sentences on one line."""
    spelled: tuple[str, ...]
    """What is spelled letter by letter: the letters alone, since nobody knows where words end."""


def readings(text: str) -> Readings:
    shown: dict[str, None] = {}
    words: dict[str, None] = {}
    spelled: dict[str, None] = {}
    waiting = [text]
    for _ in range(DEPTH):
        decoded = []
        for one in waiting:
            seen = visible(one)
            letters = lettered(seen)
            shown |= dict.fromkeys((one, seen))
            words[joined(letters)] = None
            if not seen.isascii():
                # Another alphabet may be meant: what is written in Russian stays Russian.
                words[joined(seen)] = None
            spelled |= dict.fromkeys(_spelled(letters))
            decoded += payloads(seen)
        waiting = [one for one in decoded if one not in shown]
    shown |= dict.fromkeys(waiting)
    return Readings(tuple(shown), tuple(w for w in words if w not in shown), tuple(spelled))


def visible(text: str) -> str:
    """``text`` as it is seen: without what is invisible, escapes as what they stand for."""
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    if "%" in text:
        text = _PERCENT.sub(
            lambda found: unquote_to_bytes(found[0]).decode("utf-8", "replace"), text
        )
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
    text = _BREAKS.sub("\n", text) if not text.isprintable() else text
    return text if text.isascii() else bare(text)


def bare(text: str) -> str:
    """Without accents and invisible characters; letters of any width and style as plain ones."""
    text = BIDI.sub("", _SELECTORS.sub("", _INVISIBLE.sub("", text.translate(_TAGGED))))
    # Composed again: the marks that are left make other letters of Japanese and Korean ones.
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def lettered(text: str) -> str:
    """Look-alikes, digits that stand for letters, and marks within words, read as the letters."""
    if not text.isascii():
        text = text.translate(_LOOKALIKES)
    if "<" in text:
        text = _TAG.sub("", text)
    for mark in ("**", "__", "~~", "`"):
        text = text.replace(mark, "")
    if _HAS_LEET.search(text):
        text = _WORD.sub(_unleeted, text)
    if _CHAIN.search(text):
        text = _CHAIN.sub(lambda found: _BETWEEN.sub(" ", found[0]), text)
    return text


def joined(text: str) -> str:
    """Sentences that are broken over lines or list items, on one line."""
    if "\n" not in text:
        return text
    kept: list[str] = []
    for line in text.split("\n"):
        said = line.strip().lstrip(_LIST_MARKS)
        if not said:
            continue
        if kept and kept[-1].endswith("-"):
            kept[-1] = kept[-1][:-1]
        elif kept:
            kept.append("\n" if kept[-1].endswith(_ENDS) else " ")
        kept.append(said)
    return "".join(kept)


def payloads(text: str) -> list[str]:
    """Readable text that is in ``text`` as base64 or hexadecimal, in rot13 or backwards."""
    found = []
    lines: list[str] = []
    end = 0
    for piece in _BASE64.finditer(text):
        # A long payload is wrapped: its lines belong together.
        if lines and not (piece.start() - end <= 4 and text[end : piece.start()].isspace()):
            found.append(_from_base64("".join(lines)))
            lines = []
        lines.append(piece[0])
        found.append(_from_base64(piece[0]))
        end = piece.end()
    if len(lines) > 1:
        found.append(_from_base64("".join(lines)))
    for piece in _HEX.finditer(text):
        digits = _NOT_HEX.sub("", piece[0])
        found.append(_readable(binascii.unhexlify(digits[: len(digits) // 2 * 2])))
    if _twice(_ROTATED, text):
        found.append(codecs.encode(text, "rot13"))
    if _twice(_BACKWARDS, text):
        found.append(text[::-1])
    return [one for one in found if one]


def _twice(pattern: patterns.Pattern, text: str) -> bool:
    return len(list(islice(pattern.finditer(text), 2))) == 2


def _spelled(text: str) -> list[str]:
    found = []
    for run in _SPELLED.finditer(text):
        together = _BETWEEN_LETTERS.sub("", run[0])
        found += [together, together.replace(".", "")]
    return found


def _unescaped(found: Any) -> str:
    said = found[0][1:].strip("{}")
    if said in "nrt":
        return " " if said == "t" else "\n"
    code = int(said, 8) if said[0].isdigit() else int(said[1:].strip("{}"), 16)
    return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else ""


def _unleeted(found: Any) -> str:
    word: str = found[0]
    return word.translate(_LEET) if len(word) <= 30 else word


def _from_base64(said: str) -> str:
    said = said.rstrip("=").replace("-", "+").replace("_", "/")
    said = said[: len(said) - (len(said) % 4 == 1)]
    return _readable(base64.b64decode(said + "=" * (-len(said) % 4)))


def _readable(data: bytes) -> str:
    """The text that ``data`` is, or nothing: what is no text mostly fails within a few letters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    letters = sum(c.isalpha() or c == " " for c in text)
    return text if len(text) >= 8 and letters >= 0.6 * len(text) else ""

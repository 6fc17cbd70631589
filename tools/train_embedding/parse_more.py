"""More catalogues of messages: the same text in two languages, as other projects keep it.

Where a pattern has no ``lang``, or it is English, the file is the original; ``page`` tells which
files belong together. Where there is no original, the keys are the English texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from .markdown import plain
from .parse import PARSERS as FIRST, Files, Found, Parallel, Parser, _captured, language, translated

Messages = dict[str, str]

_PLURAL = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,|\{\s*\w+\s*,\s*choice")
# Three letters that some of these projects name a language by.
_THREE = {
    "deu": "de",
    "fra": "fr",
    "esn": "es",
    "ptb": "pt",
    "ita": "it",
    "rus": "ru",
    "jpn": "ja",
    "chs": "zh",
}


def messages(files: Files, pattern: re.Pattern[str]) -> Found:
    """JSON, however deep, with comments or without."""
    return _matched(files, pattern, _json)


def properties(files: Files, pattern: re.Pattern[str]) -> Found:
    """Java's catalogues."""
    return _matched(files, pattern, _properties)


def resw(files: Files, pattern: re.Pattern[str]) -> Found:
    """The XML resources of Windows programs."""
    return _matched(files, pattern, _resources)


def xliff(files: Files, pattern: re.Pattern[str]) -> Found:
    """XLIFF whose targets need not say that they are translated."""
    space = "{urn:oasis:names:tc:xliff:document:1.2}"
    for path, text in files.items():
        code = _language(_captured(pattern, path, "lang"))
        if not code:
            continue
        for unit in ElementTree.fromstring(text.lstrip("\ufeff")).iter(f"{space}trans-unit"):
            source, target = unit.find(f"{space}source"), unit.find(f"{space}target")
            if source is None or target is None or target.get("state") not in _DONE:
                continue
            yield from _same("".join(source.itertext()), code, "".join(target.itertext()))


_DONE = (None, "translated", "final")


def vscode(files: Files, pattern: re.Pattern[str]) -> Found:
    """VS Code's language packs: their English is in the pack of letters with accents."""
    packs: dict[str, dict[str, Messages]] = {}
    for path, text in files.items():
        pack = packs.setdefault(_captured(pattern, path, "page"), {})
        pack[_captured(pattern, path, "lang")] = _json(text)
    for spoken in packs.values():
        accented = spoken.get("qps-ploc", {})
        for code, texts in spoken.items():
            for key, said in texts.items() if _language(code) else ():
                if key in accented:
                    yield from _same(accented[key].translate(_ACCENTS), _language(code), said)


_ACCENTS = str.maketrans("ÆæßþÇçÐðËëÏï£ÑñØø§ÜµÝÿ", "AaBbCcDdEeIiLNnOoSUuYy")


def pages(files: Files, pattern: re.Pattern[str]) -> Found:
    """Markdown pages in two languages, sentence by sentence where their number is the same.

    Pages that a machine translated are left out where people translated others.
    """
    if any(_BY_PEOPLE.search(text) for text in files.values()):
        files = {path: text for path, text in files.items() if not _BY_MACHINE.search(text)}
    for one in translated(files, pattern):
        if isinstance(one, Parallel):
            ours, theirs = (
                _SENTENCE.split(_ALERT.sub("", text)) for text in (one.english, one.text)
            )
            if len(ours) != len(theirs):
                ours, theirs = [one.english], [one.text]
            for english, said in zip(ours, theirs, strict=True):
                yield from _same(english, one.language, said)


_BY_PEOPLE = re.compile(r"^ms\.translationtype: HT", re.MULTILINE)
_BY_MACHINE = re.compile(r"^ms\.translationtype: MT", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\Wa-z0-9_]|[¿¡])|(?<=[。！？])")
_ALERT = re.compile(r"\[!\w+[^\]]*\]\s*|\[\[[\w-]+\]\]")


# ------------------------------------------------------------------ matching


def _matched(files: Files, pattern: re.Pattern[str], read: Callable[[str], Messages]) -> Found:
    pages: dict[str, dict[str, Messages]] = {}
    for path, text in files.items():
        page = pages.setdefault(_captured(pattern, path, "page"), {})
        page.setdefault(_captured(pattern, path, "lang"), {}).update(read(text))
    for spoken in pages.values():
        english = _english(spoken)
        for code, texts in spoken.items():
            for key, said in texts.items() if _language(code) else ():
                # A key that is a text has words; the others are names.
                original = english.get(key) or (key if " " in key else "")
                yield from _same(original, _language(code), said)


def _english(spoken: Mapping[str, Messages]) -> Messages:
    return next((said for code, said in spoken.items() if re.match(r"(?i)(en\b|en_|$)", code)), {})


def _language(code: str) -> str:
    return _THREE.get(code) or language(code)


def _same(english: str, code: str, said: str) -> Iterator[Parallel]:
    both = english + said
    if "\ufffd" not in both and not _PLURAL.search(both):
        english, said = plain(_spoken(english)), plain(_spoken(said))
        words = re.findall(r"[A-Za-z]{2,}", english)
        # Half-translated pages repeat their original with other markup; tables are no text.
        kept = len(set(words) & set(re.findall(r"[A-Za-z]{2,}", said)))
        if len(words) > 1 and said and "| --" not in english and kept < 0.8 * len(set(words)):
            yield Parallel(english, code, said)


def _spoken(text: str) -> str:
    """Without the marks of access keys and line ends that only a program reads."""
    text = re.sub(r"\(&+\w\)|&&(?=\w)|&(?=[A-Z][a-z])", "", text)
    return re.sub(r"\\[nrt]|\$\(\w+\)", " ", text)


# ------------------------------------------------------------------ reading


def _json(text: str) -> Messages:
    try:
        whole = json.loads(
            re.sub(r"\A\ufeff?(?:\s*(?:/\*.*?\*/|//[^\n]*\n))*", "", text, flags=re.S)
        )
    except json.JSONDecodeError:
        return {}
    return dict(_leaves(whole, ()))


def _leaves(value: Any, way: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and way:
        # One level of names around texts as keys is common: the text alone is the key then.
        yield (way[-1] if " " in way[-1] and "|" not in way[-1] else "\0".join(way)), value
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from _leaves(below, (*way, name))


def _properties(text: str) -> Messages:
    found = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        entry = re.match(r"\s*((?:\\.|[^\s\\=:#!])(?:\\.|[^\\=:\s])*)\s*[=:]\s*(\S.*)", line)
        if entry:
            found[_unescaped(entry[1])] = _unescaped(entry[2]).replace("''", "'")
    return found


def _unescaped(text: str) -> str:
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return re.sub(
        r"\\(.)", lambda found: {"n": " ", "t": " ", "r": ""}.get(found[1], found[1]), text
    )


def _resources(text: str) -> Messages:
    root = ElementTree.fromstring(text.lstrip("\ufeff"))
    return {one.get("name", ""): one.findtext("value") or "" for one in root.iter("data")}


PARSERS: dict[str, Parser] = FIRST | {
    parser.__name__: parser for parser in (messages, properties, resw, xliff, vscode, pages)
}

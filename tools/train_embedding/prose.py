"""Plain English, kept as it is: paragraphs of books and handbooks, and what people say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from .markdown import plain, sections
from .rows import Files, Found, Pair

_SHORTEST, _LONGEST = 20, 800


def prose(files: Files, pattern: re.Pattern[str]) -> Found:
    """Each text alone, without a question."""
    for path, text in files.items():
        for found in _texts(path, text):
            said = " ".join(found.split())
            letters = len(re.findall(r"[A-Za-z ,.']", said))
            if _SHORTEST <= len(said) <= _LONGEST and letters > 0.9 * len(said):
                yield Pair(path, "", said)


def _texts(path: str, text: str) -> Iterator[str]:
    kind = path.rsplit(".", 1)[-1]
    if kind == "md" or (kind == "rst" and "CC0-1.0-Universal" in text):
        yield from (block for part in sections(text) for _, block in part.blocks)
    elif kind == "cnxml":
        yield from _paragraphs(text)
    elif kind == "tsv":
        yield from (part for part in re.findall(r"<[UA]>([^<\t\n]+)", text))
    elif kind in ("json", "jsonl"):
        yield from _said(text)


def _paragraphs(text: str) -> Iterator[str]:
    for element in ElementTree.fromstring(text).iter():
        if element.tag.endswith(("}para", "}item", "}title")):
            yield plain("".join(element.itertext()))


def _said(text: str) -> Iterator[str]:
    """Conversations, or lines with a request or a question."""
    if text.lstrip().startswith("["):
        for talk in json.loads(text):
            yield from (turn["text"] for turn in talk["utterances"])
        return
    for line in text.splitlines():
        row = json.loads(line) if line.strip() else {}
        yield from (row[name] for name in ("user_request", "question") if name in row)

"""One table of a TOML file, changed by its lines: all others stay byte for byte."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from reasonbank.surfaces.install.edits import Edit
from reasonbank.surfaces.install.jsonc import Malformed

Path = tuple[str, ...]
_PLACE = re.compile(r"\s{0,9}\(at (?:line (\d{1,9}), column (\d{1,9})|end of document)\)$")
_QUOTES = ('"""', "'''", '"', "'")


def parse(text: str) -> dict[str, Any]:
    """Raises ``Malformed``."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = _PLACE.search(said)
        lines = text.split("\n")
        line = int(place[1]) if place and place[1] else len(lines)
        column = int(place[2]) if place and place[2] else len(lines[-1]) + 1
        raise Malformed(_PLACE.sub("", said), line, column) from None
    except RecursionError:
        raise Malformed("nested too deep", 1, 1) from None


def put(text: str, path: Path, entries: Mapping[str, Any]) -> list[Edit]:
    """The table with these entries, in place of the one that is there, or at the end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    header = ".".join(path)
    lines = [f"[{header}]", *(f"{key} = {_written(value)}" for key, value in entries.items())]
    table = newline.join(lines) + newline
    spans = [*_tables(text, path)]
    if spans:
        start, end = spans[0]
        return [
            *(Edit(a, text[a:b], "") for a, b in reversed(spans[1:])),
            Edit(start, text[start:end], table),
        ]
    gap = "" if not text.strip("\ufeff") else newline
    if text and not text.endswith("\n") and gap:
        gap += newline
    return [Edit(len(text), "", f"{gap}{table}")]


def remove(text: str, path: Path) -> list[Edit]:
    """The table goes, and what is below it; so does an empty line before it."""
    edits = []
    for begin, end in reversed([*_tables(text, path)]):
        before = text[:begin]
        empty = "\r\n" if before.endswith("\n\r\n") else "\n" if before.endswith("\n\n") else ""
        start = begin - len(empty)
        edits.append(Edit(start, text[start:end], ""))
    return edits


def _written(value: Any) -> str:
    """Strings, numbers, truth and lists of these: JSON's spelling is TOML's."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(k)} = {_written(v)}" for k, v in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _tables(text: str, path: Path) -> Iterator[tuple[int, int]]:
    """Where the table and those below it stand: from the header to the last line that says
    something, so that comments above the next header stay."""
    heads = [*_headers(text)]
    for n, (start, name) in enumerate(heads):
        if name[: len(path)] == path:
            end = heads[n + 1][0] if n + 1 < len(heads) else len(text)
            yield start, _without_trailing(text, start, end)


def _without_trailing(text: str, start: int, end: int) -> int:
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return start + sum(map(len, lines))


def _headers(text: str) -> Iterator[tuple[int, Path]]:
    """Every `[a.b]` and `[[a.b]]` that stands at the begin of a line, outside of values."""
    at, depth, begins = (1 if text.startswith("\ufeff") else 0), 0, True
    while at < len(text):
        mark = text[at]
        if mark == "#":
            at = _line_end(text, at)
        elif begins and not depth and mark == "[":
            end = _line_end(text, at)
            yield _line_start(text, at), _name(text[at:end])
            at = end
        elif quote := next((q for q in _QUOTES if text.startswith(q, at)), ""):
            at, begins = _string_end(text, at, quote), False
        else:
            depth += (mark in "[{") - (mark in "]}")
            begins = mark == "\n" or (begins and mark in " \t\r\ufeff")
            at += 1


def _line_start(text: str, at: int) -> int:
    start = text.rfind("\n", 0, at) + 1
    return start + 1 if text.startswith("\ufeff", start) else start


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _string_end(text: str, at: int, quote: str) -> int:
    at += len(quote)
    while at < len(text):
        if text[at] == "\\" and quote[0] == '"':
            at += 2
        elif text.startswith(quote, at):
            at += len(quote)
            # Up to two more quotes may belong to a text of several lines.
            while len(quote) == 3 and text.startswith(quote[0], at):
                at += 1
            return at
        else:
            at += 1
    return at


def _name(header: str) -> Path:
    found: Any = parse(header.rstrip())
    parts = []
    while found := found[0] if isinstance(found, list) else found:
        [(name, found)] = found.items()
        parts.append(name)
    return tuple(parts)

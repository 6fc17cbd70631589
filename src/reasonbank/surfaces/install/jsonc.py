"""JSON with comments and trailing commas, changed in place: what is not meant stays byte for byte.

``parse`` gives a tree whose nodes know where they stand. ``put``, ``append`` and ``remove`` give
the edits, to be applied one after the other, which change one entry of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from reasonbank.surfaces.install.edits import Edit

Path = tuple[str | int, ...]
DEEPEST = 200
LOOKED_AT = 200
"""So many objects and lists, to see how a text is indented."""
WIDEST = 72
"""So many columns may a value have that is written in one line."""
_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[^\s,:\[\]{}\"/]+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_BREAK = re.compile(r"[ \t]*\r?\n")
_WORDS = {"true": True, "false": False, "null": None}


class Malformed(ValueError):
    """``line`` and ``column`` count from 1."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.problem, self.line, self.column = problem, line, column


def malformed(text: str, at: int, problem: str) -> Malformed:
    before = text[:at]
    return Malformed(problem, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)


@dataclass(slots=True)
class Node:
    start: int
    end: int = 0
    value: Any = None
    """Of a plain one; of others, see ``plain``."""
    names: list[Node] = field(default_factory=list)
    """Of an object's members, beside ``parts``."""
    parts: list[Node] | None = None
    object: bool = False

    def plain(self) -> Any:
        if self.parts is None:
            return self.value
        if self.object:
            return {n.value: p.plain() for n, p in zip(self.names, self.parts, strict=True)}
        return [part.plain() for part in self.parts]

    def find(self, path: Path) -> Node | None:
        """Of members with one name, the last counts: so do the programs that read them."""
        node: Node | None = self
        for step in path:
            parts = node.parts if node is not None else None
            if node is None or parts is None:
                return None
            if node.object:
                places = [n for n, name in enumerate(node.names) if name.value == step]
                node = parts[places[-1]] if places else None
            else:
                node = parts[step] if isinstance(step, int) and step < len(parts) else None
        return node


@lru_cache(maxsize=8)  # A config is asked about many times, and some have megabytes.
def parse(text: str) -> Node:
    """Raises ``Malformed``. Nobody changes the tree."""
    start = 1 if text.startswith("\ufeff") else 0
    root = _value(text, _skip(text, start), 0)
    if (rest := _skip(text, root.end)) < len(text):
        raise malformed(text, rest, "something follows the end")
    return root


def _skip(text: str, at: int) -> int:
    """Over white space and comments."""
    while True:
        at = _spaces(text, at)
        if text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise malformed(text, at, "this comment does not end")
            at = end + 2
        else:
            return at


def _spaces(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise malformed(text, at, f"nested more than {DEEPEST} deep")
    mark = text[at : at + 1]
    if mark in ("{", "[") and mark:
        return _container(text, at, depth)
    if mark == '"':
        return _string(text, at)
    if (number := _NUMBER.match(text, at)) and not _WORD.match(text, number.end()):
        return Node(at, number.end(), json.loads(number[0]) if len(number[0]) < 400 else number[0])
    word = _WORD.match(text, at)
    if word and word[0] in _WORDS:
        return Node(at, word.end(), _WORDS[word[0]])
    found = "the end of the file" if at >= len(text) else f"{(word[0] if word else mark)[:20]!r}"
    raise malformed(text, at, f"a value is expected, not {found}")


def _string(text: str, at: int) -> Node:
    found = _STRING.match(text, at)
    if found is None:
        what = "a name in double quotes" if text[at : at + 1] != '"' else "a whole string"
        raise malformed(text, at, f"{what} is expected")
    return Node(at, found.end(), json.loads(found[0]))


def _container(text: str, start: int, depth: int) -> Node:
    node = Node(start, parts=[], object=text[start] == "{")
    parts = node.parts if node.parts is not None else []
    close = "}" if node.object else "]"
    at = _skip(text, start + 1)
    while text[at : at + 1] != close:
        if node.object:
            node.names.append(_string(text, at))
            at = _skip(text, node.names[-1].end)
            if text[at : at + 1] != ":":
                raise malformed(text, at, "a colon is expected")
            at = _skip(text, at + 1)
        parts.append(_value(text, at, depth + 1))
        at = _skip(text, parts[-1].end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != close:
            raise malformed(text, at, f"a comma or {close} is expected")
    node.end = at + 1
    return node


def put(text: str, path: Path, value: Any) -> list[Edit]:
    """Sets the entry, whose container must be there; an entry that is there is replaced."""
    root = parse(text)
    there = root.find(path)
    if there is not None:
        new = _written(value, _Style.of(text, root), _margin(text, there.start))
        return [Edit(there.start, text[there.start : there.end], new)]
    return _added(text, root, path[:-1], f"{json.dumps(path[-1], ensure_ascii=False)}: ", value)


def append(text: str, path: Path, value: Any) -> list[Edit]:
    """Adds an element at the end of a list that is there."""
    return _added(text, parse(text), path, "", value)


def remove(text: str, path: Path) -> list[Edit]:
    """Takes an entry out, with its comma; comments stay."""
    root = parse(text)
    parent = root.find(path[:-1])
    if parent is None or not parent.parts or (there := root.find(path)) is None:
        return []
    at = next(n for n, part in enumerate(parent.parts) if part is there)
    start = (parent.names[at] if parent.object else there).start
    comma = _skip(text, there.end)
    end = comma + 1 if text[comma] == "," else there.end
    gap = text[there.end : comma]
    edits = []
    if text[comma] == "," and gap:  # A comment stands before the comma.
        edits.append(Edit(comma, ",", ""))
        end = there.end
    start -= len(text[:start]) - len(text[:start].rstrip(" \t\r\n"))
    if _in_line_comment(text, start) and not _BREAK.match(text, end):
        start = text.index("\n", start) + 1  # The break that ends a comment has to stay.
    edits.append(Edit(start, text[start:end], ""))
    if at == len(parent.parts) - 1 and text[comma] != "," and at > 0:
        before = _skip(text, parent.parts[at - 1].end)
        edits.append(Edit(before, ",", ""))
    return edits


def _in_line_comment(text: str, at: int) -> bool:
    return any(
        found[0].startswith("//") and found.end() >= at > found.start()
        for found in _TOKEN.finditer(text, 0, at)
    )


@dataclass(frozen=True, slots=True)
class _Style:
    newline: str
    unit: str

    @classmethod
    def of(cls, text: str, root: Node) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        if "\n" not in text:
            return cls(newline, "  ")
        for node in islice(_nodes(root), LOOKED_AT):
            first = next(iter(node.names if node.object else node.parts or ()), None)
            if first is None:
                continue
            inner, outer = _margin(text, first.start), _margin(text, node.start)
            alone = text.endswith(newline + inner, 0, first.start)
            if alone and len(inner) > len(outer) and inner.startswith(outer):
                return cls(newline, inner[len(outer) :])
        return cls(newline, "  ")


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts or ():
        yield from _nodes(part)


def _margin(text: str, at: int) -> str:
    """The white space with which this line begins."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: Any, style: _Style, margin: str, *, one_line: bool = False) -> str:
    short = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, dict | list) and any(
        isinstance(part, dict | list) and part
        for part in (value.values() if isinstance(value, dict) else value)
    )
    if one_line or not isinstance(value, dict | list) or not value:
        return short
    if not nested and (isinstance(value, list) and len(short) < WIDEST):
        return short
    inner = margin + style.unit
    lead = [f"{json.dumps(k, ensure_ascii=False)}: " for k in value] if isinstance(value, dict) \
        else [""] * len(value)  # fmt: skip
    parts = value.values() if isinstance(value, dict) else value
    lines = (
        f"{style.newline}{inner}{name}{_written(part, style, inner)}"
        for name, part in zip(lead, parts, strict=True)
    )
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}{','.join(lines)}{style.newline}{margin}{right}"


def _added(text: str, root: Node, path: Path, lead: str, value: Any) -> list[Edit]:
    parent = root.find(path)
    if parent is None or parent.parts is None:
        raise LookupError(f"nothing to add to at {path}")
    style = _Style.of(text, root)
    if not parent.parts:
        return [_first(text, parent, lead, value, style)]
    beginning = (parent.names or parent.parts)[0].start
    last = parent.parts[-1].end
    if "\n" not in text[parent.start : beginning]:
        new = f", {lead}{_written(value, style, '', one_line=True)}"
        comma = _skip(text, last)
        return [Edit(comma if text[comma] == "," else last, "", new)]
    margin = _margin(text, (parent.names or parent.parts)[-1].start)
    new = f"{style.newline}{margin}{lead}{_written(value, style, margin)}"
    comma = _skip(text, last)
    if text[comma] == ",":
        return [Edit(_line_rest(text, comma + 1), "", f"{new},")]
    place = _line_rest(text, last)
    if place == last:
        return [Edit(last, "", f",{new}")]
    return [Edit(place, "", new), Edit(last, "", ",")]


def _line_rest(text: str, at: int) -> int:
    """Where the comments end that stand on this line after ``at``."""
    end = at
    while True:
        here = end + len(text[end:]) - len(text[end:].lstrip(" \t"))
        if text.startswith("//", here):
            stop = text.find("\n", here)
            stop = len(text) if stop < 0 else stop
            return stop - 1 if text[stop - 1 : stop] == "\r" else stop
        close = text.find("*/", here + 2) if text.startswith("/*", here) else -1
        if close < 0 or "\n" in text[here:close]:
            return end
        end = close + 2


def _first(text: str, parent: Node, lead: str, value: Any, style: _Style) -> Edit:
    outer = _margin(text, parent.start)
    margin = outer + style.unit
    new = f"{style.newline}{margin}{lead}{_written(value, style, margin)}"
    inner = text[parent.start + 1 : parent.end - 1]
    if not inner.strip():
        return Edit(parent.start + 1, inner, f"{new}{style.newline}{outer}")
    kept = parent.start + 1 + len(inner.rstrip(" \t\r\n"))
    rest = text[kept : parent.end - 1]
    return Edit(kept, "", new if "\n" in rest else f"{new}{style.newline}{outer}")

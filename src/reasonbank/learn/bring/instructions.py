"""What people wrote for agents: CLAUDE.md, AGENTS.md, Cursor's rules and the like.

An item of a list is a lesson, and so is a paragraph; one that ends with a colon takes what it
announces with it. Headings say what a lesson is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reasonbank.errors import InvalidInput
from reasonbank.learn.bring.found import Found, LeftOut, Note, files_in, text_of
from reasonbank.store import front_matter

NAMES = (
    "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", "QWEN.md", ".cursorrules",
    ".github/copilot-instructions.md",
)  # fmt: skip
RULES = ".cursor/rules"
FEWEST_WORDS = 4

_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ \t]{1,40}(?:\[[ xX]\] {1,9})?")
_FENCE = re.compile(r"[ \t]{0,99}(```|~~~)")
_RULE = re.compile(r"(?:[-*_] {0,3}){3,200}")
_OTHER_FILE = re.compile(r"@[\w~./-]{1,900}")


def read(path: Path) -> Iterator[Found]:
    if not path.is_dir():
        yield from _lessons(path, path.name)
        return
    files = [path / name for name in NAMES if (path / name).is_file()]
    if (path / RULES).is_dir():
        files += [file for file in files_in(path / RULES) if file.suffix in (".mdc", ".md")]
    if not files:
        raise InvalidInput("path", f"{path} has none of {', '.join(NAMES)} and no {RULES}")
    for file in files:
        yield from _lessons(file, file.relative_to(path).as_posix())


def _lessons(file: Path, where: str) -> Iterator[Found]:
    head, body = front_matter.parts(text_of(file))
    concerns = _concerns(head)
    for block in _blocks(_without_comments(body)):
        text = block.text
        place = " › ".join((where, *block.headings))
        if _OTHER_FILE.fullmatch(text):
            yield LeftOut(where=place, reason=f"{text} names another file; import that one")
        elif len(text.split()) < FEWEST_WORDS:
            yield LeftOut(where=place, reason=f"“{text}” is too short to be a lesson")
        else:
            about = " › ".join(filter(None, (concerns, *block.headings)))
            yield Note(key=text, where=place, content=text, about=about or None)


def _concerns(head: str) -> str:
    """What a rule of Cursor says of itself; its front matter looks like YAML and is none."""
    pairs = (line.partition(":") for line in head.splitlines())
    values = {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}
    globs = ", ".join(front_matter.words(values.get("globs")))
    return values.get("description") or (f"For {globs}" if globs else "")


@dataclass(slots=True)
class _Block:
    """Lines that say one thing. ``announced``: a list that belongs to the sentence before it."""

    headings: tuple[str, ...] = ()
    item: bool = False
    announced: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines = self.lines
        if self.item and (marker := _ITEM.match(lines[0])):
            wide = marker.end()
            rest = (line[wide:] if not line[:wide].strip() else line for line in lines[1:])
            lines = [lines[0][wide:], *rest]
        return "\n".join(line.rstrip() for line in lines).strip()

    def ends_before(self, line: str, *, after_blank: bool) -> bool:
        """Whether a line, which is no heading, says something else."""
        if not self.lines or not line.strip() or line[0].isspace() or _FENCE.match(line):
            return False
        last = next((told for told in reversed(self.lines) if told.strip()), "")
        if not self.announced and last.rstrip().endswith(":"):
            self.announced = True
            return False
        if _ITEM.match(line):
            return not self.announced
        return after_blank


def _without_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + len("-->")
    return "".join((*kept, text[at:]))


def _heading(line: str) -> tuple[int, str] | None:
    """How deep it is, and what it says."""
    said = line.lstrip("#")
    depth = len(line) - len(said)
    return (depth, said.strip().rstrip(" #")) if 1 <= depth <= 6 and said[:1] == " " else None


def _blocks(body: str) -> Iterator[_Block]:
    headings: list[tuple[int, str]] = []
    block = _Block()
    fence = ""
    for line in body.splitlines():
        mark, heading = _FENCE.match(line), None if fence else _heading(line)
        if heading:
            headings = [each for each in headings if each[0] < heading[0]] + [heading]
        after_blank = bool(block.lines) and not block.lines[-1].strip()
        across = not fence and _RULE.fullmatch(line.strip())
        if heading or across or (not fence and block.ends_before(line, after_blank=after_blank)):
            if block.text:
                yield block
            block = _Block(tuple(text for _, text in headings))
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        if heading or across or not (block.lines or line.strip()):
            continue
        block.item = block.item or (not block.lines and bool(_ITEM.match(line)))
        block.lines.append(line)
    if block.text:
        yield block

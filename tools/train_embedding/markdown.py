"""Plain text out of Markdown, reStructuredText and catalogues of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FRONT = re.compile(r"\A\ufeff?---\n(.*?)\n---\n", re.DOTALL)
_FENCE = re.compile(r"^[ \t>]*(```+|~~~+).*?^[ \t>]*\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAGS = re.compile(
    r"\{%.*?%\}|\{\{[%<].*?[%>]\}\}|</?[A-Za-z][^<>\n]*>|^:::.*$|^\([\w:.-]+\)=$", re.MULTILINE
)
_ROLE = re.compile(r":[a-z:+-]+:`~?!?([^`<]*?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)\s]*(?:\s[^)]*)?\)|\[[^\]]*\])")
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_+")
_HEADING = re.compile(r"^(#{1,5})\s+(.*?)\s*#*\s*(?:\{[#.][^}]*\})?$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")


@dataclass
class Section:
    """A heading and the blocks below it; a block is a paragraph, an item or a quotation."""

    level: int
    heading: str
    blocks: list[tuple[str, str]] = field(default_factory=list)

    def text(self, most: int = 900) -> str:
        """The first blocks, as far as they fit."""
        found = ""
        for _, block in self.blocks:
            if found and len(found) + len(block) > most:
                break
            found += (" " if found else "") + block
        return found[: most + 300]


def plain(text: str) -> str:
    """One line without markup."""
    text = _ROLE.sub(r"\1", _TAGS.sub(" ", text))
    text = _RST_LINK.sub(r"\1", _LINK.sub(r"\1", text))
    text = re.sub(r"(\*\*|__|``|`)", "", text)
    text = re.sub(r"(?<![\w*])[*_](?=\S)|(?<=\S)[*_](?![\w*])", "", text)
    text = text.replace("\\", "").replace("&nbsp;", " ").replace("&amp;", "&")
    return " ".join(text.split())


def front_matter(text: str) -> dict[str, str]:
    """The single-line fields of the front matter: titles and descriptions are such."""
    found = _FRONT.match(text)
    fields = {}
    for line in found.group(1).split("\n") if found else ():
        name, colon, value = line.partition(":")
        if colon and re.fullmatch(r"[A-Za-z_.]+", name):
            fields[name.lower()] = plain(value.strip().strip("\"'"))
    return fields


def sections(text: str) -> list[Section]:
    """What precedes the first heading comes first, with no heading."""
    text = _COMMENT.sub("", _FENCE.sub("\n", _FRONT.sub("", text.replace("\r\n", "\n"))))
    found = [Section(0, "")]
    for block in re.split(r"\n\s*\n", _underlined(text)):
        for kind, part in _parts(block):
            if kind.startswith("#"):
                found.append(Section(len(kind), part))
            elif part:
                found[-1].blocks.append((kind, part))
    return found


def _underlined(text: str) -> str:
    return re.sub(r"^(\S.*)\n(=+|-{3,})$", r"\n# \1\n", text, flags=re.MULTILINE)


def _parts(block: str) -> Iterator[tuple[str, str]]:
    """A block may hold headings and items without empty lines between them."""
    kind, lines = "p", list[str]()
    for line in block.split("\n"):
        heading = _HEADING.match(line)
        item = _ITEM.match(line)
        starts = "#" if heading else "-" if item else ">" if line.lstrip().startswith(">") else ""
        if starts in ("#", "-") or (starts == ">" and kind != ">"):
            yield kind, plain(" ".join(lines))
            lines, kind = [], starts
        if heading:
            yield heading.group(1), plain(heading.group(2))
            kind = "p"
        elif line.lstrip().startswith(("|", "import ", "export ")):
            continue
        else:
            lines.append(line[item.end() :] if item else line.lstrip(" >\t"))
    yield kind, plain(" ".join(lines))


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text) if part]

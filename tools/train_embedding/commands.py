"""What is taken from collections of commands: what one does, said in two ways, and the command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .markdown import plain
from .rows import Files, Found, Pair

_FENCED = re.compile(r"```+\w*\n(.*?)\n[ \t]*```+", re.DOTALL)


def _shown(group: str, said: str, command: str, about: str = "") -> Iterator[Pair]:
    """A description and its command, both ways, and two descriptions of the same command."""
    said, about = plain(said).rstrip(":. "), plain(about)
    command = re.sub(r"\s*\\\n\s*", " ", command).strip()
    first = command.split("\n", 1)[0].removeprefix("$ ")
    if not said or not first or len(command) > 900:
        return
    yield Pair(group, said, f"{command}\n{about}".strip())
    if " " in first and not first.startswith("#") and not first.endswith("{"):
        yield Pair(group, first, said)
    if len(about) > 40 and said.lower() not in about.lower():
        yield Pair(group, said, about)


def cheats(files: Files, pattern: re.Pattern[str]) -> Found:
    """Sheets of commands, each below a comment."""
    for path, text in files.items():
        name = path.split("/")[-1]
        body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", body):
            said, _, code = block.strip().partition("\n")
            if said.startswith("#") and code and not code.startswith("#"):
                said = re.sub("^To ", "", said.lstrip("# "))
                yield from _shown(path, said, code, f"{name}: {said}")


def recipes(files: Files, pattern: re.Pattern[str]) -> Found:
    """Markdown: fenced code below a heading, or indented code below a paragraph."""
    for path, text in files.items():
        name = re.sub(r".*/|\.md$", "", path)
        heading = about = ""
        for whole in re.split(r"\n\s*\n", text):
            block = whole
            if found := re.match(r"#{1,6} (.+)\n*", whole):
                heading, about = found[1], ""
                block = whole[found.end() :]
            code = _FENCED.search(block)
            if code and heading:
                yield from _shown(path, heading, code[1], about)
                heading = ""
            elif block.startswith("    ") and about:
                first = block.strip().split("\n")[0].removeprefix("$ ")
                yield from _shown(path, about, first, f"{name}: {heading or about}")
                about = ""
            elif re.match(r"\w", block):
                about = block


def cmdlets(files: Files, pattern: re.Pattern[str]) -> Found:
    """Reference pages with "### Example 1: What it does", a paragraph, and the code."""
    for path, text in files.items():
        for example in re.split(r"^### Example \d+[^\w\n]*", text, flags=re.MULTILINE)[1:]:
            said, _, body = re.split(r"^##", example, flags=re.MULTILINE)[0].partition("\n")
            if code := _FENCED.search(body):
                about = body[: code.start()].strip().split("\n\n")[0]
                yield from _shown(path, said, "\n".join(code[1].split("\n")[:8]), about)


def aws_examples(files: Files, pattern: re.Pattern[str]) -> Found:
    """Examples in reStructuredText: a title in bold, a sentence, and the command."""
    for path, text in files.items():
        group, said, about = path.rsplit("/", 1)[0], "", ""
        for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
            if found := re.match(r"\*\*(?:Example \d+:? *)?(?:To )?(\w)([^*\n]+)\*\*", block):
                said = found[1].upper() + found[2]
            elif block.rstrip().endswith("::") and block.strip() != "Command::":
                about = re.split(r"\.\s+(?=Command|Input)", block)[0].rstrip(": \n")
            elif said and block.lstrip().startswith("aws "):
                code = re.sub(r"^[ \t]+", "", block, flags=re.MULTILINE)
                yield from _shown(group, said, code, about)
                said = about = ""


def azure_help(files: Files, pattern: re.Pattern[str]) -> Found:
    """Help texts of a command line: a summary, and examples that have a name."""
    for path, text in files.items():
        for entry in text.split("\nhelps[")[1:]:
            name, _, body = entry.partition("] = ")
            name, body = name.strip("'\""), body.split('"""')[1] if '"""' in body else ""
            summary = re.search(r"short-summary: (.+)", body)
            about = summary[1].strip("'\" ") if summary else ""
            group = f"{path} {name.rsplit(' ', 1)[0]}"
            yield Pair(group, about, f"az {name}")
            for example in body.split("- name: ")[1:]:
                said, _, code = example.partition("\n")
                said = re.sub(r"\(auto-?generated\)", "", said).strip("'\" ")
                code = re.sub(r"^\s*text: *(?:[|>]-?)?", "", code).split("\n- ")[0]
                code = re.sub(r"\s*\n\s*", " ", code.split("crafted: true")[0].strip())
                if code.startswith("az "):
                    yield from _shown(group, said, code, about)

"""What is taken from the files of each kind of source.

A parser gets the files of one source, path to text, and yields two kinds of things: the same
text in two languages (``Parallel``), and a question with the document that answers it
(``Pair``).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

from .commands import aws_examples, azure_help, cheats, cmdlets, recipes
from .markdown import Section, front_matter, plain, sections, sentences
from .prose import prose
from .rows import Files, Found, Pair, Parallel
from .tools_and_requests import (
    dialogues,
    function_calls,
    intents,
    model_calls,
    seal_tools,
    simulated_apis,
)

__all__ = ["LANGUAGES", "PARSERS", "Pair", "Parallel", "language"]

LANGUAGES = ("de", "fr", "es", "pt", "it", "ru", "ja", "zh")
_CODES = {"zh_hans": "zh", "zh_cn": "zh", "zh_tw": "", "zh_hant": "", "zh_hk": "", "pt_pt": "pt"}
_GENERIC = re.compile(
    r"(?i)(see also|references?|examples?|notes?|links?|useful links|syntax|inputs?|outputs?|"
    r"parameters|further reading|related.*|next steps|what's next|license|table of contents|"
    r"options|resources|version|known problems|when not to use it|configuration)\W*"
)


def language(code: str) -> str:
    """Ours for a folder's or file's code; empty where it is none of them."""
    code = code.lower().replace("-", "_")
    found = _CODES.get(code, code.split("_")[0])
    return found if found in LANGUAGES else ""


# ------------------------------------------------------------------ the same in two languages


def po(files: Files, pattern: re.Pattern[str]) -> Found:
    """gettext catalogues."""
    entry = re.compile(r'^msgid ((?:"(?:.*)"\n?)+)msgstr ((?:"(?:.*)"\n?)+)', re.MULTILINE)
    for path, text in files.items():
        code = language(_captured(pattern, path, "lang"))
        for block in re.split(r"\n\s*\n", text) if code else ():
            if "#, fuzzy" in block or "#~" in block:
                continue
            if found := entry.search(block):
                english, translated = (plain(_joined(part)) for part in found.groups())
                yield Parallel(english, code, translated)


def _joined(quoted: str) -> str:
    whole = "".join(re.findall(r'"(.*)"', quoted))
    return whole.replace(r"\"", '"').replace(r"\n", " ").replace(r"\t", " ")


def xlf(files: Files, pattern: re.Pattern[str]) -> Found:
    """XLIFF, as .NET keeps it: messages of compilers and tools."""
    space = "{urn:oasis:names:tc:xliff:document:1.2}"
    for path, text in files.items():
        code = language(_captured(pattern, path, "lang"))
        if not code:
            continue
        for unit in ElementTree.fromstring(text.lstrip("\ufeff")).iter(f"{space}trans-unit"):
            source, target = unit.find(f"{space}source"), unit.find(f"{space}target")
            if source is not None and target is not None and target.get("state") == "translated":
                english, translated = (" ".join((e.text or "").split()) for e in (source, target))
                yield Parallel(_keys(english), code, _keys(translated))


def _keys(text: str) -> str:
    """Without the mark of a menu's access key."""
    return re.sub(r"\(&\w\)|&(?=\w)", "", text)


def catalogue(files: Files, pattern: re.Pattern[str]) -> Found:
    """JSON files of one language each, with the same keys."""
    spoken = {_captured(pattern, path, "lang"): json.loads(text) for path, text in files.items()}
    english = next(texts for code, texts in spoken.items() if code.lower().startswith("en"))
    for code, texts in spoken.items():
        for key, text in texts.items() if language(code) else ():
            if isinstance(text, str) and isinstance(english.get(key), str):
                yield Parallel(plain(english[key]), language(code), plain(text))


def translated(files: Files, pattern: re.Pattern[str]) -> Found:
    """Markdown pages in folders for languages: ``lang`` and ``page`` are in the pattern.

    Only sections whose blocks have the same kinds in both languages are taken: a translation
    that lags behind its original would otherwise be paired with the wrong text.
    """
    pages: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        code = _captured(pattern, path, "lang") or "en"
        pages.setdefault(_captured(pattern, path, "page"), {})[code] = text
    for spoken in pages.values():
        if "en" not in spoken:
            continue
        english = sections(spoken["en"])
        for code, text in spoken.items():
            if ours := language(code):
                yield from _aligned(english, sections(text), ours)


def _aligned(english: list[Section], other: list[Section], code: str) -> Found:
    if [section.level for section in english] != [section.level for section in other]:
        return
    for ours, theirs in zip(english, other, strict=True):
        yield Parallel(ours.heading, code, theirs.heading)
        if [kind for kind, _ in ours.blocks] == [kind for kind, _ in theirs.blocks]:
            for (_, text), (_, said) in zip(ours.blocks, theirs.blocks, strict=True):
                yield Parallel(text, code, said)


# ------------------------------------------------------------------ questions and answers


def tldr(files: Files, pattern: re.Pattern[str]) -> Found:
    """Commands and what they do, and the same descriptions in other languages."""
    pages: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        code = _captured(pattern, path, "lang") or "en"
        pages.setdefault(_captured(pattern, path, "page"), {})[code] = text
    for name, spoken in pages.items():
        if "en" not in spoken:
            continue
        command, about, examples = _page(spoken["en"])
        for said, line in examples.items():
            yield Pair(name, said, f"{line}\n{command}: {about}")
            yield Pair(name, line, said)
        yield Pair(name, about, f"{command}: " + "; ".join(examples))
        lines = {_bare(line): said for said, line in examples.items()}
        for code, text in spoken.items():
            _, other_about, other = _page(text)
            if ours := language(code):
                yield Parallel(about, ours, other_about)
                for said, line in other.items():
                    if english := lines.get(_bare(line)):
                        yield Parallel(english, ours, said)


def _page(text: str) -> tuple[str, str, dict[str, str]]:
    name = plain(text.split("\n", 1)[0].lstrip("# "))
    # The last lines of a description point elsewhere: to a home page or to other commands.
    lines = [line[1:] for line in text.split("\n") if line.startswith(">")]
    about = " ".join(plain(line) for line in lines if "<http" not in line and "`" not in line)
    examples = re.findall(r"^- (.*?)[:：]?\n\n`(.*)`$", text, re.MULTILINE)
    # "[c]reate" marks the letter that is the flag; nobody writes so.
    said = {plain(re.sub(r"\[(\w+)\]", r"\1", what)): _shown(line) for what, line in examples}
    return name, about, said


def _shown(line: str) -> str:
    line = re.sub(r"\{\{\[([^|\]]*)\|[^\]]*\]\}\}", r"\1", line)
    return html.unescape(line.replace("{{", "").replace("}}", ""))


def _bare(line: str) -> str:
    """A command without what a translator may change: names of files and values."""
    words = (word for word in line.split() if not re.search(r"[/.<>\"']|^[^-]{12,}$", word))
    return " ".join(words) if line.count(" ") else line


def documents(files: Files, pattern: re.Pattern[str]) -> Found:
    """Pages of documentation: titles, summaries and headings to what they stand above."""
    for path, text in files.items():
        fields, parts = front_matter(text), sections(text)
        title = fields.get("title") or next((s.heading for s in parts if s.level == 1), "")
        title = re.sub(r"\((?:code analysis|Windows)\)", "", title).strip()
        lead = next((s.text() for s in parts if len(s.text()) > 60), "")
        questions = {title, fields.get("description", ""), fields.get("intro", "")}
        questions |= {said for s in parts[:2] for kind, said in s.blocks if kind == ">"}
        for question in sorted(questions):
            if not question.startswith(("Learn more about", "See **", "This file is source")):
                yield Pair(path, question, _without(lead, question))
        for part in parts:
            if part.level > 1 and not _GENERIC.fullmatch(part.heading):
                short = len(part.heading.split()) < 5
                asked = f"{title}: {part.heading}" if short and title else part.heading
                yield Pair(path, asked, part.text())


def _without(text: str, question: str) -> str:
    """A summary that repeats the first sentence teaches nothing."""
    return text[len(question) :].strip() if text.startswith(question) else text


def explained(files: Files, pattern: re.Pattern[str]) -> Found:
    """Explanations of errors: the first paragraph says what is wrong, the others why."""
    for path, text in files.items():
        blocks = [block for section in sections(text) for _, block in section.blocks]
        if len(blocks) > 1:
            code = re.sub(r".*/|\.mdx?$", "", path)
            rest = Section(0, "", [("p", block) for block in blocks[1:]]).text()
            yield Pair(path, blocks[0], rest)
            yield Pair(path, f"error[{code}]: {blocks[0]}", rest)


def rust_docs(files: Files, pattern: re.Pattern[str]) -> Found:
    """Lints written in Rust: what it does, why it is bad, and the message it gives."""
    for path, text in files.items():
        for comment in re.finditer(r"(?:^[ \t]*///.*\n)+", text, re.MULTILINE):
            said = re.sub(r"^[ \t]*/// ?", "", comment.group(), flags=re.MULTILINE)
            parts = {part.heading.lower(): part.text() for part in sections(said)}
            what, why = parts.get("what it does", ""), parts.get("why is this bad?", "")
            if not what or not why:
                continue
            yield Pair(path, what, why)
            after = text[comment.end() : comment.end() + 2500]
            name = re.search(r"pub(?:\(crate\))? (?:struct )?([A-Z]\w+)", after)
            message = re.search(r'(?:format!\(|fn message.*?)"([^"]{12,})"', after, re.DOTALL)
            if message:
                yield Pair(path, re.sub(r"[{}]", "", message.group(1)), f"{what} {why}")
            if name:
                yield Pair(path, name.group(1), f"{what} {why}")


def skills(files: Files, pattern: re.Pattern[str]) -> Found:
    """Instructions for agents: when to use them, to what they say."""
    for path, text in files.items():
        about, parts = front_matter(text).get("description", ""), sections(text)
        title = next((part.heading for part in parts if part.level == 1), "")
        body = " ".join(part.text(400) for part in parts if part.blocks)[:900]
        lesson = f"{title}. {body}"
        for sentence in {about, *sentences(about)}:
            yield Pair(path, sentence, lesson)
        for part in parts:
            if "when to use" in part.heading.lower():
                for _, item in part.blocks:
                    yield Pair(path, item, f"{title}. {about}")
            elif part.level > 1 and not _GENERIC.fullmatch(part.heading):
                yield Pair(path, f"{title}: {part.heading}", part.text())


def instructions(files: Files, pattern: re.Pattern[str]) -> Found:
    """Sentences that tell people or agents how to work: what surrounds a problem in a prompt."""
    for path, text in files.items():
        for part in sections(text):
            for _, block in part.blocks:
                for sentence in sentences(block):
                    yield Pair(path, "", sentence)


def utterances(files: Files, pattern: re.Pattern[str]) -> Found:
    """What people say to an assistant, in lists of [text, intent]: kept as it is."""
    for path, text in files.items():
        for part in json.loads(text).values():
            for said, _ in part:
                yield Pair(path, "", said)


Parser = Callable[[Files, re.Pattern[str]], Found]
PARSERS: dict[str, Parser] = {
    parser.__name__: parser
    for parser in (
        po,
        xlf,
        catalogue,
        translated,
        tldr,
        documents,
        explained,
        rust_docs,
        skills,
        instructions,
        utterances,
        prose,
        seal_tools,
        function_calls,
        model_calls,
        dialogues,
        simulated_apis,
        intents,
        cheats,
        recipes,
        cmdlets,
        aws_examples,
        azure_help,
    )
}


def _captured(pattern: re.Pattern[str], path: str, name: str) -> str:
    found = pattern.fullmatch(path)
    return (found.groupdict().get(name) or "") if found else ""

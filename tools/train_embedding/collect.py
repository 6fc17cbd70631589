"""Collect the training texts from the public repositories in ``sources.toml``.

    python -m tools.train_embedding.collect [--out .cache/train] [--mirrors DIR]

The same table and seed give the same files, byte for byte:

    parallel.jsonl.xz   an English text and its translations
    pairs.jsonl.xz      a question, the document that answers it, and their group
    prompts.jsonl.xz    sentences that surround a problem in an agent's prompt
    texts.jsonl.xz      everyday sentences, whose vectors should stay as they are
    held_out.jsonl.xz   pairs of sources that are never trained on
    counts.json         how many of each, and how much of a language the vocabulary carries
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reasonbank.embed.minilm import FOLDER, VOCABULARY
from reasonbank.embed.minilm.wordpiece import WordPiece

from .parse import LANGUAGES, Pair, Parallel
from .parse_more import PARSERS
from .sources import ALLOWED, Checkout, Source, table

SEED = 1
# No source or language may drown the others.
MOST_PARALLEL, MOST_PAIRS, MOST_PROMPTS, MOST_TEXTS = 12_000, 24_000, 4_000, 24_000
# Requests and commands of one kind are alike; so are the paragraphs of one book.
FEWER = {"intents": 8_000, "aws_examples": 8_000, "azure_help": 8_000, "prose": 10_000}
SHORTEST, LONGEST = 12, 1_500
_SCRIPT = {"ru": "[\u0400-\u04ff]", "ja": "[\u3040-\u30ff]", "zh": "[\u4e00-\u9fff]"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--out", type=Path, default=Path(".cache/train"))
    options.add_argument("--mirrors", type=Path, help="folder of mirrors, OWNER+NAME/repo each")
    options.add_argument("--only", help="a regular expression for repositories")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    collected, cache = Collection(measured()), chosen.out / "repositories"
    for source in table():
        if not chosen.only or re.search(chosen.only, source.repository):
            original = source.original and Checkout(source.original, chosen.mirrors, cache)
            collected.add(source, Checkout(source, chosen.mirrors, cache), original)
    collected.write(chosen.out)


class Collection:
    def __init__(self, measured: frozenset[str] = frozenset()) -> None:
        self._measured = measured
        self.dropped = 0
        self.parallel: dict[str, dict[str, str]] = {}
        self.pairs: list[dict[str, str]] = []
        self.held_out: list[dict[str, str]] = []
        self.prompts: set[str] = set()
        self.texts: set[str] = set()
        self.counts: dict[str, dict[str, int]] = {}
        self._seen: set[tuple[str, str]] = set()

    def add(self, source: Source, checkout: Checkout, english: Checkout | None = None) -> None:
        if source.licence not in ALLOWED:
            raise SystemExit(f"{source.repository}: {source.licence} does not allow this use")
        checkout.text(source.licence_commit or source.commit, source.licence_file)
        files = dict(checkout.files(source.commit, source.pattern))
        if source.language:
            # Such a repository is one translation: its paths get the name that is missing.
            files = {f"{source.language}/{path}": text for path, text in files.items()}
            pattern = re.compile(r"(?P<lang>\w\w)/(?P<page>.+)")
            if english and source.original:
                pages = english.files(source.original.commit, source.pattern)
                files |= {f"en/{path}": text for path, text in pages}
        else:
            pattern = source.pattern
        found = list(dict.fromkeys(PARSERS[source.kind](files, pattern)))
        counts = Counter[str]()
        if source.kind == "instructions":
            kept = _some((f.document for f in found if isinstance(f, Pair)), MOST_PROMPTS)
            self.prompts |= {text for text in kept if 25 < len(text) < 220}
            counts["prompts"] = len(kept)
        elif source.kind in ("utterances", "prose"):
            most = FEWER.get(source.kind, MOST_TEXTS)
            kept = _some((f.document for f in found if isinstance(f, Pair)), most)
            kept = [text for text in kept if text.casefold() not in self._measured]
            self.texts |= set(kept)
            counts["texts"] = len(kept)
        else:
            counts += self._add_parallel(f for f in found if isinstance(f, Parallel))
            counts += self._add_pairs(source, [f for f in found if isinstance(f, Pair)])
        told = self.counts.setdefault(source.repository, {})
        told.update({"files": told.get("files", 0) + len(files), **counts})
        print(f"{source.repository}: {len(files)} files, {dict(counts)}", flush=True)

    def _add_parallel(self, found: Iterable[Parallel]) -> Counter[str]:
        counts = Counter[str]()
        spoken: dict[str, list[Parallel]] = {}
        for one in found:
            if usable_translation(one) and one.english.casefold() not in self._measured:
                spoken.setdefault(one.language, []).append(one)
        for code, many in spoken.items():
            for one in _some(many, MOST_PARALLEL, key=lambda p: p.english + p.text):
                if self.parallel.setdefault(one.english, {}).setdefault(code, one.text) == one.text:
                    counts[code] += 1
        return counts

    def _add_pairs(self, source: Source, found: list[Pair]) -> Counter[str]:
        into = self.held_out if source.use == "held-out" else self.pairs
        usable = (p for p in found if usable_pair(p) and not self._is_measured(p))
        most = FEWER.get(source.kind, MOST_PAIRS)
        kept = _some(usable, most, key=lambda p: p.question + p.document)
        before = len(into)
        for one in kept:
            if (one.question, one.document) not in self._seen:
                self._seen.add((one.question, one.document))
                group = hashlib.sha256(f"{source.repository}{one.group}".encode()).hexdigest()[:8]
                row = {"source": source.repository, "group": group}
                row |= {"question": one.question, "document": one.document}
                into.append(row | ({"meaning": one.meaning} if one.meaning else {}))
        return Counter(pairs=len(into) - before)

    def _is_measured(self, one: Pair) -> bool:
        found = not self._measured.isdisjoint(
            (one.question.strip().casefold(), *one.document.casefold().split("\n")[:2])
        )
        self.dropped += found
        return found

    def write(self, out: Path) -> None:
        parallel = [{"en": english, **said} for english, said in sorted(self.parallel.items())]
        store(out / "parallel.jsonl.xz", parallel)
        order = ("source", "group", "question", "document")
        for name, rows in (("pairs", self.pairs), ("held_out", self.held_out)):
            store(out / f"{name}.jsonl.xz", sorted(rows, key=lambda r: [r[k] for k in order]))
        store(out / "prompts.jsonl.xz", sorted(self.prompts))
        store(out / "texts.jsonl.xz", sorted(self.texts))
        told: dict[str, Any] = {"sources": self.counts, "unknown tokens, %": unknown(parallel)}
        told |= {"pairs left out, they are measured on": self.dropped}
        (out / "counts.json").write_text(json.dumps(told, indent=1) + "\n")
        for file in sorted(out.glob("*.xz")):
            print(f"{file.name}: {file.stat().st_size:,} bytes")


def measured() -> frozenset[str]:
    """What the model is measured on, where that data is: it is never trained on."""
    folder = Path(os.environ.get("REASONBANK_DATA", "../shared/data"))
    if not folder.is_dir():
        print("texts that are measured on cannot be left out: no data at $REASONBANK_DATA")
        return frozenset()
    said = (folder / "nl2bash/all.nl").read_text("utf-8").splitlines()
    said += (folder / "nl2bash/all.cm").read_text("utf-8").splitlines()
    with (folder / "metatool/all_clean_data.csv").open(encoding="utf-8") as rows:
        said += [row[0] for row in csv.reader(rows) if row]
    tools = (folder / "metatool/plugin_des.json", folder / "metatool/big_tool_des.json")
    said += [about for file in tools for about in json.loads(file.read_text("utf-8")).values()]
    both = json.loads((folder / "metatool/multi_tool_query_golden.json").read_text("utf-8"))
    said += [row["query"] for row in both]
    for name in ("queries", "corpus"):
        lines = (folder / f"toollens/{name}.jsonl").read_text("utf-8").splitlines()
        said += [json.loads(line)["text"] for line in lines]
    tasks = json.loads((folder / "webarena_intents/test.raw.json").read_text("utf-8"))
    said += [task["intent"] for task in tasks]
    return frozenset(text.strip().casefold() for text in said if len(text.strip()) >= SHORTEST)


def usable_translation(one: Parallel) -> bool:
    english, text = one.english, one.text
    if not (SHORTEST <= len(english) <= LONGEST) or english == text:
        return False
    wide = one.language in ("ja", "zh")
    if not (0.15 if wide else 0.5) <= len(text) / len(english) <= (1.2 if wide else 2.5):
        return False
    script = _SCRIPT.get(one.language)
    return not script or len(re.findall(script, text)) >= max(2, len(text) // 8)


def usable_pair(one: Pair) -> bool:
    question, document = one.question.strip(), one.document.strip()
    return (
        6 <= len(question) <= 600
        and len(document) >= 20
        and question.lower() not in document[: len(question) + 2].lower()
        and len(re.findall(r"[A-Za-z]", document)) > len(document) // 2
    )


def unknown(parallel: list[dict[str, str]], most: int = 2_000) -> dict[str, float]:
    """How many tokens of a language are not in the vocabulary."""
    wordpiece = WordPiece(f"{FOLDER}/{VOCABULARY}")
    missing = wordpiece("\U0001f600")[1]
    shares = {}
    for code in ("en", *LANGUAGES):
        texts = [row[code] for row in parallel if code in row][:most]
        tokens = [token for text in texts for token in wordpiece(text)[1:-1]]
        shares[code] = round(100 * tokens.count(missing) / max(1, len(tokens)), 1)
    return shares


def _some(rows: Iterable[Any], most: int, key: Any = str) -> list[Any]:
    """At most so many, drawn by what they say: a new row does not change which others stay."""

    def drawn(row: Any) -> bytes:
        return hashlib.sha256(f"{SEED}{key(row)}".encode()).digest()

    return sorted(rows, key=drawn)[:most]


def store(path: Path, rows: Iterable[Any]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(lzma.compress(lines.encode(), preset=6))


def load(path: Path) -> list[Any]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()

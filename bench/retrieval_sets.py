"""The labelled retrieval sets: what is stored, what is asked, what should be found.

Each set has a part to tune on and a part to test on (WebArena has only the test).
The data is not ours to copy; it is read from ``$REASONBANK_DATA`` or from
``../shared/data`` beside the repository.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TUNED_CONVERSATIONS = ("conv-26", "conv-30", "conv-41")
SAMPLE = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    title: str = ""
    description: str = ""
    content: str = ""

    @property
    def embedded(self) -> str:
        """The text that the vector is made of: what the bank embeds of a memory."""
        return "\n".join(part for part in (self.title, self.description, self.content) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``before`` is how many documents existed when it was asked (None: all of them)."""

    text: str
    gold: frozenset[int]
    before: int | None = None
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    documents: list[Document]
    questions: list[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One set's tuning or test part; LoCoMo has one corpus for each conversation."""

    name: str
    corpora: list[Corpus]


def folder() -> Path | None:
    """Where the data is, or None on a machine that does not have it."""
    named = os.environ.get("REASONBANK_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for place in (Path(named) if named else None, beside):
        if place is not None and (place / "README.md").is_file():
            return place
    return None


def locomo(data: Path, *, train: bool, window: int = 0, adversarial: bool = False) -> Part:
    """Turns of a conversation; with ``window``, each one keeps its neighbours as context.

    Category 5 asks about what was never said: it is reported apart.
    """
    corpora = []
    for sample in json.loads((data / "locomo" / "locomo10.json").read_text("utf-8")):
        if (sample["sample_id"] in TUNED_CONVERSATIONS) != train:
            continue
        number, documents = _turns(sample["conversation"], window)
        questions = []
        for question in sample["qa"]:
            named = re.findall(r"D:?(\d+):(\d+)", " ".join(question.get("evidence", ())))
            ids = (f"D{int(a)}:{int(b)}" for a, b in named)
            gold = frozenset(number[key] for key in ids if key in number)
            if gold and (question["category"] == 5) == adversarial:
                questions.append(
                    Question(text=question["question"], gold=gold, group=sample["sample_id"])
                )
        corpora.append(Corpus(documents=documents, questions=questions))
    name = "locomo" + (f" ±{window}" if window else "") + (" cat 5" if adversarial else "")
    return Part(name=name, corpora=corpora)


def _turns(conversation: dict[str, Any], window: int) -> tuple[dict[str, int], list[Document]]:
    number: dict[str, int] = {}
    documents: list[Document] = []
    sessions = [key for key in conversation if re.fullmatch(r"session_\d+", key)]
    for session in sorted(sessions, key=lambda key: int(key.split("_")[1])):
        spoken = [_spoken(turn) for turn in conversation[session]]
        for position, turn in enumerate(conversation[session]):
            number[turn["dia_id"]] = len(documents)
            near = spoken[max(0, position - window) : position + window + 1]
            documents.append(
                Document(title=spoken[position], content="\n".join(near))
                if window
                else Document(content=spoken[position])
            )
    return number, documents


def _spoken(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['speaker']}: {turn['text']}" + (f" [shares {caption}]" if caption else "")


def metatool(data: Path, *, train: bool) -> Part:
    tools = json.loads((data / "metatool" / "plugin_des.json").read_text("utf-8"))
    number = {name: position for position, name in enumerate(tools)}
    with (data / "metatool" / "all_clean_data.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    mine = [row for position, row in enumerate(rows) if (position % 2 == 0) == train]
    questions = [
        Question(text=text, gold=frozenset({number[tool]}))
        for text, tool in random.Random(0).sample(mine, SAMPLE)
    ]
    documents = [Document(title=name, content=text) for name, text in tools.items()]
    return Part(name="metatool", corpora=[Corpus(documents=documents, questions=questions)])


def toollens(data: Path, *, train: bool) -> Part:
    place = data / "toollens"
    documents, number = [], {}
    for line in (place / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        number[row["_id"]] = len(documents)
        documents.append(Document(content=row["text"]))
    asked = {}
    for line in (place / "queries.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        asked[row["_id"]] = row["text"]
    gold: dict[str, set[int]] = {}
    qrels = place / "qrels" / ("train.tsv" if train else "test.tsv")
    for line in qrels.read_text("utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            gold.setdefault(query, set()).add(number[document])
    chosen = sorted(gold)
    if train:
        chosen = random.Random(0).sample(chosen, SAMPLE)
    questions = [Question(text=asked[key], gold=frozenset(gold[key])) for key in chosen]
    return Part(name="toollens", corpora=[Corpus(documents=documents, questions=questions)])


def webarena(data: Path, *, held_out: bool = False) -> Part:
    """A stream: each task sees the tasks before it.

    ``held_out`` asks the opposite: tasks whose template never came before, for which
    nothing should be found.
    """
    tasks = json.loads((data / "webarena_intents" / "test.raw.json").read_text("utf-8"))
    earlier: dict[int, list[int]] = {}
    questions = []
    for position, task in enumerate(tasks):
        same = earlier.setdefault(task["intent_template_id"], [])
        if bool(same) != held_out:
            questions.append(Question(text=task["intent"], gold=frozenset(same), before=position))
        same.append(position)
    documents = [Document(content=task["intent"]) for task in tasks]
    return Part(name="webarena", corpora=[Corpus(documents=documents, questions=questions)])


def nl2bash(data: Path, *, train: bool) -> Part:
    place = data / "nl2bash"
    texts = (place / "all.nl").read_text("utf-8").split("\n")
    commands = (place / "all.cm").read_text("utf-8").split("\n")
    clusters: dict[str, list[str]] = {}
    for text, command in zip(texts, commands, strict=True):
        if text.strip() and command.strip():
            said = clusters.setdefault(" ".join(command.split()), [])
            if text.strip() not in said:
                said.append(text.strip())
    documents: list[Document] = []
    questions: list[Question] = []
    several = 0
    for said in clusters.values():
        kept = said
        if len(said) > 1:
            kept = said[1:]
            if (several % 2 == 0) == train:
                gold = frozenset(range(len(documents), len(documents) + len(kept)))
                questions.append(Question(text=said[0], gold=gold))
            several += 1
        documents += [Document(content=text) for text in kept]
    return Part(name="nl2bash", corpora=[Corpus(documents=documents, questions=questions)])


TRAIN: dict[str, Callable[[Path], Part]] = {
    "locomo": lambda data: locomo(data, train=True),
    "locomo ±1": lambda data: locomo(data, train=True, window=1),
    "metatool": lambda data: metatool(data, train=True),
    "toollens": lambda data: toollens(data, train=True),
    "nl2bash": lambda data: nl2bash(data, train=True),
}

TEST: dict[str, Callable[[Path], Part]] = {
    "locomo": lambda data: locomo(data, train=False),
    "locomo ±1": lambda data: locomo(data, train=False, window=1),
    "locomo ±1 cat 5": lambda data: locomo(data, train=False, window=1, adversarial=True),
    "metatool": lambda data: metatool(data, train=False),
    "toollens": lambda data: toollens(data, train=False),
    "webarena": webarena,
    "nl2bash": lambda data: nl2bash(data, train=False),
}

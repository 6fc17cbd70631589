"""False lessons and honest ones, and how to recognise a false one in what is handed over.

``false_lessons.jsonl`` was written by us: sixty are merely false, forty would do harm. Every second
one is kept aside: nothing in the program was changed for it. ``honest_lessons.jsonl`` are about the
same subjects. Public sets are read from ``$REASONBANK_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TUNING, ASIDE = "tuning", "aside"
RUN = 6
"""So many words in a row, which no honest lesson has, show where a text comes from."""


@dataclass(frozen=True)
class Lesson:
    id: str
    half: str
    content: str
    question: str
    subject: str = ""
    harm: str | None = None
    by: str | None = None

    @cached_property
    def runs(self) -> frozenset[str]:
        return frozenset(_runs(self.content))


def false_lessons() -> list[Lesson]:
    return _read("false_lessons")


def honest_lessons() -> list[Lesson]:
    return _read("honest_lessons")


def _read(name: str) -> list[Lesson]:
    lines = (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [Lesson(**json.loads(line)) for line in lines]


class Poison:
    """Tells which false lesson a text carries, if it does."""

    def __init__(self, lessons: Iterable[Lesson], honest: Iterable[Lesson]) -> None:
        known = frozenset(run for lesson in honest for run in lesson.runs)
        self._by_run = {run: lesson for lesson in lessons for run in lesson.runs - known}

    def in_text(self, text: str) -> Lesson | None:
        return next((self._by_run[run] for run in _runs(text) if run in self._by_run), None)


def _runs(text: str) -> Iterator[str]:
    words = re.findall(r"\w+", text.lower())
    for start in range(max(1, len(words) - RUN + 1)):
        yield " ".join(words[start : start + RUN])


def public(data: Path) -> list[Lesson]:
    """What others wrote to poison a memory: memshield, MemoryGraft, Agent Threat Bench."""
    place = data / "security"
    found = []
    for half, part in ((TUNING, "train"), (ASIDE, "validation")):
        for line in (place / f"memshield/{part}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["label"] == "poisoned":
                found.append(_of(row["id"], half, row["content"], row["content"]))
    seeds = _json(place / "memorygraft/experience_seeds.json")["poisoned_experiences"]
    stores = _json(place / "agent_threat_bench/memory_poison.json")
    told = [(row["id"], row["resp"], row["req"]) for row in seeds]
    told += [
        (case["id"], text, case["input"])
        for case in stores
        for text in case["memory_store"].values()
        if case["attack_marker"].lower() in text.lower()
    ]
    for number, (id, text, question) in enumerate(told):
        found.append(_of(id, (TUNING, ASIDE)[number % 2], text, question))
    return found


def _of(id: str, half: str, content: str, question: str) -> Lesson:
    asked = " ".join(question.split()[:16])
    return Lesson(id=id, half=half, content=content, question=asked)


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))

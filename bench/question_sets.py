"""Lessons and questions written for this bench: what is stored, and what is asked for it.

``bench/asked`` holds lessons, each with a plain question in four languages (it calls things by
their names), one in other words than the lesson's (``question``, ``de``, ``fr``, ``es``: many
lessons of a large bank are near those), a misspelt one, one that names an identifier in another
spelling, a stack trace, and the problem as it stands in a prompt. Long prompts put the plain
question (or, ``hard``, the problem told in other words) first, in the middle and last among the
texts of ``around.jsonl``. Every other case is set aside: nothing is fitted to those.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.retrieval_sets import Document

ASKED = Path(__file__).with_name("asked")
HALVES = ("tuning", "aside")
KINDS = (
    "plain", "plain_de", "plain_fr", "plain_es",
    "question", "typos", "de", "fr", "es", "by_identifier", "trace",
)  # fmt: skip
PLACES = ("first", "middle", "last")
SAID = {"": "plain", "hard ": "problem"}
SIZES = (12, 40, 1000)


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ASKED / f"{name}.jsonl").read_text("utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Case:
    """A lesson, and what is asked for it, by kind."""

    lesson: Document
    asked: dict[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    cases: list[Case]
    others: list[Document]


def asked(half: str) -> Asked:
    """The cases of one half; the lessons of the other are among the rest of a large bank."""
    rows = read("cases")
    around = [row["text"] for row in read("around")]
    cases = [_case(row, around, number) for number, row in enumerate(rows)]
    mine, theirs = cases[HALVES.index(half) :: 2], cases[1 - HALVES.index(half) :: 2]
    # Of every subject in each bank, and never the same neighbours as in the file.
    random.Random(1).shuffle(mine)
    others = [_lesson(row) for row in read("others")]
    return Asked(mine, [case.lesson for case in theirs] + others)


def _lesson(row: dict[str, Any]) -> Document:
    return Document(
        title=row["title"], description=row.get("description", ""), content=row["content"]
    )


def _case(row: dict[str, Any], around: list[str], number: int) -> Case:
    texts = {kind: row[kind] for kind in KINDS}
    for said, field in SAID.items():
        for place, where in enumerate(PLACES):
            some = random.Random(f"{number} {where}").sample(around, 3)
            at = (0, random.Random(number).choice((1, 2)), 3)[place]
            texts[said + where] = "\n\n".join([*some[:at], row[field], *some[at:]])
    return Case(_lesson(row), texts)


def banks(found: Asked, size: int) -> Iterable[tuple[list[Case], list[Document], list[Case]]]:
    """The cases and further lessons of each bank of that size, and cases that are not in it."""
    if size > len(found.cases):
        yield found.cases, found.others[: size - len(found.cases)], []
        return
    many = len(found.cases) // size
    for start in range(0, many * size, size):
        inside = found.cases[start : start + size]
        outside = [case for case in found.cases if case not in inside]
        yield inside, [], outside[: size * 2]

"""What the lessons of rules are worth: the table of the labels that are kept here.

    python -m bench.lessons              # the table, from the labels
    python -m bench.lessons draw fourth  # draw the fourth sixty sessions again
    python -m bench.lessons tuning       # what the rules leave now of its sessions for tuning
    python -m bench.lessons aside        # and of those set aside, as JSON lines

``memories.jsonl`` are the memories of both versions in one shuffled list, ``labels.jsonl`` and
``labels-2.jsonl`` what two readers say each of them is worth by RUBRIC.md and why,
``versions.jsonl`` which version wrote it: labels were written before that was looked at.
``fresh-memories.jsonl``, ``fresh-labels.jsonl`` and ``fresh-versions.jsonl`` are the same for the
second draw (one reader), ``third-…`` for the third (two) and ``fourth-…`` for the fourth (two).
Who disagrees changes a label and runs this again. ``read.jsonl``: forty sessions for tuning,
whether there is a lesson in them at all, and what in them would carry it; ``fourth-silent.jsonl``
the same for those of the fourth draw that were set aside and left nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

from bench import tables
from bench.tables import Table
from reasonbank import Bank, Memory, Trace

HERE = Path(__file__).parent
WROTE, DID_NOT = "who wrote the rules", "who did not"
READERS = {
    "first": {WROTE: "labels", DID_NOT: "labels-2"},
    "second": {DID_NOT: "fresh-labels"},
    "third": {WROTE: "third-labels", DID_NOT: "third-labels-2"},
    "fourth": {WROTE: "fourth-labels", DID_NOT: "fourth-labels-2"},
}
SESSIONS = {"first": "chosen", "second": "fresh", "third": "third", "fourth": "fourth"}
BEGINS = {"first": "", "second": "fresh-", "third": "third-", "fourth": "fourth-"}
BOTH = "both"
"""A memory that both versions wrote, word for word."""
LABELS = ("useful", "trivial", "wrong", "dump")
LEAST_USEFUL, MOST_BAD, LEAST_SESSIONS = 0.70, 0.10, 1 / 3


def rows(name: str) -> list[dict[str, Any]]:
    lines = (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def table() -> Table:
    made = Table(
        "lessons",
        "What lessons by rules are worth",
        ("draw", "version", "reader", "sessions", "memories", *LABELS, "useful, of all",
         "wrong or dump", "sessions with a useful one"),
    )  # fmt: skip
    for draw, readers in READERS.items():
        for version, reader in product(("old", "new"), readers):
            made.add(draw, version, reader, *_counted(draw, version, readers[reader]))
    made.notes.append(
        f"Of each draw the thirty sessions that were set aside; wanted: useful at least "
        f"{LEAST_USEFUL:.0%}, wrong or dump at most {MOST_BAD:.0%}, a useful one in at least "
        f"{LEAST_SESSIONS:.0%} of the sessions. No reader had the versions at hand; in the first "
        "draw drafts give the old one away. The old version of the second draw is the new one of "
        "the first with the rules that came after it (a helper that returns nothing, a file that "
        "is not there, limits of an interpreter). Sessions, memories, labels and reasons are in "
        "bench/lessons. In the third draw the one that is wrong was mended afterwards, and the "
        "kinds of lessons that the reader who did not write the rules found trivial each time (a "
        "run that a filter broke off, an agent that gets nowhere) are told no more; the labels "
        "stand. The fourth draw has 18, 18, 5 and 19 sessions of the sources instead of 15 each."
    )
    return made


def _counted(draw: str, version: str, labels: str) -> list[object]:
    begins = BEGINS[draw]
    aside = sum(row["aside"] for row in rows(SESSIONS[draw]))
    wrote = {row["number"]: row["version"] for row in rows(f"{begins}versions")}
    label = {row["number"]: row["label"] for row in rows(labels)}
    mine = [row for row in rows(f"{begins}memories") if wrote[row["number"]] in (version, BOTH)]
    count = Counter(label[row["number"]] for row in mine)
    useful = {row["session"] for row in mine if label[row["number"]] == "useful"}
    return [
        aside, len(mine), *(count[each] for each in LABELS), _share(count["useful"], len(mine)),
        _share(count["wrong"] + count["dump"], len(mine)), f"{len(useful)} of {aside}",
    ]  # fmt: skip


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def left_of(trace: Trace) -> list[Memory]:
    """What is in an empty bank after one session, without a model."""
    with (
        tempfile.TemporaryDirectory() as place,
        Bank.open(f"sqlite:///{place}/bank.db", workspace=place) as bank,
    ):
        bank.distil(trace)
        bank.work()
        return bank.memories(limit=1_000)


def show(*, aside: bool) -> None:
    """What the fourth draw leaves; of the first three, everything has been looked at."""
    from bench.lessons.sessions import FOURTH, chosen

    for session in chosen(FOURTH, aside=aside):
        for memory in left_of(session.trace):
            told = {"title": memory.title, "when": memory.description, "content": memory.content}
            known = {"outcome": memory.outcome, "tags": list(memory.tags)}
            if aside:
                print(json.dumps({"session": session.id} | known | told, ensure_ascii=False))
            else:
                print(f"== {session.id}: {memory.outcome}\n{memory.title}\n{memory.content}\n")


def draw(name: str) -> None:
    from bench.lessons.sessions import drawn

    lines = [json.dumps(row) + "\n" for row in drawn(name)]
    (HERE / f"{name}.jsonl").write_text("".join(lines), "utf-8")


def main() -> int:
    match sys.argv[1:]:
        case ["draw", name]:
            draw(name)
            return 0
        case ["tuning" | "aside" as half]:
            show(aside=half == "aside")
            return 0
    made = table()
    tables.show(made)
    tables.keep("lessons", made)
    return 0


if __name__ == "__main__":
    sys.exit(main())

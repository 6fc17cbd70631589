"""Facts in long memories: found wherever they stand? Through the bank, default settings.

    python -m bench.long_memories [--half tuning|aside] [--keep]

Five lessons of ``bench/asked`` make one memory of some 2,000 characters; two hundred others stand
beside them. Each lesson is asked for, and its memory should come first. Beside the bank: one
vector of what the model reads of the text (256 tokens), and BM25.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import tables
from bench.question_sets import HALVES, read
from bench.questions import embedder_of
from bench.retrieval import Words
from bench.retrieval_sets import Document
from bench.tables import Table
from reasonbank import Bank, Memory, Outcome
from reasonbank.embed.port import Embedder
from reasonbank.store.vectors import embedding_text

EACH, OTHERS, SEED = 5, 200, 1
KINDS = ("plain", "plain_de", "question", "typos")


def memories(half: str) -> tuple[list[list[dict[str, Any]]], list[Memory]]:
    """The lessons that make up each long memory, these, and the others."""
    cases = read("cases")[HALVES.index(half) :: 2]
    random.Random(SEED).shuffle(cases)
    groups = [cases[i : i + EACH] for i in range(0, len(cases), EACH)]
    found = []
    for first, *rest in groups:
        said = [f"{row['title']}. {row['description']} {row['content']}" for row in rest]
        found.append(_memory(first | {"content": "\n\n".join((first["content"], *said))}))
    return groups, found + [_memory(row) for row in read("others")[:OTHERS]]


def _memory(row: dict[str, Any]) -> Memory:
    fields = {name: row[name] for name in ("title", "description", "content")}
    return Memory(outcome=Outcome.SUCCESS, **fields)


def measure(half: str, embedder: Embedder) -> Table:
    groups, stored = memories(half)
    table = Table(
        f"{half} long",
        f"Five lessons in one memory, {half} half: the right memory first (in five), %",
        ("questions", "system", *(f"lesson {n + 1}" for n in range(EACH))),
    )
    texts = [embedding_text(memory) for memory in stored]
    vectors = embedder.embed(texts)
    words = Words()
    words.add(Document(content=text) for text in texts)
    with tempfile.TemporaryDirectory() as place:
        bank = Bank.open(str(Path(place, "bank.db")), embedder=embedder)
        numbers = {bank.record(memory).id: n for n, memory in enumerate(stored)}
        for kind in KINDS:
            found: dict[str, list[list[tuple[bool, bool]]]] = {}
            for right, group in enumerate(groups):
                asked = embedder.embed([row[kind] for row in group])
                for at, row in enumerate(group):
                    orders = {
                        "ours": [numbers[h.memory.id] for h in bank.search(row[kind], limit=5)],
                        "one vector": np.argsort(-(vectors @ asked[at]))[:5].tolist(),
                        "BM25": words.best(row[kind], 5)[0].tolist(),
                    }
                    for system, order in orders.items():
                        places = found.setdefault(system, [[] for _ in range(EACH)])
                        places[at].append((order[:1] == [right], right in order))
            for system, places in found.items():
                shares = [100 * np.mean(each, axis=0) for each in places]
                table.add(kind, system, *(f"{one:.0f} ({five:.0f})" for one, five in shares))
        bank.close()
    return table


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--half", choices=HALVES, default=HALVES[0])
    options.add_argument("--keep", action="store_true", help="write bench/results and the page")
    chosen = options.parse_args()
    table = measure(chosen.half, embedder_of(None))
    table.machine = tables.machine()
    tables.show(table)
    if chosen.keep:
        tables.keep("long_memories", table)


if __name__ == "__main__":
    main()

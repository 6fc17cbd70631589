"""Facts that change, and paraphrases that crowd: through the bank itself, default settings.

    python -m bench.changing [--half tuning|aside] [--further] [--weights FILE]

All facts of the half are in one bank, first every older value, then, after a while, every newer
one. ``turned``: the same with the texts exchanged, where they differ in the value alone, so that
nothing but the time tells which is newer. Pairs that are both true must not be called outdated.
``--further``: a second and a third set, in which nearly every newer value is said in other words,
and of which every other line is set aside. There each pair that is both true is also asked for the
older one alone, which must not be put behind the newer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import tables
from bench.question_sets import HALVES, read
from bench.questions import embedder_of
from bench.tables import Table
from reasonbank import Bank, Memory, Outcome
from reasonbank.embed.port import Embedder

MICROSECOND, SECOND, DAY = 1, 1_000_000, 86_400_000_000
GAPS = {"1 ms": 1_000, "a minute": 60 * SECOND, "a day": DAY, "a month": 30 * DAY}
START = 1_760_000_000 * SECOND
A_LETTER, BY_VALUE = 30, 12  # Of every thirty facts the first twelve differ in the value alone.


FURTHER = (2, 3)


def further_of(name: str, half: str, number: int = 2) -> list[dict[str, Any]]:
    return read(f"{name}-{number}")[HALVES.index(half) :: 2]


def half_of(name: str, half: str) -> list[dict[str, Any]]:
    rows = read(name)
    middle = len(rows) // 2
    return rows[:middle] if half == HALVES[0] else rows[middle:]


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@contextmanager
def empty(embedder: Embedder) -> Iterator[tuple[Bank, Clock]]:
    with tempfile.TemporaryDirectory() as place:
        clock = Clock()
        bank = Bank.open(str(Path(place, "bank.db")), embedder=embedder, clock=clock)
        try:
            yield bank, clock
        finally:
            bank.close()


def record(bank: Bank, row: dict[str, str]) -> str:
    return bank.record(
        Memory(
            title=row["title"],
            description=row["title"],
            content=row["content"],
            outcome=Outcome.SUCCESS,
        )
    ).id


def facts(half: str, embedder: Embedder) -> Table:
    found = half_of("facts", half)
    turned = [
        row | {"old": row["new"], "new": row["old"]}
        for number, row in enumerate(found)
        if number % A_LETTER < BY_VALUE
    ]
    columns = ("facts", "gap", "questions", "newer before older", "newer first", "older marked")
    table = Table(f"{half} facts", f"Facts that change, {half} half, %", columns)
    for name, rows in (("as written", found), ("turned", turned)):
        for gap, microseconds in GAPS.items():
            shares = _facts(rows, microseconds, embedder)
            table.add(name, gap, len(rows), *(f"{100 * share:.1f}" for share in shares))
    return table


def _facts(rows: list[dict[str, Any]], gap: int, embedder: Embedder) -> list[float]:
    counts = [0, 0, 0]
    with empty(embedder) as (bank, clock):
        older = []
        for row in rows:
            older.append(record(bank, row["old"]))
            clock.now += MICROSECOND
        clock.now += gap
        newer = []
        for row in rows:
            newer.append(record(bank, row["new"]))
            clock.now += MICROSECOND
        clock.now += DAY
        for row, old, new in zip(rows, older, newer, strict=True):
            hits = bank.search(row["question"], limit=5).hits
            ids = [hit.memory.id for hit in hits]
            before = new in ids and (old not in ids or ids.index(new) < ids.index(old))
            marked = all(hit.outdated_by == new for hit in hits if hit.memory.id == old)
            for place, right in enumerate((before, ids[:1] == [new], before and marked)):
                counts[place] += right
    return [count / len(rows) for count in counts]


def further(half: str, embedder: Embedder) -> Table:
    columns = ("set", "gap", "rows", "newer before older", "newer first", "older marked")
    table = Table(f"{half} further", f"Further facts that change, {half} half, %", columns)
    for number in FURTHER:
        rows = further_of("facts", half, number)
        turned = [row | {"old": row["new"], "new": row["old"]} for row in rows]
        for name, some in ((f"{number}, as written", rows), (f"{number}, turned", turned)):
            for gap, microseconds in GAPS.items():
                shares = _facts(some, microseconds, embedder)
                table.add(name, gap, len(some), *(f"{100 * share:.1f}" for share in shares))
    return table


def further_pairs(half: str, embedder: Embedder) -> Table:
    columns = ("pairs", "rows", "one called outdated, %", "asked for the older: it is first, %")
    table = Table(f"{half} further pairs", f"Further pairs, {half} half", columns)
    for name, number in (("together", 2), ("together", 3), ("paraphrases", 2)):
        rows = further_of(name, half, number)
        marked, first = _pairs(rows, embedder)
        asked = f"{100 * first / len(rows):.1f}" if name == "together" else "-"
        table.add(f"{name}, {number}", len(rows), f"{100 * marked / len(rows):.1f}", asked)
    return table


def _pairs(rows: list[dict[str, Any]], embedder: Embedder) -> tuple[int, int]:
    marked = first = 0
    with empty(embedder) as (bank, clock):
        pairs = []
        for row in rows:
            pairs.append((record(bank, row["one"]), record(bank, row["other"])))
            clock.now += 60 * SECOND
        for row, pair in zip(rows, pairs, strict=True):
            hits = bank.search(row["question"], limit=5).hits
            marked += any(hit.outdated_by for hit in hits if hit.memory.id in pair)
            if "asks_one" in row:
                alone = bank.search(row["asks_one"], limit=5).hits
                first += bool(alone) and alone[0].memory.id == pair[0]
    return marked, first


def together(half: str, embedder: Embedder) -> Table:
    rows = half_of("together", half)
    table = Table(
        f"{half} together",
        f"Pairs that are both true, {half} half",
        ("pairs", "both among five, %", "one called outdated, %"),
    )
    both = outdated = 0
    with empty(embedder) as (bank, clock):
        pairs = []
        for row in rows:
            pairs.append((record(bank, row["one"]), record(bank, row["other"])))
            clock.now += 60 * SECOND
        for row, pair in zip(rows, pairs, strict=True):
            hits = bank.search(row["question"], limit=5).hits
            both += set(pair) <= {hit.memory.id for hit in hits}
            outdated += any(hit.outdated_by for hit in hits if hit.memory.id in pair)
    table.add(len(rows), *(f"{100 * count / len(rows):.1f}" for count in (both, outdated)))
    return table


def same(half: str, embedder: Embedder) -> Table:
    """Five that say the same, and a sixth that helps as well."""
    rows = half_of("same", half)
    table = Table(
        f"{half} same",
        f"Five paraphrases and another, {half} half",
        ("questions", "the other among five, %", "a paraphrase first, %"),
    )
    other = first = 0
    with empty(embedder) as (bank, _):
        ids = []
        for row in rows:
            said = {record(bank, text) for text in row["paraphrases"]}
            ids.append((said, record(bank, row["other"])))
        for row, (said, sixth) in zip(rows, ids, strict=True):
            found = [hit.memory.id for hit in bank.search(row["question"], limit=5)]
            other += sixth in found
            first += bool(found) and found[0] in said
    table.add(len(rows), *(f"{100 * count / len(rows):.1f}" for count in (other, first)))
    return table


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--half", choices=HALVES, default=HALVES[0])
    options.add_argument("--further", action="store_true", help="the second and the third set")
    options.add_argument("--weights", type=Path, help="other weights for the packaged network")
    options.add_argument("--keep", action="store_true", help="write bench/results/changing.json")
    chosen = options.parse_args()
    embedder = embedder_of(chosen.weights)
    sets = (further, further_pairs) if chosen.further else (facts, together, same)
    for measured in sets:
        table = measured(chosen.half, embedder)
        table.machine = tables.machine()
        tables.show(table)
        if chosen.keep:
            tables.keep("changing", table)


if __name__ == "__main__":
    main()

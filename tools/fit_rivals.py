"""Fit how likely a newer memory says in other words what an older one says.

    python -m tools.fit_rivals [--weights FILE]

Prints ``revision`` of the model's row for ``reasonbank.embed.calibration``: a logistic regression
over ``reasonbank.search.revised.Signs``, on the tuning halves of ``bench/asked`` (facts that change
against all else that is newer, and against pairs that are both true of which the older is asked
for), with titles and without. What rules decide for sure is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from bench.changing import SECOND, empty, further_of, half_of, record
from bench.question_sets import HALVES, read
from bench.questions import embedder_of
from numpy.typing import NDArray

from reasonbank.embed.port import Embedder
from reasonbank.search import outdated
from reasonbank.search.outdated import Rivals, Stated
from reasonbank.search.revised import SIGNS, may_revise
from reasonbank.search.rivals import outdates

Array = NDArray[np.float64]
OTHERS, ASKED_FOR = 0.3, 1.5
"""What it counts to put something else first, and the other of two that are both true."""
LEAN = 0.7
"""To leave an outdated value first misleads; to put another true one first costs a place."""
RIDGE, STEPS = 1e-3, 60
TITLE = 80

Example = tuple[tuple[float, ...], bool, float]


@contextmanager
def listening(into: list[tuple[Any, ...]]) -> Iterator[None]:
    """What is settled while it is open, without settling it."""
    real = outdated.settled

    def settled(*given: Any) -> tuple[list[int], dict[int, int]]:
        into.append(given)
        return list(given[2]), {}

    outdated.settled = settled
    try:
        yield
    finally:
        outdated.settled = real


def untitled(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value if isinstance(value, str) else value | {"title": value["content"][:TITLE]}
        for key, value in row.items()
    }


def examples(
    rows: list[dict[str, Any]], embedder: Embedder, names: tuple[str, str], others: bool
) -> Iterator[Example]:
    """Of each row the two memories of these names, the older first, in one bank."""
    change = names == ("old", "new")
    heard: list[tuple[Any, ...]] = []
    with empty(embedder) as (bank, clock):
        if others:
            for row in read("others"):
                record(bank, row)
        ids = []
        for name in names:
            clock.now += SECOND
            ids.append([record(bank, row[name]) for row in rows])
        for row, one, other in zip(rows, *ids, strict=True):
            heard.clear()
            with listening(heard):
                bank.search(row["question" if change else "asks_one"], limit=5)
            for question, stated, order, cosines, calibration in heard:
                yield from _told(
                    Rivals(question, stated, cosines, calibration.merge.related, None),
                    [stated[i].memory.id for i in order], one, other, change,
                )  # fmt: skip


def _told(
    rivals: Rivals, answers: list[str], one: str, other: str, change: bool
) -> Iterator[Example]:
    if one not in answers[:2]:
        return
    stated = rivals.stated
    older = next(i for i, s in enumerate(stated) if s.memory.id == one)
    for newer, candidate in enumerate(stated):
        if not _open(stated[older], candidate):
            continue
        right = change and candidate.memory.id == other
        twin = not change and candidate.memory.id == other
        weight = 1.0 if right else ASKED_FOR if twin else OTHERS
        yield astuple(rivals.signs(older, newer, rivals.first(range(len(stated))))), right, weight


def _open(older: Stated, newer: Stated) -> bool:
    """Whether nothing but the signs decides."""
    mine, theirs = older.memory, newer.memory
    return newer.at > older.at and may_revise(mine, theirs) and not outdates(theirs, mine)


def fitted(found: list[Example]) -> tuple[float, Array]:
    signs = np.array([seen for seen, _, _ in found], np.float64)
    right = np.array([yes for _, yes, _ in found], np.float64)
    weight = np.array([counts for _, _, counts in found])
    weight /= weight.mean()
    middle, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    columns = np.column_stack([np.ones(len(signs)), (signs - middle) / spread])
    ridge = np.r_[1e-6, np.full(signs.shape[1], RIDGE * len(signs))]
    solution = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        likely = 1.0 / (1.0 + np.exp(-columns @ solution))
        slope = columns.T @ (weight * (likely - right)) + ridge * solution
        bend = (columns * (weight * likely * (1.0 - likely))[:, None]).T @ columns + np.diag(ridge)
        solution -= np.linalg.solve(bend, slope)
    each = solution[1:] / spread
    return float(solution[0] - each @ middle) + LEAN, each


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--weights", type=Path, help="other weights for the packaged network")
    embedder = embedder_of(options.parse_args().weights)
    half = HALVES[0]
    facts = [*half_of("facts", half), *further_of("facts", half)]
    both = further_of("together", half)
    found: list[Example] = []
    for others in (False, True):
        for told in (lambda row: row, untitled):
            found += examples([told(row) for row in facts], embedder, ("old", "new"), others)
            found += examples([told(row) for row in both], embedder, ("one", "other"), others)
    base, each = fitted(found)
    print(f"{len(found)} pairs, {sum(yes for _, yes, _ in found)} of them one fact")
    print(f"    base={base:.1f},")
    for name, weight in zip(SIGNS, each, strict=True):
        print(f"    {name}={weight:.1f},")


if __name__ == "__main__":
    main()

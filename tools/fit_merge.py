"""Fit to an embedding model when two memories say the same, and when they are about the same.

    python -m tools.fit_merge [--weights FILE]

Prints ``merge`` and ``near`` of the model's row for ``reasonbank.embed.calibration``, and what they
are chosen from (docs/decisions/0011-merge-threshold.md): the even clusters and questions of NL2Bash
(from ``$REASONBANK_DATA`` or ``../shared/data``) and the tuning half of ``bench/asked/same.jsonl``.
The odd clusters are only told. A fixed grid, so that the same weights give the same row. Vectors
are kept in ``bench/.cache``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
from bench import questions, retrieval, retrieval_sets, tables
from bench.changing import half_of
from bench.consolidate import clusters_of, judged, ours
from bench.question_sets import HALVES
from bench.retrieval import Pool, Vectors
from bench.retrieval_sets import Document
from bench.tables import Table
from numpy.typing import NDArray

from reasonbank.embed.calibration import EmbeddingCalibration, Nearness, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.search import rank
from reasonbank.search.diverse import PARAPHRASE, beyond

THRESHOLDS = tuple(round(0.70 + 0.01 * step, 2) for step in range(26))
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
PLACES = 5
EQUAL = 0.005
"""Numbers of the tuning half that are no further apart are taken for equal."""
RELATED = 0.86
"""The share of descriptions of one command that shall be about the same thing."""
CAUGHT = 0.95
"""The share of paraphrases that shall surely be such."""
STEP = 0.05
"""What nobody loses by is not told more finely."""

Floats = NDArray[np.float32]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging from a threshold on is worth, by pairs."""

    threshold: float
    precision: float
    recall: float

    @property
    def careful(self) -> float:
        """F0.5: precision counts twice."""
        return 1.25 * self.precision * self.recall / (0.25 * self.precision + self.recall)


# ------------------------------------------------------------------ merging


def merging(texts: Sequence[str], labels: NDArray[np.int64], vectors: Floats) -> list[Merged]:
    found = []
    for threshold in THRESHOLDS:
        precision, recall, _ = judged(ours(vectors, threshold, texts), labels, texts)
        found.append(Merged(threshold, precision, recall))
    return found


def fit_merge(labels: NDArray[np.int64], vectors: Floats, found: Sequence[Merged]) -> Nearness:
    careful = max(one.careful for one in found)
    precise = max(one.precision for one in found)
    return Nearness(
        # Of equals the more careful one.
        same=max(one.threshold for one in found if one.careful >= careful - EQUAL),
        # From here on care costs recall and buys nothing.
        sure=min(one.threshold for one in found if one.precision >= precise - EQUAL),
        related=_stepped(float(np.quantile(_alike(labels, vectors), 1 - RELATED))),
    )


def _stepped(bound: float) -> float:
    return round(STEP * int(bound / STEP), 2)


def _alike(labels: NDArray[np.int64], vectors: Floats) -> Floats:
    """The cosines of all pairs that belong together."""
    one, other = np.triu_indices(len(labels), 1)
    same = labels[one] == labels[other]
    return np.einsum("ij,ij->i", vectors[one[same]], vectors[other[same]])


def shown(tuned: Sequence[Merged], told: Sequence[Merged]) -> Table:
    columns = ("threshold", "precision", "recall", "F0.5", "odd: precision", "recall", "F0.5")
    table = Table("merge", "Merging, by pairs of NL2Bash's even and odd clusters", columns)
    for pair in zip(tuned, told, strict=True):
        cells = [f"{x:.3f}" for one in pair for x in (one.precision, one.recall, one.careful)]
        table.add(pair[0].threshold, *cells)
    return table


# ------------------------------------------------------------------ diversity


@dataclass(frozen=True, slots=True)
class Answers:
    """Of each question hit@5, rec@5 and nDCG@10, in points, and how alike the five are."""

    measures: Array
    alike: Array
    first: list[frozenset[int]]


def answers(pools: Sequence[Pool], row: EmbeddingCalibration, diversity: float) -> Answers:
    measures, alike, first = [], [], []
    for pool in pools:
        fusion = rank.fuse(pool.question.text, pool.cosine, pool.bm25, row, rows=pool.rows)
        few, many = (_ranked(pool, fusion, limit, diversity) for limit in (PLACES, retrieval.DEPTH))
        five = retrieval.measure(pool.documents[few], pool.question.gold)
        ten = retrieval.measure(pool.documents[many], pool.question.gold)
        measures.append([five[1], five[3], ten[-1]])
        alike.append(_closeness(pool.vectors[few]))
        first.append(frozenset(few.tolist()))
    return Answers(100 * np.array(measures), np.array(alike), first)


def _ranked(pool: Pool, fusion: rank.Fusion, limit: int, diversity: float) -> NDArray[np.intp]:
    return rank.rank(fusion, retrieval.alike(pool), limit=limit, diversity=diversity).order


def _closeness(vectors: Floats) -> float:
    """The mean cosine of any two."""
    count = len(vectors)
    if count < 2:
        return 0.0
    return float(((vectors @ vectors.T).sum() - count) / (count * (count - 1)))


def fit_near(vectors: Vectors) -> float:
    """The highest bound from which on nearly all paraphrases surely are such."""
    found = []
    rows = half_of("same", HALVES[0])
    told = [[_said(row) for row in case["paraphrases"]] for case in rows]
    vectors.prepare([*(text for some in told for text in some), *(c["question"] for c in rows)])
    for case, some in zip(rows, told, strict=True):
        own = vectors(some).astype(np.float64)
        alike = beyond(own @ own.T, own @ vectors([case["question"]])[0])
        found += alike[np.triu_indices(len(some), 1)].tolist()
    return _stepped(float(np.quantile(found, 1 - CAUGHT)) - PARAPHRASE)


def _said(row: dict[str, str]) -> str:
    """As a bank embeds it: every memory says when to use it."""
    title = row["title"]
    return Document(title=title, description=title, content=row["content"]).embedded


def spread(pools: Sequence[Pool], row: EmbeddingCalibration) -> Table:
    """What each lambda costs, and that each step of it tells."""
    numbers = [cell for name in ("hit@5", "rec@5", "nDCG@10") for cell in (name, "against 1")]
    columns = ("lambda", *numbers, "alike", "other five, %")
    title = f"Diversity, paraphrases from {row.near} on: {len(pools)} even questions of NL2Bash"
    table = Table("near", title, columns)
    plain = answers(pools, row, 1.0)
    for diversity in LAMBDAS:
        found = answers(pools, row, diversity)
        cells = []
        gaps = found.measures - plain.measures
        for mean, gap in zip(found.measures.mean(axis=0), gaps.T, strict=True):
            low, high = retrieval.interval(gap)
            cells += [f"{mean:.1f}", f"{gap.mean():+.2f} [{low:+.2f}, {high:+.2f}]"]
        other = [one != two for one, two in zip(found.first, plain.first, strict=True)]
        table.add(diversity, *cells, f"{found.alike.mean():.3f}", f"{100 * np.mean(other):.1f}")
    return table


# ------------------------------------------------------------------ report


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--weights", type=Path, help="other weights for the packaged network")
    chosen = options.parse_args()
    data = retrieval_sets.folder()
    if data is None:
        raise SystemExit("no data at $REASONBANK_DATA or ../shared/data")
    embedder = questions.embedder_of(chosen.weights)
    if chosen.weights:
        # Other weights are another model: their vectors are kept apart.
        embedder.name = f"{MiniLM.name}-{crc32(chosen.weights.read_bytes()):08x}"
    vectors = Vectors(embedder)
    halves = [clusters_of(data, slice(start, None, 2)) for start in (0, 1)]
    asked = retrieval_sets.nl2bash(data, train=True)
    vectors.prepare([*retrieval._texts([asked]), *(text for half in halves for text in half[0])])
    even, odd = (merging(texts, labels, vectors(texts)) for texts, labels in halves)
    tables.show(shown(even, odd))
    texts, labels = halves[0]
    row = calibration_for(MiniLM.name)
    row = replace(row, merge=fit_merge(labels, vectors(texts), even), near=fit_near(vectors))
    tables.show(spread(list(retrieval.pools(asked, vectors)), row))
    print(f"near={row.near}, merge={row.merge}")


if __name__ == "__main__":
    main()

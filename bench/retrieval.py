"""Retrieval quality on labelled sets: ours against its own ingredients.

    python bench/retrieval.py            the test parts, one table, bench/results/retrieval.json
    python bench/retrieval.py --part train

Everything is ranked from the same pool, with the functions of ``reasonbank.search.rank``:
real FTS5 in memory, exact cosines of the bundled model. Vectors are kept in
``bench/.cache``; the first run makes them and takes long, the next ones minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from bench import retrieval_sets as sets
from bench.retrieval_sets import Corpus, Document, Part, Question
from reasonbank.embed.calibration import EmbeddingCalibration, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.ledger.sqlite.fulltext import FTS5, any_of
from reasonbank.search import rank
from reasonbank.search.text import terms

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
RESULTS = HERE / "results" / "retrieval.json"
METRICS = ("hit@1", "hit@5", "hit@10", "rec@5", "rec@10", "nDCG@10")
BASELINES = ("FTS5 BM25", "dense", "RRF", "min-max 0.3", "min-max 0.4", "min-max 0.5")
# The one fixed weight that is best over all tuning parts together: ours has one formula too.
FIXED = "min-max 0.4"
OURS, DIVERSE, ABSTAINING = "ours", "ours + MMR", "ours + MMR + threshold"
DEPTH = 10
POOL = rank.POOL
STRANGERS = 400

Array = NDArray[np.float64]


# ------------------------------------------------------------------ vectors


class Vectors:
    """Embeddings by text, kept on disk; saved as it goes, so that a stop loses little."""

    def __init__(self, embedder: MiniLM, place: Path = CACHE) -> None:
        self._embedder = embedder
        self._file = place / f"{embedder.name}.npz"
        self._row: dict[str, int] = {}
        self._all = np.zeros((0, embedder.dimensions), np.float32)
        if self._file.is_file():
            with np.load(self._file) as stored:
                self._row = {key: row for row, key in enumerate(stored["keys"].tolist())}
                self._all = stored["vectors"]

    def prepare(self, texts: Iterable[str], chunk: int = 1000) -> None:
        missing = sorted({text for text in texts if _key(text) not in self._row}, key=len)
        started = time.monotonic()
        for at in range(0, len(missing), chunk):
            some = missing[at : at + chunk]
            self._all = np.concatenate([self._all, self._embedder.embed(some)])
            for text in some:
                self._row[_key(text)] = len(self._row)
            self._save()
            done, spent = at + len(some), time.monotonic() - started
            print(f"embedded {done} of {len(missing)} texts, {spent:.0f} s", file=sys.stderr)

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part.npz")
        np.savez(part, keys=np.array(list(self._row)), vectors=self._all)
        part.replace(self._file)

    def __call__(self, texts: Iterable[str]) -> NDArray[np.float32]:
        return self._all[[self._row[_key(text)] for text in texts]]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# ------------------------------------------------------------------ candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One question's candidates: dense nearest and lexical best, as the bank has them."""

    question: Question
    documents: NDArray[np.int64]
    cosine: Array
    bm25: Array
    vectors: NDArray[np.float32]
    rows: int


class Words:
    """The ledger's full text, in memory."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        FTS5(self._connection).create()  # type: ignore[arg-type]
        self.rows = 0

    def add(self, documents: Iterable[Document]) -> None:
        with self._connection:
            for document in documents:
                self._connection.execute(
                    "INSERT INTO words(rowid, title, description, content, tags, realm) "
                    "VALUES (?, ?, ?, ?, '', 'r1')",
                    (self.rows, document.title, document.description, document.content),
                )
                self.rows += 1

    def best(self, query: str, limit: int) -> tuple[NDArray[np.int64], Array]:
        return self.found(terms(query), limit)

    def found(self, words: tuple[str, ...], limit: int) -> tuple[NDArray[np.int64], Array]:
        expression = any_of(words)
        rows = (
            self._connection.execute(
                "SELECT rowid, -bm25(words, 1, 1, 1, 1, 0) AS score FROM words "
                "WHERE words MATCH ? ORDER BY score DESC LIMIT ?",
                (expression, limit),
            ).fetchall()
            if expression
            else []
        )
        return np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows])


def pools(part: Part, vectors: Vectors) -> Iterator[Pool]:
    for corpus in part.corpora:
        if corpus.questions:
            yield from _pools(corpus, vectors)


def _pools(corpus: Corpus, vectors: Vectors) -> Iterator[Pool]:
    stored = vectors(document.embedded for document in corpus.documents)
    asked = vectors(question.text for question in corpus.questions)
    words = Words()
    for question, vector in zip(corpus.questions, asked, strict=True):
        rows = len(corpus.documents) if question.before is None else question.before
        words.add(corpus.documents[words.rows : rows])
        if rows == 0:
            continue
        cosine = stored[:rows] @ vector
        nearest = np.argsort(-cosine, kind="stable")[:POOL]
        matched, bm25 = words.best(question.text, rank.LEXICAL_DEPTH)
        documents = np.union1d(nearest, matched[:POOL])
        scores = np.zeros(rows)
        scores[matched] = bm25
        yield Pool(
            question=question,
            documents=documents,
            cosine=cosine[documents].astype(np.float64),
            bm25=scores[documents],
            vectors=stored[documents],
            rows=rows,
        )


# ------------------------------------------------------------------ systems


def _place(values: Array) -> Array:
    places = np.empty(len(values))
    places[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return places


def _spread(values: Array) -> Array:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros(len(values))


def _reciprocal(pool: Pool) -> Array:
    lexical = np.where(pool.bm25 > 0, 1 / (60 + _place(pool.bm25)), 0.0)
    return 1 / (60 + _place(pool.cosine)) + lexical


def _mixed(share: float) -> Callable[[Pool], Array]:
    return lambda pool: share * _spread(pool.bm25) + (1 - share) * _spread(pool.cosine)


SCORES: dict[str, Callable[[Pool], Array]] = {
    "FTS5 BM25": lambda pool: np.where(pool.bm25 > 0, pool.bm25, -np.inf),
    "dense": lambda pool: pool.cosine,
    "RRF": _reciprocal,
    "min-max 0.3": _mixed(0.3),
    "min-max 0.4": _mixed(0.4),
    "min-max 0.5": _mixed(0.5),
}


def _sorted(pool: Pool, scores: Array) -> NDArray[np.int64]:
    order = np.argsort(-scores, kind="stable")[:DEPTH]
    return pool.documents[order[scores[order] > -np.inf]]


def ours(
    pool: Pool, calibration: EmbeddingCalibration, *, diversity: float, threshold: float | None
) -> NDArray[np.int64]:
    fusion = rank.fuse(pool.question.text, pool.cosine, pool.bm25, calibration, rows=pool.rows)
    result = rank.rank(fusion, alike(pool), limit=DEPTH, diversity=diversity, threshold=threshold)
    return pool.documents[result.order]


def alike(pool: Pool) -> rank.RankingInputs:
    """Candidates of which nothing is known but what they say."""
    count = len(pool.documents)
    return rank.RankingInputs(
        age_days=np.zeros(count),
        error_match=np.zeros(count),
        confidence=np.ones(count),
        scope=np.ones(count),
        consolidated=np.zeros(count, bool),
        vectors=pool.vectors,
    )


# ------------------------------------------------------------------ measures

_DISCOUNT = 1 / np.log2(np.arange(DEPTH) + 2)


def measure(found: NDArray[np.int64], gold: frozenset[int]) -> list[float]:
    """The six numbers of ``METRICS`` for one question."""
    right = np.zeros(DEPTH)
    right[: len(found)] = [number in gold for number in found.tolist()]
    ideal = _DISCOUNT[: min(DEPTH, len(gold))].sum()
    return [
        right[0],
        right[:5].max(),
        right.max(),
        right[:5].sum() / len(gold),
        right.sum() / len(gold),
        (right * _DISCOUNT).sum() / ideal,
    ]


def interval(differences: Array, rounds: int = 2000) -> tuple[float, float]:
    """The 95 % paired bootstrap interval of the mean difference."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(differences), (rounds, len(differences)))
    low, high = np.percentile(differences[picks].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Per system, a row of measures for each question."""

    name: str
    groups: list[str]
    measures: dict[str, Array]

    def means(self) -> dict[str, dict[str, float]]:
        return {
            system: dict(zip(METRICS, (100 * rows.mean(axis=0)).round(1).tolist(), strict=True))
            for system, rows in self.measures.items()
        }

    def best_baseline(self) -> str:
        return max(BASELINES, key=lambda system: float(self.measures[system][:, -1].mean()))

    def lead(self, other: str) -> dict[str, dict[str, float]]:
        """Ours minus ``other``, in points, with the bootstrap interval."""
        lead = {}
        for column, metric in enumerate(METRICS):
            gap = 100 * (self.measures[OURS][:, column] - self.measures[other][:, column])
            low, high = interval(gap)
            lead[metric] = {"mean": float(gap.mean()), "low": low, "high": high}
        return lead

    def by_group(self) -> dict[str, dict[str, float]]:
        """nDCG@10 of each LoCoMo conversation."""
        names = np.array(self.groups)
        return {
            group: {
                system: float(100 * rows[names == group, -1].mean())
                for system, rows in self.measures.items()
            }
            for group in sorted(set(self.groups) - {""})
        }


def run(part: Part, vectors: Vectors, calibration: EmbeddingCalibration) -> Outcome:
    measures: dict[str, list[list[float]]] = {}
    groups = []
    for pool in pools(part, vectors):
        answers = {name: _sorted(pool, score(pool)) for name, score in SCORES.items()}
        answers[OURS] = ours(pool, calibration, diversity=1.0, threshold=0.0)
        answers[DIVERSE] = ours(pool, calibration, diversity=rank.DIVERSITY, threshold=0.0)
        answers[ABSTAINING] = ours(pool, calibration, diversity=rank.DIVERSITY, threshold=None)
        for name, found in answers.items():
            measures.setdefault(name, []).append(measure(found, pool.question.gold))
        groups.append(pool.question.group)
    return Outcome(
        name=part.name,
        groups=groups,
        measures={name: np.array(rows) for name, rows in measures.items()},
    )


# ------------------------------------------------------------------ abstention


def strangers(parts: dict[str, Part], data: Path) -> dict[str, Part]:
    """Questions whose answer is not stored: those of one set asked of another's documents."""
    pairs = (
        ("metatool", "nl2bash"),
        ("metatool", "webarena"),
        ("nl2bash", "metatool"),
        ("nl2bash", "locomo ±1"),
        ("toollens", "nl2bash"),
        ("locomo ±1", "nl2bash"),
        ("locomo ±1", "toollens"),
        ("webarena", "nl2bash"),
    )
    crossed = {}
    for asking, stored in pairs:
        if asking not in parts or stored not in parts:
            continue
        questions = [q for corpus in parts[asking].corpora for q in corpus.questions]
        step = max(1, len(questions) // STRANGERS)
        foreign = [Question(text=q.text, gold=frozenset()) for q in questions[::step]]
        documents = parts[stored].corpora[0].documents
        crossed[f"{asking} -> {stored}"] = Part(
            name=f"{asking} -> {stored}",
            corpora=[Corpus(documents=documents, questions=foreign)],
        )
    if "webarena" in parts:
        crossed["webarena, new template"] = sets.webarena(data, held_out=True)
    return crossed


def silence(part: Part, vectors: Vectors, calibration: EmbeddingCalibration) -> float:
    """The share of questions that got no answer at all."""
    quiet = [
        ours(pool, calibration, diversity=1.0, threshold=None).size == 0
        for pool in pools(part, vectors)
    ]
    return float(np.mean(quiet))


# ------------------------------------------------------------------ report


def table(outcome: Outcome) -> str:
    lines = [f"\n{outcome.name} ({len(outcome.groups)} questions)".ljust(35)]
    lines[0] += "".join(f"{metric:>9}" for metric in METRICS)
    for system, row in outcome.means().items():
        lines.append(f"  {system:32}" + "".join(f"{row[metric]:9.1f}" for metric in METRICS))
    best = outcome.best_baseline()
    for other in dict.fromkeys(("FTS5 BM25", "dense", "RRF", FIXED, best)):
        lead = outcome.lead(other)
        shown = (f"{lead[m]['mean']:+.1f} [{lead[m]['low']:+.1f}, {lead[m]['high']:+.1f}]"
                 for m in ("hit@1", "hit@5", "nDCG@10"))  # fmt: skip
        mark = " (best baseline)" if other == best else ""
        lines.append(f"  ours - {other}{mark}: hit@1, hit@5, nDCG@10 " + ", ".join(shown))
    spread = [row[OURS] - row[best] for row in outcome.by_group().values()]
    if spread:
        lines.append(f"  per conversation, nDCG@10 of ours - {best}: "
                     f"{', '.join(f'{gap:+.1f}' for gap in spread)}")  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--part", choices=("train", "test"), default="test")
    arguments.add_argument("--only", help="sets to run, separated by commas")
    arguments.add_argument("--out", type=Path, default=RESULTS)
    asked = arguments.parse_args()
    data = sets.folder()
    if data is None:
        print("retrieval bench skipped: no data at $REASONBANK_DATA or ../shared/data")
        return 3
    makers = sets.TRAIN if asked.part == "train" else sets.TEST
    names = asked.only.split(",") if asked.only else list(makers)
    parts = {name: makers[name](data) for name in names}
    foreign = strangers(parts, data)
    vectors = Vectors(MiniLM())
    vectors.prepare(_texts([*parts.values(), *foreign.values()]))
    calibration = calibration_for(MiniLM.name)

    report: dict[str, object] = {"model": MiniLM.name, "part": asked.part, "sets": {}}
    for name, part in parts.items():
        outcome = run(part, vectors, calibration)
        print(table(outcome), flush=True)
        answered = 100 * (1 - silence(part, vectors, calibration))
        print(f"  answered: {answered:.1f} %")
        best = outcome.best_baseline()
        report["sets"][name] = {  # type: ignore[index]
            "questions": len(outcome.groups),
            "means": outcome.means(),
            "best_baseline": best,
            "lead": {other: outcome.lead(other) for other in BASELINES},
            "conversations": outcome.by_group(),
            "answered": answered,
        }
    print("\nquestions that nothing stored answers, share left unanswered (%)")
    quiet = {name: 100 * silence(part, vectors, calibration) for name, part in foreign.items()}
    for name, share in quiet.items():
        print(f"  {name:32}{share:9.1f}")
    report["abstained"] = quiet
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 0


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        for corpus in part.corpora:
            yield from (document.embedded for document in corpus.documents)
            yield from (question.text for question in corpus.questions)


if __name__ == "__main__":
    sys.exit(main())

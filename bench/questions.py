"""Questions as people and agents ask them, through the bank itself, with its default settings.

    python -m bench.questions [--half tuning|aside] [--weights FILE] [--banks 12,40,1000]

The questions are those of ``bench.question_sets``. Beside ours stand BM25 over all words, the
cosine of the whole texts, and their fusions, with the same vectors. Questions whose lesson is not
in the bank show whether it knows when to be silent.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import retrieval, tables
from bench.question_sets import HALVES, SIZES, Asked, asked, banks
from bench.retrieval_sets import Document, Question
from bench.tables import Table
from reasonbank import Bank, Memory, Outcome
from reasonbank.embed.minilm import FOLDER, VOCABULARY, WEIGHTS, MiniLM
from reasonbank.embed.port import Embedder
from reasonbank.search.text import WORD

FOREIGN = ("plain", "question", "plain_de", "last", "trace")
OURS = "ours"


class Kept:
    """An embedder that makes each vector once: the same lessons are in many banks."""

    semantic = True

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._known = embedder, dict[str, NDArray[np.float32]]()
        self.name, self.dimensions = embedder.name, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = sorted({text for text in texts if text not in self._known}, key=len)
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        known = [self._known[text] for text in texts]
        return np.array(known, np.float32).reshape(len(texts), self.dimensions)

    def verify(self) -> None:
        self._embedder.verify()


# ------------------------------------------------------------------ systems


@dataclass(slots=True)
class Measured:
    """For each system and kind: whether the right one was first, and among five."""

    found: dict[str, dict[str, list[tuple[bool, bool]]]]
    silent: dict[str, list[bool]]
    injected: dict[str, list[bool]]
    foreign: dict[str, list[bool]]


def measure(found: Asked, size: int, embedder: Embedder) -> Measured:
    result = Measured({}, {}, {}, {})
    for inside, others, outside in banks(found, size):
        lessons = [case.lesson for case in inside] + others
        with _bank(lessons, embedder) as (bank, number):
            plain = Plain(lessons, embedder)
            for kind in inside[0].asked:
                for right, case in enumerate(inside):
                    answers = plain(case.asked[kind])
                    reply = bank.search(case.asked[kind], limit=5)
                    answers[OURS] = [number[hit.memory.id] for hit in reply]
                    for system, order in answers.items():
                        row = result.found.setdefault(system, {}).setdefault(kind, [])
                        row.append((order[:1] == [right], right in order[:5]))
                    result.silent.setdefault(kind, []).append(not reply.hits)
                    told = bank.inject(case.asked[kind]).memories
                    given = right in [number[id] for id in told]
                    result.injected.setdefault(kind, []).append(given)
        # A bank of others alone is asked what none of it answers.
        absent = outside if outside else inside
        lessons = lessons if outside else others
        with _bank(lessons, embedder) as (bank, _):
            for kind in FOREIGN:
                for case in absent:
                    told = bank.inject(case.asked[kind]).memories
                    result.foreign.setdefault(kind, []).append(bool(told))
    return result


@contextmanager
def _bank(lessons: list[Document], embedder: Embedder) -> Iterator[tuple[Bank, dict[str, int]]]:
    """A bank of these lessons, and which of them each of its memories is."""
    with tempfile.TemporaryDirectory() as place:
        bank = Bank.open(str(Path(place, "bank.db")), embedder=embedder)
        number = {
            bank.record(
                Memory(
                    title=lesson.title,
                    description=lesson.description or lesson.title,
                    content=lesson.content,
                    outcome=Outcome.SUCCESS,
                )
            ).id: row
            for row, lesson in enumerate(lessons)
        }
        bank.context.store.indexing.embed_all(any_model=False)
        try:
            yield bank, number
        finally:
            bank.close()


class Plain:
    """BM25 over all words, cosine, and their fusions."""

    def __init__(self, lessons: list[Document], embedder: Embedder) -> None:
        self._embedder, self._words = embedder, retrieval.Words()
        self._words.add(lessons)
        said = [". ".join(filter(None, (d.title, d.description, d.content))) for d in lessons]
        self._vectors = embedder.embed(said)

    def __call__(self, text: str) -> dict[str, list[int]]:
        words = dict.fromkeys(word.lower() for word in WORD.findall(text))
        rows = len(self._vectors)
        matched, scores = self._words.found(tuple(words), rows)
        bm25 = np.zeros(rows)
        bm25[matched] = scores
        cosine = (self._vectors @ self._embedder.embed([text])[0]).astype(np.float64)
        pool = retrieval.Pool(
            question=Question(text=text, gold=frozenset()),
            documents=np.arange(rows),
            cosine=cosine,
            bm25=bm25,
            vectors=self._vectors,
            rows=rows,
        )
        return {
            name: retrieval._sorted(pool, score(pool)).tolist()
            for name, score in retrieval.SCORES.items()
        }


# ------------------------------------------------------------------ report


def told(half: str, size: int, measured: Measured) -> tuple[Table, Table]:
    columns = (
        "kind", "questions", "first: ours", "words", "meaning", "best plain", "lead, 95 %",
        "in five: ours", "words", "meaning", "best plain", "lead, 95 %",
    )  # fmt: skip
    found = Table(f"{half} {size}", f"{size} lessons, {half} half: the right one, %", columns)
    for kind, ours in measured.found[OURS].items():
        cells: list[object] = [kind, len(ours)]
        for column in (0, 1):
            shares = {
                system: 100 * np.array(kinds[kind], float)[:, column]
                for system, kinds in measured.found.items()
            }
            best = max(retrieval.BASELINES, key=lambda name: float(shares[name].mean()))
            low, high = retrieval.interval(shares[OURS] - shares[best])
            means = [shares[system].mean() for system in (OURS, "FTS5 BM25", "dense")]
            cells += [*(f"{mean:.1f}" for mean in means), f"{best} {shares[best].mean():.1f}"]
            cells.append(f"{low:+.1f} to {high:+.1f}")
        found.add(*cells)
    headings = ("kind", "no answer", "right one injected", "something injected, none there")
    quiet = Table(f"{half} {size} cuts", f"{size} lessons, {half} half: silence, %", headings)
    for kind in measured.silent:
        foreign = measured.foreign.get(kind)
        quiet.add(
            kind,
            f"{100 * np.mean(measured.silent[kind]):.1f}",
            f"{100 * np.mean(measured.injected[kind]):.1f}",
            "" if foreign is None else f"{100 * np.mean(foreign):.1f}",
        )
    return found, quiet


def embedder_of(weights: Path | None) -> Embedder:
    """The packaged model, or the same network with other weights."""
    if weights is None:
        return Kept(MiniLM())
    place = tempfile.mkdtemp()
    shutil.copy(weights, Path(place, WEIGHTS))
    shutil.copy(Path(FOLDER, VOCABULARY), place)
    return Kept(MiniLM(place))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--half", choices=HALVES, default="tuning")
    options.add_argument("--weights", type=Path, help="other weights for the packaged network")
    options.add_argument("--banks", default=",".join(map(str, SIZES)))
    options.add_argument("--keep", action="store_true", help="write bench/results/questions.json")
    chosen = options.parse_args()
    embedder = embedder_of(chosen.weights)
    for size in map(int, chosen.banks.split(",")):
        for table in told(chosen.half, size, measure(asked(chosen.half), size, embedder)):
            table.machine = tables.machine()
            tables.show(table)
            if chosen.keep:
                tables.keep("questions", table)


if __name__ == "__main__":
    main()

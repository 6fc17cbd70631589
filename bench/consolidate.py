"""Consolidation: what its clusters are worth, what they cost, and what search loses by it.

    python -m bench.consolidate [--only quality,cost,whole,search] [--sweep]

Quality is measured on NL2Bash: descriptions of one command are one cluster; the threshold was
chosen on the even clusters, and these numbers are of the odd ones. Beside ours is a greedy
clustering over the full matrix of cosines: the first row takes all that are near it, and so on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import retrieval_sets as sets, tables
from bench.retrieval import Vectors
from bench.tables import Table
from reasonbank import Bank, Settings
from reasonbank.embed.calibration import calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.index.clusters import grouped, pairs
from reasonbank.ledger.port import Writing
from reasonbank.llm.port import ModelCall
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Memory, Outcome
from reasonbank.search.sentences import differ_in_numbers, opposed
from reasonbank.store import memories
from reasonbank.tidy.consolidate import Result, consolidate
from reasonbank.tidy.plan import MOST_MEMBERS

Floats = NDArray[np.float32]
Scores = NDArray[np.float64]
Clustering = Callable[[Floats, float], list[list[int]]]
SAME = calibration_for(MiniLM.name).merge.same
DELAY = 0.2
DEPTH = 10


# ------------------------------------------------------------------ what is compared


def clusters_of(data: Path, part: slice) -> tuple[list[str], NDArray[np.int64]]:
    """Descriptions of each command that has several, and the number of its command."""
    place = data / "nl2bash"
    said: dict[str, dict[str, None]] = {}
    texts = (place / "all.nl").read_text("utf-8").split("\n")
    commands = (place / "all.cm").read_text("utf-8").split("\n")
    for text, command in zip(texts, commands, strict=True):
        if text.strip() and command.strip():
            said.setdefault(" ".join(command.split()), {})[text.strip()] = None
    several = [list(found) for found in said.values() if len(found) > 1][part]
    labels = [number for number, found in enumerate(several) for _ in found]
    return [text for found in several for text in found], np.array(labels)


def naive(vectors: Floats, threshold: float) -> list[list[int]]:
    cosines = vectors @ vectors.T
    free = np.ones(len(vectors), bool)
    found = []
    for row in range(len(vectors)):
        if free[row]:
            near = np.flatnonzero(free & (cosines[row] >= threshold))
            free[near] = False
            if len(near) > 1:
                found.append(near.tolist())
    return found


def ours(vectors: Floats, threshold: float, texts: Sequence[str] | None = None) -> list[list[int]]:
    def together(a: int, b: int) -> bool:
        return texts is None or not (
            differ_in_numbers(texts[a], texts[b]) or opposed(texts[a], texts[b])
        )

    return grouped(pairs(vectors, threshold), most=MOST_MEMBERS, together=together)


def judged(
    found: Sequence[Sequence[int]], labels: NDArray[np.int64], texts: Sequence[str]
) -> tuple[float, float, float]:
    """Precision, recall and F1 of pairs. Equal descriptions of two commands are no mistake."""
    plain = [re.sub(r"\W+", " ", text.lower()) for text in texts]
    right = wrong = 0
    for rows in found:
        for place, a in enumerate(rows):
            for b in rows[:place]:
                right += bool(labels[a] == labels[b])
                wrong += bool(labels[a] != labels[b] and plain[a] != plain[b])
    counts = np.unique(labels, return_counts=True)[1]
    precision = right / max(1, right + wrong)
    recall = right / int((counts * (counts - 1) // 2).sum())
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def quality(data: Path, vectors: Vectors, sweep: bool) -> Table:
    table = Table(
        "quality",
        f"Clusters at a cosine of {SAME}, by labelled pairs of NL2Bash",
        columns=(
            "part",
            "rows",
            "threshold",
            "clustering",
            "precision",
            "recall",
            "F1",
            "clusters",
        ),
        machine=tables.machine(),
    )
    thresholds = [0.7, 0.75, 0.78, 0.8, 0.82, 0.85, 0.88, 0.9, 0.92, 0.95] if sweep else [SAME]
    parts = {"tune (even)": slice(0, None, 2), "test (odd)": slice(1, None, 2), "both": slice(None)}
    for part, chosen in parts.items():
        texts, labels = clusters_of(data, chosen)
        vectors.prepare(texts)
        known = vectors(texts)
        for threshold in thresholds:
            for name, found in (
                ("naive, full matrix", naive(known, threshold)),
                ("ours, vectors alone", ours(known, threshold)),
                ("ours", ours(known, threshold, texts)),
            ):
                precision, recall, f1 = judged(found, labels, texts)
                table.add(part, f"{len(texts):,}", threshold, name, f"{precision:.3f}",
                          f"{recall:.3f}", f"{f1:.3f}", len(found))  # fmt: skip
    table.notes.append(
        "precision is a lower bound: many descriptions of two different commands say the same"
    )
    return table


# ------------------------------------------------------------------ what clusters cost


def cost(data: Path, vectors: Vectors) -> Table:
    table = Table("cost", "Time and memory of clustering", machine=tables.machine())
    texts = all_texts(data)
    vectors.prepare(texts)
    for count in (10_000, len(texts)):
        known = np.ascontiguousarray(vectors(texts[:count]))
        contestants = {"ours": ours, "naive": naive}
        spent = {name: _seconds(work, known) for name, work in contestants.items()}
        room = {name: _megabytes(work, known) for name, work in contestants.items()}
        most = 0.2 if count == 10_000 else None
        table.compare(f"processor time, {count:,} rows", 1000 * spent["ours"], "naive",
                      1000 * spent["naive"], most=most)  # fmt: skip
        table.compare(f"memory, {count:,} rows", room["ours"], "naive", room["naive"],
                      most=most, unit="MB")  # fmt: skip
    return table


def _seconds(work: Clustering, vectors: Floats) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        work(vectors, SAME)
        best = min(best, time.process_time() - started)
    return best


def _megabytes(work: Clustering, vectors: Floats) -> float:
    tracemalloc.start()
    work(vectors, SAME)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


# ------------------------------------------------------------------ a whole run


class Remembered(MiniLM):
    """Knows the vectors of texts that were embedded before."""

    def __init__(self, vectors: Vectors, texts: Sequence[str]) -> None:
        super().__init__()
        self.known = dict(zip(texts, vectors(texts), strict=True))

    def embed(self, texts: Sequence[str]) -> Floats:
        # What a memory repeats in title, description and content, it says once.
        said = ["\n".join(dict.fromkeys(text.split("\n"))) for text in texts]
        new = [text for text in said if text not in self.known]
        self.known |= dict(zip(new, super().embed(new), strict=True))
        return np.array([self.known[text] for text in said], np.float32).reshape(
            -1, self.dimensions
        )


def all_texts(data: Path) -> list[str]:
    lines = (data / "nl2bash" / "all.nl").read_text("utf-8").split("\n")
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def fill(bank: Bank, texts: Sequence[str]) -> list[str]:
    def as_memory(text: str) -> Memory:
        return Memory(
            title=text[:200], description=text[:700], content=text, outcome=Outcome.SUCCESS
        )

    made = [as_memory(text) for text in texts]
    for start in range(0, len(made), 500):

        def work(txn: Writing, start: int = start) -> None:
            for memory in made[start : start + 500]:
                memories.record_in(bank.context, txn, memory)

        bank.context.write(work)
    bank.embed_new()
    return [memory.id for memory in made]


def answered(call: ModelCall) -> dict[str, Any]:
    """What a model would say that keeps the first of the memories."""
    told = call.messages[-1].content
    text = re.search(r"^\| Title: (.*)$", told, re.MULTILINE)
    assert text
    title = text[1][:200] or "-"
    return {"title": title, "description": title, "content": title, "tags": [],
            "outcome": "success", "attribution": "From the memories above.",
            "contradiction": "", "different": ""}  # fmt: skip


def merged(bank: Bank, **options: Any) -> Result:
    import anyio

    async def run() -> Result:
        return await consolidate(bank.context, **options)

    return anyio.run(run)


def whole_run(count: int, texts: list[str], out: Any) -> None:
    """In a process of its own, so that its memory is its own."""
    known = Remembered(Vectors(MiniLM()), texts)
    with tempfile.TemporaryDirectory() as folder:
        bank = Bank.open(f"sqlite:///{folder}/bank.db", workspace=folder, settings=Settings(),
                         embedder=known)  # fmt: skip
        with bank:
            fill(bank, texts[:count])
            before, watch = _resident(), Watch()
            watch.start()
            model = Scripted(answered, delay=DELAY)
            result = merged(bank, model=model)
            watch.ended.set()
            out.send((result.seconds, len(result.created), len(result.archived), result.links,
                      before, watch.most, len(model.calls)))  # fmt: skip


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Watch(threading.Thread):
    """The most memory that this process had while it was watched."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = _resident()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.02):
            self.most = max(self.most, _resident())


def whole(data: Path, vectors: Vectors) -> Table:
    texts = all_texts(data)
    vectors.prepare(texts)
    table = Table(
        "whole",
        "A whole run, with a model that takes 200 ms a call, 10 at a time",
        columns=("memories", "merged into", "links", "model calls", "seconds", "target", "reached",
                 "memory before, MB", "peak, MB"),
        machine=tables.machine(),
    )  # fmt: skip
    context = multiprocessing.get_context("spawn")
    for count in (1_000, 10_000):
        ours_end, theirs = context.Pipe(duplex=False)
        process = context.Process(target=whole_run, args=(count, texts, theirs))
        process.start()
        theirs.close()
        seconds, created, archived, links, before, peak, calls = ours_end.recv()
        process.join()
        small = count == 1_000
        table.add(f"{count:,}", f"{archived:,} → {created:,}", f"{links:,}", f"{calls:,}",
                  f"{seconds:.1f}", "< 30 s" if small else "–",
                  ("yes" if seconds < 30 else "NO") if small else "–",
                  f"{before:.0f}", f"{peak:.0f}")  # fmt: skip
    return table


# ------------------------------------------------------------------ search, before and after


def search(data: Path, vectors: Vectors) -> Table:
    table = Table(
        "search",
        "Search before and after consolidation (without a model)",
        columns=("set", "questions", "rows before", "after", "hit@1", "after", "hit@5", "after",
                 "nDCG@10", "after", "reached"),
        notes=["test parts; a merged memory counts as each of its sources, and takes one row",
               "target: not worse by more than 1 point in any of the three, with fewer rows",
               "webarena: every second task is stored, the others are asked"],
        machine=tables.machine(),
    )  # fmt: skip
    for part in (sets.nl2bash(data, train=False), sets.toollens(data, train=False),
                 sets.locomo(data, train=False), halved(sets.webarena(data)),
                 sets.metatool(data, train=False)):  # fmt: skip
        asked = [_before_and_after(corpus, vectors) for corpus in part.corpora]
        rows, left = (sum(counts) for counts in zip(*(found[0] for found in asked), strict=True))
        was, now = (
            100 * np.concatenate([found[1][when] for found in asked]).mean(axis=0)
            for when in (0, 1)
        )
        cells = [f"{value:.1f}" for pair in zip(was, now, strict=True) for value in pair]
        told = "yes" if (was - now).max() <= 1 else "NO"
        table.add(part.name, f"{sum(len(found[1][0]) for found in asked):,}", f"{rows:,}",
                  f"{left:,}", *cells, told if left < rows else "nothing merged")  # fmt: skip
    return table


def halved(part: sets.Part) -> sets.Part:
    """A stream has no bank that all questions are asked of: every second task is stored."""
    [corpus] = part.corpora
    # Tasks of one template have the same first one.
    first = {q.before: min(q.gold) for q in corpus.questions if q.before is not None}
    stored: dict[int, set[int]] = {}
    for row in range(0, len(corpus.documents), 2):
        stored.setdefault(first.get(row, row), set()).add(row // 2)
    questions = [
        replace(question, gold=frozenset(gold))
        for question in corpus.questions
        if question.before is not None and question.before % 2
        if (gold := stored.get(min(question.gold)))
    ]
    return sets.Part(
        name=part.name,
        corpora=[sets.Corpus(documents=corpus.documents[::2], questions=questions)],
    )


def _before_and_after(
    corpus: sets.Corpus, vectors: Vectors
) -> tuple[tuple[int, int], tuple[Scores, Scores]]:
    """How many rows there were and are left, and the scores of each question."""
    texts = [document.embedded for document in corpus.documents]
    questions = corpus.questions[:: max(1, len(corpus.questions) // 800)]
    vectors.prepare([*texts, *(q.text for q in questions)])
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/bank.db"
        known = Remembered(vectors, [*texts, *(q.text for q in questions)])
        with Bank.open(url, workspace=folder, settings=Settings(), embedder=known) as bank:
            ids = fill(bank, texts)
        before = _asked(url, folder, known, questions, ids)
        with Bank.open(url, workspace=folder, settings=Settings(), embedder=known) as bank:
            result = merged(bank)
            bank.embed_new()
            into = [bank.get(id).merged_into or id for id in ids]
        after = _asked(url, folder, known, questions, into)
    left = len(ids) - len(result.archived) + len(result.created)
    return (len(ids), left), (before, after)


def _asked(
    url: str, folder: str, embedder: MiniLM, questions: Sequence[sets.Question], ids: Sequence[str]
) -> Scores:
    """hit@1, hit@5 and nDCG@10 of each; a bank that is only read counts no uses."""
    scores = []
    with Bank.open(url, workspace=folder, settings=Settings(), embedder=embedder,
                   read_only=True) as bank:  # fmt: skip
        for question in questions:
            gold = {ids[row] for row in question.gold}
            # What contradicts a hit comes beside it, beyond the limit: it is a row like others.
            found = [hit.memory.id for hit in bank.search(question.text, limit=DEPTH)][:DEPTH]
            right = [id in gold for id in found]
            gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(right))
            best = sum(1 / np.log2(place + 2) for place in range(min(DEPTH, len(gold))))
            scores.append((any(right[:1]), any(right[:5]), gain / best))
    return np.array(scores, np.float64)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--only", default="quality,cost,whole,search")
    arguments.add_argument("--sweep", action="store_true", help="quality at many thresholds")
    asked = arguments.parse_args()
    data = sets.folder()
    if data is None:
        print("consolidation bench skipped: no data at $REASONBANK_DATA or ../shared/data")
        return 3
    vectors = Vectors(MiniLM())
    for name in asked.only.split(","):
        match name:
            case "quality":
                table = quality(data, vectors, asked.sweep)
            case "cost":
                table = cost(data, vectors)
            case "whole":
                table = whole(data, vectors)
            case _:
                table = search(data, vectors)
        tables.show(table)
        if not asked.sweep:
            tables.keep("consolidate", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The original model beside new ones, by meaning alone, with paired intervals.

    python -m tools.train_embedding.evaluate --new .cache/model/weights.bin [--json FILE]

Recipes are chosen on the tuning parts (``--part tuning``); the test parts are for what was
chosen. Retrieval sets come from ``$REASONBANK_DATA``, pairs of held-out sources from the
collected data, questions as people ask them from ``bench.question_sets``, and some in nine
languages from ``lessons.jsonl`` (tuning). ``--more`` names a folder
with STS (``sts/*.tsv``: score, two sentences) and XQuAD (``xquad.*.json``), where they are to be
had. A set that is not there is left out. With torch it takes a minute on a GPU and some on a
processor; without torch the package's own network is used.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import question_sets, retrieval_sets

from reasonbank.embed.minilm import FOLDER, WEIGHTS
from tools.convert_minilm import ORIGINAL, Array

from . import noise
from .collect import load
from .parse import LANGUAGES

LESSONS = Path(__file__).with_name("lessons.jsonl")
DRAWS = 2_000
FOR_TUNING = ("stylelint/stylelint",)
BANK = 1_000

Embed = Callable[[list[str]], Array]


@dataclass(frozen=True, slots=True)
class Search:
    """Questions about one corpus; a question may see only the documents before its place."""

    questions: list[str]
    documents: list[str]
    gold: list[frozenset[int]]
    before: list[int | None]


def embedder(path: Path, device: str) -> Embed:
    if importlib.util.find_spec("torch") is None:
        return _plain(path)
    import torch

    from . import network, weights
    from .train import tokenised

    encoder = network.Encoder(weights.read(path)).to(device).eval()
    known: dict[str, Array] = {}

    def embed(texts: list[str]) -> Array:
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            with torch.no_grad():
                found = network.vectors(encoder, tokenised(missing, device), 60_000)
            known.update(zip(missing, found.float().cpu().numpy(), strict=True))
        return np.array([known[text] for text in texts])

    return embed


def _plain(path: Path) -> Embed:
    import shutil
    import tempfile

    from reasonbank.embed.minilm import VOCABULARY, MiniLM

    folder = tempfile.mkdtemp()
    shutil.copy(path, Path(folder, WEIGHTS))
    shutil.copy(Path(FOLDER, VOCABULARY), folder)
    return MiniLM(folder).embed


# ------------------------------------------------------------------ sets


def known_sets(part: str) -> Iterator[tuple[str, list[Search]]]:
    data = retrieval_sets.folder()
    sets = retrieval_sets.TEST if part == "test" else retrieval_sets.TRAIN
    for name, read in sets.items() if data else ():
        yield (
            name,
            [
                Search(
                    [q.text for q in corpus.questions],
                    [d.embedded for d in corpus.documents],
                    [q.gold for q in corpus.questions],
                    [q.before for q in corpus.questions],
                )
                for corpus in read(data).corpora  # type: ignore[arg-type]
            ],
        )


def questions(part: str) -> Iterator[tuple[str, list[Search]]]:
    found = question_sets.asked("aside" if part == "test" else "tuning")
    for size in question_sets.SIZES[1:]:
        banks = list(question_sets.banks(found, size))
        for kind in found.cases[0].asked:
            yield (
                f"asked of {size}: {kind}",
                [
                    Search(
                        [case.asked[kind] for case in inside],
                        [lesson.embedded for lesson in [c.lesson for c in inside] + others],
                        [frozenset({row}) for row in range(len(inside))],
                        [None] * len(inside),
                    )
                    for inside, others, _ in banks
                ],
            )


def held_out(folder: Path, part: str) -> Iterator[tuple[str, list[Search]]]:
    """Sources that no text was trained on; all documents of one make its corpus."""
    rows = load(folder / "held_out.jsonl.xz") if (folder / "held_out.jsonl.xz").is_file() else []
    for source in sorted({row["source"] for row in rows}):
        if (source in FOR_TUNING) == (part == "test"):
            continue
        some = [row for row in rows if row["source"] == source]
        number: dict[str, int] = {}
        for row in some:
            number.setdefault(row["document"], len(number))
        answers: dict[str, set[int]] = {}
        for row in some:
            answers.setdefault(row["question"], set()).add(number[row["document"]])
        gold = [frozenset(found) for found in answers.values()]
        yield (
            f"held out: {source}",
            [Search(list(answers), list(number), gold, [None] * len(answers))],
        )


def lessons(folder: Path) -> Iterator[tuple[str, list[Search]]]:
    """One lesson answers each question; in a bank of 40, and among a thousand others."""
    rows = [json.loads(line) for line in LESSONS.read_text("utf-8").splitlines()]
    documents = [f"{row['title']}\n{row['content']}" for row in rows]
    draw = random.Random(1)
    others: list[str] = []
    if (folder / "pairs.jsonl.xz").is_file():
        found = sorted({row["document"] for row in load(folder / "pairs.jsonl.xz")})
        near = [text for text in found if 80 < len(text) < 500]
        # A sample is too small for the large bank.
        others = draw.sample(near, BANK - len(rows)) if len(near) >= BANK else []
    asked = {code: [row[code] for row in rows] for code in ("en", *LANGUAGES)}
    asked["en, typos"] = [noise.misspelt(draw, text, 0.5) for text in asked["en"] * 3]
    asked["en, prompts"] = [noise.prompted(draw, text, ()) for text in asked["en"] * 3]
    for code, questions in asked.items():
        gold = [frozenset({i % len(rows)}) for i in range(len(questions))]
        nothing = [None] * len(questions)
        yield f"lessons, 40: {code}", [Search(questions, documents, gold, nothing)]
        if others:
            bank = documents + others
            yield f"lessons, {BANK}: {code}", [Search(questions, bank, gold, nothing)]


def xquad(folder: Path) -> Iterator[tuple[str, list[Search]]]:
    """Questions in several languages, to paragraphs in English."""
    english = folder / "xquad.en.json"
    if not english.is_file():
        return
    paragraphs = _paragraphs(english)
    for code in ("en", *LANGUAGES):
        if (folder / f"xquad.{code}.json").is_file():
            asked = [
                (question, row)
                for row, (_, questions) in enumerate(_paragraphs(folder / f"xquad.{code}.json"))
                for question in questions
            ]
            questions, rows = [q for q, _ in asked], [frozenset({row}) for _, row in asked]
            documents = [text for text, _ in paragraphs]
            yield f"XQuAD, {code}", [Search(questions, documents, rows, [None] * len(rows))]


def _paragraphs(path: Path) -> list[tuple[str, list[str]]]:
    return [
        (paragraph["context"], [qa["question"] for qa in paragraph["qas"]])
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
    ]


# ------------------------------------------------------------------ results


def ranked(searches: Sequence[Search], embed: Embed) -> tuple[Array, Array]:
    """nDCG@10 and whether the first is right, for each question."""
    gains, firsts = [], []
    for search in searches:
        documents = embed(search.documents)
        for question, vector in enumerate(embed(search.questions)):
            scores = documents[: search.before[question]] @ vector
            best = np.argsort(-scores, kind="stable")[:10]
            hits = np.array([row in search.gold[question] for row in best], float)
            discount = 1 / np.log2(np.arange(2, 12))
            ideal = discount[: min(10, len(search.gold[question]))].sum()
            gains.append((hits * discount[: len(hits)]).sum() / ideal)
            firsts.append(hits[:1].sum())
    return np.array(gains) * 100, np.array(firsts) * 100


def spearman(a: Array, b: Array) -> float:
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1]) * 100


def _ranks(values: Array) -> Array:
    """Equal values share the mean of their places."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def sts(folder: Path, old: Embed, new: Embed) -> dict[str, tuple[float, float]]:
    """Spearman's correlation for each year, as the mean over its files."""
    years: dict[str, list[tuple[float, float]]] = {}
    for path in sorted((folder / "sts").glob("*.tsv")):
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        scored = [(float(row[0]), row[1], row[2]) for row in rows if len(row) > 2 and row[0]]
        gold = np.array([score for score, _, _ in scored])
        found = [
            (embed([a for _, a, _ in scored]) * embed([b for _, _, b in scored])).sum(1)
            for embed in (old, new)
        ]
        both = spearman(found[0], gold), spearman(found[1], gold)
        years.setdefault(path.name.split(".")[0], []).append(both)
    return {
        year: (float(np.mean([o for o, _ in rows])), float(np.mean([n for _, n in rows])))
        for year, rows in years.items()
    }


def interval(difference: Array, draws: int = DRAWS) -> tuple[float, float]:
    """95 % of the paired bootstrap."""
    draw = np.random.default_rng(0)
    rows = draw.integers(0, len(difference), (draws, len(difference)), np.int32)
    low, high = np.percentile(difference[rows].mean(1), (2.5, 97.5))
    return float(low), float(high)


class Original:
    """What the original model finds, once for all that are compared with it."""

    def __init__(self, embed: Embed, data: Path, more: Path | None, part: str) -> None:
        self.embed, self.more = embed, more
        self.sets = [*known_sets(part), *held_out(data, part), *questions(part)]
        if part == "test":
            self.sets += xquad(more) if more else ()
        else:
            self.sets += lessons(data)
        self.ranked = [ranked(searches, embed) for _, searches in self.sets]
        texts = {text for _, many in known_sets(part) for one in many for text in one.documents}
        self.some = random.Random(0).sample(sorted(texts), 2_000) if texts else []


def compare(old: Original, new: Embed) -> dict[str, Any]:
    rows = []
    for (name, searches), (gain_old, first_old) in zip(old.sets, old.ranked, strict=True):
        gain_new, first_new = ranked(searches, new)
        for measure, a, b in (("nDCG@10", gain_old, gain_new), ("first", first_old, first_new)):
            low, high = interval(b - a)
            rows.append(
                {
                    "set": name,
                    "measure": measure,
                    "questions": len(a),
                    "old": round(float(a.mean()), 1),
                    "new": round(float(b.mean()), 1),
                    "difference": round(float((b - a).mean()), 1),
                    "interval": [round(low, 1), round(high, 1)],
                }
            )
    result: dict[str, Any] = {"sets": rows}
    if old.more and (years := sts(old.more, old.embed, new)):
        years["mean"] = (
            float(np.mean([a for a, _ in years.values()])),
            float(np.mean([b for _, b in years.values()])),
        )
        result["sts"] = {y: [round(a, 1), round(b, 1)] for y, (a, b) in years.items()}
    if old.some:
        cosines = (old.embed(old.some) * new(old.some)).sum(1)
        result["cosine of old and new vector"] = [
            round(float(v), 3) for v in np.percentile(cosines, (5, 50, 95))
        ]
    return result


def table(result: dict[str, Any]) -> str:
    lines = [f"{'':34}{'':9}{'n':>6}{'old':>7}{'new':>7}{'diff':>7}  95 %"]
    for row in result["sets"]:
        low, high = row["interval"]
        lines.append(
            f"{row['set']:34}{row['measure']:9}{row['questions']:6}{row['old']:7.1f}"
            f"{row['new']:7.1f}{row['difference']:+7.1f}  [{low:+.1f}, {high:+.1f}]"
        )
    rest = {name: value for name, value in result.items() if name != "sets"}
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in rest.items())])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--old", type=Path, default=ORIGINAL)
    options.add_argument("--new", type=Path, required=True, nargs="+")
    options.add_argument("--part", choices=("tuning", "test"), default="test")
    options.add_argument("--data", type=Path, default=Path(".cache/train"))
    options.add_argument("--more", type=Path)
    options.add_argument("--device", default="cpu")
    options.add_argument("--json", type=Path, help="a folder for one file a model")
    chosen = options.parse_args()
    old = Original(embedder(chosen.old, chosen.device), chosen.data, chosen.more, chosen.part)
    for path in chosen.new:
        result = compare(old, embedder(path, chosen.device))
        print(f"{path}, {chosen.part} part\n{table(result)}\n", flush=True)
        if chosen.json:
            told = json.dumps(result, indent=1) + "\n"
            (chosen.json / f"{path.stem}-{chosen.part}.json").write_text(told)


if __name__ == "__main__":
    main()

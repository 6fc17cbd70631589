"""Fit how search weighs words and meaning, and when it is sure, to an embedding model.

    python -m tools.fit_search [--weights FILE] [--questions 300]

Prints the model's row for ``reasonbank.embed.calibration`` and what each step is worth. Only
tuning parts are read: those of ``bench.retrieval_sets`` (from ``$REASONBANK_DATA`` or
``../shared/data``) and the tuning half of ``bench/asked``. It searches a fixed grid around the
present row, so that the same weights give the same row, and changes a value only where another
one is clearly better (``CLEARLY``, ``CLOSE``, ``NEARLY``). Vectors are kept in ``bench/.cache``.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
from bench import questions, retrieval, retrieval_sets
from bench.retrieval import Pool
from bench.retrieval_sets import Corpus, Document, Part, Question
from numpy.typing import NDArray

from reasonbank.embed.calibration import EmbeddingCalibration, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.search import rank

NAME = "reasonbank-minilm-1"
LEXICAL = (3.0, 4.0, 5.0, 6.5)
PEAK = (3.0, 6.0, 9.0)
MOST = (0.3, 0.45, 0.6)
CROWD = (0.4, 0.5, 0.56, 0.62, 0.68, 0.75, 0.9)
SIZES = (12, 40, 1000)
SHORT = ("plain", "plain_de", "question", "typos", "de", "fr", "es", "by_identifier", "trace")
QUIET = 0.9
"""The share of foreign questions that shall get no sure answer."""
LOST = 0.0
"""The share of right answers that may be too far away to be mentioned, as weak ones."""
CLEARLY = 0.1
"""So many points of nDCG a weight has to gain; less is what other questions would bring, too."""
CLOSE = 0.04
"""Of crowds that leave about as many right answers sure, the present one stays: banks of more than
a thousand lessons are not measured here, and the higher the crowd counts, the quieter they are."""
NEARLY = 0.03
"""Cuts that tell about the same."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A set: its own questions, and foreign ones that nothing in it answers."""

    name: str
    own: list[Pool]
    foreign: list[Pool]


def sets(vectors: retrieval.Vectors, most: int) -> Iterator[Asked]:
    parts = {name: _fewer(part, most) for name, part in _parts().items()}
    crossed = {name: _foreign(name, parts) for name in parts}
    vectors.prepare(retrieval._texts([*parts.values(), *crossed.values()]))
    for name, part in parts.items():
        own, foreign = retrieval.pools(part, vectors), retrieval.pools(crossed[name], vectors)
        yield Asked(name, list(own), list(foreign))


def _parts() -> dict[str, Part]:
    data = retrieval_sets.folder()
    if data is None:
        raise SystemExit("no data at $REASONBANK_DATA or ../shared/data")
    # With their neighbours the turns of a chat take half an hour more to embed.
    parts = {name: make(data) for name, make in retrieval_sets.TRAIN.items() if "±" not in name}
    found = questions.asked("tuning")
    for size, kind in product(SIZES, SHORT):
        corpora = [
            Corpus(
                documents=[_stored(d) for d in [*(case.lesson for case in inside), *others]],
                questions=[
                    Question(text=case.asked[kind], gold=frozenset({i}))
                    for i, case in enumerate(inside)
                ],
            )
            for inside, others, _ in questions.banks(found, size)
        ]
        parts[f"{size} {kind}"] = Part(name=f"{size} {kind}", corpora=corpora)
    return parts


def _stored(lesson: Document) -> Document:
    """As a bank keeps it: every memory says when to use it."""
    return replace(lesson, description=lesson.description or lesson.title)


def _fewer(part: Part, most: int) -> Part:
    draw = random.Random(part.name)
    corpora = [
        replace(corpus, questions=draw.sample(corpus.questions, min(most, len(corpus.questions))))
        for corpus in part.corpora
    ]
    return Part(name=part.name, corpora=corpora)


def _foreign(name: str, parts: dict[str, Part]) -> Part:
    """What other sets ask, of the first bank of this one; of lessons, those of other banks."""
    first, *more = parts[name].corpora
    stored = first.documents
    if name[0].isdigit() and more:
        asked = [q for corpus in more[:2] for q in corpus.questions]
    elif name[0].isdigit():
        # The one large bank, without what answers these questions.
        asked = first.questions
        answers = frozenset().union(*(question.gold for question in asked))
        stored = [document for i, document in enumerate(stored) if i not in answers]
    else:
        others = [key for key in parts if not key[0].isdigit() and key[:6] != name[:6]]
        asked = [q for key in others for q in parts[key].corpora[0].questions[:60]]
    alone = [Question(text=question.text, gold=frozenset()) for question in asked]
    return Part(name=f"foreign {name}", corpora=[Corpus(documents=stored, questions=alone)])


def fused(pool: Pool, row: EmbeddingCalibration) -> rank.Fusion:
    return rank.fuse(pool.question.text, pool.cosine, pool.bm25, row, rows=pool.rows)


def gain(asked: Asked, row: EmbeddingCalibration, best: float) -> float:
    """nDCG@10 in points above the best baseline; what is below it counts more."""
    found = [retrieval._sorted(pool, fused(pool, row).similarity) for pool in asked.own]
    golds = [pool.question.gold for pool in asked.own]
    ours = [retrieval.measure(order, gold)[-1] for order, gold in zip(found, golds, strict=True)]
    gap = 100 * (float(np.mean(ours)) - best)
    return gap - 0.1 * min(0.0, gap) ** 2


def baseline(asked: Asked) -> float:
    """The best that any plain system reaches on this set."""
    return max(
        float(
            np.mean(
                [
                    retrieval.measure(retrieval._sorted(p, score(p)), p.question.gold)[-1]
                    for p in asked.own
                ]
            )
        )
        for score in retrieval.SCORES.values()
    )


def fit_weights(every: list[Asked], row: EmbeddingCalibration) -> EmbeddingCalibration:
    """One weight after the other, until none of the grid is clearly better."""
    bests = [baseline(asked) for asked in every]
    # A set of the lessons is one of twenty-seven, those of others are few.
    shares = [0.35 if asked.name[0].isdigit() else 1.0 for asked in every]

    def worth(candidate: EmbeddingCalibration) -> float:
        gains = [gain(asked, candidate, best) for asked, best in zip(every, bests, strict=True)]
        return float(np.average(gains, weights=shares))

    present = reached = worth(row)
    print(f"as it is: {present:+.3f} points of nDCG above the best baseline", flush=True)
    for field, values in (("lexical", LEXICAL), ("peak", PEAK), ("most", MOST)):
        found = {value: worth(replace(row, **{field: value})) for value in values}
        best = max(found, key=lambda value: found[value])
        told = ", ".join(f"{value}: {found[value]:+.3f}" for value in values)
        if found[best] > reached + CLEARLY:
            row, reached = replace(row, **{field: best}), found[best]
        print(f"{field} = {getattr(row, field)} ({told})", flush=True)
    return row


def standings(pools: list[Pool], row: EmbeddingCalibration, *, right: bool) -> Array:
    """Of the best candidate of each question: nearness, crowd and few, as ``rank.fuse`` has them.

    With ``right`` only of those questions whose best candidate is the answer.
    """
    found = []
    for pool in pools:
        fusion = fused(pool, row)
        top = int(fusion.similarity.argmax())
        if not right or int(pool.documents[top]) in pool.question.gold:
            features = fusion.features
            found.append((fusion.nearness[top], features["crowd"], features["few"]))
    return np.array(found).reshape(-1, 3)


def fit_cuts(every: list[Asked], row: EmbeddingCalibration) -> EmbeddingCalibration:
    """The crowd that tells best, the middle between own and foreign, and the two cuts.

    What stands in the row stays where the fitted value does not tell clearly more.
    """
    own = [standings(asked.own, row, right=True) for asked in every]
    foreign = [standings(asked.foreign, row, right=False) for asked in every]
    groups = [asked.name.split()[0] if asked.name[0].isdigit() else "sets" for asked in every]

    def standing(found: list[Array], crowd: float, group: str | None = None) -> Array:
        """Every set counts alike."""
        some = [
            rows[:, 0] - crowd * rows[:, 1] + rows[:, 2]
            for rows, its in zip(found, groups, strict=True)
            if len(rows) and group in (None, its)
        ]
        return np.concatenate([np.quantile(values, np.linspace(0.01, 0.99, 50)) for values in some])

    def sure(crowd: float, cut: float) -> float:
        return float(np.mean(standing(own, crowd) > cut))

    def quiet(crowd: float) -> float:
        """The cut that small and large banks alike keep foreign questions below."""
        return max(
            float(np.quantile(standing(foreign, crowd, group), QUIET)) for group in set(groups)
        )

    kept = {crowd: sure(crowd, quiet(crowd)) for crowd in CROWD}
    for crowd, share in kept.items():
        print(
            f"crowd {crowd}, cut {quiet(crowd):.3f}: {100 * share:.1f} % of right answers are sure"
        )
    crowd = max(kept, key=lambda value: kept[value])
    if kept.get(row.crowd, 0.0) >= kept[crowd] - CLOSE:
        crowd = row.crowd
    assert row.sure is not None
    present = row.middle + float(np.log(row.sure / (1.0 - row.sure))) / rank.STEEP
    fitted = quiet(crowd)
    print(f"as it is, cut {present:.3f}: {100 * sure(row.crowd, present):.1f} %", flush=True)
    if crowd != row.crowd or abs(present - fitted) > NEARLY:
        medians = np.median(standing(own, crowd)), np.median(standing(foreign, crowd))
        middle = round(float(sum(medians)) / 2, 2)
        cut = 1 / (1 + np.exp(-rank.STEEP * (fitted - middle)))
        row = replace(row, crowd=crowd, middle=middle, sure=round(float(cut), 2))
    # No kind of question may lose more: German ones are much further away than English ones.
    near = min(float(np.quantile(rows[:, 0], LOST)) for rows in own if len(rows))
    print(f"nearness of all but {100 * LOST:.0f} % of right answers: at least {near:.3f}")
    kept_cut = abs(near - row.threshold) <= NEARLY
    return row if kept_cut else replace(row, threshold=round(near, 2))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--weights", type=Path, help="other weights for the packaged network")
    options.add_argument("--questions", type=int, default=300, help="at most so many of each bank")
    chosen = options.parse_args()
    embedder = questions.embedder_of(chosen.weights)
    row = calibration_for(NAME if chosen.weights else MiniLM.name)
    if chosen.weights:
        # Other weights are another model: their vectors are kept apart.
        embedder.name = f"{NAME}-{crc32(chosen.weights.read_bytes()):08x}"
    every = list(sets(retrieval.Vectors(embedder), chosen.questions))
    print(fit_cuts(every, fit_weights(every, row)))


if __name__ == "__main__":
    main()

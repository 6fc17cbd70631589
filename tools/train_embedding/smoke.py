"""A few steps of the training on the processor, with the lessons as data: does it still run?

python -m tools.train_embedding.smoke
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from reasonbank.embed.minilm import FOLDER, WEIGHTS
from reasonbank.embed.minilm.network import MODEL

from . import weights
from .collect import store
from .evaluate import LESSONS, embedder, interval, lessons, ranked
from .parse import LANGUAGES
from .train import Recipe, prepared, run


def sample(folder: Path, most: int = 12) -> None:
    """The files of a collection, tiny."""
    rows = [json.loads(line) for line in LESSONS.read_text("utf-8").splitlines()][:most]
    store(folder / "parallel.jsonl.xz", ({k: r[k] for k in ("en", *LANGUAGES)} for r in rows))
    store(
        folder / "pairs.jsonl.xz",
        (
            {"source": "lessons", "group": "", "question": r["en"], "document": r["content"]}
            for r in rows
        ),
    )
    store(folder / "prompts.jsonl.xz", ["Run the tests before you finish."])
    store(folder / "texts.jsonl.xz", [r["title"] for r in rows])


def main() -> None:
    old = Path(FOLDER, WEIGHTS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sample(folder)
        recipe = Recipe(steps=4, texts=16, tokens=800, questions=12, copies=1)
        tensors = weights.read(old)
        run(prepared(folder, tensors, recipe, "cpu"), tensors, folder, recipe, "cpu")
        new = folder / WEIGHTS
        assert new.stat().st_size == MODEL.itemsize
        before, after = embedder(old, "cpu"), embedder(new, "cpu")
        name, searches = next(iter(lessons(folder)))
        one, other = ranked(searches, before)[0], ranked(searches, after)[0]
        assert np.isfinite(other).all()
        print(f"{name}: {one.mean():.1f} -> {other.mean():.1f} {interval(other - one)}")


if __name__ == "__main__":
    main()

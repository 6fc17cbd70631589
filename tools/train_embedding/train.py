"""Tune the published model: one CUDA GPU, a few minutes, the same steps for the same seed.

    python -m tools.train_embedding.train --out .cache/model [--data .cache/train] [--steps 1050]

Several recipes over the same data share what takes long before the first step: ``--prepare FILE``
writes it and ends, ``--prepared FILE`` begins with it.

The student starts as the published model (``tools.convert_minilm``), the teacher stays that.
Every step sums:

    parallel   a translation gets the teacher's vector of the English text
    noise      a misspelt, renamed, traced or prompted text gets that of the clean one, and
               keeps away from the same text with another number or the opposite meaning
    neighbours the noisy text is as near to any other text as the teacher says the clean one is
    pairs      a question comes nearer to the *teacher's* vector of its document than to those
               of others; some batches are full of documents about the same thing

Only questions move: the vectors of documents stay close to where they were, so that a bank that
was embedded with the old weights can still be searched while it is embedded again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from reasonbank.embed.minilm import FOLDER, VOCABULARY, WEIGHTS
from reasonbank.embed.minilm.wordpiece import WordPiece
from tools.convert_minilm import ORIGINAL, Array

from . import noise, weights
from .collect import load
from .network import Encoder, Texts, vectors
from .parse import LANGUAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides the result, besides the data."""

    steps: int = 1_050
    seed: int = 1
    rate: float = 2e-4
    rate_words: float = 2e-3  # of the word vectors: most words of other languages are rare
    texts: int = 2_048
    tokens: int = 2_048 * 56
    questions: int = 1_024
    copies: int = 3
    parallel: float = 10.0
    parallel_contrast: float = 0.5
    noise: float = 18.0
    opposite: float = 0.03
    neighbours: float = 3.0
    pairs: float = 0.5
    grouped: float = 0.3  # the share of batches that are full of documents about the same thing
    foreign: float = 1.0  # the share of questions that are asked in their translations as well
    # The vocabulary carries little of the last three; what it cannot hold costs English.
    spoken: dict[str, float] = field(
        default_factory=lambda: {"pt": 0.5, "it": 0.5, "ru": 0.3, "ja": 0.3, "zh": 0.3}
    )
    messages: tuple[str, ...] = field(
        default=("dotnet/", "postgres/", "vercel/", "rust-lang/", "astral-sh/", "eslint/")
    )


# ------------------------------------------------------------------ texts


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows of equal place belong together."""

    translations: list[str]
    english: list[str]
    read: list[str]
    meant: list[str]
    opposite: list[str]
    asked: list[str]
    documents: list[str]
    meanings: list[str]
    groups: list[str]


def examples(folder: Path, recipe: Recipe) -> Examples:
    parallel, pairs = load(folder / "parallel.jsonl.xz"), load(folder / "pairs.jsonl.xz")
    prompts = load(folder / "prompts.jsonl.xz")
    draw = random.Random(recipe.seed)
    spoken = [
        (row[code], row["en"])
        for row in parallel
        for code in LANGUAGES
        if code in row and draw.random() < recipe.spoken.get(code, 1.0)
    ]
    clean = {row["en"]: "%" in row["en"] or "error" in row["en"].lower() for row in parallel}
    for row in pairs:
        clean[row["question"]] = row["source"].startswith(recipe.messages)
        clean[row["document"]] = False
    clean.update(dict.fromkeys(load(folder / "texts.jsonl.xz"), False))
    jobs = [
        (text, message, draw.getrandbits(48))
        for copy in range(recipe.copies)
        for text, message in clean.items()
        if copy == 0 or len(text) < 400
    ]
    questions, documents, meanings, groups = _asked(pairs, parallel, draw, recipe)
    with multiprocessing.Pool() as pool:
        noisy = pool.map(partial(_noisy, prompts), jobs, chunksize=2_000)
        seeds = [(text, draw.getrandbits(48)) for text in questions * 2]
        asked = pool.map(partial(_noisy_question, prompts), seeds, chunksize=2_000)
    read, meant, opposite = (list(column) for column in zip(*noisy, strict=True))
    translations, english = (list(column) for column in zip(*spoken, strict=True))
    heard = (translations, english, read, meant, opposite, asked)
    return Examples(*heard, documents * 2, meanings * 2, groups * 2)


def _asked(
    pairs: list[dict[str, str]],
    parallel: list[dict[str, str]],
    draw: random.Random,
    recipe: Recipe,
) -> tuple[list[str], list[str], list[str], list[str]]:
    """Questions, their documents, what these mean, and groups.

    A translated question has the same document. Documents of one meaning are not wrong answers.
    """
    said = {row["en"]: row for row in parallel}
    meant = [row.get("meaning") or row["document"] for row in pairs]
    rows = [
        (r["question"], r["document"], same, f"{r['source']} {r['group']}")
        for r, same in zip(pairs, meant, strict=True)
    ]
    for row, same in zip(pairs, meant, strict=True):
        for code in LANGUAGES:
            foreign = said.get(row["question"], {}).get(code)
            if foreign and draw.random() < recipe.foreign:
                group = f"{code} {row['source']} {row['group']}"
                rows.append((foreign, row["document"], same, group))
    questions, documents, meanings, groups = (list(c) for c in zip(*rows, strict=True))
    return questions, documents, meanings, groups


def _noisy(prompts: list[str], job: tuple[str, bool, int]) -> tuple[str, str, str]:
    text, message, seed = job
    draw = random.Random(seed)
    read, meant = noise.noisy(draw, text, prompts, message=message)
    return read, meant, noise.changed(draw, meant)


def _noisy_question(prompts: list[str], job: tuple[str, int]) -> str:
    text, seed = job
    return noise.noisy_question(random.Random(seed), text, prompts)


_wordpiece: WordPiece | None = None


def _tokens(text: str) -> list[int]:
    global _wordpiece  # noqa: PLW0603  one for each process of the pool
    if _wordpiece is None:
        _wordpiece = WordPiece(os.path.join(FOLDER, VOCABULARY))
    return _wordpiece(text)


def tokenised(texts: list[str], device: str) -> Texts:
    if len(texts) < 5_000:
        return Texts([_tokens(text) for text in texts], device)
    with multiprocessing.Pool() as pool:
        return Texts(pool.map(_tokens, texts, chunksize=2_000), device)


# ------------------------------------------------------------------ batches


class Batches:
    """Endless batches of texts of like length, each text once a round."""

    def __init__(self, lengths: Array, recipe: Recipe, draw: np.random.Generator) -> None:
        self._lengths, self._recipe, self._draw = lengths, recipe, draw
        self._queue: list[Array] = []

    def next(self) -> Array:
        if not self._queue:
            self._fill()
        return self._queue.pop()

    def _fill(self) -> None:
        order, at_once = self._draw.permutation(len(self._lengths)), self._recipe.texts * 16
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            some = some[np.argsort(-self._lengths[some], kind="stable")]
            at = 0
            while at < len(some):
                fit = self._recipe.tokens // max(8, int(self._lengths[some[at]]))
                many = max(32, min(self._recipe.texts, fit))
                self._queue.append(some[at : at + many])
                at += many
        self._draw.shuffle(self._queue)  # type: ignore[arg-type]


class Questions:
    """Batches of questions: in turn any, of one source, and of whole groups."""

    def __init__(self, groups: list[str], recipe: Recipe, draw: np.random.Generator) -> None:
        self._draw, self._most, self._grouped = draw, recipe.questions, recipe.grouped
        self._groups = _members(groups)
        self._names = sorted(self._groups)
        self._sources = _members([group.rsplit(" ", 1)[0] for group in groups])
        sizes = np.array([len(rows) for rows in self._sources.values()], float) ** 0.6
        self._chances = sizes / sizes.sum()
        self._count = len(groups)

    def next(self) -> Array:
        kind = self._draw.random()
        if kind < (1 - self._grouped) / 2:
            rows = self._draw.choice(self._count, min(self._most, self._count), replace=False)
            return np.asarray(rows)
        if kind < 1 - self._grouped:
            names = list(self._sources)
            rows = self._sources[names[self._draw.choice(len(names), p=self._chances)]]
            return np.asarray(self._draw.choice(rows, min(self._most, len(rows)), replace=False))
        found = list[Array]()
        while sum(map(len, found)) < self._most // 2 and len(found) < self._most:
            found.append(self._groups[self._names[self._draw.integers(len(self._names))]][:40])
        return np.unique(np.concatenate(found))


def _members(names: list[str]) -> dict[str, Array]:
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return {name: np.array(rows) for name, rows in found.items()}


# ------------------------------------------------------------------ training


@dataclass(frozen=True, slots=True)
class Data:
    """The examples on the device, with the teacher's vectors of what they should become."""

    translations: Texts
    english: Tensor
    read: Texts
    meant: Tensor
    opposite: Tensor
    has_opposite: Tensor
    asked: Texts
    documents: Tensor
    document_ids: Tensor
    question_ids: Tensor
    groups: list[str]


def prepare(found: Examples, teacher: Encoder, device: str) -> Data:
    def taught(texts: list[str]) -> Tensor:
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows = torch.tensor([distinct[text] for text in texts], device=device)
        ready = tokenised(list(distinct), device)
        with torch.autocast(device, dtype=torch.bfloat16):
            found = vectors(teacher, ready)
        return found.half()[rows]

    return Data(
        tokenised(found.translations, device),
        taught(found.english),
        tokenised(found.read, device),
        taught(found.meant),
        taught(found.opposite),
        torch.tensor([bool(text) for text in found.opposite], device=device),
        tokenised(found.asked, device),
        taught(found.documents),
        _ids(found.meanings, device),
        _ids(found.asked, device),
        found.groups,
    )


def _ids(texts: list[str], device: str) -> Tensor:
    number: dict[str, int] = {}
    return torch.tensor([number.setdefault(t, len(number)) for t in texts], device=device)


def contrast(found: Tensor, wanted: Tensor, same: Tensor | None = None) -> Tensor:
    """Each row should be nearest to its own; rows that mean the same do not count as wrong."""
    scores = found @ wanted.T * 20
    if same is not None:
        scores = scores.masked_fill(same & ~torch.eye(len(found)).bool().to(same.device), -1e4)
    return functional.cross_entropy(scores, torch.arange(len(found), device=found.device))


def neighbours(found: Tensor, wanted: Tensor, others: Tensor) -> Tensor:
    """How far the order of the others, seen from here, is from the teacher's."""
    seen = functional.log_softmax(found @ others.T * 20, -1)
    taught = functional.log_softmax(wanted @ others.T * 20, -1)
    return functional.kl_div(seen, taught, reduction="batchmean", log_target=True)


def _others(data: Data, recipe: Recipe, rows: Tensor) -> Tensor:
    """Documents and other texts, drawn anew for each step."""
    half = recipe.questions
    documents = torch.randint(len(data.documents), (half,), device=rows.device)
    texts = torch.randint(len(data.meant), (half,), device=rows.device)
    return torch.cat([data.documents[documents], data.meant[texts]]).float()


def losses(student: Encoder, data: Data, recipe: Recipe, drawn: list[Array]) -> dict[str, Tensor]:
    spoken, heard, asked = drawn
    device = data.english.device
    found = student(data.translations.batch(spoken))
    rows = torch.from_numpy(spoken).to(device)
    wanted = data.english[rows].float()
    result = {
        "parallel": (1 - (found * wanted).sum(-1)).mean(),
        "parallel_contrast": contrast(found, wanted, (wanted @ wanted.T) > 0.98),
    }
    found = student(data.read.batch(heard))
    rows = torch.from_numpy(heard).to(device)
    right = (found * data.meant[rows].float()).sum(-1)
    wrong = (found * data.opposite[rows].float()).sum(-1)
    turned = data.has_opposite[rows].float()
    result["noise"] = (1 - right).mean()
    result["neighbours"] = neighbours(found, data.meant[rows].float(), _others(data, recipe, rows))
    apart = functional.softplus((wrong - right) * 20) * turned
    result["opposite"] = apart.sum() / turned.sum().clamp(min=1)
    found = torch.cat([student(data.asked.batch(part)) for part in _by_length(data.asked, asked)])
    rows = torch.from_numpy(np.concatenate(_by_length(data.asked, asked))).to(device)
    documents, questions = data.document_ids[rows], data.question_ids[rows]
    same = (documents[:, None] == documents) | (questions[:, None] == questions)
    result["pairs"] = contrast(found, data.documents[rows].float(), same)
    return result


def _by_length(texts: Texts, rows: Array) -> list[Array]:
    """Long prompts apart from short questions, which need less padding then."""
    rows = rows[np.argsort(texts.lengths[rows], kind="stable")]
    cut = len(rows) * 3 // 4
    return [rows[:cut], rows[cut:]] if cut else [rows]


def train(data: Data, start: dict[str, Array], recipe: Recipe, device: str) -> Encoder:
    torch.manual_seed(recipe.seed)
    draw = np.random.default_rng(recipe.seed)
    student = Encoder(start).to(device).train()
    words = [student.word.weight]
    matrices = [p for p in student.parameters() if p.ndim > 1 and p is not words[0]]
    others = [p for p in student.parameters() if p.ndim < 2]
    shares = [
        {"params": words, "weight_decay": 0.0, "most": recipe.rate_words},
        {"params": matrices, "weight_decay": 0.01, "most": recipe.rate},
        {"params": others, "weight_decay": 0.0, "most": recipe.rate},
    ]
    optimiser = torch.optim.AdamW(shares, lr=recipe.rate, betas=(0.9, 0.98), fused=device == "cuda")
    batches = [
        Batches(data.translations.lengths, recipe, draw),
        Batches(data.read.lengths, recipe, draw),
        Questions(data.groups, recipe, draw),
    ]
    began = time.monotonic()
    for step in range(1, recipe.steps + 1):
        warm, left = min(1.0, step / (0.06 * recipe.steps)), 1 - step / recipe.steps
        for group in optimiser.param_groups:
            group["lr"] = group["most"] * warm * max(0.02, left)
        with torch.autocast(device, dtype=torch.bfloat16):
            found = losses(student, data, recipe, [b.next() for b in batches])
        loss: Any = sum(getattr(recipe, name) * value for name, value in found.items())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0 or step == recipe.steps:
            told = ", ".join(f"{name} {value.item():.3f}" for name, value in found.items())
            print(f"step {step}, {time.monotonic() - began:.0f} s: {told}", flush=True)
    return student


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--data", type=Path, default=Path(".cache/train"))
    options.add_argument("--start", type=Path, default=ORIGINAL)
    options.add_argument("--out", type=Path, default=Path(".cache/model"))
    options.add_argument("--recipe", type=json.loads, default={}, help="fields, as JSON")
    options.add_argument("--steps", type=int)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--prepare", type=Path, help="write what the first step needs, and end")
    options.add_argument("--prepared", type=Path, help="what --prepare wrote")
    chosen = options.parse_args()
    asked = {"steps": chosen.steps} if chosen.steps else {}
    recipe = Recipe(**chosen.recipe | asked)
    tensors = weights.read(chosen.start)
    if chosen.prepared:
        data = torch.load(chosen.prepared, map_location=chosen.device, weights_only=False)
    else:
        data = prepared(chosen.data, tensors, recipe, chosen.device)
    if chosen.prepare:
        torch.save(data, chosen.prepare)
    else:
        run(data, tensors, chosen.out, recipe, chosen.device)


def prepared(folder: Path, start: dict[str, Array], recipe: Recipe, device: str) -> Data:
    began = time.monotonic()
    found = examples(folder, recipe)
    print(
        f"{len(found.translations):,} translations, {len(found.read):,} noisy texts, "
        f"{len(found.asked):,} questions, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    data = prepare(found, Encoder(start).to(device).eval(), device)
    print(f"ready after {time.monotonic() - began:.0f} s", flush=True)
    return data


def run(data: Data, start: dict[str, Array], out: Path, recipe: Recipe, device: str) -> None:
    student = train(data, start, recipe, device)
    out.mkdir(parents=True, exist_ok=True)
    weights.write(out / WEIGHTS, student.tensors())
    print(f"wrote {out / WEIGHTS}", flush=True)


if __name__ == "__main__":
    main()

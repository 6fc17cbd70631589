"""Banks of 10,000 memories and more that look natural, made once and kept in bench/.cache.

Texts come from the data sets beside the repository (``bench.retrieval_sets.folder``), cut
and put together anew; where there are none, from a short list of words. Some thousand
memories are embedded by the real model. The others are made of parts of two of these, and
their vectors are a mixture of the two, with noise that has the model's own covariance.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import retrieval_sets
from reasonbank import Bank, Memory
from reasonbank.embed.minilm import MiniLM
from reasonbank.index.local import LocalIndex
from reasonbank.index.port import Changes
from reasonbank.ledger import migrations
from reasonbank.ledger.events import Event, EventType, evidence_key, lesson
from reasonbank.ledger.vectors import PackedVector
from reasonbank.model import ErrorContext, Outcome, new_id
from reasonbank.settings import Settings
from reasonbank.store import vectors

Floats = NDArray[np.float32]

CACHE = Path(__file__).parent / ".cache"
EDITION = 1
WORKSPACE = "/bench"
REAL = 2000
QUERIES = 200
STEP = 5000
# Larger sizes are measured at the dense stage only, on an index without a bank.
WHOLE_BANKS = 200_000
RARE = "cartography"
DOMAINS = (
    "shell", "files", "search", "web", "travel", "finance", "food", "health", "people",
    "research", "media", "sports", "weather", "databases", "python", "testing", "networks",
)  # fmt: skip
TAGS = tuple(f"{a}-{b}" for a in DOMAINS for b in ("basics", "pitfall", "recipe", "speed"))
ERRORS = ("TimeoutError", "KeyError", "PermissionError", "ModuleNotFoundError", "ValueError")
DAY = 86_400_000_000
_WORDS = """
    the a to of in for with when error file test retry timeout server client request index query
    cache lock thread table row column path folder module import build deploy branch merge token
    header page button form field value list number text line parse decode encode write read
    open close start stop wait check fix avoid prefer use find replace remove add move copy
    backup restore log trace memory disk network port host user role key secret rotate expire
    limit batch queue worker job schedule report chart map image
"""

# Questions are asked again and again here: their vectors must not be made again.
vectors.CACHE_SIZE, vectors.CACHE_SECONDS = 4096, 1e9
SETTINGS = Settings()


@dataclass(frozen=True)
class Sentences:
    """What memories are made of, by source, and real questions that are in none of them."""

    sources: list[list[str]]
    queries: list[str]
    made_up: bool


def sentences() -> Sentences:
    data = retrieval_sets.folder()
    if data is None:
        return _made_up()
    rng = random.Random(7)
    shell = [
        f"{text.strip()} Use: {command.strip()}" if i % 2 else text.strip()
        for i, (text, command) in enumerate(
            zip(_lines(data / "nl2bash" / "all.nl"), _lines(data / "nl2bash" / "all.cm"),
                strict=True)
        )
        if text.strip()
    ]  # fmt: skip
    with (data / "metatool" / "all_clean_data.csv").open(encoding="utf-8", newline="") as lines:
        tools = [row[0] for row in list(csv.reader(lines))[1:]]
    lens = [json.loads(line)["text"] for line in _lines(data / "toollens" / "queries.jsonl")]
    lens += [json.loads(line)["text"][:400] for line in _lines(data / "toollens" / "corpus.jsonl")]
    talks = json.loads((data / "locomo" / "locomo10.json").read_text("utf-8"))
    turns = [
        turn["text"]
        for talk in talks
        for name, session in talk["conversation"].items()
        if name.startswith("session_") and isinstance(session, list)
        for turn in session
    ]
    asked = [question["question"] for talk in talks for question in talk["qa"]]
    sources = [shell, tools, lens, turns]
    queries = rng.sample(asked, QUERIES // 4)
    for source in sources[:3]:
        chosen = set(rng.sample(range(len(source)), QUERIES // 4))
        queries += [source[i].partition(" Use: ")[0][:400] for i in chosen]
        source[:] = [text for i, text in enumerate(source) if i not in chosen]
    rng.shuffle(queries)
    return Sentences([[text for text in s if text.strip()] for s in sources], queries, False)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def _made_up() -> Sentences:
    rng = random.Random(7)
    words = _WORDS.split()
    weights = [1 / (i + 2) for i in range(len(words))]

    def sentence() -> str:
        return " ".join(rng.choices(words, weights, k=rng.randint(6, 18)))

    return Sentences([[sentence() for _ in range(5000)] for _ in range(4)],
                     [sentence() for _ in range(QUERIES)], True)  # fmt: skip


class Maker:
    """Memory ``i`` and its vector, the same on every run; all after ``REAL`` are mixtures."""

    def __init__(self) -> None:
        self.sentences = sentences()
        self._rng = random.Random(11)
        self._bases = [self._base() for _ in range(REAL)]
        self.real = _kept("vectors", self._embed)

    def _base(self) -> tuple[int, list[str]]:
        kind = self._rng.choices(range(4), (4, 2, 2, 2))[0]
        source = self.sentences.sources[kind]
        start = self._rng.randrange(len(source) - 5)
        return kind, source[start : start + self._rng.randint(3, 5)]

    def _embed(self) -> Floats:
        print(f"embedding {REAL:,} texts, once …")
        return MiniLM().embed(["\n".join(parts) for _, parts in self._bases])

    def memories(self, count: int) -> Iterator[tuple[list[str], tuple[int, int]]]:
        """The parts of each text, and the two bases that they come from."""
        rng = random.Random(13)
        for i in range(count):
            if i < REAL:
                yield self._bases[i][1], (i, i)
                continue
            one, two = rng.randrange(REAL), rng.randrange(REAL)
            kind, parts = self._bases[one]
            source = self.sentences.sources[kind]
            fresh = [source[rng.randrange(len(source))] for _ in range(2)]
            mixed = [fresh[0], *rng.sample(parts, 2), rng.choice(self._bases[two][1]), fresh[1]]
            yield mixed, (one, two)

    def vectors(self, pairs: list[tuple[int, int]], seed: int) -> Floats:
        rng = np.random.default_rng(seed)
        one, two = np.array(pairs, np.intp).T
        count = len(pairs)
        spread = np.linalg.cholesky(
            np.cov(self.real, rowvar=False) + 1e-6 * np.eye(self.real.shape[1])
        ).astype(np.float32)
        noise = rng.standard_normal((count, self.real.shape[1]), np.float32) @ spread.T
        first = rng.uniform(0.6, 1.0, (count, 1)).astype(np.float32)
        second = rng.uniform(0.1, 0.5, (count, 1)).astype(np.float32)
        mixed = first * self.real[one] + second * self.real[two] + 0.35 * noise
        mixed = np.where((one == two)[:, None], self.real[one], mixed)
        return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def _kept(name: str, make: object) -> Floats:
    path = CACHE / f"{name}-{key(MiniLM.name)}.npy"
    if not path.is_file():
        CACHE.mkdir(exist_ok=True)
        np.save(path, make())  # type: ignore[operator]
    return np.load(path)


def key(*parts: str) -> str:
    data = retrieval_sets.folder()
    parts = (str(EDITION), str(REAL), "made up" if data is None else "data", *parts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _as_memory(i: int, parts: list[str], rng: random.Random) -> Memory:
    failed = rng.random() < 0.2
    error = None
    if failed and rng.random() < 0.5:
        error = ErrorContext(
            error_type=rng.choice(ERRORS),
            failure_pattern=parts[-1][:200],
            corrective_guidance=parts[0][:200],
        )
    return Memory(
        title=parts[0][:200].strip(),
        description=parts[1][:1000].strip(),
        content="\n".join(parts[2:]),
        outcome=Outcome.FAILURE if failed else Outcome.SUCCESS,
        error_context=error,
        tags=tuple(sorted(set(rng.choices(TAGS, k=rng.randint(0, 3))))),
        domain=RARE if i % 100 == 37 else rng.choice(DOMAINS),
    )


def fresh_memories(count: int) -> list[Memory]:
    """Memories that are in no bank yet, to be recorded."""
    maker = sentences()
    rng = random.Random(17)
    made = []
    for i in range(count):
        source = maker.sources[i % 4]
        start = rng.randrange(len(source) - 4)
        made.append(_as_memory(0, source[start : start + 4], rng))
    return made


def bank_of(size: int) -> Path:
    """The folder of a bank of this size; ``bank.db`` and its index are in it. Never change it."""
    folder = CACHE / f"bank-{size}-{key(MiniLM.name, Path(migrations.__file__).read_text('utf-8'))}"
    if not (folder / "done").is_file():
        for stale in CACHE.glob(f"bank-{size}-*"):
            shutil.rmtree(stale)
        folder.mkdir(parents=True)
        started = time.perf_counter()
        _build(folder, size)
        (folder / "done").write_text("")
        print(f"made a bank of {size:,} in {time.perf_counter() - started:.0f} s")
    return folder


def _build(folder: Path, size: int) -> None:
    maker = Maker()
    rng = random.Random(19)
    now = time.time_ns() // 1000
    made = enumerate(maker.memories(size))
    with Bank.open(
        f"sqlite:///{folder / 'bank.db'}", workspace=WORKSPACE, settings=SETTINGS
    ) as bank:
        core = bank.store
        for start in range(0, size, STEP):
            count = min(STEP, size - start)
            chunk = [next(made) for _ in range(count)]
            vectors = maker.vectors([pair for _, (_, pair) in chunk], seed=start)
            packed = vectors.astype(np.float16)
            memories = [_as_memory(i, parts, rng) for i, (parts, _) in chunk]
            rated = {m.id: rng.random() < 0.8 for m in memories if rng.random() < 0.05}

            def work(txn, start=start, memories=memories, rated=rated, packed=packed):  # type: ignore[no-untyped-def]
                if start == 0:
                    bank.context.join(txn)
                for i, memory in enumerate(memories, start):
                    at = now - 90 * DAY * (size - i) // size
                    payload = {"lesson": lesson(memory), "stage": 0}
                    txn.append(_event(bank, EventType.RECORDED, memory.id, at, payload))
                    if (positive := rated.get(memory.id)) is not None:
                        seen = evidence_key(
                            bank.view.workspace, memory.id, "explicit", "bench", memory.id
                        )
                        payload = {"kind": "explicit", "positive": positive, "key": seen.hex()}
                        txn.append(_event(bank, EventType.OBSERVED, memory.id, at + 1, payload))
                rows = (txn.row(bank.view, memory.id) for memory in memories)
                nums = [row.num for row in rows if row]
                rows_of = zip(nums, packed, strict=True)
                vectors = [PackedVector(num, 1, row.tobytes()) for num, row in rows_of]
                txn.put_vectors(MiniLM.name, vectors)

            core.ledger.write(work)
        core.ledger.scrub()
        core.indexing.follow()
        core.indexing.index.save()
        assert core.indexing.ledger.read().unembedded_count(MiniLM.name) == (0, 0)


def _event(bank: Bank, type: EventType, subject: str, at: int, payload: dict[str, object]) -> Event:
    return Event(
        id=new_id(), type=type, subject=subject, workspace=bank.view.workspace, at=at,
        origin=bank.store.ledger.bank_id, author="bench", surface="bench", payload=payload,
    )  # fmt: skip


def index_of(size: int) -> Path:
    """An index file of this many vectors, for sizes where a whole bank takes too long to make."""
    path = CACHE / f"index-{size}-{key(MiniLM.name)}.index"
    if not path.is_file():
        maker = Maker()
        rng = random.Random(13)
        index = LocalIndex(path, dimensions=MiniLM.dimensions, model=MiniLM.name)
        for start in range(0, size, 50_000):
            count = min(50_000, size - start)
            pairs = [(rng.randrange(REAL), rng.randrange(REAL)) for _ in range(count)]
            nums = np.arange(start + 1, start + 1 + count)
            vectors = maker.vectors(pairs, seed=start)
            index.follow(
                Changes(
                    seqs=nums,
                    nums=nums,
                    realms=np.ones(count, np.int32),
                    vectors=vectors.astype(np.float16).astype(np.float32),
                    deleted=np.zeros(count, bool),
                )
            )
        index.save()
        index.close()
    return path

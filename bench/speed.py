"""How fast the embedded bank is, each part beside a bare way of doing the same.

    python -m bench.speed [--only NAME[,NAME]] [--sizes 10000,100000] [--repeat 5]

Only ratios are claimed. Contestants take turns on every query, in a random order;
of each query the fastest round counts, so that a busy machine is unfair to all alike.
Banks are made once and kept in bench/.cache; a run works on a copy.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import numpy as np

from bench import speed_corpus, speed_peers, tables
from bench.speed_corpus import CACHE, RARE, SETTINGS, WORKSPACE, Floats
from bench.tables import Table
from reasonbank import Bank
from reasonbank.embed.minilm import MiniLM
from reasonbank.index.local import LocalIndex
from reasonbank.ledger.port import Filter
from reasonbank.ledger.sqlite.fulltext import any_of
from reasonbank.model import Scope, State
from reasonbank.search.text import terms
from reasonbank.settings import Embed, Settings

BARE_WORDS = "select rowid from words where words match ? order by rank limit 100"
BARE_ROW = "select * from memories where id = ?"
Nums = np.ndarray[Any, np.dtype[np.int64]]
TOP = 10
BLOCKS = 7
SYNC_MS = 5


@dataclass(frozen=True)
class Options:
    sizes: tuple[int, ...]
    repeat: int
    queries: int

    def queries_at(self, size: int) -> int:
        """Fewer where each takes long."""
        return min(self.queries, max(40, 1_000_000 // size))


def interleaved(
    contestants: dict[str, Callable[[Any], Any]], items: Sequence[Any], repeat: int
) -> dict[str, float]:
    """Milliseconds of each: the mean over the items of each item's fastest round."""
    fastest = {name: [float("inf")] * len(items) for name in contestants}
    order = list(contestants)
    rng = random.Random(0)
    for _ in range(repeat):
        for i, item in enumerate(items):
            # Whoever always came after the same one would inherit its caches.
            rng.shuffle(order)
            for name in order:
                started = time.perf_counter()
                contestants[name](item)
                took = time.perf_counter() - started
                fastest[name][i] = min(fastest[name][i], took)
    return {name: 1000 * sum(times) / len(times) for name, times in fastest.items()}


@contextmanager
def copied(size: int) -> Iterator[Path]:
    """A copy of the bank of this size, to be changed at will; its ``bank.db``."""
    source = speed_corpus.bank_of(size)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="run-") as folder:
        for path in source.glob("bank.db*"):
            shutil.copy(path, folder)
        yield Path(folder) / "bank.db"


@contextmanager
def opened(size: int) -> Iterator[Bank]:
    with copied(size) as path, opened_at(path) as bank:
        # A changed index format would be rebuilt here, before anything is measured.
        bank.search("warm up")
        bank.store.indexing.index.save()
        yield bank


@contextmanager
def opened_at(path: Path, settings: Settings = SETTINGS) -> Iterator[Bank]:
    with Bank.open(f"sqlite:///{path}", workspace=WORKSPACE, settings=settings) as bank:
        yield bank


def bare(path: Path) -> apsw.Connection:
    """A plain connection, given the same caches as the bank's own."""
    db = apsw.Connection(str(path), statementcachesize=200)
    db.execute("pragma cache_size=-32000; pragma mmap_size=268435456; pragma temp_store=memory")
    return db


@cache
def queries(count: int) -> tuple[list[str], Floats]:
    asked = speed_corpus.sentences().queries[:count]
    return asked, MiniLM().embed(asked)


def realms_of(bank: Bank) -> tuple[int, ...]:
    return bank.store.ledger.read().realms(bank.view, tuple(Scope), (State.ACTIVE,))


def nums_of(bank: Bank) -> Nums:
    """The ledger's numbers of all memories; they have gaps."""
    found = bank.store.ledger.read().matching(bank.view, Filter(), None)
    assert found is not None
    return found


def scan(matrix: Floats, query: Floats, count: int) -> np.ndarray[Any, Any]:
    """The bare way: every row, the best of them, sorted."""
    scores = matrix @ query
    best = np.argpartition(scores, -count)[-count:]
    return best[np.argsort(-scores[best])]


def recall(found: Sequence[int], true: Sequence[int]) -> float:
    return len(set(found[:TOP]) & set(true[:TOP])) / TOP


def label(size: int) -> str:
    return f"{size:,}"


# ------------------------------------------------------------------ dense


def dense(options: Options) -> Table:
    table = Table(
        "dense", "Dense stage beside a bare numpy scan of the same matrix",
        ("what", "ours", "numpy scan", "ratio", "recall@10", "target", "reached"),
    )  # fmt: skip
    for size in options.sizes:
        if size <= speed_corpus.WHOLE_BANKS:
            with opened(size) as bank:
                index = bank.store.indexing.index
                _dense_at(table, options, index, realms_of(bank), nums_of(bank))  # type: ignore[arg-type]
        else:
            path = speed_corpus.index_of(size)
            index = LocalIndex(path, dimensions=MiniLM.dimensions, model=MiniLM.name)
            _dense_at(table, options, index, (1,), np.arange(1, size + 1))
            index.close()
            # Opened anew: making the scan's matrix has read the whole file.
            index = LocalIndex(path, dimensions=MiniLM.dimensions, model=MiniLM.name)
            for vector in queries(options.queries_at(size))[1]:
                index.nearest(vector, realms=(1,), limit=100)
            table.notes.append(
                f"At {size:,} the index file has {path.stat().st_size / 1e6:,.0f} MB, of which "
                f"the searches had {resident(path):,.0f} MB in memory (mapped, shared); the scan "
                f"needs {size * MiniLM.dimensions * 4 / 1e6:,.0f} MB."
            )
    table.notes.append(
        "A search asks the dense stage for 100 rows (its pool); recall@10 compares the first ten "
        "with the exact ones, over the same questions."
    )
    return table


def _dense_at(
    table: Table, options: Options, index: LocalIndex, realms: tuple[int, ...], nums: Nums
) -> None:
    size = len(nums)
    matrix = index.vectors(nums)
    _, vectors = queries(options.queries_at(size))
    most = {10_000: 1.2, 100_000: 0.45, 1_000_000: 0.35}.get(size)
    enough = 0.99 if size <= 100_000 else 0.98
    for count in (TOP, 100):
        took = interleaved(
            {
                "ours": lambda q, n=count: index.nearest(q, realms=realms, limit=n),
                "scan": lambda q, n=count: scan(matrix, q, n),
            },
            vectors,
            options.repeat,
        )
        found = np.mean([
            recall(index.nearest(q, realms=realms, limit=count)[0].tolist(),
                   nums[scan(matrix, q, TOP)].tolist())
            for q in vectors
        ])  # fmt: skip
        ratio = took["ours"] / took["scan"]
        reached = "–" if most is None else "yes" if ratio <= most and found >= enough else "NO"
        table.add(
            f"{label(size)} memories, best {count}", f"{tables.number(took['ours'])} ms",
            f"{tables.number(took['scan'])} ms", f"{ratio:.2f}", f"{found:.4f}",
            "–" if most is None else f"≤ {most}, recall ≥ {enough}", reached,
        )  # fmt: skip


def resident(path: Path) -> float:
    """How many MB of a mapped file are in memory (Linux; NaN elsewhere)."""
    try:
        lines = Path("/proc/self/smaps").read_text("utf-8").splitlines()
    except OSError:
        return float("nan")
    total, mine = 0, False
    for line in lines:
        if "-" in line.partition(" ")[0]:
            mine = line.endswith(path.name)
        elif mine and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total / 1000


# ------------------------------------------------------------------ filter


def filtered(options: Options) -> Table:
    table = Table("filter", "A filter that one memory in a hundred passes")
    chosen = Filter(domain=RARE)
    for size in _banks(options):
        with opened(size) as bank:
            asked, vectors = queries(options.queries_at(size))
            exact = _filter_is_exact(bank, chosen, asked[:20], vectors[:20])
            took = interleaved(
                {
                    "filtered": lambda q, b=bank: b.search(q, filter=chosen),
                    "all": lambda q, b=bank: b.search(q),
                },
                asked,
                options.repeat,
            )
            _unused(bank)
        table.compare(
            f"search, 1 % filter, {label(size)}", took["filtered"], "without the filter",
            took["all"], most=1.0 if size == 100_000 else None, also=exact,
            target=f", exact ({'it is' if exact else 'it is NOT'})",
        )  # fmt: skip
    table.notes.append(
        "Both through Bank.search with the question's vector cached. Exact: for some questions "
        "the nearest rows and the full-text hits among those that pass equal brute force."
    )
    return table


def _filter_is_exact(bank: Bank, chosen: Filter, asked: list[str], vectors: Floats) -> bool:
    index, reading = bank.store.indexing.index, bank.store.ledger.read()
    among = reading.matching(bank.view, chosen, None)
    assert among is not None
    if not np.array_equal(among, nums_of(bank)[37::100]):
        return False
    matrix = index.vectors(among)
    db = bare(Path(bank.store.ledger.url.removeprefix("sqlite:///")))
    everything = "select rowid, -rank from words where words match ? order by rank"
    allowed = set(among.tolist())
    for query, vector in zip(asked, vectors, strict=True):
        found, cosines = index.nearest(vector, realms=realms_of(bank), limit=100, among=among)
        true = np.sort(matrix @ vector)[::-1][: len(found)]
        if len(found) != min(100, len(among)) or not np.allclose(cosines, true, atol=1e-5):
            return False
        if asked_for := terms(query):
            _, worded = reading.words(bank.view, chosen, asked_for, 100, among)
            match = any_of(asked_for)
            scores = [s for num, s in db.execute(everything, (match,)) if num in allowed]
            if not np.allclose(worded, scores[:100]):
                return False
        if any(hit.memory.domain != RARE for hit in bank.search(query, filter=chosen)):
            return False
    db.close()
    return True


# ------------------------------------------------------------------ search


def searching(options: Options) -> Table:
    table = Table("search", "Whole search, without embedding the question")
    for size in _banks(options):
        with opened(size) as bank:
            _searching_in(bank, table, options, size)
    table.notes.append(
        "Search: dense, BM25, fold, rank, MMR, the memories read. Bare FTS5: the same MATCH "
        "expression on the same file, best 100, a plain apsw connection with equal caches."
    )
    return table


def _searching_in(bank: Bank, table: Table, options: Options, size: int) -> None:
    asked, vectors = queries(options.queries_at(size))
    index, realms = bank.store.indexing.index, realms_of(bank)
    db = bare(Path(bank.store.ledger.url.removeprefix("sqlite:///")))
    match = {query: any_of(terms(query)) for query in asked}
    vector = dict(zip(asked, vectors, strict=True))
    for query in asked:
        bank.search(query)
    took = interleaved(
        {
            "search": bank.search,
            "dense": lambda q: index.nearest(vector[q], realms=realms, limit=100),
            "words": lambda q: db.execute(BARE_WORDS, (match[q],)).fetchall(),
        },
        asked,
        options.repeat,
    )
    db.close()
    _unused(bank)
    table.compare(
        f"search, vector cached, {label(size)}", took["search"],
        f"dense {tables.number(took['dense'])} + bare FTS5 {tables.number(took['words'])}",
        took["dense"] + took["words"], most=1.5,
    )  # fmt: skip


def embedding(options: Options) -> Table:
    """The whole search beside embedding its question."""
    table = Table("embedding", "Whole search, beside embedding the question alone")
    size = min(options.sizes)
    with opened(size) as bank:
        asked, _ = queries(options.queries)
        indexing = bank.store.indexing

        def uncached(query: str) -> None:
            indexing.queries.remove(query)
            bank.search(query)

        for query in asked:
            bank.search(query)
        took = interleaved(
            {
                "alone": lambda q: indexing.embedder.embed([q]),
                "uncached": uncached,
                "cached": bank.search,
            },
            asked,
            options.repeat,
        )
        _unused(bank)
    table.compare(
        f"search with embedding, {label(size)}", took["uncached"], "embedding alone",
        took["alone"], most=2.0,
    )  # fmt: skip
    table.compare(
        f"search, question cached, {label(size)}", took["cached"], "embedding alone",
        took["alone"], most=0.7,
    )  # fmt: skip
    return table


# ------------------------------------------------------------------ cold start


def cold(options: Options) -> Table:
    table = Table("cold", "From process start to answer")
    size = min(options.sizes)
    query = queries(options.queries)[0][0]
    with copied(size) as path:
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(path.parent)}
        program = str(Path(sys.executable).with_name("reasonbank"))
        ours = [program, "--bank", f"sqlite:///{path}", "--workspace", WORKSPACE]
        commands = {
            "numpy": [sys.executable, "-c", "import numpy"],
            "search": [*ours, "search", query],
            "json": [*ours, "--json", "search", query],
        }
        if (chroma := _chroma_command(path.parent, size)) is not None:
            commands["chroma"] = chroma

        def run(name: str) -> None:
            subprocess.run(
                commands[name], check=True, env=environment, capture_output=True, cwd=path.parent
            )

        for name in commands:
            run(name)
        answer = subprocess.run(
            commands["json"], check=True, env=environment, capture_output=True, cwd=path.parent
        )
        assert json.loads(answer.stdout)["memories"], "the search found nothing"
        # chromadb apart: its ending process would still be in the way of the next one.
        calls = {name: lambda _, n=name: run(n) for name in commands}
        last = calls.pop("chroma", None)
        took = interleaved(calls, [None], 3 * options.repeat)
        if last is not None:
            took |= interleaved({"chroma": last}, [None], options.repeat)
    for name, what in (("search", "reasonbank search"), ("json", "reasonbank search --json")):
        table.compare(
            f"{what}, {label(size)}", took[name], "python -c 'import numpy'", took["numpy"],
            most=2.5,
        )  # fmt: skip
    if "chroma" in took:
        table.compare(
            f"reasonbank search, {label(size)}", took["search"],
            "chromadb, opened and asked with a ready vector", took["chroma"],
        )  # fmt: skip
        table.notes.append("chromadb embeds nothing here; ours embeds the question as well.")
    else:
        table.notes.append("chromadb is not installed here; its row is missing.")
    table.notes.append("The fastest of several runs, in turn; files are in the system's cache.")
    return table


def _chroma_command(folder: Path, size: int) -> list[str] | None:
    try:
        import chromadb  # noqa: F401
    except ImportError:
        return None
    # Built by a process of its own: this one should not hold its files open.
    name = "chromadb embedded (HNSW)"
    place = _peer_folder(name, size)
    vector = folder / "query.npy"
    np.save(vector, queries(1)[1][0])
    build = f"import bench.speed as s; s.build_peer({name!r}, {size})"
    subprocess.run(
        [sys.executable, "-c", build], check=True, cwd=Path(__file__).parents[1],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return [sys.executable, "-c", speed_peers.CHROMA_COLD, str(place), str(vector)]


# ------------------------------------------------------------------ record and get


def recording(options: Options) -> Table:
    table = Table("record", "Recording, every commit on disk")
    count = 40 * options.repeat
    size = min(options.sizes)
    with copied(size) as path:
        _recording_into(table, path, f"into {label(size)}", count)
    with copied(size) as path, slow_disk():
        _recording_into(table, path, f"into {label(size)}, {SYNC_MS} ms disk", count)
    table.notes.append(
        "Bare: one insert of the same JSON text a commit, WAL, synchronous=FULL, same folder. "
        "One thread: taken in turn with it, medians. Eight threads: blocks in turn, medians of "
        "the blocks. A memory is found by its words at once; its vector is made in the "
        "background, or by the next search. Embedding included: all of it before the clock stops; "
        "the other rows have the hashed embedder, so that nothing else runs beside them. "
        f"The disk of this machine may sync in a fraction of a millisecond; the {SYNC_MS} ms disk "
        "is the same one behind a VFS that makes every sync wait so long, for both contestants."
    )
    return table


@contextmanager
def slow_disk() -> Iterator[None]:
    """Every sync of connections opened here takes ``SYNC_MS`` longer."""
    real = apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def xSync(self, flags: int) -> None:
            time.sleep(SYNC_MS / 1000)
            super().xSync(flags)

    class Disk(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("slow", real, makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> File:
            return File(real, name, flags)

    disk = Disk()
    try:
        yield
    finally:
        disk.unregister()


def _recording_into(table: Table, path: Path, where: str, count: int) -> None:
    memories = iter(speed_corpus.fresh_memories((BLOCKS + 1) * count + 100))
    plain = apsw.Connection(str(path.with_name("bare.db")))
    plain.execute("pragma journal_mode=wal; pragma synchronous=full")
    plain.execute("create table t (id integer primary key, payload text)")

    def insert(text: str) -> None:
        plain.execute("insert into t (payload) values (?)", (text,))

    # With a cheap embedder, so that the background's work for one contestant is not in the
    # way of the other; the last row has the real one.
    with opened_at(path, replace(SETTINGS, embed=Embed(model="hashed"))) as bank:
        ours, theirs = [], []
        for _ in range(count):
            memory = next(memories)
            text = _payload(memory)
            ours.append(_seconds(lambda m=memory: bank.record(m)))
            theirs.append(_seconds(lambda t=text: insert(t)))
        table.compare(
            f"record {where}, one thread", 1 / median(ours), "bare apsw commits",
            1 / median(theirs), least=0.7, unit="/s",
        )  # fmt: skip

        together, alone = [], []
        for _ in range(BLOCKS):
            block = [[next(memories) for _ in range(count // 8)] for _ in range(8)]
            texts = [_payload(memory) for memory in block[0] + block[1]]
            together.append(8 * len(block[0]) / _seconds(lambda b=block: _by_threads(bank, b)))
            bank.embed_new()
            alone.append(len(texts) / _seconds(lambda all=texts: [insert(text) for text in all]))
        table.compare(
            f"record {where}, 8 threads", median(together), "bare apsw commits, one thread",
            median(alone), least=3.0, unit="/s",
        )  # fmt: skip

    with opened_at(path) as bank:
        batch = [next(memories) for _ in range(100)]

        def with_vectors() -> None:
            for memory in batch:
                bank.record(memory)
            bank.embed_new()

        rate = len(batch) / _seconds(with_vectors)
        table.compare(
            f"record {where}, embedding included", rate, "bare apsw commits", median(alone),
            unit="/s",
        )  # fmt: skip
    plain.close()


def _by_threads(bank: Bank, parts: list[list[Any]]) -> None:
    def work(part: list[Any]) -> None:
        for memory in part:
            bank.record(memory)

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(work, parts))


def _payload(memory: Any) -> str:
    from reasonbank.ledger.events import encode, lesson

    return encode({"lesson": lesson(memory), "stage": 0})


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def getting(options: Options) -> Table:
    table = Table("get", "Getting a memory by its id")
    size = min(options.sizes)
    with opened(size) as bank:
        db = bare(Path(bank.store.ledger.url.removeprefix("sqlite:///")))
        ids = [row[0] for row in db.execute("select id from memories order by id")]
        ids = ids[:: max(1, len(ids) // 500)]
        took = interleaved(
            {"ours": bank.get, "bare": lambda id: db.execute(BARE_ROW, (id,)).fetchone()},
            ids,
            4 * options.repeat,
        )
        db.close()
    table.compare(
        f"get, {label(size)}", 1000 * took["ours"], "bare apsw prepared select",
        1000 * took["bare"], most=3.0, unit="µs",
    )  # fmt: skip
    table.notes.append(
        "The bare select returns the row's columns as a tuple; ours decodes the lesson, folds "
        "the confidence and makes a Memory."
    )
    return table


# ------------------------------------------------------------------ peers


def build_peer(name: str, size: int) -> None:
    with opened(size) as bank:
        matrix = bank.store.indexing.index.vectors(nums_of(bank))
    speed_peers.PEERS[name](_peer_folder(name, size), matrix)


def _peer_folder(name: str, size: int) -> Path:
    made = speed_peers.PEERS[name].__name__
    folder = CACHE / f"peer-{made}-{size}-{speed_corpus.key(MiniLM.name)}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def peers(options: Options) -> Table:
    table = Table(
        "peers", "Peers, inside the process, with ready vectors",
        ("memories", "store", "ms a query", "times the numpy scan", "recall@10"),
    )  # fmt: skip
    for size in _banks(options)[: 1 if len(options.sizes) > 1 else None]:
        with opened(size) as bank:
            _peers_at(bank, table, options, size)
    table.notes.append(
        "The peers return ids by vector alone; the hybrid search adds full text, beliefs, "
        "ranking, diversity and the memories themselves (question's vector cached)."
    )
    return table


def _peers_at(bank: Bank, table: Table, options: Options, size: int) -> None:
    index, realms = bank.store.indexing.index, realms_of(bank)
    asked, vectors = queries(min(options.queries, 50))
    nums = nums_of(bank)
    matrix = index.vectors(nums)
    text = {vector.tobytes(): query for query, vector in zip(asked, vectors, strict=True)}
    stores: dict[str, Callable[[Floats], Any]] = {
        "numpy scan": lambda q: scan(matrix, q, TOP).tolist(),
        "ReasonBank, dense stage": lambda q: np.searchsorted(
            nums, index.nearest(q, realms=realms, limit=TOP)[0]
        ).tolist(),
        "ReasonBank, whole hybrid search": lambda q: bank.search(text[q.tobytes()]),
    }
    for name, build in speed_peers.PEERS.items():
        try:
            stores[name] = build(_peer_folder(name, size), matrix)
        except ImportError as error:
            table.notes.append(f"{name}: {error}; skipped")
    for query in asked:
        bank.search(query)
    took = interleaved(stores, vectors, options.repeat)
    for name, search in stores.items():
        found = "–"
        if "hybrid" not in name:
            shares = [recall(search(q), scan(matrix, q, TOP)) for q in vectors]
            found = f"{np.mean(shares):.3f}"
        table.add(
            label(size), name, tables.number(took[name]),
            f"{took[name] / took['numpy scan']:.2f}", found,
        )  # fmt: skip
    _unused(bank)


def _banks(options: Options) -> list[int]:
    return [size for size in options.sizes if size <= speed_corpus.WHOLE_BANKS]


def _unused(bank: Bank) -> None:
    """Forget the uses of some thousand searches, which closing would write."""
    bank.store.used.clear()


BENCHES: dict[str, Callable[[Options], Table]] = {
    "dense": dense,
    "filter": filtered,
    "search": searching,
    "embedding": embedding,
    "cold": cold,
    "record": recording,
    "get": getting,
    "peers": peers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--sizes", default="10000,100000", help="1000000: dense stage only")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--queries", type=int, default=speed_corpus.QUERIES)
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else list(BENCHES)
    if unknown := set(chosen) - BENCHES.keys():
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(BENCHES)}")
    sizes = tuple(sorted(int(size) for size in given.sizes.split(",")))
    options = Options(sizes, given.repeat, given.queries)
    for name in chosen:
        machine = tables.machine()
        table = BENCHES[name](options)
        table.machine = machine
        if speed_corpus.sentences().made_up:
            table.notes.append("The data sets are absent: texts were made of a short word list.")
        tables.show(table)
        tables.keep("speed", table)
    tables.rewrite_document()


if __name__ == "__main__":
    main()

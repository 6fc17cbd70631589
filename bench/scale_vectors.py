"""How the two exact-minded indexes grow: the file inside the process, and pgvector.

Vectors are made up as ``bench.speed_corpus`` does: mixtures of real ones, with the model's own
noise. Both indexes are filled through ``follow`` in the steps that a bank takes, and asked
for as many rows as a search wants. Nothing here is exact by chance: the right answers come from
a scan of every vector.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.engines import postgres

from bench import speed_corpus, tables
from bench.speed import resident
from bench.speed_corpus import CACHE, REAL, Floats
from bench.tables import Table
from reasonbank.embed.minilm import MiniLM
from reasonbank.index.local import LocalIndex
from reasonbank.index.port import Changes, Index
from reasonbank.settings import IndexSettings
from reasonbank.store.vectors import FOLLOW

POOL, TOP, SHARE = 100, 10, 100
QUERIES, ROUNDS = 40, 5
REALMS = (1,)
Opened = tuple[Index, Callable[[], str]]


def made(rows: int, most: int) -> Iterator[Changes]:
    """All vectors, in steps of at most so many."""
    maker = speed_corpus.Maker()
    rng = np.random.default_rng(13)
    for start in range(0, rows, most):
        count = min(most, rows - start)
        pairs = [(int(a), int(b)) for a, b in rng.integers(REAL, size=(count, 2))]
        nums = np.arange(start + 1, start + 1 + count)
        yield Changes(
            seqs=nums,
            nums=nums,
            realms=np.ones(count, np.int32),
            vectors=maker.vectors(pairs, seed=start).astype(np.float16).astype(np.float32),
            deleted=np.zeros(count, bool),
            after=start,
        )


class Exact:
    """The true nearest of each question, of all rows and of one in a hundred."""

    def __init__(self, queries: Floats) -> None:
        self._queries = queries
        self._best: dict[int, list[tuple[Floats, Any]]] = {1: [], SHARE: []}

    def see(self, step: Changes) -> None:
        scores = self._queries @ step.vectors.T
        for share, best in self._best.items():
            kept = np.flatnonzero(step.nums % share == 0)
            found = np.argsort(-scores[:, kept], axis=1)[:, :TOP]
            best.append((np.take_along_axis(scores[:, kept], found, 1), step.nums[kept][found]))

    def of(self, share: int) -> list[set[int]]:
        scores = np.concatenate([part for part, _ in self._best[share]], axis=1)
        nums = np.concatenate([part for _, part in self._best[share]], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        return [set(row.tolist()) for row in np.take_along_axis(nums, order, 1)]


@contextmanager
def inside() -> Iterator[Opened]:
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=CACHE, prefix="scale-"))
    path = folder / "vectors"
    index = LocalIndex(path, dimensions=MiniLM.dimensions, model=MiniLM.name)

    def size() -> str:
        file = path.stat().st_size / 1e6
        return f"file {file:,.0f} MB, {resident(path):,.0f} of it in memory"

    try:
        yield index, size
    finally:
        index.close()
        shutil.rmtree(folder)


@contextmanager
def pgvector() -> Iterator[Opened]:
    from reasonbank.index import engines
    from reasonbank.ledger.postgres import PostgresLedger

    server = postgres.Server(durable=True)
    try:
        url = server.new_database()
        ledger = PostgresLedger(url)
        index = engines.pgvector(ledger, MiniLM(), IndexSettings(timeout_seconds=600))
        database = url.rpartition("/")[2]

        def size() -> str:
            sql = (
                "select sum(pg_relation_size(c.oid)), sum(pg_relation_size(i.indexrelid))"
                " from pg_class c left join pg_index i on i.indrelid = c.oid"
                " and i.indexrelid::regclass::text like '%graph'"
                " where c.relname ~ '^nearest_[0-9a-f]+_[0-9]+$' and c.relkind = 'r'"
            )
            [(table, graph)] = server.execute(sql, database=database)
            return f"table {int(table) / 1e6:,.0f} MB, graph {int(graph or 0) / 1e6:,.0f} MB"

        yield index, size
        index.close()
        ledger.close()
    finally:
        server.close()


ENGINES: dict[str, Callable[[], AbstractContextManager[Opened]]] = {
    "embedded": inside,
    "pgvector": pgvector,
}


def measure(sizes: dict[str, list[int]]) -> Table:
    table = Table(
        name="vectors",
        title="How the index of vectors grows (made-up vectors)",
        columns=("memories", "index", "filled in", "p50 ms", "p99 ms", "recall@10",
                 "1 % filter: p50 ms", "p99 ms", "recall@10", "size"),
        machine=tables.machine(),
    )  # fmt: skip
    asked = speed_corpus.sentences().queries[:QUERIES]
    queries = MiniLM().embed(asked)
    for rows in sorted({rows for wanted in sizes.values() for rows in wanted}):
        for name, opened in ENGINES.items():
            if rows in sizes.get(name, []):
                with opened() as (index, size):
                    table.add(f"{rows:,}", name, *_measured(index, rows, queries), size())
                    print(" | ".join(table.rows[-1]), flush=True)
    table.notes += [
        f"{len(asked)} questions, {ROUNDS} rounds, {POOL} rows each, as a search asks; the "
        "filter leaves one row in a hundred. Filled in: seconds on the clock of a machine that "
        "others use too, from the first vector to the last, the graph included.",
        "pgvector: up to 20,000 rows each is looked at, beyond that the graph; shared_buffers "
        "32 MB, commits on disk.",
    ]
    return table


def _measured(index: Index, rows: int, queries: Floats) -> list[str]:
    exact, took = Exact(queries), 0.0
    # And one more, as the next record is: an index that has caught up makes its graph.
    for step in made(rows + 1, index.at_once or FOLLOW):
        exact.see(step)
        started = time.perf_counter()
        index.follow(step)
        took += time.perf_counter() - started
    index.save()
    some = np.arange(SHARE, rows + 1, SHARE)
    cells = [f"{tables.number(took)} s"]
    for share, among in ((1, None), (SHARE, some)):
        found = [
            index.nearest(query, realms=REALMS, limit=POOL, among=among)[0] for query in queries
        ]
        right = [
            len(truth & set(nums[:TOP].tolist())) / TOP
            for truth, nums in zip(exact.of(share), found, strict=True)
        ]
        times = []
        for query in [*queries] * ROUNDS:
            started = time.perf_counter()
            index.nearest(query, realms=REALMS, limit=POOL, among=among)
            times.append(1000 * (time.perf_counter() - started))
        p50, p99 = np.percentile(times, (50, 99))
        cells += [tables.number(p50), tables.number(p99), f"{np.mean(right):.3f}"]
    return cells

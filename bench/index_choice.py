"""Which way of finding the ten nearest of many vectors? The table of docs/decisions/0002.

    python bench/index_choice.py [--rows 10000 100000 1000000] [--queries 20] [--threads 1]

Contestants take turns on every query, so that a busy machine is unfair to all alike; only the
ratio to the bare numpy scan means anything. What is not installed is skipped, and said so.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
parser.add_argument("--queries", type=int, default=20, help="of each kind")
parser.add_argument("--texts", type=int, default=4000, help="real texts that the data grow from")
parser.add_argument("--threads", default="1")
options = parser.parse_args()
for library in ("OPENBLAS", "OMP", "RAYON"):
    os.environ[f"{library}_NUM_THREADS"] = options.threads

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
from reasonbank.embed.minilm import MiniLM  # noqa: E402
from reasonbank.index.local import LocalIndex  # noqa: E402
from reasonbank.index.scan import basis_of  # noqa: E402
from reasonbank.testing.index_contract import changes, unit  # noqa: E402

Matrix = NDArray[np.float32]
Search = Callable[[Matrix], NDArray[np.int64]]
TOP = 10


# -- contestants: build(matrix) -> (search, bytes kept besides the matrix) ----------------------


def top(scores: Matrix, count: int = TOP) -> NDArray[np.int64]:
    best = np.argpartition(scores, -count)[-count:]
    return best[np.argsort(-scores[best])]


def rescored(matrix: Matrix, rows: NDArray[np.int64], query: Matrix) -> NDArray[np.int64]:
    return rows[top(matrix[rows] @ query)]


def bare_numpy(matrix: Matrix) -> tuple[Search, int]:
    return lambda query: top(matrix @ query), 0


def local_index(matrix: Matrix) -> tuple[Search, int]:
    folder = tempfile.mkdtemp(prefix="index-choice-")
    path = Path(folder) / "vectors"
    index = LocalIndex(path, dimensions=matrix.shape[1], model="bench")
    index.follow(changes(range(len(matrix)), matrix))
    index.save()
    size = path.stat().st_size - matrix.nbytes
    path.unlink()
    os.rmdir(folder)
    return lambda query: index.nearest(query, realms=[1], limit=TOP)[0], size


def leading(columns: int) -> Callable[[Matrix], tuple[Search, int]]:
    def build(matrix: Matrix) -> tuple[Search, int]:
        sample = matrix[:: max(1, len(matrix) // 20_000)]
        _, directions = np.linalg.eigh(sample.T @ sample)
        basis = np.ascontiguousarray(directions[:, ::-1][:, :columns].T)
        head = matrix @ basis.T
        many = max(1000, len(matrix) // 256)
        return lambda query: rescored(
            matrix, np.argpartition(head @ (basis @ query), -many)[-many:], query
        ), head.nbytes

    return build


def sign_bits(matrix: Matrix) -> tuple[Search, int]:
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((384, 384)))[0].astype(np.float32)
    codes = np.ascontiguousarray(np.packbits(matrix @ rotation > 0, axis=1).view(np.uint64).T)
    many = len(matrix) // 20

    def search(query: Matrix) -> NDArray[np.int64]:
        distance = np.zeros(len(matrix), np.uint16)
        for column, code in zip(
            codes, np.packbits(query @ rotation > 0).view(np.uint64), strict=True
        ):
            distance += np.bitwise_count(column ^ code)
        return rescored(matrix, np.argpartition(distance, many)[:many], query)

    return search, codes.nbytes


def turbovec_4bit(matrix: Matrix) -> tuple[Search, int]:
    import turbovec

    index = turbovec.TurboQuantIndex(matrix.shape[1], 4)
    index.add(matrix)
    index.prepare()

    def search(query: Matrix) -> NDArray[np.int64]:
        _, rows = index.search(query[None], 40)
        return rescored(matrix, rows[0].astype(np.int64), query)

    return search, matrix.nbytes // 8


def simsimd_int8(matrix: Matrix) -> tuple[Search, int]:
    import simsimd

    codes = np.round(matrix * 127 / np.abs(matrix).max()).astype(np.int8)

    def search(query: Matrix) -> NDArray[np.int64]:
        code = np.round(query * 127 / np.abs(query).max()).astype(np.int8)
        distance = np.asarray(simsimd.cdist(code[None], codes, metric="cos"))[0]
        return rescored(matrix, np.argpartition(distance, 40)[:40], query)

    return search, codes.nbytes


def faiss_sq8(matrix: Matrix) -> tuple[Search, int]:
    import faiss

    index = faiss.IndexScalarQuantizer(
        matrix.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.train(matrix[:20_000])
    index.add(matrix)
    return lambda query: rescored(matrix, index.search(query[None], 40)[1][0], query), (
        matrix.nbytes // 4
    )


def usearch_int8(matrix: Matrix) -> tuple[Search, int]:
    """Its exact scan: the graph takes minutes to build at 100,000 and cannot filter."""
    from usearch.index import MetricKind, search as scan

    codes = np.round(matrix * 127 / np.abs(matrix).max()).astype(np.int8)

    def search(query: Matrix) -> NDArray[np.int64]:
        code = np.round(query * 127 / np.abs(query).max()).astype(np.int8)
        found = scan(codes, code[None], 40, MetricKind.Cos, exact=True, threads=1)
        return rescored(matrix, np.ravel(found.keys).astype(np.int64), query)

    return search, codes.nbytes


CONTESTANTS: dict[str, Callable[[Matrix], tuple[Search, int]]] = {
    "numpy, all columns": bare_numpy,
    "LocalIndex": local_index,
    "64 leading columns": leading(64),
    "96 leading columns": leading(96),
    "128 leading columns": leading(128),
    "sign bits, 5 % rescored": sign_bits,
    "turbovec 4 bit": turbovec_4bit,
    "simsimd int8": simsimd_int8,
    "faiss SQ8": faiss_sq8,
    "usearch int8 exact": usearch_int8,
}


# -- data ----------------------------------------------------------------------------------------


def texts() -> tuple[list[str], list[str]]:
    """Texts of three kinds to store and hold out, and chat turns that resemble none of them."""
    home = Path(os.environ.get("REASONBANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    stored = [line.strip() for line in (home / "nl2bash/all.nl").open(errors="replace")]
    with (home / "metatool/all_clean_data.csv").open() as file:
        stored += [row[0] for row in csv.reader(file)][1:]
    stored += [str(json.loads(line)["text"]) for line in (home / "toollens/queries.jsonl").open()]
    chats = json.loads((home / "locomo/locomo10.json").read_text())
    unrelated = [
        turn["text"]
        for chat in chats
        for session in chat["conversation"].values()
        if isinstance(session, list)
        for turn in session
    ]
    for kind in (stored, unrelated):
        kind[:] = sorted({text[:300] for text in kind if len(text) > 15})
        random.Random(0).shuffle(kind)
    return stored, unrelated


def real_vectors() -> tuple[Matrix, Matrix]:
    cache = Path(tempfile.gettempdir()) / f"index-choice-{options.texts}.npz"
    if not cache.exists():
        stored, unrelated = texts()
        model = MiniLM()
        np.savez(
            cache,
            stored=model.embed(stored[: options.texts]),
            unrelated=model.embed(unrelated[:99]),
        )
    with np.load(cache) as kept:
        return kept["stored"], kept["unrelated"]


def like_texts(rows: int, rng: np.random.Generator) -> tuple[Matrix, dict[str, Matrix]]:
    """Real vectors mixed in pairs, with noise of up to a third of their length."""
    real, unrelated = real_vectors()
    held, base = real[: options.queries], real[options.queries :]
    matrix = np.empty((rows, real.shape[1]), np.float32)
    for at in range(0, rows, 50_000):
        count = min(50_000, rows - at)
        first, second = base[rng.integers(len(base), size=(2, count))]
        part = first + rng.uniform(0, 0.6, (count, 1)).astype(np.float32) * second
        matrix[at : at + count] = unit(part + noise(count, 0.35, rng))
    chosen = matrix[rng.integers(rows, size=options.queries)]
    return matrix, {
        "held-out texts": held,
        "near duplicates": unit(chosen + noise(len(chosen), 0.2, rng)),
        "unrelated texts": unrelated[: options.queries],
    }


def isotropic(rows: int, rng: np.random.Generator) -> tuple[Matrix, dict[str, Matrix]]:
    matrix = unit(rng.standard_normal((rows, 384), np.float32))
    return matrix, {"random": unit(rng.standard_normal((options.queries, 384)))}


def noise(count: int, length: float, rng: np.random.Generator) -> Matrix:
    scale = rng.uniform(0, length, (count, 1)).astype(np.float32) / np.sqrt(384)
    return rng.standard_normal((count, 384), np.float32) * scale


# -- the race ------------------------------------------------------------------------------------


def race(matrix: Matrix, queries: dict[str, Matrix]) -> Iterator[dict[str, object]]:
    searches: dict[str, tuple[Search, int, float]] = {}
    for name, build in CONTESTANTS.items():
        started = time.process_time()
        try:
            search, size = build(matrix)
            searches[name] = (search, size, time.process_time() - started)
        except ImportError as error:
            yield {"method": name, "skipped": f"not installed ({error.name})"}
    times: dict[str, list[float]] = {name: [] for name in searches}
    recalls: dict[str, dict[str, list[float]]] = {
        name: {kind: [] for kind in queries} for name in searches
    }
    for kind, batch in queries.items():
        for query in batch:
            gold: set[int] = set()
            for name, (search, _, _) in searches.items():
                started = time.perf_counter()
                rows = search(query)
                times[name].append(time.perf_counter() - started)
                gold = gold or set(rows.tolist())
                recalls[name][kind].append(len(gold & set(rows.tolist())) / TOP)
    base = np.array(times["numpy, all columns"])
    for name, (_, size, seconds) in searches.items():
        taken = np.array(times[name])
        yield {
            "method": name,
            "ms": round(1e3 * float(np.median(taken)), 2),
            "ratio": round(float(np.median(taken) / np.median(base)), 3),
            "ratio of minima": round(float(taken.min() / base.min()), 3),
            "recall": {kind: round(float(np.mean(got)), 4) for kind, got in recalls[name].items()},
            "extra MB": round(size / 1e6, 1),
            "build CPU s": round(seconds, 1),
        }


def main() -> None:
    results = []
    for rows in options.rows:
        for data in (like_texts, isotropic):
            if data is isotropic and rows > 100_000:
                continue
            matrix, queries = data(rows, np.random.default_rng(0))
            held = len(basis_of(matrix[:: max(1, rows // 20_000)]))
            print(f"\n{rows:,} rows, {data.__name__}, basis of {held} columns")
            print(f"{'':26}{'ms':>8}{'ratio':>8}{'minima':>8}{'MB':>8}{'build':>7}  recall@10")
            for result in race(matrix, queries):
                results.append({"rows": rows, "data": data.__name__, **result})
                if "skipped" in result:
                    print(f"{result['method']:26}{result['skipped']}")
                    continue
                print(
                    f"{result['method']:26}{result['ms']:8}{result['ratio']:8}"
                    f"{result['ratio of minima']:8}{result['extra MB']:8}"
                    f"{result['build CPU s']:7}  {result['recall']}"
                )
    out = Path(__file__).parent / "results" / "index_choice.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"threads": options.threads, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

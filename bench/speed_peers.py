"""Other stores that search vectors inside the process, each given the same vectors.

A peer is built in a folder from a matrix and answers a vector with row numbers, best first.
What is not installed raises ``ImportError``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Search = Callable[[Matrix], list[int]]
TOP = 10

CHROMA_COLD = """
import sys, numpy as np, chromadb
settings = chromadb.Settings(anonymized_telemetry=False)
client = chromadb.PersistentClient(sys.argv[1], settings=settings)
query = np.load(sys.argv[2])
print(client.get_collection("bench").query(query_embeddings=[query], n_results=10)["ids"])
"""


def chroma(folder: Path, matrix: Matrix) -> Search:
    import chromadb

    client = chromadb.PersistentClient(
        str(folder), settings=chromadb.Settings(anonymized_telemetry=False)
    )
    names = [found.name for found in client.list_collections()]
    if "bench" in names and client.get_collection("bench").count() == len(matrix):
        collection = client.get_collection("bench")
    else:
        collection = client.get_or_create_collection(
            "bench", metadata={"hnsw:space": "cosine"}, embedding_function=None
        )
        for start in range(0, len(matrix), 2000):
            part = matrix[start : start + 2000]
            ids = [str(i) for i in range(start, start + len(part))]
            collection.upsert(ids=ids, embeddings=part)

    def search(query: Matrix) -> list[int]:
        found = collection.query(query_embeddings=[query], n_results=TOP, include=["distances"])
        return [int(id) for id in found["ids"][0]]

    return search


def qdrant(folder: Path, matrix: Matrix) -> Search:
    import warnings

    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance, VectorParams

    client = QdrantClient(path=str(folder))
    if not client.collection_exists("bench"):
        shape = VectorParams(size=matrix.shape[1], distance=Distance.COSINE)
        client.create_collection("bench", vectors_config=shape)
    if client.count("bench").count != len(matrix):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It says that it was not made for so many.
            client.upload_collection("bench", vectors=matrix, ids=range(len(matrix)))
    return lambda query: [
        int(point.id) for point in client.query_points("bench", query=query, limit=TOP).points
    ]


def sqlite_vec(folder: Path, matrix: Matrix) -> Search:
    import apsw
    import sqlite_vec

    db = apsw.Connection(str(folder / "vectors.db"))
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.execute(
        f"create virtual table if not exists v using vec0"
        f"(id integer primary key, e float[{matrix.shape[1]}] distance_metric=cosine)"
    )
    if db.execute("select count(*) from v").fetchone()[0] != len(matrix):
        with db:
            db.executemany(
                "insert into v values (?, ?)", ((i, row.tobytes()) for i, row in enumerate(matrix))
            )

    def search(query: Matrix) -> list[int]:
        sql = f"select id from v where e match ? and k = {TOP} order by distance"
        return [row[0] for row in db.execute(sql, (query.tobytes(),))]

    return search


def lance(folder: Path, matrix: Matrix) -> Search:
    import lancedb
    import pyarrow as pa

    db = lancedb.connect(str(folder))
    try:
        table = db.open_table("bench")
    except ValueError:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        data = pa.table({"id": pa.array(range(len(matrix))), "vector": vectors})
        table = db.create_table("bench", data)
    return lambda query: (
        table.search(query)
        .distance_type("cosine")
        .limit(TOP)
        .select(["id", "_distance"])
        .to_arrow()["id"]
        .to_pylist()
    )


PEERS: dict[str, Callable[[Path, Matrix], Search]] = {
    "chromadb embedded (HNSW)": chroma,
    "qdrant-client local (exact)": qdrant,
    "sqlite-vec (exact)": sqlite_vec,
    "LanceDB without an index (exact)": lance,
}

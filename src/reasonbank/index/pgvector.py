"""Vectors in PostgreSQL, in a table beside the ledger's own.

Half-precision numbers, as the ledger has them, so nothing is lost. Where few rows are in
question each is looked at: that is exact, and quicker than a graph of which most is filtered
out. The graph is made when there are more. Followers take turns: the row that has the position is
locked while the rows before it are written, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import psycopg
from psycopg import errors

from reasonbank.index.address import Unavailable
from reasonbank.index.port import Unreachable
from reasonbank.index.served import AT_ONCE, Gone, Step
from reasonbank.ledger.postgres.errors import in_words
from reasonbank.ledger.postgres.pool import Pool
from reasonbank.ledger.postgres.tenants import OF_VECTORS, POLICY, VECTORS, show

if TYPE_CHECKING:
    from reasonbank.index.served import Floats, Found, Ints
    from reasonbank.ledger.postgres.pool import Handle
    from reasonbank.settings import IndexSettings

T = TypeVar("T")

FEW = 20_000
"""Up to so many rows each is looked at."""
EF_SEARCH = 400
NEIGHBOURS = 700
"""Bytes that the graph takes for a row besides its vector, while it is made; rounded up."""
MOST_ROOM = 2 << 30
OLDEST = (0, 8)
"""The first pgvector that goes on looking when a filter leaves too few (iterative scan)."""
MOST_DIMENSIONS = 4000
MARKER = -1
"""The number of the row that has the position, among those that it speaks of."""
LOCK = int.from_bytes(b"RBix")


def extension(pool: Pool, *, dimensions: int) -> str:
    """The schema that pgvector is in, made if that is allowed. Raises ``Unavailable``."""
    if dimensions > MOST_DIMENSIONS:
        raise Unavailable(f"pgvector takes {MOST_DIMENSIONS} numbers, and a vector has more")
    try:
        with pool.connection() as handle:
            if (found := _installed(handle)) is None:
                # Two that start at once would both find that it is not there.
                with handle.transaction():
                    handle.execute(b"select pg_advisory_xact_lock($1)", (LOCK,))
                    handle.execute(b"create extension if not exists vector with schema public")
                found = _installed(handle)
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        raise Unavailable("the PostgreSQL server has no pgvector") from None
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
        told = "pgvector is not set up there, and this user may not: `create extension vector`"
        raise Unavailable(told) from None
    except psycopg.Error as error:
        raise in_words(error, pool.address.shown) from None
    assert found is not None
    version, schema = found
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise Unavailable(f"pgvector {version} is older than 0.8: `alter extension vector update`")
    return schema


def _installed(handle: Handle) -> tuple[str, str] | None:
    row = handle.execute(
        b"select extversion, nspname from pg_extension"
        b" join pg_namespace on pg_namespace.oid = extnamespace where extname = 'vector'"
    ).fetchone()
    return None if row is None else (str(row[0]), str(row[1]))


class PgvectorEngine:
    def __init__(
        self, pool: Pool, *, schema: str, table: str, dimensions: int, settings: IndexSettings
    ) -> None:
        self.name = f"pgvector at {pool.address.shown}"
        self._pool = pool
        self._table = table
        self._dimensions = dimensions
        self._timeout = str(int(1000 * settings.timeout_seconds))
        own = '"' + schema.replace('"', '""') + '"'
        self._half = f"{own}.halfvec({dimensions})"
        self._full = f"{own}.vector({dimensions})"
        self._product = f"operator({own}.<#>)"
        self._classes = f"{own}.halfvec_ip_ops"
        self._send = f"{own}.halfvec_send"

    def position(self) -> int:
        return self._read(self._position)

    def begin(self) -> None:
        table = self._table
        statements = (
            f"create table if not exists {table} (num bigint primary key, realm bigint,"
            f" position bigint, vector {self._half})",
            f"create index if not exists {table}_realm on {table} (realm)",
            # Its owner sees all of it, a tenant what is its own.
            f"alter table {table} enable row level security",
            f"insert into {table} (num, position) values ({MARKER}, 0) on conflict do nothing",
        )

        def make(handle: Handle) -> None:
            handle.execute(b"select pg_advisory_xact_lock($1)", (LOCK,))
            for statement in statements:
                handle.execute(statement.encode())
            known = self._run(handle, "select to_regproc('tenant_realms')").fetchone()
            if known and known[0]:
                self._run(handle, f"drop policy if exists {POLICY} on {table}")
                self._run(handle, show(table, OF_VECTORS))

        self._write(make)

    def apply(self, step: Step) -> None:
        def work(handle: Handle) -> None:
            position = self._position(handle, lock=True)
            if position < step.after:
                return  # Another process began anew.
            new = np.flatnonzero(step.seqs > position)
            gone = step.dropped[step.dropped_seqs > position]
            self._put(handle, step.nums[new], step.realms[new], step.vectors[new])
            self._remove(handle, gone)
            sql = f"update {self._table} set position = $1 where num = {MARKER}"
            self._run(handle, sql, max(position, step.upto))
            # Much follows much: to add to a graph row by row takes far longer than to make it.
            if len(step.nums) + len(step.dropped) < AT_ONCE:
                self._grow(handle)

        self._write(work)

    def search(
        self, queries: Floats, realms: Sequence[int], limit: int, among: Ints | None
    ) -> tuple[list[Found], int]:
        def work(handle: Handle) -> tuple[list[tuple[Any, ...]], int]:
            position = self._position(handle)
            wanted: list[Any] = [[_text(query) for query in queries], list(realms), limit]
            if among is not None:
                wanted.append(among.tolist())
            few = among is not None or self._are_few(handle, realms)
            sql = self._by_each(filtered=among is not None) if few else self._by_graph()
            return self._run(handle, sql, *wanted).fetchall(), position

        rows, position = self._read(work)
        found: list[Found] = []
        for place in range(1, len(queries) + 1):
            mine = [(num, cosine) for which, num, cosine in rows if which == place]
            found.append(
                (
                    np.array([num for num, _ in mine], np.int64),
                    np.array([cosine for _, cosine in mine], np.float32),
                )
            )
        return found, position

    def fetch(self, nums: Ints) -> Found:
        sql = (
            f"select num, {self._send}(vector) from {self._table}"
            f" where num = any($1::bigint[]) and num <> {MARKER}"
        )
        rows = self._read(lambda handle: self._run(handle, sql, nums.tolist()).fetchall())
        # Two numbers of two bytes come first: how long it is, and nothing.
        packed = b"".join(bytes(vector)[4:] for _, vector in rows)
        vectors = np.frombuffer(packed, ">f2").astype(np.float32)
        return (
            np.array([num for num, _ in rows], np.int64),
            vectors.reshape(len(rows), self._dimensions),
        )

    def erase(self, nums: Ints) -> None:
        self._write(lambda handle: self._remove(handle, nums))

    def count(self) -> int:
        sql = f"select count(*) from {self._table} where num <> {MARKER}"
        row = self._read(lambda handle: self._run(handle, sql).fetchone())
        return int(row[0]) if row else 0

    def drop(self) -> None:
        self._write(lambda handle: self._drop(handle, self._table))

    def drop_others(self) -> None:
        sql = (
            "select relname from pg_class where relkind = 'r' and relname ~ $1"
            " and relnamespace = current_schema()::regnamespace"
        )

        def work(handle: Handle) -> None:
            for (name,) in self._run(handle, sql, f"^{VECTORS}$").fetchall():
                if name != self._table:
                    self._drop(handle, name)

        self._write(work)

    def close(self) -> None:
        """The connections are the ledger's."""

    def _position(self, handle: Handle, *, lock: bool = False) -> int:
        sql = f"select position from {self._table} where num = {MARKER}" + " for update" * lock
        row = self._run(handle, sql).fetchone()
        if row is None:
            raise Gone
        return int(row[0])

    def _put(self, handle: Handle, nums: Ints, realms: Ints, vectors: Floats) -> None:
        if len(nums):
            self._remove(handle, nums)
            sql = f"copy {self._table} (num, realm, vector) from stdin (format binary)"
            with handle.cursor().copy(sql.encode()) as rows:
                rows.write(_packed(nums, realms, vectors))

    def _remove(self, handle: Handle, nums: Ints) -> None:
        if len(nums):
            sql = f"delete from {self._table} where num = any($1::bigint[])"
            self._run(handle, sql, nums.tolist())

    def _grow(self, handle: Handle) -> None:
        """The graph, once there are so many rows that it pays."""
        sql = "select to_regclass($1) is not null"
        row = self._run(handle, sql, f"{self._table}_graph").fetchone()
        if (row and row[0]) or self._are_few(handle, None):
            return
        self._run(handle, "select set_config('statement_timeout', '0', true)")
        self._make_room(handle)
        make = (
            f"create index {self._table}_graph on {self._table}"
            f" using hnsw (vector {self._classes}) with (m = 16, ef_construction = 100)"
        )
        try:
            with handle.transaction():
                self._run(handle, make)
        except (errors.DiskFull, errors.OutOfMemory):
            # Several processes share the memory that a container has little of; one needs none.
            self._run(handle, "select set_config('max_parallel_maintenance_workers', '0', true)")
            self._run(handle, make)

    def _make_room(self, handle: Handle) -> None:
        """A graph that does not fit into the memory for it is made many times as slowly."""
        sql = (
            "select pg_size_bytes(current_setting('maintenance_work_mem')),"
            f" (select count(*) from {self._table})"
        )
        row = self._run(handle, sql).fetchone()
        wanted = min(int(row[1]) * (2 * self._dimensions + NEIGHBOURS), MOST_ROOM)
        if wanted > int(row[0]):
            sql = "select set_config('maintenance_work_mem', $1, true)"
            self._run(handle, sql, f"{wanted // 1024}kB")

    def _are_few(self, handle: Handle, realms: Sequence[int] | None) -> bool:
        of = "" if realms is None else "where realm = any($1::bigint[])"
        given = () if realms is None else (list(realms),)
        sql = (
            f"select count(*) from (select 1 from {self._table} {of} limit {FEW + 1}) as rows_there"
        )
        row = self._run(handle, sql, *given).fetchone()
        return row is None or int(row[0]) <= FEW

    def _by_each(self, *, filtered: bool) -> str:
        among = " and num = any($4::bigint[])" if filtered else ""
        # No graph is in this order, so that each row is looked at.
        return (
            f"{self._asked()} select place, num, cosine from asked cross join lateral"
            f" (select num, -(vector::{self._full} {self._product} query) as cosine"
            f" from {self._table} where realm = any($2::bigint[]){among}"
            " order by cosine desc, num limit $3) as found"
        )

    def _by_graph(self) -> str:
        return (
            f"{self._asked()}"
            f" select place, num, -(vector::{self._full} {self._product} query)"
            " from asked cross join lateral"
            f" (select num, vector from {self._table} where realm = any($2::bigint[])"
            f" order by vector {self._product} half limit $3) as found"
        )

    def _asked(self) -> str:
        """The questions, read once: as a part of the rest they would be read for every row."""
        return (
            f"with asked as materialized (select place, query::{self._full} as query,"
            f" query::{self._half} as half"
            " from unnest($1::text[]) with ordinality as given(query, place))"
        )

    def _drop(self, handle: Handle, table: str) -> None:
        self._run(handle, f"drop table if exists {table}")

    def _run(self, handle: Handle, sql: str, *values: Any) -> Any:
        return handle.execute(sql.encode(), values)

    def _read(self, work: Callable[[Handle], T]) -> T:
        return self._within(work, self._timeout)

    def _write(self, work: Callable[[Handle], T]) -> T:
        return self._within(work, "0")

    def _within(self, work: Callable[[Handle], T], timeout: str) -> T:
        settings = {
            "statement_timeout": timeout,
            "hnsw.ef_search": str(EF_SEARCH),
            "hnsw.iterative_scan": "strict_order",
        }
        calls = ", ".join(
            f"set_config('{name}', '{value}', true)" for name, value in settings.items()
        )
        try:
            with self._pool.connection() as handle, handle.transaction():
                handle.execute(f"select {calls}".encode())
                return work(handle)
        except errors.UndefinedTable:
            raise Gone from None
        except psycopg.Error as error:
            raise Unreachable(f"{self.name} failed: {in_words(error, self.name)}") from None


def _packed(nums: Ints, realms: Ints, vectors: Floats) -> bytes:
    """As COPY takes them: each number and vector after its length in bytes, and before a vector
    how many numbers it has. As text they take several times as long, here and there."""
    dimensions = vectors.shape[1]
    row = np.dtype([
        ("columns", ">i2"), ("of_num", ">i4"), ("num", ">i8"), ("of_realm", ">i4"),
        ("realm", ">i8"), ("of_vector", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"),
        ("vector", ">f2", dimensions),
    ])  # fmt: skip
    rows = np.zeros(len(nums), row)
    rows["columns"], rows["of_num"], rows["of_realm"] = 3, 8, 8
    rows["of_vector"], rows["dimensions"] = 4 + 2 * dimensions, dimensions
    rows["num"], rows["realm"], rows["vector"] = nums, realms, vectors
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff"


def _text(vector: Floats) -> str:
    return f"[{','.join(map('{:.9g}'.format, vector.tolist()))}]"

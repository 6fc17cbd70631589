"""pgvector, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.engines import postgres
from tests.index.served_contract import ServedContract

from reasonbank.settings import IndexSettings
from reasonbank.testing.index_contract import DIMENSIONS, OpenIndex, changes, some_vectors

if postgres.obstacle() is None:
    from reasonbank.index.pgvector import PgvectorEngine, extension
    from reasonbank.index.served import AT_ONCE, ServedIndex
    from reasonbank.ledger.postgres.address import address_of
    from reasonbank.ledger.postgres.pool import Pool


@pytest.fixture
def pools(new_postgres: Callable[[], str]) -> Iterator[Callable[[], Pool]]:
    """Connections to one database; as another process would have them."""
    url, made = new_postgres(), []

    def new() -> Pool:
        pool = Pool(address_of(url))
        made.append(pool)
        with pool.connection() as handle:
            handle.execute(b"create schema if not exists reasonbank")
        return pool

    yield new
    for pool in made:
        pool.close()


def opened(pool: Pool) -> ServedIndex:
    engine = PgvectorEngine(
        pool,
        schema=extension(pool, dimensions=DIMENSIONS),
        table="nearest_one",
        dimensions=DIMENSIONS,
        settings=IndexSettings(timeout_seconds=60.0),
    )
    return ServedIndex(engine, dimensions=DIMENSIONS, pause=0.0)


class TestPgvector(ServedContract):
    steps = 60

    @pytest.fixture
    def open_index(self, pools: Callable[[], Pool]) -> OpenIndex:
        return lambda: opened(pools())


class TestPgvectorByItsGraph(ServedContract):
    """Everything the contract asks, where no number of rows is small enough to look at each."""

    steps = 60

    @pytest.fixture
    def open_index(self, pools: Callable[[], Pool], monkeypatch: pytest.MonkeyPatch) -> OpenIndex:
        monkeypatch.setattr("reasonbank.index.pgvector.FEW", 0)
        return lambda: opened(pools())


def test_a_graph_is_made_once_the_index_has_caught_up(
    pools: Callable[[], Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: rows that are added to a graph one by one take many times as long."""
    monkeypatch.setattr("reasonbank.index.pgvector.FEW", 10)
    pool = pools()
    index = opened(pool)
    vectors = some_vectors(AT_ONCE + 1)

    def has_a_graph() -> bool:
        with pool.connection() as handle:
            sql = b"select to_regclass('nearest_one_graph') is not null"
            return bool(handle.execute(sql).fetchone()[0])

    index.follow(changes(range(AT_ONCE), vectors[:AT_ONCE]))
    assert not has_a_graph(), "a full step: more may follow"
    found, _ = index.nearest(vectors[7], realms=[1], limit=1)
    assert found.tolist() == [7], "what is there is found meanwhile"
    index.follow(replace(changes([AT_ONCE], vectors[AT_ONCE:], first=AT_ONCE + 1), after=AT_ONCE))
    assert has_a_graph()
    found, _ = index.nearest(vectors[AT_ONCE], realms=[1], limit=1)
    assert found.tolist() == [AT_ONCE]
    index.close()

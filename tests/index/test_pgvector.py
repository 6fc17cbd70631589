"""pgvector, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.engines import postgres
from tests.index.served_contract import ServedContract

from reasonbank.settings import IndexSettings
from reasonbank.testing.index_contract import DIMENSIONS, OpenIndex

if postgres.obstacle() is None:
    from reasonbank.index.pgvector import PgvectorEngine, extension
    from reasonbank.index.served import ServedIndex
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

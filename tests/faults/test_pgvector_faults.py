"""A bank in PostgreSQL finds by pgvector, and goes on without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from fault_tools import HASHED, a_memory
from tests.conftest import Fragile
from tests.engines import postgres
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import InvalidSetting
from reasonbank.settings import IndexSettings

QUESTION = "wait for the port"
AT_ONCE_AGAIN = replace(HASHED, index=IndexSettings(retry_seconds=0.0, timeout_seconds=30.0))


@contextmanager
def opened(url: str, *, settings=AT_ONCE_AGAIN) -> Iterator[Bank]:
    with Bank.open(url, settings=settings, embedder=Fragile()) as bank:
        yield bank


def table_of(db: psycopg.Connection) -> str:
    tables = "select tablename from pg_tables where tablename like 'nearest%'"
    [(name,)] = db.execute(tables).fetchall()
    return f"reasonbank.{name}"


def test_it_is_what_a_bank_in_postgresql_searches_unless_told_otherwise(postgres_url: str) -> None:
    with opened(postgres_url) as bank, opened(postgres_url) as other:
        stored = bank.record(a_memory())
        assert [hit.memory.id for hit in other.search(QUESTION)] == [stored.id]
        assert other.store.indexing.index.name.startswith("pgvector at ")
        with psycopg.connect(postgres_url) as db:
            assert db.execute(f"select count(realm) from {table_of(db)}").fetchone() == (1,)
        bank.forget(stored.id)
        with psycopg.connect(postgres_url) as db:
            assert db.execute(f"select count(realm) from {table_of(db)}").fetchone() == (0,)
    with opened(f"{postgres_url}?index=local") as bank:
        bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        assert bank.store.indexing.index.name == ""


@pytest.mark.parametrize("how", ["drop table", "truncate"])
@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_a_table_that_is_gone_or_emptied_under_a_bank_is_filled_again(
    postgres_url: str, how: str
) -> None:
    with opened(postgres_url) as bank:
        for number in range(10):
            bank.record(a_memory(f"Lesson {number}"))
        assert not bank.search(QUESTION).degraded
        with psycopg.connect(postgres_url) as db:
            db.execute(f"{how} {table_of(db)}")
        assert len(bank.search(QUESTION)) > 0
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 10


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_words_answer_while_the_vectors_are_locked(postgres_url: str) -> None:
    impatient = replace(HASHED, index=IndexSettings(timeout_seconds=0.5, retry_seconds=0.0))
    with opened(postgres_url, settings=impatient) as bank:
        stored = bank.record(a_memory())
        bank.embed_new()
        bank.store.indexing.follow()
        with psycopg.connect(postgres_url) as db:
            db.execute(f"lock table {table_of(db)} in access exclusive mode")
            reply = bank.search(QUESTION)
            assert [hit.memory.id for hit in reply] == [stored.id]
            assert reply.skipped == ("meaning",) and "statement timeout" in reply.notes[0]
        assert bank.search(QUESTION).skipped == ()


def test_it_is_found_again_after_the_server_was_killed(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    with opened(postgres_url) as bank:
        stored = bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        postgres_server.kill()
        postgres_server.start()
        reply = bank.search(QUESTION)
        assert ([hit.memory.id for hit in reply], reply.degraded) == ([stored.id], False)


def test_without_the_extension_the_local_index_answers_and_says_why(
    postgres_server: postgres.Server, new_postgres: Callable[[], str]
) -> None:
    database = new_postgres().rpartition("/")[2]
    postgres_server.execute(f"create role {database}_user login password 'plain'")
    postgres_server.execute(f"create schema reasonbank authorization {database}_user",
                            database=database)  # fmt: skip
    url = postgres_server.url(database, user=f"{database}_user", password="plain")
    with opened(url) as bank:
        bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        [check] = [check for check in bank.health().checks if check.name == "vectors"]
        assert "in the local index, because pgvector is not set up there" in check.found
    with (
        pytest.raises(InvalidSetting, match="create extension vector"),
        opened(f"{url}?index=pgvector"),
    ):
        pass


def test_it_may_be_in_a_schema_of_its_own(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    database = postgres_url.rpartition("/")[2]
    postgres_server.execute('create schema "more extensions"', database=database)
    postgres_server.execute('create extension vector schema "more extensions"', database=database)
    with opened(postgres_url) as bank:
        bank.record(a_memory())
        assert not bank.search(QUESTION).degraded
        assert len(bank.store.indexing.index) == 1

"""The server that other tests rely on."""

import psycopg
import pytest


def test_a_fresh_database_is_empty_and_needs_the_password(postgres_server, postgres_url):
    with psycopg.connect(postgres_url) as db:
        tables = "select count(*) from pg_tables where schemaname = 'public'"
        assert db.execute(tables).fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_server.url("postgres", password="wrong"))

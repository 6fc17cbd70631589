"""One suite over every ledger: on disk, on a server, and in memory with a third dialect."""

import itertools

import pytest

from reasonbank import Bank, Settings
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.settings import Embed
from reasonbank.testing import a_memory
from reasonbank.testing.ledger_contract import LedgerContract
from reasonbank.testing.memory_ledger import MemoryLedger


class TestSQLiteLedger(LedgerContract):
    @pytest.fixture
    def new_ledger(self, tmp_path):
        names = itertools.count()
        return lambda: SQLiteLedger(tmp_path / f"{next(names)}.db")

    def stored(self, ledger):
        files = ledger.path.parent.glob(f"{ledger.path.name}*")
        return b"".join(file.read_bytes() for file in files)


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def new_ledger(self):
        return MemoryLedger

    def stored(self, ledger):
        return ledger.db.dump().encode()


class TestPostgresLedger(LedgerContract):
    @pytest.fixture
    def new_ledger(self, new_postgres):
        from reasonbank.ledger.postgres import PostgresLedger

        return lambda: PostgresLedger(new_postgres())

    def stored(self, ledger):
        rows = []
        for (table,) in ledger.read().db.all(
            "select tablename from pg_tables where schemaname = 'reasonbank'"
        ):
            rows += ledger.read().db.all(f"select row_to_json(t)::text from {table} t")
        return "\n".join(row for (row,) in rows).encode()


def test_a_bank_can_be_opened_over_any_ledger(tmp_path):
    settings = Settings(embed=Embed(model="hashed"))
    with Bank.open(ledger=MemoryLedger(), workspace=tmp_path, settings=settings) as bank:
        memory = bank.record(a_memory(title="Retry the upload"))
        assert bank.search("upload")[0].memory.id == memory.id
        bank.feedback(memory.id, helpful=True)
        assert bank.get(memory.id).confidence > memory.confidence
        bank.forget(memory.id)
        assert not bank.search("upload")
        assert bank.statistics().store == "memory://"
    assert list(tmp_path.iterdir()) == []

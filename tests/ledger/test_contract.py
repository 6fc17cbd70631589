"""One suite over every ledger: the store on disk, and one in memory with another dialect."""

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

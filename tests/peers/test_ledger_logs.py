"""The logs as a bank keeps them in its ledger: what every ``Logs`` must do, on both engines."""

from __future__ import annotations

import pytest
from tests.peers.banks import Member

from reasonbank.testing.logs_contract import LogsContract


class TestLedgerLogs(LogsContract):
    @pytest.fixture
    def new_logs(self, tmp_path):
        made = []

        def make():
            made.append(Member(tmp_path, f"bank{len(made)}"))
            return made[-1].logs

        yield make
        for member in made:
            member.close()


class TestLogsOnAServer(LogsContract):
    @pytest.fixture
    def new_logs(self, tmp_path, new_postgres):
        made = []

        def make():
            made.append(Member(tmp_path, f"bank{len(made)}", url=new_postgres()))
            return made[-1].logs

        yield make
        for member in made:
            member.close()

"""Qdrant: the client's local mode, and a server where REASONBANK_TEST_QDRANT_URL names one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("qdrant_client")

from reasonbank.index.qdrant import QdrantEngine
from reasonbank.index.served import ServedIndex
from reasonbank.settings import IndexSettings
from reasonbank.testing.index_contract import DIMENSIONS, IndexContract, OpenIndex

SERVER = os.environ.get("REASONBANK_TEST_QDRANT_URL")


class TestQdrantInAFolder(IndexContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        # The client lets one at a time into a folder.
        engine = QdrantEngine(
            tmp_path / "qdrant", collection="c", family="c", dimensions=DIMENSIONS,
            settings=IndexSettings(),
        )  # fmt: skip
        return lambda: ServedIndex(engine, dimensions=DIMENSIONS)

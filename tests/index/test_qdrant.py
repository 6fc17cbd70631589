"""Qdrant: the client's local mode, and a server where REASONBANK_TEST_QDRANT_URL names one."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("qdrant_client")
from tests.index.served_contract import ServedContract

from reasonbank.index.qdrant import QdrantEngine
from reasonbank.index.served import ServedIndex
from reasonbank.settings import IndexSettings
from reasonbank.testing.index_contract import DIMENSIONS, OpenIndex

SERVER = os.environ.get("REASONBANK_TEST_QDRANT_URL")


class TestQdrantInAFolder(ServedContract):
    steps = 20

    @pytest.fixture
    def open_index(self) -> Iterator[OpenIndex]:
        # It waits for the disk with every point: there is none here.
        folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        # The client lets one at a time into a folder: all share it here.
        engine = QdrantEngine(
            Path(folder), collection="c", family="c", dimensions=DIMENSIONS,
            settings=IndexSettings(),
        )  # fmt: skip
        yield lambda: ServedIndex(engine, dimensions=DIMENSIONS, pause=0.0)
        engine.close()
        shutil.rmtree(folder)


@pytest.mark.skipif(SERVER is None, reason="REASONBANK_TEST_QDRANT_URL names no server")
class TestQdrantServer(ServedContract):
    steps = 40

    @pytest.fixture(params=["none", "scalar"])
    def open_index(self, request: pytest.FixtureRequest) -> Iterator[OpenIndex]:
        assert SERVER is not None
        name, made = f"reasonbank-test-{uuid.uuid4()}", []

        def make() -> ServedIndex:
            engine = QdrantEngine(
                SERVER, collection=name, family=name, dimensions=DIMENSIONS,
                settings=IndexSettings(quantization=request.param),
                key=os.environ.get("QDRANT_API_KEY"),
            )  # fmt: skip
            made.append(ServedIndex(engine, dimensions=DIMENSIONS, pause=0.0))
            return made[-1]

        yield make
        make().reset()
        for index in made:
            index.close()

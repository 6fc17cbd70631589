"""Chroma: a real server, and the engine inside the process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.engines import chroma
from tests.index.served_contract import ServedContract

from reasonbank.index.chroma import ChromaEngine, Folder, Server
from reasonbank.index.served import ServedIndex
from reasonbank.settings import IndexSettings
from reasonbank.testing.index_contract import DIMENSIONS, OpenIndex

NAMES = (f"bank-{n}" for n in itertools.count(1))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chroma.Server]:
    chroma.needed()
    server = chroma.Server(tmp_path_factory.mktemp("chroma"))
    yield server
    server.kill()


def on_server(server: chroma.Server, name: str, **settings: float) -> ServedIndex:
    transport = Server(server.url, settings=IndexSettings(**settings), key=None)
    return opened(transport, name)


def opened(transport: Server | Folder, name: str) -> ServedIndex:
    engine = ChromaEngine(
        transport, name=transport.name, collection=name, family=name, dimensions=DIMENSIONS
    )
    return ServedIndex(engine, dimensions=DIMENSIONS, pause=0.0)


def closed_in_the_end(open_index: Callable[[], ServedIndex]) -> Iterator[OpenIndex]:
    made: list[ServedIndex] = []

    def make() -> ServedIndex:
        made.append(open_index())
        return made[-1]

    yield make
    for index in made:
        index.close()


class TestChromaServer(ServedContract):
    steps = 20

    @pytest.fixture
    def open_index(self, server: chroma.Server) -> Iterator[OpenIndex]:
        name = next(NAMES)
        yield from closed_in_the_end(lambda: on_server(server, name))


class TestChromaInAFolder(ServedContract):
    steps = 40

    @pytest.fixture
    def open_index(self, tmp_path: Path) -> Iterator[OpenIndex]:
        chroma.needed()
        yield from closed_in_the_end(lambda: opened(Folder(tmp_path / "chroma"), "one"))

"""After an upgrade of the embedding model: processes that stay open make all vectors anew."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import other_model
import pytest
from fault_tools import a_memory, open_bank
from other_model import NEW, Named
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.embed.calibration import CALIBRATIONS
from reasonbank.store import memories
from reasonbank.store.vectors import SIP

COUNT = 200
OPENING = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize",
     "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]  # fmt: skip


class House:
    """A bank full of an earlier model's vectors, and what is done to it from outside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told = path.parent / "told"
        with open_bank(path, embedder=Named("old-1")) as bank:
            record(bank, COUNT)
            assert bank.embed_new() == COUNT
        self.bank = open_bank(path, embedder=Named("new-1"))

    def arguments(self, *arguments: str) -> dict[str, Any]:
        script = [sys.executable, other_model.__file__, "new-1", str(self.told), "--json",
                  "--workspace", "/project"]  # fmt: skip
        home = {"HOME": str(self.path.parent), "XDG_DATA_HOME": str(self.path.parent)}
        url = {"REASONBANK_URL": f"sqlite:///{self.path}", "REASONBANK_EMBED_MODEL": "hashed"}
        return {
            "args": [*script, *arguments], "env": os.environ | home | url,
            "cwd": self.path.parent, "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
        }  # fmt: skip

    def run(self, *arguments: str) -> Any:
        options = self.arguments(*arguments) | {"stdin": subprocess.DEVNULL}
        return json.loads(subprocess.run(**options, check=True).stdout)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(**self.arguments(*arguments))
        try:
            if arguments == ("mcp",):
                assert process.stdin is not None
                process.stdin.write("".join(json.dumps(each) + "\n" for each in OPENING).encode())
                process.stdin.flush()
            yield process
        finally:
            process.kill()
            process.communicate()

    @property
    def left(self) -> int:
        """How many have no vector of the new model."""
        return sum(self.bank.store.ledger.read().unembedded_count("new-1"))

    def embedded(self) -> Counter[str]:
        return Counter(
            line for line in self.told.read_text().splitlines() if line.startswith("Lesson")
        )

    def vectors(self) -> str:
        checks = self.run("doctor")["checks"]
        return str(next(check["found"] for check in checks if check["name"] == "vectors"))


def record(bank: Bank, count: int, name: str = "Lesson") -> None:
    """Not by ``record``, whose process would embed them soon."""
    context, told = bank.context, [a_memory(f"{name} {i}") for i in range(count)]
    context.write(lambda txn: [memories.record_in(context, txn, memory) for memory in told])


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


@pytest.fixture(autouse=True)
def compatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALIBRATIONS, NEW.model, NEW)


@pytest.fixture
def house(path: Path) -> Iterator[House]:
    house = House(path)
    yield house
    house.bank.close()


@requirement("RET-11")
@pytest.mark.parametrize("surface", ["worker", "serve --port 0", "mcp"])
def test_whatever_stays_open_makes_vectors_anew_and_doctor_shows_how_far_it_is(
    house: House, surface: str
) -> None:
    assert f"re-embedding: {COUNT} of {COUNT} memories" in house.vectors()
    with house.running(*surface.split()):
        until(lambda: house.left == 0)
    assert house.vectors() == f"{COUNT} in step with the store"
    assert set(house.embedded().values()) == {1}


@requirement("RET-11")
def test_one_that_is_killed_loses_nothing_and_the_next_one_goes_on(house: House) -> None:
    with house.running("worker") as process:
        until(lambda: house.left < COUNT)
        process.kill()
        process.wait()
    left = house.left
    assert 0 < left < COUNT
    reply = house.run("search", "fixed sleep")
    assert f"re-embedding: {left} of {COUNT} memories still have vectors of old-1" in reply["notes"]
    assert not reply["degraded"]
    with house.running("worker"):
        until(lambda: house.left == 0)
    embedded = house.embedded()
    assert len(embedded) == COUNT
    assert embedded.total() <= COUNT + SIP, "only what was under way is done again"


@requirement("RET-11")
@requirement("DIS-11")
def test_two_processes_and_a_reindex_embed_each_memory_once(house: House) -> None:
    with house.running("worker"), house.running("worker"), house.running("reindex") as third:
        assert third.wait(120) == 0
        assert house.left == 0
    assert set(house.embedded().values()) == {1}
    assert len(house.embedded()) == COUNT


@requirement("RET-11")
def test_what_only_looks_in_makes_no_vectors_anew(house: House) -> None:
    assert len(house.run("search", "fixed sleep")["memories"])
    house.run("list")
    house.run("stats")
    assert house.left == COUNT


@requirement("RET-11")
def test_vectors_of_an_incompatible_model_are_made_anew_as_well(path: Path) -> None:
    house = House(path)
    with open_bank(path, embedder=Named("strange-1")) as bank:
        bank.reindex()
    assert house.bank.search("fixed sleep").degraded
    with house.running("worker"):
        until(lambda: house.left == 0)
    assert not house.bank.search("fixed sleep").notes
    house.bank.close()


@requirement("RET-13")
def test_a_process_with_time_embeds_what_another_has_recorded(house: House) -> None:
    house.run("reindex")
    with house.running("worker"):
        for _ in range(2):
            record(house.bank, 100, "Burst")
            until(lambda: house.left == 0)
    told = house.told.read_text().splitlines()
    assert sum(line.startswith("Burst") for line in told) == 200

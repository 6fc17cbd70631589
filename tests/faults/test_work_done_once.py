"""Several processes on one bank share its work: each text is embedded by one of them."""

from __future__ import annotations

import fcntl
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fault_tools import a_memory, child, open_bank, processes
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import MiniLM
from reasonbank.store import memories
from reasonbank.store.vectors import embedding_text

PROCESSES = 8
EACH = 10
EMBEDDERS = {"hashed": Hashed, "minilm": MiniLM}


def counting(kind: Any) -> Any:
    class Counting(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.texts: Counter[str] = Counter()

        def embed(self, texts: Any) -> Any:
            self.texts.update(texts)
            return super().embed(texts)

    return Counting()


def titled(number: int, i: int) -> Any:
    return a_memory(f"Process {number} memory {i}", content=f"What {number} saw at {i}.")


def record_and_search(path: Path, kind: str, start: Any, pipe: Any, number: int) -> None:
    embedder = counting(EMBEDDERS[kind])
    with open_bank(path, embedder=embedder) as bank:
        start.wait(60)
        for i in range(EACH):
            memory = bank.record(titled(number, i))
            if i % 4 == number % 4:
                found = bank.search(memory.title, limit=100)
                assert memory.id in {hit.memory.id for hit in found}
    pipe.send(embedder.texts)


@requirement("DIS-11")
@pytest.mark.parametrize(
    "kind", ["hashed", pytest.param("minilm", marks=pytest.mark.slow)], ids=["hashed", "minilm"]
)
def test_eight_processes_embed_each_text_once(path: Path, kind: str) -> None:
    open_bank(path).close()
    start = processes.Barrier(PROCESSES)
    pipes, started = [], []
    for number in range(PROCESSES):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(
            target=record_and_search, args=(path, kind, start, theirs, number), daemon=True
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        started.append(process)
    embedded: Counter[str] = sum((pipe.recv() for pipe in pipes), Counter())
    for process in started:
        process.join(60)
    wanted = [embedding_text(titled(n, i)) for n in range(PROCESSES) for i in range(EACH)]
    times = {text: embedded[text] for text in wanted}
    print(f"{len(wanted)} texts recorded, embedded {sum(times.values())} times")
    assert set(times.values()) == {1}
    with open_bank(path, embedder=counting(EMBEDDERS[kind])) as bank:
        assert bank.store.ledger.read().unembedded_count(EMBEDDERS[kind].name) == (0, 0)


class Stuck(Hashed):
    """Says when it begins to embed, and never ends."""

    def __init__(self, pipe: Any) -> None:
        self.pipe = pipe

    def embed(self, texts: Any) -> Any:
        self.pipe.send(True)
        signal.pause()
        return super().embed(texts)


def embed_for_ever(path: Path, pipe: Any) -> None:
    open_bank(path, embedder=Stuck(pipe)).embed_new()


def recorded_only(path: Path) -> None:
    """Not by ``record``, whose process would embed it soon."""
    with open_bank(path) as bank:
        context = bank.context
        context.write(lambda txn: memories.record_in(context, txn, a_memory()))


def found_by_meaning(bank: Bank) -> tuple[bool, bool]:
    """Whether the memory is found by its vector, and whether a note says that it has none."""
    reply = bank.search("Wait for the port", explain=True)
    [hit] = reply
    return "cosine" in hit.parts, any("not embedded yet" in note for note in reply.notes)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasonbank.store.vectors.PATIENCE", 0.0)


@pytest.mark.usefixtures("impatient")
@requirement("DIS-11")
def test_a_process_that_is_killed_while_it_embeds_keeps_nobody_from_it(path: Path) -> None:
    recorded_only(path)
    ours, theirs = processes.Pipe(duplex=False)
    with open_bank(path) as bank, child(embed_for_ever, path, theirs) as process:
        theirs.close()
        assert ours.recv()
        assert found_by_meaning(bank) == (False, True), "found all the same, by its words"
        process.kill()
        process.join()
        assert found_by_meaning(bank) == (True, False)


@pytest.mark.usefixtures("impatient")
@requirement("DIS-11")
def test_a_process_that_stands_still_while_it_embeds_is_not_waited_for(path: Path) -> None:
    recorded_only(path)
    lock = path.with_name(f"{path.name}.embedding")
    with open(lock, "w") as suspended, open_bank(path) as bank:
        fcntl.flock(suspended, fcntl.LOCK_EX)
        assert found_by_meaning(bank) == (False, True)
        os.utime(lock, (0, 0))
        assert bank.embed_new() == 1
        assert found_by_meaning(bank) == (True, False)

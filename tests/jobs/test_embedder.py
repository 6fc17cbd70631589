"""What a process that stays open does for vectors beside its work."""

from __future__ import annotations

import os
import threading
import time

import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank.jobs.embedder import NICE, BackgroundEmbedder
from reasonbank.settings import Embed, Settings
from reasonbank.store import memories
from reasonbank.testing import a_memory

SECONDS = 30


class Watched(Fragile):
    """Keeps who embedded what: the thread's priority, and whether a search was under way."""

    def __init__(self, name):
        super().__init__(name)
        self.bank = None
        self.calls = []
        self.embedded = threading.Event()

    def embed(self, texts):
        nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        self.calls.append((len(texts), nice, self.bank.store.indexing.is_asked))
        if len(texts) > 1:
            self.embedded.set()
        return super().embed(texts)


@pytest.fixture
def watched(open_bank):
    with open_bank.with_embedder(Fragile("old-1")) as bank:
        for i in range(3):
            bank.record(a_memory(title=f"upload {i}"))
    embedder = Watched("new-1")

    def opened(settings=None):
        embedder.bank = open_bank.with_embedder(
            embedder, **({"settings": settings} if settings else {})
        )
        return embedder

    return opened


@requirement("RET-11")
def test_vectors_are_made_anew_at_low_priority_and_not_within_a_search(watched):
    embedder = watched()
    background = BackgroundEmbedder(embedder.bank.context)
    background.start()
    assert embedder.embedded.wait(SECONDS)
    background.join()
    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert embedder.calls == [(3, min(usual + NICE, 19), False)]
    embedder.bank.search("retry uploads")
    assert embedder.calls[1:] == [(1, usual, True)]


@requirement("RET-11")
def test_where_each_text_costs_money_only_new_ones_are_embedded_unasked(watched, open_bank):
    embedder = watched(Settings(embed=Embed(model="api")))
    bank = embedder.bank
    background = BackgroundEmbedder(bank.context)
    background.start()
    recorded_elsewhere(open_bank, 2)
    assert embedder.embedded.wait(SECONDS)
    background.join()
    assert [count for count, *_ in embedder.calls] == [2]
    assert bank.store.ledger.read().embedded_elsewhere("new-1") == {"old-1": 3}


def test_a_model_that_fails_ends_nothing_and_a_bank_for_reading_is_left_alone(watched, open_bank):
    embedder = watched()
    embedder.broken = True
    background = BackgroundEmbedder(embedder.bank.context)
    background.start()
    assert embedder.embedded.wait(SECONDS)
    background.join()
    assert embedder.bank.statistics().embedded_by_other_models == 3
    reader = BackgroundEmbedder(open_bank(read_only=True).context)
    reader.start()
    reader.join()


def recorded_elsewhere(open_bank, count):
    """Not by `record`, whose process would embed them soon."""
    with open_bank.with_embedder(Fragile("another")) as other:
        context = other.context
        told = [a_memory(title=f"new {i}") for i in range(count)]
        context.write(lambda txn: [memories.record_in(context, txn, memory) for memory in told])


@requirement("RET-13")
@pytest.mark.parametrize(
    ("call", "longest_burst"), [("look", 10**9), ("wake", 2)], ids=["records", "searches"]
)
def test_new_memories_are_embedded_though_calls_go_on(open_bank, monkeypatch, call, longest_burst):
    """Elsewhere somebody records without end; or here somebody searches without end."""
    monkeypatch.setattr("reasonbank.store.vectors.LONGEST_BURST", longest_burst)
    recorded_elsewhere(open_bank, 200)
    bank = open_bank.with_embedder(Fragile("new-1"))
    stopping = threading.Event()

    def go_on():
        while not stopping.wait(0.001):
            getattr(bank.store.indexing, call)()

    calls = threading.Thread(target=go_on)
    calls.start()
    try:
        deadline = time.monotonic() + SECONDS
        while bank.statistics().not_embedded:
            assert time.monotonic() < deadline
    finally:
        stopping.set()
        calls.join()

"""One way to search fails: the other answers, and the reply says what was not searched."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest
from fault_tools import a_memory, open_bank
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import StorageError
from reasonbank.index.local import LocalIndex


class Down(LocalIndex):
    """An index whose server has gone away."""

    down = False

    def __init__(self, method: str) -> None:
        super().__init__(None, dimensions=Fragile().dimensions, model="any")
        self.method = method

    def __getattribute__(self, name):
        # As with a vendor's client: any call may fail from one moment to the next.
        get = super().__getattribute__
        if name in ("follow", "nearest", "vectors") and get("down") and name == get("method"):
            raise StorageError("the index cannot be reached")
        return get(name)


@pytest.mark.parametrize("method", ["follow", "nearest", "vectors"])
@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_words_answer_while_the_index_is_down(path: Path, method: str) -> None:
    index = Down(method)
    with open_bank(path, embedder=Fragile(), index=index) as bank:
        stored = bank.record(a_memory())
        assert bank.search("wait for the port").skipped == ()

        index.down = True
        bank.record(a_memory("Another lesson about ports"))
        reply = bank.search("wait for the port")
        assert reply[0].memory.id == stored.id
        assert reply.skipped == ("meaning",)
        assert reply.degraded
        assert "the index failed, so only words were searched" in reply.notes[0]
        assert reply.to_json()["skipped"] == ["meaning"]

        index.down = False
        assert bank.search("wait for the port").skipped == ()


def damage_full_text(path: Path) -> None:
    """Overwrite what full text is kept in, as a bad disk would."""
    db = apsw.Connection(str(path))
    for id, length in db.execute("select id, length(block) from words_data").fetchall():
        db.execute("update words_data set block = ? where id = ?", (b"\xff" * length, id))
    db.close()


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_meaning_answers_while_the_full_text_is_damaged(path: Path) -> None:
    with open_bank(path, embedder=Fragile()) as bank:
        stored = bank.record(a_memory())
        bank.embed_new()
    damage_full_text(path)
    with open_bank(path, embedder=Fragile()) as bank:
        reply = bank.search("wait for the port")
        assert [hit.memory.id for hit in reply] == [stored.id]
        assert reply.skipped == ("words",)
        assert reply.degraded
        assert "full text failed, so only meaning was searched" in reply.notes[0]
        assert "maintain --rebuild" in reply.notes[0]

        bank.rebuild()
        bank.embed_new()
        assert bank.search("wait for the port").skipped == ()


@requirement("RET-12", left="a scope that lives in a backend of its own")
@pytest.mark.parametrize("gone", ["words_idx", "words"])
def test_a_full_text_that_is_missing_is_skipped_as_well(path: Path, gone: str) -> None:
    with open_bank(path, embedder=Fragile()) as bank:
        bank.record(a_memory())
        bank.embed_new()
    db = apsw.Connection(str(path))
    db.execute(f"drop table {gone}")
    db.close()
    with open_bank(path, embedder=Fragile()) as bank:
        reply = bank.search("wait for the port")
        assert len(reply) == 1 and reply.skipped == ("words",)


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_with_both_down_the_search_fails_and_says_why(path: Path) -> None:
    index = Down("nearest")
    with open_bank(path, embedder=Fragile(), index=index) as bank:
        bank.record(a_memory())
        bank.embed_new()
        damage_full_text(path)
        index.down = True
        with pytest.raises(StorageError, match="full text"):
            bank.search("wait for the port")
        assert bank.statistics().searches.failed == 1


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_without_a_ledger_the_search_fails_and_says_why(path: Path) -> None:
    bank = open_bank(path)
    bank.record(a_memory())
    bank.close()
    with pytest.raises(StorageError, match="closed"):
        bank.search("wait for the port")


@requirement("RET-12", left="a scope that lives in a backend of its own")
def test_an_index_file_that_is_cut_short_under_a_live_process_is_made_anew(path: Path) -> None:
    bank = filled(path)
    (file,) = path.parent.glob("*.index")
    os.truncate(file, 5000)

    reply = bank.search("wait for the port")
    assert reply.skipped == ("meaning",)
    assert len(reply) > 0
    again = bank.search("wait for the port")
    assert again.skipped == ()
    assert len(bank.store.indexing.index) == 120
    bank.close()
    with open_bank(path, embedder=Fragile()) as bank:
        assert bank.search("wait for the port").skipped == ()


def test_a_cut_index_file_stops_neither_recording_nor_forgetting(path: Path) -> None:
    bank = filled(path)
    (file,) = path.parent.glob("*.index")
    os.truncate(file, 5000)
    new = bank.record(a_memory("One more"))
    bank.forget(new.id)
    assert bank.search("wait for the port").skipped == ()
    bank.close()


def filled(path: Path) -> Bank:
    """A bank whose index is mapped from its file."""
    with open_bank(path, embedder=Fragile()) as bank:
        for number in range(120):
            bank.record(a_memory(f"Wait for the port, way {number}"))
        bank.embed_new()
        bank.search("wait for the port")
    bank = open_bank(path, embedder=Fragile())
    assert bank.search("wait for the port").skipped == ()
    return bank

"""A bank whose vectors are of an earlier model than the one in use."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank.embed.calibration import CALIBRATIONS, EmbeddingCalibration
from reasonbank.health import examine_bank
from reasonbank.settings import Embed, Settings
from reasonbank.store import memories
from reasonbank.store.vectors import embedding_text
from reasonbank.testing import a_memory

QUESTION = "retry uploads"


@pytest.fixture(autouse=True)
def compatible(monkeypatch):
    row = EmbeddingCalibration(model="new", threshold=0.1, compatible=("old",))
    monkeypatch.setitem(CALIBRATIONS, "new", row)


def filled(open_bank, name="old-1", count=5):
    with open_bank.with_embedder(Fragile(name)) as bank:
        return [bank.record(a_memory(title=f"upload {i}")) for i in range(count)]


def vectors_check(bank):
    return next(check for check in examine_bank(bank.context) if check.name == "vectors")


def found_by_meaning(bank):
    reply = bank.search(QUESTION, limit=50, explain=True)
    return {hit.memory.id for hit in reply if "cosine" in hit.parts}, reply


@requirement("RET-11")
def test_vectors_of_a_compatible_model_are_searched_and_the_reply_says_so(open_bank):
    old = filled(open_bank)
    bank = open_bank.with_embedder(Fragile("new-1"))
    new = bank.record(a_memory(title="upload anew"))
    found, reply = found_by_meaning(bank)
    assert found == {memory.id for memory in [*old, new]}
    assert reply.notes == ("re-embedding: 5 of 6 memories still have vectors of old-1",)
    assert not reply.degraded
    check = vectors_check(bank)
    assert check.status == "ok"
    assert "re-embedding: 5 of 6 memories" in check.found


@requirement("RET-11")
def test_one_by_one_they_are_replaced_and_then_nothing_is_said(open_bank):
    filled(open_bank)
    embedder = Fragile("new-1")
    bank = open_bank.with_embedder(embedder)
    indexing = bank.store.indexing
    assert indexing.renew(2) == 2
    found, reply = found_by_meaning(bank)
    assert len(found) == 5
    assert reply.notes == ("re-embedding: 3 of 5 memories still have vectors of old-1",)
    assert indexing.renew(64) == 3
    assert indexing.renew(64) == 0
    assert bank.search(QUESTION).notes == ()
    assert bank.statistics().embedded_by_other_models == 0
    assert vectors_check(bank).found == "5 in step with the store"


class Turned(Fragile):
    """Another model: the same text points elsewhere."""

    def embed(self, texts):
        return np.roll(super().embed(texts), 1, axis=1)


@requirement("RET-11")
@pytest.mark.parametrize("move", ["archive", "nothing"])
def test_the_newer_vector_counts_whatever_is_read_first(open_bank, move):
    [memory] = filled(open_bank, count=1)
    with open_bank.with_embedder(Turned("new-1")) as bank:
        bank.search(QUESTION)
        assert bank.store.indexing.renew(9) == 1
        if move == "archive":  # All its vectors move to another partition.
            bank.archive(memory.id)
            bank.restore(memory.id)
    for path in open_bank.folder.glob("*.index"):
        path.unlink()
    bank = open_bank.with_embedder(Turned("new-1"))
    bank.store.indexing.follow()
    row = bank.context.row(bank.context.read(), memory.id)
    stored = bank.store.indexing.index.vectors(np.array([row.num]))[0]
    own = Turned("x").embed([embedding_text(row.memory())])[0]
    assert float(stored @ own) == pytest.approx(1.0, abs=0.01)


@requirement("RET-11")
def test_a_model_of_another_size_is_not_taken_for_a_compatible_one(open_bank):
    class Wide(Fragile):
        dimensions = 768

        def embed(self, texts):
            return np.repeat(super().embed(texts), 2, axis=1) / np.float32(np.sqrt(2))

    with open_bank.with_embedder(Wide("old-wide")) as bank:
        bank.record(a_memory())
    bank = open_bank.with_embedder(Fragile("new-1"))
    found, reply = found_by_meaning(bank)
    assert not found
    assert len(reply) == 1


@requirement("RET-11")
def test_what_is_forgotten_meanwhile_is_gone_from_every_index(open_bank):
    old = filled(open_bank)
    one = open_bank.with_embedder(Fragile("new-1"))
    two = open_bank.with_embedder(Fragile("new-1"))
    assert len(found_by_meaning(one)[0]) == len(found_by_meaning(two)[0]) == 5
    row = one.context.row(one.context.read(), old[0].id)
    one.forget(old[0].id)
    one.reindex()
    two.store.indexing.follow()
    assert not two.store.indexing.index.vectors(np.array([row.num])).any()


@requirement("RET-11")
def test_two_models_in_use_at_once_do_not_undo_each_others_work(open_bank):
    filled(open_bank, "one", 3)
    one = open_bank.with_embedder(Fragile("one"))
    two = open_bank.with_embedder(Fragile("two"))
    two.record(a_memory(title="upload anew"))
    two.embed_new()
    for bank, work in ((two, 3), (one, 1), (two, 0), (one, 0)):
        assert bank.store.indexing.renew(64) == work
        assert len(found_by_meaning(bank)[0]) == 4
        assert bank.search(QUESTION).notes == ()
    assert one.reindex().embedded == 0
    assert len(found_by_meaning(one)[0]) == 4
    assert len(one.memories()) == 4 and one.store.indexing.renew(64) == 0


@requirement("RET-11")
def test_doctor_says_who_embeds_what_another_model_has_embedded(open_bank):
    filled(open_bank, "elsewhere")
    bank = open_bank.with_embedder(Fragile("new-1"))
    check = vectors_check(bank)
    assert (check.status, check.repair) == ("warn", "reasonbank reindex")
    assert "5 by another model; a server or a worker embeds them anew" in check.found
    with bank.store.indexing.renewing.taken(seconds=0):
        other = open_bank.with_embedder(Fragile("new-1"))
        assert "being embedded anew in the background" in vectors_check(other).found
    costly = Settings(embed=Embed(model="api"))
    bank = open_bank.with_embedder(Fragile("new-1"), settings=costly)
    assert "each costs a call" in vectors_check(bank).found


@requirement("RET-11")
def test_what_was_learned_under_the_earlier_model_still_counts(open_bank):
    def parts(name):
        with open_bank.with_embedder(Fragile(name)) as bank:
            return bank.search(QUESTION, explain=True)[0].parts

    with open_bank.with_embedder(Fragile("old-1")) as bank:
        bank.record(a_memory())
        for i in range(6):
            bank.search(QUESTION, session=f"task {i}")
            bank.credit(f"task {i}", succeeded=True)
    assert parts("new-1") == parts("old-1")
    assert parts("stranger") != parts("old-1")


@requirement("RET-13")
def test_of_many_new_memories_those_that_the_words_find_are_embedded_first(open_bank):
    bank = open_bank.with_embedder(Fragile("new-1"))
    wanted = a_memory(title="zyzzyva", description="attic", content="weevils")
    told = [wanted, *(a_memory(title=f"upload {i}") for i in range(100))]
    # Not by `record`, after which they would be embedded soon.
    context = bank.context
    context.write(lambda txn: [memories.record_in(context, txn, memory) for memory in told])
    reply = bank.search("zyzzyva weevils", explain=True)
    assert reply[0].memory.id == wanted.id
    assert "cosine" in reply[0].parts
    assert bank.statistics().not_embedded == 100
    assert any("100 memories not embedded yet" in note for note in reply.notes)
    bank.search(QUESTION)
    assert bank.statistics().not_embedded == 100 - 32

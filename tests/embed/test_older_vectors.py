"""What a new packaged model means for banks that an older release wrote."""

from __future__ import annotations

from tests.conftest import Opener
from tests.requirement import requirement

from reasonbank.embed.calibration import CALIBRATIONS, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.testing import a_memory

OLD, NEW = "all-MiniLM-L6-v2-int8", "reasonbank-minilm-1"


class Older(MiniLM):
    name = OLD


class Newer(MiniLM):
    name = NEW


@requirement("RET-11")
def test_only_vectors_that_were_measured_to_go_together_are_compared():
    assert calibration_for(NEW).compatible == ("all-MiniLM-L6-v2",)
    others = {name: row.compatible for name, row in CALIBRATIONS.items() if name != NEW}
    assert not any(others.values())
    assert not calibration_for("some-model-of-tomorrow").compatible


def test_the_packaged_model_is_calibrated_under_either_name():
    assert calibration_for(OLD).model == "all-MiniLM-L6-v2"
    assert calibration_for(NEW).model == NEW
    assert calibration_for(MiniLM.name).model


@requirement("RET-11")
def test_a_bank_of_the_older_name_opens_answers_and_is_embedded_anew(open_bank: Opener):
    with open_bank(embedder=Older()) as bank:
        memory = bank.record(a_memory())
    bank = open_bank(embedder=Newer())
    assert [hit.memory.id for hit in bank.search(memory.title).hits] == [memory.id]
    bank.reindex()
    reply = bank.search("sending a file breaks off on a bad line")
    assert [hit.memory.id for hit in reply.hits] == [memory.id]
    assert (reply.embedder, bank.statistics().embedded_by_other_models) == (NEW, 0)

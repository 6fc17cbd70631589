"""A sentence model in a local folder."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tests.conftest import Opener
from tests.requirement import requirement
from tests.search.questions_as_asked import ASKED
from tests.search.test_as_asked import filled

from reasonbank import EmbeddingError, InvalidSetting, Settings
from reasonbank.embed.calibration import UNKNOWN_MODEL, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.embed.onnx import ONNX
from reasonbank.opening import embedder_of
from reasonbank.settings import Embed, check
from reasonbank.testing import a_memory

TEXTS = [
    "retry the upload with a growing pause",
    "wait longer between attempts to send the file",
    "the table was locked by another transaction",
    "été à Zürich",
]


@requirement("RET-16")
def test_a_folder_gives_the_vectors_of_its_model(onnx_folder):
    embedder = embedder_of(Settings(embed=Embed(model="onnx", folder=str(onnx_folder))))
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (4, 384)
    # What is built in was tuned from it, and English stayed in its place.
    alike = (vectors * MiniLM().embed(TEXTS)).sum(axis=1)
    assert alike[:3].min() > 0.95
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    embedder.verify()


@requirement("RET-16")
def test_a_bank_can_be_embedded_with_it(open_bank: Opener, onnx_folder):
    bank = open_bank(settings=Settings(embed=Embed(model="onnx", folder=str(onnx_folder))))
    memory = bank.record(a_memory())
    hits = bank.search("sending a file breaks off on a bad line").hits
    assert [hit.memory.id for hit in hits] == [memory.id]


def test_the_name_tells_one_model_from_another_and_fits_a_file(onnx_folder, tmp_path):
    other = tmp_path / onnx_folder.name
    shutil.copytree(onnx_folder, other)
    assert ONNX(other).name == ONNX(onnx_folder).name
    assert "/" not in ONNX(other).name and " " not in ONNX(other).name
    changed = json.loads((other / "tokenizer.json").read_text())
    (other / "tokenizer.json").write_text(json.dumps(changed | {"version": "2"}))
    assert ONNX(other).name != ONNX(onnx_folder).name


def test_pooling_follows_the_folder(onnx_folder, tmp_path):
    other = tmp_path / "cls"
    shutil.copytree(onnx_folder, other)
    (other / "1_Pooling").mkdir()
    (other / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert not np.allclose(ONNX(other).embed(TEXTS), ONNX(onnx_folder).embed(TEXTS), atol=0.1)


def test_without_a_configuration_the_model_is_asked_how_wide_it_is(onnx_folder, tmp_path):
    other = tmp_path / "bare"
    shutil.copytree(onnx_folder, other)
    (other / "config.json").unlink()
    assert ONNX(other).dimensions == 384


def test_a_folder_that_is_no_model_says_what_is_missing(tmp_path, onnx_folder):
    with pytest.raises(InvalidSetting, match=r"embed\.folder"):
        check(Settings(embed=Embed(model="onnx")))
    with pytest.raises(EmbeddingError, match=r"there is no model\.onnx"):
        ONNX(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(EmbeddingError, match=r"there is no tokenizer\.json"):
        ONNX(tmp_path)
    shutil.copy(onnx_folder / "tokenizer.json", tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(EmbeddingError, match=r"config\.json"):
        ONNX(tmp_path)
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    with pytest.raises(EmbeddingError, match="cannot be used"):
        ONNX(tmp_path).embed(["x"])


def test_a_missing_extra_names_its_install_command(onnx_folder):
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from pathlib import Path; from reasonbank.embed.onnx import ONNX\n"
        f"ONNX(Path({str(onnx_folder)!r})).embed(['x'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'reasonbank[onnx]'" in done.stderr


@requirement("RET-9")
@pytest.mark.parametrize("kind", ["misspelt", "by a name", "printed"])
def test_the_cuts_fit_a_model_that_nobody_measured(open_bank: Opener, onnx_folder, kind):
    """What is asked is found; whoever did not ask is told nothing of what is foreign."""
    bank = open_bank(settings=Settings(embed=Embed(model="onnx", folder=str(onnx_folder))))
    assert calibration_for(bank.store.indexing.embedder.name) is UNKNOWN_MODEL
    lessons = filled(bank)
    for key, question in ASKED[kind].items():
        assert lessons[bank.search(question).hits[0].memory.id] == key
    for question in ("how do I bake sourdough bread", "who won the world cup", "my cat is ill"):
        assert all(hit.weak for hit in bank.search(question))
        assert not bank.inject(question).memories

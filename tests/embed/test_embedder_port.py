"""What the Embedder port promises, of every embedder."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import MiniLM
from reasonbank.embed.port import Embedder

EMBEDDERS: list[Embedder] = [MiniLM(), Hashed()]
TEXTS = [
    "retry the upload with backoff",
    "",
    "the migration failed because the table was locked " * 12,
    "retry the upload with backoff",
    "été à Zürich: 日本語 🙂",
    "close the file",
]
STRANGE = [
    "\x00",
    "\ud800 lone \udfff",
    "\u202e\u200b",
    "\U000e0001",
    "�" * 9,
    " \n\t",
    "a" * 5_000,
]


@pytest.fixture(params=[*EMBEDDERS, "api", "onnx"], ids=lambda e: getattr(e, "name", e))
def embedder(request: pytest.FixtureRequest) -> Embedder:
    """The built-in ones as they are; a server and a folder are made when they are needed."""
    if isinstance(request.param, str):
        return request.getfixturevalue(request.param)
    return request.param


def test_an_empty_batch_gives_an_empty_array(embedder):
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_every_text_gives_one_unit_vector_of_32_bit_numbers(embedder):
    vectors = embedder.embed(TEXTS + STRANGE)
    assert vectors.shape == (len(TEXTS + STRANGE), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_in_any_batch(embedder):
    together = embedder.embed(TEXTS)
    assert np.array_equal(together[0], together[3])
    backwards = embedder.embed(TEXTS[::-1])[::-1]
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert np.abs(together - backwards).max() < 1e-5
    assert np.abs(together - alone).max() < 1e-5


def test_answers_keep_the_order_asked_across_many_chunks(embedder):
    texts = [f"note {i}: " + "fix the build " * (i * 7 % 40) for i in range(60)]
    vectors = embedder.embed(texts)
    for i in (0, 17, 42, 59):
        assert np.abs(vectors[i] - embedder.embed([texts[i]])[0]).max() < 1e-5


def test_ten_megabytes_are_cut_and_not_refused(embedder):
    text = "the cache was stale " * 500_000
    vectors = embedder.embed([text, text[:100_000], "\u3000" * 10_000_000])
    assert np.array_equal(vectors[0], vectors[1])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters()), max_size=4))
@pytest.mark.parametrize("embedder", EMBEDDERS, ids=lambda embedder: embedder.name)
def test_any_text_is_accepted(embedder, texts):
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), embedder.dimensions)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("make", [MiniLM, Hashed])
def test_threads_that_all_make_the_first_call_get_the_same_vectors(make):
    embedder = make()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: embedder.embed(TEXTS), range(16)))
    assert all(np.abs(answer - answers[0]).max() < 1e-5 for answer in answers)


@pytest.mark.parametrize("module", ["minilm", "hashed"])
def test_importing_an_embedder_and_constructing_it_loads_no_numpy(module, python):
    name = {"minilm": "MiniLM", "hashed": "Hashed"}[module]
    code = f"from reasonbank.embed.{module} import {name}; {name}(); import sys; "
    assert python(code + "print('numpy' in sys.modules)") == "False"


@pytest.mark.parametrize("module", ["minilm", "hashed"])
def test_another_process_computes_the_same_vector(module, python):
    embedder = {"minilm": MiniLM, "hashed": Hashed}[module]()
    name = type(embedder).__name__
    code = f"from reasonbank.embed.{module} import {name}; "
    sums = python(code + f"print(*{name}().embed(['find the race'])[0])")
    there = np.array(sums.split(), np.float32)
    assert np.abs(there - embedder.embed(["find the race"])[0]).max() < 1e-5


@pytest.fixture
def python():
    """Run a line of Python in a fresh process and return what it printed."""
    import subprocess

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    return run

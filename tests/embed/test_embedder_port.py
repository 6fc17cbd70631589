"""What the Embedder port promises, of every embedder."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import MiniLM
from reasonbank.testing.embedder_contract import EmbedderContract

BUILT_IN = {"minilm": MiniLM, "hashed": Hashed}


@pytest.mark.parametrize("embedder", ["minilm", "hashed", "api", "onnx"], indirect=True)
class TestEmbedders(EmbedderContract):
    """The built-in ones are new for each test; a server and a folder are made when needed."""

    @pytest.fixture
    def embedder(self, request):
        made = BUILT_IN.get(request.param)
        return made() if made else request.getfixturevalue(request.param)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters()), max_size=4))
@pytest.mark.parametrize("embedder", [MiniLM(), Hashed()], ids=lambda embedder: embedder.name)
def test_any_text_is_accepted(embedder, texts):
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), embedder.dimensions)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("module", BUILT_IN)
def test_importing_an_embedder_and_constructing_it_loads_no_numpy(module, python):
    name = BUILT_IN[module].__name__
    code = f"from reasonbank.embed.{module} import {name}; {name}(); import sys; "
    assert python(code + "print('numpy' in sys.modules)") == "False"


@pytest.mark.parametrize("module", BUILT_IN)
def test_another_process_computes_the_same_vector(module, python):
    name = BUILT_IN[module].__name__
    code = f"from reasonbank.embed.{module} import {name}; "
    sums = python(code + f"print(*{name}().embed(['find the race'])[0])")
    there = np.array(sums.split(), np.float32)
    assert np.abs(there - BUILT_IN[module]().embed(["find the race"])[0]).max() < 1e-5


@pytest.fixture
def python():
    """Run a line of Python in a fresh process and return what it printed."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    return run

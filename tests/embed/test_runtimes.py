"""The packaged model by numpy and by onnxruntime: the same vectors, and numpy wherever the other
cannot be had."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.embed.reference_network import vector
from tests.requirement import requirement

from reasonbank import InvalidSetting, Settings
from reasonbank.embed import minilm
from reasonbank.embed.minilm import MiniLM
from reasonbank.embed.port import told
from reasonbank.opening import embedder_of
from reasonbank.settings import Embed, check
from reasonbank.testing.embedder_contract import STRANGE, TEXTS, EmbedderContract

pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install 'reasonbank[onnx]'")

HERE = Path(__file__).parent
SENTENCES = json.loads((HERE / "golden_cosines.json").read_text())["sentences"]
LONG = "The table was locked by another transaction, so the migration failed. " * 400


def odd_texts() -> list[str]:
    """Some hundreds, of one token up to more than fit."""
    draw = random.Random(7)
    texts = [*TEXTS, *STRANGE, "", "x", "🙂" * 300, "数据库被锁定了，迁移失败。" * 30, LONG]
    texts += [golden["text"] for golden in json.loads((HERE / "golden_tokens.json").read_text())]
    texts += [path.read_text()[:3_000] for path in Path(minilm.FOLDER).glob("*.py")]
    texts += ["".join(chr(draw.randrange(32, 0x2FFF)) for _ in range(n)) for n in range(0, 300, 5)]
    texts += [" ".join(draw.sample(SENTENCES, draw.randint(1, 6))) for _ in range(150)]
    return texts


def python(code: str) -> str:
    """What a line of Python prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.fixture(scope="module")
def quick() -> MiniLM:
    embedder = MiniLM(runtime="onnxruntime")
    embedder.embed(["load it"])
    assert embedder.runtime.startswith("onnxruntime ")
    return embedder


class TestQuick(EmbedderContract):
    @pytest.fixture
    def embedder(self, quick):
        return quick


@requirement("RET-1")
def test_both_runtimes_give_the_same_vectors(quick):
    texts = odd_texts()
    by_numpy, by_onnxruntime = MiniLM(runtime="numpy").embed(texts), quick.embed(texts)
    assert len(texts) > 250
    assert (by_numpy * by_onnxruntime).sum(axis=1).min() > 0.9999
    assert np.abs(by_numpy - by_onnxruntime).max() < 1e-3
    assert quick.name == MiniLM.name


@requirement("RET-1")
@pytest.mark.parametrize("runtime", ["numpy", "onnxruntime"])
def test_vectors_are_those_of_64_bit_arithmetic_over_the_same_weights(runtime):
    embedder = MiniLM(runtime=runtime)
    wordpiece, _ = embedder._load()
    weights = str(Path(minilm.FOLDER) / minilm.WEIGHTS)
    found = embedder.embed(SENTENCES[:12])
    exact = np.array([vector(weights, wordpiece(text)) for text in SENTENCES[:12]])
    assert (found * exact).sum(axis=1).min() > 0.9999
    assert np.abs(found - exact).max() < 1e-3


def test_a_vector_does_not_depend_on_the_lengths_of_its_neighbours(quick):
    alone = quick.embed([SENTENCES[0]])
    for length in (1, 3, 40, 400):
        beside = quick.embed([SENTENCES[0], "x " * length, LONG, *SENTENCES[:length]])
        assert np.abs(beside[0] - alone[0]).max() < 1e-5


def test_many_threads_that_begin_at_once_load_it_once_and_agree():
    embedder = MiniLM(runtime="onnxruntime")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: (embedder.embed(TEXTS), embedder._quick), range(16)))
    assert len({id(session) for _, session in found}) == 1
    assert all(np.abs(vectors - found[0][0]).max() < 1e-5 for vectors, _ in found)


def test_a_question_never_waits_for_onnxruntime_but_much_text_loads_it():
    embedder = MiniLM()
    much = [f"{number} {LONG}" for number in range(minilm.LOADING // 256 + 1)]
    assert embedder.runtime == "numpy"
    for _ in range(3):
        embedder.embed([LONG])
    assert embedder.runtime == "numpy"
    embedder.embed(much)
    assert embedder.runtime.startswith("onnxruntime ")


def test_after_many_questions_the_next_one_does_not_load_it_either():
    embedder = MiniLM()
    embedder._embedded = 100 * minilm.LOADING
    embedder.embed(["a question"])
    assert embedder.runtime == "numpy"


def test_the_setting_decides():
    always = embedder_of(Settings(embed=Embed(runtime="onnxruntime")))
    never = embedder_of(Settings(embed=Embed(runtime="numpy")))
    always.embed(["one word"])
    never.embed([f"{number} {LONG}" for number in range(minilm.LOADING // 256 + 1)])
    assert always.runtime.startswith("onnxruntime ")
    never.quicken()
    assert (never.runtime, never.obstacle) == ("numpy", None)
    with pytest.raises(InvalidSetting, match=r"embed\.runtime"):
        check(Settings(embed=Embed(runtime="torch")))


def test_a_fork_computes_by_numpy_though_its_parent_did_not():
    code = (
        "import os; from reasonbank.embed.minilm import MiniLM\n"
        "e = MiniLM(runtime='onnxruntime'); before = e.embed(['x', 'a longer text'])\n"
        "if child := os.fork():\n"
        "    os.waitpid(child, 0); print(e.runtime)\n"
        "else:\n"
        "    print(e.runtime, abs(e.embed(['x', 'a longer text']) - before).max() < 1e-3)\n"
    )
    child, parent = python(code).splitlines()
    assert child == "numpy True"
    assert parent.startswith("onnxruntime ")


@pytest.mark.parametrize(
    ("package", "why", "broken"),
    [
        ("raise ModuleNotFoundError(name='onnxruntime')", "onnxruntime is not installed", False),
        ("raise ImportError('libgomp.so.1: cannot open')", "libgomp.so.1: cannot open", True),
        ("raise RuntimeError('built for another numpy')", "built for another numpy", True),
        ("__version__ = '0.1'", "AttributeError", True),
    ],
)
def test_where_onnxruntime_is_missing_or_broken_numpy_answers(tmp_path, package, why, broken):
    (tmp_path / "onnxruntime.py").write_text(package)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from reasonbank.embed.minilm import MiniLM\n"
        "from reasonbank.embed.port import told\n"
        "e = MiniLM(runtime='onnxruntime')\n"
        "print(e.embed(['x']).shape, e.obstacle.broken, told(e))"
    )
    answer = python(code)
    assert answer.startswith(f"(1, 384) {broken} {MiniLM.name}, run by numpy (")
    assert why in answer


def test_vectors_that_are_wrong_on_this_processor_are_not_used(monkeypatch):
    from reasonbank.embed.minilm import graph

    monkeypatch.setattr(graph, "FINE", 6.0)  # Few bits are left, as where digits overflow.
    embedder = MiniLM(runtime="onnxruntime")
    vectors = embedder.embed(TEXTS)
    assert embedder.runtime == "numpy" and "wrong by" in told(embedder)
    assert np.abs(vectors - MiniLM(runtime="numpy").embed(TEXTS)).max() < 1e-5


def test_a_model_whose_file_is_gone_for_a_while_can_still_be_quickened(tmp_path):
    for name in (minilm.WEIGHTS, minilm.VOCABULARY, minilm.SUMS):
        (tmp_path / name).symlink_to(Path(minilm.FOLDER) / name)
    (tmp_path / minilm.WEIGHTS).rename(tmp_path / "away")
    embedder = MiniLM(str(tmp_path))
    embedder.quicken()
    (tmp_path / "away").rename(tmp_path / minilm.WEIGHTS)
    embedder.quicken()
    assert embedder.runtime.startswith("onnxruntime ")

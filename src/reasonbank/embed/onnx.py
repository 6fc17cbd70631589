"""A sentence model in a local folder, run by onnxruntime: `pip install 'reasonbank[onnx]'`.

The folder is laid out as sentence-transformers exports it: `model.onnx` (or `onnx/model.onnx`),
`tokenizer.json`, and where they exist `config.json`, `1_Pooling/config.json` and
`sentence_bert_config.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from zlib import crc32

from reasonbank.embed import silent
from reasonbank.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
MAX_CHARACTERS = 32_768
MAX_TOKENS = 512
EDGE = 65_536
INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class ONNX:
    semantic = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loading = Lock()
        self._parts: tuple[Any, Any] | None = None
        model = self._file(*MODELS)
        tokenizer = self._file("tokenizer.json")
        config = self._config("config.json")
        self._pooling = self._config("1_Pooling/config.json")
        self._most = min(
            self._config("sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS,
            config.get("max_position_embeddings") or MAX_TOKENS,
        )
        self.dimensions = config.get("hidden_size") or self._width()
        # Cheap, and other weights under the same name are another model.
        mark = crc32(tokenizer.read_bytes(), _mark(model))
        self.name = re.sub(r"[^\w.-]+", "-", f"onnx-{folder.resolve().name}-{mark:08x}")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not len(texts):
            return np.empty((0, self.dimensions), np.float32)
        # One by one: in an int8 model the padding of a batch changes its neighbours' vectors.
        return np.concatenate([self._one(text) for text in texts])

    def verify(self) -> None:
        """Load it, and see that it answers."""
        self.embed(["does it answer?"])

    def _one(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        tokenizer, session = self._parts or self._load()
        text = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode()
        encoding = tokenizer.encode(text)
        given = {
            "input_ids": np.array([encoding.ids], np.int64),
            "attention_mask": np.array([encoding.attention_mask], np.int64),
            "token_type_ids": np.array([encoding.type_ids], np.int64),
        }
        wanted = {i.name for i in session.get_inputs()}
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        try:
            output = session.run(None, {k: v for k, v in given.items() if k in wanted})[0]
        except (failures.Fail, failures.InvalidArgument, failures.RuntimeException) as error:
            raise self._unusable(str(error)) from None
        if output.ndim == 3:
            output = self._pooled(output, given["attention_mask"])
        if output.shape != (1, self.dimensions):
            raise self._unusable(f"it gave {output.shape}, not (1, {self.dimensions})")
        length = np.linalg.norm(output)
        if not np.isfinite(length) or length == 0:
            raise self._unusable("it gave a vector without a direction")
        vector: NDArray[np.float32] = (output / length).astype(np.float32)
        return vector

    def _pooled(self, tokens: Any, mask: Any) -> Any:
        if self._pooling.get("pooling_mode_cls_token"):
            return tokens[:, 0]
        weights = mask[:, :, None].astype(tokens.dtype)
        return (tokens * weights).sum(1) / weights.sum(1).clip(1e-9)

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._parts is None:
                try:
                    onnxruntime = silent.onnxruntime()
                    from tokenizers import Tokenizer
                except ImportError as error:
                    raise EmbeddingError(
                        f"embed.model onnx needs {error.name}; run: pip install 'reasonbank[onnx]'"
                    ) from None
                words, model = str(self._file("tokenizer.json")), str(self._file(*MODELS))
                # Both libraries raise kinds of their own that have no base but this.
                try:
                    tokenizer = Tokenizer.from_file(words)
                    session = onnxruntime.InferenceSession(
                        model, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:  # noqa: BLE001
                    raise self._unusable(str(error)) from None
                tokenizer.enable_truncation(self._most)
                tokenizer.no_padding()
                unknown = {i.name for i in session.get_inputs()} - INPUTS
                if unknown:
                    raise self._unusable(f"it wants {', '.join(sorted(unknown))}")
                self._parts = tokenizer, session
            return self._parts

    def _width(self) -> int:
        _, session = self._load()
        width = session.get_outputs()[0].shape[-1]
        if not isinstance(width, int):
            raise self._unusable("it does not say how wide its vectors are; add config.json")
        return width

    def _file(self, *names: str) -> Path:
        for name in names:
            if (path := self._folder / name).is_file():
                return path
        raise self._unusable(f"there is no {names[0]}")

    def _config(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self._folder / name).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable(f"{name}: {error}") from None
        return found if isinstance(found, dict) else {}

    def _unusable(self, problem: str) -> EmbeddingError:
        return EmbeddingError(
            f"the embedding model in {self._folder} cannot be used: {problem[:300]}; "
            "check embed.folder"
        )


def _mark(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as file:
        mark = crc32(file.read(EDGE), size & 0xFFFFFFFF)
        file.seek(max(0, size - EDGE))
        return crc32(file.read(), mark)

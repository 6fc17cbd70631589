"""The transformer itself, on int8 weights that stay memory-mapped.

A weight matrix becomes float32 only while it is multiplied, in a scratch buffer that
stays in the cache. That is faster than reading float32 weights from memory, needs no
loading at all, and processes that run side by side share the one mapped file.
"""

from __future__ import annotations

import mmap
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from reasonbank.forking import computation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

WIDTH, HEADS, WIDE, LAYERS, POSITIONS, WORDS = 384, 12, 1536, 6, 256, 30_522

# OpenBLAS uses one thread for less than 2**19 products (rows x inputs x columns), and on a busy
# machine its threads wait for each other ten times longer than they work. So nothing here is
# larger: matrices are stored in blocks of few columns, and multiplied with few tokens at a time.
# Where the processor has AVX-512 that is even faster, since the weights are not repacked.
TOKENS, QUERIES = 20, 60


def _linear(inputs: int, outputs: int, block: int) -> np.dtype[np.void]:
    """``weight`` holds blocks of columns; output j is ``scale[j] * (x @ weight)[j] + bias[j]``."""
    return np.dtype(
        [
            ("weight", "i1", (outputs // block, inputs, block)),
            ("scale", "<f4", outputs),
            ("bias", "<f4", outputs),
        ]
    )


NORM = np.dtype([("gain", "<f4", WIDTH), ("shift", "<f4", WIDTH)])
LAYER = np.dtype(
    [
        ("qkv", _linear(WIDTH, 3 * WIDTH, 64)),  # 1/sqrt(head width) is in the scale of q
        ("mix", _linear(WIDTH, WIDTH, 64)),
        ("mix_norm", NORM),
        ("widen", _linear(WIDTH, WIDE, 64)),
        ("narrow", _linear(WIDE, WIDTH, 16)),  # the 1/2 of GELU is in its scale
        ("narrow_norm", NORM),
    ]
)
MODEL = np.dtype(
    [
        ("word", "i1", (WORDS, WIDTH)),
        ("word_scale", "<f4", WORDS),
        ("position", "<f4", (POSITIONS, WIDTH)),
        ("norm", NORM),
        ("layers", LAYER, LAYERS),
    ]
)
"""The whole weight file."""


class Linear:
    def __init__(self, stored: Any) -> None:
        self.weight, self.scale, self.bias = stored["weight"], stored["scale"], stored["bias"]

    def __call__(self, x: Floats, scratch: Floats) -> Floats:
        blocks = scratch[: self.weight.size].reshape(self.weight.shape)
        np.copyto(blocks, self.weight)
        count, _, block = blocks.shape
        y = np.empty((len(x), count * block), np.float32)
        y_blocks = y.reshape(len(x), count, block).swapaxes(0, 1)
        for i in range(0, len(x), TOKENS):
            np.matmul(x[i : i + TOKENS], blocks, out=y_blocks[:, i : i + TOKENS])
        y *= self.scale
        y += self.bias
        return y


class Norm:
    def __init__(self, stored: Any) -> None:
        self.gain, self.shift = stored["gain"], stored["shift"]

    def __call__(self, x: Floats) -> Floats:
        """Normalise in place."""
        x -= np.add.reduce(x, axis=1, keepdims=True) * np.float32(1 / WIDTH)
        variance = np.einsum("ij,ij->i", x, x) * np.float32(1 / WIDTH)
        x *= (1 / np.sqrt(variance + np.float32(1e-12)))[:, None]
        x *= self.gain
        x += self.shift
        return x


class EncoderLayer:
    def __init__(self, stored: Any) -> None:
        self.qkv, self.mix = Linear(stored["qkv"]), Linear(stored["mix"])
        self.widen, self.narrow = Linear(stored["widen"]), Linear(stored["narrow"])
        self.mix_norm, self.narrow_norm = Norm(stored["mix_norm"]), Norm(stored["narrow_norm"])

    def __call__(self, x: Floats, runs: list[tuple[int, int]], scratch: Floats) -> Floats:
        mixed = self.mix(attention(self.qkv(x, scratch), runs), scratch)
        mixed += x
        x = self.mix_norm(mixed)
        narrow = self.narrow(twice_gelu(self.widen(x, scratch)), scratch)
        narrow += x
        return self.narrow_norm(narrow)


def attention(qkv: Floats, runs: list[tuple[int, int]]) -> Floats:
    """Each text looks at itself only; a run is (how many texts, of which length)."""
    out = np.empty((len(qkv), WIDTH), np.float32)
    start = 0
    for count, length in runs:
        stop = start + count * length
        parts = qkv[start:stop].reshape(count, length, 3, HEADS, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        k = np.ascontiguousarray(k.swapaxes(-1, -2))
        heads = out[start:stop].reshape(count, length, HEADS, -1).swapaxes(1, 2)
        for i in range(0, length, QUERIES):
            weights = q[:, :, i : i + QUERIES] @ k
            weights -= np.maximum.reduce(weights, axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= np.add.reduce(weights, axis=-1, keepdims=True)
            np.matmul(weights, v, out=heads[:, :, i : i + QUERIES])
        start = stop
    return out


def twice_gelu(x: Floats) -> Floats:
    """2 GELU(x) in place, by the tanh formula: numpy has no erf."""
    t = x * x
    t *= np.float32(0.044715 * 0.7978845608)
    t += np.float32(0.7978845608)
    t *= x
    np.tanh(t, out=t)
    t += np.float32(1)
    x *= t
    return x


class Network:
    # Beyond this many tokens a larger batch is not faster, only hungrier.
    tokens_at_once = 512
    runtime = "numpy"

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(data) != MODEL.itemsize:
            raise ValueError(f"{path} has {len(data)} bytes, not {MODEL.itemsize}")
        self.stored: Any = np.frombuffer(data, MODEL)[0]
        self.word, self.word_scale = self.stored["word"], self.stored["word_scale"]
        self.position, self.norm = self.stored["position"], Norm(self.stored["norm"])
        self.layers = [EncoderLayer(stored) for stored in self.stored["layers"]]

    def __call__(self, texts: list[list[int]]) -> Floats:
        """The unit vectors of some texts, given as tokens.

        All tokens lie in one matrix without padding; texts of one length should be neighbours.
        """
        lengths = [len(tokens) for tokens in texts]
        runs = [(len(list(group)), length) for length, group in groupby(lengths)]
        scratch = np.empty(WIDTH * WIDE, np.float32)

        with computation():
            x = self.embedded(texts)
            self.norm(x)
            for layer in self.layers:
                x = layer(x, runs, scratch)
            return self.pooled(x, np.cumsum([0, *lengths[:-1]]))

    def embedded(self, texts: list[list[int]]) -> Floats:
        """What each token means by itself and where it stands, one a row."""
        ids = np.concatenate([np.array(tokens, np.intp) for tokens in texts])
        places = np.concatenate([np.arange(len(tokens)) for tokens in texts])
        x: Floats = self.word[ids] * self.word_scale[ids, None]
        x += self.position[places]
        return x

    def pooled(self, x: Floats, starts: NDArray[np.intp]) -> Floats:
        """The direction of each text's mean: the mean's division can be left out."""
        vectors: Floats = np.add.reduceat(x, starts, axis=0)
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return vectors

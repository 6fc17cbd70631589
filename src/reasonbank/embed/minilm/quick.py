"""The same network run by onnxruntime, for whoever embeds much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reasonbank.embed import silent

from . import graph
from .network import Network

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

HIDDEN = np.float32(-10_000)
MOST_APART = 1e-3
"""In any of a vector's numbers. About 2e-4 is usual: the vectors are stored with less."""


class Quick:
    # Of more tokens the intermediate results would not fit into a processor's cache.
    tokens_at_once = 256

    def __init__(self, network: Network, probes: list[list[int]]) -> None:
        """``probes`` are texts on which it must agree with ``network``, else ``ValueError``."""
        onnxruntime = silent.onnxruntime()
        options = onnxruntime.SessionOptions()
        # Threads are ours: one for each part of a batch, so that none waits for another.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Kept for every shape that was ever seen, and hardly two batches have the same.
        options.enable_mem_pattern = False
        self._session = onnxruntime.InferenceSession(
            graph.whole(network.stored), options, providers=["CPUExecutionProvider"]
        )
        self._network = network
        self.runtime = f"onnxruntime {onnxruntime.__version__}"
        apart = np.abs(self(probes) - network(probes)).max()
        if not apart <= MOST_APART:
            raise ValueError(f"its vectors are wrong by {apart:.2g} on this processor")

    def __call__(self, texts: list[list[int]]) -> Floats:
        lengths = np.array([len(tokens) for tokens in texts])
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.max())
        there = places < lengths[:, None]
        given = {
            "x": self._network.embedded(texts),
            "spread": np.where(there, starts[:, None] + places, 0),
            "hidden": np.where(there, np.float32(0), HIDDEN)[:, None, None],
            "gather": np.flatnonzero(there),
        }
        (x,) = self._session.run(None, given)
        return self._network.pooled(x, starts)

"""An embedder that remembers: each text of a bench is embedded once, on any day."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.retrieval import Vectors
from reasonbank.embed.minilm import MiniLM


class Embedded:
    """The bundled model, asked only for what is not in the cache of the benches."""

    semantic = True

    def __init__(self) -> None:
        self._model = MiniLM()
        self.name = self._model.name
        self.dimensions = self._model.dimensions
        self._kept = Vectors(self._model)
        self._new: dict[str, NDArray[np.float32]] = {}

    def found_by(self, text: str, task: str) -> None:
        """Give ``text`` the vector of ``task``: an experience is found by what was asked then,
        as in the paper, and embedding it costs nothing."""
        self._new[text] = self._one(task)

    def prepare(self, texts: Sequence[str]) -> None:
        """Embed these and keep them on disk."""
        self._kept.prepare(texts)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = [self._one(text) for text in texts]
        return np.array(found, np.float32).reshape(-1, self.dimensions)

    def _one(self, text: str) -> NDArray[np.float32]:
        if text in self._new:
            return self._new[text]
        try:
            vector = self._kept([text])[0]
        except KeyError:
            vector = self._model.embed([text])[0]
        self._new[text] = vector
        return vector

    def verify(self) -> None:
        self._model.verify()

"""all-MiniLM-L6-v2 in plain numpy: a real model, offline, with no key and nothing to download.

The weights (int8) and the vocabulary lie next to this file; ``tools/convert_minilm.py``
made them. ``docs/decisions/0001-embedding-model.md`` says why it is done this way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from reasonbank.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .network import Network
    from .wordpiece import WordPiece

FOLDER = os.path.dirname(os.path.abspath(__file__))
WEIGHTS, VOCABULARY, SUMS = "weights.bin", "vocabulary.txt", "SHA256SUMS"

# Beyond this many tokens a larger batch is not faster, only hungrier.
TOKENS_AT_ONCE = 512


class MiniLM:
    """The default embedder."""

    name = "all-MiniLM-L6-v2-int8"
    dimensions = 384
    semantic = True

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._parts: tuple[WordPiece, Network] | None = None
        self._loading = Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        wordpiece, network = self._parts or self._load()

        import numpy as np

        vectors = np.empty((len(texts), self.dimensions), np.float32)
        tokens = [wordpiece(text) for text in texts]

        def compute(chunk: list[int]) -> None:
            vectors[chunk] = network([tokens[i] for i in chunk])

        chunks = list(_chunks(tokens))
        if len(chunks) < 2:
            for chunk in chunks:
                compute(chunk)
        else:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(compute, chunks))
        return vectors

    def verify(self) -> None:
        """Raise ``EmbeddingError`` unless every data file is the one that was published."""
        verify(self._folder)

    def _load(self) -> tuple[WordPiece, Network]:
        with self._loading:
            if self._parts is None:
                from .network import Network
                from .wordpiece import WordPiece

                try:
                    vocabulary = os.path.join(self._folder, VOCABULARY)
                    weights = os.path.join(self._folder, WEIGHTS)
                    self._parts = WordPiece(vocabulary), Network(weights)
                except (OSError, ValueError, KeyError) as error:
                    raise _unusable(self._folder, repr(error)) from error
            return self._parts


def _chunks(tokens: list[list[int]]) -> Iterator[list[int]]:
    """Which texts to compute together: of like length, since equal ones share their attention."""
    chunk: list[int] = []
    room = TOKENS_AT_ONCE
    for i in sorted(range(len(tokens)), key=lambda i: -len(tokens[i])):
        if chunk and len(tokens[i]) > room:
            yield chunk
            chunk, room = [], TOKENS_AT_ONCE
        chunk.append(i)
        room -= len(tokens[i])
    if chunk:
        yield chunk


def verify(folder: str = FOLDER) -> None:
    """Raise ``EmbeddingError`` unless every data file is the one that was published."""
    import hashlib

    try:
        with open(os.path.join(folder, SUMS), encoding="ascii", errors="replace") as file:
            published = file.read().splitlines()
        for name in (VOCABULARY, WEIGHTS):
            with open(os.path.join(folder, name), "rb") as data:
                found = hashlib.file_digest(data, "sha256").hexdigest()
            if f"{found}  {name}" not in published:
                raise _unusable(folder, f"{name} is damaged: its SHA-256 is {found}")
    except OSError as error:
        raise _unusable(folder, str(error)) from error


def _unusable(folder: str, problem: str) -> EmbeddingError:
    return EmbeddingError(
        f"the embedding model in {folder} cannot be used ({problem}); "
        "run `pip install --force-reinstall reasonbank`"
    )

"""The degraded mode: feature hashing, for when no model can be used.

It finds shared words and shared spelling, and knows nothing of meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CHARACTERS = 32_768


class Hashed:
    name = "hashed-384"
    dimensions = 384
    semantic = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature, count in Counter(features(text)).items():
                # Not hash(): that one differs in every process.
                code = crc32(feature.encode("utf-8", "surrogatepass"))
                # Two features in one place cancel as often as they add up.
                sign = 1 if code & 1 else -1
                # A word said ten times is not ten times the topic.
                vector[(code >> 1) % self.dimensions] += sign * count**0.5
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        # A text without words, or whose features cancelled out, still needs a direction.
        vectors[lengths == 0, 0] = lengths[lengths == 0] = 1
        vectors /= lengths[:, None]
        return vectors

    def verify(self) -> None:
        """There is nothing that could be damaged."""


def features(text: str) -> Iterator[str]:
    """Each word, and the trigrams of the word between its two boundaries."""
    letters = (c if c.isalnum() else " " for c in text[:MAX_CHARACTERS].lower())
    for word in "".join(letters).split():
        bounded = f"^{word}$"
        yield bounded
        for i in range(len(bounded) - 2):
            yield bounded[i : i + 3]

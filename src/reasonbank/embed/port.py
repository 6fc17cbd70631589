from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Text to unit vectors.

    Requirements: equal texts give equal vectors, whatever else is in the batch
    (to within 1e-5); answers keep the order asked; an empty batch gives an empty
    (0, dimensions) array; any text is accepted, also an empty one, and a text that
    is too long is cut, not refused; safe to call from several threads; constructing
    one is cheap, the model is loaded at the first call. A model that cannot answer
    raises ``EmbeddingError``.
    """

    @property
    def name(self) -> str:
        """Identifies the model: vectors of two names are never compared."""

    @property
    def dimensions(self) -> int: ...

    @property
    def semantic(self) -> bool:
        """False for the degraded mode, which knows nothing of meaning."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def verify(self) -> None:
        """Look closely whether the model is whole; raise ``EmbeddingError`` if it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Text to unit vectors.

    Requirements: equal texts give equal vectors, whatever else is in the batch
    (to within 1e-5, and to 1e-3 where another runtime takes over); answers keep the
    order asked; an empty batch gives an empty (0, dimensions) array; any text is
    accepted, also an empty one, and a text that is too long is cut, not refused; safe
    to call from several threads; constructing one is cheap, the model is loaded at the
    first call. A model that cannot answer raises ``EmbeddingError``.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a quicker runtime is not used."""

    why: str
    install: str
    broken: bool = False


def runtime_of(embedder: Embedder) -> str | None:
    """What computes the vectors, of an embedder that has ``runtime`` to say so."""
    return getattr(embedder, "runtime", None)


def obstacle_of(embedder: Embedder) -> Obstacle | None:
    """Of an embedder that tried a quicker runtime, and has ``obstacle`` to say so."""
    return getattr(embedder, "obstacle", None)


def told(embedder: Embedder) -> str:
    """Which model it is and what runs it: for who starts a server."""
    runtime, obstacle = runtime_of(embedder), obstacle_of(embedder)
    by = f", run by {runtime}" if runtime else ""
    return f"{embedder.name}{by}" + (f" ({obstacle.why})" if obstacle else "")

"""The vectors of memories, as a ledger keeps them: each with the model that made it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reasonbank.model import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.index.port import Changes


class PackedVector(NamedTuple):
    """What an embedding model made of one revision of a memory: float16, one after the other."""

    num: int
    revision: int
    vector: bytes
    passages: bytes = b""
    """Of each passage of a long memory; an index holds ``vector`` alone."""


class VectorReading(Protocol):
    def unembedded(
        self, *, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, Memory]]:
        """Memories that have no vector at all, newest first; ``among`` these rows alone."""

    def outdated(self, model: str, *, limit: int) -> list[tuple[int, Memory]]:
        """Memories that have vectors of other models alone, newest first."""

    def unembedded_count(self, model: str) -> tuple[int, int]:
        """How many memories have no vector at all, and how many only one of another model."""

    def embedded_elsewhere(self, model: str) -> dict[str, int]:
        """By the name of each other model, how many memories have a vector of it alone."""

    def memory_count(self) -> int: ...
    def vector_changes(
        self,
        model: str,
        after: int,
        limit: int,
        dimensions: int,
        compatible: Sequence[str] = (),
    ) -> Changes:
        """What happened to the model's vectors; where it has none of a memory, to those of models
        whose names begin like one of ``compatible``."""

    def has_passages(self) -> bool:
        """Whether any memory is so long that its passages have vectors."""

    def passages(
        self, model: str, nums: Sequence[int], dimensions: int
    ) -> dict[int, NDArray[np.float32]]:
        """The vectors of the passages of those memories among these that are long."""

    def has_vectors(self, model: str, compatible: Sequence[str] = ()) -> bool: ...
    def vector_position(self) -> int:
        """The highest sequence number of any change to any vector."""


class VectorWriting(VectorReading, Protocol):
    def put_vectors(
        self,
        model: str,
        vectors: Sequence[PackedVector],
        *,
        replacing: Sequence[str] = (),
    ) -> None:
        """One whose memory has changed since is dropped.

        They take the place of those of models whose names begin like one of ``replacing``.
        """

    def drop_vectors(self, except_model: str) -> int: ...

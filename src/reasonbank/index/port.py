from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What happened to the ledger's vectors, in the order of their sequence numbers.

    ``nums`` are the ledger's row numbers of the memories, ``realms`` the number of
    the partition (one project, one team's or one org's shared memories, active or
    archived) that each belongs to. A row whose ``deleted`` is true has a vector of
    zeros here and is to be dropped. A num may appear again later: the last wins.
    """

    seqs: NDArray[np.int64]
    nums: NDArray[np.int64]
    realms: NDArray[np.int32]
    vectors: NDArray[np.float32]
    deleted: NDArray[np.bool_]


class Index(Protocol):
    """Nearest unit vectors by cosine, disposable: the ledger can always refill it.

    Requirements: what ``follow`` took is seen by the very next call, and changes up to
    ``position`` that come again are passed over; ``nearest``
    returns live rows of the given realms only, best first, ties by lower num; with
    ``among`` the answer is exact, without it recall@10 is at least 0.98; an empty
    ``realms`` gives nothing; several threads may search while one follows; several
    processes may hold one index; a damaged or foreign file is rebuilt, never trusted; one
    that cannot answer raises ``StorageError``, and nothing else.
    """

    @property
    def position(self) -> int:
        """The sequence number up to which the ledger's changes are in here."""

    def __len__(self) -> int: ...

    def follow(self, changes: Changes) -> None: ...

    def nearest(
        self,
        query: NDArray[np.float32],
        *,
        realms: Sequence[int],
        limit: int,
        among: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Row numbers and cosines; ``among`` (sorted) restricts to these rows."""

    def vectors(self, nums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vector of each row, zeros for a row without one."""

    def erase(self, nums: NDArray[np.int64]) -> None:
        """Make the rows' vectors unreadable in memory and on disk, now."""

    def save(self) -> None:
        """Write what is worth keeping; a no-op when the file is fresh enough."""

    def close(self) -> None: ...

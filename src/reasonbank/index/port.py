from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reasonbank.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What happened to the ledger's vectors, in the order of their sequence numbers.

    ``nums`` are the ledger's row numbers of the memories, ``realms`` the number of
    the partition (one project, one team's or one org's shared memories, active or
    archived) that each belongs to. A row whose ``deleted`` is true has a vector of
    zeros here and is to be dropped. A num may appear again later: the last wins. All that
    happened since ``after``, up to the last of ``seqs``, is here.
    """

    seqs: NDArray[np.int64]
    nums: NDArray[np.int64]
    realms: NDArray[np.int32]
    vectors: NDArray[np.float32]
    deleted: NDArray[np.bool_]
    after: int = 0


class Unreachable(StorageError):
    """A server did not answer, refused, or lost what it had. The ledger has all of it, so the
    index is brought up to it again as soon as the server answers."""


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
    def name(self) -> str:
        """Which engine, and where, for messages; "" of the local one. Never a key."""

    @property
    def at_once(self) -> int | None:
        """How many changes a search may wait for; None where following is quick."""

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

    def nearest_each(
        self,
        queries: NDArray[np.float32],
        *,
        realms: Sequence[int],
        limit: int,
        among: NDArray[np.int64] | None = None,
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """``nearest`` of each query; one request, where requests cost."""

    def vectors(self, nums: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vector of each row, zeros for a row without one."""

    def erase(self, nums: NDArray[np.int64]) -> None:
        """Make the rows' vectors unreadable in memory and on disk, now."""

    def reset(self) -> None:
        """Forget everything, to be followed from the beginning: the ledger is another one, or an
        earlier state of itself."""

    def tidy(self) -> None:
        """Remove what earlier models left where others keep it: it may hold what was forgotten."""

    def save(self) -> None:
        """Write what is worth keeping; a no-op when the file is fresh enough."""

    def close(self) -> None: ...

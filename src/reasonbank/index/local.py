"""The index inside the process: a mapped snapshot of the past, a tail in memory.

A search reads one immutable ``_View`` and takes no lock. What changes the index makes a new
view under the lock; the tail grows behind the end of older views and is never moved.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from reasonbank.errors import InvalidInput, StorageError
from reasonbank.index.port import Changes
from reasonbank.index.scan import distinct, member, nearest_rows
from reasonbank.index.snapshot import Draft, Snapshot, sweep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reasonbank.index.scan import Floats, Ints

# Below this many changes, following them again is cheaper than writing a file.
WORTH_SAVING = 1000
WORTH_CLOSING = 100
DROPPED = -1

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What one search sees: a snapshot less its ``dead`` rows (sorted), and the tail."""

    position: int
    snapshot: Snapshot
    dead: Ints
    nums: Ints
    realms: Ints
    vectors: Floats


class _Tail:
    """Rows newer than the snapshot. Arrays have room to grow; a view sees a prefix."""

    def __init__(self, dimensions: int) -> None:
        self.count = 0
        self.row_of: dict[int, int] = {}
        self.nums = np.empty(0, np.int64)
        self.realms = np.empty(0, np.int64)
        self.vectors = np.empty((0, dimensions), np.float32)

    def append(self, nums: Ints, realms: Ints, vectors: Floats) -> None:
        start, self.count = self.count, self.count + len(nums)
        if self.count > len(self.nums):
            self.nums = _grown(self.nums, start, 2 * self.count)
            self.realms = _grown(self.realms, start, 2 * self.count)
            self.vectors = _grown(self.vectors, start, 2 * self.count)
        self.nums[start : self.count] = nums
        self.realms[start : self.count] = realms
        self.vectors[start : self.count] = vectors
        self.row_of.update(zip(nums.tolist(), range(start, self.count), strict=True))

    def drop(self, nums: Ints) -> None:
        rows = [self.row_of.pop(num) for num in nums.tolist() if num in self.row_of]
        if rows:
            self.realms = self.realms.copy()
            self.realms[rows] = DROPPED

    def erase(self, nums: Ints) -> None:
        """Overwrite also what older versions of these rows left behind."""
        self.drop(nums)
        self.vectors[: self.count][member(self.nums[: self.count], nums)] = 0


def _grown(array: NDArray[Scalar], count: int, size: int) -> NDArray[Scalar]:
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[:count] = array[:count]
    return grown


class LocalIndex:
    """An ``Index`` in this process, with a file at ``path``, or without one (None).

    Call ``save`` now and then: until then rows wait in a tail that every search scans whole.
    A row whose vector is zero or not finite counts as a row without a vector. What ``erase``
    took is also taken from the file by every process that follows the row's deletion, so that
    no process can bring it back with a file that it began to write before.
    """

    def __init__(self, path: Path | None, *, dimensions: int, model: str) -> None:
        self._path = path
        self._dimensions = dimensions
        self._model = model
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._journal: list[Changes] | None = None
        there = self._load()
        self._start(self._empty() if there is None else there)

    name = ""
    at_once = None

    @property
    def position(self) -> int:
        return self._view.position

    def __len__(self) -> int:
        view = self._view
        return len(view.snapshot) - len(view.dead) + int(np.count_nonzero(view.realms >= 0))

    def follow(self, changes: Changes) -> None:
        if changes.vectors.shape != (len(changes.nums), self._dimensions):
            raise InvalidInput(
                "vectors", f"have {changes.vectors.shape[1:]} numbers each, not {self._dimensions}"
            )
        with self._lock:
            if not self._view.snapshot.is_whole():
                return self._start(self._empty())  # To be followed from the beginning.
            if self._journal is not None:
                self._journal.append(changes)
            self._apply(changes)

    def nearest(
        self, query: Floats, *, realms: Sequence[int], limit: int, among: Ints | None = None
    ) -> tuple[Ints, Floats]:
        view = self._whole()
        query = self._direction(query)
        wanted = distinct(np.asarray(realms if limit > 0 else (), np.int64))
        snapshot = view.snapshot
        rows = snapshot.rows(wanted, among, view.dead)
        if among is None:
            rows = snapshot.likely(query, rows, limit)
        old, old_cosines = nearest_rows(snapshot.matrix, rows, query, limit)
        rows = np.flatnonzero(member(view.realms, wanted))
        if among is not None:
            rows = rows[member(view.nums[rows], among)]
        new, new_cosines = nearest_rows(view.vectors, rows, query, limit)
        nums = np.concatenate([snapshot.nums[old], view.nums[new]])
        cosines = np.concatenate([old_cosines, new_cosines])
        order = np.lexsort((nums, -cosines))[:limit]
        return nums[order], cosines[order]

    def nearest_each(
        self, queries: Floats, *, realms: Sequence[int], limit: int, among: Ints | None = None
    ) -> list[tuple[Ints, Floats]]:
        return [self.nearest(one, realms=realms, limit=limit, among=among) for one in queries]

    def vectors(self, nums: Ints) -> Floats:
        view = self._whole()
        rows = view.snapshot.find(np.asarray(nums, np.int64))
        if not member(rows, view.dead).any() and (rows >= 0).all():
            return view.snapshot.matrix[rows]
        asked, back = np.unique(np.asarray(nums, np.int64), return_inverse=True)
        vectors = np.zeros((len(asked), self._dimensions), np.float32)
        rows = view.snapshot.find(asked)
        here = (rows >= 0) & ~member(rows, view.dead)
        vectors[here] = view.snapshot.matrix[rows[here]]
        tail = np.flatnonzero((view.realms >= 0) & member(view.nums, asked))
        vectors[np.searchsorted(asked, view.nums[tail])] = view.vectors[tail]
        return vectors[back]

    def erase(self, nums: Ints) -> None:
        nums = distinct(np.asarray(nums, np.int64))
        with self._saving, self._lock:
            if not self._view.snapshot.is_whole():
                self._start(self._empty())
            snapshot = self._view.snapshot
            rows = snapshot.find(nums)
            dead = distinct(np.concatenate([self._view.dead, rows[rows >= 0]]))
            self._tail.erase(nums)
            self._look(self._view.position, snapshot, dead)
            try:
                snapshot.erase(nums)
                if self._path is not None:
                    self._erase_file(self._path, nums)
            except OSError as error:
                self._remove_file(error)

    def reset(self) -> None:
        with self._saving, self._lock:
            if self._path is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
            self._start(self._empty())

    def tidy(self) -> None:
        """Files of other models are removed by whoever knows the bank's folder."""

    def save(self) -> None:
        self._save(max(WORTH_SAVING, len(self._view.snapshot) // 32))

    def close(self) -> None:
        if self._path is not None:
            # Writing costs by the size of the file, reading changes anew by their number.
            self._save(max(WORTH_CLOSING, len(self._view.snapshot) // 100))
        with self._lock:
            self._start(self._empty())

    def verify(self) -> bool:
        """Whether the snapshot's rows are what was written; reads the whole file."""
        return self._view.snapshot.verify()

    def _whole(self) -> _View:
        """What there is to search; all of it is gone when somebody cut the file short."""
        view = self._view
        if not view.snapshot.is_whole():
            with self._lock:
                if self._view.snapshot is view.snapshot:
                    self._start(self._empty())
            raise StorageError(f"{self._path} is truncated; it will be rebuilt automatically")
        return view

    def _direction(self, query: Floats) -> Floats:
        query = np.asarray(query, np.float32)
        if query.shape != (self._dimensions,):
            raise InvalidInput("query", f"has shape {query.shape}, not ({self._dimensions},)")
        length = np.linalg.norm(query)
        return query / length if length > 0 else query

    def _load(self) -> Snapshot | None:
        if self._path is None:
            return None
        return Snapshot.load(self._path, model=self._model, dimensions=self._dimensions)

    def _empty(self) -> Snapshot:
        none = np.empty(0, np.int64)
        return Draft(
            model=self._model,
            dimensions=self._dimensions,
            position=0,
            nums=none,
            realms=none,
            vectors=lambda rows: np.empty((0, self._dimensions), np.float32),
        ).in_memory()

    def _start(self, snapshot: Snapshot) -> None:
        """Go on from this snapshot with an empty tail."""
        self._tail = _Tail(self._dimensions)
        self._look(snapshot.position, snapshot, snapshot.erased)

    def _look(self, position: int, snapshot: Snapshot, dead: Ints) -> None:
        tail = self._tail
        self._view = _View(
            position=position,
            snapshot=snapshot,
            dead=dead,
            nums=tail.nums[: tail.count],
            realms=tail.realms[: tail.count],
            vectors=tail.vectors[: tail.count],
        )

    def _apply(self, changes: Changes) -> None:
        view = self._view
        # A slower thread may bring what is here already, and older than what followed it.
        new = np.flatnonzero(changes.seqs >= view.position)
        if not new.size:
            return
        nums, backwards = np.unique(changes.nums[new][::-1], return_index=True)
        last = new[len(new) - 1 - backwards]
        # Whoever forgot may never have seen the file that this process maps.
        with suppress(OSError):
            view.snapshot.erase(nums[changes.deleted[last]])
        rows = view.snapshot.find(nums)
        norms = np.linalg.norm(changes.vectors[last], axis=1)
        added = last[~changes.deleted[last] & np.isfinite(norms) & (norms > 0)]
        self._tail.drop(nums)
        self._tail.append(changes.nums[added], changes.realms[added], changes.vectors[added])
        position = max(view.position, int(changes.seqs[new].max()))
        self._look(position, view.snapshot, distinct(np.concatenate([view.dead, rows[rows >= 0]])))

    def _save(self, worth: int) -> None:
        with self._saving:
            with self._lock:
                view = self._view
                if not view.snapshot.is_whole():
                    return self._start(self._empty())
                if len(view.nums) + len(view.dead) - len(view.snapshot.erased) < worth:
                    return
                journal: list[Changes] = []
                self._journal = journal
            fresh = None
            try:
                fresh = self._written(view)
            finally:
                with self._lock:
                    self._journal = None
                    if fresh is not None:
                        self._start(fresh)
                        for changes in journal:
                            self._apply(changes)

    def _written(self, view: _View) -> Snapshot | None:
        """A snapshot of all that the view has, or a newer one, or None if the disk says no."""
        if self._path is None:
            return self._draft(view).in_memory()
        newer = self._load()
        if newer is not None and newer.position >= view.position:
            return newer
        with suppress(OSError):
            return self._draft(view).publish(self._path)
        return None

    def _draft(self, view: _View) -> Draft:
        old = view.snapshot
        kept = np.delete(np.arange(len(old)), view.dead)
        added = np.flatnonzero(view.realms >= 0)
        nums = np.concatenate([old.nums[kept], view.nums[added]])
        realms = np.concatenate(
            [np.repeat(old.realms, np.diff(old.bounds))[kept], view.realms[added]]
        )
        order = np.lexsort((nums, realms))
        source = np.concatenate([kept, added + len(old)])[order]

        def vectors(rows: Ints) -> Floats:
            wanted = source[rows]
            is_new = wanted >= len(old)
            found = np.empty((len(rows), self._dimensions), np.float32)
            found[~is_new] = old.matrix[wanted[~is_new]]
            found[is_new] = view.vectors[wanted[is_new] - len(old)]
            return found

        return Draft(
            model=self._model,
            dimensions=self._dimensions,
            position=view.position,
            nums=nums[order],
            realms=realms[order],
            vectors=vectors,
        )

    def _erase_file(self, path: Path, nums: Ints) -> None:
        """Another process may have replaced the file since it was mapped."""
        sweep(path)
        if self._view.snapshot.is_at(path) or not path.exists():
            return
        other = self._load()
        if other is None:
            path.unlink(missing_ok=True)
        else:
            other.erase(nums)

    def _remove_file(self, problem: OSError) -> None:
        """A file that cannot be overwritten can perhaps be deleted; it will be rebuilt."""
        try:
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"forgotten vectors are still in {self._path} ({problem}); delete that file, "
                "it is rebuilt by itself"
            ) from error

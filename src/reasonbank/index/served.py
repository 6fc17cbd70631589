"""What the indexes on servers have in common: where they stand, what they do when the server
fails, and how the ledger's changes get there.

The position is kept in the engine itself, beside the rows, and moved after them. So whoever
follows next, in whichever process, goes on from there; what was written twice is the same, and
what is newer is never overwritten by what is older.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from reasonbank.errors import InvalidInput
from reasonbank.index.port import Changes, Unreachable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reasonbank.index.address import Held

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float32]
    Found = tuple[Ints, Floats]

AT_ONCE = 500
"""A search waits for so many changes at most; the rest is followed in the background."""
KEPT = 2000
"""Vectors that were just fetched: one search asks for the same ones more than once."""
MOST_TIED = 5000
EQUAL = 1e-6


class Gone(Exception):
    """The engine has no such collection: it was never made, or somebody deleted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is new since ``after``: rows to put, and rows to drop, each row once; ``seqs`` are
    theirs, and ``upto`` the highest."""

    after: int
    upto: int
    nums: Ints
    seqs: Ints
    realms: Ints
    vectors: Floats
    dropped: Ints
    dropped_seqs: Ints


class Engine(Protocol):
    """One bank's vectors of one model, on a server.

    Requirements: ``Gone`` where the collection is not there, ``Unreachable`` whenever the server
    gives no answer, and nothing else; cosines are inner products of what was put.
    """

    name: str
    """For messages: which engine, and where. Never a key."""

    def position(self) -> int: ...
    def begin(self) -> None:
        """Make the collection, unless somebody just did."""

    def apply(self, step: Step) -> None:
        """Put and drop, then move the position to ``upto``, unless it was moved back meanwhile.

        No row is replaced by an older one, even if a slower process brings it.
        """

    def search(
        self, queries: Floats, realms: Sequence[int], limit: int, among: Ints | None
    ) -> tuple[list[Found], int]:
        """The nearest rows of each query, in any order of equals, and the position."""

    def fetch(self, nums: Ints) -> Found:
        """Those of the rows that are there, with their vectors, in one request."""

    def erase(self, nums: Ints) -> None: ...
    def count(self) -> int: ...
    def drop(self) -> None:
        """Delete the collection."""

    def drop_others(self) -> None:
        """Delete the same bank's collections of other models."""

    def close(self) -> None: ...


class ServedIndex:
    """An ``Index`` on a server.

    A server that failed is left alone for ``pause`` seconds: callers hear at once what it failed
    with, and none waits for a time-out of its own.
    """

    at_once = AT_ONCE

    def __init__(
        self,
        engine: Engine,
        *,
        dimensions: int,
        pause: float = 5.0,
        held: Held | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self._dimensions = dimensions
        self._pause = pause
        self._held = held
        self._clock = clock
        self._lock = threading.Lock()
        self._following = threading.Lock()
        self._known = 0
        self._kept: tuple[int, dict[int, Floats]] = (0, {})
        self._failure: tuple[str, float] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def position(self) -> int:
        with self._asking():
            try:
                position = self.engine.position()
            except Gone:
                position = 0
        with self._lock:
            self._known = position
        return position

    def __len__(self) -> int:
        if self._closed:
            return 0
        with self._asking():
            try:
                return self.engine.count()
            except Gone:
                return 0

    def follow(self, changes: Changes) -> None:
        if changes.vectors.shape != (len(changes.nums), self._dimensions):
            raise InvalidInput(
                "vectors", f"have {changes.vectors.shape[1:]} numbers each, not {self._dimensions}"
            )
        with self._following, self._asking():
            position = self._begun()
            self._saw(position)
            if position < changes.after:
                return  # What comes before these is not here any more, and is to be read anew.
            if (step := _step(changes, position)) is not None:
                self.engine.apply(step)
                self._saw(step.upto)

    def nearest(
        self, query: Floats, *, realms: Sequence[int], limit: int, among: Ints | None = None
    ) -> Found:
        [found] = self.nearest_each(
            np.asarray(query, np.float32)[None], realms=realms, limit=limit, among=among
        )
        return found

    def nearest_each(
        self, queries: Floats, *, realms: Sequence[int], limit: int, among: Ints | None = None
    ) -> list[Found]:
        queries = self._directions(queries)
        wanted = sorted({int(realm) for realm in realms})
        sound = np.flatnonzero(np.isfinite(queries).all(axis=1))
        answers = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if limit <= 0 or not wanted or not len(sound) or (among is not None and not len(among)):
            return answers
        with self._asking():
            known = self._known
            try:
                found = self._searched(queries[sound], wanted, limit, among, known)
            except Gone:
                if known:
                    raise
                return answers
        for place, each in zip(sound.tolist(), found, strict=True):
            answers[place] = each
        return answers

    def vectors(self, nums: Ints) -> Floats:
        asked, back = np.unique(np.asarray(nums, np.int64), return_inverse=True)
        vectors = np.zeros((len(asked), self._dimensions), np.float32)
        position, kept = self._kept
        if position != self._known:
            kept = {}
        missing = []
        for row, num in enumerate(asked.tolist()):
            if (vector := kept.get(num)) is None:
                missing.append(row)
            else:
                vectors[row] = vector
        if missing:
            rows = np.array(missing)
            with self._asking():
                known = self._known
                try:
                    found, there = self.engine.fetch(asked[rows])
                except Gone:
                    if known:
                        raise
                    return vectors[back]
            vectors[np.searchsorted(asked, found)] = there
            if len(asked) <= KEPT:
                fresh = zip(asked[rows].tolist(), vectors[rows], strict=True)
                room = kept if len(kept) + len(rows) <= KEPT else {}
                self._kept = (known, {**room, **dict(fresh)})
        return vectors[back]

    def erase(self, nums: Ints) -> None:
        with self._following, self._asking():
            self._kept = (0, {})
            try:
                self.engine.erase(np.unique(np.asarray(nums, np.int64)))
            except Gone:
                pass

    def reset(self) -> None:
        with self._following, self._asking():
            self._kept = (0, {})
            self._known = 0
            try:
                self.engine.drop()
            except Gone:
                pass

    def tidy(self) -> None:
        with self._asking():
            self.engine.drop_others()

    def save(self) -> None:
        """The server does so."""

    def close(self) -> None:
        self._closed = True
        self._kept = (0, {})
        self.engine.close()
        if self._held is not None:
            self._held.release()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        if self._closed:
            raise Unreachable(f"{self.engine.name} is closed")
        if (failure := self._failure) is not None and self._clock() < failure[1]:
            raise Unreachable(failure[0])
        try:
            yield
        except Gone:
            raise self._lost(0) from None
        except Lost:
            raise
        except Unreachable as error:
            self._failure = (str(error), self._clock() + self._pause)
            raise
        self._failure = None

    def _begun(self) -> int:
        try:
            return self.engine.position()
        except Gone:
            self.engine.begin()
        return self.engine.position()

    def _saw(self, position: int) -> None:
        with self._lock:
            self._known = position

    def _lost(self, position: int) -> Lost:
        self._saw(position)
        return Lost(f"{self.engine.name} has lost its rows; it is filled again from the ledger")

    def _searched(
        self, queries: Floats, realms: list[int], limit: int, among: Ints | None, known: int
    ) -> list[Found]:
        wanted = limit + 1  # One more tells whether the last one has equals.
        while True:
            found, position = self.engine.search(queries, realms, wanted, among)
            if position < known:
                raise self._lost(position)
            if wanted >= MOST_TIED or not any(_tied(each, limit, wanted) for each in found):
                break
            wanted = min(4 * wanted, MOST_TIED)
        with self._lock:
            self._known = max(self._known, position)
        return [_best(each, limit) for each in found]

    def _directions(self, queries: Floats) -> Floats:
        queries = np.asarray(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._dimensions:
            raise InvalidInput("query", f"has shape {queries.shape[1:]}, not ({self._dimensions},)")
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        return (queries / np.where(lengths > 0, lengths, 1)).astype(np.float32)


class Lost(Unreachable):
    """It answers, but what it had is gone: there is no need to leave it alone."""


def _step(changes: Changes, position: int) -> Step | None:
    """What of the changes is not there yet; of a row that changed more than once, the last."""
    new = np.flatnonzero(changes.seqs > position)
    if not new.size:
        return None
    _, backwards = np.unique(changes.nums[new][::-1], return_index=True)
    last = new[len(new) - 1 - backwards]
    norms = np.linalg.norm(changes.vectors[last], axis=1)
    sound = ~changes.deleted[last] & np.isfinite(norms) & (norms > 0)
    put, dropped = last[sound], last[~sound]
    return Step(
        after=position,
        upto=int(changes.seqs[new].max()),
        nums=changes.nums[put],
        seqs=changes.seqs[put],
        realms=changes.realms[put].astype(np.int64),
        vectors=changes.vectors[put],
        dropped=changes.nums[dropped],
        dropped_seqs=changes.seqs[dropped],
    )


def _tied(found: Found, limit: int, wanted: int) -> bool:
    """Whether rows that were not asked for may equal the last one of the answer."""
    cosines = np.sort(found[1])[::-1]
    return len(cosines) >= wanted and bool(cosines[limit - 1] - cosines[-1] <= EQUAL)


def _best(found: Found, limit: int) -> Found:
    nums, cosines = found
    order = np.lexsort((nums, -cosines))[:limit]
    return nums[order], cosines[order]


def exact(nums: Ints, vectors: Floats, queries: Floats, limit: int) -> list[Found]:
    """The nearest of these rows, by looking at each."""
    cosines = queries @ vectors.T
    return [_best((nums, each), limit) for each in cosines]

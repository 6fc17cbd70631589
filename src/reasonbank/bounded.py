from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A cache that holds at most ``size``; the least recently used goes first.

    ``weigh`` says how much of ``size`` a value takes; without it each takes one. What is
    ``seconds`` old is not given out any more; the caller tells the time, by any one clock.
    Safe to use from several threads.
    """

    def __init__(
        self,
        size: int,
        *,
        seconds: float = math.inf,
        weigh: Callable[[V], int] = lambda _: 1,
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._weigh = weigh
        self._kept: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K, now: float = 0.0) -> V | None:
        with self._lock:
            entry = self._kept.get(key)
            if entry is None or now - entry[1] >= self._seconds:
                return None
            self._kept.move_to_end(key)
            return entry[0]

    def peek(self, key: K) -> V | None:
        """Whatever its age, and without counting as a use."""
        with self._lock:
            entry = self._kept.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, now: float = 0.0) -> int:
        """Return how many had to go: this one too, if it alone is more than ``size``."""
        with self._lock:
            self._remove(key)
            self._kept[key] = (value, now)
            self._weight += self._weigh(value)
            gone = 0
            while self._weight > self._size:
                self._remove(next(iter(self._kept)))
                gone += 1
            return gone

    def remove(self, key: K) -> None:
        with self._lock:
            self._remove(key)

    def _remove(self, key: K) -> None:
        if (entry := self._kept.pop(key, None)) is not None:
            self._weight -= self._weigh(entry[0])

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._weight = 0

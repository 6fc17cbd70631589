"""How often things happen and how long they take: counted in bounded room, added up at will.

A meter is a total and, for durations, how many fell into each of 218 cells whose edges grow by
a tenth. A quantile is the middle of its cell, so it is at most 5 % off for anything between
a microsecond and a quarter of an hour; what is shorter or longer counts as that.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator

GROWTH = 1.1
CELLS = 218
TOTAL = -1
"""The cell that holds a counter's value, or the sum of all durations in microseconds."""

SPENDING = "spending."
"""Begins the names of what tokens may spend and have spent; a reset leaves them."""

_PER_MICROSECOND = 1e-3
_SCALE = 1 / math.log(GROWTH)

Cells = dict[int, int]


def cell_of(nanoseconds: int) -> int:
    if nanoseconds <= 1000:
        return 0
    return min(math.ceil(math.log(nanoseconds * _PER_MICROSECOND) * _SCALE), CELLS - 1)


def upper_edge(cell: int) -> float:
    """In seconds; the last cell has none, since it takes all that is longer."""
    return math.inf if cell >= CELLS - 1 else 1e-6 * GROWTH**cell


class Meters:
    """Counts and durations by name; safe to use from several threads."""

    def __init__(self, cells: Iterable[tuple[str, int, int]] = ()) -> None:
        self._lock = threading.Lock()
        self._meters: dict[str, Cells] = {}
        self.add(cells)

    def count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._bump(name, TOTAL, by)

    def took(self, name: str, nanoseconds: int) -> None:
        cell = cell_of(nanoseconds)
        with self._lock:
            self._bump(name, TOTAL, nanoseconds // 1000)
            self._bump(name, cell, 1)

    def _bump(self, name: str, cell: int, by: int) -> None:
        cells = self._meters.get(name)
        if cells is None:
            cells = self._meters[name] = {}
        cells[cell] = cells.get(cell, 0) + by

    def add(self, cells: Iterable[tuple[str, int, int]]) -> None:
        with self._lock:
            for name, cell, amount in cells:
                self._bump(name, cell, amount)

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """(name, cell, amount) of everything, so that meters can be stored and added."""
        with self._lock:
            found = [
                (n, cell, amount) for n, m in self._meters.items() for cell, amount in m.items()
            ]
        return iter(found)

    def beyond(self, earlier: Meters) -> list[tuple[str, int, int]]:
        """What was counted since these were equal to ``earlier``."""
        old = {(name, cell): amount for name, cell, amount in earlier}
        grown = ((n, cell, amount - old.get((n, cell), 0)) for n, cell, amount in self)
        return [(name, cell, amount) for name, cell, amount in grown if amount]

    def clear(self) -> None:
        with self._lock:
            self._meters = {}

    def stands_at(self, name: str, total: int) -> None:
        """Take over what another counter of this process says."""
        with self._lock:
            self._meters.setdefault(name, {})[TOTAL] = total

    def total(self, name: str) -> int | None:
        """None if nobody ever counted it."""
        return self._meters.get(name, {}).get(TOTAL)

    def times(self, name: str) -> int:
        """How many durations were measured."""
        return sum(amount for _, amount in self._durations(name))

    def quantile(self, name: str, share: float) -> float | None:
        """In seconds; None while nothing was measured."""
        cells = self._durations(name)
        rank = max(1, math.ceil(share * sum(amount for _, amount in cells)))
        for cell, amount in cells:
            rank -= amount
            if rank <= 0:
                return _middle(cell)
        return None

    def cumulative(self, name: str, edges: Iterable[int]) -> list[int]:
        """How many durations there are up to the upper edge of each of these cells."""
        cells = self._durations(name)
        return [sum(amount for cell, amount in cells if cell <= edge) for edge in edges]

    def _durations(self, name: str) -> list[tuple[int, int]]:
        with self._lock:
            return sorted(i for i in self._meters.get(name, {}).items() if i[0] != TOTAL)


def _middle(cell: int) -> float:
    """The value that is at most (growth - 1) / (growth + 1) off from all others in the cell."""
    return 1e-6 if cell == 0 else 1e-6 * GROWTH**cell * 2 / (GROWTH + 1)

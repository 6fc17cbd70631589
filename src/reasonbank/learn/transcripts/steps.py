"""The steps of a session as they go by: all of a usual one, what matters of a huge one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from reasonbank.learn.session import Command, Entry, Turn, numbered

FIRST = 3_000
LAST = 200
MOST = 4_000
"""So many steps of a session are kept: the first, the last, and between them failures, what
followed them, and what the user said. The last are few, since they are stored anew whenever the
session goes on."""
AFTERMATH = 12
"""So many steps after a failure belong to it."""
REMEMBERED = 1_000


class Steps:
    """What is dropped depends on what came before alone: read again, a session that has grown
    begins as it did."""

    def __init__(self) -> None:
        self._kept: list[Entry] = []
        self._recent: OrderedDict[int, Entry] = OrderedDict()
        self._count = 0
        self._failed: OrderedDict[str, None] = OrderedDict()
        self._aftermath = 0
        self.left_out = 0

    def add(self, entry: Entry) -> int:
        """A place, by which it can be changed while it is recent."""
        self._count += 1
        self._recent[self._count] = entry
        if len(self._recent) > LAST:
            _, oldest = self._recent.popitem(last=False)
            self._settle(oldest)
        return self._count

    @property
    def next(self) -> int:
        """The place that the next one gets."""
        return self._count + 1

    def at(self, place: int) -> Entry | None:
        return self._recent.get(place)

    def put(self, place: int, entry: Entry) -> None:
        if place in self._recent:
            self._recent[place] = entry

    def latest(self, most: int, wanted: Callable[[Entry], bool]) -> int | None:
        """The place of the latest such entry among the last few."""
        places = list(self._recent)[-most:]
        return next((p for p in reversed(places) if wanted(self._recent[p])), None)

    def forget_turns(self, count: int) -> None:
        """The user took the last turns back: what was done in them did not happen."""
        entries = [*self._kept, *self._recent.values()]
        asked = [n for n, e in enumerate(entries) if isinstance(e, Turn) and e.by_user]
        if count > 0 and asked:
            self._cut(asked[-min(count, len(asked))])

    def forget_from(self, place: int) -> None:
        """What came from there on did not happen."""
        before = sum(1 for known in self._recent if known < place)
        self._cut(len(self._kept) + before)

    def _cut(self, length: int) -> None:
        while len(self._kept) + len(self._recent) > length and self._recent:
            self._recent.popitem()
        del self._kept[length:]

    def entries(self) -> tuple[Entry, ...]:
        return numbered([*self._kept, *self._recent.values()])

    def _settle(self, entry: Entry) -> None:
        matters = self._matters(entry)
        if len(self._kept) < FIRST or (matters and len(self._kept) < MOST - LAST):
            self._kept.append(entry)
        else:
            self.left_out += 1

    def _matters(self, entry: Entry) -> bool:
        follows = self._aftermath > 0
        self._aftermath -= follows
        match entry:
            case Turn(by_user=True):
                return True
            case Command(command=command, exit_code=exit_code):
                if exit_code not in (0, None):
                    self._failed[command] = None
                    self._aftermath = AFTERMATH
                    if len(self._failed) > REMEMBERED:
                        self._failed.popitem(last=False)
                    return True
                return follows or command in self._failed
        return follows

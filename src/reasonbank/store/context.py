"""Core: what all banks of one store share, whichever workspace they look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from reasonbank.ledger.events import What
from reasonbank.ledger.port import Ledger, Miss, Writing
from reasonbank.model import JSON, View
from reasonbank.safety.prompt_injection import Flags
from reasonbank.settings import Settings
from reasonbank.store.meters import Meters
from reasonbank.store.vectors import Indexing

if TYPE_CHECKING:
    from reasonbank.bank import Bank

T = TypeVar("T")


class Counted(Protocol):
    """Counters by name; None is one that nobody has counted yet."""

    def to_json(self) -> JSON: ...
    def reset(self) -> None: ...


class Core:
    """A store that is open: its ledger and index, what was counted and not yet stored."""

    def __init__(
        self,
        ledger: Ledger,
        indexing: Indexing,
        settings: Settings,
        clock: Callable[[], int],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.ledger = ledger
        self.indexing = indexing
        self.settings = settings
        self.clock = clock
        self.notes = notes
        self.used: list[tuple[Bank, JSON]] = []
        self.missed: list[Miss] = []
        self.flags = Flags()
        self.meters = indexing.meters
        """What this process counted; never less from one look to the next."""
        self.model: Counted | None = None
        """What the language models of this process did for this bank."""
        self._stored = Meters()
        self._flushing = threading.Lock()
        self.started = clock()
        self._started = time.monotonic()
        self.lock = threading.Lock()
        self.searching = threading.Lock()
        self.closed = False
        self.tidy: Callable[[], None] = lambda: None
        indexing.chores = self.flush

    @property
    def uptime(self) -> float:
        return time.monotonic() - self._started

    def flush(self) -> None:
        """Store what searches returned and meters counted, if that has not happened yet."""
        if self.ledger.read_only:
            return
        with self._flushing:
            counted = self._counted()
            if self.used or self.missed or counted:
                self.write(lambda txn: txn.add_meters(counted))
                self._stored.add(counted)

    def all_meters(self) -> Meters:
        """What all processes counted."""
        with self._flushing:
            return Meters([*self.ledger.read().meters(), *self._counted()])

    def _counted(self) -> list[tuple[str, int, int]]:
        """What this process counted and has not stored yet."""
        if self.model is not None:
            for name, amount in self.model.to_json().items():
                if amount is not None:
                    # Whole numbers can be added up without loss: of a cost, millionths.
                    parts = round(amount * 1e6) if name == "cost" else amount
                    self.meters.stands_at(f"model.{name}", parts)
        return self.meters.beyond(self._stored)

    def reset_meters(self, note: Callable[[Writing], None]) -> None:
        def work(txn: Writing) -> None:
            txn.reset_meters()
            note(txn)

        with self._flushing:
            self.write(work)
            self.meters.clear()
            self._stored.clear()
            if self.model is not None:
                self.model.reset()

    def write(self, work: Callable[[Writing], T]) -> T:
        """Run ``work`` in one transaction, and store with it what searches returned."""
        with self.lock:
            used, self.used = self.used, []
            missed, self.missed = self.missed, []

        try:
            misses = self._fit_to_keep(missed)

            def all_of_it(txn: Writing) -> T:
                for bank, payload in _together(used):
                    bank._append(txn, What.USED, "", payload)
                if misses:
                    txn.misses.put(misses, keep=self.settings.gaps.keep)
                return work(txn)

            return self.ledger.write(all_of_it)
        except BaseException:
            with self.lock:
                self.used[:0] = used
                self.missed[:0] = missed
            raise

    def _fit_to_keep(self, missed: list[Miss]) -> list[Miss]:
        if not missed:
            return []
        from reasonbank.search.gaps import fit_to_keep

        return [fit_to_keep(miss, scrub=self.settings.scrub) for miss in missed]


def _together(used: Iterable[tuple[Bank, JSON]]) -> Iterator[tuple[Bank, JSON]]:
    """What searches returned, with one entry for all of a caller's that name no task."""
    nameless: dict[tuple[View, str, str], tuple[Bank, dict[str, int]]] = {}
    for bank, payload in used:
        if payload["session"] is not None:
            yield bank, payload
            continue
        _, times = nameless.setdefault((bank.view, bank._author, bank._surface), (bank, {}))
        for id in payload["ids"]:
            times[id] = times.get(id, 0) + 1
    for bank, times in nameless.values():
        often = {id: count for id, count in times.items() if count > 1}
        together: JSON = {"ids": list(times), "session": None}
        yield bank, together | ({"times": often} if often else {})

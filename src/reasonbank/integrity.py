"""Whether a bank is what was written: its log, and the tables that are made from it.

The log is a chain of hashes, in which nothing can be changed unseen. Every table follows from the
log: it is folded again, beside the bank, and compared row by row. So whoever edits the bank's file
is noticed, unless they have made all of it anew. What does not follow from the log is not looked
at: vectors, jobs, counters, and what a token may spend.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from reasonbank.ledger import comparing
from reasonbank.ledger.comparing import Comparison, Difference
from reasonbank.ledger.database import Database
from reasonbank.ledger.queries import Reader
from reasonbank.model import from_micros
from reasonbank.opening import open_file
from reasonbank.store.context import Context, Progress

SMALL = 4_000
"""Events; a larger log is not folded as a whole at a glance."""
SAMPLE = 500
"""So many memories of a larger one are looked at."""
MOST_NAMED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``where`` is the log or a table; ``id`` the event, or the memory that a row is about."""

    where: str
    found: str
    id: str | None = None
    at: datetime | None = None
    """When the event was written."""
    origin: str | None = None
    """The bank whose log it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """``since`` is when the first event was written that is not as it was."""

    sound: bool
    events: int
    rows: int
    since: datetime | None
    faults: tuple[Fault, ...]


def verify(context: Context, progress: Progress) -> Verified:
    with context.store.ledger.snapshot() as db:
        faults = [
            Fault(
                where="log", found=each.found, id=each.event, origin=each.origin,
                at=None if each.at is None else from_micros(each.at),
            )
            for each in Reader(db).broken_chain()
        ]  # fmt: skip
        since = min((fault.at for fault in faults if fault.at is not None), default=None)
        events, rows = comparing.count(db, "events"), 0
        faults += map(_fault, (*comparing.tokens(db), *comparing.peers(db)))
        try:
            with _folded(context, db, lambda done: progress(done // 2, events)) as folded:
                compared = Comparison(db, folded)
                faults += map(_fault, compared.differences())
                rows = compared.rows
        except _Senseless as error:
            faults.append(Fault(where="log", found=str(error)))
        progress(events, events)
    return Verified(
        sound=not faults,
        events=events,
        rows=rows,
        since=since,
        faults=tuple(faults[:MOST_NAMED]),
    )


def glance(context: Context) -> tuple[list[Fault], str]:
    """All tables of a small bank, the texts of some memories of a larger one; how much that was."""
    with context.store.ledger.snapshot() as db:
        found: list[Difference] = [*comparing.tokens(db), *comparing.peers(db)]
        only = None
        if comparing.count(db, "events") > SMALL:
            only = comparing.sample(db, SAMPLE)
            found += comparing.unknown(db)
        try:
            with _folded(context, db, lambda done: None, only) as folded:
                compared = Comparison(db, folded, only)
                found += compared.differences()
        except _Senseless as error:
            return [Fault(where="log", found=str(error))], "the log"
    told = f"{compared.rows:,} rows"
    if only is not None:
        told = f"{compared.rows:,} memories looked at; `reasonbank audit verify` looks at all"
    return [_fault(each) for each in dict.fromkeys(found)], told


@contextmanager
def _folded(
    context: Context, db: Database, advance: Callable[[int], None], only: list[str] | None = None
) -> Iterator[Database]:
    """What the log makes of the tables: beside the bank, and gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="reasonbank-") as folder:
        ledger = open_file(Path(folder) / "folded.db", context.settings)
        try:
            with ledger.alone() as target:
                comparing.take_log(db, target, advance, only)
            try:
                ledger.write(lambda txn: txn.rebuild())
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise _Senseless(
                    f"an event is not what the program writes ({error!r}): no tables follow from it"
                ) from error
            with ledger.snapshot() as folded:
                yield folded
        finally:
            ledger.close()


class _Senseless(Exception):
    """A log that no program of ours has written."""


def _fault(each: Difference) -> Fault:
    return Fault(where=each.table, found=each.found, id=each.id)

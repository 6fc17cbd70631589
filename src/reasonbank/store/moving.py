"""A bank from one ledger to another, whichever databases keep them.

The new place is filled while the old one is used, and caught up with what is written meanwhile.
At the end, in one moment, the old one is marked as moved: from then on it can only be read, and
the new one goes on under the same id. Killed at any instant, at most one of the two can be
written; the same call made again goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from reasonbank.errors import NotInUse, Refused, StorageError
from reasonbank.ledger import copying, identity
from reasonbank.ledger.copying import Progress, Summary
from reasonbank.ledger.database import Database
from reasonbank.ledger.port import Break, Ledger
from reasonbank.ledger.queries import Reader
from reasonbank.ledger.use import Unused, set_unused, unused
from reasonbank.model import new_id

Steps = Callable[[str], AbstractContextManager[Progress]]
"""How far each part of the work is: a name for it, and then what ``Progress`` is told."""
CHASES = 3
"""So often a bank that is written meanwhile is caught up before its writers have to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """``rows`` are those of each table; ``digest`` is the same in both places. ``written`` are
    the rows that had to be, and ``already`` says that an earlier call had done it all."""

    source: str
    target: str
    bank: str
    copy: bool
    rows: dict[str, int]
    digest: str
    written: int
    already: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    tables: dict[str, Summary]
    written: int

    @property
    def rows(self) -> dict[str, int]:
        return {name: table.rows for name, table in self.tables.items()}

    @property
    def digest(self) -> str:
        return digest_of(self.tables)


def digest_of(tables: dict[str, Summary]) -> str:
    total = sum(int(table.digest, 16) * (n + 1) for n, table in enumerate(tables.values()))
    return f"{total % copying.MODULUS:064x}"[:32]


def migrate(source: Ledger, target: Ledger, steps: Steps, *, copy: bool = False) -> Moved:
    """Move the bank of ``source`` to ``target``, which must be empty or an earlier place of it.

    ``copy``: leave it in use where it is, and give the copy an id of its own.
    """
    from_, to = source.url, target.url
    coming = _accept(source, target, from_, copy=copy)
    if coming is None:
        return Moved(
            source=from_, target=to, bank=source.bank_id, copy=False, rows={}, digest="",
            written=0, already=True,
        )  # fmt: skip

    @contextmanager
    def into() -> Iterator[Database]:
        with target.alone() as db:
            if unused(db) != coming:
                raise NotInUse(f"{to} was filled by another program meanwhile; look at it there")
            yield db

    with into():
        """A place that cannot be written is told of before anything is read."""
    caught = _follow(source, target, into, coming, steps, Unused(state="moved", place=to))
    with into() as db:
        set_unused(db, None)
    target.scrub()  # What was forgotten on the way is in no log of writes.
    return Moved(
        source=from_, target=to, bank=coming.copy or coming.bank, copy=copy, rows=caught.rows,
        digest=caught.digest, written=caught.written,
    )  # fmt: skip


def _accept(source: Ledger, target: Ledger, from_: str, *, copy: bool) -> Unused | None:
    """Mark the target as one that is being filled, unless it is; None if there is nothing to do."""
    with source.snapshot() as db:
        gone, bank = unused(db), identity.identity_of(db)["bank_id"]
    with target.alone() as db:
        there, its_bank = unused(db), identity.identity_of(db)["bank_id"]
        on_its_way = (
            there is not None
            and (there.state, there.bank, bool(there.copy)) == ("arriving", bank, copy)
        )  # fmt: skip
        if gone is not None and not (gone.state == "moved" and on_its_way and not copy):
            if gone.state == "moved" and there is None and bank == its_bank and not copy:
                return None
            raise NotInUse(gone.sentence)
        if on_its_way:
            return there
        back = there is not None and there.state == "moved" and bank == its_bank and not copy
        if not back:
            _must_be_empty(db, there, target.url, same=bank == its_bank)
        coming = Unused(state="arriving", place=from_, bank=bank, copy=new_id() if copy else None)
        set_unused(db, coming)
    return coming


def _must_be_empty(db: Database, there: Unused | None, to: str, *, same: bool) -> None:
    if same and there is None:
        raise Refused(f"{to} is the bank itself, or a copy of its file; name another place")
    if there is not None:
        raise Refused(f"{to} is taken: {there.sentence}. Name another place")
    if not copying.is_empty(db, "events", "memories", "tokens", "jobs"):
        raise Refused(
            f"{to} is a bank that is in use; name an empty place, or bring memories into it "
            "with `reasonbank export` and `reasonbank import`"
        )


def _follow(
    source: Ledger, target: Ledger, into: copying.Transaction, coming: Unused, steps: Steps,
    moved: Unused,
) -> Caught:  # fmt: skip
    """Catch the source up until nobody writes to it any more."""
    written = 0
    for _ in range(CHASES):
        version = source.version()
        with source.snapshot() as db:
            caught = catch_up(db, target, into, coming.copy, steps)
        written += caught.written
        if coming.copy is not None:
            return Caught(tables=caught.tables, written=written)
        with source.alone() as db:
            if source.version() == version:
                set_unused(db, moved)
                return Caught(tables=caught.tables, written=written)
    with source.alone() as db:
        caught = catch_up(db, target, into, coming.copy, steps)
        set_unused(db, moved)
    return Caught(tables=caught.tables, written=written + caught.written)


def catch_up(
    source: Database, target: Ledger, into: copying.Transaction, copy: str | None, steps: Steps
) -> Caught:
    """Make the target what the source is, and make sure of it."""
    with steps("Copying") as progress:
        written = copying.copy(source, into, progress)
    with steps("Checking") as progress:
        wanted = copying.summaries(source, progress)
    with steps("Verifying") as progress, target.snapshot() as db:
        must_be_equal(wanted, db, progress)
    goes_on = identity.identity_of(source)
    if copy is not None:
        goes_on = identity.under_a_new_id(goes_on, id=copy, secret=True)
    with into() as db:
        take_identity(db, goes_on, Reader(source).broken_chain())
    return Caught(tables=wanted, written=written)


def must_be_equal(wanted: dict[str, Summary], db: Database, progress: Progress) -> None:
    found = copying.summaries(db, progress)
    wrong = [name for name, table in wanted.items() if found[name] != table]
    if wrong:
        raise StorageError(
            f"the copy is not what was copied (tables {', '.join(wrong)}), and is not used; run "
            "the same command again"
        )
    # Full text of this very transaction may be held back until something asks for a savepoint.
    db.execute("savepoint words")
    db.execute("release savepoint words")
    if db.full_text.rows() != wanted["memories"].rows:
        raise StorageError(
            "the copy's full text is not whole, and it is not used; run the same command again"
        )


def take_identity(db: Database, goes_on: dict[str, str], known_faults: list[Break]) -> None:
    """``known_faults`` of the chain are no reason to leave a bank where it is."""
    identity.set_identity(db, goes_on)
    if Reader(db).broken_chain() != known_faults:
        raise StorageError(
            "the copy's log does not hold together as the bank's does; it is not used"
        )

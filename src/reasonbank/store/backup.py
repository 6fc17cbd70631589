"""A backup: the bank as one SQLite file, whatever database keeps it, and the way back.

The file says of itself what is in it, table by table, so that one that was damaged is found out
before anything is replaced. It cannot be written: a bank comes of it by ``restore``, under a new
id. What was written after the backup under the old one may be known to other banks, and would
clash with what the restored bank writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from reasonbank.errors import ConfirmationNeeded, NotInUse, Refused, StorageError
from reasonbank.ledger import copying, identity
from reasonbank.ledger.copying import Summary
from reasonbank.ledger.database import Database
from reasonbank.ledger.port import Ledger
from reasonbank.ledger.queries import Reader
from reasonbank.ledger.use import Unused, set_unused, unused
from reasonbank.model import from_micros
from reasonbank.store.moving import Steps, digest_of, must_be_equal, take_identity

STAMP = "backup"


TAKEN_AWAY = (
    (
        "select revoked_at, id from tokens where revoked_at is not null",
        "update tokens set revoked_at = ? where id = ? and revoked_at is null",
    ),
    (
        "select revoked_at, id from invitations where revoked_at is not null",
        "update invitations set revoked_at = ? where id = ? and revoked_at is null",
    ),
    (
        "select taken_by, id from invitations where taken_by is not null",
        "update invitations set taken_by = ? where id = ? and taken_by is null",
    ),
    (
        "select revoked_at, key from peers where revoked_at is not null",
        "update peers set revoked_at = ? where key = ? and revoked_at is null",
    ),
    (
        "select key from peers where trusted = 0",
        "update peers set trusted = 0 where key = ?",
    ),
)
"""What a restore does not bring back: a key that somebody took away opens nothing again. How it
is found in what the bank was, and put into what it becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp:
    """``rows`` are those of each table, ``at`` when it was made, ``source`` where the bank was."""

    file: str
    at: datetime
    source: str
    bank: str
    rows: dict[str, int]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRestored:
    """``at`` is when the backup was made; ``bank`` is the new id, ``former`` the one before."""

    file: str
    target: str
    at: datetime
    bank: str
    former: str
    rows: dict[str, int]
    written: int


def back_up(source: Ledger, file: Ledger, name: str, steps: Steps, now: int) -> BackedUp:
    """Copy the bank as it is at this moment into a new SQLite ledger; nobody waits for it."""
    with source.snapshot() as db:
        if (why := unused(db)) is not None and why.state != "moved":
            raise NotInUse(why.sentence)
        with steps("Copying") as progress:
            copying.copy(db, file.alone, progress)
        with steps("Checking") as progress:
            tables = copying.summaries(db, progress)
        goes_on, faults = identity.identity_of(db), Reader(db).broken_chain()
    with steps("Verifying") as progress, file.snapshot() as db:
        must_be_equal(tables, db, progress)
    from_ = source.url
    with file.alone() as db:
        take_identity(db, goes_on, faults)
        set_unused(db, Unused(state="backup", place=from_, bank=goes_on["bank_id"]))
        stamp = json.dumps({"at": now, "tables": tables})
        db.execute("insert into meta values (?, ?)", (STAMP, stamp))
    return BackedUp(
        file=name, at=from_micros(now), source=from_, bank=goes_on["bank_id"],
        rows={table: told.rows for table, told in tables.items()}, digest=digest_of(tables),
    )  # fmt: skip


def restore(
    file: Ledger, target: Ledger, name: str, steps: Steps, *, force: bool = False
) -> BankRestored:
    """Make the target what the backup is, in one transaction. ``force``: whatever it holds."""
    with file.snapshot() as db:
        at, tables = _sound(file, db, name, steps)
        goes_on, faults = identity.identity_of(db), Reader(db).broken_chain()
        with target.alone() as there:
            if not force:
                _must_hold_nothing(there, target.url)
            taken = [(put, there.all(find)) for find, put in TAKEN_AWAY]

            @contextmanager
            def same() -> Iterator[Database]:
                yield there

            seen = identity.counter_of(identity.identity_of(there))
            with steps("Restoring") as progress:
                written = copying.copy(db, same, progress)
            with steps("Verifying") as progress:
                must_be_equal(tables, there, progress)
            restored = identity.under_a_new_id(goes_on, counter=seen)
            take_identity(there, restored, faults)
            for sql, rows in taken:
                there.many(sql, rows)
            set_unused(there, None)
    target.scrub()
    return BankRestored(
        file=name, target=target.url, at=at, bank=restored["bank_id"],
        former=goes_on["bank_id"], rows={table: told.rows for table, told in tables.items()},
        written=written,
    )  # fmt: skip


def _sound(
    file: Ledger, db: Database, name: str, steps: Steps
) -> tuple[datetime, dict[str, Summary]]:
    """When the backup was made, and what it holds: what it says that it does."""
    why, row = unused(db), db.one("select value from meta where key = ?", (STAMP,))
    if why is None or why.state != "backup" or row is None:
        raise Refused(
            f"{name} is a bank, but no backup of one; `reasonbank backup` makes one, and "
            "`reasonbank migrate` moves or copies a bank"
        )
    stamp = json.loads(row[0])
    with steps("Checking") as progress:
        found = copying.summaries(db, progress)
    told = {table: Summary(*each) for table, each in stamp["tables"].items()}
    # An older program's tables were brought up to date, and may hold more than they say.
    wrong = [
        table
        for table, each in told.items()
        if table in found and each.columns == found[table].columns and each != found[table]
    ]
    wrong += file.check()
    if wrong:
        raise StorageError(
            f"{name} is damaged ({', '.join(wrong[:5])}); nothing was changed. Take another backup"
        )
    return from_micros(stamp["at"]), found


def _must_hold_nothing(db: Database, to: str) -> None:
    row = db.one("select count(*) from memories")
    if (why := unused(db)) is not None:
        raise ConfirmationNeeded(f"{to}: {why.sentence}. --force replaces it")
    if row and row[0]:
        raise ConfirmationNeeded(
            f"{to} has {row[0]} memories, which the backup would replace; back it up, then say "
            "--force, or name another place with --bank"
        )
    if not copying.is_empty(db, "events", "tokens"):
        raise ConfirmationNeeded(f"{to} is in use; --force replaces what it holds")

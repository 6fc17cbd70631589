from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from reasonbank.errors import NewerBank, NotInUse, StorageError
from reasonbank.ledger.commits import GroupCommit
from reasonbank.ledger.migrations import STEPS, meta, upgrade
from reasonbank.ledger.postgres.address import address_of
from reasonbank.ledger.postgres.connection import PooledDatabase, Snapshot, WritingDatabase
from reasonbank.ledger.postgres.dialect import BEFORE_THE_FIRST_STEP
from reasonbank.ledger.postgres.errors import unlike_its_version
from reasonbank.ledger.postgres.pool import Pool
from reasonbank.ledger.postgres.tenants import KEY as RULES_KEY, RULES, protect, unprotect
from reasonbank.ledger.projection import Writer
from reasonbank.ledger.queries import Reader

if TYPE_CHECKING:
    from reasonbank.ledger.read_cache import CachedReader, Shelf

T = TypeVar("T")
Written = TypeVar("Written", bound=WritingDatabase)

APPLICATION = int.from_bytes(b"RBnk")
SCHEMA = "schema"
"""The key of ``meta`` that says how many steps the bank has taken."""
KEYS = ("bank_id", "half_life", "seal")
# Where what was forgotten has been.
FORGETFUL = (
    "events, memories, words, tags, evidence, misses, jobs, vectors, passages, questions, traces"
)


class PostgresLedger:
    """``db`` is the connection that writes, ``commits`` those who want to.

    ``files`` is a folder of this user's, in which the bank has names of its own.
    """

    path = None

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        half_life_days: float = 180.0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        files: Path | None = None,
    ) -> None:
        self.address = address_of(url)
        self.url = self.address.shown
        self.read_only = read_only
        self.whole = True
        self._clock = clock
        self._closed = self._abandoned = False
        self._local = threading.local()
        self._shelf: Shelf | None = None
        self.pool = Pool(self.address, read_only=read_only)
        lock = zlib.crc32(self.address.schema.encode())
        # Two banks of one database do not wait for each other.
        self._lock = (APPLICATION, lock - (lock >> 31 << 32))
        self.db = WritingDatabase(self.pool, self._lock)
        _open.add(self)
        try:
            self._open(half_life_days)
            self.beside = None if files is None else files / self._name()
        except BaseException:
            self.pool.close()
            raise

    def _open(self, half_life_days: float) -> None:
        db = self._reading()
        found = self._version(db)
        if found and not self._may_write(db):
            self.whole, self.read_only = False, True
        self._refuse(found)
        if not self.read_only and (found < len(STEPS) or self._rules(db) < RULES):
            self._migrate(half_life_days)
        self.db.refuse = self._refuse
        keys = dict(db.all("select key, value from meta"))
        if not self.whole:  # A tenant is not told with what others seal.
            keys.setdefault("seal", os.urandom(32).hex())
        if missing := [f"meta without {key}" for key in KEYS if key not in keys]:
            raise unlike_its_version(self.url, ", ".join(missing))
        version = db.all("show server_version")[0][0]
        self.engine = ("PostgreSQL", version.split()[0])
        self.bank_id, self.seal = keys["bank_id"], keys["seal"]
        self.writer = Writer(self.db, self.bank_id, self._clock, half_life_days)
        self.commits = GroupCommit(self.db, self.writer)
        if not self.read_only and keys["half_life"] != str(half_life_days):
            with contextlib.suppress(NotInUse):  # It stays as it is until it is used.
                self.write(lambda txn: txn.refold_all())

    def _name(self) -> str:
        """Not the bank's id alone: a copy of the database has the same, and goes its own way."""
        place = hashlib.sha256(self.url.encode()).hexdigest()
        return f"{self.bank_id}-{place[:8]}"

    def _version(self, db: PooledDatabase | WritingDatabase) -> int:
        """How many steps the bank has taken; 0 where there is none yet."""
        schema = self.address.schema
        tables = db.all(
            "select relname from pg_class join pg_namespace n on n.oid = relnamespace"
            " where nspname = ? and relkind in ('r', 'p', 'v', 'm', 'f')",
            (schema,),
        )
        if not tables:
            return 0
        if {("meta",), ("counters",), ("events",)} <= set(tables):
            row = db.one(f'select value from "{schema}".meta where key = ?', (SCHEMA,))
            if row is not None and str(row[0]).isdecimal():
                return int(row[0])
        raise StorageError(f"{self.url} is a database, but not a ReasonBank; choose another")

    def _may_write(self, db: PooledDatabase) -> bool:
        row = db.one(
            "select has_table_privilege(?, 'insert')", (f'"{self.address.schema}".events',)
        )
        return row is not None and bool(row[0])

    def _rules(self, db: PooledDatabase | WritingDatabase) -> int:
        row = db.one("select value from meta where key = ?", (RULES_KEY,))
        return int(row[0]) if row else 0

    def _refuse(self, version: int) -> None:
        if self.read_only and version < len(STEPS):
            if not version:
                raise StorageError(
                    f"{self.url} is a database, but not a ReasonBank; choose another"
                )
            raise StorageError(
                f"{self.url} was written by an older ReasonBank; open it once without read_only, "
                "which upgrades it"
            )
        if version > len(STEPS):
            raise NewerBank(
                f"{self.url} was written by a newer ReasonBank (schema {version}, this "
                f"program knows {len(STEPS)}); upgrade with `pip install -U reasonbank`. "
                "Nothing was changed"
            )

    def _migrate(self, half_life_days: float) -> None:
        """Bring an older bank up to date, all steps or none; safe when two start at once."""
        with self.db.transaction():
            start = self._version(self.db)
            self._refuse(start)  # It may have been upgraded since by a newer program.
            if start == len(STEPS) and self._rules(self.db) >= RULES:
                return
            if start == 0:
                self._make_schema()
            else:
                unprotect(self.db)
            try:
                upgrade(self.db, start, half_life_days)
            except psycopg.errors.DuplicateObject as error:
                raise unlike_its_version(self.url, str(error.diag.message_primary)) from None
            self.db.execute(
                "insert into meta values (?, ?)"
                " on conflict (key) do update set value = excluded.value",
                (SCHEMA, str(len(STEPS))),
            )
            protect(self.db, self.address.schema)
            if start > 0:
                bank_id = meta(self.db, "bank_id")
                Writer(self.db, bank_id, self._clock, half_life_days).upgraded(start)

    def _make_schema(self) -> None:
        schema = self.address.schema
        # Somebody may have made it for a user who may not.
        if self.db.one("select 1 from pg_namespace where nspname = ?", (schema,)) is None:
            self.db.execute(f'create schema "{schema}"')
        self.db.execute(BEFORE_THE_FIRST_STEP)

    def _refuse_closed(self) -> None:
        if self._abandoned:
            raise StorageError(
                "this bank was opened before the process was forked, and belongs to the parent; "
                "open it again here"
            )
        if self._closed:
            raise StorageError("this bank was closed; open it again")

    def _reading(self) -> PooledDatabase:
        self._refuse_closed()
        db: PooledDatabase | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = PooledDatabase(self.pool)
        return db

    def read(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None or self._closed:
            reader = self._local.reader = Reader(self._reading())
        return reader

    def cached_read(self) -> CachedReader:
        from reasonbank.ledger.read_cache import Shelf

        if (shelf := self._shelf) is None:
            shelf = self._shelf = Shelf()
        return shelf.reader(self.version(), self._reading())

    def version(self) -> int:
        """Asked anew each time. A notification would save the question, and come too late: what
        one process was told is stored, every other must find at once."""
        row = self._reading().one("select version from counters")
        assert row is not None
        return int(row[0])

    def write(self, work: Callable[[Writer], T]) -> T:
        self._refuse_closed()
        if not self.whole:
            raise StorageError(
                f"{self.url}: this role may only read; write through a server (`reasonbank serve`) "
                "that runs as the owner of the bank"
            )
        if self.read_only:
            raise StorageError("this bank was opened read-only; open it without read_only to write")
        return self.commits.run(work)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with self._transaction(Snapshot(self.pool, self._lock)) as db:
            yield db

    @contextlib.contextmanager
    def alone(self) -> Iterator[WritingDatabase]:
        with self._transaction(WritingDatabase(self.pool, self._lock)) as db:
            yield db

    @contextlib.contextmanager
    def _transaction(self, db: Written) -> Iterator[Written]:
        if self._closed:
            raise StorageError("this bank was closed; open it again")
        with db.transaction():
            yield db

    def scrub(self) -> None:
        """Free what the rows held that are gone. What a server keeps of its log of writes, and
        who keeps backups of it, is beyond our reach."""
        self._shelf = None
        with (
            contextlib.suppress(StorageError, psycopg.Error),
            self.pool.connection() as handle,
        ):
            handle.execute(f"vacuum (skip_locked) {FORGETFUL}".encode())

    def unscrubbed(self) -> bool:
        return False

    def check(self, *, deep: bool = True) -> list[str]:
        db = self._reading()
        if not deep:
            db.one("select version from counters")
            return []
        found: Any = db.one(
            "select (select count(*) from counters), (select count(*) from memories),"
            " (select max(word_rows) from counters)"
        )
        counters, memories, words = found
        problems = [] if counters == 1 else [f"counters has {counters} rows instead of one"]
        if memories != words and self.whole:
            problems.append(f"{memories} memories, and words of {words}")
        return problems

    def room(self) -> None:
        return None

    def abandon(self) -> None:
        """In a process that was forked: nothing of it is used again, not even its locks."""
        self._closed = self._abandoned = True
        self._shelf = None
        self._local = threading.local()
        self.pool.abandon()

    def close(self) -> None:
        if self._closed:
            return
        with self.commits.turn:
            self._closed = True
            self.commits.close()
            self.pool.close()
            self._shelf = None
        self._local = threading.local()


_open: weakref.WeakSet[PostgresLedger] = weakref.WeakSet()


def _in_child() -> None:
    """A connection that two processes use is of no use to either; the child may make its own."""
    for ledger in list(_open):
        ledger.abandon()


if hasattr(os, "register_at_fork"):  # Windows knows no forks.
    os.register_at_fork(after_in_child=_in_child)

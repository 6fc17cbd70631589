from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from reasonbank import private
from reasonbank.errors import NewerBank, NotInUse, StorageError
from reasonbank.ledger.commits import GroupCommit
from reasonbank.ledger.migrations import STEPS, meta, upgrade
from reasonbank.ledger.projection import Writer
from reasonbank.ledger.queries import Reader
from reasonbank.ledger.sqlite.connection import Access, Connection, patiently
from reasonbank.ledger.sqlite.errors import translated
from reasonbank.ledger.sqlite.forks import refuse_in_child, watch_ledger
from reasonbank.ledger.sqlite.schema_check import check_schema, unlike_its_version

if TYPE_CHECKING:
    from reasonbank.ledger.read_cache import CachedReader, Shelf

T = TypeVar("T")

# Two connections writing or checkpointing at once could corrupt the file before this one.
SAFE_SQLITE = (3, 51, 3)
APPLICATION_ID = int.from_bytes(b"RBnk")
UNSCRUBBED = "unscrubbed"
ATTEMPTS = 8
BUSY_MOMENT = 50  # Milliseconds: writers of all processes wait as long for one attempt.
SCRUB_AGAIN = 1.0
pause = time.sleep


class SQLiteLedger:
    """``synchronous`` and ``vfs`` are for tests that pull the plug.

    ``db`` is the connection that writes, ``commits`` those who want to.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        half_life_days: float = 180.0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        synchronous: str = "full",
        vfs: str | None = None,
    ) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_SQLITE:
            raise StorageError(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a bank that two programs write; "
                "3.51.3 or newer is needed: pip install -U apsw"
            )
        self.path = self.beside = path
        self.read_only = read_only
        self.whole = True
        self.url = f"sqlite:///{path}"
        self.engine = ("SQLite", apsw.sqlite_lib_version())
        self._clock = clock
        self._synchronous = synchronous
        self._access = Access.SHARED
        self._vfs = vfs
        self._local = threading.local()
        # Weak: a thread that ends takes its connection with it.
        self._opened: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._closed = self._abandoned = False
        self._watch: Connection | None = None
        self._watching = threading.Lock()
        self.scrub_again_at: float | None = None
        self._shelf: Shelf | None = None
        refuse_in_child()
        watch_ledger(self)
        if not read_only:
            self._make_room()
        with translated(path):
            self.db = self._first()
            if not read_only:
                self._migrate(half_life_days)
            check_schema(self.db, path)
            self.bank_id = meta(self.db, "bank_id")
            self.seal = meta(self.db, "seal")
            self.writer = Writer(self.db, self.bank_id, clock, half_life_days)
            self.commits = GroupCommit(self.db, self.writer)
            if not read_only and self.unscrubbed():
                self._scrub(attempts=1)
        if not read_only and meta(self.db, "half_life") != str(half_life_days):
            with contextlib.suppress(NotInUse):  # It stays as it is until it is used.
                self.write(lambda txn: txn.refold_all())

    def _first(self) -> Connection:
        try:
            return self._checked()
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError):
            if not self.read_only or not self.path.exists():
                raise
            self._access = Access.ALONE if self._log_bytes() else Access.UNCHANGED
            return self._checked()

    def _checked(self) -> Connection:
        db = self._connect()
        try:
            self._refuse_strangers(db)
            db.tune()
        except BaseException:
            db.close()
            raise
        return db

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _make_room(self) -> None:
        try:
            private.make_folder(self.path.parent)
        except OSError as error:
            raise StorageError(
                f"cannot create {self.path.parent}: {error.strerror}; "
                "choose another place with --bank or REASONBANK_URL"
            ) from None
        # Before SQLite would, which gives its log of writes the same rights. Where it is there
        # already, or cannot be made, SQLite finds out, and says so.
        with contextlib.suppress(OSError):
            os.close(private.make_file(Path(os.path.realpath(self.path))))

    def _connect(self) -> Connection:
        refuse_in_child()
        if self._closed:
            raise StorageError("this bank was closed; open it again")
        db = Connection(
            self.path,
            read_only=self.read_only,
            synchronous=self._synchronous,
            vfs=self._vfs,
            access=self._access,
        )
        self._opened.add(db)
        return db

    def _refuse_strangers(self, db: Connection) -> None:
        """Before anything is changed; one statement, as another process may be creating it."""
        found: Any = None
        for _ in patiently():
            with contextlib.suppress(apsw.BusyError):
                found = db.handle.execute(
                    "select application_id, user_version, (select count(*) from sqlite_schema)"
                    " from pragma_application_id, pragma_user_version"
                ).fetchone()
                break
        application, version, tables = found
        if application != APPLICATION_ID and (version or tables or self.read_only):
            raise StorageError(f"{self.path} is a database, but not a ReasonBank; choose another")
        if self.read_only and version < len(STEPS):
            raise StorageError(
                f"{self.path} was written by an older ReasonBank; open it once without read_only, "
                "which upgrades it"
            )
        if version > len(STEPS):
            raise NewerBank(
                f"{self.path} was written by a newer ReasonBank (schema {version}, this "
                f"program knows {len(STEPS)}); upgrade with `pip install -U reasonbank`. "
                "Nothing was changed"
            )

    def _migrate(self, half_life_days: float) -> None:
        """Bring an older bank up to date, all steps or none; safe when two start at once."""
        if self._schema() >= len(STEPS):
            return
        with self.db.transaction():
            start = self._schema()
            try:
                upgrade(self.db, start, half_life_days)
            except apsw.SQLError as error:
                # A step finds what it should make, or misses what an earlier one made.
                raise unlike_its_version(self.path, str(error)) from None
            if start == 0:
                self.db.handle.pragma("application_id", APPLICATION_ID)
            if start < len(STEPS):
                self.db.handle.pragma("user_version", len(STEPS))
            if start > 0:
                bank_id = meta(self.db, "bank_id")
                Writer(self.db, bank_id, self._clock, half_life_days).upgraded(start)

    def _schema(self) -> int:
        return int(self.db.handle.pragma("user_version"))

    def _look_again(self) -> None:
        """Nobody wrote when this was opened; now somebody does, so there is room to share."""
        if self._access is Access.UNCHANGED and self._log_bytes():
            self._access = Access.SHARED
            self._local = threading.local()
            self._watch = None

    def _reading(self) -> Connection:
        db: Connection | None = getattr(self._local, "db", None)
        if db is None:
            with translated(self.path):
                db = self._local.db = self._connect()
                db.tune()
        return db

    def read(self) -> Reader:
        self._look_again()
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = Reader(self._reading())
        return reader

    def cached_read(self) -> CachedReader:
        from reasonbank.ledger.read_cache import Shelf

        if (shelf := self._shelf) is None:
            shelf = self._shelf = Shelf()
        return shelf.reader(self.version(), self._reading())

    def version(self) -> int:
        self._look_again()
        # Only what one and the same connection says can be compared.
        with self._watching, translated(self.path):
            if self._watch is None:
                self._watch = self._connect()
                self._watch.tune()
            return int(self._watch.handle.pragma("data_version"))

    def write(self, work: Callable[[Writer], T]) -> T:
        refuse_in_child()
        if self._closed:
            raise StorageError("this bank was closed; open it again")
        if self.read_only:
            raise StorageError("this bank was opened read-only; open it without read_only to write")
        result = self.commits.run(work)
        if self.scrub_again_at is not None and time.monotonic() >= self.scrub_again_at:
            self._scrub(attempts=1)
        return result

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        with contextlib.closing(self._connect()) as db, translated(self.path):
            db.tune()
            db.handle.execute("begin")
            db.one("select count(*) from meta")  # From here on it sees the same.
            yield db

    @contextlib.contextmanager
    def alone(self) -> Iterator[Connection]:
        with contextlib.closing(self._connect()) as db, translated(self.path):
            db.tune()
            with db.transaction():
                yield db

    def scrub(self) -> None:
        self._shelf = None
        self._scrub(ATTEMPTS)

    def unscrubbed(self) -> bool:
        found = self._reading().one("select 1 from meta where key = ?", (UNSCRUBBED,))
        return found is not None

    def _scrub(self, attempts: int) -> None:
        """Empty the log of writes, or note that this has to be done as soon as it can be."""
        emptied = self._emptied(attempts)
        self.scrub_again_at = None if emptied else time.monotonic() + SCRUB_AGAIN
        change = (
            "delete from meta where key = ?"
            if emptied
            else "insert into meta values (?, '1') on conflict do nothing"
        )
        # What was forgotten is forgotten: whoever asked for it has nothing to do again.
        with contextlib.suppress(StorageError):
            if self.unscrubbed() is emptied:
                self.commits.run(lambda txn: txn.db.execute(change, (UNSCRUBBED,)))

    def _emptied(self, attempts: int) -> bool:
        """Wait a little for those who read; not with a lock that others need to write."""
        with (
            contextlib.suppress(StorageError),
            contextlib.closing(self._connect()) as db,
            translated(self.path),
        ):
            db.tune()
            db.handle.set_busy_timeout(BUSY_MOMENT)
            for attempt in range(attempts):
                if attempt:
                    pause(0.005 * 2**attempt)
                with contextlib.suppress(apsw.BusyError):
                    db.handle.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return True
        return False

    def check(self, *, deep: bool = True) -> list[str]:
        if not self.path.exists():
            raise StorageError(f"{self.url} was removed while it is in use")
        if not deep:
            return []
        # A connection of its own: FTS5 checks against the structure that it remembers, and on
        # one that has not searched since others wrote, it takes the new one for corrupt.
        with contextlib.closing(self._connect()) as db:
            rows = db.all("pragma quick_check(5)")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def room(self) -> int:
        import shutil  # Slow to load, and seldom asked for.

        return shutil.disk_usage(self.path.parent).free

    def abandon(self) -> None:
        """In a process that was forked: nothing of it is used again, not even its locks."""
        self._closed = self._abandoned = True
        self._watch = self._shelf = None
        self._local = threading.local()
        self._watching = threading.Lock()

    def close_as_one_file(self) -> None:
        """Close it so that all of it is in the one file, which can be copied and only read."""
        self.close()
        db = Connection(self.path, synchronous=self._synchronous, vfs=self._vfs)
        with contextlib.closing(db), translated(self.path):
            db.handle.pragma("journal_mode", "delete")

    def close(self) -> None:
        if self._abandoned:
            return
        if self.scrub_again_at is not None and not self._closed:
            self._scrub(attempts=1)
        with self.commits.turn:
            self._closed = True
            self.commits.close()
            for db in list(self._opened):
                db.close()
            self._opened.clear()
            self._watch = self._shelf = None
        self._local = threading.local()

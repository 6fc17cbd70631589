"""The ledger on one machine: SQLite in WAL mode, every commit synced to disk."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from reasonbank.errors import NewerBank, StorageError
from reasonbank.ledger.migrations import STEPS
from reasonbank.ledger.sqlite_errors import in_words, translated
from reasonbank.ledger.sqlite_reads import Reader
from reasonbank.ledger.sqlite_writes import Writer
from reasonbank.model import new_id

if TYPE_CHECKING:
    from reasonbank.ledger.sqlite_glance import Glance, Shelf

T = TypeVar("T")

# Two connections writing or checkpointing at once could corrupt the file before this one.
SAFE_SQLITE = (3, 51, 3)
BUSY_SECONDS = 60.0
BATCH = 256
PATIENCE = 0.002
APPLICATION_ID = int.from_bytes(b"RBnk")


class SQLiteLedger:
    """``synchronous`` and ``vfs`` are for tests that pull the plug."""

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
        self.path = path
        self.read_only = read_only
        self.url = f"sqlite:///{path}"
        self._clock = clock
        self._half_life = half_life_days
        self._synchronous = synchronous
        self._vfs = vfs
        self._local = threading.local()
        # Weak: a thread that ends takes its connection with it.
        self._opened: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._closed = False
        self._watch: apsw.Connection | None = None
        self._watching = threading.Lock()
        self._shelf: Shelf | None = None
        self._shelving = threading.Lock()
        self._turn = threading.Lock()
        self._door = threading.Lock()
        self._queue: deque[_Job] = deque()
        self._led = False
        self._company = 1
        self._took = 0.0
        if not read_only:
            self._make_room()
        with translated(path):
            self._db = self._connect()
            self._refuse_strangers()
            self._tune(self._db)
            if not read_only:
                self._migrate()
            self.bank_id = self._meta("bank_id")
            self.seal = self._meta("seal")
            self._writer = Writer(self._db, self.bank_id, clock, half_life_days)
        if not read_only and self._meta("half_life") != str(half_life_days):
            self.write(lambda txn: txn.refold_all())

    def _make_room(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create {self.path.parent}: {error.strerror}; "
                "choose another place with --bank or REASONBANK_URL"
            ) from None

    def _connect(self) -> apsw.Connection:
        if self._closed:
            raise StorageError("this bank was closed; open it again")
        flags = (
            apsw.SQLITE_OPEN_READONLY
            if self.read_only
            else (apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        )
        db = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs, statementcachesize=200)
        self._opened.add(db)
        db.set_busy_timeout(int(BUSY_SECONDS * 1000))
        return db

    def _tune(self, db: apsw.Connection) -> None:
        # Another process may be creating the bank or switching it to WAL right now.
        if not self.read_only:
            for _ in _patiently():
                with contextlib.suppress(apsw.BusyError):
                    if db.pragma("journal_mode", "wal") == "wal":
                        break
        db.execute(
            f"pragma synchronous={self._synchronous}; pragma foreign_keys=off;"
            "pragma secure_delete=on; pragma temp_store=memory; pragma cache_size=-32000;"
            "pragma mmap_size=268435456"
        )

    def _refuse_strangers(self) -> None:
        """Before anything is changed; one statement, as another process may be creating it."""
        found: Any = None
        for _ in _patiently():
            with contextlib.suppress(apsw.BusyError):
                found = self._db.execute(
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

    def _migrate(self) -> None:
        """Bring an older bank up to date, all steps or none; safe when two start at once."""
        if self._version() >= len(STEPS):
            return
        with _immediate(self._db):
            start = self._version()
            for step in STEPS[start:]:
                step(self._db)
            if start == 0:
                self._db.pragma("application_id", APPLICATION_ID)
                self._db.execute("insert into meta values ('bank_id', ?)", (new_id(),))
                self._db.execute(
                    "insert into meta values ('half_life', ?)", (str(self._half_life),)
                )
            if start < len(STEPS):
                self._db.pragma("user_version", len(STEPS))

    def _version(self) -> int:
        return int(self._db.pragma("user_version"))

    def _meta(self, key: str) -> str:
        row: Any = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
        return str(row[0])

    def _reading(self) -> apsw.Connection:
        db = getattr(self._local, "db", None)
        if db is None:
            with translated(self.path):
                db = self._local.db = self._connect()
                self._tune(db)
        return db

    def read(self) -> Reader:
        reader = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = Reader(self._reading())
        return reader

    def glance(self) -> Glance:
        from reasonbank.ledger.sqlite_glance import Glance, Postings, Shelf

        version = self.version()
        with self._shelving:
            if self._shelf is None or self._shelf.version != version:
                postings = Postings() if self._shelf is None else self._shelf.postings
                self._shelf = Shelf(version, postings)
            shelf = self._shelf
        glance: Glance | None = getattr(self._local, "glance", None)
        if glance is None:
            glance = self._local.glance = Glance(self._reading(), shelf)
        glance.shelf = shelf
        return glance

    def version(self) -> int:
        # Only what one and the same connection says can be compared.
        with self._watching:
            try:
                if self._watch is None:
                    self._watch = self._connect()
                    self._tune(self._watch)
                return int(self._watch.pragma("data_version"))
            except apsw.Error as error:
                raise in_words(error, self.path) from None

    def write(self, work: Callable[[Writer], T]) -> T:
        """Group commit: whoever gets the turn commits the work of all who wait."""
        if self._closed:
            raise StorageError("this bank was closed; open it again")
        if self.read_only:
            raise StorageError("this bank was opened read-only; open it without read_only to write")
        job = _Job(work)
        group: list[_Job] = []
        with self._door:
            self._queue.append(job)
            job.leads = not self._led
            self._led = True
        try:
            if not job.leads:
                job.news.acquire()
            if not job.done:
                self._lead(group)
        finally:
            self._leave(job, group)
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    def _lead(self, group: list[_Job]) -> None:
        """Commit the work of all who wait."""
        self._await_company()
        with self._turn:
            started = time.monotonic()
            while self._queue and len(group) < BATCH:
                group.append(self._queue.popleft())
            self._commit(group)
            self._took = time.monotonic() - started

    def _leave(self, mine: _Job, group: list[_Job]) -> None:
        """Whatever happened, Control-C included: nobody is left waiting, and somebody leads."""
        if mine.done and not mine.leads:
            return
        with self._door:
            # Control-C is meant for this thread only: the others' work is done again.
            self._queue.extendleft(job for job in reversed(group) if not job.done)
            if mine in self._queue:
                self._queue.remove(mine)
            if mine.leads:
                self._company = len(group) + len(self._queue)
                self._led = bool(self._queue)
                if self._led:
                    self._queue[0].leads = True
                    self._queue[0].news.release()
        for job in group:
            if job is not mine and job.done:
                job.news.release()

    def _await_company(self) -> None:
        """Those who were served a moment ago are often about to write again."""
        deadline = time.monotonic() + min(self._took / 4, PATIENCE)
        while len(self._queue) < self._company and time.monotonic() < deadline:
            time.sleep(0)

    def _commit(self, jobs: list[_Job]) -> None:
        for job in jobs:
            job.error = None
        try:
            with translated(self.path), _immediate(self._db):
                if len(jobs) == 1:
                    jobs[0].result = jobs[0].work(self._writer)
                else:
                    for job in jobs:
                        self._run(job)
        except BaseException as error:
            self._writer.forget_cached()
            if not isinstance(error, Exception):
                raise
            for job in jobs:
                job.error = job.error or error
        for job in jobs:
            job.done = True

    def _run(self, job: _Job) -> None:
        """One job's failure leaves the others of its group alone."""
        self._db.execute("savepoint job")
        try:
            with translated(self.path):
                job.result = job.work(self._writer)
            self._db.execute("release job")
        except Exception as error:
            if not self._db.in_transaction:
                raise  # The disk took the whole transaction down.
            self._db.execute("rollback to job; release job")
            self._writer.forget_cached()
            job.error = error

    def scrub(self) -> None:
        self._shelf = None
        with self._turn, translated(self.path):
            # Of two that start at once, SQLite turns one away without making it wait.
            for _ in _patiently():
                with contextlib.suppress(apsw.BusyError):
                    self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return

    def check(self) -> list[str]:
        # A connection of its own: FTS5 checks against the structure that it remembers, and on
        # one that has not searched since others wrote, it takes the new one for corrupt.
        with translated(self.path), contextlib.closing(self._connect()) as db:
            rows = db.execute("pragma quick_check(5)").fetchall()
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def close(self) -> None:
        with self._turn:
            self._closed = True
            for db in list(self._opened):
                db.close(force=True)
            self._opened.clear()
            self._watch = self._shelf = None
        self._local = threading.local()


class _Job:
    __slots__ = ("done", "error", "leads", "news", "result", "work")

    def __init__(self, work: Callable[[Writer], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False
        # Released when it is done, or when it is its turn to lead.
        self.news = threading.Lock()
        self.news.acquire()


def _patiently() -> Iterator[None]:
    deadline = time.monotonic() + BUSY_SECONDS
    pause = 0.001
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(pause * 2, 0.25)
    raise StorageError(
        "another program has kept this bank locked for a minute; stop it, then retry"
    )


@contextlib.contextmanager
def _immediate(db: apsw.Connection) -> Iterator[None]:
    # A deferred transaction that turns into a writer can fail without waiting.
    for _ in _patiently():
        with contextlib.suppress(apsw.BusyError):
            db.execute("begin immediate")
            break
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise

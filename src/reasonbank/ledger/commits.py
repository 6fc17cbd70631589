"""Group commit: one thread commits the work of all who want to write.

Control-C reaches Python's main thread between any two of its steps, a signal handler's error
likewise. So no caller holds anything that others wait for, and none decides what became of a
group: callers hand in a job and wait for it, and a thread that is never interrupted does it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeVar

from reasonbank.flag import Flag
from reasonbank.ledger.projection import Writer
from reasonbank.ledger.use import must_be_in_use

T = TypeVar("T")

BATCH = 256
LONGEST_WAIT = 0.002
LINGER = 5.0
"""Seconds that the thread stays when there is nothing to do."""


class Transactions(Protocol):
    """The connection that writes, as those need it who share a commit."""

    cancelled: Callable[[], bool] | None
    """Asked before each statement: whoever wants the work done may have given up."""

    def transaction(self) -> AbstractContextManager[None]:
        """All that happens in it, or nothing. Its errors are those of ``reasonbank.errors``."""

    def translated(self) -> AbstractContextManager[None]: ...
    def mark(self) -> None:
        """Begin a part of the transaction that can be undone by itself."""

    def release(self) -> None:
        """The part is done; ``mark`` begins the next one."""

    def undo(self) -> bool:
        """Undo the part; False if the whole transaction is gone."""


class GroupCommit:
    """``turn`` is held by whoever uses the connection; ``waiting`` are those who will."""

    def __init__(self, db: Transactions, writer: Writer) -> None:
        self.turn = threading.Lock()
        self.waiting: deque[Job] = deque()
        self._db = db
        self._writer = writer
        self._serving = threading.Lock()
        self._something_to_do = Flag()
        self._closed = False
        self._expected = 1
        self._took = 0.0

    def run(self, work: Callable[[Writer], T]) -> T:
        """An error that interrupts the wait says by ``stored`` whether the work was done."""
        job = Job(work)
        try:
            self.waiting.append(job)
            self._call()
            job.finished.acquire()
            if job.error is not None:
                raise job.error
            return job.result  # type: ignore[no-any-return]
        except BaseException as error:
            if error is not job.error and not job.withdrawn():
                job.cancelled = True
                job.wait()
                error.stored = job.error is None  # type: ignore[attr-defined]
            raise

    def close(self) -> None:
        self._closed = True
        self._something_to_do.set()

    def _call(self) -> None:
        """Every caller for itself: one that was interrupted here called nobody."""
        self._something_to_do.set()
        if self._serving.locked():
            return
        try:
            threading.Thread(target=self._serve, name="reasonbank-commits", daemon=True).start()
        except RuntimeError:  # Python is about to end, and starts no more threads.
            self._serve(linger=0.0)

    def _serve(self, linger: float = LINGER) -> None:
        # A job that comes when the thread has just stopped looking is seen when it leaves.
        while self.waiting and self._serving.acquire(blocking=False):
            try:
                while self.waiting or self._wait(linger):
                    if self.waiting:
                        self._wait_for_writers()
                        self._commit()
            finally:
                self._serving.release()

    def _wait(self, linger: float) -> bool:
        return not self._closed and self._something_to_do.taken(linger)

    def _wait_for_writers(self) -> None:
        """Those who were served a moment ago are often about to write again."""
        deadline = time.monotonic() + min(self._took / 4, LONGEST_WAIT)
        while len(self.waiting) < self._expected and time.monotonic() < deadline:
            time.sleep(0)

    def _commit(self) -> None:
        group: list[Job] = []
        with self.turn:
            started = time.monotonic()
            try:
                with self._db.transaction():
                    must_be_in_use(self._writer.db, self._writer.bank_id)
                    self._take(group)
                    for job in group:
                        self._run(job, alone=len(group) == 1)
            except BaseException as error:  # noqa: BLE001  (told to those whose work it was)
                self._writer.forget_cached()
                if not group:  # It could not even begin.
                    self._take(group)
                for job in group:
                    job.error = job.error or error
            self._took = time.monotonic() - started
        self._expected = len(group) + len(self.waiting)
        for job in group:
            job.finish()

    def _take(self, group: list[Job]) -> None:
        while self.waiting and len(group) < BATCH:
            job = self.waiting.popleft()
            if job.taken():
                group.append(job)

    def _run(self, job: Job, *, alone: bool) -> None:
        """One job's failure leaves the others of its group alone."""
        db = self._db
        db.cancelled = job.is_cancelled
        try:
            if alone:
                job.result = job.work(self._writer)
                return
            db.mark()
            with db.translated():
                job.result = job.work(self._writer)
            db.release()
        except BaseException as error:
            if alone or not db.undo():
                raise  # Or the disk took the whole transaction down.
            job.error = error
            self._writer.forget_cached()
        finally:
            db.cancelled = None


class Job:
    __slots__ = ("_claim", "cancelled", "done", "error", "finished", "result", "work")

    def __init__(self, work: Callable[[Writer], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.cancelled = False
        self.finished = threading.Lock()
        self.finished.acquire()
        # Whoever gets it decides: the thread that does the job, or the caller who gives up.
        self._claim = threading.Lock()

    def taken(self) -> bool:
        return self._claim.acquire(blocking=False)

    withdrawn = taken

    def is_cancelled(self) -> bool:
        return self.cancelled

    def finish(self) -> None:
        self.done = True
        self.finished.release()

    def wait(self) -> None:
        """Until it is decided: what is running ends at its next statement."""
        while not self.done:
            with suppress(BaseException):
                self.finished.acquire()

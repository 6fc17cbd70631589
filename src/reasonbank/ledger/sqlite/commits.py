"""Group commit: of all who want to write at once, one commits the work of all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from reasonbank.ledger.projection import Writer
from reasonbank.ledger.sqlite.connection import Connection
from reasonbank.ledger.sqlite.errors import translated

T = TypeVar("T")

BATCH = 256
LONGEST_WAIT = 0.002


class GroupCommit:
    """``turn`` is held by whoever uses the connection; ``waiting`` are those who will."""

    def __init__(self, db: Connection, writer: Writer) -> None:
        self.turn = threading.Lock()
        self.waiting: deque[_Job] = deque()
        self._db = db
        self._writer = writer
        self._lock = threading.Lock()
        self._has_leader = False
        self._expected = 1
        self._took = 0.0

    def run(self, work: Callable[[Writer], T]) -> T:
        job = _Job(work)
        group: list[_Job] = []
        with self._lock:
            self.waiting.append(job)
            job.leads = not self._has_leader
            self._has_leader = True
        try:
            if not job.leads:
                job.wakeup.acquire()
            if not job.done:
                self._lead(group)
        finally:
            self._leave(job, group)
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    def _lead(self, group: list[_Job]) -> None:
        """Commit the work of all who wait."""
        self._wait_for_writers()
        with self.turn:
            started = time.monotonic()
            while self.waiting and len(group) < BATCH:
                group.append(self.waiting.popleft())
            self._commit(group)
            self._took = time.monotonic() - started

    def _leave(self, mine: _Job, group: list[_Job]) -> None:
        """Whatever happened, Control-C included: nobody is left waiting, and somebody leads."""
        if mine.done and not mine.leads:
            return
        with self._lock:
            # Control-C is meant for this thread only: the others' work is done again.
            self.waiting.extendleft(job for job in reversed(group) if not job.done)
            if mine in self.waiting:
                self.waiting.remove(mine)
            if mine.leads:
                self._expected = len(group) + len(self.waiting)
                self._has_leader = bool(self.waiting)
                if self._has_leader:
                    self.waiting[0].leads = True
                    self.waiting[0].wakeup.release()
        for job in group:
            if job is not mine and job.done:
                job.wakeup.release()

    def _wait_for_writers(self) -> None:
        """Those who were served a moment ago are often about to write again."""
        deadline = time.monotonic() + min(self._took / 4, LONGEST_WAIT)
        while len(self.waiting) < self._expected and time.monotonic() < deadline:
            time.sleep(0)

    def _commit(self, jobs: list[_Job]) -> None:
        for job in jobs:
            job.error = None
        try:
            with translated(self._db.path), self._db.transaction():
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
        db = self._db.handle
        db.execute("savepoint job")
        try:
            with translated(self._db.path):
                job.result = job.work(self._writer)
            db.execute("release job")
        except Exception as error:
            if not db.in_transaction:
                raise  # The disk took the whole transaction down.
            db.execute("rollback to job; release job")
            self._writer.forget_cached()
            job.error = error


class _Job:
    __slots__ = ("done", "error", "leads", "result", "wakeup", "work")

    def __init__(self, work: Callable[[Writer], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False
        # Released when it is done, or when it is its turn to lead.
        self.wakeup = threading.Lock()
        self.wakeup.acquire()

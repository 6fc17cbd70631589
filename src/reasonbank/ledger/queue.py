"""The queue: part of the same transactions as all else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reasonbank.errors import LeaseLost, NotFound, Refused
from reasonbank.ledger import holders
from reasonbank.ledger.database import Database, columns, record, records
from reasonbank.ledger.port import LEASE, LONGEST_PAUSE, POST, QueueDepth
from reasonbank.model import JSON, Job, JobState

_JOB = columns(Job)
_OPEN = "state in ('waiting', 'running')"
# A lease or pause that ends later than any could was written before the clock was set back.
_HORIZON = 2 * max(LEASE, LONGEST_PAUSE)


class JobQueue:
    """The part that writes is only valid inside a transaction of its ledger."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def job(self, id: str) -> Job | None:
        row = self._db.one(f"select {_JOB} from jobs where id = ?", (id,))
        return record(Job, _JOB, row)

    def jobs(self, workspace: str | None, states: Sequence[JobState], limit: int) -> list[Job]:
        where = f"state in ({_marks(states)})"
        values: list[Any] = [*states]
        if workspace is not None:
            where += " and workspace = ?"
            values.append(workspace)
        found = self._db.all(
            f"select {_JOB} from jobs where {where} order by created_at desc, id desc limit ?",
            [*values, limit],
        )
        return records(Job, _JOB, found)

    def due(self, now: int, kinds: Sequence[str], workspace: str | None = None) -> bool:
        ready, values = self._ready(now, kinds, workspace)
        return self._db.one(f"select 1 from jobs where {ready} limit 1", values) is not None

    def latest(self, kind: str, workspace: str) -> Job | None:
        row = self._db.one(
            f"select {_JOB} from jobs where kind = ? and workspace = ?"
            " order by created_at desc, id desc limit 1",
            (kind, workspace),
        )
        return record(Job, _JOB, row)

    def depth(self, workspace: str | None) -> QueueDepth:
        where = "kind != ?" if workspace is None else "kind != ? and workspace = ?"
        values = (POST,) if workspace is None else (POST, workspace)
        counts = dict(
            self._db.all(f"select state, count(*) from jobs where {where} group by 1", values)
        )
        oldest = self._db.one(f"select min(created_at) from jobs where {where} and {_OPEN}", values)
        return QueueDepth(
            waiting=counts.get("waiting", 0),
            running=counts.get("running", 0),
            dead=counts.get("dead", 0),
            oldest=oldest[0] if oldest else None,
        )

    def enqueue(self, job: Job, now: int) -> bool:
        return bool(
            self._db.all(
                "insert into jobs (id, kind, subject, workspace, state, attempts, created_at, due)"
                " values (?, ?, ?, ?, 'waiting', 0, ?, ?) on conflict do nothing returning 1",
                (job.id, job.kind, job.subject, job.workspace, now, now),
            )
        )

    def claim(
        self, worker: str, now: int, limit: int, max_attempts: int, kinds: Sequence[str],
        workspace: str | None = None,
    ) -> list[Job]:  # fmt: skip
        ready, values = self._ready(now, kinds, workspace)
        unheld = self._db.dialect.skip_locked
        # Whoever held it has had its last attempt, and did not live to say what went wrong.
        self._db.execute(
            "update jobs set state = 'dead', claim = null, error = coalesce(error, ?)"
            f" where id in (select id from jobs where {ready} and attempts >= ? {unheld})",
            ("every worker that took it ended before it was done", *values, max_attempts),
        )
        found = self._db.all(
            "update jobs set state = 'running', claim = ?, due = ?, attempts = attempts + 1"
            f" where id in (select id from jobs where {ready} order by due, id limit ? {unheld})"
            f" returning {_JOB}",
            (worker, now + LEASE, *values, limit),
        )
        return sorted(records(Job, _JOB, found), key=lambda job: job.id)

    def claim_one(self, id: str, worker: str, now: int, until: int) -> Job | None:
        free, values = self._free(now)
        found = self._db.all(
            "update jobs set state = 'running', claim = ?, due = ?, attempts = attempts + 1"
            f" where id = ? and {free} returning {_JOB}",
            (worker, until, id, *values),
        )
        return record(Job, _JOB, found[0] if found else None)

    def oldest(self, kind: str, workspace: str, now: int) -> Job | None:
        free, values = self._free(now)
        row = self._db.one(
            f"select {_JOB} from jobs where workspace = ? and kind = ? and {free}"
            " order by created_at, id limit 1",
            (workspace, kind, *values),
        )
        return record(Job, _JOB, row)

    def _ready(
        self, now: int, kinds: Sequence[str], workspace: str | None
    ) -> tuple[str, tuple[Any, ...]]:
        """What a worker may take: it waits and is due, or nobody holds it any more."""
        gone = self._gone(now)
        due = f"(due <= ? or due > ? or (state = 'running' and claim in ({_marks(gone)})))"
        values = (now, now + _HORIZON, *gone, *kinds)
        ready = f"{_OPEN} and {due} and kind in ({_marks(kinds)})"
        return (ready, values) if workspace is None else (f"{ready} and workspace = ?",
                                                         (*values, workspace))  # fmt: skip

    def _free(self, now: int) -> tuple[str, tuple[Any, ...]]:
        """Nobody holds it; it may be waiting for the end of a pause."""
        gone = self._gone(now)
        ended = f"(due <= ? or due > ? or claim in ({_marks(gone)}))"
        free = f"(state = 'waiting' or (state = 'running' and {ended}))"
        return free, (now, now + _HORIZON, *gone)

    def _gone(self, now: int) -> list[str]:
        """Those whose leases have not ended, although they themselves have."""
        held = self._db.all(
            f"select distinct claim from jobs where {_OPEN} and due > ? and state = 'running'",
            (now,),
        )
        return [claim for (claim,) in held if holders.is_gone(claim)]

    def hold(self, job: Job, until: int) -> None:
        self._held(job, "due = ?", until)

    def checkpoint(self, job: Job, value: JSON) -> None:
        self._held(job, "checkpoint = ?", json.dumps(value, ensure_ascii=False))

    def finish(self, job: Job, left: JSON | None = None) -> None:
        # The claim stays: a ticket that is handed in twice is known by it.
        told = None if left is None else json.dumps(left, ensure_ascii=False)
        self._held(job, "state = 'done', error = null, checkpoint = ?", told)

    def fail(self, job: Job, error: str, due: int | None) -> None:
        if due is None:
            self._held(job, "state = 'dead', claim = null, error = ?", error)
        else:
            self._held(job, f"state = 'waiting', claim = null, due = {due}, error = ?", error)

    def release(self, job: Job, now: int) -> None:
        self._held(job, "state = 'waiting', claim = null, attempts = attempts - 1, due = ?", now)

    def _held(self, job: Job, change: str, value: Any) -> None:
        """Change a job that this claim still holds; whoever lost it changes nothing."""
        if not self._db.all(
            f"update jobs set {change} where id = ? and claim = ? and attempts = ?"
            " and state = 'running' returning 1",
            (value, job.id, job.claim, job.attempts),
        ):
            raise LeaseLost(f"job {job.id} is held by another worker now")

    def retry(self, id: str, now: int) -> None:
        self._check_not_running(id)
        self._db.execute(
            "update jobs set state = 'waiting', attempts = 0, due = ?, error = null, claim = null"
            " where id = ?",
            (now, id),
        )

    def drop(self, id: str) -> None:
        self._check_not_running(id)
        self._db.execute("delete from jobs where id = ?", (id,))

    def _check_not_running(self, id: str) -> None:
        job = self.job(id)
        if job is None:
            raise NotFound(f"there is no job {id}; `reasonbank queue list` shows all")
        if job.state is JobState.RUNNING and not holders.is_gone(job.claim or ""):
            raise Refused(f"job {id} is running now; wait until it has ended")

    def bring_home(self, workspace: str, home: str) -> None:
        """The workspace was merged into another."""
        self._db.execute("update jobs set workspace = ? where workspace = ?", (home, workspace))

    def drop_all(self, workspace: str) -> None:
        self._db.execute("delete from jobs where workspace = ?", (workspace,))

    def drop_done(self, before: int) -> int:
        return self._db.changed(
            "delete from jobs where state = 'done' and created_at < ?", (before,)
        )


def _marks(values: Sequence[str]) -> str:
    return ",".join("?" * len(values)) or "null"

"""Workers that are killed lose no job and do none twice."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from fault_tools import a_memory, open_bank, processes, scaled
from tests.requirement import requirement

from reasonbank.jobs.worker import Effects, Work, Worker
from reasonbank.ledger.port import LEASE
from reasonbank.model import Trace
from reasonbank.store import memories

WORKERS = 8


async def one_memory_a_job(work: Work) -> Effects:
    def effects(context: Any, txn: Any) -> None:
        # A second time it would be refused: the id is taken.
        memories.record_in(context, txn, a_memory(id=work.job.id, content=work.job.subject))

    return effects


def work(path: Path, ready: Any) -> None:
    async def run() -> None:
        with open_bank(path) as bank:
            ready.send(True)
            await Worker(bank.context, {"distil": one_memory_a_job}, max_attempts=20).run()

    anyio.run(run)


def started(path: Path) -> Any:
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=work, args=(path, theirs), daemon=True)
    process.start()
    theirs.close()
    assert ours.recv()
    return process


@pytest.mark.slow
@requirement("DIS-2")
def test_workers_that_are_killed_lose_no_job_and_do_none_twice(memory_disk: Path) -> None:
    count = scaled("REASONBANK_TEST_JOBS", 1_000)
    path = memory_disk / "queue" / "bank.db"
    rng = random.Random(3)
    with open_bank(path) as bank:
        jobs = [bank.distil(Trace(task=f"task {n}")).id for n in range(count)]
        queue = bank.store.ledger.read().queue
        workers = [started(path) for _ in range(min(WORKERS, 2 + count // 500))]
        kills = 0
        try:
            while not kills or queue.depth(None).waiting:
                time.sleep(rng.uniform(0, 1.0 if count > 5_000 else 0.04))
                victim = rng.randrange(len(workers))
                workers[victim].kill()
                workers[victim].join()
                kills += 1
                workers[victim] = started(path)
        finally:
            for process in workers:
                process.kill()
                process.join()
    print(f"{count} jobs, {kills} kills")

    async def rest() -> None:
        # A minute later the leases of the dead have run out.
        with open_bank(path, clock=lambda: time.time_ns() // 1000 + LEASE) as bank:
            await Worker(bank.context, {"distil": one_memory_a_job}, max_attempts=20).run(
                until_empty=True
            )
            assert bank.store.ledger.check() == []
            assert {m.id for m in bank.memories(limit=1_000_000)} == set(jobs)
            assert {j.state for j in bank.jobs(limit=100_000)} == {"done"}

    anyio.run(rest)
    assert kills

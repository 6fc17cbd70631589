"""What a killed process held is free at once for the next one on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fault_tools import child, open_bank, processes
from tests.requirement import requirement

from reasonbank.errors import Refused
from reasonbank.jobs.worker import Effects, Work, Worker
from reasonbank.ledger import holders
from reasonbank.model import JobState, Trace
from reasonbank.store import leases
from reasonbank.tidy.consolidate import KIND

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")


def take_and_wait(path: Path, ready: Any) -> None:
    with open_bank(path) as bank:
        assert leases.take(bank.context, KIND, hours=0) is not None
        ready.send(True)
        signal.pause()


def work_and_wait(path: Path, ready: Any) -> None:
    async def never(work: Work) -> Effects:
        ready.send(True)
        await anyio.sleep_forever()
        raise AssertionError

    async def run() -> None:
        with open_bank(path) as bank:
            await Worker(bank.context, {"distil": never}, slots=1).run()

    anyio.run(run)


@contextlib.contextmanager
def holding(target: Any, path: Path) -> Iterator[Any]:
    ours, theirs = processes.Pipe(duplex=False)
    with child(target, path, theirs) as process:
        theirs.close()
        assert ours.recv()
        yield process


@LINUX
@requirement("CSL-4", "CSL-5")
def test_a_killed_consolidation_does_not_keep_the_next_one_waiting(path: Path) -> None:
    with open_bank(path) as bank, holding(take_and_wait, path) as process:
        with pytest.raises(Refused, match="under way"):
            bank.consolidate(force=True)
        process.kill()
        process.join()
        assert bank.consolidate(force=True).message == "nothing to merge"


@LINUX
@requirement("DIS-2")
def test_a_killed_workers_job_is_done_by_the_next_worker_at_once(path: Path) -> None:
    with open_bank(path) as bank:
        job = bank.distil(Trace(task="the one job"))

        async def run() -> int:
            async def nothing(work: Work) -> Effects:
                return lambda context, txn: None

            return await Worker(bank.context, {"distil": nothing}).run(until_empty=True)

        with holding(work_and_wait, path) as process:
            assert anyio.run(run) == 0, "a worker that lives keeps its job"
            with pytest.raises(Refused, match="running"):
                bank.drop_job(job.id)
            process.kill()
            process.join()
            assert anyio.run(run) == 1
        assert bank.jobs()[0].state is JobState.DONE and bank.jobs()[0].attempts == 2


@LINUX
def test_a_killed_workers_job_can_be_dropped_at_once(path: Path) -> None:
    with open_bank(path) as bank:
        job = bank.distil(Trace(task="the one job"))
        with holding(work_and_wait, path) as process:
            process.kill()
            process.join()
            bank.drop_job(job.id)
        assert bank.jobs() == []


@LINUX
def test_only_what_is_provably_gone_on_this_machine_is_gone() -> None:
    here = holders.name()
    assert not holders.is_gone(here)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    machine, pid, start, rest = here.split("/")
    assert int(pid) == os.getpid()

    def claim(machine: str = machine, pid: object = pid, start: object = start) -> str:
        return f"{machine}/{pid}/{start}/{rest}"

    assert claim() == here
    assert holders.is_gone(claim(pid=ended.pid))
    assert holders.is_gone(claim(start=int(start) + 1)), "the number was given to another process"
    elsewhere = claim(pid=ended.pid, machine="another")
    for unknown in (elsewhere, "agent-0123", "w1", "", "//", "a/b/c/d", f"{machine}/x/y/z",
                    f"{machine}//{start}/", f"/{ended.pid}//", claim(start="")):  # fmt: skip
        assert not holders.is_gone(unknown), unknown


@LINUX
def test_a_process_that_ended_is_gone_though_its_parent_did_not_look() -> None:
    tell = "from reasonbank.ledger import holders; print(holders.name(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", tell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = process.stdout.readline().strip()
        assert not holders.is_gone(told)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert holders.is_gone(told)

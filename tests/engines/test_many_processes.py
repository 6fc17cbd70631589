"""Two server processes and two workers on one PostgreSQL, started as the how-to says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from reasonbank import Bank
from reasonbank.ledger.events import EventType
from reasonbank.model import Job, JobState
from reasonbank.testing.builders import a_trace
from tests.conftest import HASHED
from tests.learn.plain_sessions import SEEN
from tests.learn.test_about import a_session
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, environment, serving
from tests.surfaces.test_processes import members, until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks for child processes in /proc"
)

MOST = 2_000
"""Sessions, before it is said that a worker never came to work."""


class Line:
    """One connection, kept: all that it carries is answered by the same process."""

    def __init__(self, server, project):
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._headers = server.allowed() | {
            "Content-Type": "application/json", "X-ReasonBank-Workspace": str(project),
        }  # fmt: skip
        try:
            self.ask("GET", "/memories")
            self.process = _served_by(self._connection.sock.getsockname()[1], members(server))
        except BaseException:
            self.close()
            raise

    def ask(self, method, path, **body):
        self._send(method, path, **body)
        return self._told()

    @contextmanager
    def at_work(self):
        """Its process has something to do meanwhile."""
        self._send("GET", "/memories")
        yield
        self._told()

    def _send(self, method, path, **body):
        sent = json.dumps(body) if body else None
        self._connection.request(method, f"/api/v1{path}", sent, self._headers)

    def _told(self):
        answer = self._connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status < 300, told
        return told

    def close(self):
        self._connection.close()


def _served_by(port, processes):
    """The process that has the other end of the connection that comes from this port."""
    wanted = f":{port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    [inode] = [words[9] for words in lines if words[2].endswith(wanted) and words[9] != "0"]
    for process in processes:
        for file in Path(f"/proc/{process}/fd").iterdir():
            if f"socket:[{inode}]" == str(_target(file)):
                return process
    raise AssertionError(f"nobody has the connection from port {port}")


def _target(file):
    try:
        return file.readlink()
    except FileNotFoundError:
        return None


@contextmanager
def lines_to_both(server, project):
    """A connection to each of the two. The kernel deals them out as it likes, often the same way
    for long: so the one that has a connection is at work when the next one comes."""
    with ExitStack() as stack:
        first = second = stack.enter_context(closing(Line(server, project)))
        while first.process == second.process:
            with first.at_work():
                second = stack.enter_context(closing(Line(server, project)))
        yield [first, second]


@contextmanager
def worker(folder, url):
    with open(folder / "worker.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", "--json", "worker"],
            env=environment(folder, REASONBANK_URL=url), cwd=folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory, postgres_server):
    """One start for all tests here; each works in a project of its own."""
    folder, url = tmp_path_factory.mktemp("servers"), postgres_server.new_database()
    settings = {"REASONBANK_URL": url, "REASONBANK_SERVER_RATE": 1_000_000}
    with serving(folder, "--processes", 2, **settings) as server:
        yield server, folder, url
    postgres_server.drop(url)


@pytest.fixture
def server(place):
    return place[0]


@pytest.fixture
def bank(place, tmp_path):
    """The same project, seen by a third process: this one."""
    with Bank.open(place[2], workspace=tmp_path, settings=HASHED) as bank:
        yield bank


@requirement("MEM-9")
def test_what_is_recorded_through_one_process_the_other_finds_at_once(server, tmp_path):
    with lines_to_both(server, tmp_path) as lines:
        for number in range(8):
            writer, reader = lines if number % 2 else lines[::-1]
            title = f"Lesson number {number}"
            id = writer.ask("POST", "/memories", **LESSON | {"title": title})["id"]
            found = reader.ask("POST", "/search", query=title, limit=50)
            assert id in [memory["id"] for memory in found["memories"]]
            assert reader.ask("GET", f"/memories/{id}")["title"] == title


@requirement("MEM-9")
def test_writers_at_both_processes_lose_nothing_and_outcomes_are_credited_across_them(
    server, bank, tmp_path
):
    tasks, threads = 24, 6
    with lines_to_both(server, tmp_path) as lines:
        target = lines[0].ask("POST", "/memories", **LESSON)["id"]

        def work(number, mine):
            """Ask at one process, record and report the outcome at the other."""
            made, credited = [], 0
            for task in range(number, tasks, threads):
                asking, reporting = mine if task % 2 else mine[::-1]
                found = asking.ask(
                    "POST", "/search", query="upload breaks off", limit=1, session=f"task {task}"
                )
                assert [memory["id"] for memory in found["memories"]] == [target]
                title = f"Number {task} of the numbered notes"
                note = {"title": title, "description": title, "content": title}
                made.append(reporting.ask("POST", "/memories", **note)["id"])
                credited += reporting.ask(
                    "POST", f"/sessions/task%20{task}/outcome", succeeded=True
                )["credited"]
            return made, credited

        with ExitStack() as stack, ThreadPoolExecutor(threads) as pool:
            both = [stack.enter_context(lines_to_both(server, tmp_path)) for _ in range(threads)]
            results = list(pool.map(work, range(threads), both))
        made = [id for ids, _ in results for id in ids]
        assert sum(credited for _, credited in results) == tasks
        for line in lines:
            evidence = line.ask("GET", f"/memories/{target}/evidence")
            assert len({each["session"] for each in evidence}) == tasks
        confidence = {line.ask("GET", f"/memories/{target}")["confidence"] for line in lines}
        assert len(confidence) == 1 and confidence.pop() > 0.8
    assert {memory.id for memory in bank.memories(limit=1_000)} == {target, *made}
    assert bank.store.ledger.check() == []


@requirement("DIS-2")
@requirement("DIS-11")
def test_the_queue_is_drained_once_by_all_workers_together(place, bank, tmp_path):
    server, folder, url = place
    lessons = list(SEEN.values())[:8]
    handed_in: list[str] = []

    def drained():
        depth = bank.store.ledger.read().queue.depth(None)
        return not depth.waiting and not depth.running

    with ExitStack() as stack:
        workers = [stack.enter_context(worker(folder, url)) for _ in range(2)]
        lines = stack.enter_context(lines_to_both(server, tmp_path))
        jobs: list[Job] = []
        # The server's own worker has a start; go on until the other two had their share.
        while len({holder(job) for job in jobs}) < 3:
            assert len(handed_in) < MOST
            for number, lesson in enumerate(lessons * 3):
                trace = a_trace(task="Get it going", trajectory=a_session(lesson.steps).trajectory)
                told = lines[number % 2].ask("POST", "/sessions", **trace.to_json())
                handed_in.append(told["subject"])
            until(drained)
            queue = bank.store.ledger.read().queue
            found = queue.jobs(bank.view.workspace, tuple(JobState), 2 * MOST)
            jobs = [job for job in found if job.kind == "distil"]
        for process in workers:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert sorted(job.subject for job in jobs) == sorted(handed_in)
    assert {(job.state, job.attempts) for job in jobs} == {(JobState.DONE, 1)}
    events = bank.store.ledger.read().events(None)
    learned = Counter(event.subject for event in events if event.type is EventType.LEARNED)
    assert learned == dict.fromkeys(handed_in, 1)
    titles = [memory.title for memory in bank.memories(limit=1_000)]
    assert len(titles) == len(set(titles)) == len(lessons)
    print(f"{len(jobs)} sessions: {sorted(Counter(map(holder, jobs)).values())} each")
    assert bank.store.ledger.check() == []


def holder(job):
    """The process that did it; the claim has the number of its slot behind that."""
    return job.claim.rpartition("-")[0]

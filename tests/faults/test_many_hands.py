"""Library, command line, HTTP and MCP at once, killed at random: what was acknowledged stands."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fault_tools import keep_count, open_bank, processes, scaled, unlike_its_log
from hands import COMMAND, HANDS, PROJECT, Hand, Unheard, environment
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Forgotten, NotFound
from reasonbank.ledger.port import Filter
from reasonbank.model import EvidenceKind, State

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="looks for child processes in /proc"
)

WRITERS = 8
# A writer that is started again goes on with the next of these. A call of the command line
# costs as much as a hundred of the library, so it has one place of eight.
TURNS = ("library", "http", "library", "mcp", "http", "library", "cli", "http")
DEEDS = ("record", "record", "update", "feedback", "forget", "search", "search", "end", "end")
TOPICS = ("ports", "locks", "queues", "caches")
MOST_OPEN = 4
PAUSE = 0.04
LONGEST = 120.0


@dataclass
class Log:
    """What one writer was told, over all its lives; what it never heard about is ``unsure``."""

    file: Path
    count: int = 0
    pending: list[Any] | None = None
    content: dict[str, str] = field(default_factory=dict)
    titles: set[str] = field(default_factory=set)
    praised: Counter[str] = field(default_factory=Counter)
    forgotten: set[str] = field(default_factory=set)
    found: dict[str, list[str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    unsure: list[list[Any]] = field(default_factory=list)
    acknowledged: int = 0

    @classmethod
    def of(cls, file: Path) -> Log:
        log = cls(file)
        lines = file.read_bytes().split(b"\n") if file.exists() else [b""]
        for line in lines[:-1]:  # What follows the last line's end was cut off by a kill.
            with contextlib.suppress(ValueError):  # So was what a later life wrote behind it.
                log.hear(json.loads(line))
        return log

    def hear(self, line: list[Any]) -> None:
        """``[number, deed, what, value]`` before it is done, ``[number, answer]`` after."""
        self.count = line[0]
        if len(line) == 4:
            self.lose()
            self.pending = line
        elif self.pending is not None and self.pending[0] == line[0]:
            _, deed, what, value = self.pending
            self.pending = None
            self.acknowledged += 1
            self._done(deed, what, value, line[1])

    def lose(self) -> None:
        if self.pending is not None:
            self.unsure.append(self.pending)
            if self.pending[1] == "forget":
                self.content.pop(self.pending[2], None)  # Nothing more is done to it.
        self.pending = None

    def _done(self, deed: str, what: str, value: Any, answer: Any) -> None:
        match deed:
            case "record":
                self.content[answer] = value
                self.titles.add(what)
            case "update":
                self.content[what] = value
            case "feedback":
                self.praised[what] += 1
            case "forget":
                self.forgotten.add(what)
                del self.content[what]
            case "search":
                self.found.setdefault(what, []).extend(answer)
            case "end":
                self.ended.add(what)

    @property
    def open(self) -> list[str]:
        return [session for session in self.found if session not in self.ended]


class Writer:
    """Says what it is about to do, does it, and says what it was told, each on disk at once."""

    def __init__(self, folder: Path, number: int, hand: Hand, seed: int) -> None:
        self.name = f"w{number}"
        self.log = Log.of(folder / f"{self.name}.log")
        self.log.lose()
        self.hand = hand
        self.rng = random.Random(seed)
        self.file = open(self.log.file, "ab", buffering=0)  # noqa: SIM115
        self.file.write(b"\n")

    def _write(self, line: list[Any]) -> None:
        self.file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self.file.fileno())
        self.log.hear(line)

    def step(self) -> None:
        log, number = self.log, self.log.count + 1
        deed = self.rng.choice(DEEDS)
        mine = sorted(log.content)
        if not mine or (deed == "forget" and len(mine) < 4):
            deed = "record"
        if deed == "search" and len(log.open) >= MOST_OPEN:
            deed = "end"
        if deed == "end" and not log.open:
            deed = "search"
        topic = self.rng.choice(TOPICS)
        what: str
        value: Any = f"value {self.rng.randrange(10**9)}"
        match deed:
            case "record":
                what = f"Mind the {topic} {self.name} number {number}"
            case "search":
                what = f"{self.name}-{number}"
                if log.open and self.rng.random() < 0.3:
                    what = self.rng.choice(log.open)
                value = f"Mind the {topic}"
            case "end":
                what, value = self.rng.choice(log.open), self.rng.random() < 0.5
            case _:
                what = self.rng.choice(mine)
        self._write([number, deed, what, value])
        with contextlib.suppress(Unheard):
            self._write([number, self._do(deed, what, value)])

    def _do(self, deed: str, what: str, value: Any) -> Any:
        match deed:
            case "record":
                return self.hand.record(what, value)
            case "update":
                self.hand.update(what, value)
            case "feedback":
                self.hand.feedback(what)
            case "forget":
                self.hand.forget(what)
            case "search":
                return self.hand.search(value, what)
            case "end":
                self.hand.end(what, value, set(self.log.found[what]))
        return None


def write_until_killed(folder: Path, number: int, turn: str, seed: int) -> None:
    os.setpgid(0, 0)
    parent = os.getppid()
    try:
        writer = Writer(folder, number, HANDS[turn](folder), seed)
        while os.getppid() == parent:
            writer.step()
            # Who asks without a pause leaves no processor to those that are just starting.
            threading.Event().wait(writer.rng.random() * PAUSE)
    except BaseException as error:
        (folder / f"error-{number}").write_text(f"{turn}: {error!r}")
        raise


def children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(c) for task in tasks for c in (task / "children").read_text().split()]
    return []


class Life:
    """One writer's process, from one kill to the next."""

    def __init__(self, folder: Path, number: int, life: int, seed: int) -> None:
        self.folder, self.number, self.life = folder, number, life
        self.turn = TURNS[(number + life) % len(TURNS)]
        self.least = 2 + seed % (4 if self.turn in ("mcp", "cli") else 22)
        self.log = folder / f"w{number}.log"
        self._before = self._written()
        self.process = processes.Process(
            target=write_until_killed, args=(folder, number, self.turn, seed), daemon=True
        )
        self.process.start()

    def _written(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    @property
    def ready(self) -> bool:
        """Whether it has been at work for as long as it is given, in lines of its log."""
        if not self.process.is_alive():
            error = self.folder / f"error-{self.number}"
            pytest.fail(error.read_text() if error.exists() else "a writer ended", pytrace=False)
        return self._written() >= self._before + 50 * self.least

    def kill(self) -> None:
        """With whatever it has started."""
        assert self.process.pid is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:  # It has not made a group of its own yet.
            self.process.kill()
        self.process.join()

    def kill_a_part(self) -> bool:
        """Only what it talks to: the server of an agent, one call of the command line."""
        assert self.process.pid is not None
        for pid in children(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False


class Server:
    """`reasonbank serve --processes 2`, always at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._start()
        self._until_up()

    def _start(self) -> None:
        self.up = False
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(self.port), "--processes", "2"],
                env=environment(self.folder), cwd=self.folder, stdout=subprocess.PIPE,
                stderr=log, text=True, start_new_session=True,
            )  # fmt: skip

    def _until_up(self) -> None:
        """The members of one that was killed may still hold the address: then try again."""
        assert self.process.stdout is not None
        while not (line := self.process.stdout.readline()):
            self.kill()
            self._start()
        self.port = int(json.loads(line)["address"].rpartition(":")[2])
        # At once: somebody may be reading it.
        new = self.folder / "port.new"
        new.write_text(str(self.port))
        new.replace(self.folder / "port")
        self.up = True

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill_and_start(self) -> None:
        """Whoever asks it meanwhile has to wait; the others go on, and are killed."""
        self.kill()
        self._start()
        self.starting = threading.Thread(target=self._until_up, daemon=True)
        self.starting.start()

    def kill_a_member(self) -> bool:
        for pid in children(self.process.pid)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def stop(self) -> None:
        if not self.up:
            self.starting.join(LONGEST)
        self.kill()


@contextlib.contextmanager
def all_hands(folder: Path, rng: random.Random) -> Iterator[tuple[Server, list[Life]]]:
    server = Server(folder)
    lives = [Life(folder, number, 0, rng.randrange(10**9)) for number in range(WRITERS)]
    try:
        yield server, lives
    finally:
        for life in lives:
            life.kill()
        server.stop()


def next_victim(lives: list[Life], rng: random.Random) -> Life:
    """Any that is at work. As each goes through all surfaces in turn, all get their share."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if ready := [life for life in lives if life.ready]:
            return rng.choice(ready)
        threading.Event().wait(0.01)
    raise AssertionError("nobody gets anything done")


def killing(folder: Path, kills: int, rng: random.Random) -> Counter[str]:
    """Kill so many; what was killed, and how often."""
    killed: Counter[str] = Counter()
    with all_hands(folder, rng) as (server, lives):
        while killed.total() < kills:
            chance = rng.random()
            if chance < 0.015 and server.up:
                server.kill_and_start()
                killed["the whole server"] += 1
                continue
            if chance < 0.06 and server.up:
                killed["one process of the server"] += server.kill_a_member()
                continue
            life = next_victim(lives, rng)
            if chance < 0.25 and life.turn in ("mcp", "cli"):
                killed[f"what {life.turn} runs"] += life.kill_a_part()
                continue
            life.kill()
            killed[life.turn] += 1
            lives[life.number] = Life(folder, life.number, life.life + 1, rng.randrange(10**9))
    return killed


def check(bank: Bank, logs: list[Log]) -> None:
    """Nothing acknowledged is lost, and nothing is there twice."""
    everything = bank.memories(Filter(states=tuple(State)), limit=1_000_000)
    titles = Counter(memory.title for memory in everything)
    assert [title for title, times in titles.items() if times > 1] == []
    unheard = [unsure for log in logs for unsure in log.unsure]
    lost_searches = sum(deed == "search" for _, deed, _, _ in unheard)
    returned = Counter(id for log in logs for ids in log.found.values() for id in ids)
    for log in logs:
        maybe = [unsure for unsure in log.unsure if unsure[1] in ("update", "feedback")]
        for id in log.forgotten:
            with pytest.raises(Forgotten):
                bank.get(id)
        for id, content in log.content.items():
            memory = bank.get(id)
            unsure = {value for _, deed, what, value in maybe if (deed, what) == ("update", id)}
            assert memory.content in {content, *unsure}
            praise = sum(e.kind is EvidenceKind.EXPLICIT for e in bank.evidence(id))
            more = sum((deed, what) == ("feedback", id) for _, deed, what, _ in maybe)
            assert log.praised[id] <= praise <= log.praised[id] + more
            assert memory.usage_count <= returned[id] + lost_searches


def without_outcome(bank: Bank, logs: list[Log]) -> list[tuple[str, str]]:
    """Sessions that ended, and what they were given, of which no outcome is told."""
    told: dict[str, set[str | None]] = {}
    missing = []
    for log in logs:
        for session in sorted(log.ended):
            for id in log.found[session]:
                if id not in told:
                    told[id] = set()
                    with contextlib.suppress(Forgotten, NotFound):
                        found = bank.evidence(id)
                        told[id] = {e.session for e in found if e.kind is EvidenceKind.OUTCOME}
                        told[id].add(None)
                # What its owner forgot since has no evidence any more.
                if told[id] and session not in told[id]:
                    missing.append((session, id))
    return missing


@pytest.mark.slow
@requirement("MEM-8")
@requirement("MEM-9")
def test_many_hands_that_are_killed_lose_nothing_that_was_acknowledged(memory_disk: Path) -> None:
    """In a soak 2,000 are killed."""
    kills = scaled("REASONBANK_TEST_HANDS", 100)
    chosen = scaled("REASONBANK_TEST_SEED", 1)
    with open_bank(memory_disk / "bank.db", PROJECT):
        pass
    killed = killing(memory_disk, kills, random.Random(chosen))
    logs = [Log.of(memory_disk / f"w{number}.log") for number in range(WRITERS)]
    for log in logs:
        log.lose()
    with open_bank(memory_disk / "bank.db", PROJECT) as bank:
        assert bank.store.ledger.check() == []
        check(bank, logs)
        assert without_outcome(bank, logs) == []
    assert unlike_its_log(memory_disk / "bank.db") == {}
    acknowledged = sum(log.acknowledged for log in logs)
    ended = sum(len(log.ended) for log in logs)
    assert acknowledged > kills and ended > kills / 10
    counts = {"seed": chosen, "acknowledged": acknowledged, "sessions ended": ended}
    keep_count("many hands", counts | {f"killed: {n}": t for n, t in sorted(killed.items())})

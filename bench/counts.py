"""What each operation costs, counted rather than timed: the same on every machine.

    python -m bench.counts [--update]

SQL statements that we run, pages that SQLite writes to its log, syncs of the disk, and texts
that are embedded. A count that has grown is an error; ``--update`` accepts the new ones.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import apsw

from bench import tables
from bench.tables import Table
from reasonbank.bank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.model import Memory, derived_id
from reasonbank.settings import Embed, Settings
from reasonbank.testing import a_memory

SIZES = (100, 1_000)
NOW = 1_772_366_400_000_000
SETTINGS = Settings(embed=Embed(model="hashed"), author="bench")
WORDS = ("port", "lock", "queue", "cache", "token", "retry", "index", "branch", "batch", "stream")
COLUMNS = ("statements", "pages written", "syncs", "texts embedded")
DEPENDS_ON_SQLITE = ("pages written", "syncs")


@dataclass
class Counts:
    statements: int = 0
    pages: int = 0
    syncs: int = 0
    texts: int = 0


class Counted(Hashed):
    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def embed(self, texts: Sequence[str]) -> Any:
        self.counts.texts += len(texts)
        return super().embed(texts)


class CountingDisk(apsw.VFS):
    """Passes everything on. A page is written once to the log, which is synced; that it is
    copied into the database later is no operation's doing."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.name = f"counting {id(self)}"
        super().__init__(name=self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        return CountingFile(name, flags, self.counts if log else Counts())


class CountingFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], counts: Counts) -> None:
        self._counts = counts
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        # Of a frame the header is written apart, and is much shorter.
        self._counts.pages += len(data) >= 4096
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._counts.syncs += 1
        super().xSync(flags)


class Scene:
    """A bank of so many memories, and what is counted while something is done to it."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.counts = Counts()
        self._disk = CountingDisk(self.counts)
        self._ticks = itertools.count(NOW, 1_000_000)
        self.bank = self._open()
        for number in range(size):
            self.bank.record(lesson(number))
        self.bank.embed_new()

    def _open(self) -> Bank:
        def clock() -> int:
            return next(self._ticks)

        bank = Bank.open(
            ledger=SQLiteLedger(self.folder / "bank.db", clock=clock, vfs=self._disk.name),
            embedder=Counted(self.counts),
            clock=clock,
            settings=SETTINGS,
            workspace="/project",
        )
        # What a thread does when it has time would be counted for whoever happens to be at it.
        bank.store.indexing.wake = lambda: None
        return bank

    def reopen(self) -> None:
        self.bank.close(embed=False)
        self.bank = self._open()

    def cost(self, work: Callable[[], Any]) -> Counts:
        with counting_statements(self.counts):
            before = replace(self.counts)
            work()
        pairs = zip(astuple(self.counts), astuple(before), strict=True)
        return Counts(*(after - was for after, was in pairs))

    def close(self) -> None:
        self.bank.close(embed=False)
        self._disk.unregister()


@contextlib.contextmanager
def counting_statements(counts: Counts) -> Iterator[None]:
    """Of connections that are open, and of those that are opened meanwhile."""

    def count(cursor: Any, sql: str, bindings: Any) -> bool:
        # How long a search took decides how many cells of a meter it is counted in.
        counts.statements += "insert into meters" not in sql
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = count

    for connection in apsw.connections():
        watch(connection)
    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)
        for connection in apsw.connections():
            connection.exec_trace = None


def lesson(number: int) -> Memory:
    first, second, third = (WORDS[number // 10**place % 10] for place in range(3))
    return a_memory(
        id=derived_id("counted", str(number)),
        title=f"Mind the {first} before the {second}, case {number}",
        description=f"When a {third} is slow and a {first} is in use",
        content=f"Look at the {second} first; then wait for the {third}, case {number}.",
        tags=(first, second),
    )


def costs(size: int) -> dict[str, Counts]:
    """In the order in which they are done: each finds what the ones before it left."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), size)
        try:
            return dict(_story(scene, size))
        finally:
            scene.close()


def _story(scene: Scene, size: int) -> Iterator[tuple[str, Counts]]:
    fresh = itertools.count(size)

    def record() -> None:
        scene.bank.record(lesson(next(fresh)))

    def search(question: str, session: str | None = None) -> None:
        scene.bank.search(question, session=session, limit=5)

    def with_session(question: str, session: str) -> None:
        search(question, session)
        scene.bank.store.flush()

    record()
    yield "record", scene.cost(record)
    yield "embed what two records left", scene.cost(scene.bank.embed_new)
    scene.bank.store.flush()
    scene.reopen()
    asked = "a slow queue before the port"
    yield "search, the first of a process", scene.cost(lambda: search(asked))
    yield "search, the same question again", scene.cost(lambda: search(asked))
    yield "search, another question", scene.cost(lambda: search("a lock in use before the cache"))
    yield "write down what three searches returned", scene.cost(scene.bank.store.flush)
    yield "search, after a write", scene.cost(lambda: search(asked))
    scene.bank.store.flush()
    yield "search with a session, written down", scene.cost(lambda: with_session(asked, "one"))
    yield (
        "credit: five memories of a session",
        scene.cost(lambda: scene.bank.credit("one", succeeded=True)),
    )
    yield "credit again, the same", scene.cost(lambda: scene.bank.credit("one", succeeded=True))
    first = derived_id("counted", "0")
    yield (
        "outcome of one memory",
        scene.cost(lambda: scene.bank.outcome(first, succeeded=True, session="two")),
    )
    yield "feedback on one memory", scene.cost(lambda: scene.bank.feedback(first, helpful=True))
    yield (
        "update of one memory",
        scene.cost(lambda: scene.bank.update(first, content="Look twice.")),
    )


def counted() -> Table:
    table = Table(
        "counts",
        "What an operation costs, counted",
        ("operation", "memories", *COLUMNS),
        notes=[
            "A search hands what it returned to the next write; that of a named session is "
            "written at once.",
            "Embedding in the background is a row of its own.",
        ],
        machine={"sqlite": apsw.sqlite_lib_version()},
    )
    found = {size: costs(size) for size in SIZES}
    for operation in found[SIZES[0]]:
        for size in SIZES:
            table.add(operation, f"{size:,}", *astuple(found[size][operation]))
    return table


def committed() -> dict[str, Any]:
    path = tables.RESULTS / "counts.json"
    found = json.loads(path.read_text("utf-8"))["tables"] if path.is_file() else []
    return found[0] if found else vars(Table("counts", ""))


def changes(before: dict[str, Any], now: Table) -> tuple[list[str], list[str]]:
    """What has grown, and what has shrunk; another SQLite may well write other pages."""
    same = before["machine"] == now.machine
    known = {tuple(row[:2]): row[2:] for row in before["rows"]}
    grown, shrunk = [], []
    for operation, size, *cells in now.rows:
        old = known.pop((operation, size), None)
        for name, cell, was in zip(COLUMNS, cells, old or [None] * len(cells), strict=True):
            if was == cell or (not same and name in DEPENDS_ON_SQLITE):
                continue
            line = f"{operation}, {size} memories: {name} {was} -> {cell}"
            (shrunk if was is not None and int(cell) < int(was) else grown).append(line)
    return grown, shrunk + [f"{operation}, {size} is gone" for operation, size in known]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="accept the counts of today")
    update = parser.parse_args(arguments).update
    table = counted()
    tables.show(table)
    grown, shrunk = changes(committed(), table)
    for line in (*grown, *shrunk):
        print(line)
    if update:
        tables.keep("counts", table)
        tables.rewrite_document()
        return 0
    return 1 if grown or shrunk else 0


if __name__ == "__main__":
    sys.exit(main())

"""Banks that exchange exports, and what each of them says once all have heard everything."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
from fault_tools import PARTS, exported

from reasonbank.bank import Bank
from reasonbank.ledger.port import PACKED_EVIDENCE, Filter, Ledger
from reasonbank.model import Scope, State
from reasonbank.settings import Embed, ProofSettings, Settings
from reasonbank.testing.memory_ledger import MemoryLedger

HOUR = 3_600_000_000
DAY = 24 * HOUR
START = 1_772_366_400_000_000
PATHS = ("/alpha", "/beta", "/gamma")
HOLD_OUT = ProofSettings(hold_out=0.3, seed=12)  # One of the three sessions.
SETTINGS = Settings(embed=Embed(model="hashed"), author="ann", proof=HOLD_OUT, scrub=False)
MOST_ROUNDS = 4

# What a bank keeps for itself, by design: how far it has come, its vectors, its queue, its
# meters, its tokens, the questions that its own people asked in vain.
LOCAL_TABLES = frozenset({
    "meta", "events", "realms", "models", "vectors", "words", "jobs", "meters", "tokens", "misses",
    "sqlite_sequence",
})  # fmt: skip
LOCAL_COLUMNS = frozenset({"seq", "embedded", "rolled"})

Said = dict[str, dict[Any, Any]]


class Topics:
    """An embedder that knows four topics by the first word of a text; next to no work."""

    name = "topics"
    dimensions = 4
    semantic = True

    def embed(self, texts: Sequence[str]) -> Any:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            vector[crc32(text.split(" ", 1)[0].encode()) % self.dimensions] = 1
        return vectors

    def verify(self) -> None:
        """There is nothing that could be damaged."""


class Clock:
    """The time of day, wrong by ``skew``."""

    def __init__(self) -> None:
        self.time = START
        self.skew = 0

    def __call__(self) -> int:
        return self.time + self.skew


Place = Callable[[Clock], Ledger]


class Replicas:
    """Three banks, each with a clock of its own; time passes when it is told to.

    One of them, and the newcomer, may be elsewhere: ``place`` opens their ledgers.
    """

    def __init__(self, skews: Sequence[int] = (0, 0, 0), place: Place | None = None) -> None:
        self.place = place
        opened = [_opened(place), *(_opened() for _ in skews[1:])]
        # In the order of their ids, so that the same story ends the same each time.
        opened.sort(key=lambda pair: pair[0].store.ledger.bank_id)
        self.banks = [bank for bank, _ in opened]
        self.clocks = [clock for _, clock in opened]
        for clock, skew in zip(self.clocks, skews, strict=True):
            clock.skew = skew

    def wait(self, microseconds: int) -> None:
        for clock in self.clocks:
            clock.time += microseconds

    def bank(
        self, number: int, place: str | int = 0, *, author: str = "ann", team: str | None = None
    ) -> Bank:
        """A bank seen by somebody in a directory, whose settings may name a team."""
        bank = self.banks[number]
        bank.store.settings = replace(SETTINGS, team=team) if team else SETTINGS
        path = PATHS[place] if isinstance(place, int) else place
        return bank.within(path).seen_by(author=author)

    def send(self, source: int, target: int, *, only: str | int | None = None) -> int:
        """How many events were new."""
        bank = self.bank(source, 0 if only is None else only)
        text = exported(bank, only_here=only is not None)
        return int(self.bank(target).import_(io.StringIO(text), trusted=True).new)

    def exchange(self) -> None:
        """All clocks are right from now on, and everybody hears everything."""
        self.wait(max(0, *(clock.skew for clock in self.clocks)) + 2 * DAY)
        for clock in self.clocks:
            clock.skew = 0
        pairs = list(itertools.permutations(range(len(self.banks)), 2))
        for _ in range(MOST_ROUNDS):
            if not sum([self.send(source, target) for source, target in pairs]):
                return
        raise AssertionError(f"after {MOST_ROUNDS} exchanges there is still something new")

    def close(self) -> None:
        for bank in self.banks:
            bank.close(embed=False)

    def said(self, bank: Bank) -> Said:
        """Tables differ from ledger to ledger; the face does not."""
        if self.place is None:
            return said(bank)
        bank.store.flush()
        return _face(bank)


def _opened(place: Place | None = None) -> tuple[Bank, Clock]:
    clock = Clock()
    ledger: Ledger = MemoryLedger(clock=clock) if place is None else place(clock)
    bank = Bank.open(
        ledger=ledger, embedder=Topics(), clock=clock, settings=SETTINGS, workspace=PATHS[0]
    )
    # What searches returned is written down when a story says so, not when a thread awakes.
    bank.store.indexing.chores = lambda: None
    return bank, clock


def disagreements(replicas: Replicas) -> Said:
    """Exchange everything; then where do banks differ from the first, or from their own log?

    A newcomer that reads the first one's export must agree as well.
    """
    replicas.exchange()
    all_say = [replicas.said(bank) for bank in replicas.banks]
    newcomer, clock = _opened(replicas.place)
    clock.time = replicas.clocks[0].time
    newcomer.import_(io.StringIO(exported(replicas.banks[0])), trusted=True)
    others = {f"bank {number}": each for number, each in enumerate(all_say)}
    others["newcomer"] = replicas.said(newcomer)
    newcomer.close(embed=False)
    found: Said = {}
    for name, other in others.items():
        found.update({f"{name}: {k}": v for k, v in unlike(all_say[0], other).items()})
    for number, bank in enumerate(replicas.banks):
        bank.rebuild()
        anew = unlike(all_say[number], replicas.said(bank))
        found.update({f"rebuild of {number}: {k}": v for k, v in anew.items()})
    return found


def unlike(one: Said, other: Said) -> Said:
    """What two banks say differently, by table and key: ``(this one, the other)``."""
    found: Said = {}
    for table in sorted(one.keys() | other.keys()):
        mine, theirs = one.get(table, {}), other.get(table, {})
        for key in mine.keys() | theirs.keys():
            pair = _comparable(mine.get(key), theirs.get(key))
            if pair[0] != pair[1]:
                found.setdefault(table, {})[key] = _differing(*pair)
    return found


def _comparable(mine: Any, theirs: Any) -> tuple[Any, Any]:
    if isinstance(mine, dict) and isinstance(theirs, dict) and "rolled" in mine:
        return tuple({k: v for k, v in row.items() if k != "rolled"} for row in (mine, theirs))
    return mine, theirs


def _differing(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [n for n in mine.keys() | theirs.keys() if mine.get(n) != theirs.get(n)]
        return {name: (mine.get(name), theirs.get(name)) for name in sorted(names)}
    return mine, theirs


def said(bank: Bank) -> Said:
    """All that a bank says, of its tables and at its face, without its local numbers."""
    bank.store.flush()
    return _tables(bank) | _face(bank)


def _tables(bank: Bank) -> Said:
    db = bank.store.ledger.db
    names = [n for (n,) in db.all("select name from sqlite_master where type = 'table'")]
    memories = dict(db.all("select num, id from memories"))
    realms = dict(db.all("select num, key from realms"))
    events = dict(db.all("select seq, id from events"))
    global_names = {"num": memories, "realm": realms, "event": events, "question": events}
    found: Said = {}
    for table in names:
        if table in LOCAL_TABLES:
            continue
        columns = db.all(f"select name, pk from pragma_table_info('{table}') order by cid")
        keys = [name for name, pk in columns if pk]
        if table == "memories":
            keys = ["id"]
        rows = found[table] = {}
        for values in db.all(f"select * from {table}"):
            row = dict(zip([name for name, _ in columns], values, strict=True))
            if table == "questions":
                row["id"] = events.get(row["id"])
            for name, numbers in global_names.items():
                if row.get(name) is not None:
                    row[name] = numbers.get(row[name], f"nobody has number {row[name]}")
            rows[tuple(row[name] for name in keys)] = _plain(table, row)
    found["weights"] = {k: v for k, v in found["weights"].items() if any(v["counts"])}
    found["tally"] = _tallies(db)
    found["words"] = {
        (id,): text
        for id, text in db.all("select id, text from words left join memories using (num)")
    }
    return found


def _plain(table: str, row: dict[str, Any]) -> dict[str, Any]:
    if row.get("standing") is not None:
        # Sums of the same shares in another order.
        row["standing"] = [round(x, 9) for x in PACKED_EVIDENCE.unpack(row["standing"])]
    if table == "weights":
        row["counts"] = json.loads(row["counts"])
    if table == "memories":
        row.pop("num")
    kept = LOCAL_COLUMNS - ({"rolled"} if table == "evidence" else set())
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in row.items()
        if name not in kept
    }


def _tallies(db: Any) -> dict[Any, Any]:
    """Whatever of it was counted by the day already."""
    return {
        tuple(key): count
        for *key, count in db.all(
            "select id, kind, positive, day, sum(count) from ("
            " select num, kind, positive, day, count from tally where count union all"
            f" select num, kind, positive, at / {DAY}, {PARTS} from evidence where rolled = 0)"
            " join memories using (num) group by 1, 2, 3, 4"
        )
    }


def _face(bank: Bank) -> Said:
    """What the public methods answer, from every workspace."""
    everything = Filter(states=tuple(State), scopes=tuple(Scope))
    found: Said = {name: {} for name in ("seen", "history", "drawn", "told", "stored", "batches")}
    bank.store.settings = SETTINGS
    found["places"] = {place.id: place for place in bank.workspaces()}
    for id in found["places"]:
        here = bank.seen_by(workspace=id)
        found["batches"][id] = sorted(map(repr, here.batches()))
        for task in here.context.read().tasks(here.view):
            found["told"][id, task.session] = replace(task, memories=tuple(sorted(task.memories)))
        for trace in here.traces():
            found["stored"][id, trace.id] = trace
        for memory in here.memories(everything, limit=1000):
            where = (id, memory.id)
            found["seen"][where] = memory
            found["history"][where] = here.history(memory.id)
            kin = here.genealogy(memory.id)
            found["drawn"][where] = (
                sorted(map(repr, here.links(memory.id))),
                sorted(kin.ancestors), sorted(kin.descendants), sorted(kin.edges),
            )  # fmt: skip
    return found

"""Killed at any instant, a bank opens again with all that was acknowledged."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fault_tools import a_memory, open_bank, processes, scaled, unlike_its_log
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Forgotten, NotFound
from reasonbank.model import EvidenceKind, new_id

WRITERS = 4
ROUNDS_A_BANK = 10


def write_until_killed(path: Path, pipe: Any, seed: int) -> None:
    """Say what is about to be done, do it, and say so once the call has returned."""
    rng = random.Random(seed)
    mine: list[str] = []
    with open_bank(path) as bank:
        while True:
            id = rng.choice(mine) if mine else ""
            doing = rng.choice(["record", "record", "update", "feedback", "forget"])
            if not mine or (doing == "forget" and len(mine) < 4):
                doing = "record"
            id = new_id() if doing == "record" else id
            value = f"value {rng.randrange(10**9)}"
            pipe.send((False, doing, id, value))
            match doing:
                case "record":
                    bank.record(a_memory(id=id, content=value))
                    mine.append(id)
                case "update":
                    bank.update(id, content=value)
                case "feedback":
                    bank.feedback(id, helpful=True)
                case "forget":
                    bank.forget(id)
                    mine.remove(id)
            pipe.send((True, doing, id, value))


@dataclass
class Told:
    """What one writer was told is stored, and what it was about to do when it died."""

    content: dict[str, str] = field(default_factory=dict)
    ratings: dict[str, int] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    pending: tuple[str, str, str] | None = None
    acknowledged: int = 0

    def hear(self, done: bool, doing: str, id: str, value: str) -> None:
        if not done:
            self.pending = (doing, id, value)
            return
        self.pending = None
        self.acknowledged += 1
        match doing:
            case "record" | "update":
                self.content[id] = value
            case "feedback":
                self.ratings[id] = self.ratings.get(id, 0) + 1
            case "forget":
                self.forgotten.add(id)
                del self.content[id]

    def check(self, bank: Bank) -> None:
        doing, pending, value = self.pending or ("", "", "")
        for id in self.forgotten:
            with pytest.raises(Forgotten):
                bank.get(id)
        for id, content in self.content.items():
            try:
                memory = bank.get(id)
            except Forgotten:
                assert (doing, pending) == ("forget", id)
                continue
            unsure = id == pending
            assert memory.content in ({content, value} if unsure else {content})
            ratings = sum(e.kind is EvidenceKind.EXPLICIT for e in bank.evidence(id))
            expected = self.ratings.get(id, 0)
            assert ratings in ({expected, expected + 1} if unsure else {expected})
        if doing == "record":
            try:
                assert bank.get(pending).content == value
            except NotFound:
                pass


def killed_round(path: Path, rng: random.Random) -> list[Told]:
    """Four writers, each killed at a moment of its own."""
    writers = []
    for _ in range(WRITERS):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(
            target=write_until_killed, args=(path, theirs, rng.randrange(10**9)), daemon=True
        )
        process.start()
        theirs.close()
        writers.append((process, ours, Told(), rng.randrange(1, 30)))
    alive = list(writers)
    while alive:
        for writer in list(alive):
            process, pipe, told, enough = writer
            while pipe.poll(rng.random() * 0.003):
                told.hear(*pipe.recv())
            assert process.is_alive(), "a writer met an error"
            if told.acknowledged >= enough:
                process.kill()
                alive.remove(writer)
    for process, pipe, told, _ in writers:
        process.join()
        try:
            while True:
                told.hear(*pipe.recv())
        except (EOFError, OSError):
            pipe.close()
    return [told for _, _, told, _ in writers]


@pytest.mark.slow
@requirement("MEM-8")
def test_kill_9_of_four_writers_loses_nothing_that_was_acknowledged(
    memory_disk: Path,
) -> None:
    kills = scaled("REASONBANK_TEST_KILLS", 200)
    rng = random.Random(1)
    acknowledged = 0
    for first in range(0, kills, WRITERS * ROUNDS_A_BANK):
        path = memory_disk / f"{first}" / "bank.db"
        all_told: list[Told] = []
        for _ in range(min(ROUNDS_A_BANK, (kills - first + WRITERS - 1) // WRITERS)):
            told = killed_round(path, rng)
            all_told += told
            with open_bank(path) as bank:
                assert bank.store.ledger.check() == []
                for one in told:
                    one.check(bank)
        assert unlike_its_log(path) == {}
        with open_bank(path) as bank:
            for one in all_told:
                one.check(bank)
        acknowledged += sum(one.acknowledged for one in all_told)
    assert acknowledged > kills

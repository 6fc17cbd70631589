"""Does the report's interval contain the truth? Simulated tasks of which the truth is known.

    python -m bench.holdout

A task is easy or hard: easy ones succeed more often and find more. Each asks up to once, twice or
five times; some searches find nothing, and some agents stop asking once they were given
something, so that those without memory ask more often. Memory adds the same to the chance of
success of every task that it was given to: nothing, or 25 points. Most histories are drawn without
a bank and compared by the report's own functions; some of each kind are lived through a bank with
its default settings (``Lived``), and there every task must stand on the side, and with the
memories, that it really had.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench import tables
from bench.tables import Table
from reasonbank import Bank, Settings
from reasonbank.model import Memory, Outcome, Task
from reasonbank.proof.holdout import Difference, counts, overall
from reasonbank.proof.report import Report
from reasonbank.settings import ProofSettings

SEARCHES, EFFECTS = (1, 2, 5), (0.0, 0.25)
SIZES = ((20, 0.2), (20, 0.5), (60, 0.2), (60, 0.5), (200, 0.2), (200, 0.5))
DRAWN, LIVED = 1000, 80
LIVED_TASKS, LIVED_SHARE = 20, 0.5
LEAST = 0.93

KNOWN = (
    ("Retry uploads", "an upload fails for a moment", "Wait longer before each new upload."),
    ("Lock rows in order", "two transactions block each other", "Lock rows by their keys."),
    ("Simmer the leeks", "cooking a leek soup", "Simmer leeks in butter before the broth."),
    ("Pin the compiler", "the build differs on another machine", "Pin the compiler's version."),
)
UNKNOWN = ("who won the chess match in Reykjavik", "zxqv", "feeding a tortoise in winter")


@dataclass(frozen=True)
class Plan:
    """What a task will ask, each the number of what is known or None; how likely it succeeds
    alone; and whether it stops asking once it was given something."""

    asks: tuple[int | None, ...]
    alone: float
    stops: bool


def planned(rng: random.Random, searches: int) -> Plan:
    easy = rng.random() < 0.5
    finds = 0.65 if easy else 0.3
    asks = (rng.randrange(len(KNOWN)) if rng.random() < finds else None for _ in range(searches))
    return Plan(tuple(asks), 0.6 if easy else 0.35, rng.random() < 0.5)


def drawn_history(
    rng: random.Random, tasks: int, share: float, searches: int, effect: float
) -> list[Task]:
    """Without a bank: a task is given, or would be, the union of what its searches find."""
    found = []
    for number in range(tasks):
        plan, held = planned(rng, searches), rng.random() < share
        given: dict[str, None] = {}
        for ask in plan.asks:
            if ask is not None:
                given[KNOWN[ask][0]] = None
                if plan.stops and not held:
                    break
        chance = plan.alone + effect * (bool(given) and not held)
        found.append(
            Task(
                session=f"task {number}",
                held_out=held,
                succeeded=rng.random() < chance,
                at=datetime(2026, 1, 1, tzinfo=UTC),
                memories=tuple(given),
            )
        )
    return found


class Lived:
    """Histories in a bank, each in a workspace of its own."""

    def __init__(self, folder: Path, settings: Settings, share: float) -> None:
        self.bank = Bank.open(
            f"sqlite:///{folder}/bank.db",
            workspace=folder,
            settings=replace(settings, proof=ProofSettings(hold_out=share)),
        )

    def __call__(
        self, rng: random.Random, name: str, tasks: int, searches: int, effect: float
    ) -> tuple[Report, dict[str, tuple[bool, frozenset[str], bool]]]:
        """The report, and of each task that found anything: whether it was held out, what it was
        given or would have been, and how it ended."""
        bank = self.bank.seen_by(workspace=name)
        for title, description, content in KNOWN:
            bank.record(
                Memory(
                    title=title, description=description, content=content, outcome=Outcome.SUCCESS
                )
            )
        truth = {}
        for number in range(tasks):
            session, plan = f"{name} {number}", planned(rng, searches)
            found, held = self._asks(bank, session, plan)
            succeeded = rng.random() < plan.alone + effect * (bool(found) and not held)
            bank.credit(session, succeeded=succeeded)
            if found:
                truth[session] = held, found, succeeded
        return bank.report(), truth

    def _asks(self, bank: Bank, session: str, plan: Plan) -> tuple[frozenset[str], bool]:
        found: set[str] = set()
        held = False
        for place, ask in enumerate(plan.asks):
            question = UNKNOWN[place % len(UNKNOWN)] if ask is None else KNOWN[ask][1]
            # A search that names no task is no part of the experiment: what this one would give.
            would = {hit.memory.id for hit in bank.search(question)}
            reply = bank.search(question, session=session)
            assert {hit.memory.id for hit in reply} == (set() if reply.held_out else would)
            found |= would
            held = held or reply.held_out
            if plan.stops and reply:
                break
        return frozenset(found), held


def contains(found: Difference, effect: float) -> bool | None:
    """None where one side is empty: then the report says nothing."""
    if found.difference is None or found.low is None or found.high is None:
        return None
    assert found.low <= found.difference <= found.high
    return found.low <= effect <= found.high


def as_it_was(bank: Bank, truth: dict[str, tuple[bool, frozenset[str], bool]]) -> bool:
    """Whether each task is counted as it was lived, and no other is."""
    tasks = bank.context.read().tasks(bank.view)
    told = {
        task.session: (task.held_out, frozenset(task.memories), task.succeeded)
        for task in tasks
        if counts(task)
    }
    return told == truth


def share_of(told: list[bool | None]) -> tuple[float, int]:
    said = [one for one in told if one is not None]
    return sum(said) / len(said), len(said)


def cells() -> Iterator[tuple[int, float]]:
    return ((searches, effect) for searches in SEARCHES for effect in EFFECTS)


def drawn_table(histories: int) -> Table:
    table = Table(
        "holdout_coverage",
        "How often the report's 95 % interval contains the truth",
        ("tasks", "held out", *(f"{s}×, {100 * e:+.0f}" for s, e in cells()), "least", "reached"),
    )
    for tasks, share in SIZES:
        covered = []
        for searches, effect in cells():
            rng = random.Random(f"{tasks} {share} {searches} {effect}")
            told = [
                contains(overall(drawn_history(rng, tasks, share, searches, effect)), effect)
                for _ in range(histories)
            ]
            covered.append(share_of(told)[0])
        reached = "yes" if min(covered) >= LEAST else "NO"
        table.add(
            tasks, f"{share:.0%}", *(f"{100 * c:.1f} %" for c in covered), f"≥ {LEAST:.0%}", reached
        )
    table.notes.append(
        f"{histories:,} simulated histories in each cell, for tasks that search up to once, twice "
        "or five times, where memory adds nothing or 25 points. Some searches find nothing, hard "
        "tasks find less, and some agents stop asking once they were given something."
    )
    return table


def lived_table(histories: int) -> Table:
    table = Table(
        "holdout_lived",
        "The same, lived through a bank with its default settings",
        ("searches", "memory adds", "histories", "contain the truth", "mean estimate",
         "tasks on their side", "reached"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        lived = Lived(Path(folder), Settings(), LIVED_SHARE)
        for searches, effect in cells():
            told, estimates, right = [], [], 0
            for number in range(histories):
                name = f"history {searches} {effect} {number}"
                report, truth = lived(random.Random(name), name, LIVED_TASKS, searches, effect)
                told.append(contains(report.overall, effect))
                estimates.append(report.overall.difference or 0.0)
                right += as_it_was(lived.bank.seen_by(workspace=name), truth)
            covered, said = share_of(told)
            # So few histories miss the nominal share by chance; the table above has many more.
            least = 0.95 - 2 * math.sqrt(0.95 * 0.05 / said)
            reached = "yes" if covered >= least and right == histories else "NO"
            table.add(
                searches, f"{100 * effect:+.0f} points", said, f"{100 * covered:.0f} %",
                f"{100 * sum(estimates) / len(estimates):+.0f} points",
                f"{right} of {histories} histories", reached,
            )  # fmt: skip
        lived.bank.close()
    table.notes.append(
        f"{LIVED_TASKS} tasks a history, {LIVED_SHARE:.0%} held out, through `search` and `credit` "
        "with a session. The estimate is shrunk towards 0 where tasks are few."
    )
    return table


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--drawn", type=int, default=DRAWN, help="histories a cell; 0: none")
    options.add_argument("--lived", type=int, default=LIVED, help="the same")
    chosen = options.parse_args()
    for made, histories in ((drawn_table, chosen.drawn), (lived_table, chosen.lived)):
        if histories:
            table = made(histories)
            tables.show(table)
            tables.keep("holdout", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

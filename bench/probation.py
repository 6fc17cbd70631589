"""Does an honest agent lose by it that its lessons are on probation?

    python -m bench.probation [--seeds 3] [--length 300] [--only bash]

An agent over MCP, in its own project: it does what the first memory of `inject` says. Where it is
given nothing, or that fails, it finds the answer by itself in half of the tasks, and writes down
what worked. The same with everything confirmed at once, as if a person had written it.
The tasks are those of bench.learning; success is the first thing that it did.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench import tables
from bench.learning_loop import START, Stream, Task, quick_folder
from bench.learning_streams import SHORT, stream, texts
from bench.learning_vectors import Embedded
from bench.retrieval_sets import folder
from reasonbank import Bank, Memory, Outcome, Settings
from reasonbank.learn import credits
from reasonbank.learn.credits import Credit
from reasonbank.learn.observed import Observation
from reasonbank.learn.outcome import Basis
from reasonbank.model import Principal, Standing
from reasonbank.store import traces
from reasonbank.store.vectors import embedding_text
from reasonbank.testing.builders import a_trace

DAY = 86_400_000_000
ALONE = 0.5
"""How often the agent finds the answer without a memory."""
STREAMS = ("repair", "tools", "bash")
PACES = (10, 240)
"""Tasks in a day and night, evenly: the last is ten in each hour."""


@dataclass(slots=True)
class Told:
    """``observed``: the bank sees tests pass or fail; else the agent tells how it went."""

    bank: Bank
    observed: bool
    actions: dict[str, str] = field(default_factory=dict)

    def outcome(self, memory: str, session: str, *, succeeded: bool) -> None:
        if not self.observed:
            self.bank.outcome(memory, succeeded=succeeded, session=session)
            return
        worker = self.bank.seen_by(surface="worker", principal=Principal.MODEL).context
        trace = traces.store(worker, a_trace(outcome=None, metadata={"session": session}))
        seen = Observation(
            memory=memory, succeeded=succeeded, by=Basis.TESTS, reason="tests were run"
        )
        told = Credit(session=session, seen=(seen,))
        worker.write(lambda txn: credits.store(worker, txn, trace, [told]))


@dataclass(slots=True)
class Run:
    rewards: list[float] = field(default_factory=list)
    silent: int = 0
    stood: Counter[str] = field(default_factory=Counter)


def play(
    tasks: Stream, principal: Principal, seed: int, embedder: Embedded, *, observed: bool, pace: int
) -> Run:
    rng = random.Random(f"{seed} {tasks.name}")
    run, now = Run(), START
    every = list(tasks.tasks[0].rewards)
    with (
        tempfile.TemporaryDirectory(dir=quick_folder()) as place,
        Bank.open(
            f"sqlite:///{Path(place) / 'bank.db'}", workspace=Path(place), surface="mcp",
            principal=principal, settings=replace(Settings(), author="agent"), embedder=embedder,
            clock=lambda: now,
        ) as bank,
    ):  # fmt: skip
        told = Told(bank, observed)
        for number, task in enumerate(tasks.tasks):
            # Drawn in every task alike, whatever is done with them.
            knows, guess = rng.random() < ALONE, every[int(rng.random() * len(every))]
            by_itself = max(task.rewards, key=task.rewards.__getitem__) if knows else guess
            session = f"task {number}"
            given = bank.inject(task.text, session=session).memories
            action = told.actions[given[0]] if given else by_itself
            run.silent += not given
            run.rewards.append(task.rewards[action])
            if given:
                told.outcome(given[0], session, succeeded=bool(task.rewards[action]))
            if task.rewards[by_itself] and not (given and task.rewards[action]):
                _write_down(told, embedder, task, by_itself)
            now += DAY // pace
        for memory in bank.memories(limit=1000):
            run.stood[str(memory.standing)] += 1
    return run


def _write_down(told: Told, embedder: Embedded, task: Task, action: str) -> None:
    memory = Memory(
        title=f"{action} worked", description=task.text[:1000], content=action or "no option",
        outcome=Outcome.SUCCESS,
    )  # fmt: skip
    embedder.found_by(embedding_text(memory), task.text)
    told.actions[told.bank.record(memory).id] = action
    told.bank.embed_new()


def compared(
    name: str, seeds: int, length: int, pace: int, embedder: Embedded, *, observed: bool
) -> list[object]:
    """A row: the same tasks in the same orders, both ways."""
    data = folder()
    assert data is not None
    runs: dict[Principal, list[Run]] = {Principal.PERSON: [], Principal.AGENT: []}
    for seed in range(seeds):
        tasks = stream(data, name, seed, "clean", length=length)
        embedder.prepare(texts(tasks))
        for principal, found in runs.items():
            found.append(play(tasks, principal, seed, embedder, observed=observed, pace=pace))
    confirmed, agent = (
        np.array([run.rewards for run in found])
        for found in (runs[Principal.PERSON], runs[Principal.AGENT])
    )
    difference = 100 * (agent - confirmed)
    within = 1.96 * difference.std(ddof=1) / np.sqrt(difference.size)
    stood = sum((run.stood for run in runs[Principal.AGENT]), Counter[str]())
    silent = [sum(run.silent for run in found) / confirmed.size for found in runs.values()]
    return [
        name, pace, "seen by the bank" if observed else "told by the agent",
        f"{100 * confirmed.mean():.1f}", f"{100 * agent.mean():.1f}",
        f"{difference.mean():+.1f} ± {within:.1f}", f"{silent[0]:.0%}, {silent[1]:.0%}",
        ", ".join(f"{stood[each]} {each}" for each in Standing if stood[each]),
        "yes" if difference.mean() + within >= 0 else "NO",
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--length", type=int, default=SHORT)
    parser.add_argument("--only", help="one stream, on the screen alone")
    asked = parser.parse_args()
    if folder() is None:
        print("bench.probation needs the data of bench.learning: set REASONBANK_DATA")
        return 0
    table = tables.Table(
        "probation",
        f"An honest agent over MCP, {asked.seeds} orders of {asked.length} tasks",
        ("tasks", "a day", "outcomes", "confirmed at once %", "on probation %", "difference",
         "given nothing", "its lessons in the end", "within noise"),
        machine=tables.machine(),
    )  # fmt: skip
    embedder = Embedded()
    for name in [asked.only] if asked.only else STREAMS:
        for pace in PACES:
            for observed in (True, False):
                table.add(
                    *compared(name, asked.seeds, asked.length, pace, embedder, observed=observed)
                )
                print(table.rows[-1], flush=True)
    table.notes.append(
        "Of all tasks, those where the first thing that the agent did was right. ±: 95 %, by the "
        "differences of tasks."
    )
    tables.show(table)
    if not asked.only:
        tables.keep("probation", table)
        tables.rewrite_document()
    return 0


if __name__ == "__main__":
    sys.exit(main())

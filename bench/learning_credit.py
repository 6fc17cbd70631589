"""Three memories that read alike, one of which helps, and only ``credit(session)`` is told.

    python -m bench.learning_credit                            onto the page
    python -m bench.learning_credit --simulations 18 --print   a quick look

What helps succeeds nine times of ten, what does not once. The agent is given three memories and
goes by the first, or by any of them (half of the time the first, a third the second); it never
says which. Counted: after how many tasks the one that helps leads for good (it leads in four of
five tasks from then on), and in how many tasks the bank said nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import tables
from bench.learning_loop import PAUSE, START, follow, quick_folder
from bench.learning_vectors import Embedded
from reasonbank import Bank, Memory, Outcome, Settings

GOOD, BAD = 0.9, 0.1
TASKS = 60
SOON = 15
AGAIN = 5
"""It has found the one that helps when that leads in most of so many tasks from then on."""
SIMULATIONS = 200
TEXTS = (
    ("deploy the web service to staging", "Deploy the web service to staging with {}",
     ("the blue script", "the green script", "the red script")),
    ("the nightly build runs out of memory", "When the nightly build runs out of memory, {}",
     ("raise the heap", "split the job", "drop the cache")),
    ("export the customer list as CSV", "To export the customer list as CSV use {}",
     ("the report page", "the command line", "the API")),
    ("a test fails only on Windows", "A test that fails only on Windows: {}",
     ("normalise the line ends", "close the files first", "use short paths")),
    ("restore the database from a backup", "Restore the database from a backup: {}",
     ("stop the writers first", "restore into a copy", "replay the log")),
    ("users are logged out after a minute", "Users who are logged out after a minute: {}",
     ("check the clock", "check the cookie's domain", "check the session store")),
    ("migrate the orders table", "Migrate the orders table by plan {}", ("A", "B", "C")),
    ("speed up the slow dashboard query", "Speed up the slow dashboard query, way {}",
     ("one", "two", "three")),
    ("fix the flaky login test", "Fix the flaky login test: fix number {}", ("1", "2", "3")),
)  # fmt: skip
"""What is asked, what the memories say, and in what they differ; the last three read alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """``led``: task by task, did what helps come first?"""

    led: list[bool]
    succeeded: list[bool]
    silent: int

    @property
    def found_after(self) -> int | None:
        for task in range(len(self.led) - AGAIN):
            if self.led[task] and sum(self.led[task : task + AGAIN]) >= AGAIN - 1:
                return task
        return None


def simulate(seed: int, embedder: Embedded, *, mixed: bool) -> Seen:
    rng = random.Random(f"credit {seed} {mixed}")
    question, said, ways = TEXTS[seed % len(TEXTS)]
    now = START
    led, succeeded, silent = [], [], 0
    with (
        tempfile.TemporaryDirectory(dir=quick_folder()) as folder,
        Bank.open(
            f"sqlite:///{folder}/bank.db", workspace=Path(folder),
            settings=Settings(author="agent"), embedder=embedder, clock=lambda: now,
        ) as bank,
    ):  # fmt: skip
        ids = [
            bank.record(
                Memory(title=said.format(way), description=said.format(way), content=way,
                       outcome=Outcome.SUCCESS)
            ).id
            for way in rng.sample(ways, len(ways))
        ]  # fmt: skip
        first = bank.search(question, limit=len(ways))
        # What leads before anything is known is no find: it is one of the others that helps.
        helps = rng.choice([id for id in ids if not first or id != first[0].memory.id])
        for task in range(TASKS):
            given = [hit for hit in bank.search(question, limit=len(ways), session=f"task {task}")
                     if not hit.warning]  # fmt: skip
            draw, luck = rng.random(), rng.random()
            silent += not given
            followed = given[follow(len(given), mixed, draw)].memory.id if given else ""
            led.append(bool(given) and given[0].memory.id == helps)
            succeeded.append(luck < (GOOD if followed == helps else BAD))
            bank.credit(f"task {task}", succeeded=succeeded[-1])
            now += PAUSE
    return Seen(led=led, succeeded=succeeded, silent=silent)


def table(count: int, embedder: Embedded) -> tables.Table:
    made = tables.Table(
        "credit", f"credit(session): one of three memories helps ({count} simulations)",
        ("the agent follows", f"found within {SOON} tasks %", "found in the end %",
         f"success of the last {TASKS // 2} %", "tasks without an answer %"),
    )  # fmt: skip
    for mixed, name in ((False, "the first"), (True, "any of three")):
        runs = [simulate(seed, embedder, mixed=mixed) for seed in range(count)]
        after = [run.found_after for run in runs]
        soon = sum(each is not None and each <= SOON for each in after)
        late = [each for run in runs for each in run.succeeded[TASKS // 2 :]]
        made.add(
            name,
            f"{100 * soon / count:.1f}",
            f"{100 * sum(each is not None for each in after) / count:.1f}",
            f"{100 * sum(late) / len(late):.1f}",
            f"{100 * sum(run.silent for run in runs) / (TASKS * count):.2f}",
        )
    return made


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    parser.add_argument("--print", action="store_true", help="write no page")
    chosen = parser.parse_args()
    found = [table(chosen.simulations, Embedded()).__dict__]
    print(tables.markdown(found))
    if not chosen.print:
        tables.RESULTS.joinpath("learning_credit.json").write_text(
            json.dumps({"tables": found}, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        tables.rewrite_document()
    return 0


if __name__ == "__main__":
    sys.exit(main())

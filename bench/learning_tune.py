"""Choose the parameters of the simple learners, on tuning data and tuning orders only.

    python -m bench.learning_tune --only tools

One parameter after another is swept, twice over, from the first value of each; what is best is
success, averaged over the orders 100 to 104 and over the conditions: once over those with honest
memories, once over the poisoned ones. No order and, where the data set has two parts, no
question that is reported was looked at. What it prints is what ``learning_parameters`` holds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.learning_loop import Stream
from bench.learning_parameters import HONEST, POISONED
from bench.learning_simple import LEARNERS, Space, World, play
from bench.learning_streams import MAKERS, stream
from bench.learning_vectors import Embedded
from bench.retrieval_sets import folder

SEEDS = tuple(range(100, 105))
ROUNDS = 2
LENGTH = 1500
"""No more tasks than this are played."""


def swept(
    name: str, streams: Sequence[tuple[Stream, int, World]]
) -> tuple[dict[str, float], float]:
    """The best parameters that were met, and their success."""
    make = LEARNERS[name]
    best = {parameter: values[0] for parameter, values in make.grid.items()}
    tried: dict[tuple[float, ...], float] = {}

    def success(parameters: Mapping[str, float]) -> float:
        key = tuple(parameters.values())
        if key not in tried:
            runs = [play(made, make(world, **parameters), seed, world)
                    for made, seed, world in streams]  # fmt: skip
            tried[key] = sum(sum(run.rewards) / len(run.rewards) for run in runs) / len(runs)
        return tried[key]

    for _ in range(ROUNDS):
        for parameter, values in make.grid.items():
            best = max(({**best, parameter: value} for value in values), key=success)
    return best, success(best)


def tuning(
    data: Path, name: str, seeds: Sequence[int], conditions: Sequence[str], space: Space
) -> list[tuple[Stream, int, World]]:
    made = [
        (stream(data, name, seed, condition, length=LENGTH, tuning=True), seed)
        for condition in conditions
        for seed in seeds
    ]
    return [(each, seed, World(each, space)) for each, seed in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(MAKERS))
    parser.add_argument("--systems", default=",".join(LEARNERS))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    chosen = parser.parse_args()
    data = folder()
    if data is None:
        print("skipped: the data is not here; set REASONBANK_DATA")
        return 0
    embedder = Embedded()
    for name in chosen.only.split(","):
        space = Space(stream(data, name, 0, "clean", tuning=True), embedder)
        for which, conditions in (("honest", HONEST), ("poisoned", POISONED)):
            streams = tuning(data, name, SEEDS[: chosen.seeds], conditions, space)
            for system in chosen.systems.split(","):
                started = time.process_time()
                best, success = swept(system, streams)
                spent = time.process_time() - started
                print(
                    f'    ("{system}", "{name}", "{which}"): {best},'
                    f"  # {success:.3f}, {spent:.0f} s",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Choose the parameters of the simple learners, on tuning data and tuning orders only.

    python -m bench.learning_tune --only tools

One parameter after another is swept, twice over: from the first value of each, and from the best
of some points drawn from the grid. What is best is success, averaged over the orders 100 to 104
and over the conditions: once over those with honest memories, once over the poisoned ones. No
order and, where the data set has two parts, no question that is reported was looked at. Writes
``learning_parameters.json``.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import learning_telecom
from bench.learning_loop import Stream
from bench.learning_parameters import HONEST, POISONED, keep
from bench.learning_simple import LEARNERS, Space, World, play
from bench.learning_streams import MAKERS, stream
from bench.learning_vectors import Embedded
from bench.retrieval_sets import folder

SEEDS = tuple(range(100, 105))
STARTS, ROUNDS = 30, 2
LENGTH = 1500
"""No more tasks than this are played."""
TELECOM = 100
"""And so many of telecom, whose tasks are slow: one order of them, clean, swept once."""


def swept(
    name: str,
    success: Callable[[Mapping[str, float]], float],
    starts: int = STARTS,
    rounds: int = ROUNDS,
) -> tuple[dict[str, float], float]:
    """The best parameters that were met, and their success."""
    grid = LEARNERS[name].grid
    rng = random.Random(name)
    usual = {parameter: values[0] for parameter, values in grid.items()}
    drawn = [{parameter: rng.choice(values) for parameter, values in grid.items()}
             for _ in range(starts)]  # fmt: skip
    tried: dict[tuple[float, ...], float] = {}

    def once(parameters: Mapping[str, float]) -> float:
        key = tuple(parameters.values())
        if key not in tried:
            tried[key] = success(parameters)
        return tried[key]

    ends = []
    for start in (usual, *([max(drawn, key=once)] if drawn else [])):
        best = start
        for _ in range(rounds):
            for parameter, values in grid.items():
                best = max(({**best, parameter: value} for value in values), key=once)
        ends.append(best)
    found = max(ends, key=once)
    return found, once(found)


def on_streams(
    name: str, streams: Sequence[tuple[Stream, int, World]]
) -> Callable[[Mapping[str, float]], float]:
    def success(parameters: Mapping[str, float]) -> float:
        runs = [play(made, LEARNERS[name](world, **parameters), seed, world)
                for made, seed, world in streams]  # fmt: skip
        return sum(sum(run.rewards) / len(run.rewards) for run in runs) / len(runs)

    return success


def on_telecom(name: str, embedder: Embedded) -> Callable[[Mapping[str, float]], float]:
    def success(parameters: Mapping[str, float]) -> float:
        calls = learning_telecom.play(name, SEEDS[0], embedder, TELECOM, parameters=parameters)
        return sum(calls.solved) / len(calls.solved)

    return success


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
        if name == "telecom":
            for system in chosen.systems.split(","):
                tell(system, name, "honest", *swept(system, on_telecom(system, embedder), 0, 1))
            continue
        space = Space(stream(data, name, 0, "clean", tuning=True), embedder)
        for which, conditions in (("honest", HONEST), ("poisoned", POISONED)):
            streams = tuning(data, name, SEEDS[: chosen.seeds], conditions, space)
            for system in chosen.systems.split(","):
                tell(system, name, which, *swept(system, on_streams(system, streams)))
    return 0


def tell(system: str, name: str, which: str, best: Mapping[str, float], success: float) -> None:
    print(f"{name}, {which}, {system}: {100 * success:.1f} % with {best}", flush=True)
    keep(system, name, which, best)


if __name__ == "__main__":
    sys.exit(main())

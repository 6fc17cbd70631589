"""Does it learn? Closed loops with verifiable outcomes, banks and simple learners side by side.

    python -m bench.learning --seeds 4   four orders of 300 tasks: what docs/benchmarks.md shows
    python -m bench.learning --full      ten orders at full length: hours
    python -m bench.learning --only tools --conditions clean,noise --systems ours,simple \\
        --seeds 3 --length 1000 --print  some cells on the screen, and no page is written

Both lengths go on one page: what was run at full length, and the shortened streams beside it.
Every run is kept in ``bench/.cache`` under the code it was made with, so that a run which was
stopped goes on where it was. Writes ``bench/results/learning.json``, ``docs/figures`` and the
tables of ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from bench import learning_bounds, learning_telecom, learning_tools, learning_webarena, tables
from bench.learning_choice import CONDITIONS, CREDIT
from bench.learning_loop import APPEND_ONLY, OURS, SYSTEMS, UNTOLD, System, play
from bench.learning_parameters import FILE as PARAMETERS
from bench.learning_simple import LEARNERS, Space, World, made, play as play_simple
from bench.learning_streams import MAKERS, SHORT, stream, texts
from bench.learning_tables import FULL, report, shown
from bench.learning_vectors import Embedded
from bench.retrieval_sets import folder

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "reasonbank"
RUNS = HERE / ".cache" / "learning.jsonl"
SEEDS = 10
JUDGES = tuple(f"judge {right}" for right in learning_tools.JUDGES)
CELLS: dict[str, tuple[str, ...]] = {
    "telecom": learning_telecom.CONDITIONS,
    "webarena": ("clean",),
    **dict.fromkeys(MAKERS, (*CONDITIONS, *CREDIT)),
    "tools": (*CONDITIONS, *CREDIT, *JUDGES),
}
BANKS = tuple(system.name for system in SYSTEMS)
GROUPS = {
    "all": (*BANKS, *LEARNERS, *learning_bounds.BOUNDS),
    "ours": (OURS, UNTOLD),
    "simple": tuple(LEARNERS),
    "others": tuple(name for name in BANKS if name not in (OURS, UNTOLD)),
    "bounds": learning_bounds.BOUNDS,
    "told": (OURS,),
    "untold": (UNTOLD,),
    "append-only": (APPEND_ONLY,),
}
"""Names for several systems at a time, and for those whose names have a comma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """``length``: so many tasks, or all."""

    stream: str
    condition: str
    system: str
    seed: int
    length: int | None

    @property
    def key(self) -> str:
        length = FULL if self.length is None else self.length
        return f"{self.stream}/{self.condition}/{self.system}/{self.seed}/{length}"


def jobs(seeds: int, full: bool, length: int | None = None) -> Iterator[Job]:
    """Seed by seed, so that a run which is stopped has something of everything."""
    for seed in range(seeds):
        for name, conditions in CELLS.items():
            for condition in conditions:
                for system in systems(name, condition):
                    yield Job(
                        stream=name, condition=condition, system=system, seed=seed,
                        length=None if full else length or SHORT,
                    )  # fmt: skip


def systems(stream: str, condition: str) -> Sequence[str]:
    """Who is compared there."""
    if stream == "webarena":
        return tuple(system.name for system in SYSTEMS if system.remembers)
    if stream == "telecom":
        return (*BANKS, *LEARNERS) if condition == "clean" else (OURS, UNTOLD, *LEARNERS)
    if condition in CREDIT or condition in JUDGES:
        return (OURS, UNTOLD, *LEARNERS)
    bounds = learning_bounds.BOUNDS if condition in learning_bounds.CONDITIONS else ()
    return (*BANKS, *LEARNERS, *bounds)


@cache
def embedder() -> Embedded:
    return Embedded()


@lru_cache(maxsize=1)
def space(name: str) -> Space:
    data = folder()
    assert data is not None
    return Space(stream(data, name, 0, "clean"), embedder())


def run(job: Job) -> tuple[Job, dict[str, Any]]:
    started = time.process_time()
    found = played(job)
    found["seconds"] = round(time.process_time() - started, 2)
    return job, found


def played(job: Job) -> dict[str, Any]:
    data = folder()
    assert data is not None
    system: System | None = next((each for each in SYSTEMS if each.name == job.system), None)
    if job.stream == "webarena":
        assert system is not None
        return dict(learning_webarena.play(data, system, job.seed, embedder()).numbers())
    if job.stream == "telecom":
        calls = learning_telecom.play(
            job.system, job.seed, embedder(), job.length, condition=job.condition
        )
        return calls.numbers() | {"curve": calls.curve(), "tasks": digits(calls.solved)}
    tasks = stream(data, job.stream, job.seed, job.condition, length=job.length)
    if job.system in learning_bounds.BOUNDS:
        bound = learning_bounds.play(tasks, job.system, embedder()).numbers()
        return {name: bound[name] for name in learning_bounds.NUMBERS}
    if system is None:
        world = World(tasks, space(job.stream))
        learner = made(job.system, job.stream, job.condition, world)
        result = play_simple(tasks, learner, job.seed, world)
    else:
        result = play(tasks, system, job.seed, embedder())
    found: dict[str, Any] = result.numbers()
    found |= {"curve": result.curve(), "tasks": digits(result.rewards)}
    if job.system == OURS:
        found["forecasts"] = [
            [round(e, 3), int(s)] for e, s in zip(result.expected, result.told, strict=True)
        ]
    return found


def digits(succeeded: Sequence[float]) -> str:
    """Task by task, so that two systems can be compared on each."""
    return "".join(str(int(each)) for each in succeeded)


PACKAGES = ("embed", "index", "ledger", "search", "store", "trust")
"""Of the library: what decides what a search returns and what it learns. Other modules may
change without making a run stale."""


def sources(stream: str, system: str) -> list[Path]:
    """The files that decide a run."""
    benches = ["loop", "vectors", "choice", "streams"]
    benches += {"lens": ["tools"], "options": ["bash"]}.get(stream, [stream])
    if system in LEARNERS:
        benches.append("simple")
        return [*(HERE / f"learning_{name}.py" for name in benches), PARAMETERS]
    if system in learning_bounds.BOUNDS:
        benches.append("bounds")
    library = [path for name in PACKAGES for path in sorted((SOURCE / name).rglob("*.py"))]
    library += [SOURCE / f"{name}.py" for name in ("bank", "settings", "model")]
    return [*(HERE / f"learning_{name}.py" for name in benches), *library]


@cache
def code(stream: str, system: str) -> str:
    parts = [path.read_bytes() for path in sources(stream, system)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def kept() -> dict[str, dict[str, Any]]:
    if not RUNS.is_file():
        return {}
    found = {}
    for line in map(json.loads, RUNS.read_text("utf-8").splitlines()):
        name, _, system, *_ = line["key"].split("/")
        if name in CELLS and line["code"] == code(name, system):
            found[line["key"]] = line["found"]
    return found


def several(said: str | None, groups: dict[str, tuple[str, ...]], every: Sequence[str]) -> set[str]:
    """What a list on the command line names; nothing said is everything."""
    named = said.split(",") if said else list(every)
    found = {each for name in named for each in groups.get(name, (name,))}
    if unknown := found - set(every):
        raise SystemExit(f"not known: {', '.join(sorted(unknown))}; there are: {', '.join(every)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--length", type=int, help="so many tasks of each stream")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="a stream, or several: repair,tools")
    parser.add_argument("--conditions", help="clean,noise,drift,poison,own,credit first,…")
    parser.add_argument("--systems", help=f"names, or {', '.join(GROUPS)}: ours,simple")
    parser.add_argument("--report", action="store_true", help="run nothing, write what is there")
    parser.add_argument("--print", action="store_true", help="only these cells, and no page")
    chosen = parser.parse_args()
    data = folder()
    if data is None:
        print("skipped: the data is not here; set REASONBANK_DATA")
        return 0
    streams = several(chosen.only, {}, tuple(CELLS))
    every = tuple(dict.fromkeys(each for them in CELLS.values() for each in them))
    conditions = several(chosen.conditions, {"credit": CREDIT, "judge": JUDGES}, every)
    names = several(chosen.systems, GROUPS, GROUPS["all"])
    if "telecom" in streams and (missing := learning_telecom.missing()):
        print(f"telecom is skipped: {missing}")
        streams.remove("telecom")
    wanted = [
        job
        for job in jobs(chosen.seeds, chosen.full, chosen.length)
        if job.stream in streams and job.condition in conditions and job.system in names
    ]
    found = kept()
    if not chosen.report:
        prepare(data, streams)
        carry_out([job for job in wanted if job.key not in found], found, chosen.processes)
    if chosen.print:
        shown({job.key: found[job.key] for job in wanted if job.key in found})
    else:
        # Runs of another length were for the screen.
        standard = {job.key for full in (True, False) for job in jobs(SEEDS, full)}
        report({key: run for key, run in found.items() if key in standard})
        tables.rewrite_document()
    return 0


def carry_out(todo: list[Job], found: dict[str, dict[str, Any]], processes: int) -> None:
    if not todo:
        return
    RUNS.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    with RUNS.open("a", encoding="utf-8") as file, ExitStack() as stack:
        results = map(run, todo)
        if processes > 1:
            spawn = multiprocessing.get_context("spawn")
            results = stack.enter_context(spawn.Pool(processes)).imap_unordered(run, todo)
        for done, (job, result) in enumerate(results, 1):
            found[job.key] = result
            line = {"code": code(job.stream, job.system), "key": job.key, "found": result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            spent = time.monotonic() - started
            print(
                f"{done}/{len(todo)}  {spent:.0f} s  {job.key}"
                f"  success {result['success']:.3f}  {result['seconds']:.1f} s",
                file=sys.stderr,
            )


def prepare(data: Path, streams: set[str]) -> None:
    """Embed every text once, before several processes ask for the same."""
    wanted = (
        [intent for intent, _ in learning_webarena.tasks(data)] if "webarena" in streams else []
    )
    for name in MAKERS:
        if name in streams:
            wanted += texts(stream(data, name, 0, "clean"))
    Embedded().prepare(wanted)


if __name__ == "__main__":
    sys.exit(main())

"""Does it learn? Closed loops with verifiable outcomes, eight memories beside each other.

    python -m bench.learning             ten seeds on shortened streams, under a quarter of an hour
    python -m bench.learning --full      the streams at full length: what docs/benchmarks.md shows

Both go on one page: what was run at full length, and the shortened streams beside it. Every run
is kept in ``bench/.cache`` under the code it was made with, so that a run which was stopped
goes on where it was. Writes ``bench/results/learning.json``, ``docs/figures`` and the
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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench import (
    learning_bounds,
    learning_repair,
    learning_telecom,
    learning_tools,
    learning_webarena,
    tables,
)
from bench.learning_loop import OURS, SYSTEMS, Stream, System, play
from bench.learning_tables import FULL, TASK, report
from bench.learning_vectors import Embedded
from bench.retrieval_sets import folder

HERE = Path(__file__).resolve().parent
RUNS = HERE / ".cache" / "learning.jsonl"
SEEDS = 10
SHORT = {"repair": 200, "tools": 300, "telecom": 60}
GIVEN = 3
"""So many memories are given where only the task's outcome is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    stream: str
    condition: str
    system: str
    seed: int
    full: bool

    @property
    def key(self) -> str:
        length = FULL if self.full else SHORT.get(self.stream, "all")
        return f"{self.stream}/{self.condition}/{self.system}/{self.seed}/{length}"


def jobs(seeds: int, full: bool) -> Iterator[Job]:
    """Seed by seed, so that a run which is stopped has something of everything."""
    for seed in range(seeds):
        for stream, conditions in CONDITIONS.items():
            for condition in conditions:
                for system in SYSTEMS:
                    if condition not in EVERYBODY and system.name != OURS:
                        continue
                    if stream == "webarena" and not system.remembers:
                        continue
                    yield Job(
                        stream=stream, condition=condition, system=system.name, seed=seed,
                        full=full,
                    )  # fmt: skip
                if stream in ("repair", "tools") and condition in learning_bounds.CONDITIONS:
                    for bound in learning_bounds.BOUNDS:
                        yield Job(
                            stream=stream, condition=condition, system=bound, seed=seed, full=full
                        )


CONDITIONS = {
    "telecom": ("clean",),
    "webarena": ("clean",),
    "repair": (*learning_repair.CONDITIONS, TASK),
    "tools": (
        *learning_tools.CONDITIONS, *(f"judge {right}" for right in learning_tools.JUDGES), TASK,
    ),
}  # fmt: skip
EVERYBODY = {"clean", *learning_repair.CONDITIONS, *learning_tools.CONDITIONS}
"""The conditions under which all systems are compared."""


def stream_of(data: Path, job: Job) -> Stream:
    make = {"repair": learning_repair.stream, "tools": learning_tools.stream}[job.stream]
    if job.condition == TASK:
        stream = replace(make(data, job.seed, "clean"), condition=TASK, given=GIVEN)
    else:
        stream = make(data, job.seed, job.condition)
    return stream if job.full else shortened(stream, SHORT[job.stream])


def shortened(stream: Stream, length: int) -> Stream:
    """The first tasks; of a stream in which each task comes twice, the first half of them."""
    kinds = {task.kind for task in stream.tasks[: length // 2]}
    half = len(stream.tasks) // 2
    again = [task for task in stream.tasks[half:] if task.kind in kinds]
    if stream.name == "repair" and len(again) == length // 2:
        return replace(stream, tasks=[*stream.tasks[: length // 2], *again])
    step = len(stream.tasks) // length
    return replace(stream, tasks=stream.tasks[::step])


@cache
def embedder() -> Embedded:
    return Embedded()


def run(job: Job) -> tuple[Job, dict[str, Any]]:
    data = folder()
    assert data is not None
    started = time.process_time()
    if job.system in learning_bounds.BOUNDS:
        bound = learning_bounds.play(stream_of(data, job), job.system, embedder()).numbers()
        return job, {name: bound[name] for name in learning_bounds.NUMBERS}
    system: System = next(each for each in SYSTEMS if each.name == job.system)
    if job.stream == "webarena":
        found: dict[str, Any] = learning_webarena.play(data, system, job.seed, embedder()).numbers()
    elif job.stream == "telecom":
        played = learning_telecom.play(system, job.seed, embedder(), SHORT["telecom"], job.full)
        found = played.numbers() | {"curve": played.curve()}
    else:
        result = play(stream_of(data, job), system, job.seed, embedder())
        found = result.numbers() | {"curve": result.curve(), "tasks": len(result.rewards)}
        if job.system == OURS:
            found["forecasts"] = [
                [round(e, 3), int(s)] for e, s in zip(result.expected, result.seen, strict=True)
            ]
    found["seconds"] = round(time.process_time() - started, 2)
    return job, found


@cache
def code(stream: str, system: str) -> str:
    """What decides a run; other modules may change without making it stale."""
    benches, modules = ["loop", "vectors", stream], ["belief", "ranking", "recall"]
    if system == OURS:
        # The other models know nothing of experience in context.
        modules += ["experience", "trust"]
    if system in learning_bounds.BOUNDS:
        benches, modules = [*benches, "bounds"], ["experience", "trust"]
    source = HERE.parent / "src" / "reasonbank"
    paths = [HERE / f"learning_{name}.py" for name in benches]
    paths += [source / f"{name}.py" for name in modules]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths))
    return digest.hexdigest()[:12]


def kept() -> dict[str, dict[str, Any]]:
    if not RUNS.is_file():
        return {}
    lines = (json.loads(line) for line in RUNS.read_text("utf-8").splitlines())
    found = {}
    for line in lines:
        stream, _, system, *_ = line["key"].split("/")
        if line["code"] == code(stream, system):
            found[line["key"]] = line["found"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="a stream, or several: repair,tools")
    parser.add_argument("--systems", choices=("all", OURS, "others"), default="all")
    parser.add_argument("--report", action="store_true", help="run nothing, write what is there")
    chosen = parser.parse_args()
    data = folder()
    if data is None:
        print("skipped: the data is not here; set REASONBANK_DATA")
        return 0
    found = kept()
    streams = chosen.only.split(",") if chosen.only else list(CONDITIONS)
    if (missing := learning_telecom.missing()) and "telecom" in streams:
        print(f"telecom is skipped: {missing}")
        streams.remove("telecom")
    if not chosen.report:
        prepare(data)
        todo = [
            job
            for job in jobs(chosen.seeds, chosen.full)
            if job.stream in streams
            and job.key not in found
            and (chosen.systems == "all" or (job.system == OURS) == (chosen.systems == OURS))
        ]
        carry_out(todo, found, chosen.processes)
    report(found)
    tables.rewrite_document()
    return 0


def carry_out(todo: list[Job], found: dict[str, dict[str, Any]], processes: int) -> None:
    RUNS.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    with (
        RUNS.open("a", encoding="utf-8") as file,
        multiprocessing.get_context("spawn").Pool(processes) as pool,
    ):
        for done, (job, result) in enumerate(pool.imap_unordered(run, todo), 1):
            found[job.key] = result
            line = {"code": code(job.stream, job.system), "key": job.key, "found": result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            spent = time.monotonic() - started
            print(
                f"{done}/{len(todo)}  {spent:.0f} s  {job.key}"
                f"  success {result['success']:.3f}  regret {result['regret']:.0f}",
                file=sys.stderr,
            )


def prepare(data: Path) -> None:
    """Embed every text once, before several processes ask for the same."""
    texts = [intent for intent, _ in learning_webarena.tasks(data)]
    for make in (learning_repair.stream, learning_tools.stream):
        stream = make(data, 0, "clean")
        texts += [task.text for task in stream.tasks]
        texts += [f"{title}\n{about}\n{title}" for title, about in stream.lessons.values()]
    Embedded().prepare(texts)


if __name__ == "__main__":
    sys.exit(main())

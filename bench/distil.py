"""Learning from sessions: how many a minute, what the cache saves, what a claim costs.

    python -m bench.distil

The sessions are real: runs of agents (Who&When in ``$REASONBANK_DATA`` or ``../shared/data``),
else made-up ones. The model is scripted and takes the time that it is told to; all else is what
runs in a server: queue, workers, layers of the model, embedding, ledger on disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import rules, tables
from bench.retrieval_sets import folder
from bench.tables import Table
from reasonbank import Bank, Settings, Trace
from reasonbank.jobs.learner import by_rules
from reasonbank.jobs.service import WorkerService
from reasonbank.learn.session import to_trace
from reasonbank.llm.cache import MemoryReplies
from reasonbank.llm.port import Model, ModelCall, ModelMeters
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Step, new_id
from reasonbank.opening import layered
from reasonbank.settings import LLM, Learn

SESSIONS = 120
LEAST = 100
"""Sessions a minute, with 2 workers and a model that takes 500 ms a call."""
REPLAYS = 3
ROUNDS = 3


def sessions(data: Path | None) -> list[Trace]:
    """Sessions whose outcome nobody told, so that each is judged and then distilled."""
    if data is None:
        return [
            Trace(task=f"task {n}", trajectory=(Step(iteration=1, action="think", content=f"{n}"),))
            for n in range(SESSIONS)
        ]
    found = [to_trace(session, None) for session in rules._programs(data)]
    return [replace(trace, id=new_id()) for trace in found[:SESSIONS]]


def answer(call: ModelCall) -> dict[str, Any]:
    """A judge that is content, and two lessons that no other session gives."""
    if "memories" not in call.schema["properties"]:
        return {"reason": "the record says so", "outcome": "failure", "score": 20}
    mark = hashlib.sha256(call.messages[-1].content.encode()).hexdigest()
    words = [mark[i : i + 6] for i in range(0, 60, 6)]
    return {"memories": [_lesson(words[:5], "first"), _lesson(words[5:], "second")]}


def _lesson(words: list[str], which: str) -> dict[str, Any]:
    said = " ".join(words)
    return {
        "title": f"The {which} lesson about {words[0]}",
        "description": f"When a task is about {said}",
        "content": f"Look at {said} before anything else, since the {which} try fails there.",
        "tags": [words[0]],
        "first_step": 1,
        "last_step": 1,
        "error_type": "WrongTurn",
        "failure_pattern": f"{said} is missing",
        "corrective_guidance": f"Begin with {said}",
    }


@contextmanager
def a_bank(settings: Settings) -> Iterator[Bank]:
    with (
        tempfile.TemporaryDirectory() as place,
        Bank.open(f"sqlite:///{place}/bank.db", workspace=place, settings=settings) as bank,
    ):
        bank.search("warm up")
        yield bank


def run(bank: Bank, model: Model | None, traces: list[Trace], slots: int = 2) -> tuple[float, int]:
    """Seconds until all are learned from, and how many memories that gave."""
    for trace in traces:
        bank.distil(trace)
    started = time.perf_counter()
    service = WorkerService(bank.context, model, turns=False)
    service._worker._slots = slots
    done = asyncio.run(service.run(until_empty=True))
    seconds = time.perf_counter() - started
    assert done == len(traces), f"{done} of {len(traces)} were done"
    return seconds, len(bank.memories(limit=100_000))


def pipeline(traces: list[Trace]) -> Table:
    table = Table(
        "pipeline",
        "Sessions through the whole pipeline",
        ("reasoner", "workers", "sessions", "a minute", "memories", "target", "reached"),
    )
    cases = (
        ("rules", None, 2),
        ("model, 0 ms a call", 0.0, 2),
        ("model, 500 ms a call", 0.5, 2),
        ("model, 500 ms a call", 0.5, 8),
    )
    for name, delay, slots in cases:
        settings, model = Settings(learn=Learn(workers=slots)), None
        if delay is not None:
            model, settings, _ = scripted(delay, settings, cache=True)
        with a_bank(settings) as bank:
            seconds, learned = run(bank, model, traces, slots)
        minute = 60 * len(traces) / seconds
        judged = delay == 0.5 and slots == 2
        table.add(name, slots, len(traces), tables.number(minute), learned,
                  f"≥ {LEAST}" if judged else "–",
                  ("yes" if minute >= LEAST else "NO") if judged else "–")  # fmt: skip
    table.notes.append(
        "From the first claim to the last commit. With a model each session is two calls, a "
        "verdict and the lessons, through all layers of the model; at 500 ms a call two workers "
        "cannot do more than 120 a minute."
    )
    return table


def scripted(
    delay: float, settings: Settings, *, cache: bool, temperature: float = -1.0
) -> tuple[Model, Settings, ModelMeters]:
    llm = LLM(provider="ollama", model="scripted", temperature=temperature)
    settings = replace(settings, llm=llm)
    meters = ModelMeters()
    replies = MemoryReplies(size=100_000, seconds=86_400) if cache else None
    model = layered(Scripted(answer, delay=delay, meters=meters), settings, meters, replies)
    return model, settings, meters


def caching(traces: list[Trace]) -> Table:
    table = Table(
        "cache",
        f"What the cache saves when each task comes {REPLAYS} times",
        ("cache", "temperature", "calls asked for", "calls made", "hits", "tokens", "saved"),
    )
    for temperature in (-1.0, 0.0):
        spent = 0
        for cache in (False, True):
            model, settings, meters = scripted(0.0, Settings(), cache=cache,
                                               temperature=temperature)  # fmt: skip
            with a_bank(settings) as bank:
                for _ in range(REPLAYS):
                    run(bank, model, [replace(trace, id=new_id()) for trace in traces])
            used = (meters.input_tokens or 0) + (meters.output_tokens or 0)
            spent = spent or used
            table.add("on" if cache else "off", "0" if temperature == 0 else "each task's own",
                      2 * REPLAYS * len(traces), meters.calls, meters.cache_hits, f"{used:,}",
                      f"{1 - used / spent:.0%}")  # fmt: skip
    table.notes.append(
        f"{len(traces)} sessions. A verdict is asked for at temperature 0 and is cached; lessons "
        "are asked for at 1, after the paper, unless `llm.temperature` says otherwise, and what is "
        "asked for at more than 0 is never cached. Sessions of one task rarely have the very same "
        "record: this is the most that a cache can save. Tokens are estimated, 4 characters each."
    )
    return table


def claiming(traces: list[Trace]) -> Table:
    """What a batch of ten could save at most: nine claims of ten."""
    table = Table("claims", "What taking jobs one at a time costs", ("what", "ms a session"))
    model, settings, _ = scripted(0.0, Settings(), cache=True)
    with a_bank(settings) as bank:
        seconds, _ = run(bank, model, traces)
        table.add("a session with a model that takes no time", _ms(seconds / len(traces)))
        for size in (1, 10):
            table.add(f"claiming by {size}", _ms(_claims(bank, traces, size)))
    table.notes.append(
        "Claims alone, with nothing else going on, the median of three rounds. See "
        "docs/decisions/0014-one-job-at-a-time.md."
    )
    return table


def _claims(bank: Bank, traces: list[Trace], size: int) -> float:
    ledger, took = bank.store.ledger, []
    for _ in range(ROUNDS):
        for trace in traces:
            bank.distil(replace(trace, id=new_id()))
        started, count = time.perf_counter(), 0
        while True:
            now = bank.store.clock()
            taken = ledger.write(
                lambda txn, now=now: txn.queue.claim("w", now, size, 5, ["distil"])
            )
            if not taken:
                break
            count += len(taken)
        took.append((time.perf_counter() - started) / count)
        for job in bank.jobs(state="running", limit=10_000):
            ledger.write(lambda txn, job=job: txn.queue.finish(job))
    return statistics.median(took)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def verdicts(data: Path) -> Table:
    """Verdicts by rules, on sessions whose end somebody knows."""
    table = Table(
        "verdicts",
        "Rules alone on labelled runs",
        ("runs", "number", "verdicts given", "of these right", "runs with a lesson"),
    )
    for name, runs in (("Who&When (all failed)", _failed(data)), ("τ-bench airline", _tau(data))):
        given = right = taught = 0
        for trace, truth in runs:
            found, verdict = by_rules(trace)
            taught += bool(found)
            if verdict is not None:
                given += 1
                right += str(verdict.outcome) == truth
        table.add(name, len(runs), given, right, taught)
    table.notes.append(
        "Neither has tests or exit codes of a check, and rules give no verdict by opinion: what "
        "they cannot verify is left open, or to the judge where there is a model. Precision and "
        "coverage of the lessons are under “Learning without a model”."
    )
    return table


def _failed(data: Path) -> list[tuple[Trace, str]]:
    return [(to_trace(session, None), "failure") for session in rules._programs(data)]


def _tau(data: Path) -> list[tuple[Trace, str]]:
    found = []
    for path in sorted((data / "tau_bench").glob("*.json")):
        for entry in json.loads(path.read_text("utf-8")):
            steps = tuple(
                Step(iteration=n, action=str(m["role"]), content=str(m.get("content") or "")[:4000])
                for n, m in enumerate(entry["traj"], 1)
                if m["role"] != "system"
            )
            truth = "success" if entry["reward"] == 1 else "failure"
            found.append((Trace(task="help a customer of an airline", trajectory=steps), truth))
    return found


def main() -> int:
    data = folder()
    if data is None:
        print("no data at $REASONBANK_DATA or ../shared/data: made-up sessions only")
    traces = sessions(data)
    made = [pipeline(traces), caching(traces), claiming(traces)]
    made += [verdicts(data)] if data is not None else []
    for table in made:
        table.machine = tables.machine()
        tables.show(table)
        tables.keep("distil", table)
    tables.rewrite_document()
    return 0


if __name__ == "__main__":
    sys.exit(main())

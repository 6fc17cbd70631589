"""Real sessions, read as an agent would hand them in.

Four draws of sixty; every second one is set aside until the end. The first (``chosen.jsonl``) was
drawn by a fixed seed. The second (``fresh.jsonl``), the third (``third.jsonl``) and the fourth
(``fourth.jsonl``) were drawn by the hash of each session's name from those that no earlier draw
has: ``python -m bench.lessons draw fourth`` draws it again. All of the first three has been looked
at since.
What people said about a run afterwards (who made the mistake, the right answer, annotations)
is never read. An outcome is given only where the source's own verifier gave one: the reward of
tau-bench's environment, and the tests that reflexion ran.

Who&When, tau-bench and reflexion are read from ``$REASONBANK_DATA`` or ``../shared/data``. That
folder has TRAIL's annotations only; its traces (github.com/patronus-ai/trail-benchmark at 0ffbed9,
``benchmarking/data``) are read from ``$TRAIL_DATA``. Sources differ in what they still hold: of
tau-bench's fifty tasks thirty-five were left for the second draw, twenty for the third and five for
the fourth, one trial of each; what it lacks there the other sources make up for. Nine of TRAIL's
148 traces, the largest, were not at hand for the third and the fourth.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.retrieval_sets import folder
from reasonbank import Trace
from reasonbank.model import Outcome, Step, derived_id

HERE = Path(__file__).parent
FIRST, FRESH, THIRD, FOURTH = "chosen", "fresh", "third", "fourth"
DRAWS = (FIRST, FRESH, THIRD, FOURTH)
EACH = {THIRD: (15, 15, 15, 15), FOURTH: (18, 18, 5, 19)}
"""Of each source."""
SEED = 20
LONGEST = 20_000
"""Of one step: pages that an agent fetched may be as long as a book."""

Steps = list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A session, and where it comes from; ``aside``: nobody looks at it before the end."""

    id: str
    aside: bool
    trace: Trace


def chosen(draw: str = FIRST, *, aside: bool | None = None) -> list[Chosen]:
    """The sessions of a draw, those of one source together; ``aside``: only those, or the rest."""
    found = {id: read for source in _sources() for id, read in source().items()}
    return [
        Chosen(id=row["session"], aside=row["aside"], trace=found[row["session"]]())
        for row in listed(draw)
        if aside is None or row["aside"] == aside
    ]


def listed(draw: str) -> list[dict[str, Any]]:
    lines = (HERE / f"{draw}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def drawn(draw: str) -> list[dict[str, Any]]:
    """Of each source the first by hash among what the earlier draws left."""
    earlier = DRAWS[: DRAWS.index(draw)]
    seen = {_task_of(row["session"]) for other in earlier for row in listed(other)}
    rows: list[dict[str, Any]] = []
    for place, (source, each) in enumerate(zip(_sources(), EACH[draw], strict=True)):
        unseen = (id for id in source() if _task_of(id) not in seen)
        left = sorted(unseen, key=lambda id: _hashed(draw, id))
        rows += [
            {"session": id, "aside": bool((number + place) % 2)}
            for number, id in enumerate(left[:each])
        ]
    return rows


def _sources() -> tuple[Callable[[], dict[str, Callable[[], Trace]]], ...]:
    return (_who_and_when, _trail, _tau_bench, _reflexion)


def _task_of(id: str) -> str:
    """Trials of one task of tau-bench are one session several times."""
    return id.rpartition("/")[0] if id.startswith("tau_bench/") else id


def _hashed(draw: str, id: str) -> str:
    return hashlib.sha256(f"lessons, {draw} draw: {id}".encode()).hexdigest()


def _data() -> Path:
    found = folder()
    if found is None:
        raise SystemExit("no data at $REASONBANK_DATA or ../shared/data")
    return found


def _trace(id: str, task: str, steps: Steps, outcome: Outcome | None = None) -> Trace:
    return Trace(
        id=derived_id("lesson session", id),
        task=task.strip()[:LONGEST],
        outcome=outcome,
        trajectory=tuple(
            Step(
                iteration=n, action=action, content=content[:LONGEST],
                feedback=told[:LONGEST] or None,
            )
            for n, (action, content, told) in enumerate(steps, 1)
        ),
    )  # fmt: skip


def _solved(verified: object) -> Outcome:
    return Outcome.SUCCESS if verified else Outcome.FAILURE


# Who&When: teams of agents that talk, write programs and browse.

_ENDED = re.compile(r"exitcode: (\d+)[^\n]*\n(?:Code output:)?")
_CODE = re.compile(r"```(?:python|py|sh|bash)?\n(.*?)```", re.DOTALL)


def _who_and_when() -> dict[str, Callable[[], Trace]]:
    paths = (_data() / "who_and_when").glob("*/*/*.json")

    def reader(path: Path) -> Callable[[], Trace]:
        return lambda: _team(f"who_and_when/{path.parent.name}/{path.stem}", path)

    return {f"who_and_when/{p.parent.name}/{p.stem}": reader(p) for p in paths}


def _team(id: str, path: Path) -> Trace:
    run = json.loads(path.read_text("utf-8"))
    steps: Steps = []
    said = ""
    for message in run["history"]:
        text, role = message["content"], message.get("name") or message["role"]
        ended = _ENDED.match(text)
        programs = _CODE.findall(said)
        if ended and programs:
            told = f"exit code {ended[1]}\n{text[ended.end() :].strip()}"
            steps.append(("execute", programs[-1], told))
        elif role == "human":
            steps.append(("user", text, ""))
        else:
            steps.append(("think" if "thought" in role else "agent", text, ""))
        said = text
    return _trace(id, run["question"], steps)


# TRAIL: spans of agents that answer questions with code and tools, or repair repositories.


def _trail() -> dict[str, Callable[[], Trace]]:
    place = os.environ.get("TRAIL_DATA")
    if not place:
        raise SystemExit("set TRAIL_DATA to benchmarking/data of patronus-ai/trail-benchmark")

    def reader(path: Path) -> Callable[[], Trace]:
        return lambda: _spans(f"trail/{path.parent.name}/{path.stem}", path)

    return {f"trail/{p.parent.name}/{p.stem}": reader(p) for p in Path(place).glob("*/*.json")}


def _spans(id: str, path: Path) -> Trace:
    steps: Steps = []
    task = ""
    for span in _walked(json.loads(path.read_text("utf-8"))["spans"]):
        name, told = span["span_name"], span["span_attributes"]
        if name == "CodeAgent.run":
            task = task or json.loads(told["input.value"])["task"]
        elif name.startswith("Step "):
            steps += _acted(span)
        elif name.startswith("LiteLLM") and (said := told.get(_SAID)):
            steps.append(("think", said, ""))
    return _trace(id, task or _asked(path), steps)


def _asked(path: Path) -> str:
    """Where the span of the run was lost, the model was still told its task."""
    spans = json.loads(path.read_text("utf-8"))["spans"]
    while spans:
        span = spans.pop(0)
        spans = span["child_spans"] + spans
        if span["span_name"].startswith("LiteLLM"):
            told = json.loads(span["span_attributes"]["input.value"])["messages"]
            text = next(m["content"][0]["text"] for m in told if m["role"] == "user")
            return str(text).removeprefix("New task:")
    return ""


_SAID = "llm.output_messages.0.message.content"
_CALL = "llm.output_messages.0.message.tool_calls.0.tool_call.function."


def _walked(spans: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for span in spans:
        yield span
        if not span["span_name"].startswith("Step "):
            yield from _walked(span["child_spans"])


def _acted(step: dict[str, Any]) -> Steps:
    """What the model said, what sub-agents did, and the code or the tool that it ran."""
    answer = step["span_attributes"].get("output.value") or step["status_message"]
    found: Steps = []
    for span in _walked(step["child_spans"]):
        told = span["span_attributes"]
        if span["span_name"].startswith("Step "):
            found += _acted(span)
        if not span["span_name"].startswith("LiteLLM"):
            continue
        said = str(told.get(_SAID) or "")
        programs = _CODE.findall(said)
        if said:
            found.append(("think", said.partition("```")[0], ""))
        if told.get(f"{_CALL}name"):
            called = f"{told[f'{_CALL}name']}({told.get(f'{_CALL}arguments', '')})"
            found.append(("tool", called, answer))
        elif programs and span is step["child_spans"][0]:
            found.append(("execute", programs[-1], answer))
    return found


# tau-bench: an agent of an airline, its customer, its tools and its policy.


def _tau_bench() -> dict[str, Callable[[], Trace]]:
    runs = json.loads((_data() / "tau_bench/gpt-4o-airline.json").read_text("utf-8"))

    def reader(id: str, run: dict[str, Any]) -> Callable[[], Trace]:
        return lambda: _service(id, run)

    return {
        (id := f"tau_bench/airline/{run['task_id']}/{run['trial']}"): reader(id, run)
        for run in _one_trial_each(runs)
    }


def _one_trial_each(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Four of the same task would be one session four times."""
    trial = random.Random(SEED)
    drawn = {n: trial.randrange(4) for n in sorted({run["task_id"] for run in runs})}
    return [run for run in runs if run["trial"] == drawn[run["task_id"]]]


def _service(id: str, run: dict[str, Any]) -> Trace:
    names = {"system": "system", "user": "user", "assistant": "agent"}
    steps: Steps = []
    calls: list[str] = []
    for message in run["traj"]:
        if message["role"] == "tool":
            steps.append(("tool", calls.pop(0) if calls else "", message["content"] or ""))
            continue
        if message.get("content"):
            steps.append((names[message["role"]], message["content"], ""))
        made = [call["function"] for call in message.get("tool_calls") or ()]
        calls += [f"{call['name']}({call['arguments']})" for call in made]
    task = next(content for action, content, _ in steps if action == "user")
    return _trace(id, task, steps, _solved(run["reward"] >= 1))


# reflexion: programs that failed their tests, and what the agent wrote about it.


def _reflexion() -> dict[str, Callable[[], Trace]]:
    found: dict[str, Callable[[], Trace]] = {}

    def reader(id: str, row: dict[str, Any]) -> Callable[[], Trace]:
        return lambda: _attempts(id, row)

    for path in sorted((_data() / "reflexion/programming_runs/root").glob("reflexion*/*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            # Without a reflection nothing is recorded but the program.
            if row.get("reflections"):
                name = row.get("task_id") or row["name"]
                found.setdefault(id := f"reflexion/{name}", reader(id, row))
    return found


def _attempts(id: str, row: dict[str, Any]) -> Trace:
    steps: Steps = [("user", row["prompt"], "")]
    steps += [("reflection", text, "") for text in row["reflections"]]
    if row.get("solution"):
        steps.append(("edit", "solution.py", row["solution"]))
    return _trace(id, row["prompt"], steps, _solved(row["is_solved"]))

"""Repair: 849 real bugs, 13 ways to repair them, and the tests' verdict on each pair.

Each bug comes twice. The agent sees the first failing assertion, what the code is made of and
what it should do; which repair works is for it to find out.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from bench.learning_choice import CREDIT, GIVEN, wrong_feedback
from bench.learning_loop import Stream, Task

STRATEGIES = {
    "cmp_boundary": (
        "Move the boundary of a comparison",
        "A comparison is off at its edge: turn < into <=, > into >= or back.",
    ),
    "cmp_direction": (
        "Turn a comparison round",
        "A comparison looks the wrong way: turn < into >, <= into >= or back.",
    ),
    "eq_negate": (
        "Swap equal and not equal",
        "An equality test is inverted: turn == into != or back, in into not in.",
    ),
    "arith_op": (
        "Change an arithmetic operator",
        "A sum, difference, product or quotient is wrong: swap + and -, * and //, % and /.",
    ),
    "aug_assign": (
        "Change an accumulating assignment",
        "A total grows the wrong way: swap += and -=, or *=.",
    ),
    "const_off_by_one": (
        "Shift a constant by one",
        "A number in the code is one too large or too small: add or take off one.",
    ),
    "bool_const": (
        "Flip a boolean constant",
        "A flag or a returned value is inverted: turn True into False or back.",
    ),
    "bool_op": (
        "Swap and and or",
        "A condition joins its parts wrongly: turn and into or, or back.",
    ),
    "cond_negate": (
        "Negate a condition",
        "An if or while takes the wrong branch: put not before its condition.",
    ),
    "range_bound": (
        "Shift the bound of a range",
        "A loop runs once too often or too rarely: change the start or end of range.",
    ),
    "index_shift": (
        "Shift an index by one",
        "A subscript reads the neighbour: add one to the index or take one off.",
    ),
    "slice_bound": (
        "Shift the bound of a slice",
        "A slice takes one element too many or too few: move its start or end.",
    ),
    "minmax_anyall": (
        "Swap min and max or any and all",
        "The wrong end of a collection is taken: swap min and max, any and all.",
    ),
}
DRIFTING = 5
POISONED = {"poison": 1.0, "own": 0.2}
"""For so many of the bugs there is a wrong experience with the very same text."""


def stream(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    """``tuning`` leaves every second problem, with all its bugs, to be reported on only."""
    lines = (data / "repair" / "repairloop_tasks.jsonl").read_text("utf-8").splitlines()
    bugs = [json.loads(line) for line in lines]
    if tuning:
        problems = sorted({bug["task"] for bug in bugs})[::2]
        bugs = [bug for bug in bugs if bug["task"] in set(problems)]
    rng = random.Random(f"repair {seed}")
    order = [*rng.sample(range(len(bugs)), len(bugs)), *rng.sample(range(len(bugs)), len(bugs))]
    moved = rng.sample(list(STRATEGIES), DRIFTING)
    swap = dict(zip(moved, [*moved[1:], moved[0]], strict=True)) if condition == "drift" else {}
    poison = []
    for bug in bugs:
        if rng.random() < POISONED.get(condition, 0.0):
            wrong = [name for name, passed in bug["outcome"].items() if not passed]
            poison.append((text_of(bug), rng.choice(wrong)))
    tasks = []
    for position, number in enumerate(order):
        bug = bugs[number]
        late = position >= len(order) // 2
        rewards = {
            name: float(bug["outcome"][swap.get(name, name) if late else name])
            for name in STRATEGIES
        }
        # After the drift, what failed before is no longer known to fail.
        kind = f"{number} {'late' if late and swap else ''}"
        tasks.append(Task(text=text_of(bug), rewards=rewards, kind=kind))
    return Stream(
        name="repair",
        condition=condition,
        lessons=STRATEGIES,
        tasks=tasks,
        poison=poison,
        poisoner="agent" if condition == "own" else "stranger",
        wrong_feedback=wrong_feedback(condition),
        given=GIVEN if condition in CREDIT else 1,
        mixed=condition == "credit mixed",
    )


def text_of(bug: dict[str, str]) -> str:
    return f"{bug['symptom']}\n{bug['features']}\n{bug['doc']}"

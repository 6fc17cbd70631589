"""The learning bench on paper: a table for each stream and condition, and what must hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench import tables
from bench.learning_bounds import BOUNDS
from bench.learning_figures import draw
from bench.learning_loop import APPEND_ONLY, OURS, SYSTEMS, UNTOLD
from bench.learning_simple import LEARNERS, NOT_LEARNING

NAMES = {
    "telecom": "Telecom: phones to repair, 18 actions",
    "repair": "Repair: 849 bugs twice, 13 strategies",
    "tools": "Tool choice: 3,000 questions, 199 tools",
    "lens": "Tool choice from hints: 1,877 questions, 464 tools",
    "bash": "Choice of the utility: 1,629 questions, 69 utilities",
    "options": "Options of find: 999 questions, 42 close classes",
    "webarena": "WebArena: 812 tasks, the same template found or nothing said",
}
CONDITIONS = {
    "clean": "clean",
    "noise": "20 % wrong feedback",
    "drift": "drift half-way",
    "poison": "poisoned by a stranger",
    "own": "poisoned in its own name",
    "credit first": "only the task's outcome told, the first of three followed",
    "credit mixed": "only the task's outcome told, any of three followed",
}
DRAWN = ("clean", "noise", "drift", "poison")
FULL = "full"
"""What ends the key of a run at full length."""
Found = Mapping[str, Mapping[str, Any]]
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
MOST_ERROR = 0.08
"""Of forecasts: by how much they may be off, on average."""


def report(found: Found) -> None:
    """The streams at full length as far as they were run, the shortened ones beside them."""
    if not found:
        print("nothing was run yet")
        return
    whole = {key: run for key, run in found.items() if key.endswith(f"/{FULL}")}
    short = {key: run for key, run in found.items() if key not in whole}
    best = whole or short
    made = of_cells(best)
    if (errs := judges(best)) is not None:
        made.append(errs)
    made += [musts(best), targets(best)]
    for table in made:
        table.machine = {"streams": "full" if whole else "shortened"}
    if whole and short:
        shorter = musts(short)
        shorter.name, shorter.title = "shortened", f"{shorter.title}, on shortened streams"
        made.append(shorter)
    for table in made:
        print(tables.markdown([table.__dict__]), end="\n\n")
    results = {
        "tables": [table.__dict__ for table in made],
        "means": {"full": means(whole), "shortened": means(short)},
    }
    tables.RESULTS.joinpath("learning.json").write_text(
        json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    draw(best, {condition: CONDITIONS[condition] for condition in DRAWN})


def of_cells(found: Found) -> list[tables.Table]:
    return [
        table
        for stream in NAMES
        for condition in CONDITIONS
        if (table := one(found, stream, condition)) is not None
    ]


def shown(found: Found) -> None:
    """Some runs on the screen."""
    for table in [*of_cells(found), musts(found)]:
        print(tables.markdown([table.__dict__]), end="\n\n")


def values(found: Found, stream: str, condition: str, system: str, name: str) -> list[float]:
    """One number of every seed that was run."""
    prefix = f"{stream}/{condition}/{system}/"
    return [
        run[name]
        for key, run in found.items()
        if key.startswith(prefix) and name in run and not math.isnan(run[name])
    ]


def spread(numbers: Sequence[float]) -> tuple[float, float]:
    """Mean and half the 95 % confidence interval (Student's t over the seeds)."""
    mean = sum(numbers) / len(numbers)
    if len(numbers) < 2:
        return mean, float("nan")
    variance = sum((each - mean) ** 2 for each in numbers) / (len(numbers) - 1)
    quantile = T95[len(numbers) - 2] if len(numbers) - 2 < len(T95) else 2.0
    return mean, quantile * math.sqrt(variance / len(numbers))


def cell(numbers: Sequence[float], scale: float = 1.0, digits: int = 0) -> str:
    if not numbers:
        return "–"
    mean, half = spread([scale * each for each in numbers])
    return f"{mean:.{digits}f}" if math.isnan(half) else f"{mean:.{digits}f} ± {half:.{digits}f}"


COLUMNS: dict[str, tuple[str, float, int]] = {
    "success %": ("success", 100, 1),
    "at the end %": ("end", 100, 1),
    "regret": ("regret", 1, 0),
    "repeated mistakes %": ("repeated", 100, 0),
    "poisoned at the end %": ("poisoned", 100, 1),
    "ECE": ("ece", 1, 3),
    "ECE, hidden": ("ece_hidden", 1, 3),
    "Brier": ("brier", 1, 3),
    "silent %": ("silent", 100, 1),
    "tokens": ("tokens", 1, 0),
    "s": ("seconds", 1, 0),
}
WEBARENA = {"found %": ("success", 100, 1), "silent on new %": ("silent", 100, 1),
            "regret": ("regret", 1, 0), "tokens": ("tokens", 1, 0)}  # fmt: skip
TELECOM = {"success %": ("success", 100, 1), "after 200 %": ("end", 100, 1),
           "regret": ("regret", 1, 0), "steps": ("steps", 1, 1),
           "ECE": ("ece", 1, 3), "silent %": ("silent", 100, 1), "tokens": ("tokens", 1, 0),
           "s": ("seconds", 1, 0)}  # fmt: skip


def one(found: Found, stream: str, condition: str) -> tables.Table | None:
    columns = {"webarena": WEBARENA, "telecom": TELECOM}.get(stream, COLUMNS)
    if not any(key.startswith(f"{stream}/{condition}/") for key in found):
        return None
    rows = []
    seeds = 0
    alike = "drift" if condition == "drift" else "clean"
    names = (*(system.name for system in SYSTEMS), *LEARNERS)
    contestants = [(condition, name) for name in names]
    for condition_of, name_of in (*contestants, *((alike, bound) for bound in BOUNDS)):
        per = {
            title: values(found, stream, condition_of, name_of, name)
            for title, (name, _, _) in columns.items()
        }
        if not any(per.values()):
            continue
        seeds = max(seeds, *(len(numbers) for numbers in per.values()))
        rows.append(
            [name_of, *(cell(per[title], scale, digits)
                            for title, (_, scale, digits) in columns.items())]
        )  # fmt: skip
    if not rows:
        return None
    title = NAMES[stream]
    if stream != "webarena":
        title += f", {CONDITIONS[condition]}"
    table = tables.Table(f"{stream} {condition}", f"{title} ({seeds} seeds)", ("", *columns))
    table.rows = rows
    return table


def judges(found: Found) -> tables.Table | None:
    """How much of the gain over no learning is left when the judge errs."""
    base = values(found, "tools", "clean", "cosine only", "success")
    best = values(found, "tools", "clean", OURS, "success")
    if not base or not best:
        return None
    still = spread(base)[0]
    gain = spread(best)[0] - still
    table = tables.Table(
        "judges", "Tool choice: a judge that errs", ("judge right", "success %", "gain kept %")
    )
    for right in (100, 90, 80, 70):
        condition = "clean" if right == 100 else f"judge {right}"
        if numbers := values(found, "tools", condition, OURS, "success"):
            kept = (spread(numbers)[0] - still) / gain if gain else float("nan")
            table.add(f"{right} %", cell(numbers, 100, 1), f"{100 * kept:.0f}")
    return table


def targets(found: Found) -> tables.Table:
    table = tables.Table(
        "targets",
        "Targets, which were set for streams at full length",
        ("what", "ours", "target", "reached"),
    )

    def add(what: str, at: tuple[str, str, str], least: float | None, most: float | None) -> None:
        stream, condition, name = at
        scale = 1 if name in ("ece", "regret") else 100
        if numbers := values(found, stream, condition, OURS, name):
            mean = scale * spread(numbers)[0]
            said = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
            good = mean >= least if least is not None else mean <= (most or 0.0)
            table.add(what, f"{mean:.3f}" if scale == 1 else f"{mean:.1f}", said,
                      "yes" if good else "NO")  # fmt: skip

    add("telecom after 200 tasks, success %", ("telecom", "clean", "end"), 98, None)
    add("repair, clean, success %", ("repair", "clean", "success"), 43, None)
    add("repair, poisoned, success %", ("repair", "poison", "success"), 35, None)
    add("repair, clean, repeated mistakes %", ("repair", "clean", "repeated"), None, 20)
    add("tool choice, clean, success %", ("tools", "clean", "success"), 66, None)
    add("tool choice, noise, success %", ("tools", "noise", "success"), 62.5, None)
    add("tool choice, clean, repeated mistakes %", ("tools", "clean", "repeated"), None, 11.5)
    for stream in ("repair", "tools"):
        at = (stream, "poison", "poisoned")
        add(f"{stream}, poisoned memories served at the end %", at, None, 10)
        ours = values(found, stream, "clean", OURS, "repeated")
        theirs = values(found, stream, "clean", APPEND_ONLY, "repeated")
        if ours and theirs:
            half = 50 * spread(theirs)[0]
            mean = 100 * spread(ours)[0]
            table.add(f"{stream}, clean, repeated mistakes % beside half of append-only's",
                      f"{mean:.1f}", f"≤ {half:.1f}", "yes" if mean <= half else "NO")  # fmt: skip
    if (errs := judges(found)) is not None and errs.rows[-1][0] == "70 %":
        kept = errs.rows[-1][-1]
        table.add("tool choice, gain kept with a judge that is right 70 % of the time, %", kept,
                  "≥ 55", "yes" if float(kept) >= 55 else "NO")  # fmt: skip
    return table


def by_seed(found: Found, stream: str, condition: str, system: str) -> dict[str, list[int]]:
    """Task by task, did it succeed? Of every seed that was run."""
    if system in STILL and condition == "noise":
        condition = "clean"  # Who is told nothing cannot be told wrongly.
    prefix = f"{stream}/{condition}/{system}/"
    return {
        key.removeprefix(prefix): [*map(int, run["tasks"])]
        for key, run in found.items()
        if key.startswith(prefix)
    }


def beside(
    found: Found, stream: str, condition: str, others: Sequence[str]
) -> tuple[str, float, list[list[int]]] | None:
    """Who of the others does best on the seeds that ours was run on, its success in %, and ours
    less its, task by task of each seed. That the best is chosen by what is reported speaks for
    the others."""
    ours = by_seed(found, stream, condition, OURS)
    theirs = {name: by_seed(found, stream, condition, name) for name in others}
    theirs = {name: known for name, known in theirs.items() if ours and ours.keys() <= known.keys()}
    if not theirs:
        return None
    name = max(theirs, key=lambda name: sum(sum(theirs[name][seed]) for seed in ours))
    known = [theirs[name][seed] for seed in ours]
    success = 100 * sum(map(sum, known)) / sum(map(len, known))
    return (
        name,
        success,
        [
            [mine - other for mine, other in zip(ours[seed], each, strict=True)]
            for seed, each in zip(ours, known, strict=True)
        ],
    )


def gap(differences: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Mean and half the 95 % interval, in %, of differences task by task of each seed.

    The standard error is that over tasks or that over seeds, whichever is larger: what was learnt
    from one task goes on to the next, so that whole orders may differ by more than their tasks say.
    """
    tasks = [each for seed in differences for each in seed]
    seeds = [sum(seed) / len(seed) for seed in differences]
    error = max(_standard_error(tasks), _standard_error(seeds))
    return 100 * sum(tasks) / len(tasks), 196 * error


def _standard_error(numbers: Sequence[float]) -> float:
    mean = sum(numbers) / len(numbers)
    squares = sum((each - mean) ** 2 for each in numbers)
    return math.sqrt(squares / max(1, len(numbers) - 1) / len(numbers))


def verdict(mean: float, half: float) -> str:
    if mean - half > 0:
        return "better"
    return "WORSE" if mean + half < 0 else "alike"


LEARN = [name for name in LEARNERS if name != NOT_LEARNING]
STILL = (NOT_LEARNING, "cosine only", UNTOLD)
"""What does not learn: the nearest vector, the bank by meaning and words, ours never told."""


def musts(found: Found) -> tables.Table:
    """Ours beside the best simple learner and beside not learning, paired over tasks and seeds."""
    table = tables.Table(
        "musts",
        "Ours beside the best simple learner and beside not learning: success in %, paired",
        ("", "ours", "best simple learner", "ours less it", "", "best without learning",
         "ours less it", "", "ECE, of what is told", "ECE, of what happened", "silent %", "seeds"),
    )  # fmt: skip
    for stream in NAMES:
        for condition, said in CONDITIONS.items():
            ours = values(found, stream, condition, OURS, "success")
            if not ours or stream == "webarena":
                continue
            cells = [f"{stream}, {said}", f"{100 * sum(ours) / len(ours):.1f}"]
            for others in (LEARN, STILL):
                best = beside(found, stream, condition, others)
                if best is None:
                    cells += ["–", "–", "–"]
                else:
                    name, theirs, differences = best
                    mean, half = gap(differences)
                    less = f"{mean:+.1f} ± {half:.1f}"
                    cells += [f"{name} {theirs:.1f}", less, verdict(mean, half)]
            table.add(
                *cells,
                error(values(found, stream, condition, OURS, "ece")),
                error(values(found, stream, condition, OURS, "ece_hidden")),
                cell(values(found, stream, condition, OURS, "silent"), 100, 1),
                len(ours),
            )
    return table


def error(numbers: Sequence[float]) -> str:
    if not numbers:
        return "–"
    off = spread(numbers)[0]
    return f"{off:.3f}" + (" TOO MUCH" if off > MOST_ERROR else "")


def means(found: Found) -> dict[str, Any]:
    groups: dict[str, dict[str, list[float]]] = {}
    for key, run in found.items():
        stream, condition, system, *_ = key.split("/")
        into = groups.setdefault(f"{stream}/{condition}/{system}", {})
        for name, value in run.items():
            if isinstance(value, int | float) and not math.isnan(value):
                into.setdefault(name, []).append(value)
    return {
        key: {name: round(sum(vs) / len(vs), 4) for name, vs in named.items()}
        | {"seeds": max(map(len, named.values()))}
        for key, named in groups.items()
    }

"""The learning bench on paper: one table for each stream, the curves, the calibration."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import tables
from bench.learning_bounds import BOUNDS
from bench.learning_loop import APPEND_ONLY, OURS, SYSTEMS
from reasonbank.proof.calibration import calibrated
from reasonbank.surfaces.show.report_page import figure

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
NAMES = {
    "telecom": "Telecom: phones to repair, 18 actions",
    "repair": "Repair: 849 bugs twice, 13 strategies",
    "tools": "Tool choice: 3,000 questions, 199 tools",
    "webarena": "WebArena: 812 tasks, the same template found or nothing said",
}
CONDITIONS = {
    "clean": "clean",
    "noise": "20 % wrong feedback",
    "drift": "drift half-way",
    "poison": "poisoned",
}
TASK = "task"
"""The condition under which only the task's outcome is told."""
FULL = "full"
"""What ends the key of a run at full length."""
Found = Mapping[str, Mapping[str, Any]]
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
COLOURS = ("#999", "#b55", "#c90", "#7a5", "#5aa", "#85c", "#c5a", "#1f6feb")


def report(found: Found) -> None:
    """The streams at full length as far as they were run, the shortened ones beside them."""
    if not found:
        print("nothing was run yet")
        return
    whole = {key: run for key, run in found.items() if key.endswith(f"/{FULL}")}
    short = {key: run for key, run in found.items() if key not in whole}
    shown = whole or short
    made = [
        table
        for stream in NAMES
        for condition in (*CONDITIONS, "judge")
        if (table := one(shown, stream, condition)) is not None
    ]
    if (told := of_the_task(shown)) is not None:
        made.append(told)
    made.append(targets(shown))
    for table in made:
        table.machine = {"streams": "full" if whole else "shortened"}
    if whole and short:
        made.append(beside(short))
    for table in made:
        print(tables.markdown([table.__dict__]), end="\n\n")
    results = {
        "tables": [table.__dict__ for table in made],
        "means": {"full": means(whole), "shortened": means(short)},
    }
    tables.RESULTS.joinpath("learning.json").write_text(
        json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    draw(shown)


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
    "Brier": ("brier", 1, 3),
    "tokens": ("tokens", 1, 0),
}
WEBARENA = {"found %": ("success", 100, 1), "silent on new %": ("silent", 100, 1),
            "regret": ("regret", 1, 0), "tokens": ("tokens", 1, 0)}  # fmt: skip
TELECOM = {"success %": ("success", 100, 1), "after 200 %": ("end", 100, 1),
           "regret": ("regret", 1, 0), "steps": ("steps", 1, 1),
           "tokens": ("tokens", 1, 0)}  # fmt: skip


def one(found: Found, stream: str, condition: str) -> tables.Table | None:
    if condition == "judge":
        return judges(found) if stream == "tools" else None
    columns = {"webarena": WEBARENA, "telecom": TELECOM}.get(stream, COLUMNS)
    rows = []
    seeds = 0
    alike = "drift" if condition == "drift" else "clean"
    contestants = [(condition, system.name) for system in SYSTEMS]
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
    if stream not in ("webarena", "telecom"):
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


def of_the_task(found: Found) -> tables.Table | None:
    """What is left where nobody says which of three memories was followed."""
    table = tables.Table(
        "task", "Three memories are given, and only how the task went is told",
        ("stream", "without learning %", "told of the task %", "told of the memory followed %"),
    )  # fmt: skip
    for stream in ("repair", "tools"):
        if numbers := values(found, stream, TASK, OURS, "success"):
            exact = values(found, stream, "clean", OURS, "success")
            still = values(found, stream, "clean", "cosine only", "success")
            table.add(NAMES[stream].partition(":")[0],
                      *(cell(each, 100, 1) for each in (still, numbers, exact)))  # fmt: skip
    return table if table.rows else None


def targets(found: Found) -> tables.Table:
    table = tables.Table("targets", "Targets", ("what", "ours", "target", "reached"))

    def add(what: str, at: tuple[str, str, str], least: float | None, most: float | None) -> None:
        stream, condition, name = at
        scale = 1 if name in ("ece", "regret") else 100
        if numbers := values(found, stream, condition, OURS, name):
            mean = scale * spread(numbers)[0]
            said = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
            good = mean >= least if least is not None else mean <= (most or 0.0)
            table.add(what, f"{mean:.3f}" if scale == 1 else f"{mean:.1f}", said,
                      "yes" if good else "NO")  # fmt: skip

    add("telecom after 200 tasks, success %", ("telecom", "clean", "end"), 70, None)
    add("repair, clean, success %", ("repair", "clean", "success"), 43, None)
    add("repair, poisoned, success %", ("repair", "poison", "success"), 35, None)
    add("repair, clean, repeated mistakes %", ("repair", "clean", "repeated"), None, 20)
    add("tool choice, clean, success %", ("tools", "clean", "success"), 66, None)
    add("tool choice, noise, success %", ("tools", "noise", "success"), 62, None)
    for stream in ("repair", "tools"):
        at = (stream, "poison", "poisoned")
        add(f"{stream}, poisoned memories served at the end %", at, None, 10)
        add(f"{stream}, clean, ECE", (stream, "clean", "ece"), None, 0.05)
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
                  "≥ 90", "yes" if float(kept) >= 90 else "NO")  # fmt: skip
    for stream in NAMES:
        for condition in CONDITIONS:
            lowest(found, stream, condition, table)
    return table


def by_seed(found: Found, stream: str, condition: str, system: str) -> dict[str, float]:
    """The regret of every seed that was run."""
    prefix = f"{stream}/{condition}/{system}/"
    return {
        key.removeprefix(prefix): run["regret"]
        for key, run in found.items()
        if key.startswith(prefix)
    }


def best_other(
    found: Found, stream: str, condition: str
) -> tuple[str, dict[str, float], list[float]] | None:
    """Who has the least regret beside ours, its regret, and ours less theirs, seed by seed."""
    ours = by_seed(found, stream, condition, OURS)
    others = {
        system.name: {seed: regret for seed, regret in theirs.items() if seed in ours}
        for system in SYSTEMS
        if system.name != OURS and (theirs := by_seed(found, stream, condition, system.name))
    }
    others = {name: theirs for name, theirs in others.items() if theirs}
    if not others:
        return None
    name = min(others, key=lambda name: spread(list(others[name].values()))[0])
    return name, others[name], [ours[seed] - theirs for seed, theirs in others[name].items()]


def verdict(differences: Sequence[float]) -> str:
    mean, half = spread(differences)
    if mean <= 0:
        return "yes" if mean + half < 0 else "yes, within the interval"
    return "NO" if mean - half > 0 else "no, within the interval"


def lowest(found: Found, stream: str, condition: str, table: tables.Table) -> None:
    """Ours has the least regret: beside the best of the others, over the same seeds."""
    if (best := best_other(found, stream, condition)) is None:
        return
    name, theirs, differences = best
    mean = spread(list(theirs.values()))[0]
    table.add(
        f"{stream}, {CONDITIONS[condition]}, regret beside {name} ({len(theirs)} seeds)",
        f"{mean + spread(differences)[0]:.0f}", f"≤ {mean:.0f}",
        f"{verdict(differences)} ({cell(differences)})",
    )  # fmt: skip


def beside(found: Found) -> tables.Table:
    """The shortened streams on one page."""
    seeds = max(len(by_seed(found, key.split("/")[0], key.split("/")[1], OURS)) for key in found)
    table = tables.Table(
        "shortened",
        f"All streams, shortened ({seeds} seeds)",
        (
            "",
            "ours, success %",
            "ours, regret",
            "best other",
            "its regret",
            "ours less its, paired",
        ),
    )
    for stream in NAMES:
        for condition, said in CONDITIONS.items():
            if (best := best_other(found, stream, condition)) is not None:
                name, theirs, differences = best
                table.add(
                    f"{stream}, {said}",
                    cell(values(found, stream, condition, OURS, "success"), 100, 1),
                    cell(values(found, stream, condition, OURS, "regret")),
                    name, cell(list(theirs.values())), cell(differences),
                )  # fmt: skip
    return table


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


def draw(found: Found) -> None:
    FIGURES.mkdir(exist_ok=True)
    for stream in ("telecom", "repair", "tools"):
        for condition, said in CONDITIONS.items():
            curves = {}
            for system in SYSTEMS:
                prefix = f"{stream}/{condition}/{system.name}/"
                runs = [run["curve"] for key, run in found.items() if key.startswith(prefix)]
                if runs:
                    curves[system.name] = [sum(at) / len(at) for at in zip(*runs, strict=True)]
            if curves:
                title = f"Regret so far: {stream}, {said}"
                FIGURES.joinpath(f"learning-{stream}-{condition}.svg").write_text(
                    lines(title, curves), "utf-8"
                )
    for stream in ("repair", "tools"):
        forecasts = [
            (expected, bool(came))
            for key, run in found.items()
            if key.startswith(f"{stream}/clean/{OURS}/")
            for expected, came in run.get("forecasts", ())
        ]
        if forecasts:
            drawing = figure(calibrated(forecasts)).replace(
                "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1
            )
            FIGURES.joinpath(f"learning-{stream}-calibration.svg").write_text(drawing, "utf-8")


def lines(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    width, height, left, top = 460, 260, 44, 26
    most = max(max(curve) for curve in curves.values()) or 1.0

    def points(curve: Iterable[float], count: int) -> str:
        return " ".join(
            f"{left + width * (at + 1) / count:.1f},{top + height * (1 - value / most):.1f}"
            for at, value in enumerate(curve)
        )

    colour = {system.name: COLOURS[place] for place, system in enumerate(SYSTEMS)}
    drawn = "".join(
        f'<polyline fill="none" stroke="{colour[name]}" '
        f'stroke-width="{3 if name == OURS else 1.5}" points="{points(curve, len(curve))}"/>'
        for name, curve in curves.items()
    )
    ordered = sorted(curves, key=lambda name: -curves[name][-1])
    legend = "".join(
        f'<text x="{left + width + 10}" y="{top + 12 + 17 * place}" fill="{colour[name]}">'
        f"{name} ({curves[name][-1]:.0f})</text>"
        for place, name in enumerate(ordered)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 190} '
        f'{top + height + 26}" font-family="sans-serif" font-size="12">'
        f'<title>{title}</title><text x="{left}" y="16" fill="#777">{title}</text>'
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>'
        f'<text x="{left - 6}" y="{top + 10}" text-anchor="end" fill="#777">{most:.0f}</text>'
        f'<text x="{left - 6}" y="{top + height}" text-anchor="end" fill="#777">0</text>'
        f'<text x="{left + width}" y="{top + height + 18}" text-anchor="end" fill="#777">'
        f"tasks</text>{drawn}{legend}</svg>\n"
    )

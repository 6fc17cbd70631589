"""The learning bench in pictures: the curves, the calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.learning_loop import OURS, SYSTEMS
from bench.learning_simple import LEARNERS
from reasonbank.proof.calibration import calibrated
from reasonbank.surfaces.show.report_page import figure

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
DRAWN = [name for name in (*(system.name for system in SYSTEMS), *LEARNERS) if name != OURS]
GREYS = ("#999", "#b55", "#c90", "#7a5", "#5aa", "#85c", "#c5a", "#69c",
         "#bbb", "#d33", "#393", "#850")  # fmt: skip
COLOURS = dict(zip(DRAWN, GREYS, strict=True)) | {OURS: "#1f6feb"}


def draw(found: Mapping[str, Mapping[str, Any]], conditions: Mapping[str, str]) -> None:
    FIGURES.mkdir(exist_ok=True)
    for stream in dict.fromkeys(key.split("/")[0] for key in found):
        for condition, said in conditions.items():
            curves = {}
            for name in (*DRAWN, OURS):
                prefix = f"{stream}/{condition}/{name}/"
                runs = [run["curve"] for key, run in found.items()
                        if key.startswith(prefix) and "curve" in run]  # fmt: skip
                if runs:
                    curves[name] = [sum(at) / len(at) for at in zip(*runs, strict=True)]
            if OURS in curves:
                title = f"Regret so far: {stream}, {said}"
                name = f"learning-{stream}-{condition.replace(' ', '-')}.svg"
                FIGURES.joinpath(name).write_text(lines(title, curves), "utf-8")
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

    drawn = "".join(
        f'<polyline fill="none" stroke="{COLOURS[name]}" '
        f'stroke-width="{3 if name == OURS else 1.5}" points="{points(curve, len(curve))}"/>'
        for name, curve in curves.items()
    )
    ordered = sorted(curves, key=lambda name: -curves[name][-1])
    legend = "".join(
        f'<text x="{left + width + 10}" y="{top + 12 + 17 * place}" fill="{COLOURS[name]}">'
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

"""The learning report as a page, and its figure."""

from __future__ import annotations

from html import escape

from reasonbank.proof.calibration import Calibration
from reasonbank.proof.report import Report, sentences


def html(found: Report) -> str:
    """The report as one page that needs nothing else."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Learning report</title>'
        "<style>:root{color-scheme:light dark}body{font:16px system-ui;max-width:44rem;"
        "margin:2rem auto;padding:0 1rem}td,th{padding:.2rem .8rem .2rem 0;text-align:left}"
        f"svg{{max-width:24rem}}</style>{body(found)}</html>\n"
    )


def body(found: Report) -> str:
    """What is on that page."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in sentences(found))
    rows = "".join(
        f"<tr><td>{escape(found.titles.get(id, id))}</td><td>{d.with_memory}</td>"
        f"<td>{d.without}</td><td>{100 * (d.difference or 0):+.0f}</td>"
        f"<td>{100 * (d.low or 0):+.0f} to {100 * (d.high or 0):+.0f}</td></tr>"
        for id, d in found.by_memory
    )
    table = (
        "<h2>Memory by memory</h2><table><tr><th>memory</th><th>tasks with</th>"
        f"<th>without</th><th>points</th><th>95 %</th></tr>{rows}</table>"
        if rows
        else ""
    )
    return f"<h1>Learning report</h1>{lines}{_figures(found)}{table}"


def _figures(found: Report) -> str:
    return figure(found.calibration, "Forecasts") + figure(found.confidence, "Confidence")


def figure(calibration: Calibration, name: str = "Forecasts") -> str:
    """Predicted against observed success; on the line, a forecast means what it says."""
    if not calibration.bins:
        return ""
    side, edge = 240, 34

    def x(value: float) -> float:
        return round(edge + value * side, 1)

    def y(value: float) -> float:
        return round(10 + (1 - value) * side, 1)

    most = max(found.count for found in calibration.bins)
    dots = "".join(
        f'<circle cx="{x(b.predicted)}" cy="{y(b.observed)}" '
        f'r="{round(3 + 6 * (b.count / most) ** 0.5, 1)}" fill="#3b7dd8" fill-opacity=".8">'
        f"<title>{b.count} uses: predicted {b.predicted:.2f}, observed {b.observed:.2f}</title>"
        "</circle>"
        for b in calibration.bins
    )
    marks = "".join(
        f'<text x="{x(v)}" y="{y(0) + 16}" text-anchor="middle">{v:g}</text>'
        f'<text x="{edge - 6}" y="{y(v) + 4}" text-anchor="end">{v:g}</text>'
        for v in (0, 0.5, 1)
    )
    return (
        f'<svg viewBox="0 0 {side + edge + 14} {side + 52}" role="img" font-size="11" '
        'fill="currentColor"><title>'
        f"{escape(name)}: predicted against observed success</title>"
        f'<rect x="{edge}" y="10" width="{side}" height="{side}" fill="none" stroke="#888"/>'
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="#888" '
        f'stroke-dasharray="4"/>{marks}{dots}'
        f'<text x="{x(0.5)}" y="{side + 44}" text-anchor="middle">{escape(name)}: predicted '
        "(across), observed (up)</text></svg>"
    )

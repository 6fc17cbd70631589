"""One table on the screen, the same as JSON, the same as Markdown.

A result file holds ``tables``, each with ``name``, ``title``, ``columns``, ``rows`` (lists of
texts), ``notes`` and the ``machine`` it was measured on: nothing that names a host, a user
or a path.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
COMPARED = ("what", "ours", "beside it", "ratio", "target", "reached")


@dataclass
class Table:
    name: str
    title: str
    columns: tuple[str, ...] = COMPARED
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    def add(self, *cells: object) -> None:
        self.rows.append([str(cell) for cell in cells])

    def compare(
        self,
        what: str,
        ours: float,
        beside: str,
        theirs: float,
        *,
        most: float | None = None,
        least: float | None = None,
        unit: str = "ms",
        also: bool = True,
        target: str = "",
    ) -> None:
        """A row of ``COMPARED``; ``also`` is what must hold besides the ratio."""
        ratio = ours / theirs
        said = f"≤ {most}" if most is not None else f"≥ {least}" if least is not None else "–"
        reached = also and (most is None or ratio <= most) and (least is None or ratio >= least)
        judged = most is not None or least is not None or target
        self.add(
            what,
            f"{number(ours)} {unit}",
            f"{beside}: {number(theirs)} {unit}",
            f"{ratio:.2f}",
            f"{said}{target}",
            ("yes" if reached else "NO") if judged else "–",
        )


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """What a reader needs to judge the numbers."""
    import apsw
    import numpy as np

    return {
        "cores": os.cpu_count(),
        "load at the start": round(os.getloadavg()[0], 1),
        "processor": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "BLAS threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
    }


def show(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn

    drawn = Drawn(title=table.title, title_justify="left", title_style="bold")
    for position, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if position == 0 else "right")
    for row in table.rows:
        cells = [cell.replace("[", r"\[") for cell in row]
        drawn.add_row(*cells, style="red" if row[-1] == "NO" else None)
    console = Console(width=None if os.isatty(1) else 150)
    console.print(drawn)
    for note in table.notes:
        console.print(f"  {note}", style="dim", markup=False, highlight=False)


def keep(bench: str, table: Table) -> None:
    """Write the table into the bench's results, in the place of an older one of its name."""
    path = RESULTS / f"{bench}.json"
    old = json.loads(path.read_text("utf-8"))["tables"] if path.is_file() else []
    fresh = vars(table)
    names = [entry["name"] for entry in old]
    if table.name in names:
        old[names.index(table.name)] = fresh
    else:
        old.append(fresh)
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"tables": old}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def markdown(tables: Iterable[dict[str, Any]]) -> str:
    parts = []
    for table in tables:
        lines = [f"### {table['title']}", ""]
        lines += [_line(table["columns"]), _line("---" for _ in table["columns"])]
        lines += [_line(row) for row in table["rows"]]
        lines += ["", *(f"- {note}" for note in table["notes"])]
        facts = ", ".join(f"{name} {value}" for name, value in table["machine"].items())
        lines += [f"- Measured with: {facts}."] if facts else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def tables_of(bench: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of a result file; two benches keep their numbers by name instead."""
    if bench == "retrieval":
        return [
            _of_named(f"{name}: {found['questions']:,} questions", found["means"])
            for name, found in data["sets"].items()
        ]
    if bench == "embedding":
        return [_of_named("Ways to run the model", data["candidates"])]
    return data.get("tables", [])


def _of_named(title: str, named: dict[str, dict[str, float]]) -> dict[str, Any]:
    columns = list(dict.fromkeys(column for values in named.values() for column in values))
    rows = [
        [name, *(_cell(values.get(column)) for column in columns)] for name, values in named.items()
    ]
    header = [column.replace("_", " ") for column in columns]
    return {"title": title, "columns": ["", *header], "rows": rows, "notes": [], "machine": {}}


def _cell(value: object) -> str:
    if isinstance(value, float) and abs(value) < 100:
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value or "–")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"


def rewrite_document() -> None:
    """Put every bench's tables between its markers in docs/benchmarks.md."""
    text = DOCUMENT.read_text("utf-8")
    for path in sorted(RESULTS.glob("*.json")):
        tables = tables_of(path.stem, json.loads(path.read_text("utf-8")))
        begin, end = f"<!-- begin {path.stem} -->", f"<!-- end {path.stem} -->"
        if tables and begin in text:
            fresh = f"{begin}\n\n{markdown(tables)}\n\n{end}"
            found = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
            text = found.sub(lambda _, fresh=fresh: fresh, text)
    DOCUMENT.write_text(text, "utf-8")

"""No operation costs more statements, pages, syncs or texts to embed than it did."""

from __future__ import annotations

import pytest
from bench import counts


def test_no_count_has_grown() -> None:
    grown, shrunk = counts.changes(counts.committed(), counts.counted())
    if grown or shrunk:
        what = "These counts have grown" if grown else "Better than before; keep it so"
        pytest.fail(
            "\n".join((f"{what}:", *grown, *shrunk, "python -m bench.counts --update accepts it")),
            pytrace=False,
        )


def test_one_statement_more_is_told() -> None:
    before = {"machine": {}, "rows": [["record", "100", "16", "13", "1", "0"]]}
    table = counts.Table("counts", "", rows=[["record", "100", "17", "13", "0", "0"]])
    assert counts.changes(before, table) == (
        ["record, 100 memories: statements 16 -> 17"],
        ["record, 100 memories: syncs 1 -> 0"],
    )

"""Facts of many walks of life that change, in one bank, with the default settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.requirement import requirement

from reasonbank import Bank, Memory, Outcome

READ = Path(__file__).parents[1].joinpath("data", "changing_facts.jsonl").read_text("utf-8")
ROWS = [json.loads(line) for line in READ.splitlines()]
CHANGING = [row for row in ROWS if row["kind"] != "both"]
BOTH_TRUE = [row for row in ROWS if row["kind"] == "both"]
ENOUGH = 0.95


def said(text: str, title: str) -> Memory:
    return Memory(title=title, description=title, content=text, outcome=Outcome.SUCCESS)


def recorded(bank, rows, name, titled):
    return [
        bank.record(said(row[name], row["question"] if titled else row[name])).id for row in rows
    ]


@pytest.fixture
def packaged(tmp_path):
    """With the model that is in the package: these are questions of meaning."""
    with Bank.open(str(tmp_path / "packaged.db")) as bank:
        yield bank


@requirement(
    "RET-19", left="rewordings: 70 to 88 % of the facts of bench.changing that were set aside"
)
@pytest.mark.parametrize("titled", [True, False])
def test_of_facts_that_change_the_newer_value_comes_first(packaged, titled):
    older = recorded(packaged, CHANGING, "was", titled)
    newer = recorded(packaged, CHANGING, "now", titled)
    missed, wrong = [], []
    for row, old, new in zip(CHANGING, older, newer, strict=True):
        hits = list(packaged.search(row["question"]))
        ids = [hit.memory.id for hit in hits if hit.memory.id in (old, new)]
        if ids[:1] != [new]:
            missed.append(row)
        marks = {hit.memory.id: hit.outdated_by for hit in hits if hit.outdated_by}
        wrong += [id for id, by in marks.items() if (id, by) not in zip(older, newer, strict=True)]
    assert len(missed) <= (1 - ENOUGH) * len(CHANGING), missed
    assert not wrong


@requirement("RET-19")
@pytest.mark.parametrize("titled", [True, False])
def test_of_facts_that_are_both_true_none_is_outdated(packaged, titled):
    recorded(packaged, BOTH_TRUE, "was", titled)
    recorded(packaged, BOTH_TRUE, "now", titled)
    marked = [
        (hit.memory.content, hit.outdated_by)
        for row in BOTH_TRUE
        for hit in packaged.search(row["question"])
        if hit.outdated_by
    ]
    assert not marked


TASKS = (
    "Find all files named 'photo.jpg' under the current directory tree",
    "Find all files named 'query' under the current directory tree",
    "Find all files named 'core' under the current directory tree",
)


@requirement("RET-19")
def test_tasks_that_differ_in_a_value_are_many_tasks_and_keep_their_order(packaged):
    ids = [packaged.record(said(text, text)).id for text in TASKS]
    for text, id in zip(TASKS, ids, strict=True):
        hits = list(packaged.search(text))
        assert hits[0].memory.id == id
        assert not any(hit.outdated_by for hit in hits)


SPOKEN = (
    "Ann: Cool! I painted the lake last weekend with my sister.",
    "Ann: Wow! My sister has been so busy with the kids since then.",
)


@requirement("RET-19")
def test_what_is_said_in_passing_outdates_nothing(packaged):
    for text in SPOKEN:
        packaged.record(said(text, text))
    assert not any(hit.outdated_by for hit in packaged.search("What did Ann paint?"))

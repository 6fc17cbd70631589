"""Import takes all of a file or nothing, once, and never brings back what was forgotten."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from fault_tools import (
    a_memory,
    differences,
    exported,
    imported,
    log_length,
    open_bank,
    projections,
    sealed,
)
from test_rebuild import Clock, lived
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Forgotten, InvalidInput, NotFound, ReasonBankError
from reasonbank.model import Outcome, Trace


@pytest.fixture
def other(memory_disk: Path) -> Any:
    with open_bank(memory_disk / "other" / "bank.db") as bank:
        yield bank


@pytest.fixture
def third(memory_disk: Path) -> Any:
    with open_bank(memory_disk / "third" / "bank.db") as bank:
        yield bank


@pytest.fixture
def export(memory_disk: Path) -> str:
    with open_bank(memory_disk / "source" / "bank.db", clock=Clock()) as bank:
        lived(bank, random.Random(3), 40)
        bank.record(a_memory("Ünïcödé – “quoted” 日本語", content="🦓" * 50))
        return exported(bank)


def refused_whole(bank: Bank, file: Any) -> InvalidInput:
    before = log_length(bank)
    with pytest.raises(InvalidInput) as caught:
        bank.import_(file, trusted=True)
    assert log_length(bank) == before
    assert bank.statistics().memories == 0
    return caught.value


def test_an_export_cut_at_any_line_is_refused_whole(bank: Bank, export: str) -> None:
    lines = export.splitlines(keepends=True)
    for count in range(len(lines)):
        refused_whole(bank, io.StringIO("".join(lines[:count])))
    assert imported(bank, export).new == len(lines) - 2


def test_an_export_cut_at_any_byte_is_refused_whole(bank: Bank, export: str) -> None:
    data = export.encode()
    rng = random.Random(5)
    wide = [at for at, byte in enumerate(data) if byte & 0xC0 == 0x80]
    cuts = rng.sample(range(1, len(data) - 1), 60) + rng.sample(wide, 20)
    for cut in cuts:
        refused_whole(bank, io.TextIOWrapper(io.BytesIO(data[:cut]), encoding="utf-8"))


def test_an_export_without_one_of_its_lines_is_refused_whole(bank: Bank, export: str) -> None:
    lines = export.splitlines(keepends=True)
    for missing in range(len(lines)):
        refused_whole(bank, io.StringIO("".join(lines[:missing] + lines[missing + 1 :])))


def test_an_altered_export_is_refused_whole(bank: Bank, export: str) -> None:
    lines = export.splitlines(keepends=True)
    for number in range(1, len(lines) - 1):
        changed = lines[number].replace('"surface":"library"', '"surface":"librarx"')
        assert changed != lines[number]
        text = "".join([*lines[:number], changed, *lines[number + 1 :]])
        error = refused_whole(bank, io.StringIO(text))
        assert "changed" in str(error)


def test_two_exports_in_one_file_are_refused_rather_than_half_read(bank: Bank, export: str) -> None:
    refused_whole(bank, io.StringIO(export + export))


@requirement("MEM-10")
def test_an_export_gives_the_same_bank_and_a_second_import_changes_nothing(
    memory_disk: Path, other: Bank, export: str
) -> None:
    imported(other, export)
    with open_bank(memory_disk / "source" / "bank.db") as source:
        there, here = projections(source), projections(other)
        there["traces"] = [row[:3] for row in there["traces"]]
        here["traces"] = [row[:3] for row in here["traces"]]
        assert differences(there, here) == {}
    again = imported(other, export)
    assert again.new == 0
    assert exported(other).splitlines()[1:-1] == export.splitlines()[1:-1]


@requirement("MEM-10")
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_events_in_a_file_does_not_matter(
    bank: Bank, other: Bank, third: Bank, export: str, seed: int
) -> None:
    """Nor does it matter whether they come in one file or in two."""
    imported(bank, export)
    header, *lines = [json.loads(line) for line in export.splitlines()[:-1]]
    random.Random(seed).shuffle(lines)
    imported(other, sealed([header, *lines]))
    imported(third, sealed([header, *lines[: len(lines) // 2]]))
    imported(third, sealed([header, *lines[len(lines) // 2 :]]))
    expected = projections(bank)
    for shuffled in (other, third):
        found = projections(shuffled)
        for dump in (found, expected):
            dump["traces"] = [row[:3] for row in dump["traces"]]
        assert differences(found, expected) == {}


def test_two_banks_that_named_a_workspace_alike_can_be_joined(bank: Bank, other: Bank) -> None:
    elsewhere = other.within("/elsewhere")
    bank.record(a_memory("Here"))
    elsewhere.record(a_memory("There"))
    bank.name_workspace(bank.view.workspace, "api")
    other.name_workspace(elsewhere.view.workspace, "api")
    imported(bank, exported(other))
    assert sorted(str(w.name) for w in bank.workspaces()) == ["None", "api"]
    before = projections(bank)
    bank.rebuild()
    assert differences(before, projections(bank)) == {}


@requirement("MEM-6")
def test_an_import_does_not_bring_back_what_was_forgotten(bank: Bank, third: Bank) -> None:
    memory = bank.record(a_memory())
    bank.update(memory.id, content="Changed")
    bank.feedback(memory.id, helpful=True)
    old = exported(bank)
    bank.forget(memory.id)
    imported(bank, old)
    imported(third, exported(bank))
    imported(third, old)
    for here in (bank, third):
        with pytest.raises(Forgotten):
            here.get(memory.id)
        here.rebuild()
        with pytest.raises(Forgotten):
            here.get(memory.id)
        assert "Poll until" not in exported(here)
    assert imported(third, old).new == 0


@requirement("MEM-6")
def test_importing_a_forgetting_forgets_here_too(bank: Bank, other: Bank) -> None:
    memory = bank.record(a_memory("Zebra"))
    bank.search("zebra")
    imported(other, exported(bank))
    other.forget(memory.id)
    imported(bank, exported(other))
    with pytest.raises(Forgotten):
        bank.get(memory.id)
    assert not bank.search("zebra")


@requirement("WSP-4")
def test_a_deleted_workspace_does_not_come_back_with_an_older_export(
    bank: Bank, other: Bank, third: Bank
) -> None:
    doomed = bank.within("/doomed")
    doomed.forget(doomed.record(a_memory("Forgotten before")).id)
    memory = doomed.record(a_memory("Doomed"))
    doomed.feedback(memory.id, helpful=True)
    trace = doomed.store_trace(Trace(task="Doomed task", outcome=Outcome.MIXED))
    bank.record(a_memory("Kept"))
    old = exported(bank)
    bank.delete_workspace(doomed.view.workspace, confirm=True)
    new = exported(bank)
    imported(bank, old)
    imported(other, old)
    imported(other, new)
    imported(third, new)
    imported(third, old)
    for here in (bank, other, third):
        assert [w.id for w in here.workspaces()] == [bank.view.workspace]
        assert here.within("/doomed").memories() == []
        with pytest.raises(NotFound):
            here.within("/doomed").trace(trace.id)
        assert "Doomed" not in exported(here)
        before = projections(here)
        here.rebuild()
        assert differences(before, projections(here)) == {}


def test_what_was_recorded_after_a_deletion_survives_its_import(bank: Bank, other: Bank) -> None:
    bank.record(a_memory("Old"))
    imported(other, exported(bank))
    bank.delete_workspace(bank.view.workspace, confirm=True)
    new = other.record(a_memory("New, and later"))
    imported(other, exported(bank))
    assert [m.id for m in other.memories()] == [new.id]


def event(what: str, payload: Any, **known: Any) -> dict[str, Any]:
    return {
        "event": what, "id": "01900000-0000-7000-8000-000000000001",
        "subject": "01900000-0000-7000-8000-000000000002", "workspace": "w", "at": 10**15,
        "origin": "o", "author": "a", "surface": "s", "payload": payload,
    } | known  # fmt: skip


LESSON = {"title": "t", "description": "d", "content": "c", "outcome": "success"}
ID = "01900000-0000-7000-8000-000000000003"
SEEN = {"kind": "explicit", "positive": True, "key": "ab" * 16, "rater": "a"}
TRACE = {"id": ID, "task": "t", "outcome": "mixed", "trajectory": [], "metadata": {}}
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]


@requirement("SEC-3")
@pytest.mark.parametrize(
    "bad",
    [
        event("memory.recorded", {}),
        event("memory.recorded", {"lesson": LESSON | {"title": 5}}),
        event("memory.recorded", {"lesson": LESSON | {"title": " "}}),
        event("memory.recorded", {"lesson": LESSON | {"title": "a\0b"}}),
        event("memory.recorded", {"lesson": LESSON | {"content": "x" * 100_000}}),
        event("memory.recorded", {"lesson": LESSON | {"outcome": "great"}}),
        event("memory.recorded", {"lesson": LESSON | {"tags": [5]}}),
        event("memory.recorded", {"lesson": LESSON | {"tags": ["t"] * 40}}),
        event("memory.recorded", {"lesson": LESSON | {"scope": "world"}}),
        event("memory.recorded", {"lesson": LESSON | {"error_context": {"error_type": "x"}}}),
        event("memory.recorded", {"lesson": LESSON | {"surprise": 1}}),
        event("memory.recorded", {"lesson": [1]}),
        event("memory.recorded", {"lesson": LESSON, "stage": 1 << 80}),
        event("memory.recorded", {"lesson": LESSON, "stage": "high"}),
        event("memory.recorded", {"lesson": LESSON, "created_at": 1 << 70}),
        event("memory.recorded", {"lesson": LESSON}, subject="not an id"),
        event("memory.recorded", {"lesson": LESSON}, id="not an id"),
        event("memory.recorded", {"lesson": LESSON}, workspace="w" * 5000),
        event("memory.recorded", {"lesson": LESSON}, author="a\0b"),
        event("memory.recorded", {"lesson": LESSON, "more": DEEP}),
        event("memory.revised", {"changes": {"title": None}}),
        event("memory.revised", {"changes": {"workspace": "x"}}),
        event("memory.revised", {"changes": {"tags": "text"}}),
        event("memory.undone", {"to": "first"}),
        event("memory.used", {"ids": "abc"}),
        event("memory.used", {"ids": [5]}),
        event("evidence.observed", SEEN | {"kind": "rumour"}),
        event("evidence.observed", SEEN | {"positive": "yes"}),
        event("evidence.observed", SEEN | {"key": "xyz"}),
        event("evidence.observed", SEEN | {"comment": 5}),
        event("link.drawn", {"target": ID, "type": "friend", "strength": 1}),
        event("link.drawn", {"target": ID, "type": "similar", "strength": 7}),
        event("link.drawn", {"target": "x", "type": "similar", "strength": 1}),
        event("trace.stored", {"trace": {}, "at": 1}),
        event("trace.stored", {"trace": TRACE | {"task": 5}, "at": 1}),
        event("trace.stored", {"trace": TRACE | {"trajectory": [5]}, "at": 1}),
        event("trace.stored", {"trace": TRACE | {"surprise": 5}, "at": 1}),
        event("trace.stored", {"trace": TRACE, "at": "now"}),
        event("workspace.joined", {"path": 5, "team": "t", "org": "o"}),
        event("workspace.joined", {"path": "/p", "team": None, "org": "o"}),
        event("workspace.named", {"name": ["x"]}),
        event("workspace.deleted", {"ids": 7}),
        event("workspace.deleted", {}),
        event("world.ended", {}),
        event("memory.restored", {}, at=1 << 60),
        event("memory.restored", {}, at=-1),
        event("memory.restored", {}, at=1.5),
        event("memory.restored", []),
    ],
    ids=lambda e: f"{e['event']} {json.dumps(e['payload'])[:50]}",
)
def test_an_event_that_no_bank_could_have_written_is_refused(bank: Bank, bad: Any) -> None:
    header = json.loads(exported(bank).splitlines()[0])
    good = event("memory.recorded", {"lesson": LESSON}, id=ID, subject=ID)
    refused_whole(bank, io.StringIO(sealed([header, good, bad])))


@pytest.mark.parametrize("text", ["", "\n\n", "[]", "5", "{", "null\n", "\ud800", '{"format": 5}'])
def test_a_file_that_is_no_export_is_refused(bank: Bank, text: str) -> None:
    refused_whole(bank, io.StringIO(text))


def test_a_nested_line_is_refused(bank: Bank) -> None:
    refused_whole(bank, io.StringIO("[" * 100_000))


def test_plain_memories_are_taken_all_or_not_at_all(bank: Bank) -> None:
    good = json.dumps(LESSON)
    orphan = json.dumps(LESSON | {"parents": [ID]})
    with pytest.raises(ReasonBankError):
        imported(bank, f"{good}\n{orphan}\n")
    assert bank.statistics().memories == 0


def test_plain_memories_are_imported_once(bank: Bank) -> None:
    lines = "".join(json.dumps(LESSON | {"id": ID[:-1] + str(i)}) + "\n" for i in range(3))
    assert imported(bank, lines + lines).new == 3
    assert imported(bank, lines).new == 0
    assert bank.statistics().memories == 3

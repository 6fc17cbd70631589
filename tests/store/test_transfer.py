"""A bank as a file: out, in again, twice, in pieces, and damaged."""

import hashlib
import io
import json

import pytest
from tests.requirement import requirement

from reasonbank import Filter, Forgotten, InvalidInput, Memory, Scope, Source, State
from reasonbank.fields import plain
from reasonbank.ledger.events import encode
from reasonbank.model import Principal
from reasonbank.testing import a_memory, a_trace, a_warning

EVERYTHING = Filter(states=tuple(State))


def exported(bank, **options):
    file = io.StringIO()
    bank.export(file, **options)
    return file.getvalue()


def full(open_bank, clock):
    """A bank with something of everything; two workspaces."""
    bank = open_bank()
    root = bank.record(a_memory(title="root", tags=("a",), domain="d"))
    child = bank.record(a_warning(title="Kïnd 🙂\u2028", parents=(root.id,), scope=Scope.TEAM))
    merged = bank.record(a_memory(title="merged", source=Source.CONSOLIDATED))
    bank.update(root.id, content="better")
    bank.archive(merged.id)
    bank.link(root.id, child.id, type="causes", strength=0.5)
    bank.search("retry uploads", session="s")
    clock.advance(days=40)
    bank.outcome(root.id, succeeded=True, session="s")
    bank.feedback(child.id, helpful=False, comment="no")
    bank.store_trace(a_trace(memories_used=(root.id,), metadata={"model": "m"}))
    gone = bank.record(a_memory(title="gone"))
    bank.forget(gone.id)
    other = bank.within(open_bank.project("other"))
    other.record(a_memory(title="elsewhere"))
    bank.name_workspace(other.view.workspace, "the other")
    bank.maintain()
    return bank


def portrait(bank, open_bank):
    """All that can be asked of a bank."""
    views = [bank.within(open_bank.project(name)) for name in ("project", "other")]
    result = []
    for view in views:
        memories = [view.get(m.id) for m in view.memories(EVERYTHING)]
        result.append(
            [
                sorted(memories, key=lambda m: m.id),
                sorted((view.history(m.id) for m in memories), key=lambda h: h[0].memory.id),
                sorted(str(view.evidence(m.id)) for m in memories),
                sorted(str(view.links(m.id)) for m in memories),
                sorted(str(view.genealogy(m.id)) for m in memories),
                view.traces(),
                view.statistics().evidence_weights,
            ]
        )
    return [*result, bank.workspaces(), bank.statistics(everywhere=True).forgotten]


@requirement("MEM-10")
def test_an_export_imported_into_an_empty_bank_gives_the_same_bank(open_bank, clock):
    bank = full(open_bank, clock)
    before = portrait(bank, open_bank)
    copy = open_bank("copy")
    result = copy.import_(io.StringIO(exported(bank)), trusted=True)
    assert result.new == result.events > 10
    assert portrait(copy, open_bank) == before
    assert exported(copy).splitlines()[1:-1] == exported(bank).splitlines()[1:-1]
    assert {h.memory.title for h in copy.search("retry uploads", limit=20)} == {
        h.memory.title for h in bank.search("retry uploads", limit=20)
    }


@requirement("MEM-10")
def test_importing_twice_changes_nothing(open_bank, clock):
    bank = full(open_bank, clock)
    file = exported(bank)
    copy = open_bank("copy")
    copy.import_(io.StringIO(file), trusted=True)
    before = portrait(copy, open_bank)
    for target in (copy, bank):
        assert target.import_(io.StringIO(file), trusted=True).new == 0
        assert portrait(target, open_bank) == before


@requirement("MEM-10")
@requirement("MEM-6")
def test_an_older_export_brings_back_nothing_that_was_forgotten_or_undone(open_bank):
    bank = open_bank()
    memory, kept = bank.record(a_memory(title="one")), bank.record(a_memory(title="two"))
    old = exported(bank)
    bank.forget(memory.id)
    bank.update(kept.id, title="three")
    copy = open_bank("copy")
    copy.import_(io.StringIO(exported(bank)), trusted=True)
    for target in (bank, copy):
        target.import_(io.StringIO(old), trusted=True)
        assert [m.title for m in target.memories()] == ["three"]
        with pytest.raises(Forgotten):
            target.get(memory.id)


@requirement("MEM-10")
def test_two_banks_that_import_each_other_become_equal(open_bank, clock):
    one = open_bank()
    memory = one.record(a_memory(title="shared", scope=Scope.ORG))
    two = open_bank("two")
    two.import_(io.StringIO(exported(one)), trusted=True)
    for i in range(3):
        clock.advance(days=1)
        one.outcome(memory.id, succeeded=True, session=f"one {i}")
        two.feedback(memory.id, helpful=False, session=f"two {i}")
        two.search("retry uploads", session="both")
        clock.advance(days=1)
        one.search("retry uploads", session="both")
    one.update(memory.id, title="renamed by one")
    clock.advance(days=1)
    two.update(memory.id, content="changed by two")
    from_one, from_two = exported(one), exported(two)
    one.import_(io.StringIO(from_two), trusted=True)
    two.import_(io.StringIO(from_one), trusted=True)
    assert one.get(memory.id) == two.get(memory.id)
    assert (one.get(memory.id).title, one.get(memory.id).content) == (
        "renamed by one", "changed by two",
    )  # fmt: skip
    assert one.history(memory.id) == two.history(memory.id)


@requirement("MEM-10")
def test_only_one_workspace_can_be_exported(open_bank, clock):
    bank = full(open_bank, clock)
    other = bank.within(open_bank.project("other"))
    copy = open_bank("copy", workspace=open_bank.project("other"))
    copy.import_(io.StringIO(exported(other, only_here=True)), trusted=True)
    assert [m.title for m in copy.memories()] == ["elsewhere"]
    assert [w.id for w in copy.workspaces()] == [other.view.workspace]


@requirement("MEM-10")
def test_markdown_shows_every_memory_to_a_person(open_bank, clock):
    bank = full(open_bank, clock)
    text = exported(bank, format="markdown")
    for memory in bank.memories(EVERYTHING):
        assert memory.id in text
        assert memory.content in text
    assert "**Warning: DeadlockDetected.**" in text
    assert "- state: archived" in text
    assert text.startswith("# Memories\n")
    with pytest.raises(InvalidInput, match="format"):
        exported(bank, format="yaml")


@requirement("SEC-1")
def test_markdown_says_what_nothing_has_confirmed_and_leaves_it_out_elsewhere(open_bank):
    bank = open_bank(principal=Principal.AGENT)
    kept = bank.record(a_memory(title="Kept"))
    text = exported(bank, format="markdown")
    assert kept.id in text and "- standing: untested" in text
    shared = bank.record(a_memory(title="Shared", scope=Scope.TEAM))
    elsewhere = bank.within(open_bank.project("elsewhere"))
    assert shared.id not in exported(elsewhere, format="markdown")
    assert shared.id in exported(bank, format="markdown")


def broken(file):
    lines = file.splitlines(keepends=True)
    half = len(lines) // 2
    return {
        "cut between lines": "".join(lines[:half]),
        "cut in a line": "".join(lines)[: len("".join(lines)) // 2],
        "without its end": "".join(lines[:-1]),
        "with a line removed": "".join(lines[:half] + lines[half + 1 :]),
        "with a word changed": file.replace("root", "ruin", 1),
        "of a newer version": file.replace('"version":2', '"version":3', 1),
        "empty": "",
        "of another kind": "%PDF-1.4\n",
        "a list": "[]\n",
    }


@requirement("MEM-10")
@pytest.mark.parametrize("damage", broken(""))
def test_a_damaged_file_is_refused_and_nothing_of_it_is_kept(open_bank, clock, damage):
    file = broken(exported(full(open_bank, clock)))[damage]
    copy = open_bank("copy")
    with pytest.raises(InvalidInput):
        copy.import_(io.StringIO(file), trusted=True)
    assert copy.statistics(everywhere=True).events == 0


def forged(lines):
    """A file whose sum is right, whatever it says."""
    text = "".join(encode(line) + "\n" for line in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text + encode({"end": True, "events": len(lines) - 1, "sha256": digest}) + "\n"


LESSONS = {
    "a title that is too long": {"title": "x" * 201},
    "a content that is too long": {"content": "x" * 40_000},
    "a blank description": {"description": " "},
    "an unknown outcome": {"outcome": "triumph"},
    "a NUL": {"content": "a\0b"},
    "tags that are no texts": {"tags": [{"deep": [[[]]]}]},
    "too many tags": {"tags": [str(i) for i in range(33)]},
    "an error context of its own": {"error_context": {"error_type": "E", "more": 1}},
}


@requirement("SEC-3")
@pytest.mark.parametrize("flaw", LESSONS)
def test_an_import_is_held_to_the_same_limits_as_a_caller(open_bank, flaw):
    bank = open_bank()
    bank.record(a_memory())
    *lines, _ = (json.loads(line) for line in exported(bank).splitlines())
    lines[-1]["payload"]["lesson"] |= LESSONS[flaw]
    copy = open_bank("copy")
    with pytest.raises(InvalidInput):
        copy.import_(io.StringIO(forged(lines)), trusted=True)
    assert copy.statistics(everywhere=True).events == 0


@requirement("SEC-3")
@pytest.mark.parametrize("strength", [7, "NaN", None])
def test_an_import_cannot_bring_a_link_that_no_caller_could_make(open_bank, strength):
    bank = open_bank()
    one, two = bank.record(a_memory()), bank.record(a_memory())
    bank.link(one.id, two.id, type="similar")
    *lines, _ = (json.loads(line) for line in exported(bank).splitlines())
    lines[-1]["payload"]["strength"] = strength
    with pytest.raises(InvalidInput):
        open_bank("copy").import_(io.StringIO(forged(lines)), trusted=True)


def test_plain_memories_are_imported_as_such_and_once(plain_bank):
    memories = [a_memory(title="one"), a_warning(title="two")]
    file = "\n".join(json.dumps(m.to_json()) for m in memories) + "\n"
    told = plain(plain_bank.import_(io.StringIO(file), trusted=True))
    [batch] = plain_bank.batches()
    assert told == {"memories": 2, "new": 2, "skipped": 0, "batch": batch.batch}
    assert {(m.title, m.source) for m in plain_bank.memories()} == {
        ("one", Source.IMPORTED), ("two", Source.IMPORTED),
    }  # fmt: skip
    assert plain_bank.get(memories[0].id).confidence == 0.5
    assert plain_bank.import_(io.StringIO(file), trusted=True).new == 0


@pytest.mark.parametrize(
    "second", [{"title": "no more than that"}, a_memory(parents=("0" * 32,)).to_json()],
    ids=["incomplete", "orphan"],
)  # fmt: skip
def test_plain_memories_are_imported_all_or_none(plain_bank, second):
    file = json.dumps(a_memory().to_json()) + "\n" + json.dumps(second) + "\n"
    with pytest.raises(Exception, match=r"line 2|parents") as refused:
        plain_bank.import_(io.StringIO(file), trusted=True)
    assert type(refused.value).__module__ == "reasonbank.errors"
    assert plain_bank.memories() == []


@requirement("MEM-3")
def test_what_record_and_search_give_can_be_imported_elsewhere(open_bank):
    bank = open_bank()
    memory = bank.record(a_warning(tags=("x",), domain="d"))
    line = json.dumps(bank.get(memory.id).to_json())
    copy = open_bank("copy")
    copy.import_(io.StringIO(line + "\n"), trusted=True)
    again = copy.get(memory.id)
    assert again.error_context == memory.error_context
    assert Memory.from_json(line) == bank.get(memory.id)


@requirement("MEM-10")
def test_plain_memories_are_imported_all_or_none_and_once(plain_bank):
    lesson = {"title": "Pin node", "description": "When CI drifts", "content": "Use .nvmrc.",
              "outcome": "success"}  # fmt: skip
    good = json.dumps(lesson) + "\n" + json.dumps(lesson | {"title": "Pin python"}) + "\n"
    orphan = json.dumps(lesson | {"parents": ["01900000-0000-7000-8000-00000000ffff"]}) + "\n"
    with pytest.raises(InvalidInput, match="line 3"):
        plain_bank.import_(io.StringIO(good + orphan), trusted=True)
    assert plain_bank.memories() == []
    assert plain_bank.import_(io.StringIO(good), trusted=True).new == 2
    assert plain(plain_bank.import_(io.StringIO(good), trusted=True)) == {
        "memories": 2,
        "new": 0,
        "skipped": 2,
    }
    assert {m.source for m in plain_bank.memories()} == {Source.IMPORTED}

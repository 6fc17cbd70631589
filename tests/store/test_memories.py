"""Record, get, update, forget; history and undo; traces and how long they are kept."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.requirement import requirement

from reasonbank import (
    ErrorContext,
    Filter,
    Forgotten,
    InvalidInput,
    NotFound,
    Outcome,
    Refused,
    Scope,
    Settings,
    Source,
    State,
)
from reasonbank.model import Step, from_micros, new_id
from reasonbank.settings import Embed
from reasonbank.testing import a_memory, a_trace, a_warning

SECRET = "zyzzyvas-in-the-attic"


def lesson_of(memory):
    """What the author wrote, without what the bank knows."""
    return replace(
        memory, confidence=None, workspace=None, author=None, created_at=None, stage=0
    )  # fmt: skip


@requirement("MEM-1")
@requirement("MEM-5")
def test_every_field_that_was_recorded_comes_back(plain_bank, clock):
    parent = plain_bank.record(a_memory())
    memory = a_warning(
        id=new_id(),
        title="Ünïcode title 🙂",
        content="two\nlines and a \t tab",
        parents=(parent.id,),
        tags=("sql", "locks"),
        difficulty="hard",
        domain="databases",
        task_type="bugfix",
        agent="claude",
        scope=Scope.TEAM,
        source=Source.DISTILLED,
        source_session="session-7",
        source_span=(2, 5),
        error_context=ErrorContext(
            error_type="DeadlockDetected",
            failure_pattern="opposite order",
            corrective_guidance="lock by id",
            error_message="ERROR: deadlock detected",
            stack_trace='File "worker.py", line 3',
            task_domain="databases",
        ),
    )
    stored = plain_bank.record(memory)
    assert lesson_of(stored) == memory
    assert plain_bank.get(memory.id) == stored
    assert stored.created_at - from_micros(clock.now) < timedelta(seconds=1)
    assert stored.last_used is None
    assert (stored.stage, stored.revision, stored.state) == (1, 1, State.ACTIVE)


@requirement("MEM-1")
@pytest.mark.parametrize(
    ("field", "value"),
    [(name, value) for name, kind in
     (("outcome", Outcome), ("scope", Scope), ("source", Source)) for value in kind],
)  # fmt: skip
def test_every_outcome_scope_and_source_is_kept(plain_bank, field, value):
    stored = plain_bank.record(a_memory(**{field: value}))
    assert getattr(plain_bank.get(stored.id), field) is value
    named = plain_bank.record(a_memory(**{field: str(value)}))
    assert getattr(named, field) is value


@requirement("MEM-1")
def test_a_memory_gets_an_id_and_knows_when_it_was_made_and_last_used(open_bank, clock):
    with open_bank() as bank:
        memory = bank.record(a_memory())
        clock.advance(days=2)
        bank.search("retry uploads")
    again = open_bank().get(memory.id)
    assert again.created_at == memory.created_at
    assert again.last_used == from_micros(clock.now)


@requirement("MEM-2")
@pytest.mark.parametrize("field", ["title", "description", "content", "outcome"])
@pytest.mark.parametrize("value", [None, "", " \n\t", 7, "x" * 50_000], ids=(
    lambda value: repr(value)[:8]))  # fmt: skip
def test_a_wrong_required_field_is_refused_by_name_and_nothing_is_stored(plain_bank, field, value):
    with pytest.raises(InvalidInput, match=field) as refused:
        plain_bank.record(a_memory(**{field: value}))
    assert refused.value.field == field
    assert plain_bank.memories() == []
    assert plain_bank.statistics().events == 0


@requirement("MEM-2")
def test_an_update_that_is_refused_changes_nothing(plain_bank):
    memory = plain_bank.record(a_memory())
    with pytest.raises(InvalidInput, match="title"):
        plain_bank.update(memory.id, title=" ", content="new")
    assert plain_bank.get(memory.id) == memory
    assert len(plain_bank.history(memory.id)) == 1


@pytest.mark.parametrize("field", ["scope", "source", "parents", "confidence", "nonsense"])
def test_what_cannot_be_changed_is_refused_by_name(plain_bank, field):
    memory = plain_bank.record(a_memory())
    with pytest.raises(InvalidInput, match=field):
        plain_bank.update(memory.id, **{field: "x"})


def test_the_bank_fills_in_what_only_it_knows(plain_bank):
    boast = a_memory(confidence=1.0, usage_count=99, stage=9, revision=9, author="root")
    stored = plain_bank.record(boast)
    assert (stored.confidence, stored.usage_count, stored.stage, stored.revision) == (0.8, 0, 0, 1)
    assert stored.author != "root"


def test_an_id_can_be_recorded_only_once(plain_bank):
    memory = plain_bank.record(a_memory())
    with pytest.raises(Refused, match="exists already"):
        plain_bank.record(memory)


@requirement("MEM-6")
def test_an_update_changes_what_it_names_and_keeps_the_rest(plain_bank):
    memory = plain_bank.record(a_memory(tags=("a",), domain="networks"))
    changed = plain_bank.update(memory.id, title="Better", tags=(), outcome="mixed")
    assert changed == replace(memory, title="Better", tags=(), outcome=Outcome.MIXED, revision=2)
    assert plain_bank.get(memory.id) == changed


@requirement("MEM-6")
def test_an_update_to_what_is_there_already_is_no_revision(plain_bank):
    memory = plain_bank.record(a_memory())
    assert plain_bank.update(memory.id, title=memory.title).revision == 1


@requirement("MEM-6")
def test_history_lists_every_revision_with_who_when_and_through_what(open_bank, clock):
    bank = open_bank(settings=Settings(author="ada", embed=Embed(model="hashed")))
    memory = bank.record(a_memory(title="One"))
    clock.advance(days=1)
    bank.update(memory.id, title="Two")
    bank.archive(memory.id)
    history = bank.history(memory.id)
    assert [(r.number, r.change, r.memory.title, r.memory.state) for r in history] == [
        (1, "recorded", "One", State.ACTIVE),
        (2, "revised", "Two", State.ACTIVE),
        (3, "archived", "Two", State.ARCHIVED),
    ]
    assert {(r.author, r.surface) for r in history} == {("ada", "library")}
    assert history[1].at == from_micros(clock.now)


@requirement("MEM-6")
def test_undo_steps_back_one_change_at_a_time(plain_bank):
    memory = plain_bank.record(a_memory(title="One"))
    plain_bank.update(memory.id, title="Two")
    plain_bank.update(memory.id, title="Three", content="other")
    assert plain_bank.undo(memory.id).title == "Two"
    back = plain_bank.undo(memory.id)
    assert (back.title, back.content) == ("One", memory.content)
    with pytest.raises(Refused, match="no change to undo"):
        plain_bank.undo(memory.id)


@requirement("MEM-6")
def test_undo_can_return_to_any_revision(plain_bank):
    memory = plain_bank.record(a_memory(title="One"))
    for title in ("Two", "Three", "Four"):
        plain_bank.update(memory.id, title=title)
    assert plain_bank.undo(memory.id, to=2).title == "Two"
    assert plain_bank.undo(memory.id, to=4).title == "Four"
    for wrong in (0, 7, -1, True):
        with pytest.raises(InvalidInput, match="to"):
            plain_bank.undo(memory.id, to=wrong)
    assert len(plain_bank.history(memory.id)) == 6


@requirement("MEM-6")
def test_a_return_to_a_revision_can_be_undone_like_any_change(plain_bank):
    memory = plain_bank.record(a_memory(title="One"))
    plain_bank.update(memory.id, title="Two")
    plain_bank.undo(memory.id, to=1)
    assert [plain_bank.undo(memory.id).title for _ in range(2)] == ["Two", "One"]
    with pytest.raises(Refused):
        plain_bank.undo(memory.id)


@requirement("MEM-6")
def test_an_update_after_undos_can_be_undone(plain_bank):
    memory = plain_bank.record(a_memory(title="One"))
    plain_bank.undo(memory.id, to=1)
    plain_bank.update(memory.id, title="Two")
    assert plain_bank.undo(memory.id).title == "One"


@requirement("MEM-6")
def test_undo_brings_an_archived_memory_back_to_search(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.archive(memory.id)
    assert not plain_bank.search("retry uploads").hits
    assert plain_bank.undo(memory.id).state is State.ACTIVE
    assert plain_bank.search("retry uploads")[0].memory.id == memory.id


def test_archiving_twice_or_restoring_what_is_active_changes_nothing(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.restore(memory.id)
    plain_bank.archive(memory.id)
    plain_bank.archive(memory.id)
    assert [r.change for r in plain_bank.history(memory.id)] == ["recorded", "archived"]
    assert plain_bank.restore(memory.id).state is State.ACTIVE


@requirement("MEM-6")
def test_what_was_forgotten_is_gone_from_every_answer(plain_bank):
    memory = plain_bank.record(a_memory())
    other = plain_bank.record(a_memory(title="Another"))
    plain_bank.link(memory.id, other.id, type="similar")
    plain_bank.forget(memory.id)
    for call in (plain_bank.get, plain_bank.history, plain_bank.evidence, plain_bank.undo,
                 plain_bank.links, plain_bank.genealogy, plain_bank.forget):  # fmt: skip
        with pytest.raises(Forgotten):
            call(memory.id)
    assert [m.id for m in plain_bank.memories()] == [other.id]
    assert [hit.memory.id for hit in plain_bank.search("retry uploads")] == [other.id]
    assert plain_bank.links(other.id) == []
    assert plain_bank.statistics().forgotten == 1


@requirement("MEM-6")
def test_what_was_forgotten_is_on_no_page_of_any_file(open_bank):
    bank = open_bank()
    for i in range(150):  # Enough that closing the bank writes an index file.
        bank.record(a_memory(title=f"Filler {i}"))
    memory = bank.record(a_memory(content=f"the {SECRET} says"))
    bank.update(memory.id, title=f"about {SECRET}")
    bank.feedback(memory.id, helpful=True, comment=f"{SECRET}!")
    bank.store_trace(a_trace(task=f"use the {SECRET} says", memories_used=(memory.id,)))
    bank.embed_new()
    bank.search(SECRET)
    bank.close()
    assert (open_bank.folder / "bank.db.hashed-384.index").exists()
    assert any(SECRET.encode() in f.read_bytes() for f in files(open_bank.folder))
    with open_bank() as again:
        again.forget(memory.id)
        assert not any(SECRET.encode() in f.read_bytes() for f in files(open_bank.folder))
        assert len(again.memories(limit=1000)) == 150
    assert not any(SECRET.encode() in f.read_bytes() for f in files(open_bank.folder))


def files(folder):
    return [path for path in folder.iterdir() if path.is_file()]


@requirement("MEM-6")
def test_nothing_brings_back_what_was_forgotten(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.forget(memory.id)
    with pytest.raises(Forgotten, match=memory.id):
        plain_bank.record(memory)
    plain_bank.rebuild()
    with pytest.raises(Forgotten):
        plain_bank.get(memory.id)
    assert plain_bank.memories() == []


def test_an_unknown_id_is_not_found(plain_bank):
    for call in (plain_bank.get, plain_bank.history, plain_bank.undo, plain_bank.forget):
        with pytest.raises(NotFound):
            call(new_id())


@requirement("MEM-7")
def test_a_trace_is_stored_whole(plain_bank, clock):
    used, learned = plain_bank.record(a_memory()), plain_bank.record(a_memory())
    parent = plain_bank.store_trace(a_trace())
    trace = a_trace(
        trajectory=(
            Step(iteration=1, action="think", content="Ünïcode\n", at=from_micros(clock.now)),
            Step(iteration=1, action="evaluate", score=0.25, feedback="no"),
        ),
        outcome=Outcome.FAILURE,
        final_score=0.25,
        memories_used=(used.id,),
        memories_learned=(learned.id,),
        metadata={"model": "m", "effort": "low", "matts": {"mode": "parallel", "k": 3},
                  "iterations": 1, "tokens": 120},
        parent=parent.id,
    )  # fmt: skip
    stored = plain_bank.store_trace(trace)
    assert replace(stored, created_at=None) == trace
    assert plain_bank.trace(trace.id) == stored
    assert [t.id for t in plain_bank.traces()] == [trace.id, parent.id]


@requirement("MEM-11")
def test_old_traces_are_purged_and_what_was_learned_from_them_stays(open_bank, clock):
    bank = open_bank()
    learned = bank.record(a_memory())
    old = bank.store_trace(a_trace(task=f"the {SECRET} task", memories_learned=(learned.id,)))
    elsewhere = bank.within(open_bank.project("other"))
    foreign = elsewhere.store_trace(a_trace())
    clock.advance(days=31)
    young = bank.store_trace(a_trace())
    assert bank.purge_traces(older_than_days=30) == 1
    assert [t.id for t in bank.traces()] == [young.id]
    with pytest.raises(NotFound):
        bank.trace(old.id)
    assert bank.get(learned.id).content == learned.content
    assert [t.id for t in elsewhere.traces()] == [foreign.id]
    assert not any(SECRET.encode() in f.read_bytes() for f in files(open_bank.folder))
    assert bank.purge_traces(older_than_days=30) == 0


@requirement("MEM-11")
def test_maintenance_purges_traces_when_the_settings_say_so(open_bank, clock):
    bank = open_bank(settings=Settings(trace_days=30, embed=Embed(model="hashed")))
    bank.store_trace(a_trace())
    clock.advance(days=29)
    assert bank.maintain().traces_purged == 0
    clock.advance(days=2)
    assert bank.maintain().traces_purged == 1
    assert bank.traces() == []


def test_by_default_traces_are_kept_for_good(plain_bank, clock):
    plain_bank.store_trace(a_trace())
    clock.advance(days=10_000)
    assert plain_bank.maintain().traces_purged == 0


def test_memories_are_listed_newest_first_and_by_filter(plain_bank):
    made = [plain_bank.record(a_memory(domain=d)) for d in ("x", "y", "x")]
    assert [m.id for m in plain_bank.memories()] == [m.id for m in reversed(made)]
    assert [m.id for m in plain_bank.memories(Filter(domain="x"))] == [made[2].id, made[0].id]
    assert len(plain_bank.memories(limit=2)) == 2

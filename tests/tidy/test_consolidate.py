"""Consolidation: what says the same becomes one memory, and can be taken apart again."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from tests.requirement import requirement
from tests.tidy.conftest import dough, merged, timeout

from reasonbank.embed.calibration import Nearness
from reasonbank.errors import Forgotten, InvalidInput, ModelUnavailable, NotFound, Refused
from reasonbank.ledger.port import Filter
from reasonbank.llm.layers import Repaired
from reasonbank.llm.port import ModelMeters
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Outcome, Scope, Source, State, new_id
from reasonbank.testing.builders import a_memory, a_warning
from reasonbank.tidy import consolidate
from reasonbank.tidy.merge import Member, confidence
from reasonbank.tidy.plan import plan

ANSWER = {
    "title": "Give every database query a timeout",
    "description": "When a service queries a database",
    "content": "Set a timeout on each database query, so that a slow query cannot hang the "
    "service, and log each timeout.",
    "tags": ["database", "timeout"],
    "outcome": "success",
    "attribution": "From three memories about timeouts of database queries.",
    "contradiction": "",
    "different": "",
}


def ids(memories):
    return {memory.id for memory in memories}


def states(bank, memories):
    return {bank.get(memory.id).state for memory in memories}


@requirement("CSL-4")
def test_sources_go_to_the_archive_with_all_their_fields_and_are_found_from_either_end(
    bank, timeouts, doughs
):
    result = merged(bank)
    assert len(result.created) == 2 and set(result.archived) == ids(timeouts + doughs)
    for source in timeouts:
        stored = bank.get(source.id)
        assert stored == replace(
            source, state=State.ARCHIVED, merged_into=stored.merged_into, revision=2
        )
        assert set(bank.get(stored.merged_into).parents) == ids(timeouts)
    assert [hit.memory.id for hit in bank.search("timeouts of database queries")] == [
        bank.get(timeouts[0].id).merged_into
    ]


@requirement("CSL-4", "MEM-6")
def test_undo_of_a_batch_restores_every_source(bank, timeouts, doughs):
    result = merged(bank)
    undone = bank.undo_batch(result.batch)
    assert set(undone.restored) == ids(timeouts + doughs)
    assert states(bank, timeouts + doughs) == {State.ACTIVE}
    assert all(bank.get(m.id).merged_into is None for m in timeouts)
    assert all(bank.get(id).state is State.ARCHIVED for id in result.created)
    with pytest.raises(Refused, match="undone already"):
        bank.undo_batch(result.batch)


@requirement("MEM-6")
def test_undo_of_a_merged_memory_takes_back_that_merge_only(bank, timeouts, doughs):
    merged(bank)
    bank.undo(bank.get(doughs[0].id).merged_into)
    assert states(bank, doughs) == {State.ACTIVE}
    assert states(bank, timeouts) == {State.ARCHIVED}


def test_what_was_undone_is_not_merged_again(bank, timeouts):
    bank.undo_batch(merged(bank).batch)
    again = merged(bank, force=True)
    assert again.created == [] and {s.reason for s in again.skipped} == {"their merge was undone"}


def test_undo_respects_what_happened_since(bank, timeouts):
    result = merged(bank)
    bank.restore(timeouts[0].id)
    bank.update(timeouts[0].id, title="Changed since")
    assert set(bank.undo_batch(result.batch).restored) == ids(timeouts[1:])
    assert bank.get(timeouts[0].id).title == "Changed since"


@requirement("MEM-6")
def test_a_forgotten_source_takes_along_what_was_made_of_it(bank, timeouts):
    first = merged(bank)
    more = bank.record(timeout(0, title="Set timeouts on all database queries"))
    second = merged(bank, force=True)
    assert first.created[0] in second.archived
    bank.forget(timeouts[1].id)
    for id in (timeouts[1].id, *first.created, *second.created):
        with pytest.raises(Forgotten):
            bank.get(id)
    left = [timeouts[0], timeouts[2], more]
    assert {m.id for m in bank.memories()} == ids(left), "the others are active again"
    assert bank.search("log each timeout of a query") and all(
        "Log each timeout" not in m.content for m in bank.memories(Filter(states=tuple(State)))
    )


def test_forgetting_a_merge_brings_its_sources_back(bank, timeouts):
    bank.forget(merged(bank).created[0])
    assert states(bank, timeouts) == {State.ACTIVE}
    assert all(bank.get(m.id).merged_into is None for m in timeouts)


def test_a_merge_that_was_merged_on_is_undone_from_the_end(bank, timeouts):
    first = merged(bank)
    bank.record(timeout(0, title="Set timeouts on all database queries"))
    second = merged(bank, force=True)
    assert first.created[0] in second.archived
    with pytest.raises(Refused, match="undo that merge first"):
        bank.undo_batch(first.batch)
    bank.undo_batch(second.batch)
    bank.undo_batch(first.batch)
    assert states(bank, timeouts) == {State.ACTIVE}


def test_a_batch_of_another_workspace_is_not_found(bank, timeouts, open_bank):
    result = merged(bank)
    with pytest.raises(NotFound):
        bank.within(open_bank.project("elsewhere")).undo_batch(result.batch)
    with pytest.raises(NotFound, match="batch"):
        bank.undo_batch(new_id())


@requirement("MEM-10")
def test_a_merge_survives_export_import_and_rebuild_and_can_be_undone_there(
    bank, timeouts, open_bank
):
    bank.feedback(timeouts[1].id, helpful=True)
    result = merged(bank)
    file = io.StringIO()
    bank.export(file)
    file.seek(0)
    other = open_bank("other", settings=bank.settings)
    other.import_(file, trusted=True)
    for copy in (bank, other):
        copy.rebuild()
        assert copy.get(result.created[0]) == bank.get(result.created[0])
        assert states(copy, timeouts) == {State.ARCHIVED}
    other.undo_batch(result.batch)
    assert states(other, timeouts) == {State.ACTIVE}


# Who decides what it says


@requirement("CSL-2")
def test_without_a_model_the_best_member_is_kept_and_the_others_points_are_added(bank, timeouts):
    for session in "abc":
        bank.outcome(timeouts[2].id, succeeded=True, session=session)
    memory = bank.get(merged(bank).created[0])
    assert memory.title == timeouts[2].title
    assert memory.content.startswith(timeouts[2].content)
    assert f"from “{timeouts[1].title}”:\n- Log each timeout." in memory.content
    assert timeouts[0].title not in memory.content, "it adds nothing"
    assert "Merged from 3 memories" in memory.description
    assert memory.source is Source.CONSOLIDATED


@requirement("CSL-2")
def test_a_model_writes_title_content_tags_outcome_and_attribution(bank, timeouts):
    model = Scripted([ANSWER])
    memory = bank.get(merged(bank, model=model).created[0])
    assert (memory.title, memory.content) == (ANSWER["title"], ANSWER["content"])
    assert memory.tags == ("database", "timeout") and memory.outcome is Outcome.SUCCESS
    assert memory.description.endswith(ANSWER["attribution"])
    asked = model.calls[0].messages[-1].content
    assert all(source.content in asked for source in timeouts)


BAD = {
    "an empty title": {"title": ""},
    "a blank title": {"title": "  "},
    "someone else's content": {
        "title": "Let the dough rest",
        "description": "When baking bread",
        "content": "Bread dough that rests in the fridge for a night tastes better.",
        "attribution": "From a cookbook.",
    },
    "an outcome that no source has": {"outcome": "failure"},
    "10,000 tags": {"tags": [f"tag-{n}" for n in range(10_000)]},
    "no content": {"content": None},
}


@requirement("CSL-2")
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_an_answer_that_is_bad_twice_skips_the_cluster_and_its_sources_stay(bank, timeouts, bad):
    inner = Scripted([ANSWER | bad, ANSWER | bad])
    result = merged(bank, model=Repaired(inner, meters=ModelMeters()))
    assert result.created == [] and len(inner.calls) == 2
    assert any(set(skip.ids) == ids(timeouts) and skip.reason for skip in result.skipped)
    assert states(bank, timeouts) == {State.ACTIVE}
    assert len(bank.memories(Filter(states=tuple(State)))) == 3


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_an_answer_that_is_bad_once_is_asked_for_again(bank, timeouts, bad):
    inner = Scripted([ANSWER | bad, ANSWER])
    result = merged(bank, model=Repaired(inner, meters=ModelMeters()))
    assert bank.get(result.created[0]).title == ANSWER["title"]


def test_a_model_that_is_down_leaves_all_as_it_was_and_is_asked_no_more(
    bank, timeouts, doughs, monkeypatch
):
    monkeypatch.setattr(consolidate, "AT_ONCE", 1)
    model = Scripted(lambda call: ModelUnavailable("busy"))
    result = merged(bank, model=model)
    assert result.created == [] and len(model.calls) == 1
    assert states(bank, timeouts + doughs) == {State.ACTIVE}


def test_a_contradiction_that_the_model_sees_is_linked_and_not_merged(bank, timeouts):
    model = Scripted([ANSWER | {"contradiction": "1 and 2 disagree about logging"}])
    result = merged(bank, model=model)
    assert result.created == [] and states(bank, timeouts) == {State.ACTIVE}
    assert {link.type for m in timeouts for link in bank.links(m.id)} >= {"contradicts"}


def test_what_the_model_calls_different_is_left_apart_without_a_link(bank, timeouts):
    result = merged(bank, model=Scripted([ANSWER | {"different": "minutes are not days"}]))
    assert result.created == [] and any("minutes" in s.reason for s in result.skipped)
    assert all(bank.contradicting(m.id) == [] for m in timeouts)


@requirement("CSL-8")
def test_ten_clusters_are_merged_at_a_time(plain_bank):
    import anyio

    for cluster in range(12):
        for _ in range(2):
            text = f"lesson{cluster} thing{cluster} matter{cluster}"
            plain_bank.record(a_memory(title=text, description=text, content=text))
    under_way: list[int] = []
    now = 0

    async def pause(_):
        nonlocal now
        now += 1
        under_way.append(now)
        await anyio.sleep(0.01)
        now -= 1

    def answer(call):
        told = call.messages[-1].content
        text = (
            next(line for line in told.splitlines() if "lesson" in line).split(": ")[-1].strip("| ")
        )
        return ANSWER | {"title": text, "description": text, "content": text, "attribution": text}

    result = merged(plain_bank, model=Scripted(answer, delay=0.01, sleep=pause))
    assert len(result.created) == 12, result.skipped
    assert max(under_way) == 10


# How far it is trusted


@requirement("CSL-3")
def test_confidence_is_the_mean_by_use_and_more_where_sources_agree():
    def source(trust, uses):
        return a_memory(confidence=trust, usage_count=uses)

    sources = [source(0.75, 10), source(0.82, 8), source(0.70, 15)]
    mean = (0.75 * 11 + 0.82 * 9 + 0.70 * 16) / 36
    assert mean < confidence(sources, hands=2) < mean + 0.1
    assert confidence([source(0.6, 0), source(0.6, 5)], hands=2) == pytest.approx(0.7)
    assert confidence([source(0.1, 0), source(0.9, 0)], hands=2) == pytest.approx(0.5)
    assert confidence([source(1.0, 0), source(1.0, 0)], hands=2) < 1, "evidence could not move it"
    assert confidence(sources, hands=1) == 0.70, "who repeats themselves does not agree"


@requirement("CSL-3")
def test_the_merged_memory_starts_there_and_evidence_moves_it(bank, timeouts):
    memory = bank.get(merged(bank).created[0])
    assert memory.confidence == pytest.approx(0.8)
    assert bank.feedback(memory.id, helpful=True).confidence > 0.8
    assert bank.feedback(memory.id, helpful=False, session="s").confidence < 0.8


@requirement("RET-4")
def test_a_merged_memory_ranks_higher_by_a_fifth(bank, timeouts):
    merged(bank)
    [hit] = bank.search("timeouts of database queries", explain=True)
    assert hit.parts["boost"] == pytest.approx(1.2)


# What is a cluster


@requirement("CSL-1", left="a threshold that fits API and ONNX models: all of them have 0.9")
def test_what_is_not_alike_is_left_alone(bank, timeouts):
    other = bank.record(dough(0))
    merged(bank)
    assert bank.get(other.id).state is State.ACTIVE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scope": Scope.TEAM}, "shared with different people"),
        ({"outcome": Outcome.FAILURE}, "contradict"),
        ({"domain": "cooking"}, "different domains"),
        ({"agent": "other"}, "different agents"),
        ({"source": Source.PEER}, "came from a peer"),
        ({"content": "Give every database query a timeout of 30 seconds."}, "numbers"),
        ({"title": "Never set timeouts on database queries"}, "contradict"),
    ],
)
def test_what_differs_in_kind_is_kept_apart_however_alike_it_reads(bank, change, reason):
    base = {"domain": "databases", "agent": "one"}
    content = "Give every database query a timeout of 5 seconds."
    one = bank.record(timeout(0, **base, **({"content": content} if "content" in change else {})))
    other = bank.record(timeout(0, **base | change))
    result = merged(bank)
    assert result.created == [] and states(bank, [one, other]) == {State.ACTIVE}
    assert any(reason in skip.reason for skip in result.skipped)


def test_warnings_of_one_error_are_merged_with_their_patterns(bank):
    one = bank.record(a_warning())
    other = bank.record(a_warning(failure_pattern="workers wait for each other's locks for ever"))
    bank.record(a_warning("OutOfMemory", "the heap grows until the kernel kills the worker"))
    result = merged(bank)
    assert set(result.archived) == {one.id, other.id}
    error = bank.get(result.created[0]).error_context
    assert error.error_type == "DeadlockDetected"
    assert "opposite order" in error.failure_pattern and "for ever" in error.failure_pattern


def test_shared_memories_of_another_project_are_left_to_it(bank, open_bank):
    elsewhere = bank.within(open_bank.project("elsewhere"))
    theirs = elsewhere.record(timeout(0, scope=Scope.TEAM))
    mine = bank.record(timeout(1, scope=Scope.TEAM))
    assert merged(bank).created == []
    assert states(bank, [theirs, mine]) == {State.ACTIVE}


def test_a_plan_is_pure_and_puts_the_surest_first():
    def members(*titles):
        return [
            Member(memory=a_memory(id=f"{n:08x}-0000-4000-8000-000000000000", title=title),
                   lower_bound=0.5)
            for n, title in enumerate(titles)
        ]  # fmt: skip

    turned = np.radians([0, 20, 90, 95], dtype=np.float32)
    vectors = np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)
    options = {"workspace": "here", "nearness": Nearness(same=0.9, sure=0.9, related=0.5)}
    found = plan(members("a", "b", "c", "d"), vectors, **options)
    assert found == plan(members("a", "b", "c", "d"), vectors, **options)
    assert [[m.memory.title for m in c.members] for c in found.clusters] == [["c", "d"], ["a", "b"]]
    [only] = plan(members("a", "b", "c", "d"), vectors, **options, max_clusters=1).clusters
    assert only == found.clusters[0]


# When, and how much


@requirement("CSL-5")
def test_a_dry_run_shows_the_plan_and_changes_nothing(bank, timeouts, doughs):
    before = io.StringIO()
    bank.export(before)
    result = merged(bank, dry_run=True)
    after = io.StringIO()
    bank.export(after)
    assert after.getvalue() == before.getvalue() and not bank.jobs()
    assert {frozenset(m.memory.id for m in c.members) for c in result.clusters} == {
        frozenset(ids(timeouts)), frozenset(ids(doughs))
    }  # fmt: skip
    assert set(merged(bank).created) == set(result.created), "what was planned is what is done"


@requirement("CSL-5")
def test_no_more_clusters_are_merged_than_were_asked_for(bank, timeouts, doughs):
    result = merged(bank, max_clusters=1)
    assert len(result.created) == 1
    assert any("limit" in skip.reason for skip in result.skipped)


@requirement("CSL-5")
def test_a_project_is_consolidated_once_in_24_hours_unless_it_is_forced(bank, clock, timeouts):
    merged(bank)
    again = [bank.record(dough(number)) for number in range(2)]
    assert "force" in merged(bank).message and states(bank, again) == {State.ACTIVE}
    assert len(merged(bank, force=True).created) == 1
    later = [bank.record(timeout(number)) for number in range(2)]
    clock.advance(days=1)
    assert set(merged(bank).archived) >= ids(later)


@requirement("CSL-5")
def test_the_window_of_one_project_is_not_that_of_another(bank, timeouts, open_bank):
    merged(bank)
    other = bank.within(open_bank.project("elsewhere"))
    for number in range(2):
        other.record(dough(number))
    assert len(merged(other).created) == 1


@requirement("CSL-6")
def test_the_result_has_created_archived_skipped_processed_and_seconds(bank, timeouts):
    bank.record(dough(0))
    result = merged(bank).to_json()
    assert len(result["created_memories"]) == 1
    assert set(result["archived_memories"]) == ids(timeouts)
    assert (result["skipped_count"], result["total_processed"]) == (1, 4)
    assert result["duration_seconds"] > 0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"max_clusters": -1}, "max_clusters"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(bank, timeouts, options, field):
    with pytest.raises(InvalidInput, match=field):
        bank.consolidate(**options)
    assert states(bank, timeouts) == {State.ACTIVE}


def test_an_empty_bank_has_nothing_to_merge(plain_bank):
    result = merged(plain_bank)
    assert result.created == [] and result.processed == 0


def test_a_threshold_decides_how_alike_they_must_be(bank, timeouts):
    assert merged(bank, threshold=0.999, dry_run=True).created == []
    assert len(merged(bank, threshold=0.5, dry_run=True).created) == 1

"""A sentence or a dictionary does wherever one of our nouns does, with the same checks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.requirement import requirement

from reasonbank import Filter, InvalidInput, Memory, Outcome, Trace

LESSON = {"title": "Retry uploads", "description": "When an upload breaks off",
          "content": "Wait longer each time.", "outcome": "success"}  # fmt: skip
SESSION = {"task": "make the tests pass",
           "trajectory": [{"iteration": 1, "action": "think", "content": "hm"}]}  # fmt: skip


@requirement("CLI-5")
def test_a_sentence_is_a_lesson(bank):
    stored = bank.record("Never retry a charge when it timed out.")
    assert (stored.title, stored.description, stored.outcome) == (
        "Never retry a charge when it timed out", "When it timed out", Outcome.FAILURE,
    )  # fmt: skip
    assert bank.get(stored.id) == stored
    assert bank.update(stored.id, title="Charges", outcome="mixed").title == "Charges"


@requirement("CLI-5")
def test_what_is_given_is_kept_as_it_is(bank):
    for name, value in LESSON.items():
        told = {"content": "Never do that."} | {name: value}
        assert getattr(bank.record(told), name) == value
    warned = bank.record({"content": "Use X", "error_context": {
        "error_type": "E", "failure_pattern": "p", "corrective_guidance": "g"}})  # fmt: skip
    assert warned.outcome is Outcome.FAILURE and warned.warning


@requirement("CLI-5")
def test_a_dictionary_is_as_good_as_a_memory(bank):
    told = LESSON | {"tags": ["a", "b"], "domain": "web"}
    stored = bank.record(told)
    known = Memory.from_json(told | {"id": stored.id})
    assert stored.to_json() | known.to_json() | {
        name: stored.to_json()[name]
        for name in ("confidence", "workspace", "author", "created_at")
    } == stored.to_json()  # fmt: skip


@requirement("CLI-5")
def test_a_dictionary_is_as_good_as_a_trace(bank):
    assert bank.trace(bank.store_trace(SESSION).id).to_json()["task"] == SESSION["task"]
    job = bank.distil(SESSION)
    assert bank.trace(job.subject).trajectory == Trace.from_json(SESSION).trajectory
    assert bank.distil_prepare(SESSION).ticket is not None


@requirement("CLI-5")
@pytest.mark.parametrize("day", ["2026-02-01", datetime(2026, 2, 1, tzinfo=UTC), 1769904000000000])
def test_a_dictionary_is_as_good_as_a_filter(bank, day):
    bank.record(LESSON)
    bank.record("Never retry uploads.")
    for told in ({"outcomes": ["failure"]}, {"outcomes": ("failure",), "created_after": day}):
        assert [m.outcome for m in bank.memories(told)] == ["failure"]
        assert [h.memory.outcome for h in bank.search("retry uploads", filter=told)] == ["failure"]
    assert bank.memories({"created_before": day}) == []
    assert bank.memories({}) == bank.memories(Filter())


@requirement("MEM-2")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "content: must not be blank"),
        (" \n", "content: must not be blank"),
        ({}, "content: is missing"),
        (LESSON | {"content": ""}, "content: must not be blank"),
        ({"content": "x", "title": " "}, "title: must not be blank"),
        ({"content": "x", "description": ""}, "description: must not be blank"),
        ({"content": "x", "outcome": ""}, "outcome: must be one of success, failure, mixed (got"),
        ({"content": "x", "title": None}, "title: is missing"),
        ({"content": "x" * 32_001}, "content: has 32,001 characters; at most 32,000"),
        ({"contnet": "x"}, "contnet: is not a field of a memory; did you mean content?"),
        ({"content": "x", "tag": []}, "tag: is not a field of a memory; did you mean tags?"),
        ({"content": 5}, "content: must be text, got int"),
        ({"content": "a\0b"}, "content: has a NUL character at 1"),
        (5, "memory: must be a Memory or an object or text, got int"),
    ],
)
def test_what_is_wrong_in_plain_words_is_refused_by_name(bank, given, words):
    with pytest.raises(InvalidInput) as refused:
        bank.record(given)
    assert str(refused.value).startswith(words)
    assert bank.memories() == []


def test_wrong_names_of_filters_and_traces_are_refused_with_the_right_one(bank):
    for call, words in {
        lambda: bank.search("x", filter={"outcome": ["failure"]}): "outcome: is not a field of a "
        "filter; did you mean outcomes?",
        lambda: bank.memories({"tags": "x"}): "tags: must be a list, got str",
        lambda: bank.memories({"created_after": "then"}): "created_after: 'then' is not an ISO",
        lambda: bank.distil(SESSION | {"steps": []}): "steps: is not a field of a trace",
        lambda: bank.store_trace({"tsak": "x"}): "tsak: is not a field of a trace; did you mean ta",
        lambda: bank.store_trace(
            {"task": "x", "trajectory": [{"iteration": 1, "acton": "x"}]}
        ): "trajectory.acton: is not a field of a step; did you mean action?",
    }.items():
        with pytest.raises(InvalidInput) as refused:
            call()
        assert str(refused.value).startswith(words), refused.value


@requirement("SEC-4")
def test_no_half_of_a_secret_is_left_where_a_title_was_cut(bank):
    secret = "ghp_" + "aB3dE5gH7jK9" * 3
    stored = bank.record(f"{'Set the variable of the deploy job ' * 2}to {secret} before a run")
    told = " ".join((stored.title, stored.description, stored.content))
    assert not any(secret[:n] in told for n in range(8, len(secret)))


@requirement("MEM-2")
def test_lowered_limits_hold_for_what_is_derived(open_bank):
    from reasonbank import Settings
    from reasonbank.fields import Limits
    from reasonbank.settings import Embed

    limits = Limits(title=20, description=20)
    bank = open_bank(settings=Settings(embed=Embed(model="hashed"), limits=limits))
    stored = bank.record("Restart the whole cluster when the leader has lost its lease twice")
    assert len(stored.title) <= 20 and len(stored.description) <= 20

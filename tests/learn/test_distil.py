"""What a model is asked about a session, and what its answer becomes."""

from __future__ import annotations

import re

import anyio
import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank import InvalidReply
from reasonbank.fence import prompt
from reasonbank.learn import distil, lessons
from reasonbank.learn.judge import Verdict, judge
from reasonbank.learn.transcript_text import account
from reasonbank.llm.reply import conforming
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Outcome, Source, Step, Trace
from reasonbank.testing.builders import a_memory, a_trace


def a_lesson(**overrides):
    lesson = {
        "title": "Retry uploads with back-off",
        "description": "When uploads fail now and then on a flaky network",
        "content": "Wait twice as long after each failure, with jitter, and give up after five.",
        "tags": ["network"],
        "first_step": 1,
        "last_step": 2,
    }
    return lesson | overrides


def a_warning(**overrides):
    return a_lesson(
        error_type="Overload", failure_pattern="503 after retries",
        corrective_guidance="wait longer each time",
    ) | overrides  # fmt: skip


def asked(model, trace, outcome):
    async def run():
        return distil.memories(await distil.distil(model, trace, outcome), trace, outcome)

    return anyio.run(run)


@requirement("DIS-3")
def test_the_judge_gives_outcome_score_and_reason():
    model = Scripted([{"outcome": "failure", "score": 20, "reason": "the tests fail"}])
    verdict = anyio.run(judge, model, a_trace(outcome=None))
    assert verdict == Verdict(
        outcome=Outcome.FAILURE, score=0.2, reason="the tests fail", by="judge"
    )
    assert model.calls[0].temperature == 0


def test_unsuccessful_is_not_success():
    model = Scripted([{"outcome": "unsuccessful", "score": 20, "reason": "-"}])
    with pytest.raises(InvalidReply, match="unsuccessful"):
        anyio.run(judge, model, a_trace(outcome=None))


@requirement("DIS-4")
def test_a_success_gives_strategies_with_their_origin():
    trace = a_trace()
    [memory] = asked(Scripted([{"memories": [a_lesson()]}]), trace, Outcome.SUCCESS)
    assert memory.outcome is Outcome.SUCCESS and memory.error_context is None
    assert memory.source is Source.DISTILLED and memory.source_session == trace.id
    assert memory.source_span == (1, 2)


@requirement("DIS-4")
@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.MIXED])
def test_a_failure_gives_warnings_with_error_context(outcome):
    [memory] = asked(Scripted([{"memories": [a_warning()]}]), a_trace(outcome=outcome), outcome)
    assert memory.outcome is Outcome.FAILURE
    assert memory.error_context.failure_pattern == "503 after retries"


@requirement("DIS-4")
def test_none_is_a_valid_answer():
    assert asked(Scripted([{"memories": []}]), a_trace(), Outcome.SUCCESS) == []


@requirement("DIS-4")
@pytest.mark.parametrize(
    "answer",
    [
        {"memories": [a_lesson()] * 4},
        {"memories": [a_lesson(title="")]},
        {"memories": [{"title": "only"}]},
        {"memories": [a_lesson(tags=["t"] * 6)]},
        {"memories": [a_lesson(tags=["x" * 10_000])]},
        {"memories": [a_lesson(author="admin")]},
        {"memories": "none"},
        {"lessons": []},
    ],
)
def test_what_breaks_the_schema_is_refused_whole(answer):
    with pytest.raises(InvalidReply):
        asked(Scripted([answer]), a_trace(), Outcome.SUCCESS)


def test_a_failure_without_a_sign_to_recognise_it_is_refused():
    with pytest.raises(InvalidReply):
        asked(Scripted([{"memories": [a_lesson()]}]), a_trace(), Outcome.FAILURE)


def test_a_span_outside_the_record_is_brought_into_it():
    answer = {"memories": [a_lesson(first_step=7, last_step=3)]}
    [memory] = asked(Scripted([answer]), a_trace(), Outcome.SUCCESS)
    assert memory.source_span == (2, 2)


@requirement("AGT-7")
def test_contrast_compares_attempts_and_keeps_at_most_five():
    attempts = [a_trace(), a_trace(outcome=Outcome.FAILURE)]
    strip = {"first_step", "last_step"}
    model = Scripted(
        [{"memories": [
            {k: v for k, v in a_lesson(outcome="success", attempts=[1]).items() if k not in strip},
            {k: v for k, v in a_warning(outcome="failure", attempts=[2]).items()
             if k not in strip},
        ]}]
    )  # fmt: skip
    strategy, warning = anyio.run(distil.contrast, model, attempts)
    assert strategy.outcome is Outcome.SUCCESS and warning.error_context.error_type == "Overload"
    told = model.calls[0].messages[-1].content
    assert re.search('<attempt-.* number="2" outcome="failure">', told)
    six = {"memories": [a_lesson(outcome="success", attempts=[1])] * 6}
    with pytest.raises(InvalidReply):
        conforming(six, distil.CONTRAST)


def test_what_was_recalled_is_not_told_again():
    recalled = a_memory(content="SECRET SAUCE").format_for_prompt()
    trace = Trace(
        task=f"{recalled}\nFix the build",
        trajectory=(Step(iteration=1, action="think", content=f"before {recalled} after"),),
    )
    told = prompt(*account(trace))
    assert "SECRET SAUCE" not in told and "before  after" in told


def test_an_account_keeps_its_beginning_and_its_end_within_the_budget():
    steps = tuple(Step(iteration=n, action=f"step-{n}", content="x" * 3000) for n in range(100))
    told = prompt(*account(Trace(task="long", trajectory=steps)))
    assert len(told) < 70_000
    assert "step-0" in told and "step-99" in told and "left out" in told


# Storing


def stored(bank, trace, memories, verdict=None):
    ready = lessons.prepare(bank.context, memories, trace)
    return bank.context.write(lambda txn: lessons.store(bank.context, txn, trace, ready, verdict))


@requirement("DIS-6")
def test_a_lesson_that_is_known_becomes_evidence_for_the_known_one(bank):
    known = bank.record(a_memory())
    trace = bank.store_trace(a_trace())
    result = stored(bank, trace, [a_memory(source=Source.DISTILLED)])
    assert (result.learned, result.confirmed) == ((), (known.id,))
    assert bank.get(known.id).confidence > known.confidence
    assert len(bank.memories()) == 1
    assert bank.evidence(known.id)[0].session == trace.id


@requirement("DIS-6")
def test_a_session_that_says_the_same_twice_gives_one_memory(bank):
    trace = bank.store_trace(a_trace())
    said = [a_memory(source=Source.DISTILLED), a_memory(source=Source.DISTILLED, tags=("other",))]
    assert len(stored(bank, trace, said).learned) == 1


def test_a_lesson_is_embedded_once(bank):
    trace = bank.store_trace(a_trace())
    [id] = stored(bank, trace, [a_memory(source=Source.DISTILLED)]).learned
    assert bank.embed_new() == 0
    assert bank.search(a_memory().title)[0].memory.id == id


@requirement("DIS-6")
def test_what_only_sounds_alike_is_stored(bank):
    bank.record(a_memory())
    trace = bank.store_trace(a_trace())
    other = a_memory(
        title="Wait for the port before asking", outcome=Outcome.FAILURE,
        description="When a web page is rendered in a browser test",
        content="Waiting for the port is not enough: the page must say that it is ready.",
    )  # fmt: skip
    assert len(stored(bank, trace, [other]).learned) == 1


def test_the_same_session_stored_twice_adds_nothing(plain_bank):
    trace = plain_bank.store_trace(a_trace())
    first = stored(plain_bank, trace, [a_memory()])
    again = stored(plain_bank, trace, [a_memory()])
    assert len(first.learned) == 1 and again.learned == ()
    assert len(plain_bank.memories()) == 1


def test_a_lesson_that_was_forgotten_does_not_come_back(plain_bank):
    trace = plain_bank.store_trace(a_trace())
    [id] = stored(plain_bank, trace, [a_memory()]).learned
    plain_bank.forget(id)
    assert stored(plain_bank, trace, [a_memory()]).learned == ()


def test_an_echo_is_no_second_witness(bank):
    known = bank.record(a_memory())
    trace = bank.store_trace(a_trace(memories_used=(known.id,)))
    stored(bank, trace, [a_memory()])
    assert bank.get(known.id).confidence == known.confidence


@requirement("CON-2")
def test_the_memories_that_a_session_used_get_its_outcome(plain_bank):
    helped, other = plain_bank.record(a_memory()), plain_bank.record(a_memory())
    trace = plain_bank.store_trace(a_trace(memories_used=(helped.id,)))
    stored(plain_bank, trace, [], Verdict(outcome=Outcome.FAILURE, by="tests"))
    assert plain_bank.get(helped.id).confidence < helped.confidence
    assert plain_bank.get(other.id).confidence == other.confidence


def test_a_mixed_outcome_neither_credits_nor_blames(plain_bank):
    used = plain_bank.record(a_memory())
    trace = plain_bank.store_trace(a_trace(memories_used=(used.id,)))
    stored(plain_bank, trace, [], Verdict(outcome=Outcome.MIXED, by="judge"))
    assert plain_bank.get(used.id).confidence == used.confidence


@requirement("DIS-6")
@pytest.mark.parametrize(("model", "learned"), [("reasonbank-minilm-1", 0), ("hashed-384", 1)])
def test_how_near_a_known_lesson_is_depends_on_the_model(open_bank, model, learned):
    """A cosine of 0.94 is much by the scale of one, and little by that of the other."""
    bank = open_bank.with_embedder(Fragile(model))
    bank.record(a_memory())
    trace = bank.store_trace(a_trace())
    near = a_memory(content=a_memory().content + " Then tell the caller.")
    assert len(stored(bank, trace, [near]).learned) == learned
    assert len(stored(bank, bank.store_trace(a_trace()), [near]).learned) == 0


@requirement("RET-19")
def test_a_lesson_with_another_value_is_learned_and_confirms_nothing(bank):
    said = {"title": "Feature store port", "description": "When calling the feature store"}
    was, now = (
        a_memory(content=f"The feature store service listens on port {port}.", **said)
        for port in (6566, 6570)
    )
    known = bank.record(was)
    found = stored(bank, bank.store_trace(a_trace()), [now])
    assert len(found.learned) == 1 and not found.confirmed
    assert bank.get(known.id).confidence == known.confidence


@requirement("RET-19")
def test_a_session_that_states_two_values_teaches_both(bank):
    told = [
        a_memory(title="Port", content=f"The gateway listens on port {port}.")
        for port in (80, 8080)
    ]
    assert len(stored(bank, bank.store_trace(a_trace()), told).learned) == 2

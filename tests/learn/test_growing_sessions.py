"""A session that goes on is learned from again: its new part only, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from tests.learn.test_distil import a_lesson
from tests.requirement import requirement

from reasonbank.jobs.learner import tasks
from reasonbank.jobs.worker import Worker
from reasonbank.llm.excerpt import excerpt
from reasonbank.llm.scripted import Scripted
from reasonbank.model import JobState, Outcome, State, Step, Trace, derived_id


def command(number, text, exit_code, output=""):
    return Step(
        iteration=number, action="command", content=text,
        feedback=f"exit code {exit_code}\n{output}",
    )  # fmt: skip


def mended(start, module):
    """A test that fails, and what put it right."""
    return (
        command(start, "pytest -q", 1, f"E   ModuleNotFoundError: No module named '{module}'"),
        command(start + 1, f"pip install {module}", 0),
        command(start + 2, "pytest -q", 0, "3 passed in 0.1s"),
    )


FIRST = Trace(
    id=derived_id("a session"), task="make the tests pass", trajectory=mended(1, "requests")
)
GROWN = replace(FIRST, trajectory=(*FIRST.trajectory, *mended(4, "numpy")))


def learn(bank, trace, model=None):
    handed, learned = bank.distil(trace), []

    async def work():
        worker = Worker(bank.context, tasks(model))
        worker.finished = lambda work: learned.extend(work.learned)
        worker.failed = lambda job, reason: pytest.fail(reason)
        await worker.run(until_empty=True)

    anyio.run(work)
    return handed, [bank.get(id) for id in learned]


@requirement("DIS-8")
def test_of_a_session_that_has_grown_the_new_part_is_learned(plain_bank):
    _, [first] = learn(plain_bank, FIRST)
    handed, [second] = learn(plain_bank, GROWN)
    assert handed.new_steps == 3
    assert "requests" in first.content and "numpy" in second.content
    assert second.source_span == (4, 6) and second.source_session == FIRST.id
    [trace] = plain_bank.traces()
    assert trace.trajectory == GROWN.trajectory, "extended, not doubled"
    assert trace.memories_learned == (first.id, second.id)
    assert plain_bank.evidence(first.id) == [], "a session is no witness of itself"
    assert len(plain_bank.jobs()) == 1


@requirement("DIS-8")
def test_the_same_session_again_teaches_nothing_and_that_is_said(plain_bank):
    learn(plain_bank, GROWN)
    for again in (GROWN, FIRST):
        handed, learned = learn(plain_bank, again)
        assert (handed.new_steps, learned) == (0, [])
        assert "nothing is new" in handed.message
    assert plain_bank.traces()[0].trajectory == GROWN.trajectory
    assert len(plain_bank.memories()) == 2


@requirement("DIS-8")
def test_a_failure_of_the_old_part_that_the_new_part_puts_right_is_one_lesson(plain_bank):
    broken = replace(FIRST, trajectory=FIRST.trajectory[:1])
    _, [warning] = learn(plain_bank, broken)
    assert warning.outcome is Outcome.FAILURE
    _, [lesson] = learn(plain_bank, FIRST)
    assert [memory.id for memory in plain_bank.memories()] == [lesson.id]
    assert plain_bank.get(warning.id).state is State.ARCHIVED, "it was put right"
    assert lesson.source_span == (1, 3), "the earlier steps are its context"
    trace = plain_bank.trace(FIRST.id)
    assert trace.outcome is Outcome.SUCCESS, "how it ended, not how it stood half-way"


@requirement("DIS-8")
def test_a_session_that_grows_before_it_is_learned_from_is_learned_from_once(plain_bank):
    plain_bank.distil(FIRST)
    _, learned = learn(plain_bank, GROWN)
    assert len(learned) == 2
    assert [job.attempts for job in plain_bank.jobs()] == [1]


@requirement("DIS-8")
def test_a_session_that_grows_while_it_is_learned_from_is_queued_for_the_rest(plain_bank):
    seen = []

    def answer(call):
        seen.append(str(call.messages))
        if len(seen) == 1:
            assert plain_bank.distil(GROWN).state is JobState.RUNNING
        word = ("requests", "numpy")[len(seen) - 1]
        number = 3 * len(seen)
        return {"memories": [a_lesson(title=f"Install {word}", content=f"{word} is missing here",
                                      first_step=number - 2, last_step=number)]}  # fmt: skip

    _, learned = learn(plain_bank, FIRST, Scripted(answer))
    assert [memory.title for memory in learned] == ["Install requests", "Install numpy"]
    assert len(seen) == 2 and "numpy" not in seen[0]
    assert plain_bank.jobs()[0].state is JobState.DONE


@requirement("DIS-8")
def test_a_model_is_shown_the_new_part_with_a_little_of_the_old(plain_bank):
    model = Scripted([{"memories": []}, {"memories": [
        a_lesson(title="Known", first_step=1, last_step=2),
        a_lesson(title="New", content="Something else entirely.", first_step=14, last_step=15),
    ]}])  # fmt: skip
    long = tuple(command(n, f"make part{n}", 0, "ok") for n in range(1, 16))
    session = replace(FIRST, trajectory=long[:13], outcome=Outcome.SUCCESS)
    learn(plain_bank, session, model)
    _, learned = learn(plain_bank, replace(session, trajectory=long), model)
    asked = str(model.calls[1].messages)
    assert "make part15" in asked and "make part4\\n" in asked and "make part3\\n" not in asked
    assert "steps up to 13" in asked
    assert [memory.title for memory in learned] == ["New"], "what the old part taught is known"


@requirement("DIS-8")
@pytest.mark.parametrize("kept", [6, 3])
def test_a_rewritten_session_is_learned_from_where_it_was_left(plain_bank, kept):
    learn(plain_bank, GROWN)
    summary = Step(iteration=1, action="user", content="In short: two packages were missing.")
    compacted = replace(
        GROWN, trajectory=(summary, *GROWN.trajectory[-kept:], *mended(9, "werkzeug"))
    )
    handed, [memory] = learn(plain_bank, compacted)
    assert handed.new_steps == 3 and "werkzeug" in memory.content
    assert plain_bank.trace(FIRST.id).trajectory == compacted.trajectory
    assert "nothing is new" in plain_bank.distil(compacted).message


def test_steps_that_the_user_took_back_are_replaced(plain_bank):
    learn(plain_bank, GROWN)
    other = replace(FIRST, trajectory=(*FIRST.trajectory, *mended(4, "werkzeug")))
    handed, [memory] = learn(plain_bank, other)
    assert handed.new_steps == 3 and "werkzeug" in memory.content
    assert plain_bank.trace(FIRST.id).trajectory == other.trajectory


def test_a_session_that_repeats_itself_after_a_rewrite_stores_nothing_twice(plain_bank):
    learn(plain_bank, FIRST)
    summary = Step(iteration=1, action="user", content="In short: nothing.")
    _, learned = learn(
        plain_bank,
        replace(FIRST, trajectory=(summary, FIRST.trajectory[0], *mended(3, "requests"))),
    )
    assert learned == [] and len(plain_bank.memories()) == 1
    assert plain_bank.evidence(plain_bank.memories()[0].id) == []


def test_what_was_forgotten_or_cut_does_not_make_a_session_new(plain_bank):
    long = command(4, "make", 0, "x" * 500)
    _, [memory] = learn(plain_bank, replace(FIRST, trajectory=(*FIRST.trajectory, long)))
    plain_bank.forget(memory.id)
    shorter = replace(long, feedback=excerpt(long.feedback, 200, head=0.25))
    handed, learned = learn(
        plain_bank, replace(GROWN, trajectory=(*FIRST.trajectory, shorter, *mended(5, "numpy")))
    )
    assert handed.new_steps == 3 and len(learned) == 1
    assert len(plain_bank.memories()) == 1


def test_a_grown_session_survives_a_rebuild_and_an_export(plain_bank, open_bank, tmp_path):
    learn(plain_bank, FIRST)
    learn(plain_bank, GROWN)
    before = plain_bank.trace(FIRST.id)
    plain_bank.rebuild()
    assert plain_bank.trace(FIRST.id) == before
    with open(tmp_path / "bank.jsonl", "w") as file:
        plain_bank.export(file)
    other = open_bank("other")
    with open(tmp_path / "bank.jsonl") as file:
        other.import_(file, trusted=True)
    assert other.trace(FIRST.id) == before
    assert "nothing is new" in other.distil(GROWN).message


def test_a_purged_session_is_learned_from_as_if_it_were_new(plain_bank, clock):
    learn(plain_bank, FIRST)
    clock.advance(days=2)
    plain_bank.purge_traces(older_than_days=1)
    handed, _ = learn(plain_bank, GROWN)
    assert handed.new_steps == 6
    assert plain_bank.trace(FIRST.id).trajectory == GROWN.trajectory

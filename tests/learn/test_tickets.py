"""The agent that calls does the thinking: a prompt and a ticket out, an answer in."""

import pytest
from tests.learn.test_distil import a_lesson, a_warning
from tests.requirement import requirement

from reasonbank.errors import InvalidInput, LeaseLost, NotFound, Refused
from reasonbank.learn import tickets
from reasonbank.model import JobState, Outcome, Step
from reasonbank.testing.builders import a_trace


def an_answer(*lessons, **said):
    return {"memories": list(lessons)} | said


STRATEGY = a_lesson(outcome="success")
WARNING = a_warning(outcome="failure")


@requirement("DIS-9")
def test_a_prompt_and_a_ticket_go_out_and_an_answer_comes_in(plain_bank):
    trace = a_trace(outcome=None)
    given = tickets.prepare(plain_bank.context, trace)
    assert trace.task in given.prompt and given.trace_id == trace.id
    answer = an_answer(STRATEGY, WARNING, outcome="success", score=0.9, reason="tests pass")
    result = tickets.submit(plain_bank.context, given.ticket, answer)
    assert len(result.learned) == 2
    first, second = (plain_bank.get(id) for id in result.learned)
    assert first.source_session == trace.id and second.error_context is not None
    after = plain_bank.trace(trace.id)
    assert after.outcome is Outcome.SUCCESS and after.metadata["judged"]["by"] == "agent"
    assert plain_bank.jobs()[0].state is JobState.DONE


@requirement("DIS-3")
def test_what_ran_outranks_what_the_agent_says_of_its_own_work(plain_bank):
    ran = Step(iteration=1, action="command", content="pytest", feedback="exit code 1\n1 failed")
    trace = a_trace(outcome=None, trajectory=(ran,))
    given = tickets.prepare(plain_bank.context, trace)
    claim = an_answer(outcome="success", score=1.0, reason="all tests passed")
    tickets.submit(plain_bank.context, given.ticket, claim)
    assert plain_bank.trace(trace.id).outcome is Outcome.FAILURE


def test_without_a_session_the_oldest_that_waits_is_handed_out(plain_bank, clock):
    first = plain_bank.distil(a_trace())
    clock.now += 1
    plain_bank.distil(a_trace())
    assert tickets.prepare(plain_bank.context).trace_id == first.subject


@requirement("DIS-9")
def test_a_session_whose_ticket_was_lost_is_handed_out_again(plain_bank, clock):
    first = tickets.prepare(plain_bank.context, a_trace())
    assert tickets.prepare(plain_bank.context).ticket is None
    clock.advance(days=0.1)
    again = tickets.prepare(plain_bank.context)
    assert again.trace_id == first.trace_id and again.ticket != first.ticket


def test_when_nothing_waits_there_is_no_ticket(plain_bank):
    assert tickets.prepare(plain_bank.context).ticket is None


def test_handing_in_twice_changes_nothing(plain_bank):
    given = tickets.prepare(plain_bank.context, a_trace())
    first = tickets.submit(plain_bank.context, given.ticket, an_answer(STRATEGY))
    again = tickets.submit(plain_bank.context, given.ticket, an_answer(WARNING))
    assert again.replayed and again.learned == first.learned
    assert len(plain_bank.memories()) == 1


@pytest.mark.parametrize(
    "answer",
    [{}, [], "none", {"memories": [{}]}, {"memories": [STRATEGY] * 4},
     {"memories": [], "outcome": "unsuccessful"}, {"memories": [], "surprise": 1}],
)  # fmt: skip
def test_a_bad_answer_is_refused_with_what_is_wrong_and_the_ticket_stays_good(plain_bank, answer):
    given = tickets.prepare(plain_bank.context, a_trace())
    with pytest.raises(InvalidInput, match="answer"):
        tickets.submit(plain_bank.context, given.ticket, answer)
    assert plain_bank.memories() == []
    assert tickets.submit(plain_bank.context, given.ticket, an_answer(STRATEGY)).learned


def test_a_ticket_is_worth_nothing_in_another_workspace(open_bank):
    here, there = open_bank(), open_bank(workspace=open_bank.project("other"))
    given = tickets.prepare(here.context, a_trace())
    with pytest.raises(NotFound):
        tickets.submit(there.context, given.ticket, an_answer(STRATEGY))
    assert there.memories() == []


def test_a_ticket_that_ran_out_is_refused_once_somebody_else_has_the_session(plain_bank, clock):
    trace = a_trace()
    old = tickets.prepare(plain_bank.context, trace)
    clock.now += tickets.HELD
    new = tickets.prepare(plain_bank.context, trace)
    with pytest.raises(LeaseLost, match="ask for a new one"):
        tickets.submit(plain_bank.context, old.ticket, an_answer(WARNING))
    assert tickets.submit(plain_bank.context, new.ticket, an_answer(STRATEGY)).learned


@pytest.mark.parametrize("ticket", ["", "x", "..", "{id}", "{id}.", "{id}.guess", "{id}.ünïcode"])
def test_a_guessed_ticket_is_refused(plain_bank, ticket):
    tickets.prepare(plain_bank.context, a_trace())
    ticket = ticket.replace("{id}", plain_bank.jobs()[0].id)
    with pytest.raises((InvalidInput, LeaseLost)):
        tickets.submit(plain_bank.context, ticket, an_answer(STRATEGY))


def test_a_session_is_learned_from_once(plain_bank):
    trace = a_trace()
    given = tickets.prepare(plain_bank.context, trace)
    with pytest.raises(Refused, match="once"):
        tickets.prepare(plain_bank.context, trace)
    tickets.submit(plain_bank.context, given.ticket, an_answer())
    with pytest.raises(Refused, match="done"):
        tickets.prepare(plain_bank.context, trace)


def test_the_callers_word_outranks_what_the_agent_says(plain_bank):
    trace = a_trace(outcome=Outcome.FAILURE)
    given = tickets.prepare(plain_bank.context, trace)
    tickets.submit(plain_bank.context, given.ticket, an_answer(outcome="success"))
    assert plain_bank.trace(trace.id).outcome is Outcome.FAILURE

"""Links that nobody drew: similar, analogous, used together; and what contradicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.requirement import requirement
from tests.tidy.conftest import dough, merged, timeout

from reasonbank.ledger.port import Filter
from reasonbank.model import ErrorContext, LinkType, Outcome, Scope, State, new_id
from reasonbank.testing.builders import a_memory, a_warning
from reasonbank.tidy import causes

NEVER = {
    "title": "Never set timeouts on database queries",
    "content": "Do not give every database query a timeout: long reports are cut off.",
}


def types(bank, *memories):
    return {link.type for memory in memories for link in bank.links(memory.id)}


def link(bank, one, other):
    [found] = [x for x in bank.links(one.id) if other.id in (x.source, x.target)]
    return found


@pytest.fixture
def disputed(bank):
    return bank.record(timeout(0)), bank.record(timeout(1, **NEVER))


@requirement("GEN-4")
@pytest.mark.parametrize(
    "against", [NEVER, {"outcome": Outcome.FAILURE}], ids=["advice", "outcome"]
)
def test_what_contradicts_is_linked_and_never_merged(bank, against):
    one = bank.record(timeout(0))
    other = bank.record(timeout(0, **against))
    assert merged(bank).created == []
    assert link(bank, one, other).type is LinkType.CONTRADICTS
    assert 0.65 <= link(bank, one, other).strength <= 1


@requirement("GEN-4")
def test_whoever_finds_one_side_sees_the_other_beside_it(bank, disputed):
    one, other = disputed
    for number in range(3):
        bank.record(timeout(2, title=f"Database queries need timeouts, case {number}"))
    merged(bank)
    reply = bank.search("Set timeouts on database queries", limit=5)
    found = [hit.memory.id for hit in reply]
    ours = [bank.get(id).merged_into or id for id in (one.id, other.id)]
    places = sorted(found.index(id) for id in ours)
    assert places[1] - places[0] == 1
    assert {id for hit in reply for id in hit.contradicts} == set(ours)
    first = bank.search("Set timeouts on database queries", limit=1)
    assert len(first) == 2 and first[1].via == first[0].memory.id, "beyond the limit if need be"


@requirement("GEN-4")
def test_evidence_settles_it(bank, disputed):
    one, other = disputed
    merged(bank)
    for session in range(30):
        bank.outcome(other.id, succeeded=False, session=str(session))
        bank.outcome(one.id, succeeded=True, session=str(session))
    reply = bank.search("timeouts on database queries", min_confidence=0.5)
    assert [hit.memory.id for hit in reply] == [one.id]
    assert reply[0].contradicts == (other.id,), "it is still told of"
    assert [m.id for m in bank.contradicting(one.id)] == [other.id]


def test_a_filter_holds_for_the_other_side_too(bank):
    one = bank.record(timeout(0))
    other = bank.record(timeout(0, outcome=Outcome.FAILURE))
    merged(bank)
    reply = bank.search("timeouts on queries", filter=Filter(outcomes=(Outcome.SUCCESS,)))
    assert [hit.memory.id for hit in reply] == [one.id]
    bank.archive(other.id)
    assert bank.search("timeouts on queries")[0].contradicts == ()


def test_the_other_side_is_not_shown_to_those_who_may_not_see_it(bank, open_bank):
    shared = bank.record(timeout(0, scope=Scope.TEAM))
    hidden = bank.record(timeout(1, **NEVER))
    bank.link(shared.id, hidden.id, type="contradicts")
    other = bank.within(open_bank.project("elsewhere"))
    [hit] = other.search("timeouts on database queries")
    assert hit.contradicts == () and other.contradicting(shared.id) == []


@requirement("GEN-3")
def test_similar_memories_are_linked_as_far_as_they_are_alike(bank):
    one = bank.record(timeout(0))
    other = bank.record(
        a_memory(
            title="Set timeouts on web requests",
            description="When calling a web service",
            content="Give every web request a timeout, so that a slow server cannot hang you.",
        )
    )
    bank.record(dough(0))
    merged(bank)
    found = link(bank, one, other)
    assert found.type is LinkType.SIMILAR and 0.65 <= found.strength < 0.8


@requirement("GEN-3")
def test_what_is_alike_in_two_domains_is_an_analogy(bank):
    one = bank.record(timeout(0, domain="databases"))
    other = bank.record(timeout(2, domain="billing"))
    assert merged(bank).created == []
    assert link(bank, one, other).type is LinkType.ANALOGY


@requirement("GEN-3")
def test_what_came_up_in_the_same_sessions_is_linked_by_how_often(bank):
    one, other = bank.record(timeout(0)), bank.record(dough(0))
    for session in "abcd":
        bank.outcome(one.id, succeeded=True, session=session)
    for session in "abc":
        bank.outcome(other.id, succeeded=True, session=session)
    merged(bank)
    found = link(bank, one, other)
    assert found.type is LinkType.CO_USED and found.strength == pytest.approx(0.75)


RETRY = a_memory(title="Do not retry a charge blindly", content=(
    "Retrying POST /charge after a timeout leads to duplicate charges, and to angry customers."
))  # fmt: skip
DUPLICATE = a_memory(title="Duplicate charges", content="Refund the second one at once.")


@requirement("GEN-3")
@pytest.mark.parametrize(
    ("cause", "effect", "strength"),
    [
        (RETRY, DUPLICATE, 1.0),
        (
            a_memory(title="The pool is shared", content="A shared pool causes PoolTimeout."),
            a_warning(title="Requests hang", error_context=ErrorContext(
                error_type="PoolTimeout", failure_pattern="x", corrective_guidance="y")),
            1.0,
        ),
        (
            a_memory(title="The connection pool is shared after a fork", content="Dispose of it."),
            a_memory(title="Workers hang", content="It is caused by a shared connection pool."),
            1.0,
        ),
    ],
    ids=["effect", "error", "cause"],
)  # fmt: skip
def test_what_leads_to_what_is_linked_from_cause_to_effect(bank, cause, effect, strength):
    for memory in (effect, cause, dough(0)):
        bank.record(replace(memory, id=new_id()))
    ids = {m.title: m.id for m in bank.memories()}
    merged(bank)
    [found] = [x for x in bank.links(ids[cause.title]) if x.type is LinkType.CAUSES]
    assert (found.source, found.target) == (ids[cause.title], ids[effect.title])
    assert found.strength == pytest.approx(strength, abs=0.4)
    assert merged(bank, force=True).links == 0


@requirement("GEN-3")
@pytest.mark.parametrize(
    "content",
    [
        "A key for each charge never leads to duplicate charges.",
        "It does not cause duplicate charges.",
        "This causes trouble.",
        "Charges are slow, which causes long queues at the till.",
        "Duplicate charges are refunded within a day.",
    ],
)
def test_what_is_denied_or_vague_or_about_something_else_causes_nothing(content):
    one = a_memory(title="Send a key with each request", content=content)
    assert causes.found([one, DUPLICATE], merged={}) == ()


@requirement("GEN-3")
def test_what_somebody_says_of_causes_is_not_turned_round(bank):
    retry, duplicate = (bank.record(replace(m, id=new_id())) for m in (RETRY, DUPLICATE))
    bank.link(duplicate.id, retry.id, type="causes", strength=0.3)
    merged(bank)
    [found] = [x for x in bank.links(retry.id) if x.type is LinkType.CAUSES]
    assert (found.source, found.strength) == (duplicate.id, 0.3)


def test_a_second_run_draws_nothing_again_and_nothing_that_was_removed(bank, disputed):
    merged(bank)
    assert merged(bank, force=True).links == 0
    found = link(bank, *disputed)
    bank.unlink(found.source, found.target, type=found.type)
    assert merged(bank, force=True).links == 0
    assert bank.links(disputed[0].id) == []


def test_a_merged_memory_inherits_the_links_of_its_sources(bank, timeouts):
    causes = bank.record(dough(0))
    bank.link(causes.id, timeouts[1].id, type="causes", strength=0.4)
    result = merged(bank)
    found = link(bank, bank.get(result.created[0]), causes)
    assert (found.source, found.type, found.strength) == (causes.id, LinkType.CAUSES, 0.4)
    bank.undo_batch(result.batch)
    assert [x.target for x in bank.links(causes.id)] == [timeouts[1].id]


def test_what_contradicts_a_source_contradicts_the_merge(bank, timeouts):
    against = bank.record(timeout(0, **NEVER))
    result = merged(bank)
    assert bank.get(against.id).state is State.ACTIVE
    assert [m.id for m in bank.contradicting(against.id)] == result.created

"""Promotion: what proved itself here and is known elsewhere is shared."""

from __future__ import annotations

import pytest
from tests.requirement import requirement
from tests.tidy.conftest import dough, timeout

from reasonbank import Bank, Settings
from reasonbank.errors import Forbidden, InvalidInput
from reasonbank.fields import plain
from reasonbank.learn import credits
from reasonbank.learn.credits import Credit
from reasonbank.learn.observed import Observation
from reasonbank.learn.outcome import Basis
from reasonbank.model import Outcome, Principal, Scope, State
from reasonbank.store import traces
from reasonbank.testing import a_trace
from reasonbank.tidy.promote import promote


def prove(bank, memory, times=12):
    """Others than its author say that it helped, each of them once a day."""
    for number in range(times):
        other = bank.seen_by(author=f"colleague {number}")
        other.outcome(memory.id, succeeded=True, session=f"{memory.id} {number}")
    return memory


@pytest.fixture
def elsewhere(bank, open_bank):
    return bank.within(open_bank.project("elsewhere"))


@requirement("CON-9")
def test_what_two_projects_agree_on_and_evidence_backs_is_shared_with_the_team(bank, elsewhere):
    mine = prove(bank, bank.record(timeout(0)))
    theirs = elsewhere.record(timeout(2))
    result = promote(bank.context)
    [id] = result.promoted
    assert Bank(bank.context.seen_by(whole=True)).get(id).parents == (mine.id, theirs.id)
    for view, own in ((bank, mine), (elsewhere, theirs)):
        copy = view.get(id)
        assert copy.scope is Scope.TEAM and copy.parents == (own.id,)
        assert copy.content == mine.content and copy.stage == 1
    assert bank.get(mine.id).state is State.ACTIVE, "it is a copy"
    assert promote(bank.context).promoted == () and promote(elsewhere.context).promoted == ()


@requirement("CON-9")
def test_a_promotion_can_be_undone_and_is_not_repeated(bank, elsewhere):
    prove(bank, bank.record(timeout(0)))
    elsewhere.record(timeout(2))
    result = promote(bank.context)
    bank.undo_batch(result.batch)
    assert bank.get(result.promoted[0]).state is State.ARCHIVED
    assert elsewhere.search("timeouts of database queries")[0].memory.scope is Scope.PROJECT
    again = promote(bank.context)
    assert again.promoted == ()
    assert "taken back" in again.proposals[0].waiting


@requirement("CON-9")
def test_one_project_alone_shares_nothing(bank, elsewhere):
    prove(bank, bank.record(timeout(0)))
    elsewhere.record(dough(0))
    assert plain(promote(bank.context)) == {
        "promoted": [],
        "proposals": [],
        "batch": None,
        "dry_run": False,
    }


@requirement("CON-9")
@pytest.mark.parametrize(
    "twin", [{"outcome": Outcome.FAILURE}, {"title": "Never set timeouts on database queries"}]
)
def test_a_project_that_says_the_opposite_does_not_agree(bank, elsewhere, twin):
    prove(bank, bank.record(timeout(0)))
    elsewhere.record(timeout(0, **twin))
    assert promote(bank.context).proposals == ()


@requirement("CON-9", "SEC-1")
def test_what_its_author_says_of_it_forty_times_shares_nothing(bank, elsewhere):
    mine = bank.record(timeout(0))
    elsewhere.record(timeout(2))
    for number in range(40):
        bank.outcome(mine.id, succeeded=True, session=f"{number}")
    result = promote(bank.context)
    assert result.promoted == ()
    [proposal] = result.proposals
    assert proposal.hands == 1 and "one hand" in proposal.waiting


@requirement("CON-9", "SEC-1")
@pytest.mark.parametrize("read", [False, True], ids=["told by its author", "read by the bank"])
def test_sessions_that_its_author_tells_of_say_nothing_to_others(bank, elsewhere, clock, read):
    agent = bank.seen_by(surface="mcp", principal=Principal.AGENT)
    mine, other = agent.record(timeout(0)), elsewhere.seen_by(author="another").record(timeout(2))
    bank.seen_by(principal=Principal.PERSON).accept((mine.id,))
    elsewhere.seen_by(principal=Principal.PERSON).accept((other.id,))
    worker = bank.seen_by(surface="worker", principal=Principal.MODEL).context
    teller = worker if read else agent.context
    for number in range(20):
        told = traces.store(teller, a_trace(outcome=None))
        seen = Observation(memory=mine.id, succeeded=True, by=Basis.TESTS, reason="", followed=True)
        credit = Credit(session=f"{number}", seen=(seen,))
        worker.write(lambda txn, t=told, c=credit: credits.store(worker, txn, t, [c]))
        clock.advance(days=1)
    [proposal] = promote(bank.context, dry_run=True).proposals
    assert (proposal.hands, proposal.ready) == (2, read)


@requirement("CON-9")
def test_two_who_found_it_out_by_themselves_and_the_facts_share_it(bank, elsewhere):
    prove(bank, bank.record(timeout(0)), times=1)
    elsewhere.seen_by(author="another").record(timeout(2))
    [proposal] = promote(bank.context, dry_run=True).proposals
    assert proposal.hands == 3


@requirement("CON-9")
def test_a_person_who_accepts_it_shares_it_at_once(bank, elsewhere):
    mine = bank.record(timeout(0))
    elsewhere.record(timeout(2))
    [id] = promote(bank.context, accept=(mine.id,)).promoted
    assert elsewhere.get(id).scope is Scope.TEAM


@requirement("CON-9")
def test_who_accepts_one_shares_no_other(bank, elsewhere):
    prove(bank, bank.record(timeout(0)))
    elsewhere.record(timeout(2))
    mine = bank.record(dough(0))
    elsewhere.record(dough(1))
    proposals = promote(bank.context, dry_run=True).proposals
    assert [(p.ready, p.acceptable) for p in proposals] == [(True, True), (False, True)]
    [id] = promote(bank.context, accept=(mine.id,)).promoted
    assert elsewhere.get(id).content == mine.content


@requirement("CON-9", "SEC-1")
def test_what_a_person_does_not_want_shared_is_proposed_no_more(bank, elsewhere, open_bank):
    mine = prove(bank, bank.record(timeout(0)))
    elsewhere.record(timeout(2))
    agent = bank.seen_by(principal=Principal.AGENT)
    with pytest.raises(Forbidden, match="only a person"):
        agent.promote(reject=(mine.id,))
    with pytest.raises(InvalidInput, match="reject"):
        bank.promote(accept=(mine.id,), reject=(mine.id,))
    assert bank.promote(reject=(mine.id,), dry_run=True).proposals[0].ready
    assert bank.promote(reject=(mine.id,)).promoted == ()
    assert promote(bank.context).promoted == ()
    [proposal] = promote(bank.context, accept=(mine.id,)).proposals
    assert not proposal.acceptable and "did not want" in proposal.waiting
    bank.rebuild()
    assert promote(bank.context).promoted == () and bank.verify().sound
    assert bank.get(mine.id).state is State.ACTIVE


@requirement("CON-9", "SEC-1")
def test_what_nothing_has_confirmed_is_shared_with_nobody(bank, elsewhere):
    agent = bank.seen_by(principal=Principal.AGENT)
    mine = agent.record(timeout(0))
    elsewhere.record(timeout(2))
    result = promote(bank.context, accept=(mine.id,))
    assert result.promoted == ()
    assert result.proposals[0].waiting == "nothing has confirmed it yet"


@requirement("CSL-9")
def test_what_recurs_but_is_not_proven_yet_is_proposed(bank, elsewhere):
    mine = bank.record(timeout(0))
    elsewhere.record(timeout(2))
    [proposal] = promote(bank.context).proposals
    assert proposal.id == mine.id and proposal.projects == 2
    assert not proposal.ready and "one hand" in proposal.waiting
    prove(bank, mine)
    [proposal] = promote(bank.context, dry_run=True).proposals
    assert proposal.ready
    assert elsewhere.memories() == elsewhere.memories() and len(elsewhere.memories()) == 1


@requirement("CON-9")
def test_from_a_team_it_goes_to_the_org_when_another_team_agrees(open_bank):
    def of_team(team):
        settings = Settings(team=team, org="acme")
        return open_bank(settings=settings, workspace=open_bank.project(f"project of {team}"))

    red, blue = of_team("red"), of_team("blue")
    prove(red, red.record(timeout(0, scope=Scope.TEAM)))
    assert promote(red.context).promoted == ()
    blue.record(timeout(2, scope=Scope.TEAM))
    [id] = promote(red.context).promoted
    assert blue.get(id).scope is Scope.ORG
    assert promote(blue.context).promoted == ()


@requirement("CON-9")
def test_another_org_neither_agrees_nor_sees(open_bank):
    ours = open_bank(settings=Settings(org="ours"))
    theirs = open_bank(settings=Settings(org="theirs"), workspace=open_bank.project("theirs"))
    prove(ours, ours.record(timeout(0)))
    theirs.record(timeout(2))
    assert promote(ours.context).proposals == ()

"""What an invitation lets somebody do: more by another one, less as soon as it is taken back."""

from __future__ import annotations

import asyncio

import pytest
from tests.peers.banks import TEAM, Member, a_lesson
from tests.peers.convergence import Banker
from tests.requirement import requirement

from reasonbank.errors import InvalidInput, NotFound, ReasonBankError
from reasonbank.peers import membership
from reasonbank.peers.capability import Operation
from reasonbank.peers.membership import NotInvited

ORG = "org:local"
SECOND = 1_000_000
DAY = 86_400 * SECOND


@pytest.fixture
def anna(tmp_path):
    member = Member(tmp_path, "anna")
    member.later = 0
    clock = member.bank.store.clock
    member.bank.store.clock = lambda: clock() + member.later
    yield member
    member.close()


@pytest.fixture
def bert(tmp_path):
    member = Member(tmp_path, "bert")
    yield member
    member.close()


def invited(anna, channels=(TEAM,), **more):
    told = membership.invite(
        anna.bank.context, address="127.0.0.1:1", channels=channels, **more
    )  # fmt: skip
    return membership.read(told.invitation), told.id


def comes(anna, bert, pasted):
    token = pasted.token if pasted else b""
    return membership.admit(anna.bank.context, bert.key, "bert", token)


def may(anna, bert):
    peer = anna.bank.context.read().peers.peer(bert.key.hex())
    return membership.may(anna.bank.context, None, peer)


@requirement("BUS-3")
def test_another_invitation_adds_to_what_a_bank_may_do(anna, bert):
    comes(anna, bert, invited(anna, operations=[Operation.READ])[0])
    assert may(anna, bert).where(Operation.WRITE) == set()
    comes(anna, bert, invited(anna, [ORG], spend=3)[0])
    assert may(anna, bert).where(Operation.READ) == {TEAM, ORG}
    assert may(anna, bert).where(Operation.WRITE) == {ORG}
    assert may(anna, bert).spend == 3
    comes(anna, bert, None)
    assert may(anna, bert).where(Operation.READ) == {TEAM, ORG}


@requirement("BUS-3")
def test_who_joins_again_lets_the_other_know_more_and_no_less(anna, bert):
    membership.joined(bert.bank.context, invited(anna)[0], "anna")
    membership.joined(bert.bank.context, invited(anna, [ORG])[0], "anna")
    assert may(bert, anna).where(Operation.WRITE) == {TEAM, ORG}


@requirement("BUS-3")
def test_whose_time_is_over_comes_back_by_a_new_invitation(anna, bert):
    comes(anna, bert, invited(anna, stays=1)[0])
    anna.later = 2 * DAY
    with pytest.raises(ReasonBankError, match="has expired"):
        comes(anna, bert, None)
    comes(anna, bert, invited(anna, [ORG])[0])
    comes(anna, bert, None)
    assert may(anna, bert).where(Operation.READ) == {ORG}


@requirement("BUS-3")
def test_an_invitation_that_is_no_good_is_told_to_who_is_known_already_too(anna, bert):
    comes(anna, bert, invited(anna)[0])
    late, _ = invited(anna, [ORG], days=0)
    anna.later = DAY
    with pytest.raises(NotInvited, match="has expired"):
        comes(anna, bert, late)
    assert may(anna, bert).where(Operation.READ) == {TEAM}


def test_the_same_invitation_twice_changes_nothing(anna, bert):
    pasted, _ = invited(anna)
    assert comes(anna, bert, pasted).granted == comes(anna, bert, pasted).granted


@requirement("BUS-3")
def test_an_open_invitation_is_taken_back_by_the_first_digits_of_its_id(anna, bert):
    pasted, id = invited(anna)
    other, _ = invited(anna)
    taken = membership.take_back_invitation(anna.bank.context, id[:8])
    assert taken.id == id
    assert id not in {each.id for each in membership.open_invitations(anna.bank.context)}
    with pytest.raises(NotInvited, match="taken back"):
        comes(anna, bert, pasted)
    comes(anna, bert, other)
    for wrong in (id[:3], "f" * 8 if not id.startswith("f" * 8) else "0" * 8):
        with pytest.raises(NotFound):
            membership.take_back_invitation(anna.bank.context, wrong)


@requirement("BUS-3")
def test_what_one_invitation_gave_goes_with_it_and_what_another_gave_stays(anna, bert):
    pasted, id = invited(anna, [ORG])
    comes(anna, bert, invited(anna)[0])
    comes(anna, bert, pasted)
    membership.take_back_invitation(anna.bank.context, id[:8])
    assert may(anna, bert).where(Operation.READ) == {TEAM}
    with pytest.raises(NotInvited, match="taken back"):
        comes(anna, bert, pasted)


@requirement("BUS-3")
def test_what_is_spent_by_who_was_handed_a_part_is_spent_of_the_whole(anna, bert, tmp_path):
    pasted, _ = invited(anna, spend=10)
    less = membership.narrowed(pasted, spend=8)
    carl = Member(tmp_path, "carl")
    comes(anna, bert, pasted)
    comes(anna, carl, less)
    assert membership.left_to_spend(anna.bank.context, None, peer_of(anna, bert)) == 10
    spent(anna, bert, 6)
    assert membership.left_to_spend(anna.bank.context, None, peer_of(anna, bert)) == 4
    assert membership.left_to_spend(anna.bank.context, None, peer_of(anna, carl)) == 4
    spent(anna, carl, 3)
    assert membership.left_to_spend(anna.bank.context, None, peer_of(anna, bert)) == 1
    carl.close()


def peer_of(anna, bert):
    return anna.bank.context.read().peers.peer(bert.key.hex())


def spent(anna, bert, amount):
    from reasonbank.ledger.port import TaskOffer
    from reasonbank.model import new_id

    made = TaskOffer(id=new_id(), ours=True, peer=bert.key.hex(), state="done", task="t",
                     most=amount, spent=amount, expires_at=1, workspace="w")  # fmt: skip
    anna.bank.context.store.write(lambda txn: txn.peers.put_offer(made))


@requirement("BUS-3")
def test_who_was_handed_a_part_of_an_invitation_may_do_no_more_than_that(anna, bert):
    pasted, _ = invited(anna, [TEAM, ORG], spend=10)
    less = membership.narrowed(
        pasted, channels=[TEAM], operations=[Operation.READ], expires=anna.bank.context.now() + DAY
    )
    assert less.channels == [TEAM] and less.token != pasted.token
    comes(anna, bert, less)
    assert may(anna, bert).where(Operation.READ) == {TEAM}
    assert may(anna, bert).where(Operation.WRITE) == set()
    anna.later = 2 * DAY
    with pytest.raises(ReasonBankError, match="has expired"):
        may(anna, bert)
    with pytest.raises(InvalidInput, match="team:else"):
        membership.narrowed(pasted, channels=["team:else"])


@requirement("BUS-3")
def test_one_invitation_lets_in_so_many_however_often_it_is_handed_on(anna, bert):
    pasted, _ = invited(anna)
    for number in range(membership.MOST_BY_ONE):
        less = membership.narrowed(pasted, spend=0)
        membership.admit(anna.bank.context, bytes([number + 1]) * 32, "x", less.token)
    with pytest.raises(NotInvited, match="as many"):
        comes(anna, bert, membership.narrowed(pasted, spend=0))


def test_a_name_that_reads_as_the_key_of_another_bank_means_neither(anna, bert, tmp_path):
    liar = Member(tmp_path, "liar")
    comes(anna, bert, invited(anna)[0])
    prefix = bert.key.hex()[:8]
    token = invited(anna)[0].token
    membership.admit(anna.bank.context, liar.key, f"{prefix}\x1b[2J\u202e", token)
    names = {peer.name for peer in anna.bank.context.read().peers.all()}
    assert names == {"bert", f"{prefix}[2J"}
    membership.admit(anna.bank.context, bytes(32), prefix, invited(anna)[0].token)
    with pytest.raises(InvalidInput, match="several"):
        membership.trust(anna.bank.context, prefix, trusted=True)
    found, _ = membership.trust(anna.bank.context, bert.key.hex(), trusted=True)
    assert found.name == "bert"
    liar.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", ["taken back", "widened", "expired"])
@requirement("BUS-3")
def test_what_a_bank_may_do_is_looked_at_again_while_it_is_connected(tmp_path, how):
    async def scene():
        anna, bert = Banker(Member(tmp_path, "anna")), Banker(Member(tmp_path, "bert"))
        await anna.start()
        await bert.start()
        context = anna.member.bank.context
        made = membership.invite(context, address=anna.at, channels=[TEAM], stays=1)
        await bert.bus.join(membership.read(made.invitation))
        talk = await anna.bus.joined.get() and anna.bus.talks[bert.member.key]
        anna.member.bank.record(a_lesson("Before"))
        await until(lambda: "Before" in bert.member.titles())
        if how == "widened":
            more = membership.invite(context, address=anna.at, channels=[ORG])
            pasted = membership.read(more.invitation)
            membership.admit(context, bert.member.key, "bert", pasted.token)
            membership.joined(bert.member.bank.context, pasted, "anna")
            anna.member.bank.record(a_lesson("Of the org", scope="org"))
            await until(lambda: "Of the org" in bert.member.titles())
            assert talk.connection.ended is None
        else:
            if how == "taken back":
                membership.take_back_invitation(context, made.id[:8])
            else:
                clock = context.store.clock
                context.store.clock = lambda: clock() + 2 * DAY
            await until(lambda: talk.connection.ended is not None)
            assert how in talk.connection.ended
            await asyncio.sleep(1)
            assert bert.member.key not in anna.bus.talks
        for banker in (anna, bert):
            await banker.stop()
            banker.member.close()

    asyncio.run(scene())

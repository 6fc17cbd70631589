"""A task that is offered is done once, by one bank, for no more than it may spend."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.peers.banks import TEAM, Member
from tests.peers.convergence import LIMITS, PACE
from tests.requirement import requirement

from reasonbank.errors import ModelError
from reasonbank.model import Outcome, Principal
from reasonbank.peers import capability, membership, tasks, wire
from reasonbank.peers.bus import Bus
from reasonbank.peers.quic import Quic
from reasonbank.peers.tasks import State, Tasks
from reasonbank.surfaces.peers import offers

DOLLAR = 1_000_000


class Office:
    """Somebody who offers tasks, and others who may do them."""

    def __init__(self, folder, workers, spend):
        self.boss = Member(folder, "boss")
        self.workers = [Member(folder, f"worker{number}") for number in range(workers)]
        self.spend = spend
        self.did = []
        self.at_once = self.most_at_once = 0
        self.buses = []
        self.running = []

    async def __aenter__(self):
        boss = await self._bus(self.boss, None)
        address = await boss.listen("127.0.0.1:0")
        for worker in self.workers:
            invited = membership.invite(
                self.boss.bank.context, address=address, channels=[TEAM], spend=self.spend
            )
            pasted = membership.read(invited.invitation)
            bus = await self._bus(worker, worker.name)
            await bus.join(pasted, name="boss")
        return self

    async def _bus(self, member, name):
        async def solve(offer):
            task = offer.task
            self.did.append((name, task))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(0.05)
            self.at_once -= 1
            if task == "Divide by zero":
                raise ModelError("there is no answer to that")
            step = {"iteration": 0, "action": "thought", "content": f"{name} did it"}
            return {"task": "another", "trajectory": [step], "outcome": "success",
                    "memories_used": ["x"], "metadata": {"session": "forged"}}, 30_000  # fmt: skip

        quic = Quic(member.identity, limits=LIMITS)
        bus = Bus(member.bank.context, quic, solver=solve if name else None, pace=PACE)
        self.buses.append(bus)
        self.running.append(asyncio.get_running_loop().create_task(bus.run()))
        return bus

    async def __aexit__(self, *_):
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        for bus in self.buses:
            await bus.close()
        for member in (self.boss, *self.workers):
            member.close()

    async def until(self, *states):
        async with asyncio.timeout(60):
            while sorted(self.states()) != sorted(states):
                await asyncio.sleep(0.05)

    def states(self):
        return [offer.state for offer in self.boss.bank.context.read().peers.offers()]


@requirement("BUS-1", "BUS-3")
def test_one_of_many_does_a_task_and_what_became_of_it_comes_back_as_a_trace(tmp_path):
    async def scene():
        async with Office(tmp_path, workers=3, spend=DOLLAR) as office:
            for number in range(4):
                tasks.offer(office.boss.bank.context, f"Task {number}", most=100_000)
            await office.until(*[State.DONE] * 4)
            assert sorted(task for _, task in office.did) == [f"Task {n}" for n in range(4)]
            traces = office.boss.bank.traces()
            assert sorted(trace.task for trace in traces) == [f"Task {n}" for n in range(4)]
            for trace in traces:
                assert trace.trajectory[0].content.endswith("did it")
                assert (trace.memories_used, trace.metadata) == ((), {})
            stored = office.boss.db.all(
                "select distinct principal, surface from events where what = 'trace.stored'"
            )
            assert stored == [(Principal.PEER, "bus")]
            spent = sum(office.boss.bank.context.read().peers.spent_by(worker.key.hex())
                        for worker in office.workers)  # fmt: skip
            assert spent == 4 * 30_000

    asyncio.run(scene())


@requirement("BUS-3")
def test_nobody_is_granted_more_than_it_may_spend(tmp_path):
    async def scene():
        async with Office(tmp_path, workers=1, spend=150_000) as office:
            for number in range(3):
                tasks.offer(office.boss.bank.context, f"Task {number}", most=100_000)
            await office.until(State.DONE, State.DONE, State.OPEN)
            await asyncio.sleep(0.5)
            assert len(office.did) == 2  # 30,000 each: of 90,000 that are left no third one.

    asyncio.run(scene())


@pytest.fixture
def pair(tmp_path):
    boss, worker = Member(tmp_path, "boss"), Member(tmp_path, "worker")
    invited = membership.invite(
        boss.bank.context, address="127.0.0.1:1", channels=[TEAM], spend=DOLLAR
    )
    token = membership.read(invited.invitation).token
    peer = membership.admit(boss.bank.context, worker.key, "worker", token)
    other = membership.joined(worker.bank.context, membership.read(invited.invitation), "boss")
    yield boss, worker, peer, other
    boss.close()
    worker.close()


def test_a_grant_that_is_heard_twice_or_after_a_crash_is_done_once(pair):
    boss, worker, peer, other = pair
    here, there = Tasks(boss.bank.context, takes=False), Tasks(worker.bank.context, takes=True)
    made = tasks.offer(boss.bank.context, "Task", most=1000)
    [offered] = here.due(peer)
    [take] = there.heard(other, offered)
    grants = [each for _ in range(3) for each in here.heard(peer, take)]
    assert grants == [wire.Grant(made.id)] * 3
    for grant in grants:
        there.heard(other, grant)
    assert len(there.to_do) == 1
    again = Tasks(worker.bank.context, takes=True)
    assert again.heard(other, offered) == []
    again.heard(other, grants[0])
    assert again.to_do == []
    [result] = there.finished(there.to_do[0], {"task": "Task", "trajectory": []}, 700)
    here.heard(peer, result)
    here.heard(peer, result)
    assert len(boss.bank.traces()) == 1
    # What the other end did not hear is told again when they meet.
    assert result in again.met(other)


def test_what_was_not_offered_granted_or_paid_for_changes_nothing(pair):
    boss, worker, peer, _ = pair
    here = Tasks(boss.bank.context, takes=False)
    made = tasks.offer(boss.bank.context, "Task", most=1000)
    late = tasks.offer(boss.bank.context, "Late", most=1000, seconds=0)
    assert here.heard(peer, wire.Take("no such offer")) == [wire.Gone("no such offer")]
    assert here.heard(peer, wire.Take(late.id)) == [wire.Gone(late.id)]
    here.heard(peer, wire.Result(made.id, b"{}", 10))
    assert boss.bank.traces() == []
    here.heard(peer, wire.Take(made.id))
    with pytest.raises(wire.BadFrame):
        here.heard(peer, wire.Result(made.id, b"[1]", 10))
    here.heard(peer, wire.Result(made.id, b'{"trajectory": []}', 10**12))
    assert boss.bank.context.read().peers.spent_by(worker.key.hex()) == 1000


def an_offer(worker, id="x", task="Task"):
    return wire.Offer(id, task, 1, worker.bank.context.now() + 10**9)


@requirement("BUS-3")
def test_whoever_may_do_no_tasks_has_none_done(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    no_tasks = capability.grant(
        worker.identity, channels=[TEAM], operations=["read", "write"], spend=0,
        expires=worker.bank.context.now() + 10**12,
    )  # fmt: skip
    assert there.heard(replace(other, granted=no_tasks), an_offer(worker)) == []
    assert there.heard(other, an_offer(worker)) == [wire.Take("x")]


def test_who_offers_a_thousand_tasks_is_taken_a_few_of(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    answers = [there.heard(other, an_offer(worker, f"task {n}")) for n in range(100)]
    assert len([each for each in answers if each]) == tasks.MOST_AT_A_TIME
    for number in range(100):
        there.heard(other, wire.Grant(f"task {number}"))
    assert len(there.to_do) == tasks.MOST_AT_A_TIME
    for each in there.to_do:
        there.finished(each, tasks.in_vain("Task", "No."), 0)
    assert there.heard(other, an_offer(worker, "one more")) == [wire.Take("one more")]


def test_who_offers_and_never_grants_keeps_no_task_of_another_bank_out_and_fills_no_disk(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    hostile = replace(other, key="ab" * 32, name="mallory")
    for number in range(30):
        there.heard(hostile, an_offer(worker, f"x{number}"))
    assert there.heard(other, an_offer(worker, "good")) == [wire.Take("good")]
    clock = worker.bank.store.clock
    worker.bank.store.clock = lambda: clock() + 10**10
    there.heard(hostile, an_offer(worker, "y"))
    assert [each.id for each in worker.bank.context.read().peers.offers()] == ["y"]


def test_an_offer_for_a_million_years_can_be_shown(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    assert there.heard(other, wire.Offer("x", "Task", 1, (1 << 62) - 1)) == [wire.Take("x")]
    [shown] = offers(worker.bank.context)
    assert shown.task == "Task"


def test_a_result_longer_than_a_frame_is_cut_and_arrives(pair):
    boss, worker, peer, other = pair
    here, there = Tasks(boss.bank.context, takes=False), Tasks(worker.bank.context, takes=True)
    tasks.offer(boss.bank.context, "Task", most=1000)
    [offered] = here.due(peer)
    [take] = there.heard(other, offered)
    [grant] = here.heard(peer, take)
    there.heard(other, grant)
    steps = [{"iteration": n, "action": "thought", "content": "ö" * 300_000} for n in range(3)]
    trace = {"task": "Task", "trajectory": steps, "outcome": "success"}
    [result] = there.finished(there.to_do[0], trace, 1)
    here.heard(peer, wire.decode(wire.encode(result)))
    [stored] = boss.bank.traces()
    assert stored.outcome is Outcome.SUCCESS and len(stored.trajectory) == 3


def test_no_more_results_are_told_again_than_can_have_been_lost(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    for number in range(50):
        there.heard(other, an_offer(worker, f"task {number:02}"))
        there.heard(other, wire.Grant(f"task {number:02}"))
        there.finished(there.to_do.pop(), tasks.in_vain("Task", "No."), 0)
    again = [frame.offer for frame in there.met(other)]
    assert again == [f"task {number:02}" for number in range(34, 50)]


def test_nobody_takes_the_place_of_an_offer_of_another_bank(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=True)
    there.heard(other, an_offer(worker))
    hostile = replace(other, key="ab" * 32, name="mallory")
    assert there.heard(hostile, an_offer(worker, task="Something else")) == []
    there.heard(hostile, wire.Grant("x"))
    assert there.to_do == []
    there.heard(other, wire.Grant("x"))
    assert [each.task for each in there.to_do] == ["Task"]


def test_a_task_that_failed_comes_back_as_failed(tmp_path):
    async def scene():
        async with Office(tmp_path, workers=1, spend=DOLLAR) as office:
            tasks.offer(office.boss.bank.context, "Divide by zero", most=100_000)
            await office.until(State.DONE)
            [trace] = office.boss.bank.traces()
            assert trace.outcome is Outcome.FAILURE
            assert "no answer to that" in trace.trajectory[0].content

    asyncio.run(scene())


def test_tasks_of_others_are_done_one_after_another(tmp_path):
    async def scene():
        async with Office(tmp_path, workers=1, spend=DOLLAR) as office:
            for number in range(5):
                tasks.offer(office.boss.bank.context, f"Task {number}", most=1000)
            await office.until(*[State.DONE] * 5)
            assert office.most_at_once == 1

    asyncio.run(scene())


def test_a_task_that_a_crash_cut_off_is_told_as_failed_and_not_begun_again(pair):
    boss, worker, peer, other = pair
    here, there = Tasks(boss.bank.context, takes=False), Tasks(worker.bank.context, takes=True)
    made = tasks.offer(boss.bank.context, "Task", most=1000)
    [offered] = here.due(peer)
    [take] = there.heard(other, offered)
    [grant] = here.heard(peer, take)
    there.heard(other, grant)
    assert there.met(other) == []  # It is under way.
    again = Tasks(worker.bank.context, takes=True)
    [result] = again.met(other)
    assert again.to_do == []
    here.heard(peer, result)
    [trace] = boss.bank.traces()
    assert (trace.task, trace.outcome) == ("Task", Outcome.FAILURE)
    assert boss.bank.context.read().peers.offer(made.id).state == State.DONE


def test_without_a_model_no_task_is_taken(pair):
    _, worker, _, other = pair
    there = Tasks(worker.bank.context, takes=False)
    expires = worker.bank.context.now() + 10**9
    assert there.heard(other, wire.Offer("x", "Task", 1, expires)) == []

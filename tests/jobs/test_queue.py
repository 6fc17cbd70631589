"""The queue: leases, attempts, back-off, the dead letter; each job is done once."""

from __future__ import annotations

import random
from dataclasses import replace

import anyio
import pytest
from tests.requirement import requirement

from reasonbank.errors import InvalidInput, LeaseLost, NotFound, Refused, StorageError
from reasonbank.jobs.worker import Worker
from reasonbank.ledger.port import LEASE, LONGEST_PAUSE
from reasonbank.model import JobState
from reasonbank.store import leases, memories
from reasonbank.testing.builders import a_memory, a_trace

KINDS = ("distil",)
SECOND = 1_000_000


@pytest.fixture
def anyio_backend():
    return "asyncio"


def claim(bank, worker="one", attempts=5):
    queue = bank.store.ledger
    return queue.write(lambda txn: txn.queue.claim(worker, bank.store.clock(), 1, attempts, KINDS))


def queue_of(bank):
    return bank.store.ledger.read().queue


def recording(done=None):
    """A task that stores one memory for each job."""

    async def task(work):
        def effects(context, txn):
            memories.record_in(
                context, txn, a_memory(title=f"From {work.job.subject}", id=work.job.id)
            )

        if done is not None:
            done.append(work.job.attempts)
        return effects

    return task


def failing(error):
    async def task(work):
        raise error

    return task


def work_off(bank, task, **options):
    async def run():
        options.setdefault("rng", random.Random(1))
        worker = Worker(bank.context, {"distil": task}, **options)
        return await worker.run(until_empty=True)

    return anyio.run(run)


@requirement("DIS-1")
def test_a_session_is_stored_and_queued_without_waiting_for_anybody(plain_bank):
    trace = a_trace()
    job = plain_bank.distil(trace)
    assert job.state is JobState.WAITING and job.subject == trace.id
    assert plain_bank.trace(trace.id).task == trace.task
    assert [j.id for j in plain_bank.jobs()] == [job.id]


def test_the_same_session_twice_is_queued_once(plain_bank):
    trace = a_trace()
    first = plain_bank.distil(trace)
    assert plain_bank.distil(trace).id == first.id
    work_off(plain_bank, recording())
    assert plain_bank.distil(trace).state is JobState.DONE
    assert len(plain_bank.jobs()) == 1


def test_a_bad_session_is_refused_and_nothing_is_queued(plain_bank):
    with pytest.raises(InvalidInput, match="task"):
        plain_bank.distil(a_trace(task=" "))
    assert plain_bank.jobs() == [] and plain_bank.traces() == []


@requirement("DIS-2")
def test_what_a_job_causes_and_its_end_are_one_transaction(plain_bank):
    job = plain_bank.distil(a_trace())
    assert work_off(plain_bank, recording()) == 1
    assert plain_bank.get(job.id).title.startswith("From ")
    assert plain_bank.jobs()[0].state is JobState.DONE


def test_a_job_that_is_held_is_nobody_elses(plain_bank, clock):
    plain_bank.distil(a_trace())
    assert len(claim(plain_bank)) == 1
    clock.now += LEASE - 1
    assert claim(plain_bank, "two") == []
    clock.now += 1
    [job] = claim(plain_bank, "two")
    assert job.attempts == 2 and job.claim == "two"


def test_whoever_lost_a_job_can_change_nothing_any_more(plain_bank, clock):
    plain_bank.distil(a_trace())
    [lost] = claim(plain_bank)
    clock.now += LEASE
    [held] = claim(plain_bank, "one")
    assert held.claim == lost.claim, (
        "the same worker may get it again: the attempt tells them apart"
    )

    def late(txn):
        memories.record_in(plain_bank.context, txn, a_memory(title="Too late"))
        txn.queue.finish(lost)

    for change in (late, lambda txn: txn.queue.hold(lost, clock.now),
                   lambda txn: txn.queue.fail(lost, "x", None),
                   lambda txn: txn.queue.checkpoint(lost, {})):  # fmt: skip
        with pytest.raises(LeaseLost):
            plain_bank.store.ledger.write(change)
    assert plain_bank.memories() == []
    plain_bank.store.ledger.write(lambda txn: txn.queue.finish(held))


def test_holding_on_keeps_the_lease(plain_bank, clock):
    plain_bank.distil(a_trace())
    [job] = claim(plain_bank)
    for _ in range(5):
        clock.now += LEASE // 2
        plain_bank.store.ledger.write(lambda txn: txn.queue.hold(job, clock.now + LEASE))
    assert claim(plain_bank, "two") == []


def test_work_on_a_job_that_was_lost_is_broken_off(plain_bank, clock, monkeypatch):
    monkeypatch.setattr(leases, "LEASE", 3_000)  # The worker looks every millisecond.
    plain_bank.distil(a_trace())
    stayed = []

    async def task(work):
        while not claim(plain_bank, "two"):
            clock.now += LEASE
        with anyio.move_on_after(30):
            await anyio.sleep_forever()
        stayed.append(work.job.id)

    assert work_off(plain_bank, task) == 0 and stayed == []
    assert [job.claim for job in plain_bank.jobs(state="running")] == ["two"]


@requirement("DIS-2")
def test_a_job_that_kills_its_worker_is_dead_after_exactly_its_attempts(plain_bank, clock):
    plain_bank.distil(a_trace())
    for attempt in range(1, 4):
        [job] = claim(plain_bank, attempts=3)
        assert job.attempts == attempt
        clock.now += LEASE
    assert claim(plain_bank, attempts=3) == []
    [dead] = plain_bank.jobs(state="dead")
    assert dead.attempts == 3 and "ended before it was done" in dead.error


def test_a_failed_job_waits_longer_each_time_and_then_is_dead_with_the_reason(plain_bank, clock):
    plain_bank.distil(a_trace())
    for attempt in range(1, 6):
        work_off(plain_bank, failing(StorageError("no room")), max_attempts=5)
        [job] = plain_bank.jobs()
        assert job.attempts == attempt and "no room" in job.error
        clock.now += LONGEST_PAUSE
    assert job.state is JobState.DEAD
    assert work_off(plain_bank, recording()) == 0


def test_pauses_are_drawn_at_random_and_have_a_bound(plain_bank):
    worker = Worker(plain_bank.context, {}, rng=random.Random(7))
    for attempt, most in ((1, 4), (2, 8), (5, 64), (40, LONGEST_PAUSE // SECOND)):
        drawn = [worker._pause(attempt) for _ in range(200)]
        assert 0 <= min(drawn) < max(drawn) <= most * SECOND
        assert max(drawn) > most * SECOND * 0.8


def test_what_can_never_succeed_is_not_tried_again(plain_bank):
    plain_bank.distil(a_trace())
    work_off(plain_bank, failing(NotFound("the trace was purged")))
    [job] = plain_bank.jobs(state="dead")
    assert job.attempts == 1 and "purged" in job.error


def test_an_unexpected_error_is_put_down_without_its_text_and_the_worker_lives(plain_bank):
    first, second = plain_bank.distil(a_trace()), plain_bank.distil(a_trace())
    seen = []

    async def task(work):
        seen.append(work.job.id)
        if work.job.id == min(first.id, second.id):
            raise RuntimeError("quotes a memory")
        return lambda bank, txn: None

    assert work_off(plain_bank, task, slots=1) == 1
    assert len(seen) == 2
    [failed] = plain_bank.jobs(state="waiting")
    assert "RuntimeError" in failed.error and "quotes" not in failed.error


def test_effects_that_fail_take_the_end_of_the_job_with_them(plain_bank):
    plain_bank.distil(a_trace())

    async def task(work):
        def effects(context, txn):
            memories.record_in(context, txn, a_memory(title="Half of it"))
            raise Refused("the other half")

        return effects

    assert work_off(plain_bank, task) == 0
    assert plain_bank.memories() == []
    [job] = plain_bank.jobs()
    assert job.state is JobState.WAITING and "the other half" in job.error


def test_a_checkpoint_spares_the_next_attempt_the_cost(plain_bank, clock):
    plain_bank.distil(a_trace())
    asked = []

    async def task(work):
        if work.job.checkpoint is None:
            asked.append(1)
            await work.checkpoint({"answer": "paid for"})
            raise StorageError("and then the disk was full")
        assert work.job.checkpoint == {"answer": "paid for"}
        return lambda bank, txn: None

    work_off(plain_bank, task)
    clock.now += LONGEST_PAUSE
    assert work_off(plain_bank, task) == 1
    assert asked == [1]
    assert plain_bank.jobs()[0].checkpoint is None


@pytest.mark.parametrize("days", [365, -365])
def test_a_clock_that_jumps_a_year_strands_no_job(plain_bank, clock, days):
    for _ in range(3):
        plain_bank.distil(a_trace())
    [held] = claim(plain_bank)
    work_off(plain_bank, failing(StorageError("later")), slots=1)
    clock.advance(days=days)
    assert work_off(plain_bank, recording()) == 3
    with pytest.raises(LeaseLost):
        plain_bank.store.ledger.write(lambda txn: txn.queue.finish(held))


def test_a_dead_job_can_be_tried_again_or_dropped(plain_bank):
    for _ in range(2):
        plain_bank.distil(a_trace())
    work_off(plain_bank, failing(NotFound("gone")))
    one, other = plain_bank.jobs(state="dead")
    assert plain_bank.retry_job(one.id).attempts == 0
    assert work_off(plain_bank, recording()) == 1
    plain_bank.drop_job(other.id)
    assert [j.id for j in plain_bank.jobs()] == [one.id]
    with pytest.raises(NotFound):
        plain_bank.retry_job(other.id)


def test_a_running_job_is_neither_dropped_nor_started_twice(plain_bank):
    plain_bank.distil(a_trace())
    [job] = claim(plain_bank)
    with pytest.raises(Refused, match="running"):
        plain_bank.drop_job(job.id)
    with pytest.raises(Refused, match="running"):
        plain_bank.retry_job(job.id)


def test_jobs_of_other_workspaces_are_out_of_sight(open_bank):
    here, there = open_bank(), open_bank(workspace=open_bank.project("other"))
    job = there.distil(a_trace())
    assert here.jobs() == []
    with pytest.raises(NotFound):
        here.drop_job(job.id)
    # But one worker serves them all, and each memory lands where its session was.
    work_off(here, recording())
    assert [m.id for m in there.memories()] == [job.id] and here.memories() == []


@requirement("WSP-4")
def test_deleting_a_workspace_drops_its_jobs(plain_bank):
    plain_bank.distil(a_trace())
    plain_bank.delete_workspace(plain_bank.view.workspace, confirm=True)
    assert plain_bank.jobs() == []


def test_forgetting_removes_what_a_model_answered_about_it(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.distil(a_trace())
    [job] = claim(plain_bank)
    answer = {"memories": [{"content": memory.content}]}
    plain_bank.store.ledger.write(lambda txn: txn.queue.checkpoint(job, answer))
    plain_bank.forget(memory.id)
    assert queue_of(plain_bank).job(job.id).checkpoint is None


def test_the_depth_says_how_many_wait_run_and_died_and_since_when(plain_bank, clock):
    created = clock.now
    for _ in range(3):
        plain_bank.distil(a_trace())
        clock.now += SECOND
    claim(plain_bank)
    depth = queue_of(plain_bank).depth(plain_bank.view.workspace)
    assert (depth.waiting, depth.running, depth.dead, depth.oldest) == (2, 1, 0, created)
    assert queue_of(plain_bank).depth("elsewhere").oldest is None


def test_stopping_finishes_what_is_under_way_and_takes_nothing_more(plain_bank):
    for _ in range(5):
        plain_bank.distil(a_trace())

    async def run():
        async def task(work):
            worker.stop()
            return await recording()(work)

        worker = Worker(plain_bank.context, {"distil": task}, slots=1)
        return await worker.run()

    assert anyio.run(run) == 1
    assert len(plain_bank.jobs(state="waiting")) == 4


def test_a_trace_shows_what_was_learned_and_found_out_later(plain_bank):
    from reasonbank.learn.judge import Verdict
    from reasonbank.learn.lessons import Lesson, store
    from reasonbank.model import Outcome

    trace = plain_bank.store_trace(a_trace(outcome=None))
    assert plain_bank.trace(trace.id).outcome is None
    lesson = Lesson(memory=replace(a_memory(), source_span=(1, 2)))
    verdict = Verdict(outcome=Outcome.FAILURE, by="judge", score=0.2, reason="tests fail")
    plain_bank.context.write(lambda txn: store(plain_bank.context, txn, trace, [lesson], verdict))
    after = plain_bank.trace(trace.id)
    assert after.outcome is Outcome.FAILURE and after.final_score == 0.2
    assert after.memories_learned == (lesson.memory.id,)
    assert after.metadata["judged"] == {"by": "judge", "reason": "tests fail"}
    assert plain_bank.get(lesson.memory.id).source_span == (1, 2)

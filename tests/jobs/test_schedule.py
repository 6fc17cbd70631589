"""The schedule: each project's turn, once in its time, whoever works."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from tests.requirement import requirement
from tests.tidy.conftest import dough, merged, timeout

from reasonbank import Settings
from reasonbank.jobs import schedule as scheduling
from reasonbank.jobs.schedule import DueTask, Scheduler
from reasonbank.jobs.worker import Worker
from reasonbank.llm.scripted import Scripted
from reasonbank.model import JobState, State

KINDS = ("consolidate", "maintain", "promote")
AN_INTERVAL = 1.11
"""With its jitter."""


@pytest.fixture
def bank(open_bank):
    """Merges what a person would, though neither a person nor a model reads it."""
    return open_bank(settings=Settings(merge=replace(Settings().merge, threshold=0.8)))


def run_due(bank, **options):
    """Do all that is due now; how many turns that were."""

    async def run():
        scheduler = Scheduler(bank.context, **options)
        await anyio.to_thread.run_sync(scheduler.queue)
        return await Worker(bank.context, scheduler.tasks(), slots=1).run(until_empty=True)

    return anyio.run(run)


def due(bank):
    async def look():
        return Scheduler(bank.context).due()

    return anyio.run(look)


@requirement("CSL-7")
def test_every_project_is_consolidated_every_24_hours(bank, clock, timeouts, open_bank):
    other = bank.within(open_bank.project("elsewhere"))
    doughs = [other.record(dough(number)) for number in range(2)]
    clock.advance(days=AN_INTERVAL)
    assert run_due(bank) == 6
    assert {bank.get(m.id).state for m in timeouts} == {State.ARCHIVED}
    assert {other.get(m.id).state for m in doughs} == {State.ARCHIVED}
    clock.advance(days=0.99)
    assert due(bank) == [] and run_due(bank) == 0
    clock.advance(days=0.12)
    assert len(due(bank)) == 6, "an interval and its jitter later, all are due again"


@requirement("CSL-7")
def test_the_first_merge_comes_an_interval_after_the_first_memory(timeouts, bank, clock, open_bank):
    run_due(bank)
    clock.advance(days=0.5)
    bank.close()
    again = open_bank(settings=bank.settings)
    assert run_due(again) == 0
    assert {again.get(m.id).state for m in timeouts} == {State.ACTIVE}
    clock.advance(days=AN_INTERVAL - 0.5)
    run_due(again)
    assert {again.get(m.id).state for m in timeouts} == {State.ARCHIVED}


@requirement("CSL-7")
@requirement("CSL-2")
def test_without_a_model_only_what_is_nearly_identical_is_merged_unattended(open_bank, clock):
    bank = open_bank(settings=Settings())
    alike = [bank.record(timeout(number)) for number in (1, 2)]
    copies = [bank.record(dough(0, tags=(tag,))) for tag in ("bread", "baking")]
    clock.advance(days=AN_INTERVAL)
    run_due(bank)
    assert {bank.get(m.id).state for m in copies} == {State.ARCHIVED}
    assert {bank.get(m.id).state for m in alike} == {State.ACTIVE}
    assert set(merged(bank, force=True).archived) == {m.id for m in alike}


@requirement("CSL-5")
def test_before_the_first_turn_anybody_may_consolidate_by_hand(timeouts, bank, clock):
    run_due(bank)
    assert merged(bank).created
    clock.advance(days=AN_INTERVAL - 0.2)
    assert "consolidate" not in {turn.kind for turn in due(bank)}, "counted from the last one"


@requirement("CSL-7")
def test_a_restart_forgets_no_turn(plain_bank, open_bank, clock, tmp_path):
    plain_bank.record(timeout(0))
    run_due(plain_bank)
    plain_bank.close()
    again = open_bank()
    assert due(again) == []


@requirement("CSL-7")
def test_an_interval_can_be_set_and_a_task_switched_off(open_bank, clock):
    times = replace(Settings().schedule, consolidate_hours=1.0, maintain_hours=0.0)
    bank = open_bank(settings=replace(open_bank().settings, schedule=times))
    bank.record(timeout(0))
    clock.advance(days=AN_INTERVAL / 24)
    assert {turn.kind for turn in due(bank)} == {"consolidate", "promote"}
    run_due(bank)
    clock.advance(days=1.1 / 24)
    assert {turn.kind for turn in due(bank)} == {"consolidate"}


@requirement("CSL-7")
def test_several_workers_queue_a_turn_once(plain_bank, open_bank, clock):
    plain_bank.record(timeout(0))
    clock.advance(days=AN_INTERVAL)
    other = open_bank()

    async def both():
        one, two = Scheduler(plain_bank.context), Scheduler(other.context)
        assert one.due() == two.due() != []
        return one.queue(), two.queue()

    assert anyio.run(both) == (3, 0)
    assert sorted(job.kind for job in plain_bank.jobs()) == sorted(KINDS)


@requirement("CSL-7")
def test_one_projects_failure_does_not_stop_the_others(
    bank, timeouts, clock, open_bank, monkeypatch
):
    other = bank.within(open_bank.project("elsewhere"))
    doughs = [other.record(dough(number)) for number in range(2)]
    clock.advance(days=AN_INTERVAL)
    look = scheduling.consolidate.look

    def broken(seen, **options):
        if seen.view.workspace == bank.view.workspace:
            raise RuntimeError("this project is beyond repair")
        return look(seen, **options)

    monkeypatch.setattr(scheduling.consolidate, "look", broken)
    run_due(bank)
    assert {other.get(m.id).state for m in doughs} == {State.ARCHIVED}
    [job] = [job for job in bank.jobs() if job.kind == "consolidate"]
    assert job.state is JobState.WAITING and "RuntimeError" in job.error


@requirement("CSL-7")
def test_what_takes_too_long_is_ended_and_the_others_go_on(bank, clock, monkeypatch):
    monkeypatch.setattr(scheduling, "LIMIT_MINUTES", 0.01)
    sources = [bank.record(timeout(number)) for number in range(3)]
    clock.advance(days=AN_INTERVAL)

    async def for_ever(_):
        await anyio.sleep_forever()

    model = Scripted(["never said"], delay=1, sleep=for_ever)
    assert run_due(bank, model=model) == 3
    assert {job.state for job in bank.jobs()} == {JobState.DONE}
    assert {bank.get(m.id).state for m in sources} == {State.ACTIVE}


@requirement("CSL-7")
def test_it_stops_cleanly(plain_bank, clock):
    plain_bank.record(timeout(0))
    clock.advance(days=AN_INTERVAL)

    async def run():
        schedule = Scheduler(plain_bank.context)
        worker = Worker(plain_bank.context, schedule.tasks(), idle_seconds=0.01)
        async with anyio.create_task_group() as group:
            group.start_soon(schedule.run)
            group.start_soon(worker.run)
            with anyio.fail_after(30):
                while worker.done < len(KINDS):
                    await anyio.sleep(0.01)
            schedule.stop()
            worker.stop()

    anyio.run(run)
    assert {job.state for job in plain_bank.jobs()} == {JobState.DONE}


@requirement("CON-6")
@requirement("CON-8")
def test_care_is_taken_daily_of_evidence_and_of_what_proved_useless(plain_bank, clock):
    memory = plain_bank.record(timeout(0))
    for session in range(40):
        plain_bank.outcome(memory.id, succeeded=False, session=str(session))
    clock.advance(days=31)
    before = plain_bank.get(memory.id).confidence
    run_due(plain_bank)
    assert plain_bank.maintain().rolled_up == 0, "it was rolled up already"
    assert {told.rater for told in plain_bank.evidence(memory.id)} == {plain_bank.context.author}
    stored = plain_bank.get(memory.id)
    assert stored.confidence == pytest.approx(before) and stored.state is State.ARCHIVED


def test_done_turns_are_forgotten_after_a_month_but_not_the_last(plain_bank, clock):
    plain_bank.record(timeout(0))
    for _ in range(40):
        run_due(plain_bank)
        clock.advance(days=1.2)
    assert 3 * 24 <= len(plain_bank.jobs(limit=1000)) <= 3 * 30
    assert DueTask(kind="maintain", workspace=plain_bank.view.workspace) in due(plain_bank)

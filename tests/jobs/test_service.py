"""Who works on a bank, and how they end."""

from __future__ import annotations

import threading

import anyio
import pytest
from tests.jobs.test_learner import MENDED
from tests.requirement import requirement

from reasonbank.errors import LeaseLost
from reasonbank.jobs import background as in_thread
from reasonbank.jobs.background import Background
from reasonbank.jobs.worker import Worker
from reasonbank.ledger import holders
from reasonbank.ledger.port import LEASE
from reasonbank.llm.scripted import Scripted
from reasonbank.model import JobState
from reasonbank.store import working
from reasonbank.testing import a_trace

SECONDS = 30
IDLE_FOR_AN_HOUR = {**(Worker.__init__.__kwdefaults__ or {}), "idle_seconds": 3600.0}


@requirement("DIS-11")
def test_a_library_user_has_the_work_done_with_one_call(plain_bank, open_bank):
    plain_bank.distil(MENDED)
    elsewhere = plain_bank.within(open_bank.project("elsewhere"))
    elsewhere.distil(a_trace())
    worked = plain_bank.work()
    assert worked.done["distil"] == 1 and worked.failed == () and worked.waiting == 0
    assert [memory.id for memory in plain_bank.memories()] == list(worked.learned)
    assert elsewhere.jobs(state="waiting"), "another project is left alone"
    assert plain_bank.work().learned == ()
    assert plain_bank.work(everywhere=True).done["distil"] == 1


@requirement("DIS-11")
def test_also_from_within_an_event_loop(plain_bank):
    plain_bank.distil(MENDED)

    async def ask():
        return plain_bank.work()

    assert len(anyio.run(ask).learned) == 1


def test_what_failed_is_told_with_its_reason(open_bank):
    bank = open_bank(model=Scripted(["no JSON"] * 9))
    job = bank.distil(a_trace())
    worked = bank.work()
    [(id, reason)] = worked.failed
    assert id == job.id and "InvalidReply" in reason
    assert worked.waiting == 1


@requirement("DIS-11")
def test_a_bank_opened_for_it_learns_in_the_background_until_it_is_closed(open_bank):
    asked = threading.Event()

    def answer(call):
        asked.set()
        return {"memories": []}

    bank = open_bank(model=Scripted(answer), background=True)
    bank.distil(a_trace())
    assert asked.wait(SECONDS)
    other = open_bank()
    bank.close()
    assert working.who(other.context) is None
    assert {job.state for job in other.jobs() if job.kind == "distil"} == {JobState.DONE}
    open_bank(background=True, read_only=True).close()


@requirement("DIS-2")
def test_whoever_ends_gives_back_what_it_has_not_done_and_that_was_no_attempt(
    open_bank, monkeypatch
):
    asked = threading.Event()

    class Slow(Scripted):
        async def complete(self, *arguments, **options):
            asked.set()
            await anyio.sleep_forever()

    monkeypatch.setattr(in_thread, "CANCEL_SECONDS", SECONDS)
    bank = open_bank()
    bank.store.thinker = Slow([])
    background = Background(bank.context, lambda: bank.store.thinker, farewell=0.0)
    background.start()
    job = bank.distil(a_trace())
    assert asked.wait(SECONDS)
    background.stop()
    [left] = [each for each in bank.jobs() if each.id == job.id]
    assert (left.state, left.attempts) == (JobState.WAITING, 0)
    assert working.who(bank.context) is None


@requirement("DIS-11")
def test_one_at_a_time_works_and_who_fell_silent_loses_the_post(plain_bank, clock):
    context = plain_bank.seen_by(surface="mcp").context
    held = working.take(context, holders.name())
    assert held is not None and working.take(context, holders.name()) is None
    working.keep(context, held, clock(), clock())
    now = working.who(context)
    assert (now.surface, now.last_run is not None) == ("mcp", True)
    assert plain_bank.statistics().queue.running == 0, "the post is no work"
    clock.now += LEASE + 1
    assert working.who(context) is None
    assert working.take(context, holders.name()) is not None
    with pytest.raises(LeaseLost):
        working.keep(context, held, clock(), None)
    working.leave(context, held)
    assert working.who(context) is not None, "who lost it cannot leave it either"


def test_work_that_is_queued_here_is_taken_up_at_once(open_bank, monkeypatch):
    """Without being told, the worker would look again in an hour."""
    monkeypatch.setattr("reasonbank.jobs.worker.Worker.__init__.__kwdefaults__", IDLE_FOR_AN_HOUR)
    asked = threading.Event()
    bank = open_bank(model=Scripted(lambda call: asked.set() or {"memories": []}), background=True)

    async def at_work():
        while working.who(bank.context) is None:
            await anyio.sleep(0.01)

    anyio.run(at_work)
    bank.distil(a_trace())
    assert asked.wait(SECONDS)

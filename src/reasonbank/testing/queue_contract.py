"""What the queue of every ``Ledger`` must do; part of ``LedgerContract``."""

from __future__ import annotations

import pytest

from reasonbank.errors import LeaseLost, NotFound, Refused
from reasonbank.ledger.port import LEASE, Ledger, Writing
from reasonbank.model import Job, JobState
from reasonbank.testing.builders import a_memory
from reasonbank.testing.ledger_story import Story


class QueueContract:
    def test_a_job_is_queued_once_and_claimed_by_one_worker(self, ledger: Ledger) -> None:
        job = Job(kind="k", subject="s", workspace="here")
        assert ledger.write(lambda txn: txn.queue.enqueue(job, now=10))
        assert not ledger.write(lambda txn: txn.queue.enqueue(job, now=11))
        assert not ledger.read().queue.due(9, ["k"]) and not ledger.read().queue.due(10, ["other"])
        assert ledger.read().queue.due(10, ["k"])
        (held,) = ledger.write(lambda txn: txn.queue.claim("w1", 10, 5, 3, ["k"]))
        assert (held.claim, held.attempts, held.state) == ("w1", 1, JobState.RUNNING)
        assert ledger.write(lambda txn: txn.queue.claim("w2", 11, 5, 3, ["k"])) == []
        assert ledger.write(lambda txn: txn.queue.claim_one(job.id, "w2", 11, 99)) is None
        ledger.write(lambda txn: txn.queue.finish(held))
        with pytest.raises(LeaseLost):
            ledger.write(lambda txn: txn.queue.fail(held, "after all", None))
        assert ledger.read().queue.jobs("here", [JobState.DONE], 5)[0].id == job.id
        assert ledger.write(lambda txn: txn.queue.drop_done(before=11)) == 1

    def test_whoever_lost_its_lease_changes_nothing(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory()
        job = Job(kind="k", subject="s", workspace="here")
        ledger.write(lambda txn: txn.queue.enqueue(job, now=10))
        (late,) = ledger.write(lambda txn: txn.queue.claim("w1", 10, 5, 3, ["k"]))
        later = 10 + LEASE + 1
        (held,) = ledger.write(lambda txn: txn.queue.claim("w2", later, 5, 3, ["k"]))

        def finish(txn: Writing) -> None:
            txn.append(story.recorded(memory))
            txn.queue.finish(late)

        with pytest.raises(LeaseLost):
            ledger.write(finish)
        assert not ledger.read().taken(memory.id)
        ledger.write(lambda txn: txn.queue.fail(held, "it broke", later + 5))
        known = ledger.read().queue.job(job.id)
        assert known is not None and (known.error, known.state) == ("it broke", JobState.WAITING)
        assert not ledger.read().queue.due(later + 4, ["k"])
        assert ledger.read().queue.due(later + 5, ["k"])

    def test_a_job_whose_workers_all_died_is_given_up(self, ledger: Ledger) -> None:
        job = Job(kind="k", subject="s", workspace="here")
        ledger.write(lambda txn: txn.queue.enqueue(job, now=0))
        for attempt in range(3):
            now = attempt * (LEASE + 1)
            claimed = ledger.write(lambda txn, now=now: txn.queue.claim("w", now, 5, 2, ["k"]))  # type: ignore[misc]
            assert len(claimed) == (attempt < 2)
        assert ledger.read().queue.depth("here").dead == 1
        ledger.write(lambda txn: txn.queue.retry(job.id, 5))
        assert ledger.read().queue.depth("here").waiting == 1

    def test_a_job_is_found_by_its_kind_held_for_longer_and_dropped(self, ledger: Ledger) -> None:
        first, second = (Job(kind="k", subject=f"{n}", workspace="here") for n in range(2))
        for now, job in enumerate((first, second)):
            ledger.write(lambda txn, job=job, now=now: txn.queue.enqueue(job, now))  # type: ignore[misc]
        queue = ledger.read().queue
        oldest, latest = queue.oldest("k", "here", 5), queue.latest("k", "here")
        assert oldest and latest and (oldest.id, latest.id) == (first.id, second.id)
        assert queue.oldest("k", "there", 5) is None and queue.latest("other", "here") is None
        held = ledger.write(lambda txn: txn.queue.claim_one(first.id, "w", 5, 10))
        assert held is not None
        ledger.write(lambda txn: txn.queue.hold(held, 100))
        assert ledger.write(lambda txn: txn.queue.claim_one(first.id, "w2", 50, 60)) is None
        with pytest.raises(Refused):
            ledger.write(lambda txn: txn.queue.drop(first.id))
        ledger.write(lambda txn: txn.queue.fail(held, "never", None))
        assert ledger.read().queue.depth("here").dead == 1
        ledger.write(lambda txn: txn.queue.drop(first.id))
        with pytest.raises(NotFound):
            ledger.write(lambda txn: txn.queue.drop(first.id))
        assert [job.id for job in ledger.read().queue.jobs(None, [*JobState], 5)] == [second.id]
        assert ledger.read().queue.jobs(None, [], 5) == []

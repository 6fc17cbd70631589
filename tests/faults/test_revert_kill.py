"""Killed at any instant, a revert was done whole or not at all."""

from __future__ import annotations

from pathlib import Path

from fault_tools import a_memory, open_bank, processes, scaled, unlike_its_log

MEMORIES = 300


def revert(path: Path) -> None:
    with open_bank(path) as bank:
        bank.revert(author="mallory")


def active(path: Path) -> int:
    with open_bank(path) as bank:
        return len(bank.memories(limit=1000))


def test_a_revert_that_is_killed_is_done_whole_or_not_at_all(path: Path) -> None:
    with open_bank(path) as bank:
        mallory = bank.seen_by(author="mallory")
        for number in range(MEMORIES):
            mallory.record(a_memory(f"Lesson {number}"))
        bank.record(a_memory("Mine"))
    seen, wait = set(), 0.05
    for _ in range(scaled("REASONBANK_TEST_KILLS", 12)):
        process = processes.Process(target=revert, args=(path,), daemon=True)
        process.start()
        process.join(wait)
        process.kill()
        process.join()
        left = active(path)
        assert left in (1, MEMORIES + 1)
        seen.add(left)
        if left == 1:
            with open_bank(path) as bank:
                bank.undo_batch(bank.batches()[0].batch)
            assert active(path) == MEMORIES + 1
        # Nearer to the moment at which it is done, from whichever side.
        wait *= 0.8 if left == 1 else 1.5
    assert unlike_its_log(path) == {}
    assert seen == {1, MEMORIES + 1}, "killed too early or too late each time"

"""Whatever happens on the way, banks that can reach each other end up with the same logs.

`make soak` lives 10,000 lives, CI some of the same.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from simulated import lived
from tests.faults.fault_tools import keep_count, scaled
from tests.requirement import requirement

from reasonbank.peers import merge


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten banks in one process verify each signature ten times; the verdict is always the same."""
    monkeypatch.setattr(merge, "verify", functools.lru_cache(maxsize=4096)(merge.verify))
    # Short logs are to be told in several segments, too.
    monkeypatch.setattr(merge, "MOST_ENTRIES", 6)


@pytest.mark.slow
@requirement("BUS-4")
def test_after_partitions_crashes_and_lies_all_banks_are_equal() -> None:
    first, lives = scaled("REASONBANK_TEST_SEED", 1), scaled("REASONBANK_TEST_GOSSIP", 15)
    total: Counter[str] = Counter()
    rounds = 0
    for seed in range(first, first + lives):
        try:
            world = lived(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        assert world.flaws() == [], f"seed {seed}"
        rounds = max(rounds, world.counts.pop("rounds"))
        total += world.counts
    keep_count(
        "gossip",
        {"lives": lives, "first seed": first, "rounds after healing, at most": rounds, **total},
    )


def test_a_life_can_be_lived_again() -> None:
    assert lived(7, steps=200).digest() == lived(7, steps=200).digest()

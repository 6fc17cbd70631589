"""Banks that were parted, and whose programs died, end up equal: over real QUIC."""

from __future__ import annotations

import asyncio

import pytest
from tests.faults.fault_tools import keep_count, scaled
from tests.peers.convergence import ten_banks
from tests.requirement import requirement


@requirement("BUS-1", "BUS-4")
@pytest.mark.slow
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "probation"])
def test_after_any_partition_heals_all_banks_are_equal_and_evidence_counts_once(tmp_path, trusted):
    """In a soak with 50 seeds each, ten banks and 1,000 operations."""
    seeds = scaled("REASONBANK_TEST_BUS_SEEDS", 1)
    first = scaled("REASONBANK_TEST_SEED", 0)
    banks = scaled("REASONBANK_TEST_BUS_BANKS", 5)
    operations = scaled("REASONBANK_TEST_BUS_OPERATIONS", 120)
    for seed in range(first, first + seeds):
        folder = tmp_path / str(seed)
        folder.mkdir()
        told = asyncio.run(
            ten_banks(folder, seed, banks=banks, operations=operations, trusted=trusted)
        )
        one, *others = told.values()
        for other in others:
            for what, known in one.items():
                assert other[what] == known, f"seed {seed}: {what}"
        assert one["memories"] and one["evidence"]
    keep_count(f"bus, trusted {trusted}", {"seeds": seeds, "banks": banks,
               "operations in each": operations})  # fmt: skip

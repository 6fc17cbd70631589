"""Any sequence of changes, saves, erasures and reopenings, against a dict and brute force."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reasonbank.index import local
from reasonbank.index.local import LocalIndex
from reasonbank.index.port import Changes
from reasonbank.testing.index_contract import unit

DIMENSIONS = 4
# Few different vectors, so that ties are common.
GRID = np.array(list(np.ndindex(3, 3, 3, 3)), np.float32) - [0, 1, 0, 1]
VECTORS = unit(GRID[GRID.any(axis=1)])
NUMS = st.integers(0, 14)
REALMS = st.integers(0, 3)
WHICH = st.sampled_from(["first", "second"])


@dataclass(frozen=True)
class Row:
    seq: int
    realm: int
    vector: int | None


class Ledger:
    def __init__(self) -> None:
        self.seq = 0
        self.rows: dict[int, Row] = {}

    def put(self, num: int, realm: int, vector: int | None) -> None:
        self.seq += 1
        self.rows[num] = Row(self.seq, realm, vector)

    def since(self, position: int) -> Changes:
        new = sorted((row.seq, num, row) for num, row in self.rows.items() if row.seq > position)
        vectors = np.zeros((len(new), DIMENSIONS), np.float32)
        for at, (_, _, row) in enumerate(new):
            if row.vector is not None:
                vectors[at] = VECTORS[row.vector]
        return Changes(
            seqs=np.array([seq for seq, _, _ in new], np.int64),
            nums=np.array([num for _, num, _ in new], np.int64),
            realms=np.array([row.realm for _, _, row in new], np.int32),
            vectors=vectors,
            deleted=np.array([row.vector is None for _, _, row in new], np.bool_),
        )


class TwoProcesses(RuleBasedStateMachine):
    """Two indexes on one file, which follow one ledger before they search."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(local, "WORTH_SAVING", 2),
            mock.patch.object(local, "WORTH_CLOSING", 1),
        ]
        for patch in self.patches:
            patch.start()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "vectors"
        self.ledger = Ledger()
        self.indexes = {"first": self.opened(), "second": self.opened()}

    def opened(self) -> LocalIndex:
        return LocalIndex(self.path, dimensions=DIMENSIONS, model="m")

    def caught_up(self, which: str) -> LocalIndex:
        index = self.indexes[which]
        index.follow(self.ledger.since(index.position))
        return index

    def teardown(self) -> None:
        self.folder.cleanup()
        for patch in self.patches:
            patch.stop()

    @rule(
        changes=st.lists(
            st.tuples(NUMS, REALMS, st.integers(0, len(VECTORS) - 1) | st.none()), max_size=6
        )
    )
    def something_happens(self, changes: list[tuple[int, int, int | None]]) -> None:
        for num, realm, vector in changes:
            self.ledger.put(num, realm, vector)

    @rule(which=WHICH)
    def one_follows(self, which: str) -> None:
        assert self.caught_up(which).position == self.ledger.seq

    @rule(which=WHICH)
    def one_saves(self, which: str) -> None:
        self.indexes[which].save()

    @rule(which=WHICH)
    def one_closes_and_opens(self, which: str) -> None:
        self.indexes[which].close()
        self.indexes[which] = self.opened()

    @rule(which=WHICH)
    def one_is_killed_and_opens(self, which: str) -> None:
        self.indexes[which] = self.opened()

    @rule(length=st.floats(0, 1))
    def the_file_is_damaged(self, length: float) -> None:
        if self.path.exists():
            whole = self.path.read_bytes()
            self.path.unlink()
            self.path.write_bytes(whole[: int(length * (len(whole) - 1))])

    @rule(which=WHICH, nums=st.lists(NUMS, max_size=4))
    def one_forgets(self, which: str, nums: list[int]) -> None:
        index = self.caught_up(which)
        for num in nums:
            self.ledger.put(num, 0, None)
        index.erase(np.array(nums, np.int64))
        assert not index.vectors(np.array(nums, np.int64)).any()

    @rule(
        which=WHICH,
        query=st.integers(0, len(VECTORS) - 1),
        realms=st.lists(REALMS, max_size=4),
        limit=st.integers(0, 20),
        among=st.none() | st.sets(st.integers(0, 20)),
    )
    def one_searches(
        self, which: str, query: int, realms: list[int], limit: int, among: set[int] | None
    ) -> None:
        direction = VECTORS[query] / np.linalg.norm(VECTORS[query])
        expected = sorted(
            (-(VECTORS[row.vector] * direction).sum(), num)
            for num, row in self.ledger.rows.items()
            if row.vector is not None and row.realm in realms and (among is None or num in among)
        )[:limit]
        nums, cosines = self.caught_up(which).nearest(
            VECTORS[query],
            realms=realms,
            limit=limit,
            among=None if among is None else np.array(sorted(among), np.int64),
        )
        assert list(zip((-cosines).tolist(), nums.tolist(), strict=True)) == expected

    @invariant()
    def both_count_the_same(self) -> None:
        live = sum(row.vector is not None for row in self.ledger.rows.values())
        for which in self.indexes:
            assert len(self.caught_up(which)) == live

    @invariant()
    def the_files_of_both_are_sound(self) -> None:
        assert all(index.verify() for index in self.indexes.values())


TwoProcesses.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_any_sequence_of_events_gives_what_brute_force_gives = TwoProcesses.TestCase

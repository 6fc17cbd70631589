"""What every ``Ledger`` must do with vectors; part of ``LedgerContract``."""

from __future__ import annotations

import numpy as np

from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Ledger
from reasonbank.ledger.vectors import PackedVector
from reasonbank.testing.builders import a_memory
from reasonbank.testing.ledger_story import HERE, Story, num_of, told

OLD = np.full(4, 0.5, np.float16).tobytes()
NEW = np.ones(4, np.float16).tobytes()


class VectorContract:
    def test_vectors_are_followed_by_numbers_that_only_grow(self, ledger: Ledger) -> None:
        story, memory, stale = Story(), a_memory(), a_memory()
        told(ledger, story.joined(), story.recorded(memory), story.recorded(stale))
        nums = [num_of(ledger, each) for each in (memory, stale)]
        vector = np.ones(4, np.float16).tobytes()
        vectors = [PackedVector(nums[0], 1, vector), PackedVector(nums[1], 7, vector)]
        ledger.write(lambda txn: txn.put_vectors("m", vectors))
        assert ledger.read().unembedded_count("m") == (1, 0)
        assert ledger.read().unembedded_count("another") == (1, 1)
        for among, missing in ((None, nums[1:]), (nums, nums[1:]), (nums[:1], [])):
            found = ledger.read().unembedded(limit=5, among=among)
            assert [num for num, _ in found] == missing
        assert [num for num, _ in ledger.read().outdated("another", limit=5)] == nums[:1]
        assert ledger.read().outdated("m", limit=5) == []
        assert dict(ledger.read().nums_of("here")) == {nums[0]: memory.id, nums[1]: stale.id}
        first = ledger.read().vector_changes("m", 0, 10, 4)
        assert (first.nums.tolist(), first.deleted.tolist()) == (nums[:1], [False])
        told(ledger, story(EventType.ARCHIVED, memory.id, {}))
        moved = ledger.read().vector_changes("m", int(first.seqs[-1]), 10, 4)
        assert moved.realms.tolist() != first.realms.tolist() and moved.vectors.all()
        told(ledger, story(EventType.REVISED, memory.id, {"changes": {"title": "New"}}))
        gone = ledger.read().vector_changes("m", int(moved.seqs[-1]), 10, 4)
        assert (gone.nums.tolist(), gone.deleted.tolist()) == (nums[:1], [True])
        assert ledger.read().vector_position() == gone.seqs[-1]
        assert ledger.write(lambda txn: txn.drop_vectors("another")) == 1
        assert ledger.read().vector_position() >= gone.seqs[-1]
        assert not ledger.read().has_vectors("m")

    def test_vectors_of_compatible_models_are_followed_until_own_take_their_place(
        self, ledger: Ledger
    ) -> None:
        story, one, other = Story(), a_memory(), a_memory()
        told(ledger, story.joined(), story.recorded(one), story.recorded(other))
        nums = [num_of(ledger, each) for each in (one, other)]

        def followed(after: int = 0, like: tuple[str, ...] = ("old",)) -> dict[int, float]:
            new = ledger.read().vector_changes("new", after, 10, 4, like)
            assert not new.deleted.any()
            return dict(zip(new.nums.tolist(), new.vectors[:, 0].tolist(), strict=True))

        ledger.write(
            lambda txn: txn.put_vectors("old-int8", [PackedVector(num, 1, OLD) for num in nums])
        )
        assert followed() == dict.fromkeys(nums, 0.5)
        assert followed(like=("another",)) == followed(like=()) == {}
        assert ledger.read().embedded_elsewhere("new") == {"old-int8": 2}
        assert ledger.read().has_vectors("new", ("old",)) and not ledger.read().has_vectors("new")
        before = ledger.read().vector_position()
        own = [PackedVector(nums[0], 1, NEW)]
        ledger.write(lambda txn: txn.put_vectors("new", own, replacing=("old",)))
        assert followed(before) == {nums[0]: 1.0}
        assert followed() == {nums[0]: 1.0, nums[1]: 0.5}
        # Its index learns that it is gone, and so do those who go on with the earlier model.
        assert ledger.read().vector_changes("old-int8", before, 10, 4).deleted.tolist() == [True]
        before = ledger.read().vector_position()
        told(ledger, story(EventType.ARCHIVED, one.id, {}))
        assert followed(before) == {nums[0]: 1.0}
        assert ledger.read().embedded_elsewhere("new") == {"old-int8": 1}
        assert [num for num, _ in ledger.read().outdated("new", limit=5)] == nums[1:]

    def test_whatever_is_dropped_it_is_still_told_which_rows_are_gone(self, ledger: Ledger) -> None:
        story, memory, kept = Story(), a_memory(), a_memory()
        told(ledger, story.joined(), story.recorded(memory), story.recorded(kept))
        num, other = num_of(ledger, memory), num_of(ledger, kept)
        ledger.write(lambda txn: txn.put_vectors("old", [PackedVector(num, 1, OLD)]))
        ledger.write(lambda txn: txn.put_vectors("new", [PackedVector(other, 1, NEW)]))
        before = ledger.read().vector_position()
        told(ledger, story(EventType.REVISED, memory.id, {"changes": {"title": "New"}}))
        ledger.write(lambda txn: txn.drop_vectors("new"))
        left = ledger.read().vector_changes("new", before, 10, 4, ("old",))
        assert (left.nums.tolist(), left.deleted.tolist()) == ([num], [True])

    def test_a_vector_of_an_older_model_does_not_hide_that_of_a_newer(self, ledger: Ledger) -> None:
        """Two models may be in use at once: each has its own, and neither undoes the other's."""
        story, memory = Story(), a_memory()
        told(ledger, story.joined(), story.recorded(memory))
        num = num_of(ledger, memory)
        for model in ("first", "second", "first"):
            ledger.write(lambda txn, m=model: txn.put_vectors(m, [PackedVector(num, 1, NEW)]))  # type: ignore[misc]
        for model in ("first", "second"):
            assert ledger.read().unembedded_count(model) == (0, 0)
            assert ledger.read().outdated(model, limit=5) == []
        ledger.write(lambda txn: txn.drop_vectors("first"))
        assert ledger.read().unembedded_count("first") == (0, 0)

    def test_the_passages_of_a_long_memory_live_as_long_as_its_vector(self, ledger: Ledger) -> None:
        story, memory, brief = Story(), a_memory(), a_memory()
        told(ledger, story.joined(), story.recorded(memory), story.recorded(brief))
        num, other = num_of(ledger, memory), num_of(ledger, brief)

        def put(model: str, *passages: bytes, replacing: str = "none") -> None:
            revision = ledger.read().rows(HERE, [num])[0].revision
            packed = [
                PackedVector(num, revision, NEW, b"".join(passages)),
                PackedVector(other, 1, NEW),
            ]
            ledger.write(lambda txn: txn.put_vectors(model, packed, replacing=(replacing,)))

        def kept(model: str) -> dict[int, list[float]]:
            found = ledger.read().passages(model, [num, other], 4)
            return {num: vectors[:, 0].tolist() for num, vectors in found.items()}

        assert not ledger.read().has_passages() and kept("m") == {}
        put("m", OLD, NEW)
        assert ledger.read().has_passages()
        assert (kept("m"), kept("another")) == ({num: [0.5, 1.0]}, {})
        put("m", NEW)
        assert kept("m") == {num: [1.0]}
        told(ledger, story(EventType.ARCHIVED, memory.id, {}))
        assert kept("m") == {num: [1.0]}
        put("next", OLD, OLD, replacing="m")
        assert (kept("m"), kept("next")) == ({}, {num: [0.5, 0.5]})
        told(ledger, story(EventType.REVISED, memory.id, {"changes": {"title": "New"}}))
        assert not ledger.read().has_passages()
        put("next", OLD)
        ledger.write(lambda txn: txn.drop_vectors("another"))
        assert not ledger.read().has_passages()

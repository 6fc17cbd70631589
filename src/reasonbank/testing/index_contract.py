"""What every ``Index`` must do, as tests. An adapter's test file is a subclass:

    class TestLocalIndex(IndexContract):
        @pytest.fixture
        def open_index(self, tmp_path):
            return lambda: LocalIndex(tmp_path / "v", dimensions=DIMENSIONS, model="m")

Each call of ``open_index`` opens the same index again, as another process would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from reasonbank.index.port import Changes, Index

DIMENSIONS = 16
OpenIndex = Callable[[], Index]
Vectors = NDArray[np.float32]


def unit(vectors: NDArray[np.floating]) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / lengths, np.float32)


def some_vectors(count: int, *, dimensions: int = DIMENSIONS, seed: int = 0) -> Vectors:
    """As a ledger has them: half-precision numbers."""
    vectors = unit(np.random.default_rng(seed).standard_normal((count, dimensions)))
    return vectors.astype(np.float16).astype(np.float32)


def changes(
    nums: Iterable[int],
    vectors: Vectors,
    *,
    realms: int | Sequence[int] = 1,
    first: int = 1,
    deleted: bool = False,
) -> Changes:
    """One change a row, numbered from ``first``; ``deleted`` ones have zeros for vectors."""
    rows = np.fromiter(nums, np.int64)
    return Changes(
        seqs=np.arange(first, first + len(rows), dtype=np.int64),
        nums=rows,
        realms=np.broadcast_to(np.asarray(realms, np.int32), rows.shape),
        vectors=np.zeros_like(vectors) if deleted else vectors,
        deleted=np.full(len(rows), deleted),
    )


def brute_force(
    vectors: Vectors, query: Vectors, limit: int, *, rows: Sequence[int] | None = None
) -> list[int]:
    """The rows with the highest cosines, ties by the lower row."""
    among = np.arange(len(vectors)) if rows is None else np.asarray(rows)
    cosines = (vectors[among] * query).sum(axis=1)
    return [int(num) for num in among[np.lexsort((among, -cosines))][:limit]]


def found(
    index: Index, query: Vectors, *, limit: int = 10, realms: Sequence[int] = (1,)
) -> list[int]:
    nums, _ = index.nearest(query, realms=realms, limit=limit)
    return [int(num) for num in nums]


class IndexContract:
    """Subclass this and give ``open_index``; widen ``tolerance`` for a store that rounds, and
    take fewer ``steps`` where each costs a few requests."""

    tolerance = 1e-5
    steps = 300

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        raise NotImplementedError("a contract needs an index to test")

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> Index:
        return open_index()

    def test_an_empty_index_finds_nothing(self, index: Index) -> None:
        nums, cosines = index.nearest(some_vectors(1)[0], realms=[1], limit=5)
        assert (len(index), index.position, len(nums), len(cosines)) == (0, 0, 0, 0)

    def test_what_was_followed_is_seen_by_the_next_search(self, index: Index) -> None:
        vectors = some_vectors(2)
        index.follow(changes([7], vectors[:1], first=3))
        assert found(index, vectors[0]) == [7]
        index.follow(changes([9], vectors[1:], first=4))
        assert found(index, vectors[1], limit=1) == [9]
        assert (len(index), index.position) == (2, 4)

    def test_the_best_come_first_with_their_cosines(self, index: Index) -> None:
        vectors = some_vectors(50)
        index.follow(changes(range(50), vectors))
        query = some_vectors(1, seed=1)[0]
        nums, cosines = index.nearest(query, realms=[1], limit=10)
        assert nums.tolist() == brute_force(vectors, query, 10)
        np.testing.assert_allclose(cosines, vectors[nums] @ unit(query), atol=self.tolerance)

    def test_equal_vectors_come_in_the_order_of_their_numbers(self, index: Index) -> None:
        # In a graph of more that are equal some may be out of reach.
        vectors = np.repeat(some_vectors(1), 60, axis=0)
        index.follow(changes(range(60, 0, -1), vectors))
        assert found(index, vectors[0], limit=20) == list(range(1, 21))

    def test_only_the_realms_asked_for_are_searched(self, index: Index) -> None:
        vectors = some_vectors(40)
        index.follow(changes(range(40), vectors, realms=[num % 4 for num in range(40)]))
        query = some_vectors(1, seed=1)[0]
        for realms in ([2], [0, 3], [3, 3, 0], [1, 99]):
            rows = [num for num in range(40) if num % 4 in realms]
            assert found(index, query, realms=realms) == brute_force(vectors, query, 10, rows=rows)

    def test_no_realms_give_nothing(self, index: Index) -> None:
        vectors = some_vectors(3)
        index.follow(changes(range(3), vectors))
        assert found(index, vectors[0], realms=[]) == []
        nums, _ = index.nearest(vectors[0], realms=[], limit=3, among=np.arange(3))
        assert len(nums) == 0

    def test_the_last_change_of_a_row_wins(self, index: Index) -> None:
        vectors = some_vectors(3)
        index.follow(changes([5, 5], vectors[:2], realms=[1, 2]))
        assert found(index, vectors[1], realms=[1]) == []
        assert found(index, vectors[1], realms=[2]) == [5]
        index.follow(changes([5], vectors[2:], realms=1, first=3))
        assert found(index, vectors[2], realms=[1, 2]) == [5]
        assert len(index) == 1
        np.testing.assert_allclose(index.vectors(np.array([5]))[0], vectors[2], atol=self.tolerance)

    def test_a_deleted_row_is_gone_and_may_come_back(self, index: Index) -> None:
        vectors = some_vectors(2)
        index.follow(changes([1, 2], vectors))
        index.follow(changes([1], vectors[:1], first=3, deleted=True))
        assert found(index, vectors[0]) == [2]
        index.follow(changes([1], vectors[:1], first=4))
        assert found(index, vectors[0]) == [1, 2]

    def test_changes_that_are_here_already_do_no_harm(self, index: Index) -> None:
        vectors = some_vectors(2)
        old, new = changes([1], vectors[:1]), changes([1], vectors[1:], first=2)
        index.follow(old)
        index.follow(new)
        index.follow(old)
        np.testing.assert_allclose(index.vectors(np.array([1]))[0], vectors[1], atol=self.tolerance)
        assert (len(index), index.position) == (1, 2)

    @pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (3, 3), (1000, 3)])
    def test_any_limit_is_fine(self, index: Index, limit: int, expected: int) -> None:
        vectors = some_vectors(3)
        index.follow(changes(range(3), vectors))
        assert len(found(index, vectors[0], limit=limit)) == expected

    @pytest.mark.parametrize("share", [0.002, 0.05, 0.5, 1.0])
    def test_a_filter_is_exact(self, index: Index, share: float) -> None:
        count = 2000
        vectors = some_vectors(count)
        index.follow(changes(range(count), vectors, realms=[num % 2 for num in range(count)]))
        index.save()
        rng = np.random.default_rng(2)
        among = np.sort(rng.choice(2 * count, int(share * count), replace=False))
        for query in some_vectors(5, seed=1):
            nums, _ = index.nearest(query, realms=[1], limit=10, among=among)
            rows = [num for num in among.tolist() if num < count and num % 2 == 1]
            assert nums.tolist() == brute_force(vectors, query, 10, rows=rows)

    def test_an_empty_filter_gives_nothing(self, index: Index) -> None:
        vectors = some_vectors(3)
        index.follow(changes(range(3), vectors))
        nums, _ = index.nearest(vectors[0], realms=[1], limit=3, among=np.empty(0, np.int64))
        assert len(nums) == 0

    def test_vectors_are_given_by_row_number(self, index: Index) -> None:
        vectors = some_vectors(5)
        index.follow(changes(range(5), vectors))
        index.follow(changes([3], vectors[3:4], first=6, deleted=True))
        asked = np.array([4, 99, 0, 3, 4])
        np.testing.assert_allclose(
            index.vectors(asked),
            [vectors[4], np.zeros(DIMENSIONS), vectors[0], np.zeros(DIMENSIONS), vectors[4]],
            atol=self.tolerance,
        )
        assert index.vectors(asked[:0]).shape == (0, DIMENSIONS)

    def test_an_erased_row_is_gone_at_once_and_after_opening_again(
        self, open_index: OpenIndex
    ) -> None:
        vectors = some_vectors(20)
        index = open_index()
        index.follow(changes(range(20), vectors))
        index.save()
        index.erase(np.array([3, 4, 999]))
        assert len(index) == 18
        index.close()
        again = open_index()
        for opened in (index, again) if len(index) else (again,):
            assert not {3, 4} & set(found(opened, vectors[3], limit=20))
            assert not opened.vectors(np.array([3, 4])).any()

    def test_an_index_opened_again_goes_on_from_its_position(self, open_index: OpenIndex) -> None:
        vectors = some_vectors(300)
        everything = changes(range(300), vectors)
        index = open_index()
        index.follow(everything)
        index.save()
        index.close()
        again = open_index()
        assert again.position <= 300
        again.follow(everything)
        query = some_vectors(1, seed=1)[0]
        assert len(again) == 300
        assert found(again, query) == brute_force(vectors, query, 10)

    def test_several_threads_search_while_one_follows(self, index: Index) -> None:
        vectors = some_vectors(300 + self.steps)
        index.follow(changes(range(300), vectors[:300]))
        done = threading.Event()
        wrong: list[object] = []

        def search() -> None:
            while not done.is_set():
                nums, cosines = index.nearest(vectors[5], realms=[1], limit=8)
                exact = vectors[nums] @ unit(vectors[5])
                if nums[0] != 5 or not np.allclose(cosines, exact, atol=self.tolerance):
                    wrong.append((nums, cosines))

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for num in range(300, 300 + self.steps):
            index.follow(changes([num], vectors[num : num + 1], first=num + 1))
            if num % 50 == 0:
                index.save()
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(index) == 300 + self.steps

"""What the indexes on servers must do besides, when several processes follow one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reasonbank.errors import InvalidInput
from reasonbank.index.served import ServedIndex, Unreachable, _step
from reasonbank.testing.index_contract import (
    DIMENSIONS,
    IndexContract,
    OpenIndex,
    brute_force,
    changes,
    found,
    some_vectors,
)


def opened(open_index: OpenIndex) -> ServedIndex:
    index = open_index()
    assert isinstance(index, ServedIndex)
    return index


class ServedContract(IndexContract):
    def test_what_one_process_follows_every_other_finds(self, open_index: OpenIndex) -> None:
        one, other = opened(open_index), opened(open_index)
        vectors = some_vectors(3)
        one.follow(changes([1, 2], vectors[:2]))
        assert (other.position, found(other, vectors[1], limit=1)) == (2, [2])
        other.follow(changes([1], vectors[2:], first=3))
        assert found(one, vectors[2], limit=1) == [1]
        np.testing.assert_allclose(one.vectors(np.array([1]))[0], vectors[2], atol=1e-5)

    def test_a_slower_process_brings_nothing_old_back(self, open_index: OpenIndex) -> None:
        quick, slow = opened(open_index), opened(open_index)
        vectors = some_vectors(4)
        quick.follow(changes([9], vectors[3:]))
        # It read these, and then was asleep while the other one went on.
        late = _step(changes([1, 2], vectors[:2], first=2), slow.position)
        assert late is not None
        quick.follow(changes([1, 2], vectors[:2], first=2))
        quick.follow(changes([1], vectors[2:3], first=4))
        quick.follow(changes([2], vectors[:1], first=5, deleted=True))
        slow.engine.apply(late)
        # One that cannot tell begins again from where the slower one was.
        quick.follow(changes([1, 2], vectors[:2], first=2))
        quick.follow(changes([1], vectors[2:3], first=4))
        quick.follow(changes([2], vectors[:1], first=5, deleted=True))
        np.testing.assert_allclose(
            quick.vectors(np.array([1, 2])), [vectors[2], np.zeros(DIMENSIONS)], atol=1e-5
        )
        assert (len(slow), slow.position) == (2, 5)

    def test_changes_that_come_after_what_was_lost_are_not_taken(
        self, open_index: OpenIndex
    ) -> None:
        index, thief = opened(open_index), opened(open_index)
        vectors = some_vectors(3)
        index.follow(changes([1, 2], vectors[:2]))
        thief.reset()
        with pytest.raises(Unreachable, match="lost its rows"):
            index.nearest(vectors[0], realms=[1], limit=5)
        index.follow(replace(changes([3], vectors[2:], first=3), after=2))
        assert index.position == 0
        index.follow(changes([1, 2, 3], vectors))
        assert (len(index), index.position) == (3, 3)
        assert found(index, vectors[0], limit=1) == [1]

    def test_an_index_that_is_made_anew_by_another_is_noticed(self, open_index: OpenIndex) -> None:
        index, other = opened(open_index), opened(open_index)
        vectors = some_vectors(3)
        index.follow(changes([1, 2, 3], vectors))
        other.reset()
        other.follow(changes([1], vectors[:1]))
        with pytest.raises(Unreachable, match="lost its rows"):
            index.nearest(vectors[2], realms=[1], limit=5)
        assert index.position == 1

    def test_several_questions_are_one_call_and_each_has_its_answer(
        self, open_index: OpenIndex
    ) -> None:
        index = opened(open_index)
        vectors = some_vectors(40)
        index.follow(changes(range(40), vectors))
        queries = some_vectors(5, seed=1)
        queries[3] = np.nan
        answers = index.nearest_each(queries, realms=[1], limit=7)
        for place, (nums, _) in enumerate(answers):
            expected = [] if place == 3 else brute_force(vectors, queries[place], 7)
            assert nums.tolist() == expected

    def test_what_is_not_a_number_is_no_row(self, open_index: OpenIndex) -> None:
        index = opened(open_index)
        vectors = some_vectors(5)
        bad = vectors.copy()
        bad[1], bad[2], bad[3, 4] = np.nan, 0, np.inf
        index.follow(changes(range(5), bad))
        assert (len(index), found(index, vectors[0], limit=9)[0]) == (2, 0)

    def test_what_has_the_wrong_size_is_refused(self, open_index: OpenIndex) -> None:
        index = opened(open_index)
        with pytest.raises(InvalidInput, match="query"):
            index.nearest(np.zeros(3, np.float32), realms=[1], limit=1)
        with pytest.raises(InvalidInput, match="vectors"):
            index.follow(changes([1], some_vectors(1, dimensions=3)))

    def test_equal_cosines_are_sorted_also_where_the_answer_is_cut(
        self, open_index: OpenIndex
    ) -> None:
        index = opened(open_index)
        vectors = np.concatenate([some_vectors(30), np.repeat(some_vectors(1, seed=5), 40, axis=0)])
        index.follow(changes(range(70, 0, -1), vectors))
        assert found(index, vectors[-1], limit=5) == [1, 2, 3, 4, 5]

"""Beyond 50,000 rows a scan of the leading columns finds candidates; what it must not lose."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.requirement import requirement

from reasonbank.index.local import LocalIndex
from reasonbank.testing.index_contract import Vectors, brute_force, changes, some_vectors, unit

COUNT, DIMENSIONS = 60_000, 384


@cache
def like_sentences() -> Vectors:
    """Clusters in a space whose directions matter less and less, as with real embeddings."""
    rng = np.random.default_rng(0)
    weights = (1 / np.sqrt(1 + np.arange(DIMENSIONS) / 12)).astype(np.float32)
    topics = rng.standard_normal((800, DIMENSIONS), np.float32)
    own = rng.standard_normal((COUNT, DIMENSIONS), np.float32)
    return unit((topics[rng.integers(800, size=COUNT)] + own) * weights)


def nearly_parallel() -> Vectors:
    """One direction holds almost all of every vector, and says nothing about who is near."""
    return unit(10 * some_vectors(1, dimensions=DIMENSIONS) + without_structure())


def in_few_dimensions() -> Vectors:
    rng = np.random.default_rng(0)
    return unit(
        rng.standard_normal((COUNT, 8), np.float32)
        @ rng.standard_normal((8, DIMENSIONS), np.float32)
    )


@cache
def without_structure() -> Vectors:
    rng = np.random.default_rng(1)
    return unit(rng.standard_normal((COUNT, DIMENSIONS), np.float32))


def filled(path: Path | None, vectors: Vectors) -> LocalIndex:
    index = LocalIndex(path, dimensions=DIMENSIONS, model="m")
    index.follow(changes(range(COUNT), vectors))
    index.save()
    return index


def queries(vectors: Vectors) -> Vectors:
    """Near-duplicates of rows, mixtures of two, and directions that have to do with none."""
    rng = np.random.default_rng(5)
    rows = vectors[rng.integers(COUNT, size=24)]
    noise = rng.standard_normal((24, DIMENSIONS)) / np.sqrt(DIMENSIONS)
    return np.concatenate(
        [unit(rows[:8] + 0.2 * noise[:8]), unit(rows[8:16] + rows[16:]), unit(noise[16:])]
    )


@pytest.mark.parametrize(
    ("data", "reduced"),
    [
        (like_sentences, True),
        (nearly_parallel, True),
        (in_few_dimensions, True),
        (without_structure, False),
    ],
)
def test_the_ten_best_are_found_whatever_the_data_look_like(data, reduced: bool) -> None:
    vectors = data()
    index = filled(None, vectors)
    assert bool(len(index._view.snapshot.basis)) is reduced
    asked = queries(vectors)
    # Another row at the same distance is as good.
    tenth = np.partition(vectors @ asked.T, -10, axis=0)[-10]
    recalls = []
    for query, worst in zip(asked, tenth, strict=True):
        nums, cosines = index.nearest(query, realms=[1], limit=10)
        recalls.append(np.mean(cosines >= worst - 1e-5))
        assert len(nums) == 10 and (np.diff(cosines) <= 0).all()
    assert np.mean(recalls) >= 0.99


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalIndex, Vectors]:
    vectors = like_sentences()
    return filled(tmp_path_factory.mktemp("large") / "v", vectors), vectors


@requirement("RET-7")
@pytest.mark.parametrize("size", [1, 10, 600, 20_000, 60_000])
def test_filters_are_exact_at_any_size(large: tuple[LocalIndex, Vectors], size: int) -> None:
    index, vectors = large
    among = np.sort(np.random.default_rng(size).choice(COUNT, size, replace=False))
    for query in queries(vectors)[::4]:
        nums, _ = index.nearest(query, realms=[1], limit=100, among=among)
        assert nums.tolist() == brute_force(vectors, query, 100, rows=among.tolist())


@requirement("RET-7")
def test_a_filter_is_exact_even_where_the_reduced_scan_is_blind() -> None:
    """A row outside all that is common, and a query that has half of it."""
    vectors = in_few_dimensions()
    vectors[7] = some_vectors(1, dimensions=DIMENSIONS)[0]
    query = unit(vectors[9] + vectors[7])
    nums, _ = filled(None, vectors).nearest(query, realms=[1], limit=10, among=np.arange(COUNT))
    assert nums.tolist() == brute_force(vectors, query, 10)
    assert 7 in nums


def test_a_large_limit_is_exact_enough_too(large: tuple[LocalIndex, Vectors]) -> None:
    index, vectors = large
    for limit in (100, 5000):
        nums, _ = index.nearest(vectors[7], realms=[1], limit=limit)
        gold = brute_force(vectors, vectors[7], limit)
        assert len(set(nums.tolist()) & set(gold)) >= 0.99 * limit


def test_what_changed_since_counts_and_what_was_erased_is_nowhere(
    large: tuple[LocalIndex, Vectors],
) -> None:
    """Comes last: it changes the file that the tests above share."""
    index, vectors = large
    query = unit(vectors[100] + 0.1 * vectors[200])
    gone = np.array(brute_force(vectors, query, 5))
    head = np.array(index._view.snapshot.head[gone[0]])
    assert head.tobytes() in index._path.read_bytes()
    index.erase(gone[:1])
    assert head.tobytes() not in index._path.read_bytes()
    index.follow(changes(gone, vectors[gone], first=COUNT + 1, deleted=True))
    index.follow(changes([10**6], query[None], first=COUNT + 9))
    expected = [10**6, *brute_force(vectors, query, 14)[5:]]
    assert index.nearest(query, realms=[1], limit=10)[0].tolist() == expected
    again = LocalIndex(index._path, dimensions=DIMENSIONS, model="m")
    assert (len(again), again.verify()) == (COUNT - 5, True)

"""Clusters: any two members are near each other, and no n × n matrix is made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement

from reasonbank.index import clusters
from reasonbank.index.clusters import centre, grouped, pairs


def units(rng, count, dimensions=8):
    vectors = rng.normal(size=(count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def at(*degrees):
    """Directions in a plane: cosines can be read off the angles."""
    turned = np.radians(np.array(degrees, np.float32))
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


@requirement("CSL-1")
@given(st.integers(0, 10_000), st.floats(0.3, 0.95))
@settings(max_examples=40, deadline=None)
def test_any_two_members_are_near_and_each_row_is_in_one_cluster(seed, threshold):
    vectors = units(np.random.default_rng(seed), 60, 4)
    found = grouped(pairs(vectors, threshold), most=100)
    members = [row for rows in found for row in rows]
    assert len(members) == len(set(members))
    for rows in found:
        assert len(rows) >= 2
        assert (vectors[rows] @ vectors[rows].T).min() >= threshold - 1e-5
    alone = sorted(set(range(60)) - set(members))
    cosines = vectors[alone] @ vectors[alone].T - 2 * np.eye(len(alone))
    assert not alone or cosines.max() < threshold + 1e-5, "two that are near were left alone"


@requirement("CSL-1")
def test_a_chain_of_neighbours_is_not_one_cluster():
    # Each is 20 degrees from the next; the first and the last have little in common.
    vectors = at(0, 20, 40, 60)
    found = grouped(pairs(vectors, np.cos(np.radians(25))), most=100)
    assert sorted(map(tuple, found)) == [(0, 1), (2, 3)]


def test_the_order_of_the_rows_changes_no_cluster():
    vectors = units(np.random.default_rng(3), 200, 4)
    order = np.random.default_rng(4).permutation(200)

    def clusters_of(rows):
        return {frozenset(rows[i] for i in c) for c in grouped(pairs(vectors[rows], 0.9), most=50)}

    assert clusters_of(np.arange(200)) == clusters_of(order)


def test_no_cluster_is_larger_than_it_may_be():
    found = grouped(pairs(np.repeat(at(10), 50, axis=0), 0.9), most=16)
    assert max(map(len, found)) <= 16 and sum(map(len, found)) >= 45


def test_rows_that_may_not_be_together_are_not():
    found = grouped(pairs(at(0, 1, 2, 3), 0.9), most=9, together=lambda a, b: (a + b) % 2 == 0)
    assert sorted(map(tuple, found)) == [(0, 2), (1, 3)]


def test_of_many_rows_nearly_all_pairs_are_found_without_comparing_all(monkeypatch):
    rng = np.random.default_rng(5)
    around = np.repeat(units(rng, 1500, 64), 3, axis=0)
    vectors = around + 0.05 * rng.normal(size=around.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    compared = sum(len(rows) ** 2 for rows in clusters._cells(vectors))
    assert compared < len(vectors) ** 2 / 2
    some = pairs(vectors, 0.75)
    monkeypatch.setattr(clusters, "FEW", len(vectors))
    every = pairs(vectors, 0.75)
    assert set(zip(some.first, some.second, strict=True)) <= set(
        zip(every.first, every.second, strict=True)
    )
    # Directions at random are the hardest case: nothing lies between the groups.
    assert len(some) >= 0.95 * len(every)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_rows_have_no_pairs(count):
    assert len(pairs(at(0)[:count], 0.5)) == 0


def test_of_a_crowd_only_the_nearest_neighbours_are_kept():
    found = pairs(np.repeat(at(10), 500, axis=0), 0.9)
    assert len(found) <= 500 * clusters.MOST_NEIGHBOURS


def test_a_crowd_is_reduced_while_it_is_looked_through(monkeypatch):
    vectors = np.repeat(at(10, 12), 400, axis=0)
    at_once = pairs(vectors, 0.9)
    monkeypatch.setattr(clusters, "MOST_AT_ONCE", 1_000)
    assert list(pairs(vectors, 0.9)) == list(at_once)


def test_the_centre_is_nearest_to_all_others():
    place, mean, least = centre(at(0, 10, 30))
    assert place == 1
    assert least == pytest.approx(np.cos(np.radians(30)), abs=1e-5)
    assert least < mean < 1

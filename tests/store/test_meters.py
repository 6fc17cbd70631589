"""Counts and durations in bounded room."""

import math
import threading

from hypothesis import given, strategies as st

from reasonbank.store.meters import CELLS, GROWTH, TOTAL, Meters, cell_of, upper_edge

MICROSECOND, LONGEST = 1_000, 800_000_000_000
durations = st.lists(st.integers(MICROSECOND, LONGEST), min_size=1, max_size=300)


def measured(values, name="search"):
    meters = Meters()
    for value in values:
        meters.took(name, value)
    return meters


@given(durations, st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_at_most_five_percent_off(values, share):
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1] / 1e9
    told = measured(values).quantile("search", share)
    assert abs(told - exact) <= 0.05 * exact


@given(durations, durations)
def test_meters_of_two_processes_add_up(mine, yours):
    both = measured(mine)
    both.add(measured(yours))
    assert sorted(both) == sorted(measured(mine + yours))


@given(durations, durations)
def test_what_came_since_is_what_was_added(before, since):
    meters = measured(before)
    earlier = Meters(meters)
    meters.add(measured(since))
    earlier.add(meters.beyond(earlier))
    assert sorted(earlier) == sorted(meters)
    assert meters.beyond(earlier) == []


@given(st.lists(st.integers(0, 1 << 70), max_size=200))
def test_room_is_bounded_whatever_is_measured(values):
    meters = measured(values)
    assert meters.times("search") == len(values)
    assert all(TOTAL <= cell < CELLS for _, cell, _ in meters)


@given(st.integers(0, 1 << 50))
def test_a_duration_lies_within_its_cell(nanoseconds):
    cell = cell_of(nanoseconds)
    assert nanoseconds / 1e9 <= upper_edge(cell) * (1 + 1e-9)
    if cell:
        assert nanoseconds / 1e9 > min(upper_edge(cell), 900) / GROWTH**2


def test_nothing_measured_is_not_known():
    meters = Meters()
    assert meters.quantile("search", 0.5) is None
    assert meters.total("search") is None
    assert meters.times("search") == 0


def test_no_count_is_lost_between_threads():
    meters = Meters()

    def work():
        for _ in range(2000):
            meters.count("searches")
            meters.took("search", 5_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meters.total("searches") == meters.times("search") == 8000
    assert meters.total("search") == 8000 * 5

"""The one cache in memory that all others are made of."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, strategies as st

from reasonbank.bounded import Bounded


def test_what_was_used_last_stays():
    kept = Bounded(2)
    assert [kept.put("a", 1), kept.put("b", 2)] == [0, 0]
    assert kept.get("a") == 1
    assert kept.put("c", 3) == 1
    assert [kept.get("a"), kept.get("b"), kept.get("c")] == [1, None, 3]


def test_a_value_that_is_put_again_replaces_the_old_one_and_nobody_goes():
    kept = Bounded(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.put("a", 3) == 0
    assert kept.put("c", 4) == 1
    assert [kept.get("a"), kept.get("b")] == [3, None]


def test_a_peek_is_no_use_and_asks_for_no_age():
    kept = Bounded(2, seconds=10)
    kept.put("a", 1, now=0)
    kept.put("b", 2, now=0)
    assert kept.peek("a") == 1
    assert kept.get("b", now=10) is None
    assert kept.peek("b") == 2
    kept.put("c", 3, now=10)
    assert kept.peek("a") is None


def test_what_is_too_old_is_not_given_out():
    kept = Bounded(2, seconds=10)
    kept.put("a", 1, now=100)
    assert kept.get("a", now=109.9) == 1
    assert kept.get("a", now=110) is None
    kept.put("a", 2, now=110)
    assert kept.get("a", now=119) == 2


def test_a_cache_of_no_size_keeps_nothing():
    kept = Bounded(0)
    assert kept.put("a", 1) == 1
    assert kept.get("a") is None


def test_what_is_empty_is_kept_too():
    kept = Bounded(2)
    kept.put("a", ())
    assert kept.get("a") == ()


def test_a_heavy_value_takes_the_room_of_several():
    kept = Bounded(10, weigh=len)
    for key in "abc":
        kept.put(key, "123")
    assert kept.put("heavy", "12345678") == 3
    assert kept.get("heavy") == "12345678"
    assert kept.put("too heavy", "x" * 11) == 2
    assert kept.put("a", "1234567890") == 0


def test_what_is_removed_gives_its_room_back():
    kept = Bounded(10, weigh=len)
    kept.put("a", "12345678")
    kept.remove("a")
    kept.remove("never there")
    assert kept.get("a") is None
    assert kept.put("b", "1234567890") == 0
    kept.clear()
    assert kept.get("b") is None
    assert kept.put("c", "1234567890") == 0


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 6))), st.integers(0, 12))
def test_it_is_never_fuller_than_its_size_and_counts_who_goes(puts, size):
    kept = Bounded(size, weigh=lambda value: value)
    known = {}
    for key, value in puts:
        known.pop(key, None)
        known[key] = value
        gone = 0
        while sum(known.values()) > size:
            del known[next(iter(known))]
            gone += 1
        assert kept.put(key, value) == gone
        assert {key: kept.peek(key) for key in "abcde"} == dict.fromkeys("abcde") | known


def test_threads_may_share_it():
    kept = Bounded(10, weigh=lambda value: value % 3)

    def work(start):
        for number in range(start, start + 2000):
            kept.put(number % 50, number)
            kept.get(number % 7)
            kept.remove(number % 11)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    for key in range(50):
        kept.remove(key)
    assert [kept.put(n, 1) for n in range(11)] == [0] * 10 + [1]

"""What outcomes of similar questions add to resemblance: the arithmetic, without a bank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from reasonbank.trust import experience

HERE = np.eye(8, dtype=np.float32)[0]


def at(degrees: float, axis: int = 1) -> np.ndarray:
    """A question that is so far from the one at hand."""
    angle = np.radians(degrees)
    return (np.cos(angle) * HERE + np.sin(angle) * np.eye(8)[axis]).astype(np.float32)


def lift(
    *outcomes: tuple[np.ndarray, bool], resembled: float = 0.5, strength: float = 1.0
) -> float:
    """Of one memory with these outcomes."""
    return float(gp_lift([outcomes], resembled=resembled, strength=strength)[0][0])


def gp_lift(
    memories: Sequence[Sequence[tuple[np.ndarray, bool]]],
    resembled: float = 0.5,
    strength: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    told = [(place, *each) for place, outcomes in enumerate(memories) for each in outcomes]
    asked = np.array([question for _, question, _ in told], np.float32).reshape(-1, 8)
    return experience.gp_lift(
        len(memories),
        np.array([place for place, _, _ in told], np.intp),
        (asked @ HERE).astype(np.float64),
        asked,
        np.array([succeeded for _, _, succeeded in told], bool),
        np.full(len(told), resembled),
        np.full(len(told), strength),
    )


def test_one_outcome_corrects_the_guess_by_its_surprise_and_a_margin() -> None:
    """Nearness to itself is 2 and so is the doubt with it, 1 / strength: 2 / (2 + 4)."""
    for succeeded, surprise, margin in ((True, 0.7, 0.1), (False, -0.3, -0.1)):
        rank, forecast = gp_lift([[(HERE, succeeded)]], resembled=0.3, strength=0.25)
        weight = 2 / 6
        assert rank[0] == pytest.approx(weight * (surprise + margin))
        assert forecast[0] == pytest.approx(weight * (surprise + margin * (1 - weight**2)))


def test_an_outcome_of_a_related_question_counts_by_the_square_of_the_cosine() -> None:
    assert lift((at(53.13), True), resembled=0.4) == pytest.approx(0.6**2 / 3 * 0.7, rel=1e-4)


def test_the_very_same_question_is_told_from_a_paraphrase() -> None:
    cosine = np.array([1.0, 0.99, 0.5, -1.0])
    expected = [2.0, 0.99**2 + 0.99**128, 0.25, 0.0]
    assert experience.nearness(cosine).tolist() == pytest.approx(expected)


def test_a_strength_is_a_share() -> None:
    assert lift((HERE, True), strength=3.0) == lift((HERE, True), strength=1.0)
    assert lift((HERE, True), strength=0.0) == pytest.approx(0.0, abs=1e-5)


def test_a_forecast_never_turns_round_however_many_related_outcomes_there_are() -> None:
    """Each success was foreseen, so that only the margin is left: in a forecast, none of it."""
    count = 63
    asked = np.eye(count + 1, dtype=np.float32)[1:] * np.sqrt(0.19)
    asked[:, 0] = 0.9
    place = np.zeros(count, np.intp)
    every = np.ones(count)
    rank, forecast = experience.gp_lift(1, place, 0.9 * every, asked, every > 0, every, every)
    assert rank[0] > experience.MARGIN
    assert forecast[0] == pytest.approx(0.0, abs=1e-9)


def test_success_lifts_and_failure_lowers_most_where_the_questions_are_alike() -> None:
    for succeeded, sign in ((True, 1), (False, -1)):
        here, near, far = (sign * lift((at(angle), succeeded)) for angle in (0, 30, 80))
        assert here > near > far > 0


def test_a_question_that_has_nothing_in_common_says_nothing() -> None:
    assert lift((at(90), True)) == pytest.approx(0.0, abs=1e-6)
    assert lift((at(150), False)) == pytest.approx(0.0, abs=1e-6)


def test_a_second_outcome_of_the_same_kind_adds_to_the_first() -> None:
    once, twice = lift((at(20), True)), lift((at(20), True), (at(20), True))
    assert once < twice < 0.5 + experience.MARGIN


def test_an_outcome_that_was_foreseen_teaches_less() -> None:
    assert lift((HERE, True), resembled=0.9) < lift((HERE, True), resembled=0.2)


def test_what_is_old_counts_less() -> None:
    assert 0 < lift((HERE, True), strength=0.25) < lift((HERE, True))


def test_many_related_failures_do_not_hide_success_with_this_very_question() -> None:
    elsewhere = [(at(40, axis), False) for axis in (1, 2, 3)]
    assert lift((HERE, True), (HERE, True), *elsewhere) > 0 > lift(*elsewhere)


def test_each_memory_is_judged_by_its_own_outcomes_however_many_others_have() -> None:
    few = [(at(10), True)]
    many = [(at(5 + angle), angle % 3 > 0) for angle in range(40)]
    together, _ = gp_lift([few, [], many])
    assert together[0] == pytest.approx(lift(*few))
    assert together[1] == 0.0
    assert together[2] == pytest.approx(lift(*many))


def test_memories_with_about_as_many_outcomes_do_not_hear_each_others() -> None:
    for sizes in ((3, 2, 5, 4, 1), (9, 8, 17, 16, 2), (64, 33, 32, 64)):
        memories = [[(at(5 * n + size), n % 3 > 0) for n in range(size)] for size in sizes]
        together, _ = gp_lift(memories)
        assert together.tolist() == pytest.approx([lift(*own) for own in memories])


def test_the_order_of_outcomes_does_not_matter() -> None:
    outcomes = [(at(angle, axis), angle > 30) for angle in (10, 25, 50) for axis in (1, 2)]
    assert lift(*outcomes) == pytest.approx(lift(*reversed(outcomes)))


def test_of_thousands_of_outcomes_the_nearest_are_heard() -> None:
    near = [(at(5), True)] * experience.NEAREST
    assert lift(*near, *[(at(60), False)] * 500) == pytest.approx(lift(*near))


def test_of_all_memories_together_the_nearest_outcomes_are_heard() -> None:
    near, far = [(at(5), True)] * experience.NEAREST, [(at(60), True)] * experience.NEAREST
    assert lift(*far) > 0.05
    crowded, _ = gp_lift([far, *[near] * (experience.MOST_OUTCOMES // experience.NEAREST)])
    assert crowded[0] == 0.0
    assert crowded[1:].tolist() == pytest.approx([lift(*near)] * (len(crowded) - 1))


def test_of_outcomes_of_the_same_question_the_first_named_are_heard() -> None:
    """The ledger names the newest first."""
    newest = [(HERE, True)] * experience.NEAREST
    assert lift(*newest, *[(HERE, False)] * 500) == pytest.approx(lift(*newest))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_forecast_settles_at_the_rate_that_was_seen(rate: float) -> None:
    outcomes = [(HERE, number < rate * 60) for number in range(60)]
    _, forecast = gp_lift([outcomes], resembled=0.5)
    assert 0.5 + forecast[0] == pytest.approx(rate, abs=0.03)


def test_failures_never_make_a_score_negative_and_still_tell_memories_apart() -> None:
    similarity = np.array([0.5, 0.5, 0.5, 0.05])
    total = experience.adjusted(similarity, np.array([0.0, -0.5, -0.8, 0.0]))
    assert total[0] == 0.5 and total[3] == 0.05
    assert total[0] > total[1] > total[2] > 0


def test_below_a_tenth_a_score_falls_off_ever_more_slowly() -> None:
    similarity = np.array([0.5, 0.05, 0.5, 0.0])
    total = experience.adjusted(similarity, np.array([-0.45, -0.02, -9.0, -0.5]))
    expected = [0.1 * np.exp(-0.5), 0.05 * np.exp(-0.4), 0.1 * np.exp(-30), 1e-9 * np.exp(-30)]
    assert total.tolist() == pytest.approx(expected, rel=1e-9, abs=0)


def test_one_outcome_of_this_very_question_says_two_thirds_of_it_and_an_old_one_half() -> None:
    place, cosine = np.array([0, 1, 3]), np.array([1.0, 1.0, -1.0])
    known = experience.familiar(5, place, cosine, np.array([1.0, 0.5, 1.0]))
    assert known.tolist() == pytest.approx([2 / 3, 1 / 2, 0, 0, 0])


def test_a_question_is_known_by_its_own_outcomes_and_not_by_those_of_others() -> None:
    def known(times: int, degrees: float) -> float:
        cosine = np.full(times, np.cos(np.radians(degrees)))
        place = np.zeros(times, np.intp)
        return float(experience.familiar(1, place, cosine, np.ones(times))[0])

    assert 0.5 < known(1, 0) < known(10, 0) < 1
    assert known(10, 30) < 0.01


def test_a_forecast_is_bolder_where_the_question_is_new_and_plain_where_it_is_known() -> None:
    chance = np.array([0.0, 0.2, 0.5, 0.8, 1.0])
    new = experience.decided(chance, np.zeros(5))
    assert new.tolist() == pytest.approx([0.0, 1 - new[3], 0.5, new[3], 1.0])
    assert new[3] == pytest.approx(0.8**1.2 / (0.8**1.2 + 0.2**1.2))
    assert experience.decided(chance, np.ones(5)) == pytest.approx(chance)


@pytest.mark.parametrize("count", [1, 2, 10])
def test_the_shares_in_a_task_are_one_together_and_each_is_twice_the_next(count: int) -> None:
    shares = [experience.share(place, count) for place in range(count)]
    assert sum(shares) == pytest.approx(1.0)
    assert all(a == pytest.approx(2 * b) for a, b in pairwise(shares))


def test_weak_matches_share_in_an_outcome_only_where_nothing_sure_was_given() -> None:
    given = ["a", "b", "c"]
    assert experience.shares(given, ()) == {
        id: experience.share(place, 3) for place, id in enumerate(given)
    }
    assert experience.shares(given, ["c"]) == {
        "a": experience.share(0, 2), "b": experience.share(1, 2), "c": -experience.share(2, 3),
    }  # fmt: skip
    assert experience.shares(given, given) == experience.shares(given, ())
    assert experience.shares([], ()) == {}

"""What outcomes of similar questions add to resemblance: the arithmetic, without a bank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from reasonbank.trust import experience
from reasonbank.trust.experience import Learnt, Past

HERE = np.eye(8, dtype=np.float32)[0]


def at(degrees: float, axis: int = 1) -> np.ndarray:
    """A question that is so far from the one at hand."""
    angle = np.radians(degrees)
    return (np.cos(angle) * HERE + np.sin(angle) * np.eye(8)[axis]).astype(np.float32)


@dataclass(frozen=True)
class Task:
    """The memories that it was given, the best first."""

    asked: np.ndarray
    succeeded: bool
    given: tuple[int, ...] = (0,)
    strength: float = 1.0


def learnt(
    tasks: Sequence[Task], *, memories: int = 1, resembled: float = 0.5, alike: float = 0.0,
    traits: Sequence[int] | None = None,
) -> Learnt:  # fmt: skip
    """``alike``: the cosine of any two memories; ``traits``: the one trait that some share."""
    rows = [
        (number, task, place, experience.share(seat, len(task.given)))
        for number, task in enumerate(tasks)
        for seat, place in enumerate(task.given)
    ]
    own = np.eye(memories + 1, dtype=np.float32)[1:] * np.sqrt(1 - alike)
    own[:, 0] = np.sqrt(alike)
    asked = np.array([task.asked for _, task, _, _ in rows], np.float32).reshape(-1, 8)
    return experience.learnt(
        own,
        np.array([traits or [0] * memories], np.int64).T,
        np.full(memories, resembled),
        Past(
            place=np.array([place for _, _, place, _ in rows], np.intp),
            task=np.array([number for number, _, _, _ in rows], np.int64),
            cosine=(asked @ HERE).astype(np.float64),
            asked=asked,
            resembled=np.full(len(rows), resembled),
            share=np.array([share for _, _, _, share in rows], np.float64),
            strength=np.array([task.strength for _, task, _, _ in rows], np.float64),
            succeeded=np.array([task.succeeded for _, task, _, _ in rows], bool),
        ),
    )


def lift(
    *outcomes: tuple[np.ndarray, bool], resembled: float = 0.5, strength: float = 1.0
) -> float:
    """Of one memory that these tasks were given alone."""
    tasks = [Task(asked, succeeded, strength=strength) for asked, succeeded in outcomes]
    return float(learnt(tasks, resembled=resembled).lift[0])


def chance(*outcomes: tuple[np.ndarray, bool], resembled: float = 0.5) -> float:
    found = learnt([Task(*each) for each in outcomes], resembled=resembled)
    return float(found.chance(resembled + found.lift)[0])


def test_without_outcomes_everything_is_as_it_seems() -> None:
    found = learnt([], memories=3)
    assert found.lift.tolist() == [0, 0, 0] and found.heard == 0
    assert found.chance(np.array([0.2, 0.5, 0.8])) == pytest.approx([0.2, 0.5, 0.8])


def test_success_lifts_and_failure_lowers_most_where_the_questions_are_alike() -> None:
    for succeeded, sign in ((True, 1), (False, -1)):
        here, near, far = (sign * lift((at(angle), succeeded)) for angle in (0, 30, 60))
        assert here > near > far > 0


def test_a_question_that_has_nothing_in_common_says_next_to_nothing() -> None:
    for degrees, succeeded in ((90, True), (150, False)):
        found = learnt([Task(at(degrees), succeeded)])
        # But for how far resemblance is to be trusted in this bank.
        assert abs(found.lift[0]) < abs(lift((HERE, succeeded))) / 3
        assert found.heard == pytest.approx(0.0, abs=1e-6)


def test_what_came_in_the_same_way_as_what_failed_is_doubted_before_it_is_tried() -> None:
    """Poison that nobody tried yet, beside what was there before."""
    failed = [Task(at(90, axis), False, (0,)) for axis in (1, 2, 3)]
    worked = [Task(at(90, axis), True, (1,)) for axis in (4, 5, 6)]
    found = learnt([*failed, *worked], memories=4, traits=(0, 1, 0, 1))
    assert found.lift[2] < -0.1 < 0.1 < found.lift[3]
    apart = learnt([*failed, *worked], memories=4)
    assert apart.lift[2] == pytest.approx(apart.lift[3])


def test_what_all_have_in_common_says_nothing_of_any() -> None:
    failed = [Task(at(90, axis), False, (0,)) for axis in (1, 2, 3)]
    assert learnt(failed, memories=2, resembled=0.0, traits=(0, 0)).lift[1] == 0
    assert learnt(failed, memories=2, resembled=0.0, traits=(0, 1)).lift[1] > 0


def test_a_second_outcome_of_the_same_kind_adds_to_the_first() -> None:
    once, twice = lift((at(20), True)), lift((at(20), True), (at(20), True))
    assert once < twice < 0.5 + experience.MARGIN


def test_an_outcome_that_was_foreseen_teaches_less() -> None:
    assert lift((HERE, True), resembled=0.9) < lift((HERE, True), resembled=0.2)


def test_what_is_old_counts_less() -> None:
    assert 0 < lift((HERE, True), strength=0.25) < lift((HERE, True))
    assert lift((HERE, True), strength=0.0) == pytest.approx(0.0, abs=1e-4)


def test_many_related_failures_do_not_hide_success_with_this_very_question() -> None:
    elsewhere = [(at(40, axis), False) for axis in (1, 2, 3)]
    assert lift((HERE, True), (HERE, True), *elsewhere) > 0 > lift(*elsewhere)


def test_the_order_of_outcomes_does_not_matter_for_what_a_memory_is_worth() -> None:
    tasks = [
        Task(at(angle, axis), angle > 30, given)
        for angle in (10, 25, 50)
        for axis, given in ((1, (0, 1)), (2, (1, 2, 0)))
    ]
    one, other = learnt(tasks, memories=3), learnt(tasks[::-1], memories=3)
    assert one.lift.tolist() == pytest.approx(other.lift.tolist())
    assert (one.base, one.heard) == pytest.approx((other.base, other.heard))


def test_of_thousands_of_outcomes_the_nearest_are_heard() -> None:
    """The ledger names the newest first: of the same question these are heard."""
    newest = [(HERE, True)] * experience.NEAREST
    assert lift(*newest, *[(HERE, False)] * 500) == pytest.approx(lift(*newest))
    # Of the others no more than how near questions usually are.
    near = [(at(5), True)] * experience.NEAREST
    assert lift(*near, *[(at(60), False)] * 500) == pytest.approx(lift(*near), abs=0.1)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_forecast_settles_at_the_rate_that_was_seen(rate: float) -> None:
    spread = (int((number + 1) * rate) > int(number * rate) for number in range(60))
    assert chance(*((HERE, succeeded) for succeeded in spread)) == pytest.approx(rate, abs=0.05)


def test_what_failed_whenever_it_was_tried_is_expected_to_fail_and_never_surely() -> None:
    assert experience.CERTAIN <= chance(*[(HERE, False)] * 7, resembled=0.7) < 0.1


def test_guesses_are_worth_what_such_guesses_were_worth() -> None:
    """Of memories that all seemed to fit, hardly one helped: what was never tried is not
    expected to help either."""
    tasks = [Task(at(30, 1 + number % 6), number == 7, (number,)) for number in range(12)]
    found = learnt(tasks, memories=13, resembled=0.75)
    assert found.chance(0.75 + found.lift)[12] < 0.5
    helped = [Task(task.asked, True, task.given) for task in tasks]
    found = learnt(helped, memories=13, resembled=0.4)
    assert found.chance(0.4 + found.lift)[12] > 0.5


def test_where_resemblance_misled_each_time_it_counts_less_for_what_was_never_tried() -> None:
    tasks = [Task(at(30, 1 + number % 6), False, (number,)) for number in range(12)]
    assert learnt(tasks, memories=13, resembled=0.75).lift[12] < -0.1


def test_where_most_things_fail_a_failure_is_hardly_held_against_what_was_tried() -> None:
    """Or the bank would leave what fits best for what merely was not tried yet."""

    def held_against(others_succeed: bool) -> float:
        others = [
            Task(at(90, 1 + number % 6), others_succeed, (number,)) for number in range(2, 40)
        ]
        found = learnt([Task(HERE, False, (0,)), *others], memories=40)
        assert (found.base > 0) == others_succeed
        return float(found.lift[1] - found.lift[0])

    assert 0 < held_against(False) < held_against(True) / 2


def test_what_holds_for_all_alike_changes_forecasts_and_no_order() -> None:
    failed = [Task(at(90, 1 + number % 6), False, (number,)) for number in range(12)]
    found = learnt(failed, memories=13, resembled=0.0)
    assert found.lift[12] == pytest.approx(0.0, abs=1e-9)
    assert found.base < 0 and found.chance(np.array([0.5]))[0] < 0.45


def test_what_fits_better_is_never_expected_to_help_less() -> None:
    """Even where whatever fitted best failed."""
    tasks = [Task(at(10 * number), number > 4, (number,)) for number in range(9)]
    found = learnt(tasks, memories=9, resembled=0.6)
    chances = found.chance(np.linspace(0, 1, 21)).tolist()
    assert all(one <= other for one, other in pairwise(chances))


class TestOneOutcomeOfSeveralMemories:
    def test_the_first_is_blamed_most_and_all_together_less_than_one_alone(self) -> None:
        found = learnt([Task(HERE, False, (0, 1, 2))], memories=4).lift
        alone = lift((HERE, False))
        assert alone < found[0] < found[1] < found[2] < 0
        assert found[3] > found[2]

    @pytest.mark.parametrize("succeeded", [True, False])
    def test_what_is_known_of_one_leaves_less_to_say_of_those_beside_it(self, succeeded) -> None:
        def of_the_second(*known: Task) -> float:
            """Beside what is learnt of all, as of the third."""
            _, second, third = learnt([*known, Task(HERE, succeeded, (0, 1))], memories=3).lift
            return abs(float(second - third))

        assert of_the_second(*[Task(HERE, succeeded)] * 6) < 0.9 * of_the_second()

    def test_what_led_and_failed_falls_behind_those_beside_it(self) -> None:
        order = [0, 1, 2]
        tasks: list[Task] = []
        for _ in range(6):
            tasks.append(Task(HERE, order[0] == 2, tuple(order)))
            found = learnt(tasks, memories=3).lift
            order.sort(key=lambda place: -found[place])
        assert order[0] == 2

    def test_several_answers_to_one_task_are_one_outcome(self) -> None:
        """Their shares add up to more than one; what the task says is still said once."""
        once, twice = (
            learnt([Task(HERE, False, given)], memories=2).lift for given in ((0,), (0, 0))
        )
        assert twice[0] == pytest.approx(once[0], rel=0.01)


class TestKin:
    def test_what_reads_alike_fares_alike_but_not_as_much(self) -> None:
        for succeeded, sign in ((True, 1), (False, -1)):
            own, other = sign * learnt([Task(HERE, succeeded)], memories=2, alike=0.95).lift
            apart = sign * learnt([Task(HERE, succeeded)], memories=2, alike=0.3).lift[1]
            assert own > other > apart

    def test_what_it_did_itself_counts_more_than_what_its_kin_did(self) -> None:
        tasks = [*[Task(HERE, False, (0,))] * 3, Task(HERE, True, (1,))]
        own = learnt(tasks, memories=2, alike=0.9).lift
        assert own[1] > 0 > own[0]


class TestHowWide:
    def test_in_a_bank_of_one_subject_only_the_nearest_questions_are_related(self) -> None:
        """Forty degrees are near where most are at right angles, and far where most are nearer."""
        asked = Task(at(40), True)

        def said(degrees: float) -> float:
            others = [Task(at(degrees, axis), axis % 2 > 0, (1,)) for axis in range(2, 8)] * 5
            with_it, without = (learnt(tasks, memories=2) for tasks in ([asked, *others], others))
            return float(with_it.lift[0] - without.lift[0])

        assert said(85) > 1.5 * said(35) > 0


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


def test_forecasts_follow_what_came_true_of_late() -> None:
    """The same outcomes, newest first: what worked until lately is expected to fail by now."""
    questions = [np.eye(8)[1 + number % 7] for number in range(80)]
    worked, failed = [True] * 40, [False] * 40

    def chance_after(outcomes: list[bool]) -> float:
        return chance(*zip(questions, outcomes, strict=True))

    assert chance_after(failed + worked) < chance_after(worked + failed) - 0.1

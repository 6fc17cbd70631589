"""Confidence is a fold over evidence; these are its laws."""

from __future__ import annotations

import doctest
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, strategies as st
from tests.requirement import requirement

from reasonbank.errors import InvalidInput
from reasonbank.model import EvidenceKind, to_micros
from reasonbank.trust import belief
from reasonbank.trust.belief import (
    EPOCH_DAY,
    MODELS,
    WHOLE,
    Belief,
    BeliefInputs,
    EvidenceWeights,
    Tally,
)
from reasonbank.trust.experience import share

PAGE = Path(__file__).parents[2] / "docs" / "concepts-belief.md"
CENTURY = 36_525
TODAY = 20_772  # 2026-11-15
NONE = (0.0,) * 8
NEW = EvidenceWeights()

signs = st.booleans()
days = st.integers(EPOCH_DAY - CENTURY, EPOCH_DAY + CENTURY)
recent_days = st.integers(TODAY - 90, TODAY)
past_days = st.integers(TODAY - CENTURY, TODAY)
amounts = st.integers(1, 10**6)
initials = st.floats(0, 1)
open_initials = st.floats(1e-6, 1 - 1e-6)
half_lives = st.floats(belief.SHORTEST_HALF_LIFE, 2_000) | st.just(math.inf)
weights = st.builds(EvidenceWeights, track_record=st.tuples(*[st.integers(0, 10**6)] * 8))
models = st.sampled_from(sorted(MODELS))
observations = st.tuples(st.sampled_from(EvidenceKind), signs, days)
shares = st.none() | st.floats(1e-6, 1)


def in_parts(seen: Tally) -> Tally:
    """Of whole observations."""
    return {key: count * WHOLE for key, count in seen.items()}


def shared(seen: Tally) -> Tally:
    """Outcomes are of any number of parts, all else is of whole observations."""
    return in_parts(seen) | {k: n for k, n in seen.items() if k[0] is EvidenceKind.OUTCOME}


def tallies(on: st.SearchStrategy[int], most: int = 12) -> st.SearchStrategy[Tally]:
    seen = st.dictionaries(
        st.tuples(st.sampled_from(EvidenceKind), signs, on), amounts, max_size=most
    )
    return seen.map(shared)


def one(kind: EvidenceKind, positive: bool, day: int, count: int = 1) -> Tally:
    return in_parts({(kind, positive, day): count})


def merged(*tallies: Tally) -> Tally:
    """One tally of several that share no evidence."""
    total: Counter[tuple[EvidenceKind, bool, int]] = Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)


def learnt_from(project: Iterable[Tally]) -> EvidenceWeights:
    """The weights of a project whose memories have these tallies."""
    track_record = (belief.track_record_of(tally) for tally in project)
    return EvidenceWeights(
        track_record=tuple(map(sum, zip(NEW.track_record, *track_record, strict=True)))
    )


def confidence(
    tally: Tally, *, initial: float = 0.8, today: int = TODAY, weights: EvidenceWeights = NEW
) -> Belief:
    return belief.bayesian(initial, belief.masses(tally), weights, today)


def inputs(
    tally: Tally,
    *,
    initial: float = 0.8,
    created: int = TODAY - 1_000,
    today: int = TODAY,
    weights: EvidenceWeights = NEW,
    other_uses: int = 0,
    context: float | None = None,
) -> BeliefInputs:
    seen = belief.counts(tally)
    return BeliefInputs(
        initial=initial,
        masses=belief.masses(tally),
        counts=seen,
        weights=weights,
        today=today,
        last_day=belief.last_day(tally, created),
        project_uses=other_uses + seen.used,
        context=context,
    )


@pytest.mark.parametrize(
    ("at", "day"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 3, 23, 59, 59, 999_999, tzinfo=UTC), 2),
        (datetime(1970, 1, 4, tzinfo=UTC), 3),
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), 20_818),
        (datetime(1970, 1, 4, tzinfo=timezone(timedelta(hours=2))), 2),
    ],
)
def test_a_day_begins_at_midnight_in_utc(at: datetime, day: int) -> None:
    assert belief.day_of(to_micros(at)) == day


# Where belief starts


@requirement("CON-1")
@pytest.mark.parametrize(
    ("source", "outcome", "expected"),
    [
        ("explicit", "success", 0.8),
        ("explicit", "failure", 0.8),
        ("distilled", "success", 0.7),
        ("distilled", "failure", 0.6),
        ("distilled", "mixed", 0.5),
        ("passive", "success", 0.5),
        ("consolidated", "success", 0.5),
        ("solved", "success", 0.5),
        ("imported", "success", 0.5),
        ("peer", "success", 0.5),
    ],
)
def test_initial_confidence_follows_the_source(source: str, outcome: str, expected: float) -> None:
    assert belief.initial_confidence(source, outcome) == expected


@requirement("CON-1")
@given(initials)
def test_without_evidence_a_belief_is_its_prior_of_strength_two(initial: float) -> None:
    untouched = belief.bayesian(initial, NONE, NEW, TODAY)
    assert untouched.mean == pytest.approx(initial, abs=1e-12)
    assert untouched.strength == pytest.approx(2)


@requirement("CON-1")
@given(open_initials, st.sampled_from(EvidenceKind), weights)
def test_the_first_praise_raises_and_the_first_blame_lowers(
    initial: float, kind: EvidenceKind, learnt: EvidenceWeights
) -> None:
    before = confidence({}, initial=initial, weights=learnt).mean
    # A kind that was wrong a million times has next to no weight left.
    assume(learnt.normalised()[list(EvidenceKind).index(kind)] > 1e-4)
    praised = confidence(one(kind, True, TODAY), initial=initial, weights=learnt)
    blamed = confidence(one(kind, False, TODAY), initial=initial, weights=learnt)
    assert blamed.mean < before < praised.mean


@requirement("CON-1")
@given(open_initials, signs, tallies(recent_days), st.lists(tallies(recent_days), max_size=3))
@example(
    # Weighed with its own lesson, this blame raised confidence by 0.012.
    0.5,
    False,
    {
        (EvidenceKind.OUTCOME, False, TODAY - 65): 20,
        (EvidenceKind.OUTCOME, True, TODAY - 1): 1,
        (EvidenceKind.STABILITY, True, TODAY - 71): 20,
        (EvidenceKind.STABILITY, False, TODAY - 1): 2,
    },
    [],
)
def test_a_rating_moves_its_memory_the_right_way_even_while_the_weights_learn_from_it(
    initial: float, helpful: bool, tally: Tally, others: list[Tally]
) -> None:
    rated = merged(tally, one(EvidenceKind.EXPLICIT, helpful, TODAY))
    before, after = (
        confidence(
            own,
            initial=initial,
            weights=learnt_from([own, *others]).without(belief.track_record_of(own)),
        ).mean
        for own in (tally, rated)
    )
    assert after >= before if helpful else after <= before


@requirement("CON-1")
@pytest.mark.parametrize("kind", EvidenceKind)
def test_praise_does_not_hide_a_memory_recorded_at_0_8(kind: EvidenceKind) -> None:
    """contextd started from Beta(1, 1): its first "helpful" turned 0.8 into 0.58 to 0.67."""
    praised = confidence(one(kind, True, TODAY)).mean
    assert praised > 0.8


# Order, batches and roll-up


@requirement("CON-5")
@given(st.data(), st.lists(st.tuples(observations, shares), max_size=30), half_lives)
def test_order_of_arrival_and_batching_change_nothing_at_all(
    data: st.DataObject,
    told: list[tuple[tuple[EvidenceKind, bool, int], float | None]],
    half_life: float,
) -> None:
    arrived = [{seen: belief.parts(seen[0], share)} for seen, share in told]
    shuffled = data.draw(st.permutations(arrived))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arrived)), max_size=4)))
    bounds = [0, *cuts, len(arrived)]
    batches = [merged(*shuffled[a:b]) for a, b in pairwise(bounds)]

    singly = merged(*arrived)
    in_batches = merged(*data.draw(st.permutations(batches)))

    assert in_batches == singly
    assert belief.masses(in_batches, half_life) == belief.masses(singly, half_life)
    assert belief.counts(in_batches) == belief.counts(singly)
    assert belief.track_record_of(in_batches) == belief.track_record_of(singly)
    assert belief.last_day(in_batches, 0) == belief.last_day(singly, 0)


@requirement("CON-5")
@given(st.data(), tallies(days, most=30), half_lives)
def test_the_order_in_which_a_store_lists_a_tally_changes_nothing_at_all(
    data: st.DataObject, tally: Tally, half_life: float
) -> None:
    relisted = dict(data.draw(st.permutations(list(tally.items()))))
    assert belief.masses(relisted, half_life) == belief.masses(tally, half_life)
    assert belief.track_record_of(relisted) == belief.track_record_of(tally)


@requirement("CON-5")
@given(tallies(recent_days))
def test_rows_of_a_database_fold_like_typed_evidence(tally: Tally) -> None:
    rows = {(str(kind), int(good), day): count for (kind, good, day), count in tally.items()}
    assert belief.masses(rows) == belief.masses(tally)  # type: ignore[arg-type]
    assert belief.track_record_of(rows) == belief.track_record_of(tally)  # type: ignore[arg-type]
    assert belief.last_day(rows, 0) == belief.last_day(tally, 0)  # type: ignore[arg-type]


@given(tallies(recent_days), st.sampled_from(EvidenceKind), signs, recent_days)
def test_a_count_of_zero_is_no_evidence(
    tally: Tally, kind: EvidenceKind, sign: bool, day: int
) -> None:
    padded = merged(one(kind, sign, day, 0), tally)
    assert belief.masses(padded) == belief.masses(tally)
    assert belief.last_day(padded, 0) == belief.last_day(tally, 0)
    assert belief.track_record_of(padded) == belief.track_record_of(tally)


# What only the outcome of a task is known of


@requirement("CON-2")
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("model", ["bayesian", "contextual", "additive"])
def test_a_third_of_the_blame_costs_a_bystander_a_third(model: str, positive: bool) -> None:
    third = {(EvidenceKind.OUTCOME, positive, TODAY): belief.parts("outcome", 1 / 3)}
    whole = one(EvidenceKind.OUTCOME, positive, TODAY)
    assert belief.masses(third) == pytest.approx([m / 3 for m in belief.masses(whole)], abs=0.005)
    assert sum(belief.counts(third)) == pytest.approx(1 / 3, abs=0.0005)
    unhurt, bystander, told = (
        MODELS[model](inputs(seen, initial=0.5, created=TODAY)) for seen in ({}, third, whole)
    )
    # Of a mean, a third of the evidence is a little more than a third of the way.
    assert 0.33 < (bystander - unhurt) / (told - unhurt) < 0.36


@pytest.mark.parametrize("count", range(1, 21))
def test_all_that_a_task_was_given_take_one_outcome_between_them(count: int) -> None:
    taken = [belief.parts("outcome", share(place, count)) for place in range(count)]
    assert sum(taken) == pytest.approx(WHOLE, abs=count / 2)
    assert taken == sorted(taken, reverse=True) and taken[-1] >= 1


@given(st.sampled_from(EvidenceKind), shares)
def test_only_the_outcome_of_a_task_counts_by_share(kind: EvidenceKind, share: float | None):
    seen = belief.parts(kind, share)
    if kind is not EvidenceKind.OUTCOME or share is None:
        assert seen == WHOLE
    else:
        assert 1 <= seen <= WHOLE and abs(seen - share * WHOLE) < 1
        assert belief.counted(np.array([share])).tolist() == [seen / WHOLE]


def test_a_kind_foretells_by_the_shares_it_had_in_outcomes() -> None:
    tally = merged(
        {(EvidenceKind.OUTCOME, True, TODAY): 3 * belief.parts("outcome", 0.25)},
        one(EvidenceKind.OUTCOME, False, TODAY),
        one(EvidenceKind.EXPLICIT, False, TODAY, 2),
    )
    assert belief.track_record_of(tally) == (0, 0, 0, 0, 2, 0, 0, 0)


def test_the_order_of_the_eight_numbers_is_fixed_since_ledgers_store_it() -> None:
    assert [f"{kind} {'for' if good else 'against'}" for kind, good in belief.SLOTS] == [
        "explicit for",
        "explicit against",
        "usage for",
        "usage against",
        "outcome for",
        "outcome against",
        "stability for",
        "stability against",
    ]
    assert list(belief.SLOTS.values()) == list(range(8))


# Praise, blame and bounds


@requirement("CON-10")
@given(
    model=models,
    tally=tallies(past_days),
    kind=st.sampled_from(EvidenceKind),
    positive=signs,
    day=past_days,
    count=amounts,
    initial=initials,
    learnt=weights,
    created=past_days,
    other_uses=st.integers(0, 10**6),
    context=st.none() | st.floats(0, 1),
)
def test_praise_never_lowers_and_blame_never_raises_under_any_model(
    model: str,
    tally: Tally,
    kind: EvidenceKind,
    positive: bool,
    day: int,
    count: int,
    initial: float,
    learnt: EvidenceWeights,
    created: int,
    other_uses: int,
    context: float | None,
) -> None:
    before, after = (
        MODELS[model](
            inputs(
                evidence,
                initial=initial,
                created=created,
                weights=learnt,
                other_uses=other_uses,
                context=context,
            )
        )
        for evidence in (tally, merged(tally, one(kind, positive, day, count)))
    )
    assert after >= before if positive else after <= before


@given(
    tallies(past_days), st.sampled_from(EvidenceKind), signs, past_days, amounts, initials, weights
)
def test_the_lower_bound_moves_with_praise_and_blame_too(
    tally: Tally,
    kind: EvidenceKind,
    good: bool,
    day: int,
    count: int,
    initial: float,
    learnt: EvidenceWeights,
) -> None:
    before = confidence(tally, initial=initial, weights=learnt).lower_bound
    more = merged(tally, one(kind, good, day, count))
    after = confidence(more, initial=initial, weights=learnt).lower_bound
    assert after >= before - 1e-12 if good else after <= before + 1e-12


@requirement("CON-10")
@given(
    model=models,
    tally=tallies(days),
    initial=initials,
    learnt=weights,
    created=days,
    today=days,
    context=st.none() | st.floats(-1, 1),
)
def test_confidence_stays_between_0_and_1_under_any_model(
    model: str,
    tally: Tally,
    initial: float,
    learnt: EvidenceWeights,
    created: int,
    today: int,
    context: float | None,
) -> None:
    state = inputs(
        tally, initial=initial, weights=learnt, created=created, today=today, context=context
    )
    assert 0 <= MODELS[model](state) <= 1


@given(tallies(days), initials, days, half_lives)
@example(
    {(EvidenceKind.EXPLICIT, sign, 10**6): 10**6 for sign in (True, False)}, 0.5, -(10**6), 30.0
)
def test_dates_a_century_off_overflow_nothing(
    tally: Tally, initial: float, today: int, half_life: float
) -> None:
    held = belief.bayesian(initial, belief.masses(tally, half_life), NEW, today, half_life)
    assert math.isfinite(held.strength)
    assert 0 <= held.lower_bound <= held.mean <= 1


def test_many_successes_outrank_one_lucky_one() -> None:
    lucky = Belief(alpha=2, beta=1)
    proven = Belief(alpha=61, beta=41)
    assert lucky.mean > proven.mean
    assert lucky.lower_bound < proven.lower_bound


@given(initials, weights, tallies(past_days))
def test_usage_alone_lifts_no_further_than_three_uses_today(
    initial: float, learnt: EvidenceWeights, tally: Tally
) -> None:
    searched = {
        key: count for key, count in tally.items() if key[0] is EvidenceKind.USAGE and key[1]
    }
    lifted = confidence(searched, initial=initial, weights=learnt).mean
    most = confidence(one(EvidenceKind.USAGE, True, TODAY, 3), initial=initial, weights=learnt).mean
    assert lifted <= most + 1e-12


def test_a_use_long_ago_does_not_hold_back_the_uses_of_today() -> None:
    today = one(EvidenceKind.USAGE, True, TODAY, 3)
    with_old = merged(today, one(EvidenceKind.USAGE, True, TODAY - 3_000))
    assert confidence(with_old).mean == pytest.approx(confidence(today).mean)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
@example(455393.1450231341, 282863.3553076636)  # alpha / (alpha + beta) falls here
def test_the_mean_does_not_lose_even_its_last_bit_to_praise(alpha: float, beta: float) -> None:
    praised = Belief(alpha=math.nextafter(alpha, math.inf), beta=beta)
    assert praised.mean >= Belief(alpha=alpha, beta=beta).mean


def test_four_failures_outvote_a_million_searches() -> None:
    popular = one(EvidenceKind.USAGE, True, TODAY, 10**6)
    failed = one(EvidenceKind.OUTCOME, False, TODAY, 4)
    assert confidence(merged(popular, failed), initial=0.5).mean < 0.5


@requirement("CON-2")
@given(models, tallies(recent_days), initials, weights, recent_days, amounts)
def test_being_searched_never_raises_the_trust_of_what_fails(
    model: str, tally: Tally, initial: float, learnt: EvidenceWeights, day: int, times: int
) -> None:
    against = {(EvidenceKind.OUTCOME, False, TODAY): 1 + sum(tally.values())}
    failing = merged(tally, against)
    searched = merged(failing, one(EvidenceKind.USAGE, True, day, times))
    before, after = (
        MODELS[model](inputs(own, initial=initial, weights=learnt, other_uses=10))
        for own in (failing, searched)
    )
    assert after <= before


def test_searches_count_less_the_more_speaks_against_a_memory() -> None:
    def lift(failures: int) -> float:
        tried = merged(
            one(EvidenceKind.OUTCOME, True, TODAY, 6),
            *([one(EvidenceKind.OUTCOME, False, TODAY, failures)] if failures else []),
        )
        used = merged(tried, one(EvidenceKind.USAGE, True, TODAY, 3))
        return confidence(used).alpha - confidence(tried).alpha

    untroubled, few, more, even = map(lift, (0, 2, 4, 6))
    assert untroubled > few > more > even == 0.0
    assert few == pytest.approx(untroubled / 2)


# Fading


@requirement("CON-7")
@given(
    tallies(past_days),
    initials,
    weights,
    st.lists(st.integers(TODAY, TODAY + CENTURY), min_size=2, max_size=6),
)
@example(
    # With usage capped on the day of reading, this one faded past its prior.
    merged(
        one(EvidenceKind.USAGE, True, TODAY, 10**6), one(EvidenceKind.EXPLICIT, False, TODAY, 10)
    ),
    0.8,
    NEW,
    [TODAY, TODAY + 1_000, TODAY + 1_500, TODAY + 3_000, TODAY + 9_000],
)
def test_an_untouched_belief_drifts_back_to_its_prior_and_never_past_it(
    tally: Tally, initial: float, learnt: EvidenceWeights, read_on: list[int]
) -> None:
    gaps = [
        confidence(tally, initial=initial, weights=learnt, today=day).mean - initial
        for day in sorted(read_on)
    ]
    for earlier, later in pairwise(gaps):
        assert abs(later) <= abs(earlier) + 1e-9
        assert earlier * later >= -1e-12


@requirement("CON-7")
def test_evidence_loses_half_its_mass_in_a_half_life() -> None:
    rated = one(EvidenceKind.EXPLICIT, True, TODAY, 8)
    fresh = confidence(rated).strength - 2
    assert confidence(rated, today=TODAY + 180).strength - 2 == pytest.approx(fresh / 2)
    assert confidence(rated, today=TODAY + 540).strength - 2 == pytest.approx(fresh / 8)


def test_a_mass_is_what_the_evidence_weighs_on_the_first_day_of_2025() -> None:
    tally = in_parts({
        (EvidenceKind.EXPLICIT, True, EPOCH_DAY): 3,
        (EvidenceKind.OUTCOME, False, EPOCH_DAY + 180): 5,
        (EvidenceKind.STABILITY, True, EPOCH_DAY - 360): 7,
    })  # fmt: skip
    assert date(1970, 1, 1) + timedelta(days=EPOCH_DAY) == date(2025, 1, 1)
    assert belief.masses(tally) == (3, 0, 0, 0, 0, 5 * 2, 7 / 4, 0)
    assert belief.masses(tally, 90.0) == (3, 0, 0, 0, 0, 5 * 4, 7 / 16, 0)


def test_usage_is_capped_as_of_its_own_last_day_whatever_came_later() -> None:
    used = one(EvidenceKind.USAGE, True, EPOCH_DAY - 180, 10)
    later = one(EvidenceKind.EXPLICIT, True, EPOCH_DAY, 2)
    assert belief.masses(merged(used, later)) == (2, 0, 3 / 2, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("half_life", [30.0, 180.0, math.inf])
def test_many_days_at_once_weigh_as_each_does(half_life: float) -> None:
    seen = [EPOCH_DAY - 10**6, EPOCH_DAY - 77, EPOCH_DAY, EPOCH_DAY + 31, EPOCH_DAY + 10**6]
    singly = [belief.masses(one(EvidenceKind.OUTCOME, True, day), half_life)[4] for day in seen]
    assert belief.strength_then(np.array(seen), half_life).tolist() == pytest.approx(
        singly, rel=1e-12, abs=0
    )


def test_many_days_at_once_refuse_a_half_life_too_short_as_well() -> None:
    with pytest.raises(InvalidInput, match="half_life"):
        belief.strength_then(np.array([TODAY]), 29.9)


@requirement("CON-7")
@given(tallies(past_days), past_days, past_days)
def test_reading_on_one_day_leaves_every_other_reading_as_it_was(
    tally: Tally, day: int, other: int
) -> None:
    kept = belief.masses(tally)
    first = belief.bayesian(0.8, kept, NEW, day)
    belief.bayesian(0.8, kept, NEW, other)
    assert belief.bayesian(0.8, kept, NEW, day) == first
    assert belief.masses(tally) == kept


def test_an_infinite_half_life_never_fades() -> None:
    kept = belief.masses(one(EvidenceKind.OUTCOME, True, TODAY - CENTURY, 5), math.inf)
    assert kept[belief.SLOTS[EvidenceKind.OUTCOME, True]] == 5
    today, later = (
        belief.bayesian(0.5, kept, NEW, day, math.inf) for day in (TODAY, TODAY + CENTURY)
    )
    assert today == later


@pytest.mark.parametrize("half_life", [29.9, 0, -1, math.nan])
def test_a_half_life_too_short_to_stay_exact_is_refused(half_life: float) -> None:
    with pytest.raises(InvalidInput, match=r"half_life: .* use 30 or more"):
        belief.masses(one(EvidenceKind.USAGE, True, TODAY), half_life)


# Weights that learn


@requirement("CON-3")
def test_a_new_project_trusts_ratings_at_7_to_3_and_the_rest_at_5_to_5() -> None:
    assert [NEW.of(kind).mean for kind in EvidenceKind] == pytest.approx([0.7, 0.5, 0.5, 0.5])
    assert NEW.normalised() == pytest.approx([0.7 / 2.2, 0.5 / 2.2, 0.5 / 2.2, 0.5 / 2.2])


@requirement("CON-3")
@given(weights)
def test_weights_sum_to_one_and_none_is_negative(learnt: EvidenceWeights) -> None:
    assert math.fsum(learnt.normalised()) == pytest.approx(1, abs=1e-12)
    assert min(learnt.normalised()) >= 0


@requirement("CON-4")
@pytest.mark.parametrize("kind", [EvidenceKind.USAGE, EvidenceKind.OUTCOME, EvidenceKind.STABILITY])
@pytest.mark.parametrize("foretold", [True, False])
@pytest.mark.parametrize("helpful", [True, False])
def test_a_rating_teaches_whether_a_kind_foretold_it(
    kind: EvidenceKind, foretold: bool, helpful: bool
) -> None:
    evidence = one(kind, foretold, TODAY - 3, 2)
    rated = merged(evidence, one(EvidenceKind.EXPLICIT, helpful, TODAY))
    before, after = NEW.of(kind), learnt_from([rated]).of(kind)
    if foretold == helpful:
        assert (after.alpha, after.beta) == (before.alpha + 1, before.beta)
    else:
        assert (after.alpha, after.beta) == (before.alpha, before.beta + 1)


@requirement("CON-4")
@pytest.mark.parametrize(
    ("age", "learns"), [(-1, False), (0, True), (1, True), (30, True), (31, False)]
)
def test_a_rating_looks_back_30_days_and_not_ahead(age: int, learns: bool) -> None:
    evidence = one(EvidenceKind.OUTCOME, True, TODAY - age)
    rated = merged(evidence, one(EvidenceKind.EXPLICIT, True, TODAY))
    assert any(belief.track_record_of(rated)) == learns


def test_a_kind_foretells_by_its_balance_and_each_rating_counts() -> None:
    tally = in_parts({
        (EvidenceKind.OUTCOME, True, TODAY): 5,
        (EvidenceKind.OUTCOME, False, TODAY): 2,
        (EvidenceKind.STABILITY, True, TODAY): 1,
        (EvidenceKind.STABILITY, False, TODAY): 4,
        (EvidenceKind.EXPLICIT, True, TODAY): 3,
        (EvidenceKind.EXPLICIT, True, TODAY + 1): 8,
        (EvidenceKind.EXPLICIT, False, TODAY + 2): 6,
    })  # fmt: skip
    assert belief.track_record_of(tally) == (0, 0, 0, 0, 3 + 8, 6, 6, 3 + 8)


@requirement("CON-4")
@given(
    st.dictionaries(st.tuples(st.just(EvidenceKind.EXPLICIT), signs, days), amounts).map(in_parts)
)
def test_ratings_alone_teach_nothing(tally: Tally) -> None:
    assert learnt_from([tally]) == NEW


@requirement("CON-4")
@given(tallies(days), st.sampled_from(EvidenceKind))
def test_absent_evidence_changes_no_weight(tally: Tally, absent: EvidenceKind) -> None:
    without = {key: count for key, count in tally.items() if key[0] is not absent}
    assert learnt_from([without]).of(absent) == NEW.of(absent)


@requirement("CON-4")
@given(st.integers(1, 10**6))
def test_as_much_for_as_against_foretells_nothing(count: int) -> None:
    torn = {
        (EvidenceKind.OUTCOME, True, TODAY - 20): count,
        (EvidenceKind.OUTCOME, False, TODAY - 2): count,
        (EvidenceKind.EXPLICIT, True, TODAY): WHOLE,
    }
    assert learnt_from([torn]) == NEW


@requirement("CON-4")
@given(tallies(recent_days, most=30))
def test_explicit_ratings_never_change_their_own_weight(tally: Tally) -> None:
    assert learnt_from([tally]).of(EvidenceKind.EXPLICIT) == NEW.of(EvidenceKind.EXPLICIT)


@requirement("CON-4")
@given(tallies(recent_days, most=30))
def test_each_rating_teaches_each_kind_at_most_once(tally: Tally) -> None:
    ratings = sum(belief.counts(tally)[:2])
    track_record = belief.track_record_of(tally)
    for right, wrong in zip(track_record[::2], track_record[1::2], strict=True):
        assert right + wrong <= ratings


@requirement("CON-4")
@given(st.lists(tallies(recent_days), max_size=5), tallies(recent_days))
def test_a_project_can_swap_one_memorys_lessons_for_its_new_ones(
    project: list[Tally], news: Tally
) -> None:
    assume(project)
    kept = learnt_from(project).track_record
    changed = merged(project[0], news)
    old, new = belief.track_record_of(project[0]), belief.track_record_of(changed)
    swapped = tuple(k - o + n for k, o, n in zip(kept, old, new, strict=True))
    assert EvidenceWeights(track_record=swapped) == learnt_from([changed, *project[1:]])


def test_a_kind_that_foretells_ratings_gains_on_one_that_does_not() -> None:
    project = [
        in_parts(
            {
                (EvidenceKind.OUTCOME, helped, TODAY): 1,
                (EvidenceKind.USAGE, True, TODAY): 1,
                (EvidenceKind.EXPLICIT, helped, TODAY): 1,
            }
        )
        for helped in [True, False] * 10
    ]
    _, usage, outcome, stability = learnt_from(project).normalised()
    assert outcome > usage == stability


def test_numbers_that_are_not_eight_are_refused() -> None:
    with pytest.raises(ValueError):
        NEW.without((0,) * 7)
    for wrong in (6, 10):
        with pytest.raises(ValueError):
            belief.bayesian(0.5, (0.0,) * wrong, NEW, TODAY)


# Three models, one interface


@requirement("CON-10")
@pytest.mark.parametrize(
    ("kind", "positive", "step"),
    [
        (EvidenceKind.EXPLICIT, True, 0.3),
        (EvidenceKind.EXPLICIT, False, -0.2),
        (EvidenceKind.USAGE, True, 0),
        (EvidenceKind.USAGE, False, 0),
        (EvidenceKind.OUTCOME, True, 0.1),
        (EvidenceKind.OUTCOME, False, -0.1),
        (EvidenceKind.STABILITY, True, 0.2),
        (EvidenceKind.STABILITY, False, -0.2),
    ],
)
def test_additive_takes_fixed_steps(kind: EvidenceKind, positive: bool, step: float) -> None:
    state = inputs(one(kind, positive, TODAY), initial=0.5, created=TODAY)
    assert MODELS["additive"](state) == pytest.approx(0.5 + step)


@requirement("CON-10")
def test_additive_loses_a_twentieth_for_each_idle_month() -> None:
    state = inputs({}, initial=0.5, created=TODAY - 75)
    assert MODELS["additive"](state) == pytest.approx(0.5 - 0.05 * 2.5)


@requirement("CON-10")
def test_additive_clips_the_total_and_not_each_step() -> None:
    praised_then_blamed = merged(
        one(EvidenceKind.EXPLICIT, True, TODAY, 2), one(EvidenceKind.EXPLICIT, False, TODAY, 3)
    )
    assert MODELS["additive"](inputs(praised_then_blamed)) == pytest.approx(0.8 + 0.6 - 0.6)


@requirement("CON-10")
def test_safla_mixes_four_shares() -> None:
    tally = in_parts({
        (EvidenceKind.EXPLICIT, True, TODAY - 30): 1,
        (EvidenceKind.EXPLICIT, False, TODAY): 4,
        (EvidenceKind.OUTCOME, True, TODAY - 40): 3,
        (EvidenceKind.OUTCOME, False, TODAY): 1,
        (EvidenceKind.STABILITY, True, TODAY - 50): 6,
        (EvidenceKind.STABILITY, False, TODAY): 2,
        (EvidenceKind.USAGE, True, TODAY - 30): 5,
    })  # fmt: skip
    # Ten spoke for it and seven against: its uses count by what is left of the ten.
    known = 0.4 * (1.6 + 10) / (2 + 17) + 0.3 * 5 / 20 * (3 / 17) + 0.2 * 0.5
    matched = inputs(tally, other_uses=15, context=0.6)
    unasked = inputs(tally, other_uses=15)
    assert MODELS["safla"](matched) == pytest.approx(known + 0.1 * 0.6)
    assert MODELS["safla"](unasked) == pytest.approx(known / 0.9)


def test_a_model_reads_with_the_half_life_that_was_set() -> None:
    kept = belief.masses(one(EvidenceKind.OUTCOME, True, TODAY, 6), 60.0)
    state = replace(inputs({}), masses=kept, half_life=60.0, today=TODAY + 60)
    assert MODELS["bayesian"](state) == belief.bayesian(0.8, kept, NEW, TODAY + 60, 60.0).mean


def test_safla_counts_no_use_where_nothing_was_ever_found() -> None:
    state = replace(inputs({}, created=TODAY), project_uses=0)
    assert MODELS["safla"](state) == pytest.approx((0.4 * 0.8 + 0.2) / 0.9)


@requirement("CON-10")
@pytest.mark.parametrize("model", MODELS)
def test_praise_dated_before_the_memory_was_made_does_not_age_it(model: str) -> None:
    new = inputs({}, created=TODAY)
    praised = inputs(one(EvidenceKind.USAGE, True, TODAY - 300), created=TODAY)
    assert MODELS[model](praised) >= MODELS[model](new)


@requirement("CON-10")
@pytest.mark.parametrize("model", ["additive", "safla"])
def test_blame_does_not_end_a_long_idleness(model: str) -> None:
    idle = inputs({}, created=TODAY - 300)
    blamed = inputs(one(EvidenceKind.OUTCOME, False, TODAY), created=TODAY - 300)
    assert MODELS[model](blamed) < MODELS[model](idle)


@requirement("CON-10")
@given(tallies(past_days), initials, weights)
def test_in_context_and_without_confidence_is_the_bayesian_mean(
    tally: Tally, initial: float, learnt: EvidenceWeights
) -> None:
    state = inputs(tally, initial=initial, weights=learnt)
    mean = confidence(tally, initial=initial, weights=learnt).mean
    assert MODELS["bayesian"](state) == MODELS["contextual"](state) == mean


def test_belief_loads_without_numpy() -> None:
    look = "import sys, reasonbank.trust.belief; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


# The page that explains it


def test_the_worked_example_in_the_documentation_is_computed() -> None:
    rows = re.findall(
        r"^\| (\d+) \| [^|]+ \| ([a-z]+)? ?([+−])? ?\| ([\d.]+) \| ([\d.]+) \|$",
        PAGE.read_text("utf-8"),
        re.MULTILINE,
    )
    tally: Tally = {}
    for after, kind, sign, mean, lower in rows:
        today = TODAY + int(after)
        if kind:
            tally = merged(tally, one(EvidenceKind(kind), sign == "+", today))
        held = confidence(tally, today=today)
        assert (f"{held.mean:.3f}", f"{held.lower_bound:.3f}") == (mean, lower), after
    assert len(rows) == 8


def test_the_code_in_the_documentation_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0

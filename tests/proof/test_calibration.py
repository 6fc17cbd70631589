"""Predicted against observed success."""

from __future__ import annotations

import pytest
from tests.requirement import requirement

from reasonbank.proof.calibration import Bin, Calibration, calibrated


def test_forecasts_are_put_beside_what_came_of_them_bin_by_bin() -> None:
    found = calibrated([(0.05, False), (0.62, True), (0.68, False), (0.66, True), (1.0, True)])
    assert [(each.low, each.high, each.count) for each in found.bins] == [
        (0.0, 0.1, 1),
        (0.6, 0.7, 3),
        (0.9, 1.0, 1),
    ]
    low, middle, high = found.bins
    assert (low.predicted, low.observed) == (0.05, 0.0)
    assert middle.predicted == pytest.approx((0.62 + 0.68 + 0.66) / 3)
    assert middle.observed == pytest.approx(2 / 3)
    assert (high.predicted, high.observed) == (1.0, 1.0)
    assert found.count == 5
    squares = 0.05**2 + 0.38**2 + 0.68**2 + 0.34**2 + 0.0**2
    assert found.brier == pytest.approx(squares / 5)
    gap = 2 / 3 - 1.96 / 3
    assert found.expected_error == pytest.approx((1 * 0.05 + 3 * gap + 1 * 0.0) / 5)


def test_the_number_of_bins_can_be_chosen() -> None:
    assert calibrated([(0.5, True), (0.74, False), (0.75, True)], bins=4).bins == (
        Bin(low=0.5, high=0.75, count=2, predicted=0.62, observed=0.5),
        Bin(low=0.75, high=1.0, count=1, predicted=0.75, observed=1.0),
    )


def test_without_forecasts_nothing_is_said() -> None:
    assert calibrated([]) == Calibration(count=0, brier=None, expected_error=None, bins=())


@requirement("PRV-2")
def test_perfect_forecasts_have_no_error_and_bold_wrong_ones_the_largest() -> None:
    assert calibrated([(1.0, True), (0.0, False)]).brier == 0
    assert calibrated([(1.0, False), (0.0, True)]).brier == 1
    fair = calibrated([(0.75, number % 4 != 0) for number in range(100)])
    assert fair.expected_error == pytest.approx(0) and fair.brier == pytest.approx(0.1875)
    assert calibrated([]).brier is None

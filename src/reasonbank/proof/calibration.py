"""Does a forecast of 0.7 mean seven times out of ten? Predicted against observed success. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The forecasts from ``low`` up to ``high``: their mean, and the share that came true."""

    low: float
    high: float
    count: int
    predicted: float
    observed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """``brier`` is the mean square of the error (0 is perfect, always saying 0.5 gets 0.25);
    ``expected_error`` is how far off a forecast is on average, over the bins. Both are None
    when nothing was forecast. Empty bins are left out."""

    count: int
    brier: float | None
    expected_error: float | None
    bins: tuple[Bin, ...]


def calibrated(forecasts: Sequence[tuple[float, bool]], bins: int = BINS) -> Calibration:
    """``forecasts``: how likely success was said to be, and whether it came."""
    if not forecasts:
        return Calibration(count=0, brier=None, expected_error=None, bins=())
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for predicted, came in forecasts:
        groups[min(bins - 1, int(predicted * bins))].append((predicted, came))
    found = tuple(
        Bin(
            low=place / bins,
            high=(place + 1) / bins,
            count=len(group),
            predicted=sum(predicted for predicted, _ in group) / len(group),
            observed=sum(came for _, came in group) / len(group),
        )
        for place, group in enumerate(groups)
        if group
    )
    count = len(forecasts)
    return Calibration(
        count=count,
        brier=sum((predicted - came) ** 2 for predicted, came in forecasts) / count,
        expected_error=sum(b.count * abs(b.predicted - b.observed) for b in found) / count,
        bins=found,
    )

"""How the thresholds of merging are chosen from what was measured."""

from __future__ import annotations

import numpy as np
from tests.requirement import requirement
from tools.fit_merge import Merged, fit_merge

from reasonbank.embed.calibration import Nearness, calibration_for
from reasonbank.embed.minilm import MiniLM

LABELS = np.array([0, 0, 1, 1])


def units(*degrees):
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


@requirement("CSL-1")
def test_of_equals_the_more_careful_threshold_and_no_more_care_than_buys_something():
    measured = [
        Merged(0.75, 0.451, 0.490),  # F0.5: 0.458
        Merged(0.80, 0.471, 0.406),  # 0.456: as good
        Merged(0.85, 0.510, 0.278),  # 0.437: worse
        Merged(0.90, 0.530, 0.190),  # as precise as what follows
        Merged(0.95, 0.533, 0.087),
    ]
    found = fit_merge(LABELS, units(0, 40, 90, 130), measured)
    assert found == Nearness(same=0.80, sure=0.90, related=0.75)


@requirement("CSL-1")
def test_the_thresholds_of_the_packaged_model_are_in_order():
    nearness = calibration_for(MiniLM.name).merge
    assert 0 < nearness.related < nearness.same <= nearness.sure < 1

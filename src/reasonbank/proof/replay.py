"""What confidence said before each outcome was known: evidence, read up to then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from reasonbank.ledger.port import Observation, Reading
from reasonbank.model import EvidenceKind, View
from reasonbank.trust.belief import (
    MODELS,
    BeliefInputs,
    EvidenceWeights,
    counts,
    day_of,
    last_day,
    masses,
    parts,
)
from reasonbank.trust.confidence import Confidence


def confidence_then(reading: Reading, view: View, known: Confidence) -> list[tuple[float, bool]]:
    """For each memory that a task was given, its confidence at that time, and how the task went.

    By today's weights of the kinds of evidence: those of the time are not kept.
    """
    observed = reading.observations(view)
    weights = EvidenceWeights(track_record=reading.track_record(view.workspace))
    uses = reading.uses(view.workspace)
    found: list[tuple[float, bool]] = []
    for _, group in groupby(observed, lambda one: one.num):
        own = list(group)
        for tally, at, succeeded in _moments(own):
            inputs = BeliefInputs(
                initial=own[0].initial,
                masses=masses(tally, known.half_life),
                counts=counts(tally),
                weights=weights,
                today=day_of(at),
                last_day=last_day(tally, day_of(own[0].created_at)),
                half_life=known.half_life,
                project_uses=uses,
            )
            found.append((MODELS[known.model](inputs), succeeded))
    return found


_Tally = dict[tuple[EvidenceKind, bool, int], int]


def _moments(own: Iterable[Observation]) -> Iterator[tuple[_Tally, int, bool]]:
    """When a memory was given to tasks whose outcome is known: what was known of it before."""
    ended = {
        one.session: bool(one.positive)
        for one in own
        if one.kind == EvidenceKind.OUTCOME and one.session is not None and one.here
    }
    tally: _Tally = {}
    for one in own:
        if one.kind == EvidenceKind.USAGE and one.here and one.session in ended:
            yield tally, one.at, ended[one.session]
        key = (EvidenceKind(one.kind), bool(one.positive), day_of(one.at))
        tally[key] = tally.get(key, 0) + parts(one.kind, one.share)

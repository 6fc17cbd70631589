"""Confidence is computed in one place: one memory and many agree to the last bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from numpy.typing import NDArray
from tests.trust.test_belief import (
    TODAY,
    days,
    half_lives,
    in_parts,
    initials,
    one,
    past_days,
    tallies,
    weights,
)

from reasonbank.model import EvidenceKind
from reasonbank.trust import belief
from reasonbank.trust.belief import FOLDED, MODELS, SLOTS, EvidenceCounts, EvidenceWeights, Tally
from reasonbank.trust.confidence import Confidence

DAY = 86_400_000_000
PLACES = ("here", "there")


@dataclass(frozen=True, kw_only=True)
class Told:
    """A memory of a bank that is just these numbers."""

    num: int
    workspace: str
    initial: float
    tally: Tally
    half_life: float = belief.HALF_LIFE
    created_at: int = (TODAY - 400) * DAY

    @property
    def masses(self) -> tuple[float, ...]:
        return belief.masses(self.tally, self.half_life)

    @property
    def track_record(self) -> tuple[int, ...]:
        return belief.track_record_of(self.tally)

    @property
    def newest_day(self) -> int:
        return belief.newest(self.tally)


@dataclass(frozen=True)
class Bank:
    """What a ledger says of them all."""

    memories: Sequence[Told]
    others: EvidenceWeights
    opinions_told: Mapping[int, Tally] = field(default_factory=dict)

    def track_record(self, workspace: str) -> tuple[int, ...]:
        own = [m.track_record for m in self.memories if m.workspace == workspace]
        return tuple(map(sum, zip(self.others.track_record, *own, strict=True)))

    def uses(self, workspace: str) -> int:
        return 1_000 + 7 * len(workspace)

    def tallies(self, nums: Sequence[int], viewer: str) -> dict[int, Tally]:
        return {num: self.memories[num].tally | self.opinions_told.get(num, {}) for num in nums}

    def shared_evidence(self) -> dict[int, belief.Opinion]:
        return {}

    def shared_tally(self, num: int) -> Tally:
        return self.memories[num].tally

    def opinions(self, viewer: str) -> dict[int, belief.Opinion]:
        return {
            num: belief.Opinion(belief.masses(tally), belief.newest(tally))
            for num, tally in self.opinions_told.items()
        }


@dataclass(frozen=True)
class Columns:
    nums: NDArray[np.int64]
    workspaces: Sequence[str]
    initial: NDArray[np.float64]
    masses: NDArray[np.float64]
    track_record: NDArray[np.int64]
    created_at: NDArray[np.int64]
    newest_day: NDArray[np.int64]


def columns(bank: Bank) -> Columns:
    each = bank.memories
    return Columns(
        np.arange(len(each)),
        [m.workspace for m in each],
        np.array([m.initial for m in each], np.float64),
        np.array([m.masses for m in each], np.float64).reshape(-1, len(SLOTS)),
        np.array([m.track_record for m in each], np.int64).reshape(-1, len(SLOTS)),
        np.array([m.created_at for m in each], np.int64),
        np.array([m.newest_day for m in each], np.int64),
    )


def confidence(
    bank: Bank, model: str, *, half_life: float = 180.0, today: int = TODAY
) -> Confidence:
    return Confidence(source=bank, viewer="here", model=model, half_life=half_life, today=today)


memories = st.lists(st.tuples(st.sampled_from(PLACES), initials, tallies(past_days)), max_size=8)


@pytest.mark.parametrize("model", MODELS)
@given(told=memories, others=weights, half_life=half_lives, today=days)
@example(
    told=[("here", least, one(EvidenceKind.OUTCOME, False, TODAY)) for least in (0.0, 5e-324)],
    others=EvidenceWeights(),
    half_life=180.0,
    today=TODAY,
)
def test_one_memory_and_many_have_the_same_confidence_to_the_last_bit(
    model: str,
    told: list[tuple[str, float, Tally]],
    others: EvidenceWeights,
    half_life: float,
    today: int,
) -> None:
    bank = Bank(
        [
            Told(num=num, workspace=place, initial=initial, tally=tally, half_life=half_life)
            for num, (place, initial, tally) in enumerate(told)
        ],
        others,
    )
    known = confidence(bank, model, half_life=half_life, today=today)
    assert known.of_many(columns(bank)).tolist() == [known.of(m) for m in bank.memories]


RATED = in_parts({
    (EvidenceKind.EXPLICIT, True, TODAY): 2,
    (EvidenceKind.OUTCOME, True, TODAY - 10): 3,
    (EvidenceKind.OUTCOME, False, TODAY - 200): 1,
    (EvidenceKind.STABILITY, False, TODAY - 5): 4,
})  # fmt: skip


@pytest.mark.parametrize("model", sorted(FOLDED))
def test_confidence_is_the_bayesian_mean_without_what_the_memory_taught(model: str) -> None:
    memory = Told(num=0, workspace="here", initial=0.7, tally=RATED)
    others = EvidenceWeights(track_record=(0, 0, 9, 2, 14, 8, 3, 6))
    known = confidence(Bank([memory], others), model)
    held = belief.bayesian(0.7, memory.masses, others, TODAY)
    assert (known.of(memory), known.belief(memory)) == (held.mean, held)


@pytest.mark.parametrize("model", MODELS)
def test_each_memory_is_read_with_the_weights_and_uses_of_its_own_workspace(model: str) -> None:
    used = one(EvidenceKind.USAGE, True, TODAY, 9) | one(EvidenceKind.STABILITY, True, TODAY, 9)
    told = Told(num=0, workspace="here", initial=0.7, tally=RATED | used)
    twin = Told(num=1, workspace="there", initial=0.7, tally=told.tally)
    rival = Told(num=2, workspace="there", initial=0.7, tally=RATED)
    here, there, _ = confidence(Bank([told, twin, rival], EvidenceWeights()), model).of_many(
        columns(Bank([told, twin, rival], EvidenceWeights()))
    )
    assert (here == there) == (model == "additive")


@pytest.mark.parametrize("initial", [0.0, 0.1, 0.3, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0])
def test_without_evidence_it_is_the_initial_confidence_itself(initial: float) -> None:
    bank = Bank([Told(num=0, workspace="here", initial=initial, tally={})], EvidenceWeights())
    known = confidence(bank, "bayesian")
    assert known.of(bank.memories[0]) == initial
    assert known.of_many(columns(bank)).tolist() == [initial]


def test_only_safla_looks_at_the_question_and_only_where_it_is_known_how_near_it_is() -> None:
    bank = Bank(
        [Told(num=n, workspace="here", initial=0.7, tally=RATED) for n in (0, 1)], EvidenceWeights()
    )
    cosine = np.array([0.9, np.nan])
    for model in MODELS:
        known = confidence(bank, model)
        near, unknown = known.of_many(columns(bank), cosine).tolist()
        assert unknown == known.of(bank.memories[1])
        assert (near == known.of(bank.memories[0])) == (model != "safla")


def test_every_kind_of_evidence_has_a_name_for_and_one_against_it_in_order() -> None:
    names = {
        EvidenceKind.EXPLICIT: ("rated_helpful", "rated_unhelpful"),
        EvidenceKind.USAGE: ("used", "used_in_vain"),
        EvidenceKind.OUTCOME: ("tasks_succeeded", "tasks_failed"),
        EvidenceKind.STABILITY: ("code_kept", "code_reverted"),
    }
    assert EvidenceCounts._fields == tuple(name for kind in EvidenceKind for name in names[kind])
    for (kind, positive), slot in SLOTS.items():
        seen = belief.counts(one(kind, positive, TODAY, 5))
        assert getattr(seen, names[kind][not positive]) == seen[slot] == sum(seen) == 5


def test_what_was_only_returned_by_searches_can_be_left_out() -> None:
    masses = np.arange(1.0, 1.0 + 2 * len(SLOTS)).reshape(2, -1)
    kept = belief.without_usage(masses)
    usage = [slot for (kind, _), slot in SLOTS.items() if kind is EvidenceKind.USAGE]
    assert not kept[:, usage].any()
    assert (np.delete(kept, usage, 1) == np.delete(masses, usage, 1)).all() and masses.all()


def test_a_slot_says_whether_it_speaks_for_a_memory() -> None:
    spoken = belief.speaks_for(np.array([*SLOTS.values()]))
    assert spoken.tolist() == [positive for _, positive in SLOTS]

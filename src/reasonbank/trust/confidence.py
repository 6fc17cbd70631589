"""How far to trust memories: the one place where their evidence becomes confidence.

One memory and many give the same numbers, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reasonbank.trust.belief import (
    FOLDED,
    MODELS,
    PRIOR_STRENGTH,
    Belief,
    BeliefInputs,
    Counts,
    EvidenceWeights,
    Masses,
    N,
    Opinion,
    Tally,
    bayesian,
    counts,
    day_of,
    last_day,
    masses as belief_masses,
    no_later,
)
from reasonbank.values import valueclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Known(Protocol):
    """A memory, and what its evidence amounts to; ``created_at`` in microseconds since 1970."""

    @property
    def num(self) -> int: ...
    @property
    def workspace(self) -> str: ...
    @property
    def initial(self) -> float: ...
    @property
    def masses(self) -> Masses: ...
    @property
    def track_record(self) -> Counts: ...
    @property
    def created_at(self) -> int: ...
    @property
    def newest_day(self) -> int:
        """Of its evidence."""


class ManyKnown(Protocol):
    """The same of many, as columns; ``masses`` and ``track_record`` have a row for each."""

    @property
    def nums(self) -> NDArray[np.int64]: ...
    @property
    def workspaces(self) -> Sequence[str]: ...
    @property
    def initial(self) -> Floats: ...
    @property
    def masses(self) -> Floats: ...
    @property
    def track_record(self) -> NDArray[np.int64]: ...
    @property
    def created_at(self) -> NDArray[np.int64]: ...
    @property
    def newest_day(self) -> NDArray[np.int64]: ...


class Source(Protocol):
    """What else a ledger knows of evidence."""

    def track_record(self, workspace: str) -> Counts: ...
    def uses(self, workspace: str) -> int: ...
    def tallies(self, nums: Sequence[int], viewer: str) -> Mapping[int, Tally]: ...
    def opinions(self, viewer: str) -> Mapping[int, Opinion]: ...
    def shared_evidence(self) -> Mapping[int, Opinion]: ...
    def shared_tally(self, num: int) -> Tally: ...


class _One(NamedTuple):
    num: int
    workspace: str
    initial: float
    masses: Masses
    track_record: Counts
    created_at: int
    newest_day: int


@valueclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """By one model, on one day, as one project sees it: others' memories by its own evidence and
    by what others than their authors say of them where they are."""

    source: Source
    viewer: str
    model: str
    half_life: float
    today: int

    def of(self, memory: Known) -> float:
        if self.model not in FOLDED:
            return self._by_tally([memory], [None])[0]
        return self.belief(memory).mean if any(self._masses(memory)) else memory.initial

    def masses(self, rows: ManyKnown) -> Floats:
        """What evidence amounts to; none of it counts as if it were younger than today."""
        import numpy as np

        own, shared = self.source.opinions(self.viewer), self.source.shared_evidence()
        special = rows.newest_day > self.today
        if own or shared:
            special = special | np.isin(rows.nums, [*own, *shared])
        if not special.any():
            return rows.masses
        masses = rows.masses.copy()
        for place in np.flatnonzero(special).tolist():
            num, workspace = int(rows.nums[place]), rows.workspaces[place]
            known = Opinion(tuple(masses[place]), int(rows.newest_day[place]))
            told = known if workspace == self.viewer else shared.get(num, known)
            masses[place] = self._with_opinion(num, *told, own)
        return masses

    def _masses(self, memory: Known) -> Masses:
        known = Opinion(memory.masses, memory.newest_day)
        own: Mapping[int, Opinion] = {}
        if memory.workspace != self.viewer:
            own = self.source.opinions(self.viewer)
            known = self.source.shared_evidence().get(memory.num, known)
        return self._with_opinion(memory.num, *known, own)

    def _with_opinion(
        self, num: int, masses: Masses, newest_day: int, own: Mapping[int, Opinion]
    ) -> Masses:
        opinion = own.get(num)
        if max(newest_day, opinion.newest_day if opinion else 0) > self.today:
            tally = self.source.tallies([num], self.viewer)[num]
            return belief_masses(no_later(tally, self.today), self.half_life)
        if opinion is None:
            return masses
        return tuple(one + other for one, other in zip(masses, opinion.masses, strict=True))

    def of_many(self, rows: ManyKnown, cosine: Floats | None = None) -> Floats:
        """``cosine``: how near each is to the question at hand, NaN where that is unknown."""
        import numpy as np

        if self.model in FOLDED:
            return self.folded(rows, rows.initial, self.masses(rows))
        near = [math.nan] * len(rows.nums) if cosine is None else cosine.tolist()
        memories = map(
            _One, rows.nums.tolist(), rows.workspaces, rows.initial.tolist(),
            rows.masses.tolist(), rows.track_record.tolist(), rows.created_at.tolist(),
            rows.newest_day.tolist(),
        )  # fmt: skip
        contexts = [None if math.isnan(value) else value for value in near]
        return np.array(self._by_tally([*memories], contexts), np.float64)

    def folded(self, rows: ManyKnown, initial: Floats, masses: Floats) -> Floats:
        """From other numbers than the rows' own, by a model that needs no more than these.

        Without evidence it is the initial one itself, not that but for its last bit.
        """
        import numpy as np

        means = initial.copy()
        told = np.flatnonzero(masses.any(1))
        owners = np.array(rows.workspaces, dtype=object)[told]
        for workspace in set(owners):
            mine = told[owners == workspace]
            own = rows.track_record[mine]
            held = self._belief(workspace, initial[mine], [*masses[mine].T], own.T)
            with np.errstate(over="ignore"):  # Next to nothing for it: the mean is 0.
                means[mine] = held.mean
        return means

    def shared_belief(self, memory: Known) -> Belief[float]:
        """As those see it who have no evidence of their own: without its author's."""
        tally = no_later(self.source.shared_tally(memory.num), self.today)
        masses = belief_masses(tally, self.half_life)
        return self._belief(memory.workspace, memory.initial, masses, memory.track_record)

    def lower_bounds(self, rows: ManyKnown, means: Floats, masses: Floats) -> Floats:
        """Of what ``means`` says, as ``Belief.lower_bound`` has it."""
        import numpy as np

        strength = np.full(len(means), PRIOR_STRENGTH)
        told = np.flatnonzero(masses.any(1))
        owners = np.array(rows.workspaces, dtype=object)[told]
        for workspace in set(owners):
            mine = told[owners == workspace]
            held = self._belief(
                workspace, rows.initial[mine], [*masses[mine].T], rows.track_record[mine].T
            )
            strength[mine] = held.strength
        bounds: Floats = means - 1.64 * np.sqrt(means * (1 - means) / (strength + 1))
        return np.maximum(0.0, bounds)

    def belief(self, memory: Known) -> Belief[float]:
        masses = self._masses(memory)
        return self._belief(memory.workspace, memory.initial, masses, memory.track_record)

    def _belief(
        self,
        workspace: str,
        initial: N,
        masses: Sequence[N],
        own: Sequence[int] | NDArray[np.int64],
    ) -> Belief[N]:
        weights = EvidenceWeights(track_record=self.source.track_record(workspace)).without(own)
        return bayesian(initial, masses, weights, self.today, self.half_life)

    def _by_tally(self, memories: Sequence[Known], contexts: Sequence[float | None]) -> list[float]:
        """By a model that needs more than what evidence amounts to."""
        found = self.source.tallies([memory.num for memory in memories], self.viewer)
        tallies = {num: no_later(tally, self.today) for num, tally in found.items()}
        workspaces = {memory.workspace for memory in memories}
        weights = {
            name: EvidenceWeights(track_record=self.source.track_record(name))
            for name in workspaces
        }
        uses = {name: self.source.uses(name) for name in workspaces}
        return [
            MODELS[self.model](
                BeliefInputs(
                    initial=memory.initial,
                    masses=belief_masses(tallies[memory.num], self.half_life),
                    counts=counts(tallies[memory.num]),
                    weights=weights[memory.workspace].without(memory.track_record),
                    today=self.today,
                    last_day=last_day(tallies[memory.num], day_of(memory.created_at)),
                    half_life=self.half_life,
                    project_uses=uses[memory.workspace],
                    context=context,
                )
            )
            for memory, context in zip(memories, contexts, strict=True)
        ]

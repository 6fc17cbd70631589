"""Whom to believe: who wrote a memory is weak evidence of what it is worth.

It lowers what is expected of something untried, a little with each task that failed. Only after
many of them, and where others surely help twice as often, is it no longer shown. A person is one,
in however many projects, and is compared with the others of each project by itself: what is hard
there is hard for all. See docs/decisions/0010-belief-in-context.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reasonbank.model import EvidenceKind
from reasonbank.trust.belief import SLOTS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Records = Mapping[tuple[str, str], tuple[int, int]]
"""By project and author: in how many tasks what they wrote there helped, in how many it failed."""

AUTHOR_PRIOR = 10.0
LUCK = 2.0
"""So many successes more or less are taken for chance."""
FEWEST = 8
"""Tasks that failed, before anything is hidden, or its forecast less than halved."""
LEAST = 0.05
"""The weight of an author who is heard at all."""
SURE = 1.645
"""Standard errors: right in 95 of 100 cases."""
HELPFUL = [SLOTS[kind, True] for kind in EvidenceKind if kind is not EvidenceKind.USAGE]
"""The slots of evidence that a memory has helped, or was rated so."""


class Record(NamedTuple):
    """How often what somebody wrote helped and failed, and what others wrote in the same
    projects: ``rate`` is how often that helps where this person works, give or take ``spread``."""

    helped: int = 0
    failed: int = 0
    others_helped: int = 0
    others_failed: int = 0
    rate: float = 1.0
    spread: float = 0.0

    @property
    def weight(self) -> float:
        """How far to listen: 1, less where successes are missing, 0 to hide what is untried."""
        if not self.others_helped + self.others_failed:
            return 1.0
        if self.failed >= FEWEST and self._is_half_as_good():
            return 0.0
        # Twelve failures say little where even the others hardly ever help: what counts is how
        # many successes are missing.
        tasks = self.helped + self.failed
        missed = (self.helped + LUCK) / (tasks * self.rate + LUCK)
        least = max(LEAST, 1.0 - self.failed / (2 * FEWEST))
        return min(1.0, max(least, 2.0 * missed - 1.0))

    def _is_half_as_good(self) -> bool:
        """Whether it surely helps less than half as often as what others wrote."""
        strength = 2.0 + self.helped + self.failed
        own = (1.0 + self.helped) / strength
        variance = own * (1.0 - own) / (strength + 1.0) + self.spread**2 / 4.0
        return own + SURE * math.sqrt(variance) < self.rate / 2.0

    def why_hidden(self, author: str) -> str:
        """In words for who asks why a memory is not shown."""
        others = self.others_helped + self.others_failed
        return (
            f"hidden for who wrote it: what {author} wrote helped in {self.helped} of "
            f"{self.helped + self.failed} tasks, what others wrote in {self.others_helped} of "
            f"{others}; rated as helpful it is shown again"
        )


def records_of(known: Records, authors: Iterable[str]) -> dict[str, Record]:
    """Of these authors, from what is known of all."""
    everybody: dict[str, tuple[int, int]] = {}
    own: dict[str, list[tuple[str, int, int]]] = {author: [] for author in authors}
    for (project, author), (helped, failed) in known.items():
        so_far = everybody.get(project, (0, 0))
        everybody[project] = (so_far[0] + helped, so_far[1] + failed)
        if author in own:
            own[author].append((project, helped, failed))
    return {author: _record(parts, everybody) for author, parts in own.items()}


def _record(
    parts: Sequence[tuple[str, int, int]], everybody: Mapping[str, tuple[int, int]]
) -> Record:
    helped = sum(part[1] for part in parts)
    failed = sum(part[2] for part in parts)
    others_helped = others_failed = 0
    rate = variance = 0.0
    for project, here_helped, here_failed in parts:
        if not here_helped + here_failed:
            continue
        all_helped, all_failed = everybody[project]
        others_helped += all_helped - here_helped
        others_failed += all_failed - here_failed
        # Few tasks of others say little of them: until there are more they are like everybody.
        usual = (1.0 + all_helped) / (2.0 + all_helped + all_failed)
        strength = AUTHOR_PRIOR + all_helped + all_failed - here_helped - here_failed
        mean = (AUTHOR_PRIOR * usual + all_helped - here_helped) / strength
        share = (here_helped + here_failed) / (helped + failed)
        rate += share * mean
        variance += share**2 * mean * (1.0 - mean) / (strength + 1.0)
    return Record(helped, failed, others_helped, others_failed, rate, math.sqrt(variance))


def prior_of_author(initial: Floats, helped: Floats, failed: Floats) -> Floats:
    """Where to start from, given how other memories by the same author fared.

    It takes ten failures to halve the trust in an author; a memory's own evidence then
    speaks against this prior as it would against any.
    """
    return (AUTHOR_PRIOR * initial + helped) / (AUTHOR_PRIOR + helped + failed)


def has_helped(masses: Sequence[float]) -> bool:
    """Whether anything says so of a memory: then that counts, and not who wrote it."""
    return any(masses[slot] for slot in HELPFUL)

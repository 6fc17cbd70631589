"""What is to be merged, and what is not, and why: decided purely, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from reasonbank.embed.calibration import Nearness
from reasonbank.index import clusters
from reasonbank.model import JSON, Link, Memory, Outcome, Source, Standing, derived_id
from reasonbank.safety.prompt_injection import suspicions_of
from reasonbank.search.rivals import state_two_values
from reasonbank.search.sentences import differ_in_numbers, opposed
from reasonbank.tidy import causes, links
from reasonbank.tidy.merge import Member

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MOST_MEMBERS = 16
MOST_TEXT = 60_000
"""Characters of one cluster; more would not fit a prompt, nor a memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``id`` is the one that the merged memory will have; the first member is the centre."""

    id: str
    members: tuple[Member, ...]
    mean_similarity: float
    least_similarity: float
    middle: Floats = field(compare=False, repr=False)

    def to_json(self) -> JSON:
        return {
            "id": self.id,
            "members": [{"id": m.memory.id, "title": m.memory.title} for m in self.members],
            "mean_similarity": round(self.mean_similarity, 4),
            "least_similarity": round(self.least_similarity, 4),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What would be merged, the surest first, and what would not, and why."""

    threshold: float
    clusters: tuple[Cluster, ...]
    skipped: tuple[Skipped, ...]
    links: tuple[Link, ...]
    evaluated: int


def apart(one: Memory, other: Memory) -> str | None:
    """Why two memories that are near each other are not one, if they are not."""
    if one.scope is not other.scope:
        return "they are shared with different people"
    if one.draft or other.draft:
        return "one of them is a draft that nobody has checked"
    if (one.source is Source.PEER) is not (other.source is Source.PEER):
        return "one of them came from a peer"
    if _differ(one.domain, other.domain):
        return "they belong to different domains"
    if _differ(one.task_type, other.task_type):
        return "they belong to different types of task"
    if one.agent != other.agent:
        return "they belong to different agents"
    if contradict(one, other):
        return "they contradict each other"
    if one.error_context and other.error_context:
        types = {m.error_context.error_type.casefold() for m in (one, other) if m.error_context}
        if len(types) > 1:
            return "they warn of different errors"
    if differ_in_numbers(f"{one.title}\n{one.content}", f"{other.title}\n{other.content}"):
        return "they name different numbers"
    if state_two_values(one, other):
        return "they state different values of one fact"
    return None


def _on_probation(one: Member, other: Member) -> str | None:
    """Nothing is merged into what is trusted, or into another's, before it is confirmed."""
    standings = {one.memory.standing, other.memory.standing}
    if Standing.WAITING in standings:
        return "one of them waits for a person"
    if len(standings) > 1:
        return "one of them is not confirmed yet"
    if Standing.UNTESTED in standings and one.hand != other.hand:
        return "neither is confirmed yet, and they are not by the same hand"
    return None


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def contradict(one: Memory, other: Memory) -> bool:
    """Opposite outcome or advice; asked only of memories about the same situation."""
    if {one.outcome, other.outcome} == {Outcome.SUCCESS, Outcome.FAILURE}:
        return True
    return opposed(one.title, other.title) or opposed(one.content, other.content)


def plan(
    members: Sequence[Member],
    vectors: Floats,
    *,
    workspace: str,
    nearness: Nearness,
    undone: Iterable[frozenset[str]] = (),
    max_clusters: int = 0,
) -> MergePlan:
    """Pure: the same memories and vectors give the same plan. 0 is no limit of clusters."""
    near = clusters.pairs(vectors, min(nearness.same, nearness.related))
    reasons: dict[tuple[int, int], str] = {}
    never = [frozenset(ids) for ids in undone]

    @cache
    def flagged(row: int) -> bool:
        # A merge would put its text into a prompt unasked, and its words into a clean memory.
        return bool(suspicions_of(members[row].memory))

    def together(a: int, b: int) -> bool:
        one, other = members[a].memory, members[b].memory
        reason = apart(one, other)
        if reason is None:
            reason = _on_probation(members[a], members[b])
        if reason is None and (flagged(a) or flagged(b)):
            reason = "one of them looks like an instruction"
        if reason is None and any(one.id in ids and other.id in ids for ids in never):
            reason = "their merge was undone"
        if reason is not None:
            reasons[a, b] = reason
        return reason is None

    same = near.above(nearness.same)
    groups = clusters.grouped(same, most=MOST_MEMBERS, together=together)
    found, skipped = _fitting(
        [_cluster(workspace, members, vectors, rows) for rows in groups], max_clusters
    )
    skipped += [
        Skipped(ids=(members[a].memory.id, members[b].memory.id), reason=reason)
        for (a, b), reason in sorted(reasons.items())
    ]

    def conflict(one: Memory, other: Memory, cosine: float) -> bool:
        # A title that is turned round says enough, however different the rest is.
        return opposed(one.title, other.title) or (
            cosine >= nearness.same and contradict(one, other)
        )

    memories = [member.memory for member in members]
    merged = {m.memory.id: cluster.id for cluster in found for m in cluster.members}
    return MergePlan(
        threshold=nearness.same,
        clusters=tuple(found),
        skipped=tuple(skipped),
        links=(
            *links.found(memories, near, merged=merged, conflict=conflict),
            *causes.found(memories, merged=merged),
        ),
        evaluated=len(members),
    )


def _fitting(groups: Sequence[Cluster], most: int) -> tuple[list[Cluster], list[Skipped]]:
    """Those that are not too long for one memory, the surest first, and what was left out."""
    found, skipped = [], []
    for cluster in groups:
        length = sum(len(m.memory.content) for m in cluster.members)
        if length > MOST_TEXT:
            skipped.append(skip(cluster, f"their {length:,} characters are too long for one"))
        else:
            found.append(cluster)
    # A limit leaves out those that are least alike.
    found.sort(key=lambda c: (-c.least_similarity, c.id))
    if most:
        skipped += [skip(c, "beyond the limit of clusters") for c in found[most:]]
        found = found[:most]
    return found, skipped


def _cluster(
    workspace: str, members: Sequence[Member], vectors: Floats, rows: list[int]
) -> Cluster:
    middle, mean, least = clusters.centre(vectors[rows])
    ordered = [members[rows[middle]], *(members[row] for row in rows if row != rows[middle])]
    told = sorted(f"{m.memory.id}@{m.memory.revision}" for m in ordered)
    return Cluster(
        id=derived_id("merge", workspace, *told),
        members=tuple(ordered),
        mean_similarity=mean,
        least_similarity=least,
        middle=vectors[rows].mean(axis=0),
    )


def skip(cluster: Cluster, reason: str) -> Skipped:
    return Skipped(ids=tuple(m.memory.id for m in cluster.members), reason=reason)

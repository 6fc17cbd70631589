"""Taking back what somebody wrote, and everything that was made from it, as one batch.

Nothing is removed. The batch names the events that count for nothing from now on, and archives the
memories that they recorded; an undo of the batch makes them count again. Who wrote is what the
envelope of an event says. A session, which has no place there, is what the event itself names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reasonbank.errors import InvalidInput
from reasonbank.ledger.events import (
    BATCHES,
    CHANGES,
    LINKS,
    REVERT,
    Event,
    EventType,
    sessions_of,
)
from reasonbank.ledger.port import Reading, Writing, Written
from reasonbank.model import Principal, new_id, to_micros
from reasonbank.store import batches
from reasonbank.store.batches import BatchStep
from reasonbank.store.context import Context
from reasonbank.store.maintenance import PRUNED

AT_ONCE = 1000
"""So many events one step names: an event must not grow without end."""
_AGO = re.compile(r"(\d{1,6})(m|h|d|w)").fullmatch
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
# What makes a memory's text, or lets others be made from it.
_TELLING = CHANGES - {EventType.ARCHIVED}
_JUDGING = frozenset({EventType.OBSERVED, EventType.ENDED})
_BY_ITSELF = (Principal.BANK, Principal.MODEL)
"""Who concludes something from a trace that somebody else stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """What was taken back; `undo` of the ``batch`` brings it back. None: there was nothing.

    ``left`` are memories of which something is left as it is: those that belong to other
    workspaces, which only who looks after the whole bank may change, and those of which a person
    said something, which only a person takes back.
    """

    batch: str | None
    archived: tuple[str, ...]
    restored: tuple[str, ...]
    changed: tuple[str, ...]
    links: int
    evidence: int
    left: tuple[str, ...]
    dry_run: bool


def revert(
    context: Context,
    *,
    author: str | None,
    session: str | None,
    batch: str | None,
    since: str | None,
    everywhere: bool,
    dry_run: bool,
) -> Reverted:
    if author is session is batch is since is None:
        raise InvalidInput(
            "author", "is missing; say whose writes: author, session, batch, since, or several"
        )
    wanted = Written(
        workspace=None if everywhere else context.view.workspace,
        author=author,
        batch=batch,
        session=session,
        since=None if since is None else moment(since, context.now()),
    )
    return take_back(context, wanted, dry_run=dry_run)


def take_back(context: Context, wanted: Written, *, dry_run: bool = False) -> Reverted:
    if dry_run:
        return plan(context, context.settled_read(), wanted).told(None)
    result = context.write(lambda txn: take_back_in(context, txn, wanted))
    context.store.indexing.wake()
    return result


def take_back_in(context: Context, txn: Writing, wanted: Written) -> Reverted:
    id = new_id()
    found = plan(context, txn, wanted)
    for step in found.steps():
        batches.apply(context, txn, id, REVERT, step)
    return found.told(id)


def bring_back_in(context: Context, txn: Writing, origin: str, through: str) -> None:
    """What ``origin`` said counts again, where it was taken back for the sake of ``through``."""
    batch: dict[str, list[Event]] = {}
    for step in txn.taken_back_through(origin, through):
        batch.setdefault(step.subject, []).append(step)
    for id, steps in batch.items():
        home = context.seen_by(workspace=steps[0].workspace).in_batch(id)
        batches.count_again(home, txn, id, steps)


def moment(told: str, now: int) -> int:
    """A time as people write it, in microseconds: a date, a time, or how long ago."""
    if ago := _AGO(told.strip()):
        return now - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000
    try:
        found = datetime.fromisoformat(told.strip())
    except ValueError:
        raise InvalidInput(
            "since", f"{told!r} is no time; write 2026-01-31, 2026-01-31T12:00, or 2h, 3d, 1w"
        ) from None
    return to_micros(found if found.tzinfo else found.replace(tzinfo=UTC))


@dataclass(slots=True)
class Plan:
    """Which events are to count no longer."""

    here: str | None
    """The workspace whose things may be changed; None: all."""
    through: str | None = None
    """The bank for whose sake others' words go too."""
    origins: frozenset[str] = frozenset()
    events: dict[str, Event] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)

    def of(self, *types: EventType) -> list[Event]:
        return [event for event in self.events.values() if event.type in types]

    @property
    def archived(self) -> dict[str, None]:
        return dict.fromkeys(event.subject for event in self.of(EventType.RECORDED))

    def steps(self) -> Iterable[BatchStep]:
        """Of each bank's words apart: some of them may come back without the others."""
        by_origin: dict[str, list[Event]] = {}
        for event in self.events.values():
            by_origin.setdefault(event.origin, []).append(event)
        gone: set[str] = set()
        for origin, told in by_origin.items():
            archived = dict.fromkeys(e.subject for e in told if e.type is EventType.RECORDED)
            ids = [id for id in archived if id not in gone]
            gone |= archived.keys()
            others = self.through not in (None, origin) and origin in self.origins
            for start in range(0, len(told), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                yield BatchStep(
                    events=tuple(event.id for event in told[part]), archived=tuple(ids[part]),
                    brought=(origin, self.through or "") if others else None,
                )  # fmt: skip

    def told(self, batch: str | None) -> Reverted:
        gone = self.archived
        restored = {e.subject for e in self.of(EventType.ARCHIVED)} - gone.keys()
        others = _TELLING - {EventType.RECORDED}
        changed = {e.subject for e in self.of(*others)} - gone.keys()
        seen = self.of(EventType.OBSERVED, EventType.ENDED, EventType.JUDGED, EventType.USED)
        return Reverted(
            batch=batch if self.events else None,
            archived=tuple(gone),
            restored=tuple(sorted(restored)),
            changed=tuple(sorted(changed)),
            links=len(self.of(*LINKS)),
            evidence=len(seen),
            left=tuple(self.left),
            dry_run=batch is None,
        )


def plan(context: Context, reading: Reading, wanted: Written) -> Plan:
    return _Planning(context, reading, wanted).plan


class _Planning:
    """Looks for all that follows from what was written; changes nothing."""

    def __init__(self, context: Context, reading: Reading, wanted: Written) -> None:
        self.context = context
        self.reading = reading
        self.plan = Plan(wanted.workspace, wanted.through, frozenset(wanted.origins))
        self.seen: set[str] = set()
        found = reading.written(wanted)
        gone = self._take(event for event in found if event.type is not EventType.TRACED)
        for trace in found:
            if trace.type is EventType.TRACED:
                gone += self._learned_from(trace)
        self._follow(gone)
        self._unlink()

    def _take(self, events: Iterable[Event]) -> list[Event]:
        """Those that were not looked at yet and count no longer: what the caller may change, a
        memory only from the workspace that owns it, and what was taken back before."""
        new = {event.id: event for event in events if event.id not in self.seen}
        self.seen |= new.keys()
        of_memories = CHANGES | LINKS
        owners = self.reading.owners({e.subject for e in new.values() if e.type in of_memories})
        gone = []
        for event in new.values():
            about_memory = event.type in of_memories
            owner = owners.get(event.subject) if about_memory else event.workspace
            if owner is None:
                continue  # It was forgotten, and stays so.
            if event.taken_back:
                gone.append(event)
            elif _is_a_persons(event) and self.context.principal is not Principal.PERSON:
                if about_memory and self.plan.here in (None, owner):
                    self.plan.left[event.subject] = None
            elif self.plan.here in (None, owner):
                self.plan.events[event.id] = event
                gone.append(event)
            elif about_memory and not self.context.hidden(self.reading, [event.subject]):
                self.plan.left[event.subject] = None
        return gone

    def _learned_from(self, trace: Event) -> list[Event]:
        """What the bank itself made of a trace."""
        learned = self.reading.about([trace.subject], frozenset({EventType.LEARNED}))
        ids = [id for e in learned if e.order > trace.order for id in e.payload["ids"]]
        gone = self._take(self.reading.about(ids, frozenset({EventType.RECORDED})))
        for session in sorted(sessions_of(trace)):
            named = Written(workspace=trace.workspace, session=session)
            gone += self._take(
                event
                for event in self.reading.written(named)
                if event.type in (EventType.OBSERVED, EventType.JUDGED)
                and event.principal in _BY_ITSELF
                and event.order > trace.order
            )
        return gone

    def _follow(self, gone: Sequence[Event]) -> None:
        """From what is taken back to what was made from it, until nothing new is found."""
        told = _earliest(gone, _TELLING)
        judged: dict[str, tuple[int, str]] = {}
        by_id = {event.id: event for event in gone if event.type in _JUDGING}
        for seen, memory in self.reading.observed_by(by_id):
            order = by_id[seen].order
            judged[memory] = min(order, judged.get(memory, order))
        self._unprune(judged)
        frontier = {*told, *judged}
        while frontier:
            ties = [(a, b) for a, b in self.reading.kin(frontier) if a in frontier]
            born = self.reading.about({b for _, b in ties}, frozenset({EventType.RECORDED}))
            first = {event.subject: event for event in reversed(born)}
            new = {}
            for parent, child in ties:
                event = first.get(child)
                # What others judged of a memory is in the numbers of what a batch made from it.
                if event is not None and (
                    _after(event, told.get(parent))
                    or (event.batch and _after(event, judged.get(parent)))
                ):
                    new[child] = event
            taken = self._take(new.values())
            for event in taken:
                self._unmake(event)
            told |= _earliest(taken, _TELLING)
            frontier = {event.subject for event in taken}

    def _unlink(self) -> None:
        """What others linked to what is taken back."""
        gone = self.plan.archived
        sources = {source for source, _ in self.reading.link_ends(gone)}
        self._take(
            event
            for event in self.reading.about(sources, frozenset({EventType.LINKED}))
            if event.subject in gone or event.payload["target"] in gone
        )

    def _unprune(self, judged: dict[str, tuple[int, str]]) -> None:
        """What was archived because of what they had observed comes back."""
        self._take(
            event
            for event in self.reading.about(judged, frozenset({EventType.ARCHIVED}))
            if _after(event, judged[event.subject])
            and str(event.payload.get("reason")).startswith(PRUNED)
        )

    def _unmake(self, made: Event) -> None:
        """The rest of the step that made a memory: its other sources, and its links."""
        if made.batch is None:
            return
        for step in self.reading.about([made.batch], BATCHES):
            if step.payload.get("created") != made.subject:
                continue
            sources, links = step.payload["archived"], step.payload["links"]
            ends = {source for source, _, _ in links}
            drawn = self.reading.about([*sources, *ends], LINKS | {EventType.ARCHIVED})
            self._take([
                step,
                *(
                    event
                    for event in drawn
                    if event.batch == made.batch
                    and (
                        event.payload.get("merged_into") == made.subject
                        or [event.subject, event.payload.get("target"), event.payload.get("type")]
                        in links
                    )
                ),
            ])  # fmt: skip


def _earliest(events: Iterable[Event], types: frozenset[EventType]) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for event in events:
        if event.type in types:
            found[event.subject] = min(event.order, found.get(event.subject, event.order))
    return found


def _is_a_persons(event: Event) -> bool:
    """What a person wrote, accepted or rejected: no agent takes that back."""
    return event.principal is Principal.PERSON


def _after(event: Event, order: tuple[int, str] | None) -> bool:
    return order is not None and event.order > order


def batches_of(context: Context, ids: Sequence[str]) -> list[str]:
    """The imports that brought these memories."""
    found = context.read().about(ids, frozenset({EventType.RECORDED}))
    return sorted({e.batch for e in found if e.batch and e.principal is Principal.IMPORT})

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from reasonbank.ledger.events import Event, EventType, memory_of
from reasonbank.ledger.sessions import Giving
from reasonbank.ledger.vectors import VectorReading, VectorWriting
from reasonbank.model import (
    JSON,
    Change,
    Evidence,
    Filter as Filter,  # noqa: PLC0414
    Job,
    JobState,
    Link,
    Memory,
    Scope,
    Standing,
    State,
    Task,
    Trace,
    View,
    Workspace,
    from_micros,
)
from reasonbank.trust.belief import NOTHING, SLOTS, Opinion
from reasonbank.values import valueclass

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.ledger.database import Database
    from reasonbank.trust.belief import EvidenceCounts, Tally

    Floats = NDArray[np.float64]

T = TypeVar("T")

SINCE = "since"
"""The meter whose total is the time of the last reset."""
SEAL = "opens "
"""What a token's seal begins with; what was noted of older ones holds nothing of them."""

# Masses, then the track record, then the day of the newest.
PACKED_EVIDENCE = struct.Struct(f"<{2 * len(SLOTS) + 1}d")
STATES = {str(state): state for state in State}
STANDINGS = tuple(Standing)
# What we wrote ourselves needs none of the checks of json.loads.
_decoded = json.JSONDecoder().raw_decode


@valueclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries of the audit: those of a workspace (None: of all) and of its memories."""

    workspace: str | None
    limit: int
    before: int | None = None
    author: str | None = None
    surface: str | None = None
    subject: str | None = None
    uses: bool = False


@valueclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where the log is not as it was written: from which event on, by which bank's log."""

    origin: str
    found: str
    event: str | None = None
    at: int | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written by an author, in a batch or a session, since then: all that is given."""

    workspace: str | None
    """By it, or to its memories; None: anywhere."""
    author: str | None = None
    """By its name, or by its hand: ``agent:alice`` is no ``person:alice``."""
    batch: str | None = None
    session: str | None = None
    since: int | None = None
    origins: tuple[str, ...] = ()
    """The banks that wrote it; none: whichever."""
    events: tuple[str, ...] = ()
    """These alone; none: whichever."""
    through: str | None = None
    """The bank that brought them, where it is for its sake that they go."""


class Order(StrEnum):
    """Of what is listed."""

    NEWEST = "newest"
    OLDEST = "oldest"
    USED = "used"


class Row(NamedTuple):
    """A memory as the ledger holds it, with what its belief is folded from."""

    num: int
    id: str
    workspace: str
    state: str
    initial: float
    packed: bytes | None
    usage_count: int
    last_used: int | None
    revision: int
    stage: int
    merged_into: str | None
    author: str
    created_at: int
    lesson: str
    probation: int
    hand: str | None
    realm: int

    @property
    def masses(self) -> tuple[float, ...]:
        return PACKED_EVIDENCE.unpack(self.packed)[: len(SLOTS)] if self.packed else NOTHING

    @property
    def track_record(self) -> tuple[int, ...]:
        return lessons_in(self.packed)

    @property
    def newest_day(self) -> int:
        return int(PACKED_EVIDENCE.unpack(self.packed)[-1]) if self.packed else 0

    def memory(self, confidence: float | None = None) -> Memory:
        return memory_of(
            _decoded(self.lesson)[0],
            id=self.id,
            confidence=confidence,
            workspace=self.workspace,
            state=STATES[self.state],
            standing=STANDINGS[self.probation],
            usage_count=self.usage_count,
            last_used=None if self.last_used is None else from_micros(self.last_used),
            revision=self.revision,
            stage=self.stage,
            merged_into=self.merged_into,
            author=self.author,
            created_at=from_micros(self.created_at),
        )


def lessons_in(packed: bytes | None) -> tuple[int, ...]:
    return tuple(map(int, PACKED_EVIDENCE.unpack(packed)[len(SLOTS) : -1])) if packed else NOTHING


def opinion_in(packed: bytes) -> Opinion:
    numbers = PACKED_EVIDENCE.unpack(packed)
    return Opinion(numbers[: len(SLOTS)], int(numbers[-1]))


@valueclass(frozen=True, slots=True, kw_only=True)
class UnansweredQuestion:
    """A question that found nothing, how often and when; times are microseconds since 1970.

    ``vector`` is its direction (int8) by the ``model``; None where nobody embedded it yet.
    """

    workspace: str
    question: str
    first: int
    last: int
    asked: int = 1
    model: str | None = None
    vector: bytes | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is kept of a bearer token; times are microseconds since 1970.

    ``workspaces`` are ids; None reaches all.
    """

    id: str
    name: str
    scope: str
    workspaces: tuple[str, ...] | None
    digest: bytes
    created_at: int
    created_by: str
    expires_at: int | None = None
    last_used: int | None = None
    revoked_at: int | None = None
    may: tuple[str, ...] | None = None

    @property
    def seal(self) -> str:
        """What it opens, and to whom: what the log keeps of that, which the chain holds."""
        told = (self.id, self.name, self.scope, self.workspaces, self.may, self.digest.hex(),
                self.created_at, self.created_by, self.expires_at)  # fmt: skip
        return f"{SEAL}{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]}"


@valueclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another bank; times are microseconds since 1970.

    ``token`` is what it lets this bank do, ``granted`` what this bank lets it do. What a
    ``trusted`` one says counts as if it had been said here.
    """

    key: str
    name: str
    address: str | None = None
    token: bytes | None = None
    granted: bytes | None = None
    trusted: bool = False
    added_at: int
    seen_at: int | None = None
    revoked_at: int | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """``name`` is what whoever takes it will be called here."""

    id: str
    name: str | None = None
    created_at: int
    expires_at: int
    taken_by: str | None = None
    revoked_at: int | None = None


@valueclass(frozen=True, slots=True, kw_only=True)
class PeerLog:
    """What one bank says in one channel, as far as it is known here; see ``peers/wire.py``."""

    num: int
    key: str
    epoch: str
    channel: str
    length: int
    link: bytes
    size: int
    via: str
    fork: int | None
    proof: bytes | None
    read_to: int


class LogEntry(NamedTuple):
    """``header`` is all of an entry but what can be forgotten of it."""

    seq: int
    event: str
    subject: str
    link: bytes
    signature: bytes | None
    header: bytes
    salt: bytes | None
    payload: bytes | None


@valueclass(frozen=True, slots=True, kw_only=True)
class TaskOffer:
    """A task for another bank to do (``ours``), or of another one to be done here; ``most`` and
    ``spent`` are millionths of a dollar."""

    id: str
    ours: bool
    peer: str | None = None
    state: str
    task: str
    most: int
    spent: int = 0
    expires_at: int
    workspace: str
    trace: str | None = None


class PeerReading(Protocol):
    def all(self) -> list[Peer]:
        """Those that were revoked too; by name."""

    def peer(self, key: str) -> Peer | None: ...
    def named(self, name: str) -> Peer | None: ...
    def invitations(self) -> list[Invitation]: ...
    def invitation(self, id: str) -> Invitation | None: ...
    def own_ids(self) -> list[str]:
        """The ids that this bank has written under, its present one last."""

    def written_here(
        self, origins: Sequence[str], after: int, limit: int
    ) -> list[tuple[int, Event]]:
        """What this bank, under these ids, wrote of all that others may be told."""

    def shared(self, ids: Iterable[str]) -> dict[str, str]: ...
    def of_workspace(self, workspace: str) -> list[str]: ...
    def credited(self, workspace: str, session: str) -> list[tuple[str, str, bool, float, int]]: ...
    def logs(self, channels: Sequence[str] | None = None) -> list[PeerLog]: ...
    def log(self, key: str, epoch: str, channel: str) -> PeerLog | None: ...
    def entries(self, log: int, first: int, limit: int) -> list[LogEntry]: ...
    def entry(self, log: int, seq: int) -> LogEntry | None: ...
    def about(self, subjects: Iterable[str]) -> list[tuple[PeerLog, LogEntry]]:
        """All that any log says of these, up to where it told two stories."""

    def first_about(
        self, key: str, subjects: Iterable[str], most: int
    ) -> list[tuple[PeerLog, LogEntry]]:
        """The same, of the logs of one owner, and of each subject no more than so many entries."""

    def blank(self, key: str) -> list[tuple[PeerLog, int]]:
        """The logs of this bank of which something is missing that nobody has forgotten, and the
        first entry of each: whoever passed it on has left out what it says."""

    def said(self, key: str, channel: str | None, events: Iterable[str]) -> set[str]:
        """Those of these events that stand in a log of this bank in this channel, or in any."""

    def empty(self, log: int, first: int, last: int) -> dict[int, bytes]:
        """The links of those of these entries of which it is missing what they say, unless it was
        forgotten here."""

    def brought_by(self, via: str) -> tuple[int, int]:
        """How many logs of others, and how many bytes, a peer brought."""

    def changed(self, ids: Iterable[str]) -> dict[tuple[str, str], int]:
        """How often each bank has changed or linked each of these memories."""

    def recorders(self, ids: Iterable[str]) -> dict[str, set[str]]:
        """By memory: the origins that recorded it."""

    def rejected(self, ids: Iterable[str]) -> set[str]:
        """Those that a person of this bank rejected."""

    def on_probation(self, hand: str) -> list[str]:
        """The memories that have this hand's words, and that nothing has confirmed."""

    def waiting(self, hand: str) -> int:
        """How many of them are not in the archive."""

    def projects(self) -> dict[str, str]: ...
    def offer(self, id: str) -> TaskOffer | None: ...
    def offers(self) -> list[TaskOffer]: ...
    def spent_by(self, peer: str) -> int:
        """What it spent of what it was granted, with what it may still spend on what it has."""

    def state(self, name: str) -> str | None:
        """A note that this bank keeps of its own part in all this."""


class PeerWriting(PeerReading, Protocol):
    def put(self, peer: Peer) -> None: ...
    def put_invitation(self, invitation: Invitation) -> None: ...
    def begin(self, key: str, epoch: str, channel: str, *, via: str) -> PeerLog: ...

    def extend(self, log: PeerLog, entries: Sequence[LogEntry]) -> PeerLog: ...
    def cut(self, log: PeerLog, fork: int, proof: bytes) -> list[str]:
        """Quarantine it from there on; returns the events that stood there."""

    def fill(self, log: int, entries: Sequence[LogEntry]) -> None:
        """What these say, where that is missing, unless it was forgotten here."""

    def comes_through(self, log: int, via: str) -> None:
        """From now on another peer answers for having brought it."""

    def looked_through(self, log: int, seq: int) -> None: ...
    def share_project(self, name: str, workspace: str) -> None: ...
    def put_offer(self, offer: TaskOffer) -> None: ...
    def drop_offers(self, state: str, before: int) -> None:
        """Those of others that are so and have expired by then."""

    def set_state(self, name: str, value: str) -> None: ...


@valueclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What ranking needs to know of many rows, as columns."""

    nums: NDArray[np.int64]
    ids: Sequence[str]
    scopes: Sequence[str]
    sources: Sequence[str]
    created_at: NDArray[np.int64]
    workspaces: Sequence[str]
    authors: Sequence[str]
    initial: NDArray[np.float64]
    evidence: NDArray[np.float64]
    """A row of each: masses, then the track record (see ``belief.SLOTS``), then a day."""
    errors: Sequence[tuple[str, str] | None]
    probation: NDArray[np.int64]
    """``Standing.level``: 0 is confirmed."""
    hands: Sequence[str | None]
    allowed: NDArray[np.bool_]
    cache: RowCache | None = None

    @property
    def masses(self) -> NDArray[np.float64]:
        return self.evidence[:, : len(SLOTS)]

    @property
    def track_record(self) -> NDArray[np.int64]:
        return self.evidence[:, len(SLOTS) : -1].astype("int64")

    @property
    def newest_day(self) -> NDArray[np.int64]:
        return self.evidence[:, -1].astype("int64")

    def derived(self, key: Hashable, make: Callable[[Candidates], Floats]) -> Floats:
        """``make(self)``, a row for each row; from the cache where it is still known.

        It must follow from the ledger and from ``key``, and from each row by itself.
        """
        return make(self) if self.cache is None else self.cache.derived(self, key, make)


class RowCache(Protocol):
    """Where rows are kept for as long as the ledger stays as it is."""

    def derived(
        self, rows: Candidates, key: Hashable, make: Callable[[Candidates], Floats]
    ) -> Floats: ...


LEASE = 60_000_000
"""Microseconds that a worker holds a job without saying so again."""
LONGEST_PAUSE = 3_600_000_000
"""Microseconds; no failed job waits longer for its next attempt."""


POST = "post"
"""The kind of the one job that is never done: whoever holds it works on the bank."""


@valueclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """``oldest`` is when the oldest job that is not done was queued."""

    waiting: int
    running: int
    dead: int
    oldest: int | None


class QueueReading(Protocol):
    def job(self, id: str) -> Job | None: ...
    def jobs(self, workspace: str | None, states: Sequence[JobState], limit: int) -> list[Job]:
        """The newest first."""

    def due(self, now: int, kinds: Sequence[str], workspace: str | None = None) -> bool:
        """Whether a claim would find anything."""

    def depth(self, workspace: str | None) -> QueueDepth:
        """Without the post of who works (``POST``): that is no work."""

    def oldest(self, kind: str, workspace: str, now: int) -> Job | None:
        """The one that was queued first of those that ``claim_one`` would take."""

    def latest(self, kind: str, workspace: str) -> Job | None:
        """The one that was queued last, in whatever state."""


class QueueWriting(QueueReading, Protocol):
    """Jobs change in the transaction of what they cause, so neither is without the other.

    Requirements: what a claim held and lost, by time or to another worker, it can no
    longer change (``LeaseLost``, and with it all of that transaction).
    """

    def enqueue(self, job: Job, now: int) -> bool:
        """False if a job of this id is known already, done or not."""

    def claim(
        self, worker: str, now: int, limit: int, max_attempts: int, kinds: Sequence[str],
        workspace: str | None = None,
    ) -> list[Job]:  # fmt: skip
        """Take jobs that are due, or whose worker fell silent or is gone; each claim is an
        attempt. ``worker`` is a name of ``holders``, by which it can be known for gone.
        ``workspace``: only its jobs."""

    def claim_one(self, id: str, worker: str, now: int, until: int) -> Job | None:
        """Take this job, unless it is done, dead or somebody else's."""

    def hold(self, job: Job, until: int) -> None: ...
    def checkpoint(self, job: Job, value: JSON) -> None: ...
    def finish(self, job: Job, left: JSON | None = None) -> None:
        """``left`` is the checkpoint from which it goes on, should it be asked for again."""

    def fail(self, job: Job, error: str, due: int | None) -> None:
        """Try again when it is due; with None, never."""

    def release(self, job: Job, now: int) -> None:
        """Give it back undone; that was no attempt."""

    def retry(self, id: str, now: int) -> None: ...
    def drop(self, id: str) -> None: ...
    def drop_all(self, workspace: str) -> None: ...
    def bring_home(self, workspace: str, home: str) -> None:
        """What waits in a workspace waits in the one that it was merged into."""

    def drop_done(self, before: int) -> int: ...


class UnansweredReading(Protocol):
    def of(self, workspace: str) -> list[UnansweredQuestion]:
        """The latest first."""


class UnansweredWriting(UnansweredReading, Protocol):
    def put(self, unanswered: Sequence[UnansweredQuestion], *, keep: int) -> None:
        """Count them; of each of their workspaces the latest are kept.

        Not those that were asked soon after a memory was forgotten: they may repeat it.
        """

    def drop(self, workspace: str, questions: Iterable[str]) -> int: ...
    def drop_before(self, at: int) -> int: ...


@valueclass(frozen=True, slots=True, kw_only=True)
class PastOutcomes:
    """Evidence whose question is known, as columns: ``vectors`` says what was asked (int8,
    a direction without a length), ``slots`` which kind of evidence (see ``belief.SLOTS``),
    ``shares`` how much of a task's outcome each one is, ``tasks`` which of them are one outcome
    (the same number)."""

    nums: NDArray[np.int64]
    slots: NDArray[np.intp]
    days: NDArray[np.int64]
    vectors: NDArray[np.int8]
    shares: NDArray[np.float64]
    tasks: NDArray[np.int64]


class Trials(NamedTuple):
    """How often it is known how a memory did, and how often well.

    ``failed`` counts the failures that are not too long ago, by the memory's share in them;
    ``unasked`` are those of them of which nobody knows what was asked.
    """

    tried: int
    worked: int
    failed: float
    unasked: float


class Observation(NamedTuple):
    """A piece of evidence, and of what the confidence of its memory began with. ``here``: it was
    seen in this workspace, not in the memory's own; ``share``: see ``belief.parts``."""

    num: int
    initial: float
    created_at: int
    kind: str
    positive: int
    at: int
    session: str | None
    here: int
    share: float | None


class Reading(VectorReading, Protocol):
    """A consistent look at the ledger.

    Requirements: nothing outside the view is ever returned, and an empty view sees
    nothing; memories come without confidence, which the caller folds.
    """

    @property
    def queue(self) -> QueueReading: ...
    @property
    def unanswered(self) -> UnansweredReading: ...
    @property
    def peers(self) -> PeerReading: ...

    def row(self, view: View, id: str) -> Row | None: ...
    def rows(self, view: View, nums: Sequence[int]) -> list[Row]: ...
    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """``make()``, which must follow from the ledger and from ``key``."""

    def listed(self, view: View, filter: Filter, limit: int) -> list[Row]: ...
    def how_many(self, view: View, filter: Filter) -> int:
        """That ``listed`` would list."""

    def page(
        self, view: View, filter: Filter, limit: int, *, order: Order,
        after: tuple[int, int] | None = None,
    ) -> list[Row]:  # fmt: skip
        """As ``listed``, in this order, after the row with this count of uses and this number."""

    def told(self, view: View, filter: Filter) -> NDArray[np.int64]:
        """The rows that pass and of which anything was observed, sorted."""

    def frequent(self, view: View, what: str, limit: int) -> list[tuple[str, int]]:
        """The commonest domains, agents or authors of active memories."""

    def ids_with(self, view: View, kind: str, digits: str, limit: int) -> list[str]:
        """Ids of memories, traces, jobs or batches that have these digits in a row, dashes apart;
        of forgotten memories, those that the workspace had to do with."""

    def taken(self, id: str) -> bool:
        """Whether any memory has this id, in view or not, or had it until it was forgotten."""

    def forgotten(self, id: str) -> bool: ...
    def touched(self, workspace: str, id: str) -> bool:
        """Whether anything is in the log that this workspace did to it, forgotten or not."""

    def out_of_sight(self, view: View, ids: Iterable[str]) -> frozenset[str]:
        """Those that are memories, and are not in view."""

    def realms(
        self, view: View, scopes: Sequence[Scope], states: Sequence[State]
    ) -> tuple[int, ...]: ...
    def matching(self, view: View, filter: Filter, limit: int | None) -> NDArray[np.int64] | None:
        """The rows that pass, sorted; None if they are more than ``limit``."""

    def words(
        self,
        view: View,
        filter: Filter,
        terms: Sequence[str],
        limit: int,
        among: NDArray[np.int64] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows by full text, best first, and their BM25 (larger is better).

        Terms hold letters, digits and spaces only; a term of several words is a phrase. Of
        the filter only scopes and states are looked at; ``among`` restricts the rows.
        """

    def word_counts(
        self, view: View, filter: Filter, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        """In how many rows each term is, as ``words`` would look for it; ``about``: or was when
        there were about as many rows, which is quickly told."""

    def word_rows(self) -> int: ...

    def candidates(self, view: View, filter: Filter, nums: NDArray[np.int64]) -> Candidates: ...
    def tallies(self, nums: Sequence[int], viewer: str) -> Mapping[int, Tally]:
        """Evidence of a memory's own project, and that of the ``viewer``'s, in parts: see
        ``belief.parts``."""

    def seen(self, num: int, viewer: str) -> EvidenceCounts[int]:
        """The same evidence, each task counted once, whatever the memory's share in it."""

    def opinions(self, viewer: str) -> Mapping[int, Opinion]:
        """Of memories of other projects."""

    def shared_evidence(self) -> Mapping[int, Opinion]:
        """What the evidence of their own projects says of shared memories to others."""

    def shared_tally(self, num: int) -> Tally: ...
    def hands_for(self, nums: Sequence[int]) -> set[str]:
        """Who wrote these memories, or said of one of them that it helped."""

    def track_record(self, workspace: str) -> tuple[int, ...]: ...
    def uses(self, workspace: str) -> int: ...
    def evidence(self, view: View, id: str, *, everywhere: bool = False) -> list[Evidence]:
        """What this workspace observed, newest first; ``everywhere``: what anybody did."""

    def observed(self, key: bytes) -> tuple[bool, bool, bool] | None:
        """What was said under this key, if anything was, and whether of the whole task only."""

    def past_outcomes(
        self,
        nums: NDArray[np.int64],
        viewer: str,
        model: str,
        dimensions: int,
        compatible: Sequence[str] = (),
    ) -> PastOutcomes:
        """The newest evidence about these rows that belongs to a question of this model, or of
        one whose name begins like one of ``compatible``."""

    def trials(self, nums: Sequence[int], viewer: str, since: int) -> Mapping[int, Trials]:
        """All evidence but usage, as the viewer counts it, failures from ``since`` on; nothing
        of a memory that has none."""

    def observations(self, view: View) -> list[Observation]:
        """All evidence that counts here, by memory and then by time."""

    def authors(self, view: View) -> dict[tuple[str, str], tuple[int, int]]:
        """By workspace of the view's org and author: in how many tasks what they wrote there
        helped, and in how many it failed. A task counts once, whatever it was given."""

    def tasks(self, view: View) -> list[Task]:
        """Every named task of the workspace that asked or ended, oldest first."""

    def givings(self, view: View, session: str) -> list[Giving]: ...
    def shown(self, view: View) -> dict[str, dict[str, int]]: ...
    def ended(self, view: View, session: str) -> bool | None:
        """How this task ended, if anybody said."""

    def judged(self, view: View, session: str) -> bool | None:
        """How this task ended by what was seen of it, if anything was."""

    def knows_session(self, view: View, session: str) -> bool:
        """Whether anything of this workspace names it: a search, a report, a memory, a trace."""

    def withheld(self, view: View, session: str) -> frozenset[str] | None:
        """What a held-out task would have been given; None of a task that is not."""

    def forecasts(self, view: View) -> list[tuple[float, bool]]: ...
    def session_uses(self, view: View, session: str, *, sharing: bool = False) -> list[str]:
        """What its searches returned; ``sharing``: that which its outcome speaks of."""

    def uses_noted(self, view: View, subjects: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        """What was used under these subjects of this workspace: subject and ids, oldest first."""

    def on_probation(self, view: View, limit: int, *, hand: str | None = None) -> list[Row]:
        """Of this workspace's own, and of what peers shared with it: what waits for a person
        first, then the newest. ``hand``: of this one alone."""

    def untested_since(
        self, view: View, hand: str, surfaces: Sequence[str], at: int
    ) -> frozenset[str]:
        """This workspace's own memories that a hand wrote or rewrote since then through one of
        these surfaces, and that nothing has confirmed; not drafts, nor what waits for a person."""

    def warnings(self, view: View, part: str, limit: int) -> list[Row]:
        """The newest active memories of a failure whose text has this in it, letter by letter."""

    def changes_of(self, view: View, id: str) -> list[Event]: ...
    def batch(self, view: View, id: str) -> list[Event]:
        """The steps of a batch of this workspace, and what was reverted of it, in order."""

    def batches(self, view: View) -> list[Event]:
        """The steps of all batches of this workspace, oldest first."""

    def written(self, wanted: Written) -> list[Event]:
        """What can be taken back, or was, oldest first; no revert is among it."""

    def taken_back_through(self, origin: str, through: str) -> list[Event]:
        """The steps by which the words of one bank were taken back for the sake of another, and
        that nobody has undone."""

    def about(self, subjects: Iterable[str], types: frozenset[EventType]) -> list[Event]:
        """What was said of these, in any workspace, be it taken back or not; oldest first."""

    def owners(self, ids: Iterable[str]) -> dict[str, str]:
        """The workspaces that memories belong to, in view or not."""

    def observed_by(self, events: Iterable[str]) -> list[tuple[str, str]]:
        """Events whose observations count, and of which memories."""

    def links(self, view: View, id: str) -> list[Link]: ...
    def contradictions(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """The ends of each link that says so and begins or ends at one of these."""

    def linked(self, view: View) -> Mapping[tuple[str, str, str], float | None]:
        """(source, target, type) of every link that a memory of this workspace begins.

        Its strength, or None where somebody removed it.
        """

    def used_together(self, view: View, least: int) -> list[tuple[str, str, int, int]]:
        """Memories of this workspace that came up in the same sessions, ``least`` or more.

        (one, other, sessions with both, sessions with either).
        """

    def kin(self, ids: Iterable[str]) -> list[tuple[str, str]]: ...
    def link_ends(self, ids: Iterable[str]) -> list[tuple[str, str]]: ...
    def titles(self, view: View, ids: Iterable[str]) -> dict[str, str]: ...
    def trace(self, view: View, id: str) -> Trace | None: ...
    def trace_taken(self, id: str) -> bool:
        """Whether any trace has this id, in view or not."""

    def ran_well(self, view: View, text: str, limit: int) -> Iterator[str]:
        """Commands that hold this text and ended well, as told by the newest parts of sessions
        which the bank itself, or a person, has read in."""

    def traces(self, view: View, limit: int, before: str | None = None) -> list[Trace]:
        """The newest first; ``before``: those that come after the one with this id."""

    def trace_count(self, view: View) -> int: ...
    def traces_before(self, view: View, at: int) -> list[str]: ...
    def committed(self, view: View, since: int) -> list[Trace]:
        """The traces from then on that name commits in their metadata, oldest first."""

    def nums_of(self, workspace: str) -> list[tuple[int, str]]: ...
    def workspace_at(self, digest: str) -> str | None: ...
    def workspaces_at(self, digests: Sequence[str]) -> dict[str, tuple[str, bool]]:
        """By the digest of a path: the id of the workspace there, and whether it is stored."""

    def workspaces_near(self, folders: Sequence[str], above: Sequence[str]) -> list[Workspace]:
        """Those that have memories of their own and a path that begins like one of ``folders``
        or is one of ``above``; no more than these memories are counted."""

    def home(self, workspace: str) -> str:
        """The id itself, or that of the workspace it was merged into."""

    def members(self, workspace: str) -> list[str]:
        """The id itself, and those of all that were merged into it."""

    def workspace_named(self, name: str) -> str | None: ...
    def place(self, workspace: str) -> tuple[str, str] | None:
        """The team and org of a workspace, once something is stored in it."""

    def joined(self, workspace: str) -> int | None:
        """When the bank first stored something in a workspace."""

    def workspaces(self) -> list[Workspace]: ...
    def old_paths(self, workspace: str) -> dict[str, str]:
        """Where the paths lead now that it was moved away from."""

    def unused(self) -> str | None:
        """Why the bank can only be read, in a sentence; None of one that is in use."""

    def token(self, id: str) -> Token | None: ...
    def tokens(self) -> list[Token]:
        """All that were ever made, oldest first: revoked and expired ones stay."""

    def statistics(self, view: View | None) -> JSON: ...
    def recorded_since(self, view: View | None, at: int) -> int:
        """How many memories were made since then; None is everywhere."""

    def meters(self) -> list[tuple[str, int, int]]:
        """What all processes counted, as ``Meters`` takes it, and when that began."""

    def audit(self, wanted: Wanted) -> list[Change]:
        """Newest first."""

    def last_counter(self) -> int:
        """The highest that this bank has heard of."""

    def last_seq(self) -> int:
        """That of the newest entry of the log."""

    def changes_after(self, seq: int, limit: int) -> list[Change]:
        """What came after this entry, uses included, oldest first, of every workspace."""

    def events(self, workspace: str | None, *, redacted: bool = False) -> Iterator[Event]:
        """The log, oldest arrival first; ``redacted``: with those whose payload was removed."""

    def event_count(self, workspace: str | None, *, redacted: bool = False) -> int: ...
    def broken_chain(self) -> list[Break]:
        """Where the log is not as it was written; empty when it is. The first few will do."""

    def from_the_future(self, now: int) -> tuple[int, int]:
        """How many events are dated after ``now``, and the latest of these dates."""


class Writing(Reading, VectorWriting, Protocol):
    """One transaction: all of it happens, or nothing."""

    @property
    def queue(self) -> QueueWriting: ...
    @property
    def unanswered(self) -> UnansweredWriting: ...
    @property
    def peers(self) -> PeerWriting: ...

    def stamp(self) -> int:
        """What the clock says, in microseconds since 1970."""

    def append(self, event: Event) -> Event:
        """Write an event of this bank and bring every table up to date with it.

        It comes after every event seen so far, and is the next link of the bank's chain.
        """

    def take(
        self, events: Iterable[Event], progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Add events of other banks as they are, each once; return how many were new.

        Whatever order they come in, the tables end up the same.
        """

    def put_token(self, token: Token) -> None:
        """Store a token, or what has become of it."""

    def roll_up(self, before: int, limit: int) -> int: ...
    def add_meters(self, cells: Iterable[tuple[str, int, int]]) -> None: ...
    def reset_meters(self) -> None: ...
    def note(self, event: Event) -> None:
        """Keep an event for the audit only."""

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None: ...


class Ledger(Protocol):
    """Where a bank's truth is kept.

    Requirements: when ``write`` returns, its work is on disk and seen by every reader;
    if it raises, nothing of it is; several threads and processes may call it at once.
    Only where Control-C interrupts it the work may be done: the error's ``stored`` is then True.
    """

    @property
    def url(self) -> str:
        """To be shown: without a password."""

    @property
    def bank_id(self) -> str: ...
    @property
    def seal(self) -> str:
        """A secret that all who serve this bank share."""

    @property
    def read_only(self) -> bool: ...
    @property
    def whole(self) -> bool:
        """False where whoever opened it is shown a part of it: what is counted over all of it, or
        follows from all of its log, cannot be told from that."""

    @property
    def path(self) -> Path | None:
        """The file it is kept in, if it is one."""

    @property
    def beside(self) -> Path | None:
        """What a process keeps of it for itself lies here, in files whose names begin like this:
        what can be made anew, whose turn it is, the owner's token. None: nowhere."""

    @property
    def engine(self) -> tuple[str, str]:
        """What keeps it, and its version."""

    def read(self) -> Reading: ...
    def cached_read(self) -> Reading:
        """For one search: it may answer from what other searches read, if that is still so."""

    def version(self) -> Any:
        """Changes whenever anything was written, by whomever."""

    def write(self, work: Callable[[Writing], T]) -> T:
        """Raises ``NotInUse`` if the bank was moved away, is on its way here, or is a backup."""

    def snapshot(self) -> AbstractContextManager[Database]:
        """All of the bank as it is at one moment, for who copies it; nobody waits for that."""

    def alone(self) -> AbstractContextManager[Database]:
        """One transaction for who copies or moves the bank, in use or not: nobody else writes
        until it ends."""

    def scrub(self) -> None:
        """Make sure that what was forgotten is in no log or free page either.

        Where somebody still reads what it was taken from, that happens later; it never fails.
        """

    def unscrubbed(self) -> bool:
        """Whether what was forgotten is still in a file, because somebody reads that."""

    def check(self, *, deep: bool = True) -> list[str]:
        """What is wrong with the store; empty when it is sound. Not ``deep`` is quick.

        One that cannot be used at all raises ``StorageError``.
        """

    def room(self) -> int | None:
        """Bytes that are free where it is kept; None if that is not known. May raise OSError."""

    def close(self) -> None: ...

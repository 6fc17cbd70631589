"""Who acts on a bank, from where: what everything below the face takes as its first argument."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from reasonbank.errors import (
    Forbidden,
    Forgotten,
    NotFound,
    ReasonBankError,
    Refused,
    StorageError,
)
from reasonbank.fields import checked, text
from reasonbank.ledger.events import Event, EventType, hand
from reasonbank.ledger.port import Ledger, Reading, Row, UnansweredQuestion, Writing
from reasonbank.model import JSON, Memory, Principal, Right, Scope, View, new_id
from reasonbank.safety.prompt_injection import Flags
from reasonbank.settings import ORG, TEAM, Settings
from reasonbank.store.meters import SPENDING, Meters
from reasonbank.store.spans import span
from reasonbank.store.unanswered import fit_to_keep
from reasonbank.store.vectors import Indexing
from reasonbank.trust.belief import day_of
from reasonbank.trust.confidence import Confidence
from reasonbank.values import valueclass

if TYPE_CHECKING:
    from reasonbank.llm.budget import Account
    from reasonbank.llm.port import Model

T = TypeVar("T")
SIGNED = (
    EventType.RECORDED, EventType.REVISED, EventType.OBSERVED, EventType.ENDED, EventType.TRACED,
)  # fmt: skip
"""What counts by who says it."""
PRINCIPALS = {
    "cli": Principal.PERSON, "demo": Principal.PERSON, "page": Principal.PERSON,
    "worker": Principal.MODEL,
}  # fmt: skip
"""Who comes through a surface; through all others, agents do."""
Progress = Callable[[int, int], None]


class Counted(Protocol):
    """Counters by name; None is one that nobody has counted yet."""

    def to_json(self) -> JSON: ...
    def reset(self) -> None: ...


class Store:
    """A store that is open: its ledger and index, what was counted and not yet stored.

    All contexts of one store share it, whichever workspace they look at.
    """

    def __init__(
        self,
        ledger: Ledger,
        indexing: Indexing,
        settings: Settings,
        clock: Callable[[], int],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.ledger = ledger
        self.url = ledger.url
        """With all that it takes to open it again; what is shown is ``ledger.url``."""
        self.indexing = indexing
        self.settings = settings
        self.clock = clock
        self.notes = notes
        self.used: list[tuple[Context, JSON]] = []
        self._unwritten = 0
        self.unanswered: list[UnansweredQuestion] = []
        self.flags = Flags()
        self.meters = indexing.meters
        """What this process counted; never less from one look to the next."""
        self.model: Counted | None = None
        """What the language models of this process did for this bank."""
        self.thinker: Model | None = None
        """The model that whoever opened the bank handed in; it stays theirs to close."""
        self.replies: object | None = None
        """What the models of this bank keep of their replies in memory."""
        self._stored = Meters()
        self._flushing = threading.Lock()
        self.started = clock()
        self._started = time.monotonic()
        self.lock = threading.Lock()
        self.searching = threading.Lock()
        self.closed = False
        self.tidy: Callable[[], None] = lambda: None
        self.work_waits: Callable[[], None] = lambda: None
        """Called when a job was queued: whoever works in this process need not find it first."""
        self.end_work: Callable[[], None] = lambda: None
        """Ends the worker that belongs to this store, before the store is closed."""
        indexing.chores = self.flush

    @property
    def uptime(self) -> float:
        return time.monotonic() - self._started

    def flush(self) -> None:
        """Store what searches returned and meters counted, if that has not happened yet."""
        if self.ledger.read_only:
            return
        with self._flushing:
            counted = self._counted()
            if self.used or self.unanswered or counted:
                self.write(lambda txn: txn.add_meters(counted))
                self._stored.add(counted)

    def try_to_flush(self) -> None:
        """The same for who only reads: on a full disk, what they are told is still right."""
        with suppress(StorageError):
            self.flush()

    def all_meters(self) -> Meters:
        """What all processes counted."""
        with self._flushing:
            return Meters([*self.ledger.read().meters(), *self._counted()])

    def _counted(self) -> list[tuple[str, int, int]]:
        """What this process counted and has not stored yet."""
        if self.model is not None:
            for name, amount in self.model.to_json().items():
                if amount is not None:
                    # Whole numbers can be added up without loss: of a cost, millionths.
                    parts = round(amount * 1e6) if name == "cost" else amount
                    self.meters.stands_at(f"model.{name}", parts)
        return self.meters.beyond(self._stored)

    def reset_meters(self, note: Callable[[Writing], None]) -> None:
        def work(txn: Writing) -> None:
            # What a token has spent, and may, is no statistic.
            kept = [cell for cell in txn.meters() if cell[0].startswith(SPENDING)]
            txn.reset_meters()
            txn.add_meters(kept)
            note(txn)

        with self._flushing:
            self.write(work)
            self.meters.clear()
            self._stored.clear()
            if self.model is not None:
                self.model.reset()

    def write(self, work: Callable[[Writing], T]) -> T:
        """Run ``work`` in one transaction, and store with it what searches returned."""
        used: list[tuple[Context, JSON]] = []
        with self.lock:
            unanswered, self.unanswered = self.unanswered, []

        try:
            kept = [fit_to_keep(entry, scrub=self.settings.scrub) for entry in unanswered]

            def all_of_it(txn: Writing) -> T:
                # Taken when it is its turn: who writes later, even nothing, knows it written.
                with self.lock:
                    used.extend(self.used)
                    self.used = []
                for context, payload in _together(used):
                    context.append(txn, EventType.USED, "", payload)
                if kept:
                    txn.unanswered.put(kept, keep=self.settings.gaps.keep)
                return work(txn)

            result = self.ledger.write(all_of_it)
        except BaseException as error:
            stored = getattr(error, "stored", False)
            with self.lock:
                if stored:
                    self._unwritten -= len(used)
                else:
                    self.used[:0] = used
                    self.unanswered[:0] = unanswered
            raise
        with self.lock:
            self._unwritten -= len(used)
        return result

    def keep_use(self, context: Context, use: JSON) -> None:
        """To be written with the next commit, in a moment, or when somebody asks (``settle``)."""
        with self.lock:
            self.used.append((context, use))
            self._unwritten += 1

    def settle(self) -> None:
        """Whoever reads next finds in it what searches of this process returned."""
        if self._unwritten and not self.ledger.read_only:
            with suppress(StorageError):
                self.write(lambda txn: None)

    def close(self, *, embed: bool) -> None:
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.end_work()
        with suppress(ReasonBankError):
            self.flush()
        self.indexing.close(embed=embed)
        self.ledger.close()

    def erase(self, nums: list[int]) -> None:
        """Remove what was forgotten from every place that is derived from the ledger."""
        self.indexing.erase(nums)
        self.tidy()
        self.ledger.scrub()


@valueclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``path`` is the workspace's directory, if that is known; ``author`` signs what is
    written, ``surface`` is what it came through, ``right`` how much the caller may do."""

    store: Store
    view: View
    path: str | None
    author: str
    surface: str
    right: Right = Right.ADMIN
    batch: str | None = None
    acts_as: Principal | None = None
    identity: str | None = None
    """The account of this machine that acts, where ``author`` is only what it calls itself."""
    whole: bool = False
    """Whether the caller looks after the whole bank, and may change what any workspace owns."""
    account: Account | None = None
    """What the caller may still spend on the model; None is not limited."""
    reaches: frozenset[str] | None = None
    """The workspaces that the caller may know of; None is all."""
    may_share: frozenset[Scope] = frozenset(Scope)
    """How widely the caller may share what they record."""

    @property
    def principal(self) -> Principal:
        """Who acts; ``acts_as`` where that cannot be told by the surface."""
        return self.acts_as or PRINCIPALS.get(self.surface, Principal.AGENT)

    @property
    def who(self) -> str:
        """Who acts, by a name that whoever acts cannot choose."""
        return self.identity or self.author

    @property
    def hand(self) -> str:
        """One of those whose word counts by itself."""
        return hand(self.principal, self.who)

    @property
    def settings(self) -> Settings:
        return self.store.settings

    def seen_by(
        self,
        *,
        workspace: str | None = None,
        path: str | None = None,
        author: str | None = None,
        identity: str | None = None,
        surface: str | None = None,
        principal: Principal | None = None,
        right: Right | None = None,
        whole: bool | None = None,
        may_share: frozenset[Scope] | None = None,
        reaches: frozenset[str] | None = None,
        account: Account | None = None,
    ) -> Context:
        """The same bank for another caller: the id of a workspace, who writes, through what."""
        workspace = workspace and self.fit_name(workspace)
        return replace(
            self,
            view=self.view if workspace is None else view_of(self.store, workspace),
            path=self.path if workspace in (None, self.view.workspace) else path,
            author=self.fit_name(author) if author else self.author,
            identity=identity if author else self.identity,
            surface=self.fit_name(surface) if surface else self.surface,
            acts_as=principal or self.acts_as,
            right=right or self.right,
            whole=self.whole if whole is None else whole,
            may_share=self.may_share if may_share is None else may_share,
            reaches=self.reaches if reaches is None else reaches,
            account=account or self.account,
        )

    # Reading

    def read(self) -> Reading:
        return self.store.ledger.read()

    def settled_read(self) -> Reading:
        """For who wants to know how memories were used: the last search of this process counts."""
        self.store.settle()
        return self.read()

    def now(self) -> int:
        return self.store.clock()

    def row(self, reading: Reading, id: str) -> Row:
        row = reading.row(self.view, id)
        if row is not None:
            return row
        # That something is gone is told to those who had to do with it, as it was told before.
        if reading.forgotten(id) and reading.touched(self.view.workspace, id):
            raise Forgotten(f"memory {id} was forgotten for good")
        raise NotFound(
            f"there is no memory {id} in workspace {self.view.workspace}; "
            "`reasonbank search` shows the ids that are"
        )

    def whole_id(self, kind: str, id: str, name: str = "id") -> str:
        """``id``, which may be a part of one, as it is written in full."""
        if len(id) == 36:
            return id
        from reasonbank.store.ids import whole

        return whole(self, kind, id, name)

    def own_row(self, reading: Reading, id: str) -> Row:
        """A memory that the caller may change: to see is not to change."""
        row = self.row(reading, id)
        if row.workspace != self.view.workspace and not self.whole:
            raise Forbidden(
                f"memory {id} belongs to workspace {row.workspace}, and can only be changed from "
                "there; you may rate it, or record one of your own"
            )
        return row

    def must_share(self, scope: Scope) -> None:
        if scope not in self.may_share:
            raise Forbidden(
                f"sharing with the {scope} needs a token made with --may share-{scope}; record "
                "it with scope project"
            )

    def memory(self, reading: Reading, row: Row) -> Memory:
        memory = row.memory(round(self.confidence(reading, row), 6))
        return self.without_hidden_kin(reading, [memory])[0]

    def without_hidden_kin(self, reading: Reading, memories: Sequence[Memory]) -> list[Memory]:
        """What they were made from in other projects is left out."""
        hidden = self.hidden(reading, {id for memory in memories for id in memory.parents})
        return [
            replace(memory, parents=tuple(id for id in memory.parents if id not in hidden))
            if hidden.intersection(memory.parents)
            else memory
            for memory in memories
        ]

    def hidden(self, reading: Reading, ids: Collection[str]) -> frozenset[str]:
        """Memories of which the caller is not even told that they exist."""
        return frozenset() if self.whole or not ids else reading.out_of_sight(self.view, ids)

    def confidence(self, reading: Reading, row: Row) -> float:
        return self.trust(reading).of(row)

    def trust(self, reading: Reading) -> Confidence:
        """How far to trust memories today."""
        settings = self.settings.belief
        return Confidence(
            source=reading,
            viewer=self.view.workspace,
            model=settings.model,
            half_life=settings.half_life_days,
            today=day_of(self.now()),
        )

    # Writing

    def write(self, work: Callable[[Writing], T]) -> T:
        return self.store.write(work)

    def append(
        self, txn: Writing, type: EventType, subject: str, payload: Mapping[str, Any], *,
        at: int | None = None, workspace: str | None = None,
    ) -> None:  # fmt: skip
        at = txn.stamp() if at is None else at
        txn.append(self._event(type, subject, workspace or self.view.workspace, at, dict(payload)))

    def in_name_of(self, hand: str) -> Context:
        """For what was made from somebody's work alone, and is no more trusted than that."""
        kind, _, who = hand.partition(":")
        return replace(self, acts_as=Principal(kind), identity=who)

    def in_batch(self, batch: str) -> Context:
        """What is written from here is part of what can be taken back in one go."""
        return replace(self, batch=batch)

    def note(
        self, txn: Writing, type: EventType, subject: str | None = None, digest: str | None = None
    ) -> None:
        """For the audit: something was done that changes no memory, by default to the bank.

        ``digest``: of what it was done to, which the chain holds from then on.
        """
        subject = subject or self.store.ledger.bank_id
        event = self._event(type, subject, self.view.workspace, txn.stamp(), {})
        txn.note(replace(event, digest=digest))

    def _event(
        self, type: EventType, subject: str, workspace: str, at: int, payload: JSON
    ) -> Event:
        if type in SIGNED and self.who != self.author:
            payload = payload | {"who": self.who}
        return Event(
            id=new_id(),
            type=type,
            subject=subject,
            workspace=workspace,
            at=at,
            origin=self.store.ledger.bank_id,
            author=self.author,
            surface=self.surface,
            principal=self.principal,
            batch=self.batch,
            payload=payload,
        )

    def join(self, txn: Writing) -> None:
        """A workspace comes into being, or changes its team, with what is stored in it."""
        here = self.view.workspace
        if (home := txn.home(here)) != here:
            raise Refused(
                f"workspace {here} was merged into {home} since this bank was opened; open it again"
            )
        # Another may have put it into a team since this view was made.
        stored = txn.place(here)
        team, org = belongs_to(self.settings, stored) if stored else (self.view.team, self.view.org)
        if stored != (team, org):
            path = self.path and self.fit_name(self.path)
            payload = {"path": path, "team": team, "org": org}
            self.append(txn, EventType.JOINED, here, payload)

    def fit(self, memory: Memory) -> Memory:
        """``memory`` checked and without secrets, or an error that names the wrong field."""
        memory = checked(memory, self.settings.limits)
        if not self.settings.scrub:
            return memory
        from reasonbank.safety.scrub import clean_memory

        cleaned = clean_memory(memory, self.store.ledger.seal)
        # A placeholder may be longer than what it stands for.
        return memory if cleaned is memory else checked(cleaned, self.settings.limits)

    def without_secrets(self, value: str) -> str:
        if not self.settings.scrub:
            return value
        from reasonbank.safety.scrub import clean

        return clean(value)

    def fit_comment(self, value: str, name: str, *, blank: bool = False) -> str:
        """A remark without secrets; a placeholder may be longer than what it stands for."""
        most = self.settings.limits.comment
        return text(self.without_secrets(value), name, most, blank=blank)

    def fit_name(self, name: str, most: int = 4096) -> str:
        """A name without secrets, by which the same things are found as before."""
        if not self.settings.scrub:
            return name
        from reasonbank.safety.scrub import clean_name

        return clean_name(name, self.store.ledger.seal, most)

    def hush(self, error: ReasonBankError) -> None:
        """No secret stays in an error that quotes what it was given."""
        from reasonbank.safety.scrub import hushed

        hushed(error)

    def span(self, operation: str, memory: str | None = None) -> Any:
        facts: dict[str, str | int] = {"gen_ai.memory.store.id": self.view.workspace}
        if memory is not None:
            facts["gen_ai.memory.record.id"] = memory
        return span(operation, facts)


def reasoner_of(context: Context) -> str:
    """Who learns: model, agent or rules."""
    settings = context.settings
    if settings.learn.reasoner != "auto":
        return settings.learn.reasoner
    has_model = context.store.thinker is not None or settings.llm.provider != "none"
    return "model" if has_model else "rules"


def view_of(store: Store, workspace: str) -> View:
    reading = store.ledger.read()
    workspace = reading.home(workspace)
    team, org = belongs_to(store.settings, reading.place(workspace))
    return View(workspace=workspace, team=team, org=org)


def belongs_to(settings: Settings, stored: tuple[str, str] | None) -> tuple[str, str]:
    """The team and org of a workspace: a setting that somebody made outranks what is stored."""
    team, org = stored or (settings.team, settings.org)
    return (
        team if settings.team == TEAM else settings.team,
        org if settings.org == ORG else settings.org,
    )


def _together(used: Iterable[tuple[Context, JSON]]) -> Iterator[tuple[Context, JSON]]:
    """What searches returned, with one entry for all of a caller's that name no task."""
    nameless: dict[tuple[View, str, str], tuple[Context, dict[str, int]]] = {}
    for context, payload in used:
        if payload["session"] is not None:
            yield context, payload
            continue
        caller = (context.view, context.author, context.surface)
        _, times = nameless.setdefault(caller, (context, {}))
        for id in payload["ids"]:
            times[id] = times.get(id, 0) + 1
    for context, times in nameless.values():
        often = {id: count for id, count in times.items() if count > 1}
        together: JSON = {"ids": list(times), "session": None}
        yield context, together | ({"times": often} if often else {})

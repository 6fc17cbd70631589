"""Bank: the one service object that every surface calls."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from reasonbank.embed.port import Embedder
from reasonbank.errors import (
    Forgotten,
    InvalidInput,
    NotFound,
    ReasonBankError,
    Refused,
    StorageError,
)
from reasonbank.fields import checked, choice, parse_id, share, text, whole
from reasonbank.index.port import Index
from reasonbank.ledger.events import (
    REVISABLE,
    Event,
    What,
    can_undo,
    day_of,
    evidence_key,
    lesson,
    revisions,
)
from reasonbank.ledger.port import Filter, Miss, Reading, Row, Wanted, Writing
from reasonbank.model import (
    JSON,
    Change,
    Evidence,
    Gap,
    Genealogy,
    Job,
    JobState,
    Kind,
    Link,
    LinkType,
    Memory,
    Reply,
    Revision,
    Scope,
    State,
    Trace,
    View,
    Workspace,
    derived_id,
    from_micros,
    new_id,
    to_micros,
)
from reasonbank.settings import ProofSettings, Settings
from reasonbank.store import workspaces
from reasonbank.store.context import Core
from reasonbank.store.spans import span
from reasonbank.trust import belief

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.learn.capture import Captured
    from reasonbank.search.inject import Injection

T = TypeVar("T")

DAY = 86_400_000_000
ROLL_UP_DAYS = 30
"""Older evidence is counted by the day: the grain of belief."""
Progress = Callable[[int, int], None]


_ANYTHING = Filter()


class Bank:
    """A bank, seen from one workspace. Safe to use from several threads.

    >>> with Bank.open() as bank:  # doctest: +SKIP
    ...     memory = bank.record(Memory(title=..., description=..., content=..., outcome=...))
    ...     hits = bank.search("flaky test", limit=5)
    ...     bank.outcome(hits[0].memory.id, succeeded=True)
    """

    def __init__(
        self, core: Core, view: View, *, path: str | None, author: str, surface: str
    ) -> None:
        self.core = core
        self.view = view
        self._path = path
        self._author = author
        self._surface = surface

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        read_only: bool = False,
        surface: str = "library",
        embedder: Embedder | None = None,
        index: Index | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Self:
        """Open, and make if need be, the bank at ``url`` (default: the user's own bank).

        ``workspace`` is a project's directory, by default the current one. ``embedder``
        and ``index`` take the place of those that the settings name. ``clock`` gives
        microseconds since 1970.
        """
        from reasonbank.opening import open_core

        core = open_core(
            url,
            settings=settings,
            read_only=read_only,
            embedder=embedder,
            index=index,
            clock=clock,
        )
        return cls._seen_from(core, workspace, surface)

    @classmethod
    def _seen_from(cls, core: Core, workspace: str | os.PathLike[str] | None, surface: str) -> Self:
        path = workspaces.path_of(workspace)
        view = workspaces.view_of(core, workspaces.at(core.ledger.read(), path))
        settings = core.settings
        author = settings.author or os.environ.get("USER") or os.environ.get("USERNAME") or "local"
        return cls(core, view, path=path, author=author, surface=surface)

    def within(self, workspace: str | os.PathLike[str]) -> Bank:
        """The same bank seen from another workspace; neither affects the other."""
        path = workspaces.path_of(workspace)
        return self.seen_by(workspace=workspaces.at(self.core.ledger.read(), path), path=path)

    def seen_by(
        self,
        *,
        workspace: str | None = None,
        path: str | None = None,
        author: str | None = None,
        surface: str | None = None,
    ) -> Bank:
        """The same bank for another caller: the id of a workspace, who writes, through what."""
        view = self.view if workspace is None else workspaces.view_of(self.core, workspace)
        return Bank(
            self.core,
            view,
            path=self._path if workspace in (None, self.view.workspace) else path,
            author=author or self._author,
            surface=surface or self._surface,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, *, embed: bool = True) -> None:
        """``embed=False`` leaves what has no vector yet to the next opener, and so is quick."""
        core = self.core
        with core.lock:
            if core.closed:
                return
            core.closed = True
        with contextlib.suppress(ReasonBankError):
            self.core.flush()
        core.indexing.close(embed=embed)
        core.ledger.close()

    @property
    def settings(self) -> Settings:
        return self.core.settings

    @property
    def author(self) -> str:
        """Who signs what is written through this bank."""
        return self._author

    # Writing

    def record(self, memory: Memory) -> Memory:
        """Store a lesson; it is on disk, and the next search sees it, when this returns."""
        memory = self._fit(memory)
        with self._span("create_memory", memory.id):
            stored = self._write(lambda txn: self._record(txn, memory))
        self.core.indexing.wake()
        return stored

    def _fit(self, memory: Memory) -> Memory:
        """``memory`` checked and without secrets, or an error that names the wrong field."""
        memory = checked(memory, self.settings.limits)
        if not self.settings.scrub:
            return memory
        from reasonbank.safety.scrub import clean_memory

        cleaned = clean_memory(memory)
        # A placeholder may be longer than what it stands for.
        return memory if cleaned is memory else checked(cleaned, self.settings.limits)

    def _told(self, value: str, name: str, *, blank: bool = False) -> str:
        """A remark checked and without secrets."""
        value = text(value, name, self.settings.limits.comment, blank=blank)
        if not self.settings.scrub:
            return value
        from reasonbank.safety.scrub import clean

        return text(clean(value), name, self.settings.limits.comment, blank=blank)

    def _record(
        self, txn: Writing, memory: Memory, *, made: Mapping[str, Any] | None = None
    ) -> Memory:
        """``made`` tells of a memory that a batch made: its stage and initial confidence."""
        if txn.forgotten(memory.id):
            raise Forgotten(f"memory {memory.id} was forgotten for good; record it anew")
        if txn.taken(memory.id):
            raise Refused(f"memory {memory.id} exists already; use `update` to change it")
        known = {"stage": self._stage(txn, memory.parents)} if made is None else dict(made)
        self._join(txn)
        at = txn.stamp()
        self._append(txn, What.RECORDED, memory.id, {"lesson": lesson(memory), **known}, at=at)
        return replace(
            memory,
            confidence=known.get(
                "initial", belief.initial_confidence(memory.source, memory.outcome)
            ),
            usage_count=0,
            state=State.ACTIVE,
            stage=known["stage"],
            revision=1,
            merged_into=None,
            workspace=self.view.workspace,
            author=self._author,
            created_at=from_micros(at),
            last_used=None,
        )

    def _stage(self, txn: Reading, parents: Sequence[str]) -> int:
        stage = 0
        for parent in parents:
            row = txn.row(self.view, parent)
            if row is None:
                raise NotFound(f"parents: there is no memory {parent} here")
            stage = max(stage, row.stage + 1)
        return stage

    def update(self, id: str, **changes: Any) -> Memory:
        """Change some fields; every earlier revision is kept (see ``history``, ``undo``)."""
        id = parse_id(id)
        for name in changes:
            if name not in REVISABLE:
                raise InvalidInput(
                    name, f"cannot be changed; these can: {', '.join(sorted(REVISABLE))}"
                )

        def work(txn: Writing) -> Memory:
            old = self._row(txn, id).memory()
            new = lesson(self._fit(replace(old, **changes)))
            was = lesson(old)
            changed = {name: new.get(name) for name in changes if new.get(name) != was.get(name)}
            if changed:
                self._append(txn, What.REVISED, id, {"changes": changed})
            return self._memory(txn, self._row(txn, id))

        with self._span("update_memory", id):
            memory = self._write(work)
        self.core.indexing.wake()
        return memory

    def archive(self, id: str, *, reason: str = "by hand") -> Memory:
        """Take a memory out of normal search; nothing of it is lost."""
        reason = self._told(reason, "reason")
        return self._change(id, What.ARCHIVED, State.ARCHIVED, {"reason": reason})

    def restore(self, id: str) -> Memory:
        return self._change(id, What.RESTORED, State.ACTIVE, {})

    def _change(self, id: str, what: What, state: State, payload: JSON) -> Memory:
        id = parse_id(id)

        def work(txn: Writing) -> Memory:
            if self._row(txn, id).state != state:
                self._append(txn, what, id, payload)
            return self._memory(txn, self._row(txn, id))

        return self._write(work)

    def undo(self, id: str, *, to: int | None = None) -> Memory:
        """Take back the last change of a memory, or return to revision ``to``.

        Of a memory that was made by a merge, with no change since, the merge is taken back.
        """
        from reasonbank.store import batches

        id = parse_id(id)

        def work(txn: Writing) -> Memory:
            self._row(txn, id)
            changes = txn.changes_of(self.view, id)
            batch = changes[0].payload.get("batch")
            if to is None and batch and len(changes) == 1:
                batches.revert(self, txn, batch, only=id)
                return self._memory(txn, self._row(txn, id))
            if to is not None:
                whole(to, "to", least=1, most=len(revisions(changes)))
            elif not can_undo(changes):
                raise Refused(f"memory {id} has no change to undo; `forget` removes it")
            self._append(txn, What.UNDONE, id, {} if to is None else {"to": to})
            return self._memory(txn, self._row(txn, id))

        memory = self._write(work)
        self.core.indexing.wake()
        return memory

    def undo_batch(self, id: str) -> JSON:
        """Take back all that one run did: a consolidation, or a promotion."""
        from reasonbank.store import batches

        result = self._write(lambda txn: batches.revert(self, txn, parse_id(id)))
        self.core.indexing.wake()
        return result

    def forget(self, id: str) -> None:
        """Remove a memory's content for good, from every place where it was kept.

        A tombstone stays, so that no import and no peer brings it back. What a merge or a
        promotion made of it goes as well; the other sources of a merge are active again.
        """
        from reasonbank.store import batches

        id = parse_id(id)

        def work(txn: Writing) -> list[int]:
            rows = [self._row(txn, id), *batches.heirs(self, txn, id)]
            for row in reversed(rows):
                batches.release(self, txn, row.id)
                self._append(txn, What.FORGOTTEN, row.id, {})
            return [row.num for row in rows]

        with self._span("delete_memory", id):
            self._erase(self._write(work))

    def _erase(self, nums: list[int]) -> None:
        self.core.indexing.erase(nums)
        self.core.tidy()
        self.core.ledger.scrub()

    # Evidence

    def feedback(
        self, id: str, *, helpful: bool, comment: str | None = None, session: str | None = None
    ) -> Memory:
        """Rate a memory; rating it the same in one session again changes nothing."""
        return self._observe(id, Kind.EXPLICIT, helpful, session, self._author, comment)

    def outcome(self, id: str, *, succeeded: bool, session: str | None = None) -> Memory:
        """Say how the task went that used a memory; twice in one session counts once."""
        return self._observe(id, Kind.OUTCOME, succeeded, session, "", None)

    def stability(self, id: str, *, kept: bool, session: str | None = None) -> Memory:
        """Say whether the code that a memory led to was kept for 7 days, or reverted."""
        return self._observe(id, Kind.STABILITY, kept, session, "", None)

    def credit(self, session: str, *, succeeded: bool) -> int:
        """Credit or blame the memories that searches of this session returned; how many.

        Those that came first are credited most, and what ``outcome`` says of a single one
        stands. The task's outcome counts even if it was given no memory: the report compares
        the two. Reporting the same outcome twice changes nothing.
        """
        session = text(session, "session", self.settings.limits.label)
        if not isinstance(succeeded, bool):
            raise InvalidInput("succeeded", f"must be true or false, got {succeeded!r}")
        self.core.flush()

        def work(txn: Writing) -> int:
            if txn.ended(self.view, session) is not succeeded:
                self._join(txn)
                self._append(txn, What.ENDED, session, {"succeeded": succeeded})
            ids = txn.session_uses(self.view, session)
            for id in ids:
                self._note(txn, id, Kind.OUTCOME, succeeded, session, shared=True)
            return len(ids)

        return self._write(work)

    def _observe(
        self, id: str, kind: Kind, positive: bool, session: str | None, rater: str,
        comment: str | None,
    ) -> Memory:  # fmt: skip
        id = parse_id(id, "memory_id")
        limits = self.settings.limits
        if not isinstance(positive, bool):
            raise InvalidInput(str(kind), f"must be true or false, got {positive!r}")
        if session is not None:
            session = text(session, "session", limits.label)
        if comment is not None:
            comment = self._told(comment, "comment", blank=True)

        def work(txn: Writing) -> Memory:
            self._note(txn, id, kind, positive, session, rater, comment)
            return self._memory(txn, self._row(txn, id))

        return self._write(work)

    def _note(
        self, txn: Writing, id: str, kind: Kind, positive: bool, session: str | None,
        rater: str = "", comment: str | None = None, *, shared: bool = False,
    ) -> None:  # fmt: skip
        """Write an observation down, unless it is known already.

        ``shared``: it is told of a whole task, whatever other memories that was given.
        """
        self._row(txn, id)
        key = evidence_key(id, kind, rater, session or new_id())
        known = txn.observed(key)
        if known == (positive, shared) or (shared and known and not known[1]):
            return
        payload: JSON = {
            "kind": str(kind), "positive": positive, "session": session,
            "rater": self._author, "comment": comment, "key": key.hex(),
        }  # fmt: skip
        self._append(txn, What.OBSERVED, id, payload | ({"shared": True} if shared else {}))

    # Reading

    def get(self, id: str) -> Memory:
        reading = self.core.ledger.read()
        return self._memory(reading, self._row(reading, parse_id(id)))

    def history(self, id: str) -> list[Revision]:
        """How the memory stood after each change, oldest first."""
        reading = self.core.ledger.read()
        self._row(reading, parse_id(id))
        return revisions(reading.changes_of(self.view, parse_id(id)))

    def evidence(self, id: str) -> list[Evidence]:
        """What a memory's confidence was made of in the last 30 days, newest first."""
        reading = self.core.ledger.read()
        self._row(reading, parse_id(id))
        return reading.evidence(self.view, parse_id(id))

    def memories(self, filter: Filter | None = None, *, limit: int = 50) -> list[Memory]:
        """The newest memories that pass the filter."""
        reading = self.core.ledger.read()
        chosen = checked(filter or Filter(), self.settings.limits)
        rows = reading.listed(self.view, chosen, whole(limit, "limit", least=1, most=1_000_000))
        return [self._memory(reading, row) for row in rows]

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        filter: Filter | None = None,
        min_confidence: float | None = None,
        max_tokens: int | None = None,
        session: str | None = None,
        explain: bool = False,
        follow_links: bool = False,
    ) -> Reply:
        """The memories that fit the query best; nothing when none fits well enough.

        ``session`` names the task at hand, so that its outcome can be credited to what
        was found. ``min_confidence`` defaults to the level under which memories are
        pruned.
        """
        from reasonbank.search.answer import Question, recall

        limits = self.settings.limits
        question = Question(
            text=text(query, "query", limits.query),
            limit=whole(
                self.settings.search.limit if limit is None else limit,
                "limit", least=1, most=limits.results,
            ),
            filter=_ANYTHING if filter is None else checked(filter, limits),
            min_confidence=share(
                self.settings.belief.prune_below if min_confidence is None else min_confidence,
                "min_confidence",
            ),
            max_tokens=None if max_tokens is None
            else whole(max_tokens, "max_tokens", least=1, most=10_000_000),
            explain=explain,
            follow_links=follow_links,
        )  # fmt: skip
        if session is not None:
            session = text(session, "session", limits.label)
        meters = self.core.meters
        started = time.perf_counter_ns()
        with self._span("search_memory") as told:
            try:
                reply = recall(self, question)
            except ReasonBankError:
                meters.count("search.failed")
                raise
            if told is not None:
                told.set_attribute("gen_ai.memory.record.count", len(reply))
                told.set_attribute("reasonbank.degraded", reply.degraded)
        meters.took("search", time.perf_counter_ns() - started)
        if not reply.hits:
            meters.count("search.empty")
        if reply.degraded:
            meters.count("search.degraded")
        if not self.core.ledger.read_only:
            if session is not None and held_out(session, self.settings.proof):
                return self._withhold(session, reply)
            if reply.hits:
                with self.core.lock:
                    self.core.used.append((self, self._use(reply, query, session)))
            elif not (reply.total_found or reply.skipped or question.filter.narrows):
                self._miss(query)
            self.core.indexing.wake()
        return reply

    def _use(self, reply: Reply, query: str, session: str | None) -> JSON:
        """What is written down about an answer; what was asked only for a named task."""
        used: JSON = {"ids": [hit.memory.id for hit in reply.hits], "session": session}
        if session is None:
            return used
        used["expected"] = {
            hit.memory.id: round(hit.expected, 4) for hit in reply.hits if hit.expected is not None
        }
        indexing = self.core.indexing
        asked = indexing.queries.peek(query)
        if asked is None and reply.embedder == indexing.embedder.name:
            asked = indexing.embedder.embed([query])[0]  # The cache is off, or full already.
        if asked is not None:
            used["model"] = indexing.embedder.name
            used["vector"] = base64.b64encode(packed(asked)).decode()
        return used

    def _miss(self, query: str) -> None:
        """Keep a question that found nothing, to be written down with the next commit."""
        core = self.core
        if not core.settings.gaps.keep:
            return
        asked = core.indexing.queries.peek(query)
        now = core.clock()
        miss = Miss(
            workspace=self.view.workspace, question=query, first=now, last=now,
            model=None if asked is None else core.indexing.embedder.name,
            vector=None if asked is None else packed(asked),
        )  # fmt: skip
        with core.lock:
            if len(core.missed) < core.settings.gaps.keep:
                core.missed.append(miss)

    def _withhold(self, session: str, reply: Reply) -> Reply:
        """Give nothing, and keep what would have been given: the report compares the two."""
        ids = [hit.memory.id for hit in reply.hits]

        def work(txn: Writing) -> None:
            if not txn.held_out(self.view, session):
                self._join(txn)
                self._append(txn, What.WITHHELD, session, {"ids": ids})

        self._write(work)
        note = "this task was drawn to go without memory, to measure what memory is worth"
        return replace(
            reply, hits=(), tokens_used=0, total_found=0, more=False, held_out=True,
            dropped=(), notes=(*reply.notes, note),
        )  # fmt: skip

    def recommend(self, task: str) -> JSON:
        """The best strategy for a task, with the evidence that speaks for it."""
        from reasonbank.search.answer import recommend

        return recommend(self, text(task, "task", self.settings.limits.query))

    def gaps(self, *, limit: int = 20) -> list[Gap]:
        """What was asked here and is not known: questions that found nothing, and still do not.

        Those that mean the same are one gap; the one asked most often comes first.
        """
        from reasonbank.search.gaps import gaps

        return gaps(self, whole(limit, "limit", least=1, most=10_000))

    def forget_gaps(self, question: str | None = None) -> int:
        """Remove the gap that has this question, or all of this workspace; how many questions."""
        from reasonbank.search.gaps import forget

        return forget(self, question)

    def _row(self, reading: Reading, id: str) -> Row:
        row = reading.row(self.view, id)
        if row is not None:
            return row
        if reading.forgotten(id):
            raise Forgotten(f"memory {id} was forgotten for good")
        raise NotFound(
            f"there is no memory {id} in workspace {self.view.workspace}; "
            "`reasonbank search` shows the ids that are"
        )

    def _memory(self, reading: Reading, row: Row) -> Memory:
        return row.memory(round(self._confidence(reading, row), 6))

    def _confidence(self, reading: Reading, row: Row, context: float | None = None) -> float:
        settings = self.settings.belief
        if settings.model in belief.FOLDED and row.packed is None:
            return row.initial
        weights = belief.Weights(lessons=reading.lessons(row.workspace)).without(row.lessons)
        today = day_of(self.core.clock())
        if settings.model in belief.FOLDED:
            return belief.bayesian(
                row.initial, row.masses, weights, today, settings.half_life_days
            ).mean
        tally = reading.tallies([row.num])[row.num]
        return belief.MODELS[settings.model](
            belief.Standing(
                initial=row.initial,
                masses=row.masses,
                counts=belief.counts(tally),
                weights=weights,
                today=today,
                last_day=belief.last_day(tally, day_of(row.created_at)),
                half_life=settings.half_life_days,
                project_uses=reading.uses(row.workspace),
                context=context,
            )
        )

    # Links and genealogy

    def link(
        self, source: str, target: str, *, type: LinkType | str, strength: float = 1.0
    ) -> Link:
        link = Link(
            source=parse_id(source, "source"),
            target=parse_id(target, "target"),
            type=choice(LinkType, type, "type"),
            strength=share(strength, "strength"),
        )
        if link.source == link.target:
            raise InvalidInput("target", "a memory cannot be linked to itself")

        def work(txn: Writing) -> None:
            self._row(txn, link.source)
            self._row(txn, link.target)
            payload = {"target": link.target, "type": str(link.type), "strength": link.strength}
            self._append(txn, What.LINKED, link.source, payload)

        self._write(work)
        return link

    def unlink(self, source: str, target: str, *, type: LinkType | str) -> None:
        kind = choice(LinkType, type, "type")
        source, target = parse_id(source, "source"), parse_id(target, "target")

        def work(txn: Writing) -> None:
            self._row(txn, source)
            payload = {"target": target, "type": str(kind)}
            self._append(txn, What.UNLINKED, source, payload)

        self._write(work)

    def links(self, id: str) -> list[Link]:
        reading = self.core.ledger.read()
        self._row(reading, parse_id(id))
        return reading.links(self.view, parse_id(id))

    def contradicting(self, id: str) -> list[Memory]:
        """The active memories that say the opposite of this one."""
        id = parse_id(id)
        reading = self.core.ledger.read()
        self._row(reading, id)
        ends = {end for pair in reading.contradictions([id]) for end in pair} - {id}
        rows = [row for end in sorted(ends) if (row := reading.row(self.view, end))]
        return [self._memory(reading, row) for row in rows if row.state == State.ACTIVE]

    def genealogy(self, id: str) -> Genealogy:
        """All ancestors and all descendants, nearest first."""
        id = parse_id(id)
        reading = self.core.ledger.read()
        row = self._row(reading, id)
        edges: set[tuple[str, str]] = set()

        def walk(towards: int) -> tuple[str, ...]:
            seen, frontier = {id: None}, [id]
            while frontier:
                ties = [t for t in reading.kin(frontier) if t[1 - towards] in set(frontier)]
                edges.update(ties)
                frontier = [t[towards] for t in ties if t[towards] not in seen]
                seen.update(dict.fromkeys(frontier))
            return tuple(seen)[1:]

        ancestors, descendants = walk(0), walk(1)
        return Genealogy(
            id=id,
            stage=row.stage,
            ancestors=ancestors,
            descendants=descendants,
            edges=tuple(sorted(edges)),
            memories=reading.titles(self.view, (id, *ancestors, *descendants)),
        )

    # Traces

    def store_trace(self, trace: Trace) -> Trace:
        trace = self._fit_trace(trace)
        return self._write(lambda txn: self._store_trace(txn, trace))

    def _fit_trace(self, trace: Trace) -> Trace:
        """``trace`` checked and without secrets, or an error that names the wrong field."""
        trace = checked(trace, self.settings.limits)
        if not self.settings.scrub:
            return trace
        from reasonbank.safety.scrub import clean_trace

        cleaned = clean_trace(trace)
        return trace if cleaned is trace else checked(cleaned, self.settings.limits)

    def _store_trace(self, txn: Writing, trace: Trace) -> Trace:
        if txn.trace(self.view, trace.id) is not None:
            raise Refused(f"trace {trace.id} is stored already")
        self._join(txn)
        at = txn.stamp()
        stored = replace(trace, created_at=trace.created_at or from_micros(at))
        assert stored.created_at is not None
        payload = {"trace": stored.to_json(), "at": to_micros(stored.created_at)}
        self._append(txn, What.TRACED, stored.id, payload, at=at)
        return stored

    def trace(self, id: str) -> Trace:
        found = self.core.ledger.read().trace(self.view, parse_id(id))
        if found is None:
            raise NotFound(f"there is no trace {id} in workspace {self.view.workspace}")
        return found

    def traces(self, *, limit: int = 50) -> list[Trace]:
        return self.core.ledger.read().traces(
            self.view, whole(limit, "limit", least=1, most=100_000)
        )

    def purge_traces(self, *, older_than_days: int) -> int:
        """Remove this workspace's old traces; memories learned from them stay."""
        days = whole(older_than_days, "older_than_days", least=0, most=100_000)

        def work(txn: Writing) -> int:
            ids = txn.traces_before(self.view, self.core.clock() - days * DAY)
            if ids:
                self._append(txn, What.PURGED, self.view.workspace, {"ids": ids})
            return len(ids)

        count = self._write(work)
        if count:
            self.core.ledger.scrub()
        return count

    # Sessions to learn from

    def distil(self, session: Trace) -> Job:
        """Store a finished session and queue it to be learned from; no model is waited for.

        The same session twice is queued once. ``reasonbank worker``, or the worker inside
        a server, does the learning.
        """
        trace = self._fit_trace(session)
        return self._write(lambda txn: self._distil(txn, trace))

    def _distil(self, txn: Writing, trace: Trace) -> Job:
        job = Job(
            id=derived_id("distil", self.view.workspace, trace.id),
            kind="distil",
            subject=trace.id,
            workspace=self.view.workspace,
        )
        if txn.trace(self.view, trace.id) is None:
            self._store_trace(txn, trace)
        txn.queue.enqueue(job, self.core.clock())
        return txn.queue.job(job.id) or job

    def distil_prepare(self, session: Trace | None = None) -> JSON:
        """For an agent that thinks itself: the prompt for a session, and a ticket.

        Without a session, the oldest of this workspace that waits.
        """
        from reasonbank.learn.tickets import prepare

        return prepare(self, session)

    def distil_submit(self, ticket: str, answer: Any) -> JSON:
        """What the agent made of it; a bad answer is refused, a second one changes nothing."""
        from reasonbank.learn.tickets import submit

        return submit(self, ticket, answer)

    def capture(self, question: str, answer: str, *, session: str | None = None) -> Captured:
        """Keep a question and its answer if they are worth it; twice gives one memory."""
        from reasonbank.learn.capture import capture

        return capture(self, question, answer, session=session)

    def inject(
        self,
        task: str,
        *,
        max_tokens: int = 1000,
        limit: int | None = None,
        session: str | None = None,
    ) -> Injection:
        """The memories for a task, or a branch of one, as text for its prompt.

        Only what is trusted enough and does not look like an instruction.
        """
        from reasonbank.search.inject import inject

        return inject(self, task, max_tokens=max_tokens, limit=limit, session=session)

    def jobs(self, *, state: JobState | str | None = None, limit: int = 50) -> list[Job]:
        """This workspace's jobs, newest first."""
        states = tuple(JobState) if state is None else (choice(JobState, state, "state"),)
        return self.core.ledger.read().queue.jobs(
            self.view.workspace, states, whole(limit, "limit", least=1, most=100_000)
        )

    def retry_job(self, id: str) -> Job:
        """Give a job that failed for good its attempts anew."""
        now = self.core.clock()
        return self._job(id, What.RETRIED, lambda txn: txn.queue.retry(parse_id(id), now))

    def drop_job(self, id: str) -> Job:
        return self._job(id, What.DROPPED, lambda txn: txn.queue.drop(parse_id(id)))

    def _job(self, id: str, what: What, change: Callable[[Writing], None]) -> Job:
        def work(txn: Writing) -> Job:
            job = txn.queue.job(parse_id(id))
            if job is None or job.workspace != self.view.workspace:
                raise NotFound(f"there is no job {id} here; `reasonbank queue list` shows all")
            change(txn)
            self._on_record(txn, what, job.id)
            return txn.queue.job(job.id) or job

        return self._write(work)

    # Workspaces

    def workspaces(self) -> list[Workspace]:
        return self.core.ledger.read().workspaces()

    def name_workspace(self, id: str, name: str) -> Workspace:
        return workspaces.name(self, id, name)

    def move_workspace(self, id: str, path: str | os.PathLike[str]) -> Workspace:
        """The project's directory has moved: its memories are found from the new path."""
        return workspaces.move(self, id, path)

    def delete_workspace(self, id: str, *, confirm: bool = False) -> int:
        """Remove a workspace with all that belongs to it; how many memories went."""
        return workspaces.delete(self, id, confirm=confirm)

    def _join(self, txn: Writing) -> None:
        """A workspace comes into being, or changes its team, with what is stored in it."""
        if txn.place(self.view.workspace) != (self.view.team, self.view.org):
            payload = {"path": self._path, "team": self.view.team, "org": self.view.org}
            self._append(txn, What.JOINED, self.view.workspace, payload)

    # Care

    def maintain(self) -> JSON:
        """Roll old evidence up, archive what proved useless, purge old traces.

        Running it again on the same day changes nothing.
        """
        settings = self.settings
        before = self.core.clock() - ROLL_UP_DAYS * DAY
        rolled = 0
        while count := self._write(lambda txn: txn.roll_up(before, 1000)):
            rolled += count
        pruned = self._prune()
        purged = (
            self.purge_traces(older_than_days=settings.trace_days) if settings.trace_days else 0
        )
        kept = settings.gaps.days if settings.gaps.keep else 0
        self._write(lambda txn: txn.misses.drop_before(self.core.clock() - kept * DAY))
        return {"rolled_up": rolled, "pruned": pruned, "traces_purged": purged}

    def _prune(self) -> list[str]:
        """Archive this workspace's memories whose confidence fell too low."""
        floor = self.settings.belief.prune_below

        def work(txn: Writing) -> list[str]:
            mine = Filter(scopes=tuple(Scope))
            pruned = []
            for row in txn.listed(self.view, mine, 1_000_000):
                if row.workspace != self.view.workspace:
                    continue
                if row.packed or self.settings.belief.model not in belief.FOLDED:
                    confidence = self._confidence(txn, row)
                    if confidence < floor:
                        reason = f"confidence {confidence:.2f} is under {floor}"
                        self._append(txn, What.ARCHIVED, row.id, {"reason": reason})
                        pruned.append(row.id)
            return pruned

        return self._write(work)

    def embed_new(self, progress: Progress | None = None) -> int:
        """Embed now what was just recorded or imported, rather than in the background."""
        return self.core.indexing.embed_all(any_model=False, progress=progress)

    def reindex(self, progress: Progress | None = None) -> JSON:
        """Give every memory a vector of the active model; can be stopped and resumed."""
        indexing = self.core.indexing
        embedded = indexing.embed_all(any_model=True, progress=progress)
        dropped = self._write(lambda txn: txn.drop_vectors(indexing.embedder.name))
        indexing.follow()
        indexing.index.save()
        self.core.tidy()
        return {"embedded": embedded, "dropped": dropped, "embedder": indexing.embedder.name}

    def rebuild(self) -> None:
        """Make every table anew from the log."""
        self._write(lambda txn: txn.rebuild())
        self.core.indexing.wake()

    def export(self, file: IO[str], *, format: str = "jsonl", only_here: bool = False) -> int:
        """Write the bank, or only this workspace, as JSON lines or Markdown."""
        from reasonbank.store import transfer

        self.core.flush()
        return transfer.export(self, file, format, only_here)

    def import_(self, file: IO[str], progress: Progress | None = None) -> JSON:
        """Read what ``export`` wrote, all of it or nothing; a second time changes nothing."""
        from reasonbank.store import transfer

        return transfer.import_(self, file, progress or (lambda done, total: None))

    def statistics(self, *, everywhere: bool = False) -> JSON:
        """What is in the bank, seen from this workspace or ``everywhere``, and how it is used.

        Searches, latencies, the cache and models are counted for the whole bank, by all
        processes, ``since`` the last reset; ``process`` is what this one saw. What is not
        known is null.
        """
        from reasonbank.store.statistics import statistics

        with contextlib.suppress(StorageError):  # A full disk: what it says is still right.
            self.core.flush()
        return statistics(self, everywhere=everywhere)

    def reset_statistics(self) -> None:
        """Begin anew to count searches, latencies, the cache and models; memories stay."""
        self.core.reset_meters(lambda txn: self._on_record(txn, What.RESET))

    def audit(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        author: str | None = None,
        surface: str | None = None,
        memory: str | None = None,
        uses: bool = False,
        everywhere: bool = False,
    ) -> list[Change]:
        """Who changed what, when and through which surface, newest first.

        What is forgotten keeps its entries. ``before`` continues where a list ended, at its
        last ``seq``. ``uses`` adds what searches returned, which is nobody's change.
        """
        with contextlib.suppress(StorageError):
            self.core.flush()
        label = self.settings.limits.label
        wanted = Wanted(
            workspace=None if everywhere else self.view.workspace,
            limit=whole(limit, "limit", least=1, most=100_000),
            before=None if before is None else whole(before, "before", least=0, most=1 << 62),
            author=None if author is None else text(author, "author", label),
            surface=None if surface is None else text(surface, "surface", label),
            subject=None if memory is None else parse_id(memory, "memory"),
            uses=uses,
        )
        return self.core.ledger.read().audit(wanted)

    # Plumbing

    def _span(self, operation: str, memory: str | None = None) -> Any:
        facts: dict[str, str | int] = {"gen_ai.memory.store.id": self.view.workspace}
        if memory is not None:
            facts["gen_ai.memory.record.id"] = memory
        return span(operation, facts)

    def _append(
        self, txn: Writing, what: What, subject: str, payload: Mapping[str, Any], *,
        at: int | None = None, workspace: str | None = None,
    ) -> None:  # fmt: skip
        at = txn.stamp() if at is None else at
        txn.append(self._event(what, subject, workspace or self.view.workspace, at, dict(payload)))

    def _on_record(self, txn: Writing, what: What, subject: str | None = None) -> None:
        """For the audit: something was done that changes no memory, by default to the bank."""
        subject = subject or self.core.ledger.bank_id
        txn.note(self._event(what, subject, self.view.workspace, txn.stamp(), {}))

    def _event(self, what: What, subject: str, workspace: str, at: int, payload: JSON) -> Event:
        return Event(
            id=new_id(),
            what=what,
            subject=subject,
            workspace=workspace,
            at=at,
            origin=self.core.ledger.bank_id,
            author=self._author,
            surface=self._surface,
            payload=payload,
        )

    def _write(self, work: Callable[[Writing], T]) -> T:
        return self.core.write(work)


def held_out(session: str, settings: ProofSettings) -> bool:
    """Whether this task goes without memory: by its name alone, so that asking again agrees."""
    drawn = hashlib.sha256(f"{settings.seed}\0{session}".encode()).digest()[:8]
    return int.from_bytes(drawn) < settings.hold_out * 2.0**64


def packed(vector: NDArray[np.float32]) -> bytes:
    """A direction in a byte for each number: cosines stay right to about 0.005."""
    import numpy as np

    largest = float(np.abs(vector).max()) or 1.0
    return bytes(np.rint(vector * (127 / largest)).astype(np.int8).tobytes())

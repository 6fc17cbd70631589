"""Evidence: each observation counted once, in whatever order it comes in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from reasonbank.ledger.database import Database
from reasonbank.ledger.events import OBSERVATIONS, Event, EventType, evidence_key, hand_of
from reasonbank.ledger.port import PACKED_EVIDENCE, lessons_in
from reasonbank.ledger.projection.authors import AuthorProjection, Said, task_of
from reasonbank.ledger.queries.base import (
    COUNTS,
    EVENT,
    EVENT_AT_HOME,
    SHARES,
    event_of,
    texts,
)
from reasonbank.ledger.queries.evidence import ROLLED, SINGLE, add_up
from reasonbank.model import Principal, Scope, Standing
from reasonbank.trust import belief, experience


class EvidenceProjection(AuthorProjection):
    def __init__(
        self, db: Database, bank_id: str, clock: Callable[[], int], half_life: float
    ) -> None:
        super().__init__(db)
        self.bank_id = bank_id
        self._clock = clock
        self._half_life = half_life
        self._replaying = False
        self._waiting: dict[int, None] | None = None
        """Memories whose evidence is folded later, once for all that comes together."""

    def _observed(self, event: Event, *, live: bool = False) -> None:
        """What somebody reported of one memory."""
        p = event.payload
        if (num := self._observed_num(event.subject)) is None:
            return
        if not live and self._taken_back_since(event, [event.subject]):
            return
        kind, session = p["kind"], p.get("session")
        key = evidence_key(event.workspace, event.subject, kind, event.author, session or event.id)
        self._report(_Report(
            key=key, num=num, workspace=event.workspace, kind=kind, positive=p["positive"],
            at=event.at, session=session, rater=event.author, comment=p.get("comment"),
            counter=event.counter, event=event.id, hand=hand_of(event),
            share=p.get("share", 1.0 if p.get("shared") else None),
            witnessed=bool(p.get("witnessed")),
        ))  # fmt: skip
        if session is not None:
            self._connect(event.workspace, session, num)
        self._refold(num)

    def _used(
        self, event: Event, only: Container[str] | None = None, *, live: bool = False
    ) -> None:
        """``only`` are those that were not here when it came in; their shares are of all."""
        p = event.payload
        session = p.get("session")
        question = self._asked(event)
        expected, times, ids = p.get("expected", {}), p.get("times", {}), p["ids"]
        # What was taken back keeps its share: the others were not given more of the task for it,
        # and whoever takes back what is theirs changes nothing of what others think of the rest.
        gone = set() if live else self._taken_back_since(event, ids)
        shares = experience.shares(ids, p.get("weak", ()))
        for id in ids:
            if id in gone or (only is not None and id not in only):
                continue
            if (num := self._observed_num(id)) is None:
                continue
            self.db.execute(
                "update memories set usage_count = usage_count + ?,"
                " last_used = case when last_used > ? then last_used else ? end where num = ?",
                (times.get(id, 1), event.at, event.at, num),
            )
            name = session or f"day {belief.day_of(event.at)}"
            key = evidence_key(event.workspace, id, "usage", "", name)
            share = shares[id]
            self._use(event, key, num, question, expected.get(id), share if session else None)
            if session is not None and share > 0:
                self._credit(event.workspace, session, id, num)
            elif session is not None:
                self._connect(event.workspace, session, num)
            self._refold(num)

    def _use(
        self, event: Event, key: bytes, num: int, question: int | None,
        expected: float | None, share: float | None,
    ) -> None:  # fmt: skip
        """Of several uses in one task the first counts, one that shares in its outcome before one
        that does not, and one that says what was asked before one that does not."""
        weak = share is not None and share < 0
        old = self.db.one(
            "select share < 0, question is null, counter, event from evidence where key = ?", (key,)
        )
        if old is None:
            self.db.execute(
                "insert into evidence (key, num, workspace, kind, positive, at, session, question,"
                " expected, share, counter, event)"
                " values (?, ?, ?, 'usage', 1, ?, ?, ?, ?, ?, ?, ?)",
                (key, num, event.workspace, event.at, event.payload.get("session"), question,
                 expected, share, *event.order),
            )  # fmt: skip
        elif (weak, question is None, *event.order) < (bool(old[0]), bool(old[1]), *old[2:]):
            self._unroll(key)
            self.db.execute(
                "update evidence set at = ?, question = ?, expected = ?, share = ?, counter = ?,"
                " event = ? where key = ?",
                (event.at, question, expected, share, *event.order, key),
            )

    def _ended(self, event: Event) -> None:
        """Of two who say how a task ended the later is right; all that it used share in it."""
        old = self.db.one(
            "select counter, event from tasks where workspace = ? and session = ?",
            (event.workspace, event.subject),
        )
        if old is not None and old[0] is not None and event.order < old:
            return
        self.db.execute(
            "insert into tasks (workspace, session, at, succeeded, reporter, counter, event, hand)"
            " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (workspace, session) do update set"
            " at = excluded.at, succeeded = excluded.succeeded, reporter = excluded.reporter,"
            " counter = excluded.counter, event = excluded.event, hand = excluded.hand",
            (event.workspace, event.subject, event.at, event.payload["succeeded"], event.author,
             *event.order, hand_of(event)),
        )  # fmt: skip
        for num, id in self.db.all(
            "select num, id from evidence join memories using (num)"
            f" where evidence.workspace = ? and session = ? and kind = 'usage' and {SHARES}",
            (event.workspace, event.subject),
        ):
            self._credit(event.workspace, event.subject, id, num)
            self._refold(num)

    def _withheld(self, event: Event) -> None:
        """A task that asks several times would have been given all that any of them found."""
        old = self.db.one(
            "select withheld, withheld_counter, withheld_event from tasks"
            " where workspace = ? and session = ? and withheld is not null",
            (event.workspace, event.subject),
        )
        ids = {*event.payload["ids"], *(json.loads(old[0]) if old else ())}
        if old is not None and old[1:] < event.order:
            self.db.execute(
                "update tasks set withheld = ? where workspace = ? and session = ?",
                (json.dumps(sorted(ids)), event.workspace, event.subject),
            )
            return
        self.db.execute(
            "insert into tasks"
            " (workspace, session, at, withheld, withheld_counter, withheld_event)"
            " values (?, ?, ?, ?, ?, ?) on conflict (workspace, session) do update set"
            " at = case when tasks.event is null then excluded.at else tasks.at end,"
            " withheld = excluded.withheld, withheld_counter = excluded.withheld_counter,"
            " withheld_event = excluded.withheld_event",
            (event.workspace, event.subject, event.at, json.dumps(sorted(ids)), *event.order),
        )

    def _credit(self, workspace: str, session: str, id: str, num: int) -> None:
        """A task that used this memory and has ended says so of the memory, whichever came in
        first, and unless somebody told of the memory itself how it went."""
        task = self.db.one(
            "select succeeded, at, reporter, counter, event, hand from tasks"
            " where workspace = ? and session = ? and succeeded is not null",
            (workspace, session),
        )
        if task is not None:
            succeeded, at, reporter, counter, event, hand = task
            key = evidence_key(workspace, id, "outcome", "", session)
            self._report(_Report(
                key=key, num=num, workspace=workspace, kind="outcome", positive=bool(succeeded),
                at=at, session=session, rater=reporter, counter=counter, event=event, share=1.0,
                hand=hand,
            ))  # fmt: skip
        self._connect(workspace, session, num)

    def _report(self, new: _Report) -> None:
        """Count an observation once: of two the later stands, since it corrects the other, and
        what is told of one memory stands against what is told of the whole task."""
        old = self.db.one(
            "select positive, share is null, counter, event from evidence where key = ?",
            (new.key,),
        )
        if old is None:
            names = ", ".join(new._fields)
            marks = ", ".join("?" * len(new._fields))
            self.db.execute(f"insert into evidence ({names}) values ({marks})", new)
        elif (new.share is None, new.counter, new.event) <= (bool(old[1]), *old[2:]):
            return
        else:
            self._unroll(new.key)
            self.db.execute(
                "update evidence set positive = ?, at = ?, rater = ?, comment = ?, share = ?,"
                " counter = ?, event = ?, hand = ?, witnessed = ? where key = ?",
                (new.positive, new.at, new.rater, new.comment, new.share, new.counter, new.event,
                 new.hand, new.witnessed, new.key),
            )  # fmt: skip
            self._speak(new._replace(positive=bool(old[0])).spoken, -1)
        self._speak(new.spoken, 1)

    def _connect(self, workspace: str, session: str, num: int) -> None:
        """Say of each observation which question it belongs to and what share of the task's
        outcome it is, whichever came in first."""
        # Its share may change, and with it what it counts.
        for (key,) in self.db.all(
            "select key from evidence where workspace = ? and session = ? and num = ?"
            " and kind = 'outcome' and rolled = 1 and share is not null",
            (workspace, session, num),
        ):
            self._unroll(key)
        self.db.execute(
            "update evidence set question = used.question,"
            " share = case when evidence.share is not null"
            " then coalesce(abs(used.share), 1.0) end"
            " from (select question, share from evidence"
            " where workspace = ? and session = ? and num = ? and kind = 'usage') used"
            " where workspace = ? and session = ? and num = ? and kind != 'usage'",
            (workspace, session, num) * 2,
        )

    def _asked(self, event: Event) -> int | None:
        """Keep what was asked, so that outcomes can be told by what they were about."""
        p = event.payload
        if p.get("vector") is None or p.get("session") is None:
            return None
        if (seq := self._seq(event)) is not None:
            self.db.execute(
                "insert into questions values (?, ?, ?, ?) on conflict do nothing",
                (seq, event.workspace, p["model"], base64.b64decode(p["vector"])),
            )
        return seq

    def _seq(self, event: Event) -> int | None:
        row = self.db.one(
            "select seq from events where subject = ? and id = ?", (event.subject, event.id)
        )
        return row[0] if row else None

    def _num(self, id: str) -> int | None:
        row = self.db.one("select num from memories where id = ?", (id,))
        return row[0] if row else None

    def _observed_num(self, id: str) -> int | None:
        """The memory that something was observed of; it may come in later."""
        if (num := self._num(id)) is None and not self.forgotten(id):
            self.db.execute("insert into awaited values (?) on conflict do nothing", (id,))
        return num

    def _taken_back_since(self, event: Event, ids: Sequence[str]) -> set[str]:
        """Those of these memories that were taken back after the event."""
        wanted = self.db.dialect.texts(ids)
        found = self.db.all(
            f"select id from taken_back where id in {wanted.sql} and (counter, event) > (?, ?)",
            (*wanted.values, *event.order),
        )
        return {id for (id,) in found}

    def _observe_awaited(self, recorded: Iterable[str]) -> None:
        """What was observed of these memories may have come in before they did."""
        self._observe_anew([
            id for id in recorded if self.db.changed("delete from awaited where id = ?", (id,))
        ])  # fmt: skip

    def _unroll(self, key: bytes) -> None:
        """What changes is counted by itself again."""
        row = self.db.one(
            "select num, workspace, kind, positive, at, share from evidence"
            " where key = ? and rolled = 1",
            (key,),
        )
        if row is not None:
            self._tally(*row, times=-1)
            self.db.execute("update evidence set rolled = 0 where key = ?", (key,))

    def _tally(
        self, num: int, workspace: str, kind: str, positive: int, at: int, share: float | None,
        *, times: int,
    ) -> None:  # fmt: skip
        self.db.execute(
            "insert into tally values (?, ?, ?, ?, ?, ?)"
            " on conflict (num, workspace, kind, positive, day)"
            " do update set count = tally.count + excluded.count",
            (num, workspace, kind, positive, belief.day_of(at), times * belief.parts(kind, share)),
        )

    def _drop_evidence(self, num: int) -> None:
        self._speak_all(num, -1)
        for table in ("evidence", "tally", "opinions", "shared_evidence"):
            self.db.execute(f"delete from {table} where num = ?", (num,))

    def _observe_anew(self, ids: Iterable[str]) -> None:
        """Fold the evidence about these memories from what the log has of it."""
        nums = {id: num for id in ids if (num := self._num(id)) is not None}
        if not nums:
            return
        for num in nums.values():
            self._drop_evidence(num)
            self.db.execute(
                "update memories set usage_count = 0, last_used = null where num = ?", (num,)
            )
            self._refold(num)
        for row in self.db.all(
            f"select {EVENT_AT_HOME} from events where what in {texts(OBSERVATIONS)} and {COUNTS}"
        ):
            event = event_of(row)
            if event.type is EventType.USED:
                self._used(event, nums)
            elif event.subject in nums:
                self._observed(event)

    @contextmanager
    def _refolding_once(self) -> Iterator[None]:
        waiting: dict[int, None] = {}
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
        for num in waiting:
            if self.db.one("select 1 from memories where num = ?", (num,)):
                self._refold(num)

    def _refold(self, num: int) -> None:
        """Store what the memory's evidence amounts to, in its project and in each other one that
        has seen it; all of it can be made anew."""
        if self._waiting is not None:
            self._waiting[num] = None
            return
        row = self.db.one("select workspace, scope from memories where num = ?", (num,))
        assert row is not None
        tallies = self._tallies_by_workspace(num)
        own = tallies.pop(row[0], {})
        track_record = belief.track_record_of(own)
        self._learn(num, track_record)
        self.db.execute("update memories set standing = ? where num = ?", (self._packed(own), num))
        self.db.many(
            "insert into opinions values (?, ?, ?) on conflict (workspace, num)"
            " do update set standing = excluded.standing",
            [(num, place, self._packed(tally)) for place, tally in tallies.items()],
        )
        if row[1] != Scope.PROJECT:
            self.db.execute("delete from shared_evidence where num = ?", (num,))
            if any(tallies) or own:
                # Also where others say nothing: what its author says does not count for them.
                told = self._packed(self.shared_tally(num))
                self.db.execute("insert into shared_evidence values (?, ?)", (num, told))
        self._confirm(num)

    def _confirm(self, num: int) -> None:
        """What evidence makes of a memory on probation. Who stands for a person settles all of
        it. What the bank saw happen in the memory's own project, and what another hand says of
        the memory itself, settle whether it helps, and not whether it may be done."""
        row = self.db.one(
            "select entered, since, workspace, scope, hand, probation from memories where num = ?",
            (num,),
        )
        assert row is not None
        entered, since, place, scope, own, before = row
        # What the bank saw happen in one project says nothing to the others.
        home = place if scope == Scope.PROJECT else None
        standing = entered
        if entered:
            said = self.db.all(
                "select hand, witnessed, workspace, share from evidence where num = ?"
                " and positive = 1 and kind != 'usage' and counter > ? and hand is not null"
                # That git kept what somebody says that it led to is half their word.
                " and (witnessed = 1 or coalesce(rater, '') != 'git')",
                (num, since),
            )
            writers = self._writers(num) if said else frozenset()
            standing = min(
                (_left(entered, own, home, writers, each) for each in said), default=entered
            )
        if standing != before:
            self.db.execute("update memories set probation = ? where num = ?", (standing, num))

    def _writers(self, num: int) -> frozenset[str]:
        """Whose words it has, the first and all that came after, also what was taken back: none of
        them confirms it."""
        found = self.db.all(
            f"select {EVENT} from events where subject = (select id from memories where num = ?)"
            " and what in (?, ?) and payload != ''",
            (num, EventType.RECORDED, EventType.REVISED),
        )
        return frozenset(hand_of(event_of(row)).partition(":")[2] for row in found)

    def _packed(self, tally: belief.Tally) -> bytes | None:
        if not tally:
            return None
        masses = belief.masses(tally, self._half_life)
        return PACKED_EVIDENCE.pack(*masses, *belief.track_record_of(tally), belief.newest(tally))

    def _tallies_by_workspace(self, num: int) -> dict[str, dict[Any, int]]:
        found: dict[str, dict[Any, int]] = {}
        for place, *row in self.db.all(
            f"select workspace, {ROLLED} from tally where count != 0 and num = ?"
            f" union all select workspace, {SINGLE} from evidence"
            " where rolled = 0 and num = ? group by 1, 2, 3, 4, 7",
            (num, num),
        ):
            add_up(found.setdefault(place, {}), row)
        return found

    def _learn(self, num: int, track_record: tuple[int, ...]) -> None:
        """Put a memory's track record in place of the one it gave its project before."""
        row = self.db.one("select standing, workspace from memories where num = ?", (num,))
        assert row is not None
        packed, workspace = row
        before = lessons_in(packed)
        if track_record == before:
            return
        total = [
            was - gone + new
            for was, gone, new in zip(
                self.track_record(workspace), before, track_record, strict=True
            )
        ]
        if any(total):
            self.db.execute(
                "insert into weights values (?, ?)"
                " on conflict (workspace) do update set counts = excluded.counts",
                (workspace, json.dumps(total)),
            )
        else:
            self.db.execute("delete from weights where workspace = ?", (workspace,))

    def refold_all(self) -> None:
        """After the half-life was changed, or what an observation counts."""
        for (num,) in self.db.all("select distinct num from evidence"):
            self._refold(num)
        self.db.execute(
            "update meta set value = ? where key = 'half_life'", (str(self._half_life),)
        )

    def roll_up(self, before: int, limit: int) -> int:
        """Turn evidence older than ``before`` into daily counts: no belief changes by it."""
        found = self.db.all(
            "select key, num, workspace, kind, positive, at, share from evidence"
            " where rolled = 0 and at < ? order by at limit ?",
            (before, limit),
        )
        for key, *row in found:
            self._tally(*row, times=1)
            self.db.execute("update evidence set rolled = 1 where key = ?", (key,))
        return len(found)


def _left(
    entered: int, own: str, home: str | None, writers: Container[str], said: tuple[Any, ...]
) -> int:
    """How a memory on probation stands after this word for it; ``home``: where that is settled
    by what the bank sees happen."""
    hand, witnessed, workspace, share = said
    kind, _, who = hand.partition(":")
    if kind == Principal.PERSON and share is None:
        return Standing.CONFIRMED.level
    if kind == Principal.PEER:
        return entered  # Two banks may well be of one mind, or of one owner.
    if entered == Standing.WAITING.level:
        return entered
    if kind == Principal.BANK:
        confirms = witnessed and workspace == home and own.startswith(f"{Principal.AGENT}:")
    else:
        confirms = share is None and who not in writers
    return Standing.CONFIRMED.level if confirms else entered


class _Report(NamedTuple):
    """A row of evidence; what is told of a whole task has a share."""

    key: bytes
    num: int
    workspace: str
    kind: str
    positive: bool
    at: int
    session: str | None
    rater: str
    counter: int
    event: str
    comment: str | None = None
    share: float | None = None
    hand: str | None = None
    witnessed: bool = False
    """Whether the bank itself saw what this rests on."""

    @property
    def spoken(self) -> Said:
        task = task_of(self.session, self.at)
        return Said(self.num, self.workspace, self.kind, self.positive, task)

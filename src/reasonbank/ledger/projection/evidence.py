"""Evidence: each observation counted once, in whatever order it comes in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Container

from reasonbank.ledger.database import Database
from reasonbank.ledger.events import Event, evidence_key
from reasonbank.ledger.port import PACKED_EVIDENCE, lessons_in
from reasonbank.ledger.queries import Reader
from reasonbank.trust import belief, experience


class EvidenceProjection(Reader):
    def __init__(
        self, db: Database, bank_id: str, clock: Callable[[], int], half_life: float
    ) -> None:
        super().__init__(db)
        self.bank_id = bank_id
        self._clock = clock
        self._half_life = half_life

    def _observed(self, event: Event) -> None:
        p = event.payload
        self._observe(
            event.subject, p["kind"], p["positive"], event.at, p.get("session"),
            p.get("rater", event.author), p.get("comment"), bytes.fromhex(p["key"]),
            # Until it is known among how many.
            share=1.0 if p.get("shared") else None,
        )  # fmt: skip

    def _task(self, event: Event, change: str, withheld: str | None, succeeded: object) -> None:
        self.db.execute(
            "insert into tasks (workspace, session, at, withheld, succeeded)"
            f" values (?, ?, ?, ?, ?) on conflict (workspace, session) do update set {change}",
            (event.workspace, event.subject, event.at, withheld, succeeded),
        )

    def _asked(self, event: Event) -> int | None:
        """Keep what was asked, so that outcomes can be told by what they were about."""
        p = event.payload
        if p.get("vector") is None:
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

    def _used(self, event: Event, only: Container[str] | None = None) -> None:
        """``only`` are those that were not here when it came in; their shares are of all."""
        session = event.payload.get("session")
        question = self._asked(event)
        expected = event.payload.get("expected", {})
        times = event.payload.get("times", {})
        ids = event.payload["ids"]
        for place, id in enumerate(ids):
            if (only is None or id in only) and self.db.execute(
                "update memories set usage_count = usage_count + ?,"
                " last_used = case when last_used > ? then last_used else ? end where id = ?",
                (times.get(id, 1), event.at, event.at, id),
            ):
                key = evidence_key(id, "usage", "", session or f"day {belief.day_of(event.at)}")
                self._observe(
                    id, "usage", True, event.at, session, None, None, key, question,
                    expected.get(id), experience.share(place, len(ids)) if session else None,
                )  # fmt: skip

    def _observe(
        self, id: str, kind: str, positive: bool, at: int, session: str | None,
        rater: str | None, comment: str | None, key: bytes, question: int | None = None,
        expected: float | None = None, share: float | None = None,
    ) -> None:  # fmt: skip
        """Count an observation once, in whatever order it comes in.

        Of two reports the later stands, since it corrects the other; of two uses the earlier.
        What is told of one memory stands against what is told of the whole task.
        """
        found = self.db.one("select num from memories where id = ?", (id,))
        if found is None:
            return
        num = found[0]
        old = self.db.one("select positive, at, rolled, share from evidence where key = ?", (key,))
        if old is None:
            self.db.execute(
                "insert into evidence (key, num, kind, positive, at, session, rater, comment,"
                " question, expected, share) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, num, kind, positive, at, session, rater, comment, question, expected, share),
            )
            self._speak(num, kind, positive, 1)
        elif _stands(kind, at=(old[1], at), share=(old[3], share)):
            return
        else:
            self.db.execute(
                "update evidence set positive = ?, at = ?, comment = ?, rolled = 0, share = ?,"
                " question = coalesce(?, question), expected = coalesce(?, expected) where key = ?",
                (positive, at, comment, share, question, expected, key),
            )
            self._speak(num, kind, bool(old[0]), -1)
            self._speak(num, kind, positive, 1)
            if old[2]:
                self.db.execute(
                    "update tally set count = count - 1"
                    " where num = ? and kind = ? and positive = ? and day = ?",
                    (num, kind, old[0], belief.day_of(old[1])),
                )
        if session is not None:
            self._connect(num, session)
        self._refold(num)

    def _speak(self, num: int, kind: str, positive: bool, count: int) -> None:
        """Count it for the author as well."""
        if kind == "usage":
            return
        side = "helped" if positive else "failed"
        self.db.execute(
            f"update authors set {side} = {side} + ? where (workspace, author) ="
            " (select workspace, author from memories where num = ?)",
            (count, num),
        )

    def _drop_evidence(self, num: int) -> None:
        for (kind, positive, _), count in self.tallies([num])[num].items():
            self._speak(num, kind, positive, -count)
        for table in ("evidence", "tally"):
            self.db.execute(f"delete from {table} where num = ?", (num,))

    def _connect(self, num: int, session: str) -> None:
        """Say of each observation which question it belongs to and what share of the task's
        outcome it is, whichever came in first."""
        self.db.execute(
            "update evidence set question = asked.question,"
            " share = case when evidence.share is not null then coalesce(asked.share, 1.0) end"
            " from (select question, share from evidence"
            " where session = ? and num = ? and kind = 'usage' and question is not null) asked"
            " where session = ? and num = ? and kind != 'usage'",
            (session, num) * 2,
        )

    def _refold(self, num: int) -> None:
        """Store what the memory's evidence amounts to; all of it can be made anew."""
        tally = self.tallies([num])[num]
        track_record = belief.track_record_of(tally)
        packed = None
        if tally:
            packed = PACKED_EVIDENCE.pack(*belief.masses(tally, self._half_life), *track_record)
        self._learn(num, track_record)
        self.db.execute("update memories set standing = ? where num = ?", (packed, num))

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
        self.db.execute(
            "insert into weights values (?, ?)"
            " on conflict (workspace) do update set counts = excluded.counts",
            (workspace, json.dumps(total)),
        )

    def refold_all(self) -> None:
        """After the half-life was changed."""
        for (num,) in self.db.all("select distinct num from evidence"):
            self._refold(num)
        self.db.execute(
            "update meta set value = ? where key = 'half_life'", (str(self._half_life),)
        )

    def roll_up(self, before: int, limit: int) -> int:
        """Turn evidence older than ``before`` into daily counts: no belief changes by it."""
        found = self.db.all(
            "select key, num, kind, positive, at from evidence"
            " where rolled = 0 and at < ? order by at limit ?",
            (before, limit),
        )
        for key, num, kind, positive, at in found:
            self.db.execute(
                "insert into tally values (?, ?, ?, ?, 1)"
                " on conflict (num, kind, positive, day) do update set count = tally.count + 1",
                (num, kind, positive, belief.day_of(at)),
            )
            self.db.execute(
                "update evidence set rolled = 1, rater = null, comment = null where key = ?",
                (key,),
            )
        return len(found)


def _stands(kind: str, *, at: tuple[int, int], share: tuple[float | None, float | None]) -> bool:
    """Whether the first of two observations under one key stands against the second."""
    if kind != "usage" and (share[0] is None) is not (share[1] is None):
        return share[0] is None
    return at[0] == at[1] or (at[0] < at[1]) is (kind == "usage")

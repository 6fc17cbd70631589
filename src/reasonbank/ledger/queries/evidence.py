"""Evidence: what was observed of memories, of their authors and of whole tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from reasonbank.ledger.database import inline, records
from reasonbank.ledger.events import EventType, encode
from reasonbank.ledger.port import Observation, PastOutcomes, Trials, opinion_in
from reasonbank.ledger.queries.base import OF_WORKSPACE, SHARES, Queries
from reasonbank.ledger.sessions import MOMENTS, Giving, given_at
from reasonbank.model import Evidence, EvidenceKind, View, from_micros
from reasonbank.trust.belief import NOTHING, SLOTS, EvidenceCounts, Opinion, Tally, parts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The newest so many outcomes of all candidates together: a search must stay quick.
MOST_PAST_OUTCOMES = 20_000
NO_OPINION = Opinion(NOTHING, 0)
_EVIDENCE = "kind, positive, at, session, rater, comment"
_RATER = (
    "coalesce(rater, (select max(author) from events where events.id = evidence.event and subject"
    f" in ('', {', '.join(repr(given_at(moment, '')) + ' || session' for moment in MOMENTS)})))"
)

# What is rolled up is counted in parts already. A use has a share too, which counts for nothing.
ROLLED = "kind, positive, day, count, 1, null"
SINGLE = "kind, positive, at / 86400000000, count(*), 0, case when kind = 'outcome' then share end"


BY_OTHERS = "(case when e.hand is null then e.rater != m.author else e.hand != m.hand end)"
"""Of evidence ``e`` about a memory ``m``: whether it is not its author's own."""
COUNTING = f"(e.workspace = ? or e.workspace = m.workspace and {BY_OTHERS})"
"""Which evidence counts for a viewer: their own project's and, of the memory's project, what others
than its author say."""


def add_up(tally: dict[tuple[EvidenceKind, bool, int], int], row: Sequence[Any]) -> None:
    """``row``: as `ROLLED` and `SINGLE` select it. Databases round each in their own way, so
    none of them is asked to."""
    kind, positive, day, count, rolled, share = row
    key = (EvidenceKind(kind), bool(positive), day)
    tally[key] = tally.get(key, 0) + (count if rolled else count * parts(kind, share))


def _tasks(sessions: Sequence[str | None]) -> NDArray[np.int64]:
    """What was told of one memory alone is a task of its own."""
    import numpy as np

    number: dict[str, int] = {}
    told = (
        -1 - place if session is None else number.setdefault(session, place)
        for place, session in enumerate(sessions)
    )
    return np.fromiter(told, np.int64, len(sessions))


class EvidenceQueries(Queries):
    def tallies(self, nums: Sequence[int], viewer: str) -> dict[int, Tally]:
        result: dict[int, dict[tuple[EvidenceKind, bool, int], int]] = {num: {} for num in nums}
        for num, *row in self.db.all(
            f"select num, {ROLLED} from tally"
            f" where count != 0 and num in {inline(nums)} and workspace = ?"
            f" union all select num, {SINGLE} from evidence"
            f" where rolled = 0 and num in {inline(nums)} and workspace = ? group by 1, 2, 3, 4, 7",
            (viewer, viewer),
        ):
            add_up(result[num], row)
        for (num,) in self.db.all(
            f"select num from memories where num in {inline(nums)} and workspace != ?", (viewer,)
        ):
            for key, count in self.shared_tally(num).items():
                result[num][key] = result[num].get(key, 0) + count
        return dict(result)

    def seen(self, num: int, viewer: str) -> EvidenceCounts[int]:
        totals = [0] * len(SLOTS)
        for kind, positive, count in self.db.all(
            "select kind, positive, count(*) from evidence e join memories m on m.num = e.num"
            f" where e.num = ? and {COUNTING} group by 1, 2",
            (num, viewer),
        ):
            totals[SLOTS[kind, bool(positive)]] = count
        return EvidenceCounts(*totals)

    def shared_tally(self, num: int) -> Tally:
        """What the memory's own project says of it to others: without what its author says, and
        of each hand the last word of a day."""
        found = self.db.all(
            "select coalesce(e.hand, e.rater), at / 86400000000, e.kind, positive, share"
            " from evidence e join memories m on m.num = e.num and m.workspace = e.workspace"
            f" where e.num = ? and kind != 'usage' and {BY_OTHERS} order by counter, event",
            (num,),
        )
        last = {(hand, day): told for hand, day, *told in found}
        tally: dict[tuple[EvidenceKind, bool, int], int] = {}
        for (_, day), (kind, positive, share) in last.items():
            add_up(tally, (kind, positive, day, 1, 0, share))
        return tally

    def shared_evidence(self) -> dict[int, Opinion]:
        found = self.db.all("select num, standing from shared_evidence")
        return {num: opinion_in(packed) if packed else NO_OPINION for num, packed in found}

    def hands_for(self, nums: Sequence[int]) -> set[str]:
        """Who wrote these memories, or said of one of them that it helped."""
        found = self.db.all(
            f"select hand from memories where num in {inline(nums)} union select hand from evidence"
            f" where num in {inline(nums)} and positive = 1 and kind != 'usage' and share is null"
        )
        return {hand for (hand,) in found if hand is not None}

    def opinions(self, viewer: str) -> dict[int, Opinion]:
        found = self.db.all("select num, standing from opinions where workspace = ?", (viewer,))
        return {num: opinion_in(packed) for num, packed in found}

    def track_record(self, workspace: str) -> tuple[int, ...]:
        row = self.db.one("select counts from weights where workspace = ?", (workspace,))
        return tuple(json.loads(row[0])) if row else NOTHING

    def uses(self, workspace: str) -> int:
        row = self.db.one("select sum(usage_count) from memories where workspace = ?", (workspace,))
        return int(row[0] or 0) if row else 0

    def evidence(self, view: View, id: str, *, everywhere: bool = False) -> list[Evidence]:
        where, values = ("", ()) if everywhere else (" and workspace = ?", (view.workspace,))
        # Who searched is said by the event alone: of many uses, the row counts the first.
        found = self.db.all(
            f"select {_EVIDENCE.replace('rater', _RATER)} from evidence where num ="
            f" (select num from memories where id = ? and realm in {self._within(view)}){where}"
            " order by at desc",
            (id, *values),
        )
        return records(Evidence, _EVIDENCE, found, memory_id=id)

    def observed(self, key: bytes) -> tuple[bool, bool, bool] | None:
        found = "select positive, share is not null, witnessed from evidence where key = ?"
        row = self.db.one(found, (key,))
        return (bool(row[0]), bool(row[1]), bool(row[2])) if row else None

    def observed_by(self, events: Iterable[str]) -> list[tuple[str, str]]:
        wanted = self.db.dialect.texts([*events])
        found = self.db.all(
            f"select event, id from evidence join memories using (num) where event in {wanted.sql}",
            wanted.values,
        )
        return [(event, id) for event, id in found]

    def past_outcomes(
        self,
        nums: NDArray[np.int64],
        viewer: str,
        model: str,
        dimensions: int,
        compatible: Sequence[str] = (),
    ) -> PastOutcomes:
        import numpy as np

        wanted = self.db.dialect.numbers(nums)
        alike = "".join(" or substr(model, 1, ?) = ?" for _ in compatible)
        begins = [part for name in compatible for part in (len(name), name)]
        found = self.db.all(
            "select e.num, e.kind, e.positive, e.at, vector, coalesce(e.share, 1.0),"
            " case when e.share < 1.0 then e.workspace || ' ' || e.session end"
            f" from {wanted.sql} wanted join evidence e on e.num = wanted.value"
            " join questions on questions.id = e.question join memories m on m.num = e.num"
            " where e.question is not null and e.kind != 'usage' and (model = ?"
            f"{alike}) and {COUNTING}"
            " and length(vector) = ? order by e.at desc limit ?",
            (*wanted.values, model, *begins, viewer, dimensions, MOST_PAST_OUTCOMES),
        )
        columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * 7
        vectors = np.frombuffer(b"".join(columns[4]), np.int8).reshape(-1, dimensions)
        return PastOutcomes(
            nums=np.array(columns[0], np.int64),
            slots=np.array(
                [SLOTS[kind, bool(positive)] for kind, positive in zip(*columns[1:3], strict=True)],
                np.intp,
            ),
            days=np.array(columns[3], np.int64) // 86_400_000_000,
            vectors=vectors,
            shares=np.array(columns[5], np.float64),
            tasks=_tasks(columns[6]),
        )

    def trials(self, nums: Sequence[int], viewer: str, since: int) -> dict[int, Trials]:
        if not nums:
            return {}
        failed = f"positive = 0 and at >= {since:d}"
        share = f"case when {failed} then abs(coalesce(share, 1.0)) else 0.0 end"
        found = self.db.all(
            f"select e.num, count(*), sum(positive), sum({share}),"
            f" sum(case when question is null then {share} else 0.0 end)"
            " from evidence e join memories m on m.num = e.num"
            f" where e.num in {inline(nums)} and kind != 'usage' and {COUNTING} group by e.num",
            (viewer,),
        )
        return {num: Trials(*counted) for num, *counted in found}

    def authors(self, view: View) -> dict[tuple[str, str], tuple[int, int]]:
        found = self.db.all(
            "select workspace, author, helped, failed from authors where workspace = ?"
            " or workspace in (select id from workspaces where org = ?)",
            (view.workspace, view.org),
        )
        return {
            (workspace, author): (helped, failed) for workspace, author, helped, failed in found
        }

    def ended(self, view: View, session: str) -> bool | None:
        row = self.db.one(
            "select succeeded from tasks where workspace = ? and session = ?",
            (view.workspace, session),
        )
        return None if row is None or row[0] is None else bool(row[0])

    def withheld(self, view: View, session: str) -> frozenset[str] | None:
        row = self.db.one(
            "select withheld from tasks where workspace = ? and session = ?",
            (view.workspace, session),
        )
        return None if row is None or row[0] is None else frozenset(json.loads(row[0]))

    def knows_session(self, view: View, session: str) -> bool:
        # A quote within a text is written with a backslash: only a value can look like this.
        named = f'session":{encode(session)}'
        row = self.db.one(
            "select 1 from tasks where workspace = ? and session = ?"
            " union all select 1 from traces where workspace = ? and id = ?"
            f" union all select 1 from events where {OF_WORKSPACE}"
            f" and {self.db.dialect.contains('payload', '?')} limit 1",
            (*(view.workspace, session) * 2, *(view.workspace,) * 2, named),
        )
        return row is not None

    def forecasts(self, view: View) -> list[tuple[float, bool]]:
        """How likely each use was thought to help, and whether the task then succeeded."""
        found = self.db.all(
            "select u.expected, o.positive from evidence u join evidence o"
            " on o.workspace = u.workspace and o.session = u.session and o.num = u.num"
            " and o.kind = 'outcome'"
            " join memories m on m.num = u.num"
            " where u.kind = 'usage' and u.expected is not null and u.session is not null"
            f" and u.workspace = ? and m.realm in {self._within(view)} order by o.at, u.num",
            (view.workspace,),
        )
        return [(expected, bool(positive)) for expected, positive in found]

    def observations(self, view: View) -> list[Observation]:
        found = self.db.all(
            "select e.num, m.initial, m.created_at, e.kind, e.positive, e.at, e.session,"
            " case when e.workspace = ? then 1 else 0 end, e.share"
            " from evidence e join memories m on m.num = e.num"
            f" where e.workspace in (m.workspace, ?) and m.realm in {self._within(view)}"
            " order by e.num, e.at, e.counter",
            (view.workspace, view.workspace),
        )
        return [Observation(*row) for row in found]

    def session_uses(self, view: View, session: str, *, sharing: bool = False) -> list[str]:
        found = self.db.all(
            "select id from evidence join memories using (num) where evidence.workspace = ?"
            f" and session = ? and kind = 'usage' and realm in {self._within(view)}"
            f"{f' and {SHARES}' if sharing else ''} order by num",
            (view.workspace, session),
        )
        return [row[0] for row in found]

    def givings(self, view: View, session: str) -> list[Giving]:
        """What its searches returned, in their order."""
        # The log has no index by session: where to begin is known from what was first used.
        moments = {given_at(moment, session): moment for moment in MOMENTS}
        row = self.db.one(
            "select min(events.seq) from evidence join events on events.id = evidence.event"
            f" and events.subject in ('', {', '.join('?' * len(moments))})"
            " where evidence.workspace = ? and session = ? and kind = 'usage'",
            (*moments, view.workspace, session),
        )
        if row is None or row[0] is None:
            return []
        found = self.db.all(
            f"select at, subject, payload from events where seq >= ? and what = '{EventType.USED}'"
            f" and {OF_WORKSPACE} and {self.db.dialect.contains('payload', '?')}"
            " order by counter, id",
            (row[0], view.workspace, view.workspace, f'"session":{encode(session)}'),
        )
        told = [(at, moments.get(about, ""), json.loads(use)) for at, about, use in found]
        return [
            Giving(
                at=from_micros(at),
                memories=tuple(use["ids"]),
                moment=moment,
                weak=tuple(use.get("weak", ())),
            )
            for at, moment, use in told
            if use.get("session") == session
        ]

    def shown(self, view: View) -> dict[str, dict[str, int]]:
        """By session, when each memory was first given to it (microseconds)."""
        found: dict[str, dict[str, int]] = {}
        for session, id, at in self.db.all(
            "select session, id, at from evidence join memories using (num)"
            " where kind = 'usage' and session is not null and evidence.workspace = ?"
            f" and realm in {self._within(view)}",
            (view.workspace,),
        ):
            found.setdefault(session, {})[id] = at
        return found

    def used_together(self, view: View, least: int) -> list[tuple[str, str, int, int]]:
        # A session that saw very many memories says little about any two of them.
        found = self.db.all(
            "with seen as (select distinct session, num from evidence join memories m using (num)"
            "  where session is not null and evidence.workspace = ? and m.workspace = ?"
            f"  and state = 'active' and {SHARES}),"
            " few as (select session from seen group by 1 having count(*) between 2 and 20),"
            " sizes as (select num, count(*) as sessions from seen group by 1)"
            " select a.id, b.id, common, x.sessions + y.sessions - common from ("
            "  select one.num as p, other.num as q, count(*) as common from few"
            "  join seen one using (session) join seen other using (session)"
            "  where one.num < other.num group by 1, 2 having count(*) >= ?) pairs"
            " join sizes x on x.num = p join sizes y on y.num = q"
            " join memories a on a.num = p join memories b on b.num = q"
            " order by common desc, p, q limit 1000",
            (view.workspace, view.workspace, least),
        )
        return [(one, other, both, either) for one, other, both, either in found]

"""What can be asked of the SQLite ledger."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from reasonbank.errors import StorageError
from reasonbank.ledger.events import BATCHES, CHANGES, Event, What
from reasonbank.ledger.port import STANDING, Candidates, Filter, Occasions, Row, Token, Wanted
from reasonbank.ledger.sqlite_jobs import SQLiteQueue
from reasonbank.ledger.sqlite_misses import SQLiteMisses
from reasonbank.ledger.sqlite_rows import Rows
from reasonbank.model import (
    JSON,
    Change,
    Evidence,
    Kind,
    Link,
    LinkType,
    Memory,
    Outcome,
    Scope,
    State,
    Task,
    Trace,
    View,
    Workspace,
    from_micros,
)
from reasonbank.trust.belief import SLOTS, Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.index.port import Changes

T = TypeVar("T")

# The newest so many outcomes of all candidates together: a search must stay quick.
MOST_OCCASIONS = 20_000
_ROW = (
    "num, id, workspace, state, initial, standing, usage_count, last_used, revision, stage,"
    " merged_into, author, created_at, lesson, realm"
)
# What `Candidates` is made of.
COLUMNS = (
    "num, id, scope, source = 'consolidated', created_at, workspace, initial, standing,"
    " error_type, failure_pattern, author"
)
# From this many rows on it is worth knowing which words are rare.
MANY = 2_000
_OF_TOKENS = (
    "id, name, scope, workspaces, digest, created_at, created_by, expires_at, last_used, revoked_at"
)
_EVENT = "id, what, subject, workspace, at, origin, author, surface, payload"


class Reader(Rows):
    def __init__(self, db: apsw.Connection) -> None:
        super().__init__(db)
        self._realms: dict[str, int | None] = {}
        self._keys: dict[int, str] = {}
        self._newest_realm = 0
        self._counts: dict[str, int] = {}
        self._counted_at = 0

    @property
    def queue(self) -> SQLiteQueue:
        return SQLiteQueue(self._db)

    @property
    def misses(self) -> SQLiteMisses:
        return SQLiteMisses(self._db)

    def realms(
        self, view: View, scopes: Sequence[Scope], states: Sequence[State]
    ) -> tuple[int, ...]:
        # A realm that is not there yet is remembered too, until any realm is added.
        newest = self._count("realms", "max(num)")
        if newest != self._newest_realm:
            self._newest_realm = newest
            self._realms.clear()
        nums = (self._realm(key) for key in view.realms(scopes, states))
        return tuple(num for num in nums if num is not None)

    def _realm(self, key: str) -> int | None:
        if key not in self._realms:
            row = self._one("select num from realms where key = ?", (key,))
            self._realms[key] = row[0] if row else None
        return self._realms[key]

    def _within(self, view: View) -> str:
        return _numbers(self.realms(view, tuple(Scope), tuple(State)))

    def row(self, view: View, id: str) -> Row | None:
        found = self._one(f"select {_ROW} from memories where id = ?", (id,))
        if found is None or self._key(found[-1]) not in _visible(view):
            return None
        return Row._make(found)

    def _key(self, realm: int) -> str:
        if realm not in self._keys:
            row = self._one("select key from realms where num = ?", (realm,))
            assert row is not None
            self._keys[realm] = row[0]
        return self._keys[realm]

    def rows(self, view: View, nums: Sequence[int]) -> list[Row]:
        if not nums:
            return []
        visible = _visible(view)
        by_num = {
            values[0]: Row._make(values)
            for values in self._all(
                f"select {_ROW} from carray(?) wanted cross join memories on num = wanted.value",
                (apsw.carray(array("q", nums)),),
            )
            if self._key(values[-1]) in visible
        }
        return [by_num[num] for num in nums if num in by_num]

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        return make()

    def listed(self, view: View, filter: Filter, limit: int) -> list[Row]:
        where, values = self._where(view, filter)
        found = self._all(
            f"select {_ROW} from memories where {where} order by num desc limit ?",
            (*values, limit),
        )
        return [Row._make(row) for row in found]

    def taken(self, id: str) -> bool:
        return self._one("select 1 from memories where id = ?", (id,)) is not None

    def forgotten(self, id: str) -> bool:
        return self._one("select 1 from tombstones where id = ?", (id,)) is not None

    def _where(self, view: View, filter: Filter) -> tuple[str, list[Any]]:
        parts = [f"realm in {_numbers(self.realms(view, filter.scopes, filter.states))}"]
        values: list[Any] = []
        for column in ("domain", "agent", "task_type", "error_type"):
            if (wanted := getattr(filter, column)) is not None:
                parts.append(f"{column} = ?")
                values.append(wanted)
        for column, wanted in (("outcome", filter.outcomes), ("source", filter.sources)):
            if wanted:
                parts.append(f"{column} in ({','.join('?' * len(wanted))})")
                values += map(str, wanted)
        for tag in filter.tags:
            parts.append("num in (select num from tags where tag = ?)")
            values.append(tag)
        if filter.warnings_only:
            parts.append("error_type is not null")
        if filter.created_after is not None:
            parts.append("created_at >= ?")
            values.append(filter.created_after)
        if filter.created_before is not None:
            parts.append("created_at < ?")
            values.append(filter.created_before)
        return " and ".join(parts), values

    def matching(self, view: View, filter: Filter, limit: int | None) -> NDArray[np.int64] | None:
        import numpy as np

        where, values = self._where(view, filter)
        most = -1 if limit is None else limit + 1
        found = self._all(f"select num from memories where {where} limit {most}", values)
        if limit is not None and len(found) > limit:
            return None
        return np.sort(np.fromiter((row[0] for row in found), np.int64, len(found)))

    def words(
        self,
        view: View,
        filter: Filter,
        terms: Sequence[str],
        limit: int,
        among: NDArray[np.int64] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        import numpy as np

        realms = self.realms(view, filter.scopes, filter.states)
        if not terms or not realms or (among is not None and not len(among)):
            return np.empty(0, np.int64), np.empty(0)
        only = ""
        values: list[Any] = []
        if among is not None:
            only, values = "select value from carray(?)", [apsw.carray(among)]
        elif rare := self._rare(terms, realms, limit):
            only = "select rowid from words where words match ?"
            values = [self._match(realms, rare)]
        # The plus keeps SQLite from asking the full text anew for every single row. bm25()
        # and not rank, which keeps the positions of every match and takes half as long again.
        # The realm restricts; it says nothing about how well a row fits.
        found = self._full_text(
            "select rowid, -bm25(words, 1, 1, 1, 1, 0) as score from words where words match ?"
            f"{f' and +rowid in ({only})' if only else ''} order by score desc limit ?",
            (self._match(realms, terms), *values, limit),
        )
        nums, scores = zip(*found, strict=True) if found else ((), ())
        return np.array(nums, np.int64), np.array(scores, np.float64)

    def _match(self, realms: tuple[int, ...], terms: Iterable[str]) -> str:
        return expression(realms if self._shared(realms) else (), terms)

    def _rare(self, terms: Sequence[str], realms: tuple[int, ...], limit: int) -> list[str]:
        rows = self.word_rows()
        if rows < MANY:
            return []
        if abs(rows - self._counted_at) > rows // 20:
            self._counted_at = rows
            self._counts.clear()
        counts = {term: self._rows_with(self._match(realms, [term])) for term in terms}
        return self._rarest(terms, counts, limit)

    def _rarest(self, terms: Sequence[str], counts: Mapping[str, int], limit: int) -> list[str]:
        """The rarest terms that reach as many rows as are wanted; none if that saves nothing.

        Scoring is what takes time. A row that has only common words of a question is not
        among the best when enough others have its rare ones. Counted within the realms:
        a word that only others use must not push aside what is here.
        """
        rows = self.word_rows()
        if rows < MANY:
            return []
        rare: list[str] = []
        reach = 0
        for term in sorted(terms, key=counts.__getitem__):
            if reach >= limit and reach + counts[term] > rows // 10:
                return rare
            reach += counts[term]
            rare.append(term)
        return []

    def _full_text(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._all(sql, values)
        except apsw.SQLError as error:  # One of its tables is missing.
            raise StorageError(
                f"the full text of {self._db.filename} is damaged ({error}); restore a backup, or "
                "import an export into a new bank"
            ) from None

    def _rows_with(self, match: str) -> int:
        if match not in self._counts:
            rows = self._full_text("select count(*) from words where words match ?", (match,))
            self._counts[match] = rows[0][0]
        return self._counts[match]

    def word_rows(self) -> int:
        """How many rows BM25 is counted over: FTS5 keeps it in front of its averages."""
        found = self._full_text("select block from words_data where id = 1", ())
        rows = 0
        for byte in (found[0][0] if found else b"")[:9]:
            rows = rows << 7 | byte & 0x7F
            if byte < 0x80:
                break
        return rows

    def _shared(self, realms: tuple[int, ...]) -> bool:
        """True if memories live here that these realms must not see."""
        return self._one(f"select 1 from realms where num not in {_numbers(realms)}") is not None

    def candidates(self, view: View, filter: Filter, nums: NDArray[np.int64]) -> Candidates:
        import numpy as np

        where, values = self._where(view, filter)
        # The test is a column, not a condition: an explanation names what was filtered out.
        # carray takes no empty array.
        found = (
            []
            if not len(nums)
            else self._all(
                f"select {COLUMNS}, ({where})"
                " from carray(?) wanted cross join memories on num = wanted.value"
                f" where realm in {self._within(view)}",
                (*values, apsw.carray(np.ascontiguousarray(nums))),
            )
        )
        columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * 12
        standing = standing_of(columns[7])
        return Candidates(
            nums=np.array(columns[0], np.int64),
            ids=columns[1],
            scopes=columns[2],
            consolidated=np.array(columns[3], bool),
            created_at=np.array(columns[4], np.int64),
            workspaces=columns[5],
            authors=columns[10],
            initial=np.array(columns[6], np.float64),
            masses=standing[:, :8],
            lessons=standing[:, 8:].astype(np.int64),
            errors=[
                None if kind is None else (kind, pattern)
                for kind, pattern in zip(columns[8], columns[9], strict=True)
            ],
            allowed=np.array(columns[11], bool),
        )

    def tallies(self, nums: Sequence[int]) -> dict[int, Tally]:
        result: dict[int, dict[tuple[Kind, bool, int], int]] = {num: {} for num in nums}
        for num, kind, positive, day, count in self._all(
            f"select num, kind, positive, day, count from tally where num in {_numbers(nums)}"
            " union all select num, kind, positive, at / 86400000000, count(*) from evidence"
            f" where rolled = 0 and num in {_numbers(nums)} group by 1, 2, 3, 4"
        ):
            key = (Kind(kind), bool(positive), day)
            result[num][key] = result[num].get(key, 0) + count
        return dict(result)

    def lessons(self, workspace: str) -> tuple[int, ...]:
        row = self._one("select counts from weights where workspace = ?", (workspace,))
        return tuple(json.loads(row[0])) if row else (0,) * 8

    def uses(self, workspace: str) -> int:
        row = self._one("select sum(usage_count) from memories where workspace = ?", (workspace,))
        return int(row[0] or 0) if row else 0

    def evidence(self, view: View, id: str) -> list[Evidence]:
        """Newest first; what was rolled up is in the tally only."""
        found = self._all(
            "select kind, positive, at, session, rater, comment from evidence where rolled = 0"
            f" and num = (select num from memories where id = ? and realm in {self._within(view)})"
            " order by at desc",
            (id,),
        )
        return [
            Evidence(
                memory_id=id, kind=Kind(kind), positive=bool(positive), at=from_micros(at),
                session=session, rater=rater, comment=comment,
            )
            for kind, positive, at, session, rater, comment in found
        ]  # fmt: skip

    def observed(self, key: bytes) -> tuple[bool, bool] | None:
        row = self._one("select positive, share is not null from evidence where key = ?", (key,))
        return (bool(row[0]), bool(row[1])) if row else None

    def occasions(self, nums: NDArray[np.int64], model: str, dimensions: int) -> Occasions:
        import numpy as np

        found = (
            []
            if not len(nums)
            else self._all(
                "select e.num, e.kind, e.positive, e.at, vector, coalesce(e.share, 1.0)"
                " from carray(?) wanted"
                " cross join evidence e on e.num = wanted.value"
                " join questions on questions.id = e.question"
                " where e.question is not null and e.kind != 'usage' and model = ?"
                " and length(vector) = ? order by e.at desc limit ?",
                (apsw.carray(np.ascontiguousarray(nums)), model, dimensions, MOST_OCCASIONS),
            )
        )
        columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * 6
        vectors = np.frombuffer(b"".join(columns[4]), np.int8).reshape(-1, dimensions)
        return Occasions(
            nums=np.array(columns[0], np.int64),
            slots=np.array(
                [SLOTS[kind, bool(positive)] for kind, positive in zip(*columns[1:3], strict=True)],
                np.intp,
            ),
            days=np.array(columns[3], np.int64) // 86_400_000_000,
            vectors=vectors,
            shares=np.array(columns[5], np.float64),
        )

    def authors(self, workspaces: Iterable[str]) -> dict[tuple[str, str], tuple[int, int]]:
        return {
            (workspace, author): (helped, failed)
            for workspace, author, helped, failed in self._all(
                "select workspace, author, helped, failed from authors"
                " where workspace in (select value from json_each(?))",
                (json.dumps(list(workspaces)),),
            )
        }

    def tasks(self, view: View) -> list[Task]:
        """Every task of the workspace that is known to have ended, oldest first.

        One that only reported on the memories it used ended as most of these reports say.
        """
        found = self._all(
            "select session, withheld, succeeded, at from tasks"
            " where workspace = ?1 and succeeded is not null"
            " union all select session, null, avg(positive) >= 0.5, max(at) from evidence"
            " join memories using (num) where kind = 'outcome' and session is not null"
            " and workspace = ?1 and session not in (select session from tasks"
            " where workspace = ?1 and succeeded is not null) group by session"
            " order by at, session",
            (view.workspace,),
        )
        used: dict[str, list[str]] = {}
        for session, id in self._all(
            "select session, id from evidence join memories using (num)"
            f" where kind = 'usage' and session is not null and realm in {self._within(view)}"
            " order by num"
        ):
            used.setdefault(session, []).append(id)
        return [
            Task(
                session=session,
                held_out=withheld is not None,
                succeeded=bool(succeeded),
                at=from_micros(at),
                memories=tuple(used.get(session, ()) if withheld is None else json.loads(withheld)),
            )
            for session, withheld, succeeded, at in found
        ]

    def ended(self, view: View, session: str) -> bool | None:
        row = self._one(
            "select succeeded from tasks where workspace = ? and session = ?",
            (view.workspace, session),
        )
        return None if row is None or row[0] is None else bool(row[0])

    def held_out(self, view: View, session: str) -> bool:
        row = self._one(
            "select 1 from tasks where workspace = ? and session = ? and withheld is not null",
            (view.workspace, session),
        )
        return row is not None

    def forecasts(self, view: View) -> list[tuple[float, bool]]:
        """How likely each use was thought to help, and whether the task then succeeded."""
        found = self._all(
            "select u.expected, o.positive from evidence u join evidence o"
            " on o.session = u.session and o.num = u.num and o.kind = 'outcome'"
            " join memories m on m.num = u.num"
            " where u.kind = 'usage' and u.expected is not null and u.session is not null"
            f" and m.realm in {self._within(view)} order by o.at, u.num"
        )
        return [(expected, bool(positive)) for expected, positive in found]

    def session_uses(self, view: View, session: str) -> list[str]:
        found = self._all(
            "select distinct id from evidence join memories using (num) where session = ?"
            f" and kind = 'usage' and realm in {self._within(view)} order by num",
            (session,),
        )
        return [row[0] for row in found]

    def changes_of(self, view: View, id: str) -> list[Event]:
        if self.row(view, id) is None:
            return []
        return self._events_about(id)

    def _events_about(self, subject: str) -> list[Event]:
        found = self._all(
            f"select {_EVENT} from events where subject = ? and what in {_texts(CHANGES)}",
            (subject,),
        )
        return [_event(row) for row in found]

    def batch(self, view: View, id: str) -> list[Event]:
        found = self._all(
            f"select {_EVENT} from events where subject = ? and workspace = ?"
            f" and what in {_texts(BATCHES)} and payload != '' order by at, origin, id",
            (id, view.workspace),
        )
        return [_event(row) for row in found]

    def batches(self, view: View) -> list[Event]:
        found = self._all(
            f"select {_EVENT} from events where workspace = ? and what in {_texts(BATCHES)}"
            " and payload != '' order by at, origin, id",
            (view.workspace,),
        )
        return [_event(row) for row in found]

    def contradictions(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        found = self._all(
            "select source, target from json_each(?1) cross join links on source = value"
            " where links.type = ?2 union select source, target from json_each(?1)"
            " cross join links on target = value where links.type = ?2 order by 1, 2",
            (json.dumps(list(ids)), LinkType.CONTRADICTS),
        )
        return [(source, target) for source, target in found]

    def linked(self, view: View) -> dict[tuple[str, str, str], float | None]:
        mine = "source in (select id from memories where workspace = ?)"
        removed = self._all(
            "select subject, payload ->> 'target', payload ->> 'type' from events"
            " where what = ? and workspace = ? and payload != ''",
            (What.UNLINKED, view.workspace),
        )
        found: dict[tuple[str, str, str], float | None] = dict.fromkeys(removed)
        for source, target, type, strength in self._all(
            f"select source, target, type, strength from links where {mine}", (view.workspace,)
        ):
            found[source, target, type] = strength
        return found

    def used_together(self, view: View, least: int) -> list[tuple[str, str, int, int]]:
        # A session that saw very many memories says little about any two of them.
        found = self._all(
            "with seen as (select distinct session, num from evidence join memories using (num)"
            "  where session is not null and workspace = ?1 and state = 'active'),"
            " few as (select session from seen group by 1 having count(*) between 2 and 20),"
            " sizes as (select num, count(*) as sessions from seen group by 1)"
            " select a.id, b.id, both, x.sessions + y.sessions - both from ("
            "  select one.num as p, other.num as q, count(*) as both from few"
            "  join seen one using (session) join seen other using (session)"
            "  where one.num < other.num group by 1, 2 having both >= ?2)"
            " join sizes x on x.num = p join sizes y on y.num = q"
            " join memories a on a.num = p join memories b on b.num = q"
            " order by both desc, p, q limit 1000",
            (view.workspace, least),
        )
        return [(one, other, both, either) for one, other, both, either in found]

    def links(self, view: View, id: str) -> list[Link]:
        within = self._within(view)
        found = self._all(
            "select links.source, target, type, strength from links"
            " cross join memories one on one.id = links.source"
            " cross join memories other on other.id = target"
            f" where (links.source = ?1 or target = ?1) and one.realm in {within}"
            f" and other.realm in {within} order by strength desc, target",
            (id,),
        )
        return [
            Link(source=source, target=target, type=LinkType(type), strength=strength)
            for source, target, type, strength in found
        ]

    def kin(self, ids: Iterable[str]) -> list[tuple[str, str]]:
        """(parent, child) of every tie that one of ``ids`` has."""
        wanted = json.dumps(list(ids))
        return [
            (parent, child)
            for parent, child in self._all(
                "select parent, child from kin where child in (select value from json_each(?1))"
                " union select parent, child from kin"
                " where parent in (select value from json_each(?1))",
                (wanted,),
            )
        ]

    def titles(self, view: View, ids: Iterable[str]) -> dict[str, str]:
        return dict(
            self._all(
                "select id, lesson ->> 'title' from memories"
                f" where realm in {self._within(view)}"
                " and id in (select value from json_each(?))",
                (json.dumps(list(ids)),),
            )
        )

    def trace(self, view: View, id: str) -> Trace | None:
        row = self._one(
            "select payload from traces join events on seq = event"
            " where traces.id = ? and traces.workspace = ?",
            (id, view.workspace),
        )
        return self._trace(row[0]) if row else None

    def _trace(self, payload: str) -> Trace:
        """A trace, with what was found out about it since it was stored."""
        trace = Trace.from_json(json.loads(payload)["trace"])
        for (told,) in self._all(
            "select payload from events where subject = ? and what = ? and payload != ''"
            " order by at, origin, id",
            (trace.id, What.LEARNED),
        ):
            found = json.loads(told)
            learned = dict.fromkeys((*trace.memories_learned, *found["ids"]))
            trace = replace(trace, memories_learned=tuple(learned))
            if trace.outcome is None and found.get("outcome"):
                judged = {name: found[name] for name in ("by", "reason") if found.get(name)}
                trace = replace(
                    trace,
                    outcome=Outcome(found["outcome"]),
                    final_score=found.get("score")
                    if trace.final_score is None
                    else trace.final_score,
                    metadata={**trace.metadata, "judged": judged},
                )
        return trace

    def traces(self, view: View, limit: int) -> list[Trace]:
        found = self._all(
            "select payload from traces join events on seq = event"
            " where traces.workspace = ? order by traces.at desc limit ?",
            (view.workspace, limit),
        )
        return [self._trace(row[0]) for row in found]

    def traces_before(self, view: View, at: int) -> list[str]:
        found = self._all(
            "select id from traces where workspace = ? and at < ?", (view.workspace, at)
        )
        return [row[0] for row in found]

    def nums_of(self, workspace: str) -> list[tuple[int, str]]:
        found = self._all("select num, id from memories where workspace = ?", (workspace,))
        return [(num, id) for num, id in found]

    def workspace_at(self, digest: str) -> str | None:
        row = self._one("select workspace from paths where digest = ?", (digest,))
        return row[0] if row else None

    def workspace_named(self, name: str) -> str | None:
        row = self._one("select id from workspaces where name = ?", (name,))
        return row[0] if row else None

    def place(self, workspace: str) -> tuple[str, str] | None:
        row = self._one("select team, org from workspaces where id = ?", (workspace,))
        return (row[0], row[1]) if row else None

    def joined(self, workspace: str) -> int | None:
        row = self._one(
            "select min(at) from events where subject = ? and what = ?", (workspace, What.JOINED)
        )
        return row[0] if row else None

    def workspaces(self) -> list[Workspace]:
        found = self._all(
            "select w.id, path, name, team, org, count(num) from workspaces w"
            " left join memories m on m.workspace = w.id"
            " group by w.id order by coalesce(name, path, w.id)"
        )
        return [
            Workspace(id=id, path=path, name=name, team=team, org=org, memories=count)
            for id, path, name, team, org, count in found
        ]

    def token(self, id: str) -> Token | None:
        row = self._one(f"select {_OF_TOKENS} from tokens where id = ?", (id,))
        return _token(row) if row else None

    def tokens(self) -> list[Token]:
        return [
            _token(row)
            for row in self._all(f"select {_OF_TOKENS} from tokens order by created_at, id")
        ]

    def has_tokens(self) -> bool:
        return self._one("select 1 from tokens limit 1") is not None

    def unembedded(self, model: str, *, any_model: bool, limit: int) -> list[tuple[int, Memory]]:
        """Memories to embed: those with no vector, or also those with another model's."""
        missing = "embedded is null"
        if any_model:
            missing = f"(embedded is null or embedded != {self._model(model) or 0})"
        found = self._all(
            f"select {_ROW} from memories where {missing} order by num desc limit ?", (limit,)
        )
        return [(row[0], Row._make(row).memory()) for row in found]

    def unembedded_count(self, model: str) -> tuple[int, int]:
        num = self._model(model) or 0
        return (
            self._count("memories where embedded is null"),
            self._count(f"memories where embedded < {num} or embedded > {num}"),
        )

    def _model(self, name: str) -> int | None:
        row = self._one("select num from models where name = ?", (name,))
        return row[0] if row else None

    def has_vectors(self, model: str) -> bool:
        return self._model(model) is not None

    def vector_position(self) -> int:
        return self._count("sqlite_sequence where name = 'vectors'", "max(seq)")

    def vector_changes(self, model: str, after: int, limit: int, dimensions: int) -> Changes:
        import numpy as np

        from reasonbank.index.port import Changes

        found = self._all(
            "select seq, num, realm, vector from vectors where seq > ? and model = ?"
            " order by seq limit ?",
            (after, self._model(model) or 0, limit),
        )
        gone = bytes(2 * dimensions)
        packed = b"".join(gone if row[3] is None else row[3] for row in found)
        vectors = np.frombuffer(packed, np.float16).reshape(-1, dimensions)
        return Changes(
            seqs=np.array([row[0] for row in found], np.int64),
            nums=np.array([row[1] for row in found], np.int64),
            realms=np.array([row[2] for row in found], np.int32),
            vectors=vectors.astype(np.float32),
            deleted=np.array([row[3] is None for row in found], bool),
        )

    def statistics(self, view: View | None) -> JSON:
        within = "1" if view is None else f"realm in {self._within(view)}"

        def counts(column: str) -> JSON:
            return dict(
                self._all(f"select {column}, count(*) from memories where {within} group by 1")
            )

        traces = "1" if view is None else "workspace = ?"
        values = () if view is None else (view.workspace,)
        return {
            "memories": sum(counts("state").values()),
            "by_state": counts("state"),
            "by_scope": counts("scope"),
            "by_source": counts("source"),
            "by_outcome": counts("outcome"),
            "warnings": self._count(f"memories where {within} and error_type is not null"),
            "uses": self._count(f"memories where {within}", "sum(usage_count)"),
            "evidence": self._count(
                f"evidence where num in (select num from memories where {within})"
            ),
            "links": self._count(f"links where source in (select id from memories where {within})"),
            "traces": self._count(f"traces where {traces}", values=values),
            "traces_by_outcome": dict(
                self._all(
                    f"select outcome, count(*) from traces where {traces}"
                    " and outcome is not null group by 1",
                    values,
                )
            ),
            "forgotten": self._count("tombstones"),
            "workspaces": self._count("workspaces"),
            "events": self._count("events"),
        }

    def meters(self) -> list[tuple[str, int, int]]:
        found = self._all("select name, cell, amount from meters")
        return [(name, cell, amount) for name, cell, amount in found]

    def audit(self, wanted: Wanted) -> list[Change]:
        parts, values = ["1"], []
        uses = f"what = '{What.USED}'"
        about = f"(subject = ?1 or {uses} and instr(payload, ?1))"
        for test, value in (
            (about, wanted.subject),
            ("seq < ?", wanted.before),
            ("author = ?", wanted.author),
            ("surface = ?", wanted.surface),
        ):
            if value is not None:
                parts.append(test)
                values.append(value)
        if not wanted.uses:
            parts.append(f"not {uses}")
        if wanted.workspace is not None:
            # What others did to a memory of this workspace is this workspace's business too.
            parts.append(
                "(workspace = ? or exists (select 1 from events first where"
                f" first.subject = events.subject and first.what = '{What.RECORDED}'"
                " and first.workspace = ?))"
            )
            values += [wanted.workspace] * 2
        found = self._all(
            "select seq, at, what, subject, workspace, author, surface, origin from events"
            f" where {' and '.join(parts)} order by seq desc limit ?",
            (*values, wanted.limit),
        )
        return [
            Change(
                seq=seq, at=from_micros(at), what=what, subject=subject, workspace=workspace,
                author=author, surface=surface, origin=origin,
            )
            for seq, at, what, subject, workspace, author, surface, origin in found
        ]  # fmt: skip

    def _count(self, rest: str, what: str = "count(*)", values: Sequence[Any] = ()) -> int:
        row = self._one(f"select {what} from {rest}", values)
        return int(row[0] or 0) if row else 0

    def events(self, workspace: str | None) -> Iterator[Event]:
        """The log in order, without what was forgotten or purged."""
        where = "" if workspace is None else "and workspace = ?"
        for row in self._db.execute(
            f"select {_EVENT} from events where payload != '' {where} order by seq",
            () if workspace is None else (workspace,),
        ):
            yield _event(row)


def _event(row: Sequence[Any]) -> Event:
    id, what, subject, workspace, at, origin, author, surface, payload = row
    return Event(
        id=id, what=What(what), subject=subject, workspace=workspace, at=at, origin=origin,
        author=author, surface=surface, payload=json.loads(payload or "{}"),
    )  # fmt: skip


def standing_of(packed: Sequence[bytes | None]) -> NDArray[np.float64]:
    import numpy as np

    nothing = bytes(STANDING.size)
    standing = np.frombuffer(b"".join(each or nothing for each in packed), np.float64)
    return standing.reshape(-1, 16)


@lru_cache(maxsize=64)
def _visible(view: View) -> frozenset[str]:
    return frozenset(view.realms(tuple(Scope), tuple(State)))


def any_of(terms: Iterable[str]) -> str:
    """An FTS5 expression; terms are words without quotes."""
    return " OR ".join(f'"{term}"' for term in terms)


def expression(realms: Sequence[int], terms: Iterable[str]) -> str:
    """For FTS5: rows of these realms, or of all if there are none, with any of the terms."""
    if not realms:
        return any_of(terms)
    within = any_of(realm_word(realm) for realm in realms)
    return f"realm : ({within}) AND ({any_of(terms)})"


def realm_word(realm: int) -> str:
    """Stands for a realm in the full text. No question has a private-use character."""
    return f"\ue000{realm}"


def _numbers(nums: Iterable[int]) -> str:
    """Whole numbers that we made, as SQL."""
    return f"({','.join(map(str, nums))})"


@cache
def _texts(values: frozenset[What]) -> str:
    return "(" + ",".join(f"'{value}'" for value in sorted(values)) + ")"


def _token(row: tuple[Any, ...]) -> Token:
    id, name, scope, workspaces, digest, created_at, created_by, expires_at, used, revoked = row
    return Token(
        id=id,
        name=name,
        scope=scope,
        workspaces=None if workspaces is None else tuple(json.loads(workspaces)),
        digest=digest,
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        last_used=used,
        revoked_at=revoked,
    )

"""Memories: by id, by filter and by words; how they are linked; their vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from reasonbank.ledger.database import columns, inline, records
from reasonbank.ledger.events import PEERS, Event, EventType, encode
from reasonbank.ledger.port import PACKED_EVIDENCE, Candidates, Filter, Order, Row
from reasonbank.ledger.queries.base import OF_WORKSPACE, Queries
from reasonbank.model import (
    DRAFT,
    Link,
    LinkType,
    Memory,
    Scope,
    Source,
    Standing,
    State,
    View,
    filtered,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.index.port import Changes

T = TypeVar("T")

_ROW = (
    "num, id, workspace, state, initial, standing, usage_count, last_used, revision, stage,"
    " merged_into, author, created_at, lesson, probation, hand, realm"
)
_LINK = columns(Link)
# What `Candidates` is made of.
COLUMNS = (
    "num, id, scope, source, created_at, workspace, initial, standing,"
    " error_type, failure_pattern, author, probation, hand"
)
# Of what more is known than how it began: evidence, or that it is on probation.
_TOLD = "standing is not null or probation > 0"
# By what to sort, and which rows come after the last one.
_ORDERS = {
    Order.NEWEST: ("num desc", "num < ?"),
    Order.OLDEST: ("num", "num > ?"),
    Order.USED: ("usage_count desc, num desc", "(usage_count, num) < (?, ?)"),
}


class MemoryQueries(Queries):
    def row(self, view: View, id: str) -> Row | None:
        found = self.db.one(f"select {_ROW} from memories where id = ?", (id,))
        if found is None or self._key(found[-1]) not in _visible(view):
            return None
        return Row._make(found)

    def rows(self, view: View, nums: Sequence[int]) -> list[Row]:
        if not nums:
            return []
        visible = _visible(view)
        wanted = self.db.dialect.numbers(nums)
        by_num = {
            values[0]: Row._make(values)
            for values in self.db.all(
                f"select {_ROW} from {wanted.sql} wanted join memories on num = wanted.value",
                wanted.values,
            )
            if self._key(values[-1]) in visible
        }
        return [by_num[num] for num in nums if num in by_num]

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        return make()

    def listed(self, view: View, filter: Filter, limit: int) -> list[Row]:
        where, values = self._where(view, filter)
        found = self.db.all(
            f"select {_ROW} from memories where {where} order by num desc limit ?",
            (*values, limit),
        )
        return [Row._make(row) for row in found]

    def on_probation(self, view: View, limit: int, *, hand: str | None = None) -> list[Row]:
        realms = inline(self.realms(view, tuple(Scope), (State.ACTIVE,)))
        where, values = ("", ()) if hand is None else (" and hand = ?", (hand,))
        found = self.db.all(
            f"select {_ROW} from memories where realm in {realms} and probation > 0"
            f" and (workspace = ? or substr(hand, 1, {len(PEERS)}) = ?){where}"
            " order by probation desc, num desc limit ?",
            (view.workspace, PEERS, *values, limit),
        )
        return [Row._make(row) for row in found]

    def untested_since(
        self, view: View, hand: str, surfaces: Sequence[str], at: int
    ) -> frozenset[str]:
        where, values = self._where(view, Filter(scopes=tuple(Scope), drafts=False))
        through = self.db.dialect.texts(surfaces)
        found = self.db.all(
            # `since` is the counter of the event since which it is as it stands.
            "select memories.id from memories join events on subject = memories.id"
            f" and counter = since where {where} and probation = ?"
            f" and memories.workspace = ? and hand = ? and at >= ? and surface in {through.sql}",
            (*values, Standing.UNTESTED.level, view.workspace, hand, at, *through.values),
        )
        return frozenset(id for (id,) in found)

    def page(
        self, view: View, filter: Filter, limit: int, *, order: Order,
        after: tuple[int, int] | None = None,
    ) -> list[Row]:  # fmt: skip
        where, values = self._where(view, filter)
        by, test = _ORDERS[order]
        if after is not None:
            where += f" and {test}"
            values += after if order is Order.USED else after[1:]
        # The numbers first: to sort whole rows would read the text of all.
        found = self.db.all(
            f"select {_ROW} from memories where num in (select num from memories where {where}"
            f" order by {by} limit ?) order by {by}",
            (*values, limit),
        )
        return [Row._make(row) for row in found]

    def told(self, view: View, filter: Filter) -> NDArray[np.int64]:
        import numpy as np

        where, values = self._where(view, filter)
        found = self.db.all(f"select num from memories where {where} and ({_TOLD})", values)
        return np.sort(np.fromiter((row[0] for row in found), np.int64, len(found)))

    def frequent(self, view: View, what: str, limit: int) -> list[tuple[str, int]]:
        realms = inline(self.realms(view, tuple(Scope), (State.ACTIVE,)))
        found = self.db.all(
            f"select {what}, count(*) from memories where realm in {realms}"
            f" and {what} is not null group by 1 order by 2 desc, 1 limit ?",
            (limit,),
        )
        return [(value, count) for value, count in found]

    def warnings(self, view: View, part: str, limit: int) -> list[Row]:
        realms = inline(self.realms(view, tuple(Scope), (State.ACTIVE,)))
        found = self.db.all(
            f"select {_ROW} from memories where realm in {realms} and error_type is not null"
            f" and {self.db.dialect.contains('lesson', '?')} order by num desc limit ?",
            (encode(part)[1:-1], limit),
        )
        return [Row._make(row) for row in found]

    def how_many(self, view: View, filter: Filter) -> int:
        where, values = self._where(view, filter)
        return self._count(f"memories where {where}", values=values)

    def changes_of(self, view: View, id: str) -> list[Event]:
        return [] if self.row(view, id) is None else self._events_about(id)

    def taken(self, id: str) -> bool:
        found = (
            "select 1 from memories where id = ? union all select 1 from tombstones where id = ?"
        )
        return self.db.one(found, (id, id)) is not None

    def owners(self, ids: Iterable[str]) -> dict[str, str]:
        wanted = self.db.dialect.texts([*ids])
        return dict(
            self.db.all(
                f"select id, workspace from memories where id in {wanted.sql}", wanted.values
            )
        )

    def forgotten(self, id: str) -> bool:
        return self.db.one("select 1 from tombstones where id = ?", (id,)) is not None

    def touched(self, workspace: str, id: str) -> bool:
        found = f"select 1 from events where subject = ? and {OF_WORKSPACE} limit 1"
        return self.db.one(found, (id, workspace, workspace)) is not None

    def out_of_sight(self, view: View, ids: Iterable[str]) -> frozenset[str]:
        wanted = self.db.dialect.texts([*ids])
        found = self.db.all(
            "select id from memories"
            f" where +realm not in {self._within(view)} and id in {wanted.sql}",
            wanted.values,
        )
        return frozenset(id for (id,) in found)

    def _where(self, view: View, filter: Filter) -> tuple[str, list[Any]]:
        parts = [f"realm in {inline(self.realms(view, filter.scopes, filter.states))}"]
        values: list[Any] = []
        for column in (*filtered(), "error_type"):
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
        if not filter.drafts:
            parts.append("not (source = ? and num in (select num from tags where tag = ?))")
            values += [str(Source.PASSIVE), DRAFT]
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
        most = "" if limit is None else f" limit {limit + 1}"
        found = self.db.all(f"select num from memories where {where}{most}", values)
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
        return self.db.full_text.best(self._apart(realms), terms, limit, among)

    def word_counts(
        self, view: View, filter: Filter, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        realms = self.realms(view, filter.scopes, filter.states)
        if not realms:
            return [0] * len(terms)
        return self.db.full_text.counts(self._apart(realms), terms, about=about)

    def word_rows(self) -> int:
        return self.db.full_text.rows()

    def _apart(self, realms: tuple[int, ...]) -> tuple[int, ...] | None:
        """These realms; None where nobody else's rows are that they need be told from."""
        others = f"select 1 from realms where num not in {inline(realms)} limit 1"
        return realms if self.db.one(others) else None

    def candidates(self, view: View, filter: Filter, nums: NDArray[np.int64]) -> Candidates:
        import numpy as np

        where, values = self._where(view, filter)
        wanted = self.db.dialect.numbers(nums)
        # The test is a column, not a condition: an explanation names what was filtered out.
        # The plus keeps the database from reading all of the partitions instead.
        found = self.db.all(
            f"select {COLUMNS}, ({where}) from {wanted.sql} wanted"
            f" join memories on num = wanted.value where +realm in {self._within(view)}",
            (*values, *wanted.values),
        )
        columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * 14
        return Candidates(
            nums=np.array(columns[0], np.int64),
            ids=columns[1],
            scopes=columns[2],
            sources=columns[3],
            created_at=np.array(columns[4], np.int64),
            workspaces=columns[5],
            authors=columns[10],
            initial=np.array(columns[6], np.float64),
            evidence=unpacked_evidence(columns[7]),
            errors=[
                None if kind is None else (kind, pattern)
                for kind, pattern in zip(columns[8], columns[9], strict=True)
            ],
            probation=np.array(columns[11], np.int64),
            hands=columns[12],
            allowed=np.array(columns[13], bool),
        )

    def contradictions(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        ends = self.db.dialect.texts(ids)
        found = self.db.all(
            f"select source, target from links where source in {ends.sql} and type = ?"
            f" union select source, target from links where target in {ends.sql} and type = ?"
            " order by 1, 2",
            (*ends.values, LinkType.CONTRADICTS) * 2,
        )
        return [(source, target) for source, target in found]

    def linked(self, view: View) -> dict[tuple[str, str, str], float | None]:
        mine = "source in (select id from memories where workspace = ?)"
        found: dict[tuple[str, str, str], float | None] = {}
        for source, payload in self.db.all(
            "select subject, payload from events"
            f" where what = ? and {OF_WORKSPACE} and payload != ''",
            (EventType.UNLINKED, view.workspace, view.workspace),
        ):
            removed = json.loads(payload)
            found[source, removed["target"], removed["type"]] = None
        for source, target, type, strength in self.db.all(
            f"select {_LINK} from links where {mine}", (view.workspace,)
        ):
            found[source, target, type] = strength
        return found

    def links(self, view: View, id: str) -> list[Link]:
        within = self._within(view)
        found = self.db.all(
            f"select links.{_LINK} from links"
            " join memories one on one.id = links.source"
            " join memories other on other.id = target"
            f" where (links.source = ? or target = ?) and +one.realm in {within}"
            f" and +other.realm in {within} order by strength desc, target",
            (id, id),
        )
        return records(Link, _LINK, found)

    def kin(self, ids: Iterable[str]) -> list[tuple[str, str]]:
        """(parent, child) of every tie that one of ``ids`` has."""
        ends = self.db.dialect.texts([*ids])
        found = self.db.all(
            f"select parent, child from kin where child in {ends.sql}"
            f" union select parent, child from kin where parent in {ends.sql}",
            ends.values * 2,
        )
        return [(parent, child) for parent, child in found]

    def link_ends(self, ids: Iterable[str]) -> list[tuple[str, str]]:
        """(source, target) of every link that one of ``ids`` has, in view or not."""
        ends = self.db.dialect.texts([*ids])
        found = self.db.all(
            f"select source, target from links where source in {ends.sql}"
            f" union select source, target from links where target in {ends.sql}",
            ends.values * 2,
        )
        return [(source, target) for source, target in found]

    def titles(self, view: View, ids: Iterable[str]) -> dict[str, str]:
        wanted = self.db.dialect.texts([*ids])
        found = self.db.all(
            "select id, lesson from memories"
            f" where +realm in {self._within(view)} and id in {wanted.sql}",
            wanted.values,
        )
        return {id: json.loads(lesson)["title"] for id, lesson in found}

    def nums_of(self, workspace: str) -> list[tuple[int, str]]:
        found = self.db.all("select num, id from memories where workspace = ?", (workspace,))
        return [(num, id) for num, id in found]

    def unembedded(
        self, *, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, Memory]]:
        if among is None:
            return self._latest("embedded is null", limit)
        wanted = self.db.dialect.numbers(among)
        return self._latest(f"embedded is null and num in {wanted.sql}", limit, wanted.values)

    def outdated(self, model: str, *, limit: int) -> list[tuple[int, Memory]]:
        # One by one, so that each follows the index and none sorts the whole table.
        found = [
            row for which in self._lacking(model).values() for row in self._latest(which, limit)
        ]
        return sorted(found, key=lambda row: -row[0])[:limit]

    def _latest(
        self, which: str, limit: int, values: Sequence[Any] = ()
    ) -> list[tuple[int, Memory]]:
        found = self.db.all(
            f"select {_ROW} from memories where {which} order by num desc limit ?",
            (*values, limit),
        )
        return [(row[0], Row._make(row).memory()) for row in found]

    def unembedded_count(self, model: str) -> tuple[int, int]:
        new = self._count("memories where embedded is null")
        return new, sum(self.embedded_elsewhere(model).values())

    def embedded_elsewhere(self, model: str) -> dict[str, int]:
        lacking = self._lacking(model).items()
        found = {name: self._count(f"memories where {which}") for name, which in lacking}
        return {name: count for name, count in found.items() if count}

    def _lacking(self, model: str) -> dict[str, str]:
        """Each other model, and which memories have a vector of it and none of this one.

        ``embedded`` is the newest model that a memory has a vector of: where that is an older
        one than this, there is none of this.
        """
        own = self._model(model)
        without = (
            " and not exists (select 1 from vectors where vectors.num = memories.num"
            f" and model = {own} and vector is not null)"
        )
        return {
            name: f"embedded = {num}{without if own is not None and num > own else ''}"
            for num, name in self.db.all("select num, name from models")
            if num != own
        }

    def memory_count(self) -> int:
        return self._count("memories")

    def has_passages(self) -> bool:
        return self.db.one("select 1 from passages limit 1") is not None

    def passages(
        self, model: str, nums: Sequence[int], dimensions: int
    ) -> dict[int, NDArray[np.float32]]:
        import numpy as np

        wanted = self.db.dialect.numbers(nums)
        found = self.db.all(
            f"select num, vectors from passages where model = ? and num in {wanted.sql}",
            (self._model(model) or 0, *wanted.values),
        )
        return {
            num: np.frombuffer(packed, np.float16).reshape(-1, dimensions).astype(np.float32)
            for num, packed in found
        }

    def has_vectors(self, model: str, compatible: Sequence[str] = ()) -> bool:
        return self._model(model) is not None or bool(self._models_like(compatible))

    def vector_position(self) -> int:
        row = self.db.one(self.db.dialect.vector_position)
        return int(row[0] or 0) if row else 0

    def vector_changes(
        self,
        model: str,
        after: int,
        limit: int,
        dimensions: int,
        compatible: Sequence[str] = (),
    ) -> Changes:
        import numpy as np

        from reasonbank.index.port import Changes

        own = self._model(model) or 0
        wanted = f"model = {own}"
        if others := [num for num in self._models_like(compatible) if num != own]:
            # A name that begins alike may be that of a model of another size.
            wanted = (
                f"({wanted} or model in {inline(others)}"
                f" and (vector is null or length(vector) = {2 * dimensions})"
                " and not exists (select 1 from vectors own where own.num = vectors.num"
                f" and own.model = {own} and own.vector is not null))"
            )
        found = self.db.all(
            f"select seq, num, realm, vector from vectors where seq > ? and {wanted}"
            " order by seq limit ?",
            (after, limit),
        )
        gone = bytes(2 * dimensions)
        packed = b"".join(gone if row[3] is None else row[3] for row in found)
        vectors = np.frombuffer(packed, np.float16).reshape(-1, dimensions)
        return Changes(
            after=after,
            seqs=np.array([row[0] for row in found], np.int64),
            nums=np.array([row[1] for row in found], np.int64),
            realms=np.array([row[2] for row in found], np.int32),
            vectors=vectors.astype(np.float32),
            deleted=np.array([row[3] is None for row in found], bool),
        )


def unpacked_evidence(packed: Sequence[bytes | None]) -> NDArray[np.float64]:
    import numpy as np

    nothing = bytes(PACKED_EVIDENCE.size)
    evidence = np.frombuffer(b"".join(each or nothing for each in packed), np.float64)
    return evidence.reshape(-1, PACKED_EVIDENCE.size // 8)


@lru_cache(maxsize=64)
def _visible(view: View) -> frozenset[str]:
    return frozenset(view.realms(tuple(Scope), tuple(State)))

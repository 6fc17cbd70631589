"""The tables of a bank beside what its log makes of them, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from reasonbank.ledger.database import Database, records
from reasonbank.ledger.events import CHANGES, OBSERVATIONS, EventType
from reasonbank.ledger.port import SEAL, Token
from reasonbank.ledger.queries.administration import TOKEN
from reasonbank.ledger.queries.base import EVENT, texts
from reasonbank.ledger.tables import TABLES, Table
from reasonbank.trust.belief import day_of, parts
from reasonbank.values import valueclass

PAGE = 500
_FOLDED = (
    "memories", "tags", "kin", "links", "evidence", "weights", "opinions",
    "shared_evidence", "authors",
    "author_tasks", "tasks", "questions", "tombstones", "traces", "purged", "taken_back",
    "workspaces", "paths", "merged",
)  # fmt: skip
# Which vectors there are, and what was rolled up when, does not follow from the log.
_ELSEWHERE = {"memories": {"realm", "embedded"}, "evidence": {"rolled"}}
_FROM_EVIDENCE = {"standing", "usage_count", "last_used", "probation"}
_NOT_OF_MEMORIES = OBSERVATIONS | {EventType.TRACED, EventType.LEARNED}
_TOLD = {
    "memories": "id", "evidence": "num", "tags": "num", "opinions": "num",
    "shared_evidence": "num", "kin": "child",
    "links": "source",
}  # fmt: skip
"""By table, the column that leads to the memory that a row is about."""


@valueclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``id`` is the memory, or whatever else, that a row is about."""

    table: str
    id: str | None
    found: str


def count(db: Database, table: str) -> int:
    row = db.one(f"select count(*) from {table}")
    return int(row[0]) if row else 0


def take_log(
    source: Database, target: Database, advance: Callable[[int], None],
    only: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Copy the log as it is; ``only``: what makes the texts of these memories."""
    which, values = "1 = 1", tuple[Any, ...]()
    if only is not None:
        wanted = source.dialect.texts(only)
        which = (
            f"what not in {texts(_NOT_OF_MEMORIES | CHANGES)}"
            f" or what in {texts(CHANGES)} and subject in {wanted.sql}"
        )
        values = tuple(wanted.values)
    marks = ", ".join("?" * (1 + len(EVENT.split(", "))))
    seq = done = 0
    while rows := source.all(
        f"select seq, {EVENT} from events where seq > ? and ({which}) order by seq limit ?",
        (seq, *values, PAGE),
    ):
        target.many(f"insert into events (seq, {EVENT}) values ({marks})", rows)
        seq, done = rows[-1][0], done + len(rows)
        advance(done)


def unknown(db: Database) -> list[Difference]:
    """Memories that no event tells of."""
    recorded = "select 1 from events where subject = memories.id and what = ? and payload != ''"
    found = db.all(f"select id from memories where not exists ({recorded})", (EventType.RECORDED,))
    return [_added("memories", id) for (id,) in found]


def tokens(db: Database) -> list[Difference]:
    """Tokens that nobody made, that are gone, that open something else than when they were made, or
    that were revoked and are valid again. One that a backup knew as valid stays revoked, of which
    its log says nothing; of old ones it does not say what they open."""
    noted = "select 1 from events where subject = tokens.id and what = ?"
    found = db.all(
        f"select id, exists ({noted}) from tokens where not exists ({noted})"
        f" or revoked_at is null and exists ({noted})",
        (EventType.ADMITTED, EventType.ADMITTED, EventType.REVOKED),
    )
    gone = db.all(
        "select subject from events where what = ? and subject not in (select id from tokens)",
        (EventType.ADMITTED,),
    )
    seals = dict(db.all("select subject, digest from events where what = ? and digest like ?",
                        (EventType.ADMITTED, f"{SEAL}%")))  # fmt: skip
    every = records(Token, TOKEN, db.all(f"select {TOKEN} from tokens"))
    wider = [token.id for token in every if seals.get(token.id, token.seal) != token.seal]
    return [
        *(_changed("tokens", id, ["what it opens"]) for id in wider),
        *(_changed("tokens", id, ["revoked_at"]) if made else _added("tokens", id)
          for id, made in found),
        *(_removed("tokens", id) for (id,) in gone),
    ]  # fmt: skip


def peers(db: Database) -> list[Difference]:
    """Banks that nobody met, that were cut off and are back, or that nobody said to trust."""
    known = db.all("select key, trusted, revoked_at from peers")
    noted = frozenset({EventType.MET, EventType.CUT_OFF, EventType.TRUSTED, EventType.DOUBTED})
    told = db.all(f"select subject, what from events where what in {texts(noted)} order by seq")
    found = []
    for key, trusted, revoked_at in known:
        said = [what for subject, what in told if key.startswith(subject)]
        met = [what for what in said if what in (EventType.MET, EventType.CUT_OFF)]
        judged = [what for what in said if what != EventType.MET]
        if not met:
            found.append(_added("peers", key))
        elif trusted and judged[-1:] != [EventType.TRUSTED]:
            found.append(_changed("peers", key, ["trusted"]))
        elif revoked_at is None and met[-1] == EventType.CUT_OFF:
            found.append(_changed("peers", key, ["revoked_at"]))
    return found


def sample(db: Database, most: int) -> list[str]:
    """The ids of so many memories, from everywhere."""
    ids = [id for (id,) in db.all("select id from memories order by id")]
    return ids[:: max(1, -(-len(ids) // most))]


class Comparison:
    """``folded`` is what the log makes; ``only`` these memories are looked at, and their texts."""

    def __init__(self, db: Database, folded: Database, only: Sequence[str] | None = None) -> None:
        self.db = db
        self.folded = folded
        self.only = None if only is None else set(only)
        self.rows = 0
        self._ids: dict[int, str] = dict(db.all("select num, id from memories"))
        self._ids |= dict(folded.all("select num, id from memories"))

    def differences(self) -> Iterator[Difference]:
        ours, logs = _side(self.db), _side(self.folded)
        for table in TABLES:
            if table.name == "memories" or (self.only is None and table.name in _FOLDED):
                yield from self._in_table(table, ours, logs)
        if self.only is None:
            yield from self._tallies()

    def _in_table(self, table: Table, ours: _Side, logs: _Side) -> Iterator[Difference]:
        left_out = {*_ELSEWHERE.get(table.name, ()), *table.key}
        if self.only is not None:
            left_out |= _FROM_EVIDENCE
        columns = [name for name in table.columns if name not in left_out]
        if table.name == "memories":
            columns.append("realm")
        there = dict(logs.rows(table, columns))
        for key, values in ours.rows(table, columns):
            id = self._about(table, columns, key, values)
            if self.only is not None and id not in self.only:
                continue
            self.rows += 1
            told = there.pop(key, None)
            if told is None:
                yield _added(table.name, id)
            elif told != values:
                which = [n for n, a, b in zip(columns, values, told, strict=True) if a != b]
                yield _changed(table.name, id, which)
        for key, values in there.items():
            yield _removed(table.name, self._about(table, columns, key, values))

    def _about(
        self, table: Table, columns: Sequence[str], key: Sequence[Any], values: Sequence[Any]
    ) -> str | None:
        told = dict(zip((*table.key, *columns), (*key, *values), strict=True))
        about = told.get(_TOLD.get(table.name, "id"))
        return self._ids.get(about) if isinstance(about, int) else about and str(about)

    def _tallies(self) -> Iterator[Difference]:
        """What was rolled up is counted by the day."""
        counted: dict[tuple[Any, ...], int] = {}
        for num, workspace, kind, positive, at, share in self.db.all(
            "select num, workspace, kind, positive, at, share from evidence where rolled = 1"
        ):
            key = (num, workspace, kind, positive, day_of(at))
            counted[key] = counted.get(key, 0) + parts(kind, share)
        found = self.db.all(
            "select num, workspace, kind, positive, day, count from tally where count != 0"
        )
        stored = {tuple(key): times for *key, times in found}
        for key in counted.keys() | stored.keys():
            if counted.get(key) != stored.get(key):
                yield _changed("tally", self._ids.get(key[0]), ["count"])


class _Side(NamedTuple):
    """A bank's tables, or what its log makes of them. Each numbers its realms by itself."""

    db: Database
    realms: dict[Any, str]

    def rows(
        self, table: Table, names: Sequence[str]
    ) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        columns = [*table.key, *names]
        realm = columns.index("realm") if "realm" in columns else None
        for row in self.db.all(f"select {', '.join(columns)} from {table.name}"):
            told = [bytes(part) if isinstance(part, memoryview) else part for part in row]
            if realm is not None:
                told[realm] = self.realms.get(told[realm], "no realm")
            yield tuple(told[: len(table.key)]), tuple(told[len(table.key) :])


def _side(db: Database) -> _Side:
    return _Side(db, dict(db.all("select num, key from realms")))


def _of(table: str, id: str | None) -> str:
    if table == "memories":
        return f"memory {id}"
    return f"{table} of {id}" if id else table


def _added(table: str, id: str | None) -> Difference:
    return Difference(
        table=table, id=id, found=f"{_of(table, id)}: a row that the log does not tell of"
    )


def _removed(table: str, id: str | None) -> Difference:
    return Difference(table=table, id=id, found=f"{_of(table, id)}: a row is missing")


def _changed(table: str, id: str | None, columns: Sequence[str]) -> Difference:
    names = ", ".join(columns)
    return Difference(
        table=table, id=id, found=f"{_of(table, id)}: {names} is not what the log tells"
    )

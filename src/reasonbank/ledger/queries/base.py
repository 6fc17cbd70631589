"""What all queries share: which partitions a view may see, and how events are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from reasonbank.ledger.database import Database, inline
from reasonbank.ledger.events import CHANGES, Event, EventType
from reasonbank.model import Principal, Scope, State, View

EVENT = (
    "id, what, subject, workspace, counter, at, origin, author, principal, surface, batch,"
    " prev, digest, salt, payload"
)
AT_HOME = (
    "coalesce((select home from merged where merged.workspace = events.workspace),"
    " events.workspace)"
)
"""The workspace that an event belongs to, whichever it was written in."""
EVENT_AT_HOME = EVENT.replace("workspace", AT_HOME)
ORDER = "counter, id"
BEFORE = "(counter, id) < (?, ?)"
OF_WORKSPACE = "workspace in (select ? union all select workspace from merged where home = ?)"
"""What was written in a workspace or in one that was merged into it; the id is given twice."""

SHARES = "coalesce(share, 1.0) > 0"
"""The outcome of a task speaks of what it was given, but not of weak matches beside sure ones."""


COUNTS = "payload != '' and id not in (select id from taken_back)"
"""Neither was its content removed, nor was it taken back."""
IS_TAKEN_BACK = "id in (select id from taken_back)"


class Queries:
    def __init__(self, db: Database) -> None:
        self.db = db
        self._realms: dict[str, int | None] = {}
        self._keys: dict[int, str] = {}
        self._newest_realm = 0

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
            row = self.db.one("select num from realms where key = ?", (key,))
            self._realms[key] = row[0] if row else None
        return self._realms[key]

    def _within(self, view: View) -> str:
        return inline(self.realms(view, tuple(Scope), tuple(State)))

    def _key(self, realm: int) -> str:
        if realm not in self._keys:
            row = self.db.one("select key from realms where num = ?", (realm,))
            assert row is not None
            self._keys[realm] = row[0]
        return self._keys[realm]

    def _model(self, name: str) -> int | None:
        row = self.db.one("select num from models where name = ?", (name,))
        return row[0] if row else None

    def _models_like(self, names: Sequence[str]) -> list[int]:
        """Those whose names begin so: a build of a model may carry a suffix."""
        if not names:
            return []
        found = self.db.all("select num, name from models order by num")
        return [num for num, name in found if name.startswith(tuple(names))]

    def _count(self, rest: str, what: str = "count(*)", values: Sequence[Any] = ()) -> int:
        row = self.db.one(f"select {what} from {rest}", values)
        return int(row[0] or 0) if row else 0

    def home(self, workspace: str) -> str:
        row = self.db.one("select home from merged where workspace = ?", (workspace,))
        return row[0] if row else workspace

    def members(self, workspace: str) -> list[str]:
        found = self.db.all("select workspace from merged where home = ? order by 1", (workspace,))
        return [workspace, *(member for (member,) in found)]

    def _events_about(self, subject: str) -> list[Event]:
        found = self.db.all(
            f"select {EVENT_AT_HOME}, {IS_TAKEN_BACK} from events where subject = ?"
            f" and what in {texts(CHANGES)} and payload != ''",
            (subject,),
        )
        return [event_of(row) for row in found]


def event_of(row: Sequence[Any]) -> Event:
    """``row``: as `EVENT` selects it; it may be followed by `IS_TAKEN_BACK`."""
    (id, type, subject, workspace, counter, at, origin, author, principal, surface, batch,
     prev, digest, salt, payload, *more) = row  # fmt: skip
    return Event(
        id=id, type=EventType(type), subject=subject, workspace=workspace, counter=counter, at=at,
        origin=origin, author=author, principal=_PRINCIPALS[principal], surface=surface,
        batch=batch, prev=prev, digest=digest, salt=salt,
        payload=json.loads(payload or "{}"), redacted=payload == "", taken_back=any(more),
    )  # fmt: skip


_PRINCIPALS = {str(principal): principal for principal in Principal}


@cache
def texts(values: frozenset[EventType]) -> str:
    """Some kinds of events, as SQL."""
    return "(" + ",".join(f"'{value}'" for value in sorted(values)) + ")"

"""Workspaces, tokens and numbers: what whoever looks after a bank asks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reasonbank.ledger.database import columns, record, records
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import STANDINGS, Token
from reasonbank.ledger.queries.base import ORDER, Queries
from reasonbank.ledger.use import unused
from reasonbank.model import JSON, Scope, View, Workspace

_WORKSPACE = "id, path, name, team, org, memories"
TOKEN = columns(Token)


class AdministrationQueries(Queries):
    def unused(self) -> str | None:
        why = unused(self.db)
        return None if why is None else why.sentence

    def workspace_at(self, digest: str) -> str | None:
        row = self.db.one("select workspace from paths where digest = ?", (digest,))
        return row[0] if row else None

    def workspaces_at(self, digests: Sequence[str]) -> dict[str, tuple[str, bool]]:
        wanted = self.db.dialect.texts(list(dict.fromkeys(digests)))
        id = "coalesce(home, p.workspace, d.value)"
        found = self.db.all(
            f"select d.value, {id}, exists (select 1 from workspaces where id = {id})"
            f" from {wanted.sql} d left join paths p on p.digest = d.value"
            " left join merged m on m.workspace = coalesce(p.workspace, d.value)",
            wanted.values,
        )
        return {digest: (id, bool(stored)) for digest, id, stored in found}

    def workspaces_near(self, folders: Sequence[str], above: Sequence[str]) -> list[Workspace]:
        under = " or ".join(["substr(path, 1, ?) = ?"] * len(folders)) or "1 = 0"
        exact = self.db.dialect.texts(list(above))
        own = View(workspace="", team="", org="").realm(Scope.PROJECT)
        found = self.db.all(
            "select id, path, name, team, org, (select count(*) from memories where realm ="
            " (select num from realms where key = ? || workspaces.id))"
            f" from workspaces where {under} or path in {exact.sql} order by path",
            (own, *(part for folder in folders for part in (len(folder), folder)), *exact.values),
        )
        return [place for place in records(Workspace, _WORKSPACE, found) if place.memories]

    def workspace_named(self, name: str) -> str | None:
        row = self.db.one("select id from workspaces where name = ?", (name,))
        return row[0] if row else None

    def place(self, workspace: str) -> tuple[str, str] | None:
        row = self.db.one("select team, org from workspaces where id = ?", (workspace,))
        return (row[0], row[1]) if row else None

    def joined(self, workspace: str) -> int | None:
        row = self.db.one(
            "select min(at) from events where subject = ? and what = ?",
            (workspace, EventType.JOINED),
        )
        return row[0] if row else None

    def workspaces(self) -> list[Workspace]:
        found = self.db.all(
            "select w.id, path, name, team, org, count(num) from workspaces w"
            " left join memories m on m.workspace = w.id"
            " group by w.id order by coalesce(name, path, w.id)"
        )
        return records(Workspace, _WORKSPACE, found)

    def old_paths(self, workspace: str) -> dict[str, str]:
        paths: dict[str, str] = {}
        for (payload,) in self.db.all(
            "select payload from events where subject = ? and what in (?, ?) and payload != ''"
            f" order by {ORDER}",
            (workspace, EventType.MOVED, EventType.DELETED),
        ):
            told = json.loads(payload)
            paths |= told.get("paths", {})
            if told.get("old_digest"):
                paths[told["old_digest"]] = told["heir"]
        return {digest: id for digest, id in paths.items() if self.workspace_at(digest) == id}

    def token(self, id: str) -> Token | None:
        row = self.db.one(f"select {TOKEN} from tokens where id = ?", (id,))
        return record(Token, TOKEN, row)

    def tokens(self) -> list[Token]:
        found = self.db.all(f"select {TOKEN} from tokens order by created_at, id")
        return records(Token, TOKEN, found)

    def statistics(self, view: View | None) -> JSON:
        within = "1 = 1" if view is None else f"realm in {self._within(view)}"

        def counts(column: str) -> JSON:
            return dict(
                self.db.all(f"select {column}, count(*) from memories where {within} group by 1")
            )

        here = "1 = 1" if view is None else "workspace = ?"
        values = () if view is None else (view.workspace,)
        return {
            "memories": sum(counts("state").values()),
            "by_state": counts("state"),
            "by_scope": counts("scope"),
            "by_source": counts("source"),
            "by_outcome": counts("outcome"),
            "by_standing": {
                str(STANDINGS[int(level)]): count for level, count in counts("probation").items()
            },
            "influence": [
                {"hand": hand, "memories": memories, "confirmed": confirmed, "given": given or 0}
                for hand, memories, confirmed, given in self.db.all(
                    "select hand, count(*), sum(case when probation = 0 then 1 else 0 end),"
                    f" sum(usage_count) from memories where {within} and state = 'active'"
                    " group by 1 order by 4 desc, 2 desc, 1"
                )
            ],
            "warnings": self._count(f"memories where {within} and error_type is not null"),
            "uses": self._count(f"memories where {within}", "sum(usage_count)"),
            "evidence": self._count(
                f"evidence where {here} and num in (select num from memories where {within})",
                values=values,
            ),
            "links": self._count(f"links where source in (select id from memories where {within})"),
            "traces": self._count(f"traces where {here}", values=values),
            "traces_by_outcome": dict(
                self.db.all(
                    f"select outcome, count(*) from traces where {here}"
                    " and outcome is not null group by 1",
                    values,
                )
            ),
            "forgotten": self._count("tombstones"),
            "workspaces": self._count("workspaces"),
            "events": self._count("events"),
        }

    def recorded_since(self, view: View | None, at: int) -> int:
        within = "1 = 1" if view is None else f"realm in {self._within(view)}"
        return self._count(f"memories where {within} and created_at >= ?", values=(at,))

    def meters(self) -> list[tuple[str, int, int]]:
        found = self.db.all("select name, cell, amount from meters")
        return [(name, cell, amount) for name, cell, amount in found]

"""Workspaces: where each is, what it is called and whose it is, after all that was said of them."""

from __future__ import annotations

from reasonbank.ledger.events import Event, EventType
from reasonbank.ledger.projection.memories import MemoryProjection
from reasonbank.ledger.queries.base import EVENT, ORDER, event_of


class Places(MemoryProjection):
    def _joined_or_moved(self, event: Event) -> None:
        known = self.place(event.subject) is not None
        self._place(event.subject)
        if event.type is EventType.MOVED:
            self._lead_paths()
        if event.type is EventType.NAMED or not known:
            self._name_all()

    def _place(self, id: str) -> None:
        """Fold all that was said of a workspace, and store how it stands."""
        row: tuple[str | None, str, str] | None = None
        for event in self._said_of_places(EventType.JOINED, EventType.MOVED, of=id):
            p = event.payload
            if event.type is EventType.JOINED:
                row = (p.get("path") if row is None or row[0] is None else row[0],
                       p["team"], p["org"])  # fmt: skip
            elif row is not None:
                row = (p["path"], *row[1:])
        old = self.place(id)
        if row is None:
            self.db.execute("delete from workspaces where id = ?", (id,))
        else:
            self.db.execute(
                "insert into workspaces (id, path, team, org) values (?, ?, ?, ?)"
                " on conflict (id) do update set path = excluded.path, team = excluded.team,"
                " org = excluded.org",
                (id, *row),
            )
        if old != (None if row is None else row[1:]):
            # What it shares is shared with others now.
            for (memory,) in self.db.all("select id from memories where workspace = ?", (id,)):
                self._stand(memory)

    def _name_all(self) -> None:
        """Of two workspaces with one name, the one that was named last has it."""
        claims = {
            event.subject: event.payload["name"] for event in self._said_of_places(EventType.NAMED)
        }
        owners: dict[str, str] = {}
        for event in self._said_of_places(EventType.NAMED):
            if claims[event.subject] == event.payload["name"]:
                owners[event.payload["name"]] = event.subject
        names = {id: name for name, id in owners.items()}
        stale = [
            (id, names.get(id))
            for id, name in self.db.all("select id, name from workspaces")
            if name != names.get(id)
        ]
        self.db.many("update workspaces set name = null where id = ?", [(id,) for id, _ in stale])
        self.db.many("update workspaces set name = ? where id = ?", [(n, id) for id, n in stale])

    def _lead_paths(self) -> None:
        """A new path leads to what was moved there, and the old one to a workspace of its own;
        what was deleted leaves its old paths to those."""
        self.db.execute("delete from paths")
        paths: dict[str, str] = {}
        for event in self._said_of_places(EventType.MOVED, EventType.DELETED):
            p = event.payload
            if event.type is EventType.MOVED:
                leads = {p["digest"]: event.subject, p["old_digest"]: p["heir"]}
            else:
                leads = p.get("paths", {})
            paths.update({digest: id for digest, id in leads.items() if digest})
        self.db.many("insert into paths values (?, ?)", paths.items())

    def _said_of_places(self, *types: EventType, of: str | None = None) -> list[Event]:
        which, values = ("", ()) if of is None else (" and subject = ?", (of,))
        found = self.db.all(
            f"select {EVENT} from events where what in ({', '.join('?' * len(types))})"
            f" and payload != ''{which} order by {ORDER}",
            (*types, *values),
        )
        return [event_of(row) for row in found]

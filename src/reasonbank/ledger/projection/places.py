"""Workspaces: where each is, what it is called and whose it is, after all that was said of them."""

from __future__ import annotations

from collections.abc import Collection

from reasonbank.ledger.events import Event, EventType, homes
from reasonbank.ledger.projection.memories import MemoryProjection
from reasonbank.ledger.queries.base import COUNTS, EVENT, EVENT_AT_HOME, ORDER, event_of, texts
from reasonbank.model import Scope, up_to_a_slash

_TASKS = frozenset({EventType.ENDED, EventType.WITHHELD})
_OF_PLACES = (
    "what in ('workspace.joined', 'workspace.named', 'workspace.moved', 'workspace.merged',"
    " 'workspace.deleted')"
)
"""Word for word the condition of the index ``events_places``: SQLite uses it for no other, and
looks through all that was ever said instead."""


class Places(MemoryProjection):
    def _joined_or_moved(self, event: Event) -> None:
        place = self.home(event.subject)
        known = self.place(place) is not None
        self._place(place)
        if event.type is EventType.MOVED:
            self._lead_paths()
        if event.type is EventType.NAMED or not known:
            self._name_all()

    def _place(self, id: str) -> None:
        """Fold all that was said of a workspace, and store how it stands. Of one that was merged
        nothing is left; what was said of it counts where nothing was said of its new home."""
        row: tuple[str | None, str, str] | None = None
        if self.home(id) == id:
            row = self._told_of([id]) or self._told_of(self.members(id))
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
        has_any = self.db.one("select 1 from authors where workspace = ? limit 1", (id,))
        if old != (None if row is None else row[1:]) and has_any is not None:
            # What it shares is shared with others now.
            for (memory,) in self.db.all("select id from memories where workspace = ?", (id,)):
                self._stand(memory)

    def _tell_orgs_apart(self) -> None:
        for memory, org in self.db.all(
            "select m.id, org from memories m join workspaces w on w.id = m.workspace"
            " where scope = ?",
            (Scope.TEAM,),
        ):
            if up_to_a_slash(org) != org:
                self._stand(memory)

    def _told_of(self, ids: Collection[str]) -> tuple[str | None, str, str] | None:
        row: tuple[str | None, str, str] | None = None
        for event in self._said_of_places(EventType.JOINED, EventType.MOVED, of=ids):
            p = event.payload
            if event.type is EventType.JOINED:
                row = (p.get("path") if row is None or row[0] is None else row[0],
                       p["team"], p["org"])  # fmt: skip
            elif row is not None:
                row = (p["path"], *row[1:])
        return row

    def _name_all(self) -> None:
        """Of two workspaces with one name, the one that was named last has it. One without a
        name of its own has that of what was merged into it."""
        claims: dict[str, Event] = {}
        for event in self._said_of_places(EventType.NAMED):
            place = self.home(event.subject)
            if place == event.subject or claims.get(place, event).subject != place:
                claims[place] = event
        ordered = sorted(claims.items(), key=lambda claim: claim[1].order)
        owners = {event.payload["name"]: place for place, event in ordered}
        names = {id: name for name, id in owners.items()}
        # Most have no name, other banks' projects above all, and those may be very many.
        had = dict(self.db.all("select id, name from workspaces where name > ''"))
        stale = [(id, names.get(id)) for id in had | names if had.get(id) != names.get(id)]
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

    # Merging

    def _merged(self) -> None:
        """Bring what was written in merged workspaces to where it belongs, by all that was said
        of merging so far."""
        before, after = self._fold_merges()
        changed = {
            id for id in before.keys() | after.keys() if before.get(id, id) != after.get(id, id)
        }
        if not changed:
            return  # It was said before, or tables are being made anew.
        concerned = changed | {told.get(id, id) for id in changed for told in (before, after)}
        observed = self._observed_in(concerned)
        # Those that stay come first: what is brought to them is shared with their team.
        for place in sorted(concerned, key=lambda id: (id in after, id)):
            self._place(place)
        self._name_all()
        for memory in (recorded := self._subjects(changed, EventType.RECORDED)):
            self._stand(memory)
        for trace in self._subjects(changed, EventType.TRACED):
            self._trace_anew(trace)
        for id in changed:
            self._bring_home(id, after.get(id, id))
        self._tell_tasks_anew(concerned)
        self._observe_anew(dict.fromkeys([*observed, *recorded]))

    def _fold_merges(self) -> tuple[dict[str, str], dict[str, str]]:
        """Where the events of merged workspaces belonged until now, and where from now on."""
        before = dict(self.db.all("select workspace, home from merged"))
        merges = self._said_of_places(EventType.MERGED)
        after = homes((event.subject, event.payload["into"]) for event in merges)
        if after != before:
            self.db.execute("delete from merged")
            self.db.many("insert into merged values (?, ?)", after.items())
        return before, after

    def _subjects(self, workspaces: Collection[str], type: EventType) -> list[str]:
        """What events of this type, written in these workspaces, are about."""
        wanted = self.db.dialect.texts(sorted(workspaces))
        found = self.db.all(
            "select distinct subject from events where what = ? and payload != ''"
            f" and workspace in {wanted.sql} order by 1",
            (type, *wanted.values),
        )
        return [subject for (subject,) in found]

    def _observed_in(self, workspaces: Collection[str]) -> list[str]:
        wanted = self.db.dialect.texts(sorted(workspaces))
        found = self.db.all(
            "select distinct id from evidence join memories using (num)"
            f" where evidence.workspace in {wanted.sql} order by 1",
            wanted.values,
        )
        return [id for (id,) in found]

    def _bring_home(self, id: str, home: str) -> None:
        """What is not told by memories: questions of tasks, work that waits, what is unanswered."""
        self.db.execute(
            "update questions set workspace = ?"
            " where id in (select seq from events where workspace = ? and what = ?)",
            (home, id, EventType.USED),
        )
        if id != home:
            self.queue.bring_home(id, home)
            self.unanswered.bring_home(id, home)

    def _tell_tasks_anew(self, workspaces: Collection[str]) -> None:
        """How tasks ended, by what the log says of these workspaces."""
        wanted = self.db.dialect.texts(sorted(workspaces))
        self.db.execute(f"delete from tasks where workspace in {wanted.sql}", wanted.values)
        for row in self.db.all(
            f"select {EVENT_AT_HOME} from events where what in {texts(_TASKS)} and {COUNTS}"
        ):
            event = event_of(row)
            if event.workspace in workspaces:
                self._project(event)

    def _said_of_places(self, *types: EventType, of: Collection[str] | None = None) -> list[Event]:
        which, values = "", tuple[str, ...]()
        if of is not None:
            which, values = f" and subject in ({', '.join('?' * len(of))})", tuple(of)
        found = self.db.all(
            f"select {EVENT} from events where {_OF_PLACES}"
            f" and what in ({', '.join('?' * len(types))})"
            f" and payload != ''{which} order by {ORDER}",
            (*types, *values),
        )
        return [event_of(row) for row in found]

    def _trace_anew(self, id: str) -> None:
        raise NotImplementedError

    def _project(self, event: Event, *, live: bool = False) -> None:
        raise NotImplementedError

"""Taking back: events that stay in the log and count for nothing, until that is undone."""

from __future__ import annotations

from reasonbank.ledger.events import BATCHES, CHANGES, EventType, taken_back
from reasonbank.ledger.projection.forgetting import Forgetting
from reasonbank.ledger.queries.base import EVENT, EVENT_AT_HOME, event_of, texts

_LINKS = (EventType.LINKED, EventType.UNLINKED)


class TakingBack(Forgetting):
    def _is_taken_back(self, event: str) -> bool:
        return self.db.one("select 1 from taken_back where id = ?", (event,)) is not None

    def _batches_told(self) -> None:
        """Fold anew what is said to count no longer, or again; most batches say no such thing."""
        before, after = self._fold_taken_back()
        changed = {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}
        if changed:
            self._count_anew(changed)

    def _fold_taken_back(self) -> tuple[dict[str, tuple[int, str]], dict[str, tuple[int, str]]]:
        """What counted for nothing until now, and what does from now on."""
        found = self.db.all("select id, counter, event from taken_back")
        before = {id: (counter, event) for id, counter, event in found}
        told = self.db.all(
            f"select {EVENT} from events where what in {texts(BATCHES)}"
            f" and {self.db.dialect.contains('payload', '?')}",
            ('"events":',),
        )
        after = taken_back(map(event_of, told))
        if after != before:
            self.db.execute("delete from taken_back")
            rows = [(id, *order) for id, order in after.items()]
            self.db.many("insert into taken_back values (?, ?, ?)", rows)
        return before, after

    def _count_anew(self, changed: set[str]) -> None:
        wanted = self.db.dialect.texts(sorted(changed))
        events = [
            event_of(row)
            for row in self.db.all(
                f"select {EVENT_AT_HOME} from events where id in {wanted.sql} and payload != ''",
                wanted.values,
            )
        ]
        for memory in {event.subject for event in events if event.type in CHANGES}:
            self._stand(memory)
        for event in events:
            if event.type in _LINKS:
                self._project(event)
            elif event.type is EventType.USED:
                self.db.execute("delete from questions where id = ?", (self._seq(event),))
                if not self._is_taken_back(event.id):
                    self._asked(event)
        ended = {(e.workspace, e.subject) for e in events if e.type is EventType.ENDED}
        self._tell_tasks_anew({workspace for workspace, _ in ended})
        observed = {event.subject for event in events if event.type is EventType.OBSERVED}
        self._observe_anew(sorted(observed | changed | self._used_with(changed, ended)))

    def _used_with(self, changed: set[str], ended: set[tuple[str, str]]) -> set[str]:
        """The memories of every search that is counted otherwise than before."""
        found: set[str] = set()
        for row in self.db.all(
            f"select {EVENT_AT_HOME} from events where what = ? and payload != ''",
            (EventType.USED,),
        ):
            use = event_of(row)
            ids = use.payload["ids"]
            if use.id in changed or (use.workspace, use.payload.get("session")) in ended:
                found.update(ids)
        return found

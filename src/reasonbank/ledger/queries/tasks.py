"""Tasks: what each was given or would have been, and how it ended.

All of it is read from the log: that a memory was forgotten later, or cannot be seen from here,
changes nothing of who was given something, and so of who is compared with whom.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from reasonbank.ledger.events import EventType
from reasonbank.ledger.queries.base import COUNTS, OF_WORKSPACE, ORDER, Queries, texts
from reasonbank.model import JSON, Principal, Task, Told, View, from_micros

_OF_TASKS = frozenset({EventType.WITHHELD, EventType.ENDED, EventType.JUDGED})


@dataclass(slots=True)
class _Known:
    """What the log says of one task. Each of the last three is when and how it ended."""

    asked: int
    given: dict[str, None] = field(default_factory=dict)
    withheld: dict[str, None] | None = None
    drawn: float | None = None
    ended: tuple[int, bool] | None = None
    judged: tuple[int, bool] | None = None
    by_memory: tuple[int, bool] | None = None

    def take(self, what: str, principal: str, at: int, payload: JSON) -> None:
        """The next event, in the order of the log: of two who say the same, the later is right."""
        match what:
            case EventType.USED:
                if payload["ids"] and not self.given:
                    self.drawn = payload.get("drawn")
                self.given |= dict.fromkeys(payload["ids"])
            case EventType.WITHHELD:
                self.withheld = (self.withheld or {}) | dict.fromkeys(payload["ids"])
            case EventType.JUDGED:
                self.judged = at, payload["succeeded"]
            # Banks once said so themselves of tasks without memory, and of no others.
            case EventType.ENDED if principal != Principal.BANK:
                self.ended = at, payload["succeeded"]

    def task(self, session: str) -> Task:
        as_a_task = self.ended or self.judged
        end = as_a_task or self.by_memory
        held_out = self.withheld is not None
        # Of what was written before the draw was noted, it is not known. A task that was given
        # something before it was held out, under other settings, belongs to neither side.
        drawn = not self.given if held_out else self.drawn is None or self.drawn > 0
        return Task(
            session=session,
            held_out=held_out,
            drawn=drawn,
            told=Told.AS_A_TASK if as_a_task else Told.BY_MEMORY if end else Told.NOT,
            succeeded=end[1] if end else None,
            at=from_micros(end[0] if end else self.asked),
            memories=tuple(self.given if self.withheld is None else self.withheld),
        )


class TaskQueries(Queries):
    def tasks(self, view: View) -> list[Task]:
        """Every named task of the workspace that asked or ended, oldest first."""
        known: dict[str, _Known] = {}
        for what, subject, principal, at, told in self.db.all(
            "select what, subject, principal, at, payload from events"
            f" where (what in {texts(_OF_TASKS)}"
            f" or what = ? and {self.db.dialect.contains('payload', '?')})"
            f" and {OF_WORKSPACE} and {COUNTS} order by {ORDER}",
            (EventType.USED, '"session":"', view.workspace, view.workspace),
        ):
            payload = json.loads(told)
            session = payload.get("session") if what == EventType.USED else subject
            if session is not None:
                known.setdefault(session, _Known(at)).take(what, principal, at, payload)
        # One that only reported on single memories ended as most of these reports say.
        for session, succeeded, at in self.db.all(
            "select session, case when avg(positive) >= 0.5 then 1 else 0 end, max(at)"
            " from evidence where kind = 'outcome' and session is not null and workspace = ?"
            " group by session",
            (view.workspace,),
        ):
            known.setdefault(session, _Known(at)).by_memory = at, bool(succeeded)
        tasks = [each.task(session) for session, each in known.items()]
        return sorted(tasks, key=lambda task: (task.at, task.session))

    def judged(self, view: View, session: str) -> bool | None:
        row = self.db.one(
            f"select payload from events where subject = ? and what = ? and {OF_WORKSPACE}"
            f" and {COUNTS} order by counter desc, id desc limit 1",
            (session, EventType.JUDGED, view.workspace, view.workspace),
        )
        return None if row is None else bool(json.loads(row[0])["succeeded"])

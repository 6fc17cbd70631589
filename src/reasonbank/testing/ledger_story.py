"""Events as a bank writes them, and all that can be read of a ledger: for its contract."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reasonbank.ledger.events import Event, EventType, lesson
from reasonbank.ledger.port import Filter, Ledger, Writing
from reasonbank.model import Memory, Scope, State, View, new_id
from reasonbank.testing.builders import a_memory, a_trace, a_warning

HERE = View(workspace="here", team="team", org="org")
BESIDE = View(workspace="beside", team="team", org="org")
ELSEWHERE = View(workspace="elsewhere", team="another", org="org")
ABROAD = View(workspace="abroad", team="team", org="another")
NOWHERE = [
    View(workspace="", team="", org=""),
    View(workspace="", team="team", org="org"),
    View(workspace="here", team="", org="org"),
    View(workspace="here", team="team", org=""),
]
SECOND = 1_000_000
DAY = 86_400 * SECOND


class Story:
    """Events as a bank writes them, one a second; ``told`` are all of them so far."""

    def __init__(self, origin: str = "bank", start: int = 20_000 * DAY) -> None:
        self.told: list[Event] = []
        self._origin = origin
        self._times = itertools.count(start, SECOND)

    def __call__(
        self,
        type: EventType,
        subject: str,
        payload: dict[str, Any] | None = None,
        view: View = HERE,
    ) -> Event:
        at = next(self._times)
        event = Event(
            id=new_id(), type=type, subject=subject, workspace=view.workspace,
            at=at, counter=at, origin=self._origin, author="mika", surface="library",
            payload=payload or {},
        )  # fmt: skip
        self.told.append(event)
        return event

    def joined(self, view: View = HERE) -> Event:
        return self(EventType.JOINED, view.workspace, {"team": view.team, "org": view.org}, view)

    def recorded(self, memory: Memory, view: View = HERE) -> Event:
        return self(EventType.RECORDED, memory.id, {"lesson": lesson(memory), "stage": 0}, view)

    def observed(
        self, id: str, positive: bool, *, kind: str = "explicit", session: str, shared: bool = False
    ) -> Event:
        payload = {"kind": kind, "positive": positive, "session": session, "comment": None}
        return self(EventType.OBSERVED, id, payload | ({"shared": True} if shared else {}))

    def used(self, ids: Sequence[str], session: str, *, weak: Sequence[str] = ()) -> Event:
        vector = base64.b64encode(bytes(range(8))).decode()
        expected = dict.fromkeys(ids, 0.5)
        return self(
            EventType.USED,
            "",
            {"ids": [*ids], "session": session, "model": "m", "vector": vector,
             "expected": expected} | ({"weak": [*weak]} if weak else {}),
        )  # fmt: skip


def a_life() -> tuple[Story, list[Memory]]:
    """A bank in which everything happened that may come in, in any order, from another."""
    story = Story()
    memories = [
        a_memory(title="Retry the upload", tags=("network", "retry"), domain="web"),
        a_warning(title="Do not lock in any order", tags=("sql",)),
        a_memory(title="Close the file", scope=Scope.TEAM),
        a_memory(title="A mistake", content="the host is called swordfish, all lower case"),
    ]
    first, second, third, wrong = (memory.id for memory in memories)
    trace = a_trace(outcome=None, memories_used=(first,))
    story.joined()
    for memory in memories:
        story.recorded(memory)
    story(EventType.REVISED, first, {"changes": {"content": "Wait a little longer each time."}})
    story.used([first, second], "task 1")
    story.used([third, first], "task 2")
    story.used([first, second], "task 4", weak=[second])
    story.observed(first, True, session="task 1")
    story.observed(first, False, session="task 1")
    story.observed(second, True, kind="outcome", session="a trace", shared=True)
    story.observed(third, True, kind="outcome", session="task 2", shared=True)
    story.observed(third, False, kind="outcome", session="task 2", shared=True)
    story.observed(first, True, kind="outcome", session="task 2", shared=True)
    story.observed(first, False, kind="outcome", session="task 2")
    story(EventType.ENDED, "task 1", {"succeeded": True})
    story(EventType.WITHHELD, "task 3", {"ids": [second]})
    story(EventType.ENDED, "task 3", {"succeeded": False})
    story(EventType.ENDED, "task 4", {"succeeded": True})
    story(EventType.JUDGED, "task 4", {"succeeded": False})
    story(EventType.JUDGED, "task 2", {"succeeded": True})
    story(EventType.JUDGED, "task 2", {"succeeded": False})
    story(EventType.LINKED, first, {"target": second, "type": "contradicts", "strength": 0.5})
    story(EventType.LINKED, first, {"target": third, "type": "similar", "strength": 0.5})
    story(EventType.LINKED, first, {"target": third, "type": "similar", "strength": 0.9})
    story(EventType.LINKED, second, {"target": third, "type": "similar", "strength": 0.9})
    story(EventType.UNLINKED, second, {"target": third, "type": "similar"})
    story(EventType.ARCHIVED, second, {"reason": "stale"})
    story(EventType.RESTORED, second)
    story(EventType.ARCHIVED, third, {"reason": "stale"})
    story(EventType.TRACED, trace.id, {"trace": trace.to_json(), "at": 5})
    story(EventType.LEARNED, trace.id, {"ids": [first], "outcome": "failure", "by": "judge"})
    story(EventType.FORGOTTEN, wrong)
    story(EventType.NAMED, HERE.workspace, {"name": "project"})
    return story, memories


def told(ledger: Ledger, *events: Event) -> None:
    """Write events as the bank's own, each after the other."""

    def work(txn: Writing) -> None:
        for event in events:
            txn.append(event)

    ledger.write(work)


def everything(ledger: Ledger, view: View = HERE) -> dict[str, Any]:
    """All that can be read, without the numbers that depend on who came first."""
    reading = ledger.read()
    rows = reading.listed(view, Filter(states=tuple(State)), 1000)
    nums = {row.num: row.id for row in rows}
    among = reading.past_outcomes(np.array(sorted(nums), np.int64), view.workspace, "m", 8)
    statistics = reading.statistics(view)
    tallies = reading.tallies([*nums], view.workspace)
    return {
        "memories": sorted(row._replace(num=0, realm=0) for row in rows),
        "evidence": {id: reading.evidence(view, id) for id in nums.values()},
        "tallies": {nums[num]: tally for num, tally in tallies.items()},
        "occasions": sorted(
            zip([nums[num] for num in among.nums.tolist()], among.slots.tolist(),
                among.days.tolist(), among.shares.tolist(), strict=True)
        ),
        "track_record": reading.track_record(view.workspace),
        "authors": reading.authors(view),
        "tasks": [replace(task, memories=tuple(sorted(task.memories)))
                  for task in reading.tasks(view)],
        "links": {id: reading.links(view, id) for id in nums.values()},
        "traces": reading.traces(view, 10),
        "workspaces": reading.workspaces(),
        "words": {id for num in found(ledger, view, "upload", "lock", "file", "swordfish",
                                      states=tuple(State)) for id in [nums[num]]},
        "statistics": statistics | {"events": 0},
    }  # fmt: skip


def found(
    ledger: Ledger,
    view: View,
    *terms: str,
    limit: int = 10,
    among: Sequence[int] | None = None,
    **filter: Any,
) -> list[int]:
    rows = None if among is None else np.array(among, np.int64)
    nums, scores = ledger.read().words(view, Filter(**filter), terms, limit, rows)
    assert list(scores) == sorted(scores, reverse=True)
    return [int(num) for num in nums]


def num_of(ledger: Ledger, memory: Memory, view: View = HERE) -> int:
    row = ledger.read().row(view, memory.id)
    assert row is not None
    return row.num

"""The fold of a memory's events, without a ledger."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest

from reasonbank.errors import InvalidInput
from reasonbank.ledger.events import (
    CHANGES,
    END_OF_TIME,
    NOTES,
    Event,
    EventType,
    encode,
    evidence_key,
    lesson,
    memory_of,
    revisions,
    steps_back,
)
from reasonbank.model import (
    REVISABLE,
    ErrorContext,
    Memory,
    Outcome,
    Principal,
    Revision,
    Scope,
    Source,
    State,
)
from reasonbank.testing import a_memory, a_warning

MORNING = 1_767_225_600_000_000  # 2026-01-01
MINUTE = 60_000_000
FIRST = {"title": "A", "description": "when", "content": "do", "outcome": "success"}


def an_event(
    type: EventType, minute: int, payload: dict[str, Any] | None = None, **given: Any
) -> Event:
    known = {
        "id": f"event-{minute}",
        "subject": "memory-1",
        "workspace": "workspace-1",
        "origin": "bank-1",
        "author": f"author-{minute}",
        "surface": f"surface-{minute}",
        "counter": minute,
    }
    at = MORNING + minute * MINUTE
    return Event(type=type, at=at, payload=payload or {}, **known | given)


def recorded(minute: int = 0, lesson: dict[str, Any] = FIRST, **payload: Any) -> Event:
    return an_event(EventType.RECORDED, minute, {"lesson": lesson, **payload})


def revised(minute: int, **changes: Any) -> Event:
    return an_event(EventType.REVISED, minute, {"changes": changes})


def undone(minute: int, to: int | None = None) -> Event:
    return an_event(EventType.UNDONE, minute, {} if to is None else {"to": to})


def titles(*events: Event) -> list[str]:
    return [revision.memory.title for revision in revisions(events)]


# The fold


def test_a_recording_is_the_first_revision() -> None:
    assert revisions([recorded(3, stage=2, created_at=MORNING)]) == [
        Revision(
            number=1,
            change="recorded",
            at=datetime(2026, 1, 1, 0, 3, tzinfo=UTC),
            author="author-3",
            surface="surface-3",
            memory=Memory(
                id="memory-1",
                title="A",
                description="when",
                content="do",
                outcome=Outcome.SUCCESS,
                stage=2,
                workspace="workspace-1",
                author="author-3",
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
            ),
        )
    ]


def test_a_memory_was_created_when_it_was_recorded_at_stage_0_unless_it_says_otherwise() -> None:
    (first,) = revisions([recorded(7)])
    assert first.memory.created_at == datetime(2026, 1, 1, 0, 7, tzinfo=UTC)
    assert first.memory.stage == 0 and first.memory.state is State.ACTIVE


def test_a_revision_changes_what_it_names_and_says_who_did_it() -> None:
    _, second = revisions([recorded(), revised(5, title="B", tags=["x", "y"])])
    assert (second.number, second.change, second.memory.revision) == (2, "revised", 2)
    assert (second.author, second.surface) == ("author-5", "surface-5")
    assert (second.memory.title, second.memory.tags) == ("B", ("x", "y"))
    assert second.memory.content == "do"
    assert second.memory.author == "author-0", "whoever recorded it stays its author"


def test_a_revision_to_nothing_takes_a_field_away() -> None:
    last = revisions([recorded(), revised(1, domain="db"), revised(2, domain=None)])[-1]
    assert last.memory.domain is None


def test_an_archived_memory_says_what_it_was_merged_into_until_it_is_restored() -> None:
    merged = an_event(EventType.ARCHIVED, 1, {"merged_into": "memory-2"})
    states = [
        (revision.change, revision.memory.state, revision.memory.merged_into)
        for revision in revisions([recorded(), merged, an_event(EventType.RESTORED, 2)])
    ]
    assert states == [
        ("recorded", State.ACTIVE, None),
        ("archived", State.ARCHIVED, "memory-2"),
        ("restored", State.ACTIVE, None),
    ]


def test_a_revision_leaves_an_archived_memory_archived() -> None:
    merged = an_event(EventType.ARCHIVED, 1, {"merged_into": "memory-2"})
    last = revisions([recorded(), merged, revised(2, title="B")])[-1].memory
    assert (last.title, last.state, last.merged_into) == ("B", State.ARCHIVED, "memory-2")


def test_any_order_of_events_gives_the_same_history() -> None:
    events = [recorded(), revised(1, title="B"), undone(2), revised(3, title="C"), undone(4, to=2)]
    histories = [revisions(shuffled) for shuffled in permutations(events)]
    assert [revision.memory.title for revision in histories[0]] == ["A", "B", "A", "C", "B"]
    assert all(history == histories[0] for history in histories)


def test_the_counter_is_the_order_then_the_id_and_never_the_clock() -> None:
    def revision(title: str, counter: int, id: str, minute: int) -> Event:
        changes = {"changes": {"title": title}}
        return an_event(EventType.REVISED, minute, changes, counter=counter, id=id, origin="b")

    events = [revision("D", 2, "1", 1), revision("C", 1, "9", 5), revision("B", 1, "2", 9)]
    assert titles(*events, recorded()) == ["A", "B", "C", "D"]


def test_of_two_recordings_the_earlier_counts_and_what_came_between_stays() -> None:
    again = recorded(2, FIRST | {"title": "Z"})
    assert titles(again, revised(1, title="B"), recorded(), revised(3, tags=["x"])) == [
        "A",
        "B",
        "B",
    ]


def test_changes_whose_recording_is_not_here_wait_for_it() -> None:
    assert titles(revised(1, title="B")) == []
    assert titles(revised(1, title="early"), recorded(2), revised(3, title="B")) == ["A", "B"]


def test_events_that_change_no_memory_are_no_revisions() -> None:
    others = [an_event(type, 1) for type in EventType if type not in CHANGES]
    assert titles(recorded(), *others, revised(2, title="B")) == ["A", "B"]


# Undo


def test_each_undo_takes_back_one_change_and_the_first_version_stays() -> None:
    changes = [recorded(), revised(1, title="B"), revised(2, title="C")]
    assert titles(*changes, *map(undone, (3, 4, 5))) == ["A", "B", "C", "B", "A", "A"]


def test_a_change_after_an_undo_builds_on_what_the_undo_left() -> None:
    events = [recorded(), revised(1, title="B"), undone(2), revised(3, tags=["x"]), undone(4)]
    assert titles(*events) == ["A", "B", "A", "A", "A"]
    assert revisions(events)[3].memory.tags == ("x",)
    assert revisions(events)[4].memory.tags == ()


@pytest.mark.parametrize(("to", "title"), [(1, "A"), (2, "B"), (3, "C"), (0, "C"), (4, "C")])
def test_an_undo_can_name_the_revision_to_go_back_to(to: int, title: str) -> None:
    changes = [recorded(), revised(1, title="B"), revised(2, title="C")]
    assert titles(*changes, undone(3, to=to))[3:] == [title]


def test_going_back_to_a_revision_is_a_change_that_can_be_undone() -> None:
    changes = [recorded(), revised(1, title="B"), revised(2, title="C"), undone(3, to=1), undone(4)]
    assert titles(*changes) == ["A", "B", "C", "A", "C"]


def test_going_back_to_where_it_stands_is_a_change_too() -> None:
    events = [recorded(), revised(1, title="B"), undone(2, to=2), undone(3), undone(4)]
    assert titles(*events) == ["A", "B", "B", "B", "A"]


def test_what_can_be_undone_is_what_changed_and_was_not_taken_back() -> None:
    first, second = recorded(), revised(1, title="B")
    assert not steps_back([])
    assert not steps_back([first])
    assert steps_back([second, first])
    assert not steps_back([first, second, undone(2)])
    assert steps_back([first, second, undone(2), an_event(EventType.ARCHIVED, 3)])
    gone = replace(revised(2, title="C"), taken_back=True)
    assert steps_back([first, second, gone]) == 2, "what was taken back is stepped over"
    assert not steps_back([first, gone])


# An event and its JSON


def test_an_event_survives_json() -> None:
    event = revised(4, title="B", tags=["ä"])
    data = event.to_json()
    assert data == {
        "event": "memory.revised",
        "id": "event-4",
        "subject": "memory-1",
        "workspace": "workspace-1",
        "counter": 4,
        "at": MORNING + 4 * MINUTE,
        "origin": "bank-1",
        "author": "author-4",
        "principal": "agent",
        "surface": "surface-4",
        "payload": {"changes": {"title": "B", "tags": ["ä"]}},
    }
    assert Event.from_json(json.loads(encode(data))) == event
    sealed = replace(event, batch="batch-1").sealed(7, "before")
    assert Event.from_json(json.loads(encode(sealed.to_json()))) == sealed
    gone = replace(sealed, redacted=True, salt=None, payload={})
    assert gone.to_json()["payload"] is None
    assert Event.from_json(json.loads(encode(gone.to_json()))) == gone


def test_an_event_of_before_there_was_a_counter_is_ordered_by_its_time() -> None:
    old = {k: v for k, v in recorded(3).to_json().items() if k not in ("counter", "principal")}
    assert Event.from_json(old).counter == MORNING + 3 * MINUTE


# The chain


def test_a_link_tells_of_all_that_an_event_says() -> None:
    event = revised(1, title="B").sealed(5, "before")
    assert event.intact and event.counter == 5 and event.prev == "before"
    assert not replace(event, payload={"changes": {"title": "C"}}).intact
    assert replace(event, payload={}, salt=None, redacted=True).link == event.link
    changed = {"id": "x", "type": EventType.UNDONE, "subject": "x", "workspace": "x", "at": 1,
               "origin": "x", "author": "x", "surface": "x", "counter": 6, "batch": "x",
               "principal": Principal.PEER, "prev": "x", "digest": "x"}  # fmt: skip
    links = {replace(event, **{name: value}).link for name, value in changed.items()}
    assert len(links) == len(changed) and event.link not in links


def test_two_events_that_say_the_same_have_nothing_in_common() -> None:
    one, other = (revised(1, title="B").sealed(5, "before") for _ in range(2))
    assert one.salt != other.salt and one.digest != other.digest


@pytest.mark.parametrize("name", sorted(recorded().to_json().keys() - {"counter", "principal"}))
def test_an_event_that_lacks_something_is_refused_by_name(name: str) -> None:
    data = recorded().to_json()
    del data[name]
    with pytest.raises(InvalidInput) as refused:
        Event.from_json(data)
    assert str(refused.value) == f"{name}: is missing from an event"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("event", "memory.sold", "event: 'memory.sold' is unknown; a newer program may know it"),
        ("event", "x" * 100, f"event: {'x' * 80!r} is unknown; a newer program may know it"),
        *((name, 5, "event: its ids and names must be texts")
          for name in ("id", "subject", "workspace", "origin", "author", "surface")),
        *(("at", at, f"at: {at!r} is not a time in microseconds")
          for at in (-1, END_OF_TIME, 1.5, "5", True, None)),
        *(("counter", n, f"counter: {n!r} is not a whole number from 0 to 2^62")
          for n in (-1, 1 << 62, 1.5, "5", True, None)),
        ("principal", "cat", "principal: must be one of person, agent, model, import, peer, bank"
         " (got 'cat')"),
        ("salt", 5, "event: its ids and names must be texts"),
        ("payload", [], "payload: must be an object"),
    ],
)  # fmt: skip
def test_an_event_that_makes_no_sense_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Event.from_json(recorded().to_json() | {name: value})
    assert str(refused.value) == message


@pytest.mark.parametrize("at", [0, END_OF_TIME - 1])
def test_the_first_and_the_last_moment_are_times(at: int) -> None:
    assert Event.from_json(recorded().to_json() | {"at": at}).at == at


def test_the_log_is_compact_readable_and_strict() -> None:
    assert encode({"a": [1, "ä"], "b": None}) == '{"a":[1,"ä"],"b":null}'
    with pytest.raises(ValueError):
        encode({"a": float("nan")})


def test_notes_for_the_audit_are_no_changes_of_a_memory() -> None:
    assert not NOTES & CHANGES


# A lesson and its memory


def a_full_warning() -> Memory:
    return a_warning(
        parents=("p1", "p2"),
        tags=("t1", "t2"),
        difficulty="hard",
        domain="db",
        task_type="fix",
        agent="robot",
        scope=Scope.TEAM,
        source=Source.DISTILLED,
        source_session="s1",
        source_span=(3, 9),
    )


def test_a_lesson_of_the_log_is_the_memory_that_was_written() -> None:
    memory = a_full_warning()
    written = json.loads(encode(lesson(memory)))
    read = memory_of(written, id=memory.id)
    assert len(written) == 15
    assert read == memory
    assert (read.outcome, read.scope, read.source) == (
        Outcome.FAILURE,
        Scope.TEAM,
        Source.DISTILLED,
    )
    assert {type(read.outcome), type(read.scope), type(read.source)} == {Outcome, Scope, Source}


def test_a_lesson_keeps_only_what_was_said() -> None:
    memory = a_memory()
    assert lesson(memory).keys() == FIRST.keys() | {"scope", "source"}
    assert memory_of(json.loads(encode(lesson(memory))), id=memory.id) == memory


def test_an_error_context_keeps_what_was_said_of_the_error() -> None:
    memory = a_warning()
    assert isinstance(lesson(memory)["error_context"], dict)
    assert isinstance(memory_of(lesson(memory)).error_context, ErrorContext)


def test_where_a_lesson_comes_from_is_not_revised() -> None:
    unchanging = {"parents", "scope", "source", "source_session", "source_span"}
    assert lesson(a_full_warning()).keys() - set(REVISABLE) == unchanging


# Keys


def test_the_key_of_an_observation_is_fixed_since_ledgers_store_it() -> None:
    key = evidence_key("w", "m", "explicit", "r", "s")
    assert key == hashlib.sha256(b"w\0m\0explicit\0r\0s").digest()[:16]
    assert key != evidence_key("w", "m", "explicit", "rs", "")
    assert evidence_key("w", "m", "outcome", "r", "s") == evidence_key("w", "m", "outcome", "", "s")

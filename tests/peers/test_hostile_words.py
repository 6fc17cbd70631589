"""Nothing that a peer can sign, or send as the result of a task, stops a bank."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.peers.banks import Liar, Member
from tests.requirement import requirement

from reasonbank.ledger.events import EventType
from reasonbank.peers import membership, tasks, wire
from reasonbank.peers.merge import Taken
from reasonbank.peers.tasks import Tasks

DEEP = "[" * 5_000 + "]" * 5_000
LESSON = (
    '{"lesson": {"title": %s, "description": %s, "content": "c", "outcome": "success",'
    ' "scope": "team", "source": "explicit"}, "initial": 0.5, "stage": %s}'
)
HALF, NUL = r'"\ud800"', r'"a\u0000b"'
PAYLOADS = (
    "",
    "null",
    "[]",
    '"target',
    '["target"]',
    '{"target": {}}',
    '{"target": [1]}',
    '{"target": null}',
    "\0",
    DEEP,
    f'{{"target": {DEEP}}}',
    f'{{"lesson": {DEEP}}}',
    '{"lesson": {"title": NaN}}',
    "9" * 5000,
    "1e999",
    f'{{"changes": {{"content": {HALF}}}}}',
    f'{{"changes": {{"content": {NUL}, "tags": {DEEP}}}}}',
    f'{{"kind": "outcome", "positive": true, "session": {HALF}}}',
    f'{{"kind": "outcome", "positive": true, "session": {NUL}, "share": 1e300}}',
    f'{{"kind": "rating", "positive": true, "comment": {NUL}}}',
    '{"ids": [[]], "events": {}}',
    f'{{"events": [{HALF}, 1, null], "archived": [{{}}], "steps": 1}}',
    f'{{"kind": "merge", "events": [{NUL}], "archived": [{NUL}], "links": [], "created": null}}',
    '{"kind": "merge", "events": null, "archived": [], "links": [], "created": null}',
    '{"kind": "merge", "events": [], "archived": null, "links": null, "created": null}',
    '{"steps": [], "events": null}',
    LESSON % (HALF, NUL, 0),
    (LESSON % ('"t"', '"d"', 0)).replace('"c",', '"c", "tags": null, "parents": null,'),
    LESSON % (NUL, '"d"', "9e99"),
    LESSON % ('"t"', '"d"', 10**30),
    f'{{"path": {HALF}, "team": {HALF}, "org": {NUL}}}',
    f'{{"path": null, "team": "default", "org": {NUL}}}',
    '{"team": [], "org": {}, "path": 1}',
    f'{{"reason": {HALF}, "merged_into": {{}}}}',
    f'{{"type": "similar", "target": {NUL}, "strength": 7}}',
    f'{{"type": "similar", "target": {HALF}, "strength": 0.5}}',
)


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request, tmp_path):
    wanted = request.param == "postgres"
    member = Member(
        tmp_path, "anna", url=request.getfixturevalue("postgres_url") if wanted else None
    )
    yield member
    member.close()


def as_it_comes(segment):
    return wire.decode(wire.encode(segment))


@requirement("SEC-3", "BUS-5")
def test_whatever_a_peer_signs_the_next_honest_lesson_is_heard(bank):
    """Every payload in every kind of event, about what is there and what is not."""
    liar = Liar()
    id, lesson = liar.lesson()
    bank.logs.take(liar.says(liar.place(), lesson), liar.key)
    for type in EventType:
        told = [
            (type, subject, payload.encode(), {})
            for payload in PAYLOADS
            for subject in (id, "w", "no id at all")
        ]
        for first in range(0, len(told), 16):
            some = told[first : first + 16]
            taken = bank.logs.take(as_it_comes(liar.says(*some)), liar.key)
            assert (taken.new, taken.refused) == (len(some), None)
    bank.logs.take(liar.says(liar.lesson(lesson={"title": "The last word"})[1]), liar.key)
    assert "The last word" in bank.titles()
    assert "The last word" in [hit.memory.title for hit in bank.bank.search("the last word")]
    assert as_it_comes(bank.logs.segment(liar.log, 0))


@requirement("BUS-4")
def test_what_somebody_left_out_is_filled_in_by_its_owners_words_alone(bank):
    liar = Liar()
    whole = as_it_comes(liar.says(liar.place(), liar.lesson(lesson={"title": "Said"})[1]))
    bare, made_up = (
        structs.replace(whole, entries=[structs.replace(each, **said) for each in whole.entries])
        for said in ({"salt": None, "payload": None}, {"payload": b"{}"})
    )
    assert bank.logs.take(bare, liar.key).new == 2
    assert "another payload" in bank.logs.take(made_up, liar.key).refused
    assert bank.titles() == set()
    for _ in range(2):
        assert bank.logs.take(whole, liar.key) == Taken()
    assert bank.titles() == {"Said"}
    assert as_it_comes(bank.logs.segment(liar.log, 0)) == whole


@requirement("SEC-3")
@pytest.mark.parametrize(
    "field", ["id", "type", "subject", "workspace", "author", "principal", "surface"]
)
def test_a_name_that_no_database_keeps_is_no_frame(field):
    liar = Liar()
    segment = liar.says(liar.place())
    odd = structs.replace(segment.entries[0], **{field: "a\0b"})
    with pytest.raises(wire.BadFrame):
        as_it_comes(structs.replace(segment, entries=[odd]))


@requirement("SEC-3")
@pytest.mark.parametrize("load", [float("inf"), float("nan"), -1.0])
def test_a_load_that_is_no_number_to_show_is_no_frame(load):
    with pytest.raises(wire.BadFrame):
        as_it_comes(wire.Status("liar", "1", 0, load, 0))


@requirement("SEC-3")
def test_whatever_comes_back_as_a_result_is_refused_in_a_word(bank):
    here, worker = Tasks(bank.bank.context, takes=False), Liar("worker")
    invited = membership.invite(
        bank.bank.context, address="127.0.0.1:1", channels=["team:local/default"], spend=10**9
    )
    token = membership.read(invited.invitation).token
    peer = membership.admit(bank.bank.context, worker.key, "worker", token)
    steps = '{"trajectory": [{"iteration": %s, "action": %s, "content": %s}], "outcome": "success"}'
    for payload in (*PAYLOADS, f'{{"trajectory": {DEEP}}}', steps % (0, HALF, NUL),
                    steps % (10**30, '"a"', '"b"'), steps % ("NaN", '"a"', "[]")):  # fmt: skip
        made = tasks.offer(bank.bank.context, "Task", most=1)
        here.heard(peer, wire.Take(made.id))
        try:
            here.heard(peer, wire.Result(made.id, payload.encode(), 1))
        except wire.BadFrame:
            pass  # Whoever sends it is cut off.
    made = tasks.offer(bank.bank.context, "The last one", most=1)
    here.heard(peer, wire.Take(made.id))
    here.heard(peer, wire.Result(made.id, b'{"trajectory": []}', 1))
    assert "The last one" in {trace.task for trace in bank.bank.traces()}

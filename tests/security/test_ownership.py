"""To see is not to change: a memory is changed from the workspace that owns it."""

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, a_token, command, serving

from reasonbank import Bank, Forbidden, Scope
from reasonbank.testing import a_memory

CHANGES = {
    "update": lambda bank, id: bank.update(id, title="Mine now"),
    "archive": lambda bank, id: bank.archive(id),
    "undo": lambda bank, id: bank.undo(id),
    "restore": lambda bank, id: bank.restore(id),
    "forget": lambda bank, id: bank.forget(id),
    "link": lambda bank, id: bank.link(id, bank.record(a_memory()).id, type="similar"),
    "unlink": lambda bank, id: bank.unlink(id, bank.record(a_memory()).id, type="similar"),
}


@pytest.fixture
def shared(open_bank):
    here = open_bank(workspace=open_bank.project("here"))
    return here, here.within(open_bank.project("there")), here.record(a_memory(scope=Scope.TEAM))


@requirement("SEC-6")
@pytest.mark.parametrize("verb", CHANGES)
def test_who_sees_a_shared_memory_cannot_change_it(shared, verb):
    here, there, memory = shared
    assert there.get(memory.id).title == memory.title
    with pytest.raises(Forbidden, match="belongs to workspace"):
        CHANGES[verb](there, memory.id)
    assert here.get(memory.id) == memory and here.links(memory.id) == []
    admin = Bank(there.context.seen_by(whole=True))
    if verb in ("update", "archive", "forget"):
        CHANGES[verb](admin, memory.id)


@requirement("SEC-6")
def test_what_others_observe_counts_with_them_alone(shared, open_bank):
    here, there, memory = shared
    third = here.within(open_bank.project("third"))
    for session in range(20):
        there.outcome(memory.id, succeeded=False, session=f"theirs {session}")
    there.feedback(memory.id, helpful=False, comment="useless here")
    assert there.get(memory.id).confidence < 0.5
    for bank in (here, third):
        assert bank.get(memory.id).confidence == memory.confidence
        assert bank.evidence(memory.id) == []
    for bank in (here, third):
        (hit,) = bank.search(memory.title).hits
        assert hit.memory.confidence == memory.confidence
    assert len(there.evidence(memory.id)) == 21
    assert [hit.memory.id for hit in there.search(memory.title, min_confidence=0.0).hits]
    here.feedback(memory.id, helpful=True)
    assert there.get(memory.id).confidence < here.get(memory.id).confidence


def test_an_own_opinion_is_the_same_for_one_and_for_many(shared):
    _, there, memory = shared
    there.feedback(memory.id, helpful=False)
    known = there.get(memory.id).confidence
    (hit,) = there.search(memory.title, min_confidence=0.0).hits
    assert hit.memory.confidence == known != memory.confidence


@requirement("SEC-6")
def test_a_token_of_one_project_changes_nothing_of_another(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    code, memory = command(
        tmp_path, "--workspace", here, "record", "--title", "Ours", "--description", "d",
        "--content", "c", "--outcome", "success", "--scope", "team",
    )  # fmt: skip
    assert code == 0, memory
    command(tmp_path, "--workspace", here, "feedback", memory["id"], "--helpful",
            "--comment", "a remark of ours")  # fmt: skip
    token = a_token(tmp_path, "write", "--workspace", str(there))
    sharer = a_token(tmp_path, "write", "--workspace", str(there), "--may", "share-team")
    path = f"/memories/{memory['id']}"
    with serving(tmp_path) as server:

        def ask(method, where, with_=token, **content):
            return server.ask(method, where, with_, **content)

        assert ask("GET", path).status_code == 200
        for method, where, content in (
            ("PATCH", path, {"json": {"title": "Mine"}}),
            ("POST", f"{path}/archive", {"json": {"reason": "so"}}),
            ("DELETE", path, {}),
            ("POST", f"{path}/undo", {"json": {}}),
        ):
            answer = ask(method, where, **content)
            assert answer.status_code == 403, (method, where, answer.text)
        told = ask("GET", f"{path}/evidence").text
        assert "a remark of ours" not in told and "tester" not in told
        for scope in ("team", "org"):
            answer = ask("POST", "/memories", json=LESSON | {"scope": scope})
            assert answer.status_code == 403 and f"--may share-{scope}" in answer.text
        assert ask("POST", "/memories", sharer, json=LESSON | {"scope": "team"}).status_code == 201
        answer = ask("POST", "/memories", sharer, json=LESSON | {"scope": "org"})
        assert answer.status_code == 403
        rated = ask("POST", f"{path}/feedback", json={"helpful": False})
        assert rated.status_code == 200, rated.text
    _, shown = command(tmp_path, "--workspace", here, "show", memory["id"])
    assert shown["title"] == "Ours" and [e["positive"] for e in shown["evidence"]] == [True]

"""Other banks over the JSON API: who is told of them, and who has a say."""

import subprocess
import sys

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import a_token, environment, serving
from tests.surfaces.joined_banks import TITLE, joined
from tests.surfaces.test_page import Browser, new_code

LIBRARIES = ("biscuit_auth", "msgspec", "nacl", "qh3")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with joined(tmp_path_factory.mktemp("joined")) as pair:
        yield pair


@pytest.fixture
def person(pair):
    return owner_of(pair.server)


def owner_of(server):
    browser = Browser(server)
    assert browser.sign_in(code=new_code(server)).json()["person"]
    return browser.client


def test_who_this_bank_is_and_whom_it_learns_from_is_told(pair):
    told = pair.server.ask("GET", "/peers").json()
    assert told["missing"] is None
    assert told["own"]["key"] == pair.run("peer", "id")["key"]
    assert told["own"]["channels"] == ["team:local/default"]
    [peer] = told["peers"]
    assert (peer["name"], peer["key"], peer["state"]) == ("bob", pair.key, "on probation")
    assert peer["channels"] == ["team:local/default"] and peer["seen_at"] >= peer["added_at"]
    assert peer["entries"] == peer["brought"] > 0 and peer["waiting"] == 1
    [listed] = pair.run("peer", "list")
    assert listed["added_at"] == peer["added_at"]
    assert told["invitations"] == told["offers"] == []


def test_an_invitation_that_nobody_took_and_a_task_that_is_offered_are_listed(pair):
    pair.run("peer", "invite", "--name", "carla", "--no-wait")
    pair.run("peer", "offer", "Tidy the changelog", "--most", "0.5")
    told = pair.server.ask("GET", "/peers").json()
    assert [invitation["name"] for invitation in told["invitations"]] == ["carla"]
    assert pair.run("peer", "status")["invitations"] == told["invitations"]
    [offer] = told["offers"]
    assert (offer["task"], offer["ours"], offer["peer"]) == ("Tidy the changelog", True, None)
    assert (offer["state"], offer["most"], offer["spent"]) == ("open", 0.5, 0.0)


def test_an_open_invitation_is_taken_back_by_a_person_alone(pair, person):
    pair.run("peer", "invite", "--name", "dora", "--no-wait")
    told = pair.server.ask("GET", "/peers").json()["invitations"]
    [id] = [each["id"] for each in told if each["name"] == "dora"]
    assert pair.server.ask("POST", f"/peers/{id}/revoke", json={}).status_code == 403
    answer = person.post(f"/peers/{id}/revoke", json={})
    assert answer.json()["invitation"] == id and answer.json()["peer"] is None
    told = pair.server.ask("GET", "/peers").json()["invitations"]
    assert id not in {each["id"] for each in told}


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
def test_who_is_bound_to_a_workspace_is_told_of_no_peer(pair, scope):
    bound = a_token(pair.server.folder, scope, "--workspace", str(pair.server.folder))
    refused = pair.server.ask("GET", "/peers", bound)
    assert refused.status_code == 403 and pair.key not in refused.text
    for act, body in (("trust", {"trusted": True}), ("revoke", {})):
        answer = pair.server.ask("POST", f"/peers/bob/{act}", bound, json=body)
        assert answer.status_code == 403 and pair.key not in answer.text
    assert pair.peer()["state"] == "on probation"


def test_a_read_only_token_is_told_of_no_peer(pair):
    reader = a_token(pair.server.folder, "read")
    assert pair.server.ask("GET", "/peers", reader).status_code == 403


@pytest.mark.parametrize(("act", "body"), [
    ("trust", {"trusted": True}), ("trust", {"trusted": False}), ("revoke", {}),
    ("revoke", {"revert": True}), ("revoke", {"revert": True, "dry_run": True}),
])  # fmt: skip
def test_no_token_says_which_banks_belong_together(pair, act, body):
    answer = pair.server.ask("POST", f"/peers/bob/{act}", json=body)
    assert answer.status_code == 403 and "only a person" in answer.json()["message"]
    assert pair.peer()["state"] == "on probation"


def test_a_bank_that_nobody_knows_is_not_found(person):
    for name in ("carol", "0" * 64):
        assert person.post(f"/peers/{name}/revoke", json={}).status_code == 404


@requirement("SEC-1")
def test_what_a_peer_brought_names_it_in_the_review_and_where_it_came_from(pair):
    [waits] = pair.server.ask("GET", "/review").json()
    assert (waits["title"], waits["peer"]) == (TITLE, "bob")
    assert waits["hand"] == pair.peer()["hand"] == f"peer:{pair.key[:16]}"
    origin = pair.server.ask("GET", f"/memories/{waits['id']}/origin").json()
    assert origin["peer"] == "bob" and origin["author"] == f"ben@{pair.key[:16]}"
    shown = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "review"], cwd=pair.server.folder,
        env=environment(pair.server.folder, COLUMNS="120"), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert "peer:bob" in shown and pair.key[:16] not in shown


def test_the_review_can_be_of_one_hand_alone(pair):
    hand = pair.peer()["hand"]
    lesson = {"title": "Mine", "description": "When", "content": "Do", "outcome": "success"}
    id = pair.server.ask("POST", "/memories", json=lesson).json()["id"]
    asked = [pair.server.ask("GET", "/review", params={"hand": of}).json()
             for of in (hand, "peer:0000000000000000")]  # fmt: skip
    assert [[one["title"] for one in found] for found in asked] == [[TITLE], []]
    assert len(pair.server.ask("GET", "/review").json()) == 2
    pair.server.ask("DELETE", f"/memories/{id}", params={"confirm": True})


@requirement("SEC-1")
def test_a_person_trusts_a_bank_and_cuts_it_off_with_all_that_it_brought(tmp_path):
    with joined(tmp_path, "Pin images", "Close the month in UTC") as pair:
        person, key = owner_of(pair.server), pair.key
        done = person.post(f"/peers/{key}/trust", json={"trusted": True}).json()
        assert done == {"peer": "bob", "key": key, "trusted": True, "accepted": 2}
        assert (pair.peer()["state"], pair.peer()["waiting"]) == ("trusted", 0)
        [one, _] = known = pair.server.ask("GET", "/memories").json()
        assert {memory["standing"] for memory in known} == {"confirmed"}
        assert pair.server.ask("GET", f"/memories/{one['id']}/origin").json()["peer"] == "bob"
        done = person.post(f"/peers/{key}/trust", json={"trusted": False}).json()
        assert (done["trusted"], pair.peer()["state"]) == (False, "on probation")

        wanted = {"revert": True, "dry_run": True}
        plan = person.post(f"/peers/{key}/revoke", json=wanted).json()["reverted"]
        assert {*plan["archived"]} == {memory["id"] for memory in known} and plan["dry_run"]
        assert len(pair.server.ask("GET", "/memories").json()) == 2
        assert pair.peer()["state"] == "on probation"

        done = person.post(f"/peers/{key}/revoke", json={"revert": True}).json()
        assert {*done["reverted"]["archived"]} == {*plan["archived"]}
        assert pair.server.ask("GET", "/memories").json() == []
        assert pair.peer()["state"] == "cut off"
        assert person.post(f"/peers/{key}/trust", json={"trusted": True}).status_code == 400
        person.post(f"/batches/{done['reverted']['batch']}/undo", json={})
        assert len(pair.server.ask("GET", "/memories").json()) == 2


def test_without_its_libraries_the_list_says_so_and_all_else_works(tmp_path):
    # As Python finds it before the program begins.
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({LIBRARIES}))\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    with serving(tmp_path / "bank", PYTHONPATH=tmp_path) as server:
        told = server.ask("GET", "/peers").json()
        assert told["missing"].startswith("the bus is not installed (biscuit_auth is missing)")
        assert told["own"] is None and told["peers"] == told["invitations"] == told["offers"] == []
        for path in ("/review", "/overview", "/memories", "/about"):
            assert server.ask("GET", path).status_code == 200, path
        refused = owner_of(server).post("/peers/bob/trust", json={"trusted": True})
        assert refused.status_code == 409 and "pip install" in refused.json()["message"]


def test_a_project_of_another_bank_is_known_and_is_no_place_to_look_from(pair):
    [there] = [place["id"] for place in pair.server.ask("GET", "/workspaces").json()
               if place["path"] is None]  # fmt: skip
    assert pair.server.ask("GET", "/memories", workspace=there).status_code == 200
    shown = Browser(pair.server)
    offered = shown.sign_in(code=new_code(pair.server)).json()["workspaces"]
    assert there not in {place["id"] for place in offered}

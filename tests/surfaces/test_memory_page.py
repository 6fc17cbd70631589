"""The page of a memory: its genealogy drawn, contradictions side by side, to whoever may see it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, NONE, a_token, serving

from reasonbank.model import Genealogy
from reasonbank.surfaces.show import memory_page
from reasonbank.surfaces.show.memory_page import _Address, _drawing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NOWHERE = "01a1deb8-eb17-7a28-8580-67c9d49c0613"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page")) as server:
        yield server


@pytest.fixture
def record(server, tmp_path):
    with server.client(workspace=tmp_path) as client:

        def record(title, *parents, **fields):
            told = LESSON | {"title": title, "parents": list(parents)} | fields
            return client.post("/memories", json=told).json()["id"]

        record.client = client
        yield record


def shown(server, id, workspace):
    return server.get(f"/memory/{id}", params={"workspace": str(workspace)})


def boxes(text):
    return re.findall(r"<title>(.*?)</title><rect", text)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_draws_all_ancestors_and_descendants(server, record, tmp_path):
    old = [record(f"Ancestor {number}") for number in range(2)]
    parent = record("Parent", *old)
    one = record("The memory", parent)
    record("Grandchild", record("Child", one))
    address = f"{server.address}/memory/{one}?workspace={tmp_path}#token={server.token}"
    dom = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         "--virtual-time-budget=20000",
         f"--user-data-dir={tmp_path}/browser", address],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    kin = ["Ancestor 0", "Ancestor 1", "Parent", "The memory", "Child", "Grandchild"]
    assert sorted(boxes(dom)) == sorted(kin)
    assert dom.count("<path") == 5
    assert dom.count('class="self"') == 1


@requirement("GEN-2")
def test_all_ancestors_and_descendants_are_drawn(server, record, tmp_path):
    one = record("The memory", record("Parent", record("Ancestor")))
    record("Grandchild", record("Child", one))
    page = shown(server, one, tmp_path).text
    assert boxes(page) == ["Ancestor", "Parent", "The memory", "Child", "Grandchild"]
    assert page.count("<path") == 4


@requirement("GEN-2")
def test_parents_stand_above_their_children_and_lead_to_their_own_pages(server, record, tmp_path):
    parent = record("Parent")
    child = record("Child", parent)
    page = shown(server, child, tmp_path).text
    above, below = (int(y) for y in re.findall(r'<rect[^>]* y="(\d+)"', page))
    assert boxes(page) == ["Parent", "Child"] and above < below
    address = re.search(r'href="(/memory/[^"]*)"><title>Parent', page)[1].replace("&amp;", "&")
    assert boxes(server.get(address).text) == ["Parent", "Child"]


@requirement("GEN-2")
def test_a_ring_is_drawn_once():
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    kin = Genealogy(id="a", stage=0, ancestors=("c", "b"), descendants=("b", "c"),
                    edges=tuple(ring), memories={"a": "A", "b": "B", "c": "C"})  # fmt: skip
    drawn = _drawing(kin, _Address(None))
    assert sorted(boxes(drawn)) == ["A", "B", "C"] and drawn.count("<path") == 3


def test_of_very_many_the_nearest_are_drawn_and_the_rest_is_counted():
    ids = [f"m{number}" for number in range(500)]
    kin = Genealogy(id="a", stage=0, ancestors=tuple(ids), descendants=(),
                    edges=tuple((id, "a") for id in ids), memories={})  # fmt: skip
    drawn = _drawing(kin, _Address(None))
    assert len(boxes(drawn)) <= memory_page.MOST_DRAWN
    assert f"{501 - len(boxes(drawn))} more are not drawn" in drawn


@requirement("GEN-4")
def test_both_sides_of_a_contradiction_stand_beside_each_other(server, record, tmp_path):
    one, other = record("Always retry"), record("Never retry", content="It makes matters worse.")
    link = {"source": one, "target": other, "type": "contradicts", "strength": 0.9}
    assert record.client.post("/links", json=link).status_code < 300
    sides = re.search(r'<div class="sides">(.*?)</div>', shown(server, one, tmp_path).text, re.S)[1]
    assert sides.count("<article>") == 2
    assert "Always retry" in sides and "It makes matters worse." in sides


def test_stored_text_cannot_become_a_part_of_the_page(server, record, tmp_path):
    nasty = '</title><script>alert(1)</script>"><img src=x onerror=alert(1)>'
    id = record(nasty, record(nasty), content=nasty, description=nasty, tags=["<b>"])
    page = shown(server, id, tmp_path)
    assert "<script>alert" not in page.text and page.text.count("<script") == 1
    assert "<img" not in page.text and "<b>" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    assert "<img" not in server.get("/").text


def test_a_memory_of_another_workspace_is_not_shown(server, record, tmp_path):
    id = record("Mine alone")
    elsewhere = shown(server, id, tmp_path.parent / "elsewhere")
    assert elsewhere.status_code == 404 and "Mine alone" not in elsewhere.text


@pytest.mark.parametrize(("id", "status"), [("nonsense", 400), (NOWHERE, 404), ("", 400)])
def test_what_is_not_there_is_said_so(server, id, status):
    assert server.get(f"/memory/{id}").status_code == status


def test_where_tokens_are_a_memory_is_shown_to_whoever_has_one(tmp_path):
    token = a_token(tmp_path, "read")
    with serving(tmp_path) as server:
        assert server.get(f"/memory/{NOWHERE}", NONE).status_code == 401
        allowed = server.get(f"/memory/{NOWHERE}", headers={"Authorization": f"Bearer {token}"})
        assert allowed.status_code == 404
        assert "Newest memories" not in server.get("/", NONE).text


def test_the_start_page_leads_to_the_newest_memories(tmp_path):
    with serving(tmp_path) as server, server.client(workspace=tmp_path) as client:
        id = client.post("/memories", json=LESSON).json()["id"]
        assert f'<a href="/memory/{id}">Retry uploads</a>' in server.get("/").text


def test_the_report_is_a_page_and_json_of_the_workspace(server, record, tmp_path):
    record("Retry <uploads>")
    for number, succeeded in enumerate((True, False)):
        session = f"report {number}"
        record.client.post("/search", json={"query": LESSON["description"], "session": session})
        record.client.post(f"/sessions/{session}/outcome", json={"succeeded": succeeded})
    found = record.client.get("/report").json()
    assert found["tasks"] == 2 and found["calibration"]["count"] == 2
    assert found["memory"]["difference"] is None
    page = server.get("/report", params={"workspace": str(tmp_path)})
    assert page.headers["content-type"].startswith("text/html")
    assert "2 tasks ended" in page.text and "<circle" in page.text
    assert "0 tasks ended" in server.get("/report").text


def test_the_report_page_is_for_those_who_may_read(tmp_path):
    token = a_token(tmp_path, "read")
    with serving(tmp_path) as server:
        assert server.get("/report", NONE).status_code == 401
        allowed = {"Authorization": f"Bearer {token}"}
        assert server.get("/report", headers=allowed).status_code == 200

"""One memory: its evidence, its history, its kin, and all that can be done with it."""

import re

from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import command
from tests.web.conftest import HERE


def recorded(world, title):
    memory = {"title": title, "description": "When a test needs one", "content": "First words.",
              "outcome": "success"}  # fmt: skip
    answer = world.server.ask("POST", "/memories", json=memory)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@requirement("WEB-1")
def test_belief_is_drawn_over_time_with_its_evidence(tab, world):
    page = tab().open(f"/memory/{world.ids['m15']}")
    chart = page.get_by_role("img", name=re.compile("Confidence over"))
    expect(chart).to_be_visible()
    told = world.server.ask("GET", f"/memories/{world.ids['m15']}/belief").json()
    assert chart.locator("title").count() == len(told["evidence"]) > 3
    expect(page.get_by_role("region", name="Trust")).to_contain_text("Nine times of ten between")
    expect(page.get_by_role("region", name="Why")).to_contain_text("succeeded with it")


@requirement("SEC-1")
def test_what_an_agent_wrote_in_a_persons_name_says_so(tab, world):
    at = (world.folder / HERE, "--bank", world.url)
    told = command(*at, "remember", "Warm the cache before the nightly build.", CLAUDECODE="1")[1]
    page = tab().open(f"/memory/{told['id']}")
    origin = page.get_by_role("region", name="Where it came from")
    expect(origin).to_contain_text("Written byan agent")
    told = command(*at, "remember", "Cool the oven after the weekly build.")[1]
    page.goto(page.url.rsplit("/", 1)[0] + f"/{told['id']}")
    expect(origin).to_contain_text("Written bya person")


@requirement("WEB-1")
def test_rating_moves_confidence(tab, world):
    id = recorded(world, "Rate me")
    page = tab().open(f"/memory/{id}")
    page.keyboard.press("+")
    expect(page.get_by_role("status").filter(has_text="Thanks")).to_be_visible()
    expect(page.get_by_role("region", name="Why")).to_contain_text("Rated helpful 1×")
    page.get_by_role("button", name="It did not").click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("not helpful 1×")


@requirement("WEB-1")
def test_an_edit_shows_what_changed_and_can_be_undone(tab, world):
    id = recorded(world, "Edit me")
    page = tab().open(f"/memory/{id}")
    page.keyboard.press("e")
    form = page.get_by_role("dialog")
    form.get_by_label("The lesson").fill("First words, then more.")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".lesson")).to_contain_text("then more")
    expect(page.locator(".diff ins").first).to_contain_text("more")
    page.locator("main").focus()
    page.keyboard.press("u")
    expect(page.locator(".lesson")).not_to_contain_text("then more")
    page.get_by_role("button", name="Return to r2").click()
    expect(page.locator(".lesson")).to_contain_text("then more")


@requirement("WEB-1")
def test_a_memory_is_archived_and_restored(tab, world):
    id = recorded(world, "Shelve me")
    page = tab().open(f"/memory/{id}")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    assert world.server.ask("GET", f"/memories/{id}").json()["state"] == "archived"
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("button", name="Archive")).to_be_visible()
    assert world.server.ask("GET", f"/memories/{id}").json()["state"] == "active"


@requirement("WEB-1")
def test_forgetting_asks_and_says_what_goes(tab, world):
    id = recorded(world, "Forget me")
    page = tab().open(f"/memory/{id}")
    page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Goes: its text, 1 revision")
    dialog.get_by_role("button", name="Cancel").click()
    assert world.server.ask("GET", f"/memories/{id}").status_code == 200
    page.get_by_role("button", name="Forget…").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget for good").click()
    expect(page.get_by_role("heading", name=re.compile("Your agents know"))).to_be_visible()
    assert world.server.ask("GET", f"/memories/{id}").status_code == 410


@requirement("WEB-1")
def test_kin_can_be_walked_and_rivals_stand_side_by_side(tab, world):
    page = tab().open(f"/memory/{world.ids['m15']}")
    rivals = page.get_by_role("region", name="Rivals")
    expect(rivals.locator("article")).to_have_count(2)
    expect(rivals).to_contain_text("says the opposite", ignore_case=True)
    graph = page.get_by_role("region", name="Genealogy")
    graph.locator("a.node").filter(has_text="Find leaked sessions").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("before enlarging any pool")
    page.get_by_role("region", name="Genealogy").locator("a.node").filter(
        has_text="Find the leaked session"
    ).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Find the leaked session")

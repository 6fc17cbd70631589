"""What waits for a person: answered one by one or together, from the keyboard, and taken back."""

import re

from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving
from tests.web.conftest import entrance


def doubted(world, title):
    """A lesson that failed whenever it was tried."""
    memory = {"title": title, "description": f"When {title}", "content": "It never helps.",
              "outcome": "success"}  # fmt: skip
    id = world.server.ask("POST", "/memories", json=memory).json()["id"]
    world.run("review", "accept", id)
    for number in range(6):
        told = {"succeeded": False, "session": f"{title} {number}"}
        assert world.server.ask("POST", f"/memories/{id}/outcome", json=told).status_code == 200
    return id


def state(world, id):
    return world.server.ask("GET", f"/memories/{id}").json()["state"]


@requirement("WEB-1")
def test_an_answer_goes_to_all_that_are_selected_and_can_be_undone(tab, world):
    ids = [doubted(world, f"Doubt {name}") for name in ("one", "two")]
    page = tab().open("/review?tab=flagged")
    for name in ("one", "two"):
        page.get_by_label(f"Select Doubt {name}").check()
    expect(page.get_by_text("2 selected: the answer goes to all")).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("r")
    expect(page.get_by_role("status").filter(has_text="Undo with u")).to_be_visible()
    assert [state(world, id) for id in ids] == ["archived", "archived"]
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert [state(world, id) for id in ids] == ["active", "active"]


@requirement("WEB-1", "SEC-1")
def test_what_only_a_person_answers_stays_when_a_token_answers_for_all_that_is_selected(tab, world):
    token = world.token("write", "--name", "helper")
    told = {"title": "Written by helper", "description": "When helped", "content": "Ask first.",
            "outcome": "success"}  # fmt: skip
    mine = world.server.ask("POST", "/memories", token=token, json=told).json()["id"]
    other = world.ids["m14"]
    doubtful = "Increase the pool size when connections run out"
    page = tab(token).open("/review")
    for title in ("Written by helper", doubtful):
        page.get_by_label(f"Select {title}").check()
    page.locator("main").focus()
    page.keyboard.press("r")
    expect(page.get_by_role("status").filter(has_text="Rejected. Undo with u")).to_be_visible()
    assert [state(world, id) for id in (mine, other)] == ["active", "archived"]
    expect(page.get_by_label(f"Select {doubtful}")).to_have_count(0)
    expect(page.get_by_label("Select Written by helper")).to_have_count(1)
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()


@requirement("WEB-1")
def test_the_queue_is_walked_edited_and_answered_from_the_keyboard(tab, world):
    id = doubted(world, "Doubt three")
    page = tab().open("/review?tab=flagged")
    rows = page.locator(".pick .t")
    place = rows.all_inner_texts().index("Doubt three")
    page.locator("main").focus()
    for _ in range(place):
        page.keyboard.press("j")
    expect(page.locator(".pane h2")).to_have_text("Doubt three")
    page.keyboard.press("e")
    form = page.get_by_role("dialog")
    form.get_by_label("Title").fill("Doubt three, put right")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".pane h2")).to_have_text("Doubt three, put right")
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="Accepted")).to_be_visible()
    assert state(world, id) == "active"


@requirement("WEB-1")
def test_a_revert_shows_what_would_happen_before_it_does(tab, world):
    token = world.token("write", "--name", "rogue")
    told = {"title": "Rogue advice", "description": "When a rogue writes", "content": "Do harm.",
            "outcome": "success"}  # fmt: skip
    id = world.server.ask("POST", "/memories", token=token, json=told).json()["id"]
    page = tab().open("/review")
    held = []
    page.route("**/api/v1/batches*", lambda route: held.append(route))
    with page.expect_request("**/api/v1/batches*"):
        page.get_by_role("button", name="Revert a batch…").click()
    form = page.get_by_role("dialog")
    expect(form).to_be_visible()  # With a large import among them, these take long to list.
    for route in held:
        route.continue_()
    expect(form.locator("#imports option")).to_have_text(re.compile("^3 memories"))
    expect(form.locator("#sessions option").first).to_be_attached()
    form.get_by_label("Author").select_option("rogue")
    form.get_by_role("button", name="Show what would happen").click()
    plan = page.get_by_role("dialog").filter(has_text="Would archive 1 memory")
    expect(plan).to_contain_text("Rogue advice")
    assert state(world, id) == "active"
    plan.get_by_role("button", name="Revert 1 memory").click()
    expect(page.get_by_role("status").filter(has_text="Reverted")).to_be_visible()
    assert state(world, id) == "archived"
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert state(world, id) == "active"


def on_probation(server, titles):
    """What an agent wrote, through the API."""
    with server.client() as client:
        return [
            client.post("/memories", json={"title": title, "description": f"When {title}",
                                           "content": "Look first.", "outcome": "success"}
                        ).json()["id"]
            for title in titles
        ]  # fmt: skip


@requirement("WEB-1", "SEC-1")
def test_more_than_a_list_holds_is_answered_to_the_end(browser, tmp_path):
    page = browser.new_page()
    with serving(tmp_path / "project") as server:
        on_probation(server, [f"Number {number}" for number in range(203)])
        page.goto(entrance(server))
        page.get_by_role("link", name="Review").click()
        expect(page.get_by_role("navigation", name="Kinds")).to_contain_text("Probation200+")
        page.keyboard.press("X")
        expect(page.get_by_text("200 selected: the answer goes to all")).to_be_visible()
        page.keyboard.press("r")
        expect(page.locator(".pick")).to_have_count(3)
        page.get_by_label("Select all 3").check()
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()
        assert len(server.ask("GET", "/memories", params={"limit": 1000}).json()) == 3
    page.close()


@requirement("WEB-1")
def test_what_is_selected_and_read_stays_so_while_others_write_much(browser, tmp_path):
    page = browser.new_page()
    with serving(tmp_path / "project") as server:
        ids = on_probation(server, [f"Number {number}" for number in range(124)])
        page.goto(entrance(server))
        page.get_by_role("link", name="Review").click()
        expect(page.locator(".pick")).to_have_count(124)
        page.get_by_label("Select Number 1", exact=True).check()
        page.get_by_role("button", name="Number 2", exact=True).click()
        # More than is told one by one: the list is asked for anew.
        code, told = command(server.folder, "review", "reject", *ids[4:])
        assert code == 0, told
        expect(page.locator(".pick")).to_have_count(4)
        expect(page.get_by_label("Select Number 1", exact=True)).to_be_checked()
        expect(page.locator(".pane h2")).to_have_text("Number 2")
        expect(page.get_by_text("1 selected: the answer goes to all")).to_be_visible()
        page.get_by_role("button", name="Accept").click()
        titles = page.locator(".pick .t")
        expect(titles).to_have_text(["Number 3", "Number 2", "Number 0"])
    page.close()


@requirement("WEB-1")
def test_the_number_beside_review_is_how_many_it_lists(tab):
    page = tab().open("/review")
    expect(page.locator(".pick .mark", has_text="Doubted").first).to_be_attached()
    listed = page.get_by_label("Kinds").get_by_role("link", name="All").locator("span")
    expect(page.locator("#count-review")).to_have_text(f"{listed.inner_text()} waiting")


@requirement("WEB-1")
def test_what_was_answered_elsewhere_leaves_the_list(browser, tmp_path):
    page = browser.new_page()
    with serving(tmp_path / "project") as server:
        first, second, third = on_probation(server, ["One", "Two", "Three"])
        page.goto(entrance(server))
        page.get_by_role("link", name="Review").click()
        expect(page.locator(".pick")).to_have_count(3)
        page.get_by_label("Select Two").check()
        expect(page.get_by_label("Select Two")).to_be_focused()
        server.ask("POST", f"/memories/{first}/archive")
        expect(page.locator(".pick .t")).to_have_text(["Three", "Two"])
        server.ask("DELETE", f"/memories/{third}", params={"confirm": "true"})
        expect(page.locator(".pick .t")).to_have_text(["Two"])
        server.ask("PATCH", f"/memories/{second}", json={"title": "Two, put right"})
        expect(page.locator(".pane h2")).to_have_text("Two, put right")
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_role("heading", name="Nothing waits for you.")).to_be_visible()
    page.close()


@requirement("WEB-1", "CON-9")
def test_what_others_shall_know_waits_for_a_persons_word(browser, tmp_path):
    """Which is what it lacks, where one hand alone works in all projects."""
    page = browser.new_page()
    bank = f"sqlite:///{tmp_path / 'bank.db'}"
    lessons = ("When a charge times out, send the idempotency key again.",
               "Before a release, tag the commit that the image was built from.")  # fmt: skip
    for name in ("shop", "bakery"):
        (tmp_path / name / ".git").mkdir(parents=True)
        for lesson in lessons:
            code, told = command(tmp_path / name, "--bank", bank, "remember", lesson)
            assert code == 0, told
    with serving(tmp_path / "shop", "--bank", bank) as server:
        page.goto(entrance(server, "--bank", bank))
        page.get_by_role("link", name="Review").click()
        page.get_by_role("link", name="Proposals").click()
        rows = page.locator(".pick .t")
        expect(rows).to_have_count(2)
        expect(page.locator(".pane .note")).to_contain_text("share it with the team?")
        shared = page.locator(".pane h2").inner_text()
        page.locator("main").focus()
        page.keyboard.press("a")
        expect(rows).to_have_count(1)
        expect(page.get_by_role("status").filter(has_text="Accepted. Undo with u")).to_be_visible()
        page.get_by_role("button", name="Do not share").click()
        expect(page.get_by_role("heading", name="The bank proposes nothing.")).to_be_visible()
        known = server.ask("GET", "/memories", params={"limit": 100}).json()
        assert [each["title"] for each in known if each["scope"] == "team"] == [shared]
        page.reload()
        expect(page.get_by_role("heading", name="The bank proposes nothing.")).to_be_visible()

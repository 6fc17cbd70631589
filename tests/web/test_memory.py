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
    expect(page.get_by_role("region", name="Trust")).to_contain_text("Nine times out of ten")
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
def test_an_edit_changes_nothing_that_was_left_alone(tab, world):
    told = {"title": "Two\nlines", "description": "When one\nand two", "content": "First.\r\nThen.",
            "outcome": "failure", "tags": ["one, two"],
            "error_context": {"error_type": "Two\nlines", "failure_pattern": "one\ntwo",
                              "corrective_guidance": "three\nfour"}}  # fmt: skip
    made = world.server.ask("POST", "/memories", json=told).json()
    page = tab().open(f"/memory/{made['id']}")
    page.keyboard.press("e")
    form = page.get_by_role("dialog")
    form.get_by_label("What fails").fill("one\nthree")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".lesson .said")).to_contain_text("three")
    expect(page.locator(".diff")).to_have_text(re.compile("^what fails: one\ntwothree$"))
    now = world.server.ask("GET", f"/memories/{made['id']}").json()
    made["error_context"]["failure_pattern"] = "one\nthree"
    for name in told:
        assert now[name] == made[name], name


@requirement("WEB-1")
def test_a_warning_that_is_recorded_here_says_what_fails_and_what_to_do_instead(tab, world):
    page = tab().open("/")
    page.locator("main").focus()
    page.keyboard.press("n")
    form = page.get_by_role("dialog")
    form.get_by_label("Title").fill("Do not warn by half")
    form.get_by_label("When it applies").fill("When a warning is written")
    form.get_by_label("The lesson").fill("It was not found by its error.")
    expect(form.get_by_label("What fails")).to_be_hidden()
    form.locator("[name=outcome]").select_option("failure")
    form.get_by_label("Kind of error").fill("HalfWarning")
    form.get_by_label("What fails").fill("only the title is written")
    form.get_by_role("button", name="Record it").click()
    expect(form.locator("textarea:invalid")).to_have_attribute("name", "corrective_guidance")
    form.get_by_label("What to do instead").fill("Name the error.")
    form.get_by_role("button", name="Record it").click()
    expect(page.locator(".lesson .said")).to_contain_text("HalfWarning: only the title is written")
    page.keyboard.press("e")
    expect(form.get_by_label("What to do instead")).to_have_value("Name the error.")
    for label in ("Kind of error", "What fails", "What to do instead"):
        form.get_by_label(label).fill("")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".lesson .said")).to_have_count(0)


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


@requirement("WEB-1")
def test_a_double_click_rates_once(tab, world):
    id = recorded(world, "Rate me once")
    page = tab().open(f"/memory/{id}")
    page.get_by_role("button", name="It helped").dblclick()
    expect(page.get_by_role("region", name="Why")).to_contain_text("Rated helpful 1×")
    page.get_by_role("button", name="It did not").click()
    expect(page.get_by_role("region", name="Why")).to_contain_text(
        "Rated helpful 1×, rated not helpful 1×"
    )


@requirement("WEB-1")
def test_undoing_an_edit_leaves_alone_what_others_wrote_since(tab, world):
    id = recorded(world, "Edit me together")
    page = tab().open(f"/memory/{id}")
    page.keyboard.press("e")
    form = page.get_by_role("dialog")
    form.get_by_label("The lesson").fill("Mine.")
    form.get_by_role("button", name="Save").click()
    expect(page.locator(".lesson")).to_contain_text("Mine.")
    world.server.ask("PATCH", f"/memories/{id}", json={"description": "Theirs."})
    expect(page.locator(".lesson")).to_contain_text("Theirs.")
    page.locator("main").focus()
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="changed again since")).to_be_visible()
    assert world.server.ask("GET", f"/memories/{id}").json()["description"] == "Theirs."


@requirement("WEB-1")
def test_of_many_revisions_the_newest_are_drawn_and_any_can_be_returned_to(tab, world):
    id = recorded(world, "Edit me often")
    for number in range(2, 31):
        told = {"content": f"Words of revision {number}."}
        world.server.ask("PATCH", f"/memories/{id}", json=told)
    page = tab().open(f"/memory/{id}")
    history = page.get_by_role("region", name="History")
    expect(history.locator(".rev > li")).to_have_count(10)
    history.get_by_role("button", name="Show 20 older revisions").click()
    expect(history.locator(".rev > li")).to_have_count(30)
    history.get_by_role("button", name="Return to r3").click()
    expect(page.locator(".lesson")).to_contain_text("Words of revision 3.")


@requirement("WEB-1", "GEN-2", "GEN-4")
def test_what_is_not_drawn_of_its_kin_and_rivals_is_named(tab, world):
    parents = [recorded(world, f"Forebear {number}") for number in range(9)]
    told = {"title": "Child of many", "description": "When many meet", "content": "It is one.",
            "outcome": "success", "parents": parents}  # fmt: skip
    child = world.server.ask("POST", "/memories", json=told).json()["id"]
    for other in parents[:7]:
        link = {"source": child, "target": other, "type": "contradicts"}
        assert world.server.ask("POST", "/links", json=link).status_code == 201
    page = tab().open(f"/memory/{child}")
    kin = page.get_by_role("region", name="Genealogy")
    expect(kin.locator("a.node")).to_have_count(4)
    kin.get_by_text("5 more", exact=True).click()
    expect(kin.locator("li a")).to_have_count(5)
    rivals = page.get_by_role("region", name="Rivals")
    rivals.get_by_text("2 more rivals").click()
    rivals.locator("li a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Forebear")


@requirement("WEB-1")
def test_the_belief_in_a_new_memory_is_drawn_over_minutes(tab, world):
    page = tab().open(f"/memory/{recorded(world, 'Just born')}")
    chart = page.get_by_role("img", name=re.compile("Confidence over"))
    region = page.get_by_role("region", name="Belief over time")
    expect(region).to_contain_text("nothing has spoken for it or against it yet")
    expect(chart).to_be_visible()  # It is drawn once there is a width to draw it at.
    texts = chart.locator("text")
    times = [text for text in texts.all_text_contents() if re.fullmatch("[0-9]{2}:[0-9]{2}", text)]
    assert len(times) == len(set(times)) == 5

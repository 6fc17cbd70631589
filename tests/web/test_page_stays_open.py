"""A page that stays open: what it hears of codes, of tokens that end, of a server that goes."""

import json
import re
import signal

import pytest
from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving
from tests.web.conftest import entrance

HIDE = """
Object.defineProperty(document, "hidden", {get: () => window.away === true});
window.look = (there) => {
  window.away = !there;
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
LIVE = "Live, changes appear"
FETCHED = "name => performance.getEntriesByType('resource').some((one) => one.name.endsWith(name))"
EVENTS = "**/api/v1/events*"


def lesson(title, **more):
    return {"title": title, "description": f"When {title.lower()}", "content": "Look first.",
            "outcome": "success"} | more  # fmt: skip


@pytest.fixture
def small(tmp_path):
    """A server over a bank of its own, whose one lesson a person wrote."""
    with serving(tmp_path / "project") as server:
        assert server.ask("POST", "/memories", json=lesson("The first")).status_code == 201
        yield server


@pytest.fixture
def page(browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


@requirement("WEB-1")
def test_a_code_lets_in_where_the_page_is_open_already(page, small):
    page.goto(small.address + "/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    code = entrance(small).partition("#")[2]
    # As a browser does with an address that differs in nothing else: it loads nothing.
    page.evaluate("code => { location.hash = code }", code)
    expect(page.get_by_role("heading", name="Your agents know 1 lesson")).to_be_visible()
    assert "code" not in page.url


@requirement("WEB-1")
def test_whose_token_is_revoked_comes_to_the_door(page, small):
    made = small.ask("POST", "/tokens", json={"scope": "write", "name": "guest"}).json()
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(small.address)
    page.get_by_label("paste a token").fill(made["token"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text(LIVE)).to_be_visible()
    assert small.ask("DELETE", f"/tokens/{made['id']}").status_code == 200
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("signed out")
    assert said == []


@requirement("WEB-1")
def test_more_tabs_than_a_browser_has_lines_to_a_server_all_work(browser, small):
    context = browser.new_context()
    context.add_init_script(HIDE)
    tabs = [context.new_page()]
    tabs[0].goto(entrance(small))
    expect(tabs[0].get_by_text(LIVE)).to_be_visible()
    for _ in range(7):
        tabs[-1].evaluate("look(false)")
        tabs[-1].wait_for_timeout(1100)
        tabs.append(context.new_page())
        tabs[-1].goto(small.address + "/work", timeout=10_000)
        expect(tabs[-1].get_by_role("heading", name="Work", exact=True)).to_be_visible()
    # Who comes back has missed nothing.
    assert small.ask("POST", "/memories", json=lesson("The second")).status_code == 201
    tabs[0].evaluate("look(true)")
    expect(tabs[0].get_by_role("button", name="1 new")).to_be_visible()
    context.close()


@requirement("WEB-1")
def test_a_view_that_could_not_be_shown_comes_with_the_server(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.wait_for_function(FETCHED, arg="/views/learning.js")
    port = small.port
    small.stop()
    page.get_by_role("link", name="Learning").click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(page.get_by_role("alert")).to_contain_text("reasonbank serve")
    with serving(small.folder, "--port", port):
        expect(page.get_by_text("No task has said how it went yet")).to_be_visible(timeout=30_000)


@requirement("WEB-1")
def test_a_key_that_is_held_down_rates_once(page, small):
    id = small.ask("GET", "/memories").json()[0]["id"]
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.goto(f"{small.address}/memory/{id}")
    expect(page.get_by_role("button", name="It helped")).to_be_visible()
    for _ in range(5):
        page.keyboard.down("+")
    page.keyboard.up("+")
    page.keyboard.press("-")
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("rated not helpful 1×")
    expect(why).to_contain_text("Rated helpful 1×")


@requirement("WEB-1")
@pytest.mark.parametrize("path", ["/memory/%E0%A4%A", "/memory/", "/memory"])
def test_an_address_that_was_cut_off_shows_a_page(page, small, path):
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.goto(small.address + path)
    expect(page.get_by_role("link", name="Review")).to_be_visible()
    expect(page.locator("main h1, main h2").first).to_be_visible()
    assert said == []


@requirement("WEB-1")
def test_an_address_of_a_workspace_out_of_reach_says_what_is_shown(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.goto(small.address + "/search?workspace=ffffffffffffffff")
    told = page.get_by_role("status").filter(has_text="Nothing is known in the workspace")
    expect(told).to_contain_text("This is project")


@requirement("WEB-1")
def test_many_changes_at_once_leave_who_types_alone_and_are_counted(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.get_by_label("Ask what is known").press_sequentially("loo")
    lines = "".join(json.dumps(lesson(f"Case {number}")) + "\n" for number in range(150))
    assert small.ask("POST", "/import", content=lines).status_code == 200
    expect(page.get_by_role("heading", name=re.compile("know 151 lessons"))).to_be_visible()
    expect(page.get_by_role("link", name="Review")).to_contain_text("99+")
    expect(page.get_by_label("Ask what is known")).to_be_focused()
    page.keyboard.type("k")
    expect(page.get_by_label("Ask what is known")).to_have_value("look")


@requirement("WEB-1")
def test_what_is_drawn_anew_leaves_the_focus_where_it_was(page, small):
    id = small.ask("GET", "/memories").json()[0]["id"]
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.goto(f"{small.address}/memory/{id}")
    page.get_by_role("button", name="Edit").focus()
    small.ask("POST", f"/memories/{id}/feedback", json={"helpful": True})
    expect(page.get_by_role("region", name="Why")).to_contain_text("Rated helpful 1×")
    expect(page.get_by_role("button", name="Edit")).to_be_focused()


@requirement("WEB-1")
def test_learning_and_settings_say_that_there_is_something_new(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.get_by_role("link", name="Learning").click()
    expect(page.get_by_text("No task has said how it went yet")).to_be_visible()
    small.ask("POST", "/search", json={"query": "the first", "session": "one"})
    small.ask("POST", "/sessions/one/outcome", json={"succeeded": True})
    page.get_by_role("button", name="More tasks have ended: count again").click()
    expect(page.get_by_text("1 task ended")).to_be_visible()
    compared = page.get_by_role("region", name="With and without")
    expect(compared).to_contain_text("1 from when no task went without on purpose")
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    small.ask("POST", "/tokens", json={"scope": "read", "name": "watcher"})
    page.get_by_role("button", name="Something was written since").click()
    expect(page.get_by_role("button", name="Revoke watcher")).to_be_visible()


@requirement("WEB-1")
def test_settings_call_new_what_is_not_shown_yet_and_no_more(page, small):
    def told(seq, what):
        change = json.dumps({"seq": seq, "what": what})
        body = f"event: hello\ndata: {{}}\n\nevent: change\nid: {seq}\ndata: {change}\n\n"
        page.unroute_all()
        page.route(EVENTS, lambda route: route.fulfill(body=body, content_type="text/event-stream"))
        page.goto(small.address + "/settings")
        expect(page.get_by_role("heading", name="Audit")).to_be_visible()
        # By then all of it was heard.
        expect(page.get_by_text("Not connected, trying again")).to_be_visible()
        return page.get_by_role("button", name="Something was written since")

    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    last = small.ask("GET", "/audit").json()[0]["seq"]
    expect(told(last, "workspace.renamed")).to_have_count(0)
    expect(told(last + 99, "memory.used")).to_have_count(0)
    expect(told(last + 99, "token.created")).to_have_count(1)


@requirement("WEB-1", "SEC-5")
def test_settings_lead_back_to_the_first_change_and_put_a_project_into_a_team(page, small):
    for number in range(30):
        small.ask("POST", "/memories", json=lesson(f"Number {number}"))
    page.goto(entrance(small))
    expect(page.get_by_role("heading", name="Your agents know 31 lessons")).to_be_visible()
    small.ask("POST", "/memories", json=lesson("The last"))
    page.get_by_role("link", name="Settings").click()
    places = page.get_by_role("region", name="Workspaces")
    expect(places.get_by_role("row", name="project")).to_contain_text("32")
    audit = page.get_by_role("region", name="Audit")
    expect(audit.locator("tbody tr")).to_have_count(25)
    audit.get_by_role("button", name="Show older changes").click()
    expect(audit.get_by_role("link", name="The first")).to_be_visible()
    expect(audit.get_by_role("button", name="Show older changes")).to_have_count(0)
    places.get_by_role("button", name="Team of project").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Team").fill("payments")
    form.get_by_role("button", name="Save").click()
    expect(places.get_by_role("row", name="project")).to_contain_text("payments")


@requirement("WEB-1")
def test_a_session_outlives_a_server_that_was_killed(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    port = small.port
    small.stop(signal.SIGKILL)
    expect(page.get_by_text("Not connected, trying again")).to_be_visible()
    with serving(small.folder, "--port", port) as again:
        expect(page.get_by_text(LIVE)).to_be_visible(timeout=30_000)
        assert again.ask("POST", "/memories", json=lesson("The second")).status_code == 201
        expect(page.get_by_role("button", name="1 new")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="know 2 lessons")).to_be_visible()


@requirement("WEB-1")
def test_the_first_lesson_of_all_appears_by_itself(page, tmp_path):
    with serving(tmp_path / "project") as server:
        page.goto(entrance(server))
        expect(page.get_by_text("know nothing here yet")).to_be_visible()
        expect(page.get_by_text(LIVE)).to_be_visible()
        expect(page.locator("#toast")).to_be_empty()
        assert server.ask("POST", "/memories", json=lesson("The first")).status_code == 201
        expect(page.get_by_role("heading", name="Your agents know 1 lesson")).to_be_visible()


@requirement("WEB-1")
def test_what_was_asked_while_the_server_was_away_is_answered_when_it_is_back(page, small):
    page.goto(entrance(small))
    expect(page.get_by_text(LIVE)).to_be_visible()
    port = small.port
    small.stop()
    page.get_by_label("Ask what is known").fill("the first")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    with serving(small.folder, "--port", port):
        expect(page.locator(".hit").first).to_contain_text("The first", timeout=30_000)
        expect(page.get_by_label("Ask what is known")).to_have_value("the first")


@requirement("WEB-1")
def test_projects_that_begin_later_are_in_the_chooser(page, tmp_path):
    def learns(name):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True)
        code, told = command(folder, "--bank", bank, "remember", f"A lesson of {name}.")
        assert code == 0, told

    bank = f"sqlite:///{tmp_path / 'bank.db'}"
    # As somebody serves who has not begun anywhere yet.
    with serving(tmp_path / "home", "--bank", bank) as server:
        page.goto(entrance(server, "--bank", bank))
        expect(page.get_by_text("know nothing here yet")).to_be_visible()
        expect(page.get_by_text(LIVE)).to_be_visible()
        learns("shop")
        expect(page.get_by_role("heading", name="Your agents know 1 lesson")).to_be_visible()
        places = page.get_by_label("Workspace").locator("option")
        expect(places).to_have_text(["shop"])
        learns("bakery")
        expect(places).to_have_text(["bakery", "shop"])
        expect(page.get_by_label("Workspace").locator("option:checked")).to_have_text("shop")
        page.get_by_label("Workspace").select_option(label="bakery")
        expect(page.locator(".hit").first).to_contain_text("A lesson of bakery")


@requirement("WEB-1")
def test_a_narrow_page_says_that_the_server_is_away_and_lets_one_sign_out(page, small):
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(entrance(small))
    expect(page.get_by_role("heading", name="Your agents know 1 lesson")).to_be_visible()
    page.goto(small.address + "/settings")
    expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    # The view that one is in is named in full, also when there are numbers beside others.
    expect(page.locator("#count-review")).to_be_visible()
    expect(page.locator("#nav [aria-current]")).to_be_in_viewport(ratio=0.9)
    edge = "document.querySelector('#nav [aria-current]').getBoundingClientRect().right"
    assert page.evaluate(edge) < 395
    port = small.port
    small.stop()
    expect(page.get_by_text("Not connected, trying again")).to_be_visible()
    with serving(small.folder, "--port", port):
        expect(page.locator("#live")).to_be_hidden(timeout=30_000)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

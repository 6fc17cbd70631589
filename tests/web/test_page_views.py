"""Every view, for everybody, wide and narrow, light and dark: nothing breaks, all can be read."""

import json

import pytest
from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import serving
from tests.web.conftest import HERE, entrance

VIEWS = ("/", "/search?q=pool+exhausted", "/memory/{m15}", "/review", "/learning", "/sessions",
         "/work", "/agents", "/peers", "/settings")  # fmt: skip
SERIOUS = ("serious", "critical")


def token_for(world, who):
    if who == "owner":
        return ""
    if who == "reader":
        return world.token("read", "--workspace", str(world.folder / HERE))
    return world.token("write", "--workspace", str(world.folder / "infra"))


def paths(world, who):
    for path in VIEWS:
        if who != "stranger" or "{" not in path:
            yield path.format(**world.ids)


def complaints(page, axe):
    """What axe-core finds that keeps somebody out."""
    page.evaluate(axe)  # Not a script of the page: its policy would refuse that.
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


@requirement("WEB-1")
@pytest.mark.parametrize("who", ["owner", "reader", "stranger"])
def test_every_view_can_be_read_by_everybody(tab, world, axe, who):
    seen = tab(token_for(world, who))
    found = {}
    for path in paths(world, who):
        page = seen.open(path)
        expect(page.locator("main h1").first).to_be_visible()
        expect(page.get_by_text("could not be shown")).to_have_count(0)
        found[path] = complaints(page, axe)
    assert not any(found.values()), json.dumps(found, indent=1)


@requirement("WEB-1")
def test_the_dark_page_can_be_read_as_well(tab, world, axe):
    seen = tab(color_scheme="dark")
    found = {path: complaints(seen.open(path), axe) for path in paths(world, "owner")}
    assert not any(found.values()), json.dumps(found, indent=1)


@requirement("WEB-1")
def test_nothing_sticks_out_on_a_narrow_screen(tab, world, axe):
    seen = tab(viewport={"width": 400, "height": 800})
    wide, found = {}, {}
    for path in paths(world, "owner"):
        page = seen.open(path)
        wide[path] = page.evaluate("document.documentElement.scrollWidth")
        found[path] = complaints(page, axe)
    assert set(wide.values()) == {400}, wide
    assert not any(found.values()), json.dumps(found, indent=1)


@requirement("WEB-1")
def test_all_of_it_comes_from_the_server_and_no_code_stands_in_the_page(tab, world):
    seen = tab()
    asked = []
    seen.page.on("request", lambda request: asked.append(request.url))
    for path in paths(world, "owner"):
        seen.open(path)
        assert seen.page.locator("[style], script:not([src])").count() == 0, path
    assert asked and all(url.startswith(seen.address) for url in asked)


@requirement("WEB-1")
def test_the_theme_is_switched_and_remembered(tab):
    seen = tab(color_scheme="light")
    page = seen.open("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(250, 250, 249)"
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(ground) == "rgb(15, 17, 20)"
    seen.open("/work")
    assert page.evaluate(ground) == "rgb(15, 17, 20)"


@requirement("WEB-1")
def test_the_page_is_used_from_the_keyboard(tab):
    seen = tab()
    page = seen.open("/learning")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.get_by_role("heading", name="Work", exact=True)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    expect(page.get_by_label("Ask what is known")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("heading", name="Work", exact=True)).to_be_visible()


@requirement("WEB-1")
def test_a_question_to_an_empty_bank_can_be_read_by_everybody(browser, axe, tmp_path):
    page = browser.new_page()
    with serving(tmp_path / "project") as server:
        page.goto(entrance(server))
        expect(page.get_by_text("know nothing here yet")).to_be_visible()
        page.goto(server.address + "/search?q=pool+exhausted")
        expect(page.get_by_role("heading", name="Nothing is known about this yet")).to_be_visible()
        assert complaints(page, axe) == []
        page.goto(server.address + "/settings")
        expect(page.get_by_role("region", name="Workspaces")).to_contain_text("None yet")
    page.close()

"""Several look and write at once, and the server goes and comes back."""

import re

from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving
from tests.web.conftest import HERE, entrance


@requirement("WEB-1")
def test_what_is_new_waits_for_the_reader(tab, world):
    page = tab().open("/")
    world.run("remember", "Drain the zinc queue before the copper one, or both stall.")
    expect(page.get_by_role("button", name=re.compile("^[0-9]+ new$"))).to_be_visible()
    expect(page.locator(".hit").first).not_to_contain_text("zinc")
    page.get_by_role("button", name=re.compile("^[0-9]+ new$")).click()
    expect(page.locator(".hit").filter(has_text="zinc").first).to_be_visible()


@requirement("WEB-1")
def test_what_is_written_before_the_stream_is_there_is_told_all_the_same(tab, world):
    opened, held = tab(), []
    opened.page.route("**/api/v1/events*", lambda route: held.append(route))
    page = opened.open("/")
    world.run("remember", "Seal the tungsten crate before it is weighed, or it drifts.")
    expect(page.get_by_text("Connecting…")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_text("Live, changes appear")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^[0-9]+ new$"))).to_be_visible()


@requirement("WEB-1")
def test_what_is_written_while_a_view_is_made_is_told_to_it(tab, world):
    opened, held = tab(), []
    page = opened.open("/work")
    expect(page.locator("#count-review")).to_be_visible()  # The next number is of what comes.
    page.route("**/api/v1/browse*", lambda route: held.append(route))
    with page.expect_request("**/api/v1/browse*"):
        page.get_by_role("link", name="Search").click()
    with page.expect_response("**/api/v1/review*"):  # The numbers at the side follow the stream.
        world.run("remember", "Oil the bismuth hinge before winter, or it squeaks.")
    for route in held:
        route.continue_()
    expect(page.get_by_role("button", name=re.compile("^[0-9]+ new$"))).to_be_visible()


@requirement("WEB-1")
def test_it_is_live_for_whoever_reaches_several_projects_and_not_the_servers_own(tab, world):
    reached = [part for name in ("infra", "web-checkout")
               for part in ("--workspace", str(world.folder / name))]  # fmt: skip
    seen = tab(world.token("write", *reached))
    page = seen.open("/")
    page.get_by_label("Workspace").select_option(label="infra")
    expect(page.get_by_text("Live, changes appear")).to_be_visible()
    infra = page.get_by_label("Workspace").input_value()
    seen.open(f"/?workspace={infra}")
    expect(page.get_by_text("Live, changes appear")).to_be_visible()
    lesson = "Grease the cadmium gear before it is turned, or it screams."
    code, told = command(world.folder / "infra", "--bank", world.url, "remember", lesson)
    assert code == 0, told
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    with page.expect_request(
        lambda asked: "/events?workspace=" in asked.url and infra not in asked.url
    ):
        page.get_by_label("Workspace").select_option(label="web-checkout")


@requirement("WEB-1")
def test_two_tabs_and_a_command_show_the_same_in_the_end(tab, world):
    memory = {"title": "Three hands", "description": "When three write", "content": "At first.",
              "outcome": "success"}  # fmt: skip
    id = world.server.ask("POST", "/memories", json=memory).json()["id"]
    one, two = tab().open(f"/memory/{id}"), tab().open(f"/memory/{id}")
    one.keyboard.press("+")
    expect(two.get_by_role("region", name="Why")).to_contain_text("Rated helpful 1×")
    two.keyboard.press("e")
    form = two.get_by_role("dialog")
    form.get_by_label("The lesson").fill("By the second tab.")
    form.get_by_role("button", name="Save").click()
    expect(one.locator(".lesson")).to_contain_text("By the second tab.")
    world.run("update", id, "--title", "Three hands, by a command")
    for page in (one, two):
        expect(page.get_by_role("heading", level=1)).to_have_text("Three hands, by a command")
        expect(page.locator(".lesson")).to_contain_text("By the second tab.")


@requirement("WEB-1")
def test_an_open_page_outlives_a_restart_of_the_server(browser, world, tmp_path):
    context = browser.new_context()
    page = context.new_page()
    folder = tmp_path / HERE
    bank = f"sqlite:///{tmp_path / 'own.db'}"
    with serving(folder, "--bank", bank) as server:
        port = server.port
        page.goto(entrance(server, "--bank", bank))
        expect(page.get_by_text("know nothing here yet")).to_be_visible()
        expect(page.get_by_text("Live, changes appear")).to_be_visible()
        server.stop()
        expect(page.get_by_text("Not connected, trying again")).to_be_visible()
    with serving(folder, "--bank", bank, "--port", port):
        expect(page.get_by_text("Live, changes appear")).to_be_visible(timeout=30_000)
        page.get_by_role("link", name="Work").click()
        expect(page.get_by_role("heading", name="Work", exact=True)).to_be_visible()
    context.close()

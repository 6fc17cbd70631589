"""Who comes in, how, and what is offered to whom."""

import re

from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving
from tests.web.conftest import HERE, entrance

KNOWN = re.compile("Your agents know")


@requirement("WEB-1")
def test_the_printed_address_lets_its_owner_in_once(browser, world):
    address = entrance(world.server, "--bank", world.url)
    assert "#code=" in address
    first, second = browser.new_context(), browser.new_context()
    page = first.new_page()
    page.goto(address)
    expect(page.get_by_role("heading", name=KNOWN)).to_be_visible()
    assert "code" not in page.url
    late = second.new_page()
    late.goto(address)
    expect(late.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(late.get_by_role("alert")).not_to_be_empty()
    first.close()
    second.close()


@requirement("WEB-1")
def test_a_pasted_token_lets_in_and_a_wrong_one_is_told_why_not(browser, world):
    context = browser.new_context()
    page = context.new_page()
    page.goto(world.server.address + "/review")
    page.get_by_label("paste a token").fill("rbk_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    page.get_by_label("paste a token").fill(world.token("write"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Review", exact=True)).to_be_visible()
    assert page.evaluate("document.cookie") == ""  # No script can read it.
    context.close()


@requirement("WEB-1")
def test_who_signs_out_is_out(browser, world):
    context = browser.new_context()
    page = context.new_page()
    page.goto(entrance(world.server, "--bank", world.url))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()


@requirement("WEB-1")
def test_what_a_token_may_not_do_is_not_offered(tab, world):
    reader = tab(world.token("read", "--workspace", str(world.folder / HERE)))
    page = reader.open(f"/memory/{world.ids['m15']}")
    for name in ("It helped", "It did not", "Edit", "Archive", "Forget…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    reader.open("/review")
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)
    expect(page.get_by_role("button", name="Revert a batch…")).to_have_count(0)
    reader.open("/review?tab=proposals")  # As somebody who may more has shared it.
    expect(page.get_by_role("link", name="All")).to_have_attribute("aria-current", "page")
    reader.open("/settings")
    expect(page.get_by_role("button", name="New token")).to_have_count(0)
    expect(page.get_by_role("button", name="Rename")).to_have_count(0)


@requirement("WEB-1", "SEC-6")
def test_what_another_project_shares_may_be_rated_and_not_changed(tab, world):
    other = tab(world.token("admin", "--workspace", str(world.folder / "infra")))
    page = other.open(f"/memory/{world.ids['m01']}")
    expect(page.locator("main h1")).to_have_text("Send an idempotency key with every charge")
    expect(page.get_by_role("button", name="It helped")).to_be_visible()
    for name in ("Edit", "Archive", "Forget…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.keyboard.press("e")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("complementary")).to_contain_text("another one, which shares it")


@requirement("WEB-1")
def test_a_token_of_another_workspace_sees_nothing_of_this_one(tab, world):
    other = tab(world.token("write", "--workspace", str(world.folder / "infra")))
    page = other.open("/")
    expect(page.get_by_role("heading", name=KNOWN)).to_be_visible()
    expect(page.locator("#space option")).to_have_text(["infra"])
    with page.expect_console_message(lambda message: "404" in message.text):
        page.goto(f"{other.address}/memory/{world.ids['m15']}")
    expect(page.get_by_role("alert")).to_contain_text("This does not exist")
    # The refusal that was asked for, and nothing else.
    assert [line for line in other.said if "404" not in line] == []
    other.said.clear()


@requirement("WEB-1")
def test_the_workspace_that_was_chosen_is_remembered(tab, world):
    owner = tab()
    page = owner.open("/")
    page.get_by_label("Workspace").select_option(label="infra")
    expect(page.get_by_role("heading", name=re.compile("know [0-9]{2} lessons"))).to_be_visible()
    owner.open("/")
    expect(page.get_by_label("Workspace").locator("option:checked")).to_have_text("infra")
    page.get_by_label("Workspace").select_option(label=HERE)
    expect(
        page.get_by_role("heading", name=re.compile("know [0-9]+,[0-9]{3} lessons"))
    ).to_be_visible()


@requirement("WEB-1")
def test_an_address_shows_the_project_that_it_showed_before(tab, world):
    page = tab().open("/learning")
    here = page.get_by_label("Workspace").locator("option:checked")
    expect(here).to_have_text(HERE)
    page.get_by_label("Workspace").select_option(label="infra")
    expect(page).to_have_url(re.compile("learning[?]workspace="))
    page.go_back()
    expect(here).to_have_text(HERE)


@requirement("WEB-1")
def test_what_was_done_in_one_project_is_taken_back_there_and_nowhere_else(tab, world):
    told = {"title": "Back and forth", "description": "When chosen", "content": "Look first.",
            "outcome": "success"}  # fmt: skip
    id = world.server.ask("POST", "/memories", json=told).json()["id"]
    page = tab().open(f"/memory/{id}")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    page.get_by_label("Workspace").select_option(label="infra")
    expect(page.get_by_role("heading", name=re.compile("know [0-9]{2} lessons"))).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text=f"That was in {HERE}")).to_be_visible()
    page.get_by_label("Workspace").select_option(label=HERE)
    expect(page.get_by_role("heading", name=re.compile("know [0-9]+,[0-9]{3}"))).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert world.server.ask("GET", f"/memories/{id}").json()["state"] == "active"


@requirement("WEB-1")
def test_workspaces_of_one_name_are_told_apart(browser, tmp_path):
    page = browser.new_page()
    bank = f"sqlite:///{tmp_path / 'own.db'}"
    for above in ("shop", "bank"):
        folder = tmp_path / above / "api"
        (folder / ".git").mkdir(parents=True)
        assert command(folder, "--bank", bank, "remember", f"A lesson of the {above}.")[0] == 0
    with serving(tmp_path / "shop" / "api", "--bank", bank) as server:
        page.goto(entrance(server, "--bank", bank))
        names = page.get_by_label("Workspace").locator("option")
        expect(names).to_have_text(["api (bank)", "api (shop)"])
    page.close()

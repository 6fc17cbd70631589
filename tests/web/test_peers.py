"""Peers: two banks that were joined by the documented commands, seen and judged on the page."""

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import a_token, serving
from tests.surfaces.joined_banks import TITLE, joined
from tests.web.conftest import Tab, entrance
from tests.web.test_page_views import complaints

NARROW = {"width": 400, "height": 860}


@contextmanager
def signed_in(browser, server, token=None, **options):
    """A tab whose console says nothing, of the owner or of a token."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    tab = Tab(context.new_page(), server.address)
    if token is None:
        tab.page.goto(entrance(server))
    else:
        tab.page.goto(server.address)
        tab.page.get_by_label("paste a token").fill(token)
        tab.page.get_by_role("button", name="Sign in").click()
    tab.entered()
    yield tab
    context.close()
    assert tab.said == []


@pytest.fixture(scope="module")
def pair(browser, tmp_path_factory):
    with joined(tmp_path_factory.mktemp("joined")) as pair:
        yield pair


def agree(page, to):
    page.get_by_role("dialog").get_by_role("button", name=to).click()


def told(page, text):
    return expect(page.get_by_role("status").filter(has_text=text)).to_be_visible()


@requirement("WEB-1")
def test_who_this_bank_learns_from_is_shown_with_what_they_brought(browser, pair):
    with signed_in(browser, pair.server) as tab:
        page = tab.page
        page.keyboard.press("g")
        page.keyboard.press("p")
        known = page.get_by_role("region", name="Known here")
        expect(known).to_contain_text("1 bank")
        expect(known.get_by_role("row", name="bob")).to_contain_text("on probation")
        expect(known.get_by_role("row", name="bob")).to_contain_text(pair.key[:8])
        own = page.get_by_role("region", name="This bank")
        expect(own).to_contain_text(pair.run("peer", "id")["key"])
        expect(page.get_by_text("reasonbank peer invite")).to_be_visible()
        bob = page.get_by_role("region", name="bob")
        expect(bob).to_contain_text(pair.key)
        expect(bob.get_by_role("link", name=TITLE)).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/peers/{pair.key}**")


@requirement("WEB-1")
def test_what_a_peer_brought_is_reviewed_by_its_name(browser, pair):
    with signed_in(browser, pair.server) as tab:
        page = tab.open("/peers")
        page.get_by_role("region", name="bob").get_by_role("link", name="Accept or reject").click()
        expect(page.get_by_text("Only what bob brought.")).to_be_visible()
        expect(page.locator(".pick .sub")).to_contain_text("ben at bob")
        expect(page.locator(".pane .facts")).to_contain_text("ben at bob")
        unasked = "no agent is given it unasked until somebody here confirms it"
        expect(page.locator(".pane .note")).to_contain_text(unasked)
        page.get_by_role("link", name="Evidence, history and kin").click()
        expect(page.get_by_role("heading", name=TITLE)).to_be_visible()
        expect(page.locator(".head .meta")).to_contain_text("by ben at bob")
        expect(page.get_by_role("region", name="Trust")).to_contain_text(unasked)
        facts = page.get_by_role("region", name="Where it came from")
        expect(facts).to_contain_text("ben at bob")
        expect(facts).to_contain_text("Written byanother bank")
        page.go_back()
        page.get_by_role("link", name="Show all").click()
        expect(page.get_by_text("Only what bob brought.")).to_have_count(0)


@requirement("WEB-1")
def test_peers_can_be_read_light_and_dark_wide_and_narrow(browser, pair, axe):
    for options in ({}, {"color_scheme": "dark"}, {"viewport": NARROW}):
        with signed_in(browser, pair.server, **options) as tab:
            page = tab.open(f"/peers/{pair.key}")
            expect(page.get_by_role("region", name="bob")).to_be_visible()
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width == page.viewport_size["width"]
            assert complaints(page, axe) == []


@requirement("WEB-1")
def test_a_token_has_no_say_about_peers(browser, pair):
    admin = a_token(pair.server.folder, "admin")
    with signed_in(browser, pair.server, admin) as tab:
        page = tab.open("/peers")
        expect(page.get_by_role("region", name="bob")).to_contain_text("Only a person")
        for act in ("Trust…", "Cut off…", "Cut off and take back…"):
            expect(page.get_by_role("button", name=act)).to_have_count(0)
    bound = a_token(pair.server.folder, "admin", "--workspace", str(pair.server.folder))
    with signed_in(browser, pair.server, bound) as tab:
        page = tab.open("/peers")
        expect(page.locator("main")).to_contain_text("Only whoever looks after the whole bank")
        expect(page.locator("main")).not_to_contain_text("bob")


@requirement("WEB-1")
@requirement("SEC-1")
def test_a_peer_is_trusted_doubted_cut_off_and_all_of_it_taken_back(browser, tmp_path):
    with joined(tmp_path) as pair, signed_in(browser, pair.server) as tab:
        page = tab.open("/peers")
        page.get_by_role("button", name="Trust…").click()
        expect(page.get_by_role("dialog")).to_contain_text("1 memory that it brought is accepted")
        page.keyboard.press("Escape")
        assert pair.peer()["state"] == "on probation"
        page.get_by_role("button", name="Trust…").click()
        agree(page, "Trust it")
        told(page, "bob is trusted; accepted 1 memory")
        expect(page.get_by_role("row", name="bob")).to_contain_text("trusted")

        # What comes while the page is open is shown without a reload.
        pair.other.record("Close the month in UTC")
        pair.other.run("peer", "sync")
        page.get_by_role("button", name="No longer trust…").click()
        agree(page, "No longer trust")
        told(page, "bob is no longer trusted")
        pair.other.record("Name the owner of a secret")
        pair.other.run("peer", "sync")
        waits = page.get_by_role("region", name="bob").get_by_role("link", name="Name the owner")
        expect(waits).to_be_visible()

        page.get_by_role("button", name="Cut off…").click()
        expect(page.get_by_role("dialog")).to_contain_text("what it brought so far")
        agree(page, "Cut off")
        told(page, "Cut off bob")
        expect(page.get_by_role("row", name="bob")).to_contain_text("cut off")
        assert len(pair.server.ask("GET", "/memories").json()) == 3
        page.get_by_role("button", name="Take back what it brought…").click()
        expect(page.get_by_role("dialog")).to_contain_text("3 memories")
        agree(page, "Take back")
        told(page, "Took back 3 memories of bob")
        assert pair.server.ask("GET", "/memories").json() == []
        page.keyboard.press("u")
        told(page, "Undone")
        assert len(pair.server.ask("GET", "/memories").json()) == 3


@requirement("WEB-1")
def test_a_bank_that_is_alone_is_told_the_two_commands(browser, tmp_path, axe):
    with serving(tmp_path) as server, signed_in(browser, server) as tab:
        page = tab.open("/peers")
        expect(page.get_by_role("heading", name="No other bank yet.")).to_be_visible()
        for command in ("reasonbank peer invite", "reasonbank peer join TOKEN"):
            expect(page.get_by_text(command)).to_be_visible()
        expect(page.get_by_role("region", name="This bank")).to_contain_text("nothing yet")
        assert complaints(page, axe) == []


def test_where_the_bus_is_not_installed_the_page_says_what_to_run(browser, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['qh3'] = None\n")
    with (
        serving(tmp_path / "bank", PYTHONPATH=tmp_path) as server,
        signed_in(browser, server) as tab,
    ):
        page = tab.open("/peers")
        expect(page.get_by_role("heading", name="The bus is not installed.")).to_be_visible()
        expect(page.get_by_text("pip install 'reasonbank[bus]'")).to_be_visible()

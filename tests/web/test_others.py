"""Learning, sessions, work and settings: what they show, and what is done there."""

import re
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import serving
from tests.web.conftest import entrance

NAMES = ("Ann", "Ben", "Cem")
SAME = "Restart the proxy after its certificate was renewed, as it reads it only once"


@requirement("WEB-1")
def test_learning_says_what_memory_is_worth_and_what_is_missing(tab, world):
    page = tab().open("/learning")
    told = world.server.ask("GET", "/report").json()
    expect(page.locator(".say")).to_contain_text("points")
    expect(page.locator("main")).to_contain_text(f"{told['tasks']} tasks ended")
    expect(page.get_by_role("img", name="Forecast against what came true")).to_be_visible()
    expect(page.get_by_role("region", name="Learned by week").locator("svg")).to_be_visible()
    lessons = page.get_by_role("region", name="Which lessons help, which hurt")
    expect(lessons.locator("tbody tr").first).to_be_visible()


@requirement("WEB-1")
def test_a_session_is_shown_step_by_step_with_what_it_was_given(tab, world):
    page = tab().open("/sessions")
    page.get_by_role("button", name="Checkout 500 when the pool is full").click()
    expect(page.locator(".pane h2")).to_have_text("Checkout 500 when the pool is full")
    expect(page.locator(".steps > li")).to_have_count(6)
    expect(page.locator(".steps .d-bad")).to_have_count(2)
    # A task that the lot fell on was given none, and the page says so.
    without = page.get_by_text("Chosen at random to go without memory")
    expect(page.locator(".given a").first.or_(without)).to_be_visible()
    page.reload()
    expect(page.locator(".pane h2")).to_have_text("Checkout 500 when the pool is full")


@requirement("WEB-1", "DIS-2")
def test_what_failed_for_good_says_why_and_is_tried_again(tab, world):
    page = tab().open("/work")
    failed = page.get_by_role("region", name="Failed for good")
    expect(failed).to_contain_text("its key was refused")
    expect(page.get_by_role("region", name="Schedule")).to_contain_text("Consolidate")
    failed.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status").filter(has_text="for a worker again")).to_be_visible()
    expect(page.get_by_role("region", name="Failed for good")).to_have_count(0)


@requirement("WEB-1")
def test_a_token_is_made_shown_once_and_revoked(tab, world):
    page = tab().open("/settings")
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("dashboard")
    form.get_by_label("May").select_option("read")
    form.get_by_role("button", name="Make it").click()
    made = page.get_by_role("dialog").filter(has_text="cannot be shown again")
    secret = made.locator("code").inner_text()
    assert world.server.ask("GET", "/statistics", token=secret).status_code == 200
    made.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Revoke dashboard").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("button", name="Revoke dashboard")).to_have_count(0)
    assert world.server.ask("GET", "/statistics", token=secret).status_code == 401


@contextmanager
def proposed(page, project):
    """A page on which three lessons are proposed to become one."""
    with serving(project, REASONBANK_EMBED_MODEL="minilm") as server:
        for name in NAMES:
            lesson = {"title": f"Restart the proxy, says {name}", "description": SAME,
                      "content": f"{SAME}.", "outcome": "success"}  # fmt: skip
            assert server.ask("POST", "/memories", json=lesson).status_code == 201
        page.goto(entrance(server))
        expect(page.get_by_role("heading", name="Your agents know 3 lessons")).to_be_visible()
        page.goto(server.address + "/review?tab=probation")
        for name in NAMES:
            page.get_by_label(f"Select Restart the proxy, says {name}").check()
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_role("status").filter(has_text="3 accepted")).to_be_visible()
        page.goto(server.address + "/review?tab=proposals")
        expect(page.locator(".pane")).to_contain_text("Would become one")
        yield server


@requirement("WEB-1")
def test_what_was_accepted_is_merged_by_a_plan_that_can_be_taken_back(browser, tmp_path):
    page = browser.new_page()
    with proposed(page, tmp_path / "project") as server:
        page.get_by_role("button", name="Merge").first.click()
        expect(page.get_by_role("status").filter(has_text="Undo with u")).to_be_visible()
        assert len(server.ask("GET", "/memories").json()) == 1
        page.keyboard.press("u")
        expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
        assert len(server.ask("GET", "/memories").json()) == 3
    page.close()


@requirement("WEB-1")
def test_a_merge_is_edited_as_it_is_accepted(browser, tmp_path):
    page = browser.new_page()
    with proposed(page, tmp_path / "project") as server:
        page.get_by_role("button", name="Merge and edit").click()
        form = page.get_by_role("dialog")
        expect(form.get_by_label("When it applies")).to_have_value(
            re.compile(f"^{SAME}\nMerged from 3")
        )
        form.get_by_label("Title").fill("Restart the proxy first")
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status").filter(has_text="Merged and saved")).to_be_visible()
        expect(page.get_by_role("heading", name="The bank proposes nothing.")).to_be_visible()
        [merged] = server.ask("GET", "/memories").json()
        assert (merged["title"], merged["revision"]) == ("Restart the proxy first", 2)
        page.keyboard.press("u")
        expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
        titles = {each["title"] for each in server.ask("GET", "/memories").json()}
        assert titles == {f"Restart the proxy, says {name}" for name in NAMES}
    page.close()


@requirement("WEB-1")
@pytest.mark.parametrize("answer", ["Merge", "Merge and edit", "Keep apart"])
def test_what_has_changed_since_it_was_proposed_is_not_said_to_be_done(browser, tmp_path, answer):
    page = browser.new_page()
    with proposed(page, tmp_path / "project") as server:
        gone = server.ask("GET", "/memories").json()[0]["id"]
        assert server.ask("POST", f"/memories/{gone}/archive").status_code == 200
        page.get_by_role("button", name=answer, exact=True).click()
        expect(page.get_by_role("status").filter(has_text="Not merged")).to_be_visible()
        # What is left of it is proposed instead.
        expect(page.locator(".pane li")).to_have_count(2)
        assert len(server.ask("GET", "/memories").json()) == 2
    page.close()


def telling(seen, **told):
    """The report with these parts in place of its own."""

    def answer(route):
        report = route.fetch().json()
        route.fulfill(json=report | {name: report[name] | part for name, part in told.items()})

    seen.page.route("**/api/v1/report*", answer)
    return seen.open("/learning")


@requirement("WEB-1")
def test_one_point_is_no_points_and_less_than_half_a_point_is_none(tab):
    page = telling(tab(), memory={"difference": 0.01, "low": -0.1, "high": 0.1})
    expect(page.locator(".say")).to_contain_text("Tasks succeed 1 point more often")
    page = telling(tab(), memory={"difference": -0.001, "low": -0.1, "high": 0.1})
    expect(page.get_by_role("row", name="Difference").locator("b")).to_have_text("+0")


@requirement("WEB-1")
def test_a_forecast_is_called_wrong_only_where_chance_would_hardly_do_that(tab):
    once = {"low": 0.3, "high": 0.4, "count": 1, "predicted": 0.85, "observed": 0.0}
    often = {"low": 0.4, "high": 0.5, "count": 40, "predicted": 0.45, "observed": 0.9}
    page = telling(tab(), calibration={"bins": [once, often]})
    dots = page.get_by_role("img", name="Forecast against what came true").locator("circle")
    expect(dots).to_have_count(2)
    expect(dots.nth(0)).to_have_class("f-a")
    expect(dots.nth(1)).to_have_class("f-soft")

"""Whatever a memory says stays text, and the page stays whole."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect
from tests.requirement import requirement
from tests.surfaces.http_server import serving
from tests.web.conftest import entrance

from reasonbank.fields import LIMITS

HOSTILE = {
    "script": "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>",
    "markdown": "[click](javascript:window.broken=3) ![x](x) **bold** `code` <b>bold</b>",
    "attribute": '" onmouseover="window.broken=4" x="',
    "right to left": "\u202egnihtyna\u202c \u2067\u0627\u0644\u0639\u0631\u0628\u2069 \u200f",
    "one long word": "w" * LIMITS.content,
    "template": "{{constructor.constructor('window.broken=5')()}} ${window.broken=6}",
}


@requirement("WEB-1")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_stored_text_neither_breaks_out_nor_breaks_the_layout(tab, world, text):
    memory = {"title": text[:200], "description": text[:1000], "content": text,
              "outcome": "failure", "tags": [text[:50]],
              "error_context": {"error_type": text[:100], "failure_pattern": text[:1000],
                                "corrective_guidance": text[:1000]}}  # fmt: skip
    made = world.server.ask("POST", "/memories", json=memory)
    assert made.status_code == 201, made.text
    for width in (1440, 400):
        seen = tab(viewport={"width": width, "height": 800})
        for path in (f"/memory/{made.json()['id']}", "/search?sort=newest"):
            page = seen.open(path)
            expect(page.locator("main")).to_contain_text(text[:20].strip())
            assert page.evaluate("window.broken") is None
            assert page.locator("main b:text-is('bold'), main img, main script").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if width == 1440:
            # Nor does it leave the words beside it too little room for a line.
            row = seen.open("/settings").get_by_role("region", name="Audit").locator("tr").nth(1)
            lines = "e => new Set([...e.getClientRects()].map((r) => r.top)).size"
            for words in (row.locator("td:first-child code"), row.locator("td:nth-child(3) span")):
                assert words.evaluate(lines) == 1
    gone = world.server.ask("DELETE", f"/memories/{made.json()['id']}?confirm=true")
    assert gone.status_code == 200


@requirement("WEB-1")
def test_a_session_with_a_megabyte_of_one_word_is_shown(tab, world):
    steps = [{"iteration": 1, "action": "<b>Ran</b>", "content": "w" * 1_000_000}]
    trace = {"task": "w" * LIMITS.content, "trajectory": steps}
    made = world.server.ask("POST", "/traces", json=trace)
    assert made.status_code == 201, made.text
    for width in (1440, 400):
        seen = tab(viewport={"width": width, "height": 800})
        page = seen.open(f"/sessions/{made.json()['id']}")
        expect(page.locator(".steps")).to_contain_text("<b>Ran</b>")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@requirement("WEB-1")
def test_a_name_that_turns_the_direction_of_writing_turns_no_word_of_the_page(tab, world):
    turned = "\u202eeve"
    token = world.token("write", "--name", turned)
    memory = {"title": "Turn around", "description": "When words turn", "content": "Look.",
              "outcome": "success"}  # fmt: skip
    made = world.server.ask("POST", "/memories", token=token, json=memory).json()
    trace = {"task": "Turned", "trajectory": [], "metadata": {"agent": turned}}
    session = world.server.ask("POST", "/traces", token=token, json=trace).json()
    seen = tab()
    for path in (f"/memory/{made['id']}", "/search?sort=newest", f"/sessions/{session['id']}",
                 "/review"):  # fmt: skip
        page = seen.open(path)
        expect(page.locator("main")).to_contain_text("eve")
        sentences = page.locator(".rev, .meta, .sub").all_text_contents()
        assert [each for each in sentences if "\u202e" in each] == [], path
    gone = world.server.ask("DELETE", f"/memories/{made['id']}?confirm=true")
    assert gone.status_code == 200


@requirement("WEB-1")
def test_a_question_that_is_copied_into_a_shell_is_only_text_there(browser, tmp_path):
    asked = 'unheard of \\ $(one) `two` !! " ; three \x1b[201~\n'
    page = browser.new_page()
    with serving(tmp_path / "project") as server:
        page.goto(entrance(server))
        expect(page.get_by_role("heading", name="know nothing here yet")).to_be_visible()
        page.goto(server.address + "/search?" + urlencode({"q": asked}))
        run = page.locator("code", has_text="; three")
        expect(run).to_contain_text("reasonbank remember")
        told = run.inner_text().removeprefix("reasonbank remember ")
        assert told[0] == told[-1] == '"'
        assert not {*told[1:-1]} & {*'"$`\\!\x1b\n'}
    page.close()

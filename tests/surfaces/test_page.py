"""The page for people: who gets its files, and how a browser signs in and out."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import threading

import httpx2
import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import (
    LESSON,
    NONE,
    Server,
    a_token,
    command,
    environment,
    serving,
)

PAGE = {"X-ReasonBank-Page": "1"}
OPEN: list[httpx2.Client] = []


@pytest.fixture(autouse=True)
def _closing():
    yield
    while OPEN:
        OPEN.pop().close()


class Browser:
    """Keeps its cookies, and calls as the server's own page does."""

    def __init__(self, server, **headers):
        self.client = httpx2.Client(
            base_url=f"{server.address}/api/v1", timeout=60,
            headers=PAGE | {"Origin": server.address} | headers,
        )  # fmt: skip
        OPEN.append(self.client)

    def sign_in(self, **shown):
        return self.client.post("/session", json=shown)

    def session(self):
        return self.client.get("/session").json()


def new_code(server):
    """As the owner of the bank has it made."""
    code, told = command(server.folder, "open", "--port", server.port)
    assert code == 0, told
    return told["page"].partition("#code=")[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page")) as server:
        yield server


@pytest.fixture
def fresh(server):
    """A code that nobody has used."""
    return new_code(server)


# Its files


@requirement("WEB-1")
@pytest.mark.parametrize(
    "path", ["/", "/search", "/memory/01a1", "/sessions/x", "/settings", "/peers"]
)
def test_every_view_is_the_one_page_which_anybody_may_have(server, path):
    page = server.get(path, NONE)
    assert page.status_code == 200 and page.text == server.get("/", NONE).text
    assert page.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", ["/assets/nowhere.js", "/assets/../app.py", "/report", "/searches",
                                  "/assets/%2e%2e/app.py", "/assets/"])  # fmt: skip
def test_nothing_else_is_served(server, path):
    assert server.raw(
        f"GET {path} HTTP/1.1\r\nHost: {server.address[7:]}\r\nConnection: close\r\n\r\n".encode()
    ).startswith(b"HTTP/1.1 404")


@requirement("WEB-1")
def test_the_page_may_load_nothing_from_elsewhere_and_nothing_inline(server):
    page = server.get("/", NONE)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy and "http" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", page.text)


def test_what_has_not_changed_is_not_sent_again(server):
    first = server.get("/", NONE)
    again = server.get("/", NONE, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"


def test_who_can_unpack_it_gets_it_packed(server):
    with httpx2.stream("GET", server.address, headers={"Accept-Encoding": "gzip"}) as packed:
        body = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == server.get("/", NONE, {"Accept-Encoding": "identity"}).content


# Signing in


@requirement("WEB-1")
def test_the_printed_address_lets_its_owner_in_once(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "serve", "--port", "0"],
        env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address, _, code = process.stdout.readline().strip().partition("/#code=")
        server = Server(tmp_path, process, address)
        browser = Browser(server)
        assert browser.session() == {"signed_in": False, "needed": True}
        assert browser.client.get("/memories").status_code == 401
        told = browser.sign_in(code=code).json()
        assert (told["signed_in"], told["right"], told["whole"]) == (True, "admin", True)
        assert browser.client.get("/memories").status_code == 200
        assert browser.session() == told
        other = Browser(server)
        assert other.sign_in(code=code).status_code == 401
        assert other.client.get("/memories").status_code == 401
    finally:
        process.terminate()
        process.communicate(timeout=60)


@requirement("SEC-6")
def test_the_cookie_is_for_this_server_and_no_script(server, fresh):
    cookie = Browser(server).sign_in(code=fresh).headers["set-cookie"]
    parts = {part.strip() for part in cookie.split(";")}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= parts and "Secure" not in parts
    assert fresh not in cookie and server.token not in cookie


def test_over_https_the_cookie_stays_there(tmp_path):
    with serving(tmp_path, REASONBANK_SERVER_HOSTS="bank.example") as server:
        headers = {"Host": "bank.example", "Origin": "https://bank.example"}
        told = Browser(server, **headers).sign_in(token=server.token)
        assert told.status_code == 200 and "; Secure" in told.headers["set-cookie"]


@requirement("SEC-6")
def test_of_many_who_show_one_code_one_comes_in(tmp_path):
    with serving(tmp_path, "--processes", 2) as server:
        code, status = new_code(server), []

        def show():
            status.append(Browser(server).sign_in(code=code).status_code)

        threads = [threading.Thread(target=show) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(status) == [200] + [401] * 7


@requirement("SEC-6")
def test_a_code_is_kept_as_a_private_hash_only(server, fresh):
    slips = list(server.folder.rglob("*.code-*"))
    assert slips
    for slip in slips:
        assert fresh not in slip.name and fresh not in slip.read_text()
        assert slip.stat().st_mode & 0o077 == 0


@requirement("SEC-6")
def test_a_session_outlives_the_server_and_ends_when_one_signs_out(tmp_path):
    with serving(tmp_path) as server:
        browser = Browser(server)
        browser.sign_in(code=new_code(server))
        cookie = browser.client.headers["Cookie"] = "; ".join(
            f"{name}={value}" for name, value in browser.client.cookies.items()
        )
    with serving(tmp_path, "--port", 0) as server:
        again, thief = (Browser(server, Cookie=cookie) for _ in range(2))
        assert again.session()["signed_in"]
        out = again.client.delete("/session")
        assert out.json() == {"signed_in": False, "needed": True}
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert not thief.session()["signed_in"]
        assert thief.client.get("/memories").status_code == 401


@requirement("SEC-6")
def test_a_pasted_token_opens_what_it_opens_elsewhere_and_no_more(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    with serving(tmp_path, "--workspace", here) as server:
        for place in (here, there):
            assert server.ask("POST", "/memories", workspace=place, json=LESSON).status_code == 201
        secret = a_token(tmp_path, "read", "--name", "guest", "--workspace", str(there))
        browser = Browser(server)
        told = browser.sign_in(token=secret).json()
        assert (told["name"], told["right"], told["whole"]) == ("guest", "read", False)
        assert [place["id"] for place in told["workspaces"]] == [told["workspace"]]
        assert told["workspaces"][0]["path"] is None
        assert len(browser.client.get("/memories").json()) == 1
        assert browser.client.post("/memories", json=LESSON).status_code == 403
        refused = browser.client.get("/memories", headers={"X-ReasonBank-Workspace": str(here)})
        assert refused.status_code == 403


@requirement("SEC-6")
def test_a_revoked_token_takes_its_sessions_with_it(tmp_path):
    secret = a_token(tmp_path, "write")
    with serving(tmp_path) as server:
        browser = Browser(server)
        browser.sign_in(token=secret)
        assert browser.client.get("/memories").status_code == 200
        server.ask("DELETE", f"/tokens/{secret.split('_')[1]}")
        assert browser.client.get("/memories").status_code == 401
        assert browser.session() == {"signed_in": False, "needed": True}


@pytest.mark.parametrize("shown", [
    {}, {"code": "x"}, {"token": "rbk_1"}, {"code": "0" * 32}, {"code": "1", "token": "2"},
    {"code": 1}, {"code": "../../etc/passwd"}, {"other": "x"}, [],
])  # fmt: skip
def test_what_is_no_code_and_no_token_lets_nobody_in(server, shown):
    told = Browser(server).client.post("/session", json=shown)
    assert told.status_code in (400, 401) and "set-cookie" not in told.headers


@requirement("SEC-6")
@pytest.mark.parametrize("change", [
    lambda cookie: cookie.replace(".person.", ".holder."),
    lambda cookie: re.sub(r"\.(\d{16})\.", ".9999999999999999.", cookie),
    lambda cookie: re.sub(r"=[0-9a-f]{12}\.", "=000000000000.", cookie),
    lambda cookie: cookie[:-1], lambda cookie: cookie + "0", lambda cookie: cookie.split("=")[0],
])  # fmt: skip
def test_a_cookie_that_was_changed_opens_nothing(server, fresh, change):
    cookie = Browser(server).sign_in(code=fresh).headers["set-cookie"].partition(";")[0]
    assert server.get("/api/v1/memories", NONE, {"Cookie": cookie}).status_code == 200
    changed = change(cookie)
    assert changed != cookie
    assert server.get("/api/v1/memories", NONE, {"Cookie": changed}).status_code == 401


@requirement("SEC-6")
@pytest.mark.parametrize("lacking", [
    {"X-ReasonBank-Page": None}, {"Origin": None}, {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
])  # fmt: skip
def test_a_page_of_others_changes_nothing_by_the_cookie(server, fresh, lacking):
    browser = Browser(server)
    cookie = browser.sign_in(code=fresh).headers["set-cookie"].partition(";")[0]
    sent = {"Origin": server.address, "Cookie": cookie} | PAGE | lacking
    headers = {name: value for name, value in sent.items() if value is not None}
    for method, path in (("POST", "/memories"), ("DELETE", "/session"), ("POST", "/session")):
        told = server.ask(method, path, NONE, headers=headers, json=LESSON)
        assert told.status_code == 403, (method, path)
    assert browser.session()["signed_in"]


@requirement("SEC-6")
def test_agents_get_nothing_by_a_cookie(server, fresh):
    cookie = Browser(server).sign_in(code=fresh).headers["set-cookie"].partition(";")[0]
    headers = PAGE | {"Origin": server.address, "Cookie": cookie}
    assert httpx2.post(f"{server.address}/mcp", headers=headers, json={}).status_code == 401
    assert server.get("/metrics", NONE, headers).status_code == 401


def test_what_a_person_does_at_the_page_is_signed_as_theirs(server, fresh):
    by_code, by_token = Browser(server), Browser(server)
    by_code.sign_in(code=fresh)
    by_token.sign_in(token=server.token)
    acted = []
    for browser in (by_code, by_token):
        id = browser.client.post("/memories", json=LESSON).json()["id"]
        [entry] = server.ask("GET", "/audit", params={"memory": id}).json()
        acted.append((entry["surface"], entry["principal"]))
    # Whoever shows a token may be a program that was given it.
    assert acted == [("page", "person"), ("http", "agent")]


def test_where_no_token_is_needed_one_is_in_already(tmp_path):
    with serving(tmp_path, "--no-auth") as server:
        browser = Browser(server)
        told = browser.session()
        assert (told["signed_in"], told["needed"], told["right"]) == (True, False, "admin")
        stale = {"Cookie": "reasonbank-00000000=nonsense"}
        assert server.get("/api/v1/memories", NONE, stale).status_code == 200


# `reasonbank open`


def test_open_names_the_memory_and_the_project(server):
    id = server.ask("POST", "/memories", workspace=server.folder, json=LESSON).json()["id"]
    code, told = command(server.folder, "open", id[-8:], "--port", server.port)
    assert code == 0, told
    assert re.fullmatch(
        rf"{server.address}/memory/{id}\?workspace=[0-9a-f]{{16}}#code=[0-9a-f]{{32}}", told["page"]
    )


def test_open_says_how_to_serve_where_nobody_answers(tmp_path):
    code, told = command(tmp_path, "open", "--port", 1)
    assert (code, told["error"]) == (3, "NotFound")
    assert "reasonbank serve" in told["message"]

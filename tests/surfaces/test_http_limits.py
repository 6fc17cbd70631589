"""Bad, large, slow and foreign requests: a clear error, and the server lives on."""

import asyncio
import json
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import apsw
import httpx2
import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, everything, serving

from reasonbank.errors import InvalidSetting, TooLarge
from reasonbank.settings import Server as ServerSettings
from reasonbank.surfaces.http.gate import CALLERS, AllowedHosts, Rates, RetryAfter, pieces


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("limits")) as server:
        yield server
        assert server.alive()
    assert "unexpected" not in (server.folder / "stderr").read_text()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server without patience."""
    with serving(
        tmp_path_factory.mktemp("hasty"),
        REASONBANK_SERVER_PATIENCE=0.3,
        REASONBANK_SERVER_BODY_BYTES=10_000,
        REASONBANK_SERVER_IMPORT_BYTES=20_000,
    ) as server:
        yield server
        assert server.alive()


def request(server, method="POST", path="/api/v1/search", *headers, host=None):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{server.port}'}",
             f"Authorization: Bearer {server.token}", *headers]  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answered(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


# What is sent


@requirement("SEC-3")
@pytest.mark.parametrize(("given", "field"), [
    ({}, "query"), ({"query": 5}, "query"), ({"query": None}, "query"), ({"query": ""}, "query"),
    ({"query": " "}, "query"), ({"query": "x" * 32_001}, "query"), ({"query": "a\0b"}, "query"),
    ({"query": "x", "limit": "5"}, "limit"), ({"query": "x", "limit": 0}, "limit"),
    ({"query": "x", "limit": 1.5}, "limit"), ({"query": "x", "limit": True}, "limit"),
    ({"query": "x", "limit": 10**30}, "limit"), ({"query": "x", "nonsense": 1}, "nonsense"),
    ({"query": "x", "min_confidence": 2}, "min_confidence"),
    ({"query": "x", "scopes": ["galaxy"]}, "scopes.0"), ({"query": "x", "tags": "a"}, "tags"),
    ({"query": "x", "tags": ["a"] * 33}, "tags"),
    ({"query": "x", "created_after": "yesterday"}, "created_after"),
    ({"query": "x", "created_after": "0001-01-01T00:00:00+14:00"}, "created_after"),
    ({"query": "x", "explain": "yes"}, "explain"), ([], "body"), ("x", "body"),
])  # fmt: skip
def test_a_wrong_value_is_refused_by_name(server, given, field):
    answer = server.ask("POST", "/search", json=given)
    assert answer.status_code == 400, answer.text
    assert (answer.json()["error"], answer.json()["field"]) == ("InvalidInput", field)


@requirement("SEC-3")
@pytest.mark.parametrize("body", [
    b"{", b"nonsense", b"\xff\xfe", b'{"query": "\\ud800"}', b'{"query": NaN}',
    b"[" * 100_000, b'{"query":' * 5_000, b'{"query": 1e999999}', b"\x00",
    b'{"query": "x", "limit": ' + b"9" * 10_000 + b"}",
])  # fmt: skip
def test_what_is_no_json_is_refused(server, body):
    answer = server.ask(
        "POST", "/search", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")


def test_metadata_nested_too_deeply_is_refused(server):
    deep = "{}"
    for _ in range(60):
        deep = f'{{"a":{deep}}}'
    for value in (deep, '{"a": NaN}', '{"a": Infinity}'):
        trace = f'{{"task": "t", "outcome": "success", "metadata": {value}}}'
        answer = server.ask(
            "POST", "/traces", content=trace, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 400, (value, answer.text)


@pytest.mark.parametrize("query", [
    "limit=x", "limit=1&limit=2", "nonsense=1", "states=gone", "limit=0", "warnings_only=perhaps",
    "%zz=1", "created_before=%ff", "=", "&&", "tags=", "workspace=%00/x", "workspace=x%ff",
])  # fmt: skip
def test_a_wrong_query_is_refused(server, query):
    answer = server.ask("GET", f"/memories?{query}")
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput"), answer.text


@pytest.mark.parametrize("path", [
    "/memories/nonsense", "/memories/%ff", "/memories/%00", "/memories/a%2Fb", "/traces/..",
])  # fmt: skip
def test_a_wrong_path_is_refused(server, path):
    status, told = answered(
        server.raw(request(server, "GET", f"/api/v1{path}", "Connection: close"))
    )
    assert status in (400, 404)
    assert told["error"] in ("InvalidInput", "NotFound")


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/nowhere", 404), ("GET", "/api/v1/nowhere", 404), ("GET", "/api/v1", 404),
    ("GET", "/api/v1/search", 405), ("PUT", "/api/v1/memories", 405), ("POST", "/livez", 405),
    ("GET", "/mcp", 405), ("DELETE", "/mcp", 405), ("OPTIONS", "/api/v1/search", 405),
    ("NONSENSE", "/", 405), ("GET", "//", 404), ("GET", "/api/v1/memories/", 404),
])  # fmt: skip
def test_what_is_not_there_is_told_in_json(server, method, path, status):
    raw = server.raw(request(server, method, path, "Connection: close"))
    found, told = answered(raw)
    assert (found, told["error"]) == (status, {404: "NotFound", 405: "NotAllowed"}[status])
    assert (b"allow: " in raw.lower()) == (status == 405)


def test_a_form_of_another_site_is_not_taken(server):
    answer = server.ask("POST", "/search", data={"query": "x"})
    assert (answer.status_code, answer.json()["field"]) == (415, "Content-Type")


# How much, and how fast


@requirement("SEC-3")
def test_fifty_megabytes_are_refused_before_they_are_read(server):
    big = b" " * 50_000_000
    for content in (big, iter([big[i : i + 1_000_000] for i in range(0, len(big), 1_000_000)])):
        answer = server.ask(
            "POST", "/search", content=content, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
    announced = request(server, "POST", "/mcp", "Content-Length: 50000000", "Connection: close")
    with server.socket() as connection:
        connection.sendall(announced)
        assert answered(everything(connection))[0] == 413


def test_an_import_has_a_limit_of_its_own(hasty):
    with hasty.client() as client:
        lines = (json.dumps(LESSON) + "\n").encode()
        fits = client.post("/import", content=lines * 80)
        assert fits.json()["memories"] == 80, fits.text
        too_large = client.post("/import", content=lines * 200)
        assert (too_large.status_code, too_large.json()["field"]) == (413, "body")


@pytest.mark.parametrize("flood", [
    [f"X-{i}: {i}" for i in range(5000)], ["X-Long: " + "a" * 200_000],
    ["Cookie: " + "a=b; " * 20_000], ["X: y"] * 101,
])  # fmt: skip
def test_a_flood_of_headers_is_refused(server, flood):
    raw = server.raw(request(server, "GET", "/livez", *flood, "Connection: close"))
    assert not raw or answered(raw)[0] in (400, 431)


@requirement("SEC-3")
@pytest.mark.parametrize("start", [
    b"", b"POST /api", b"POST /api/v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\n",
])  # fmt: skip
def test_a_head_that_never_ends_is_hung_up_on(hasty, start):
    assert hasty.raw(start) == b""


@pytest.mark.parametrize("path", ["/api/v1/search", "/mcp", "/api/v1/import"])
def test_a_body_that_never_ends_is_refused(hasty, path):
    head = request(hasty, "POST", path, "Content-Length: 100", "Content-Type: application/json",
                   "Connection: close")  # fmt: skip
    status, told = answered(hasty.raw(head + b'{"query":'))
    assert (status, told["error"]) == (408, "TooSlow")


def test_trickling_bytes_buy_no_time(hasty):
    with hasty.socket() as connection:
        started = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT012
            while time.monotonic() < started + 30:
                connection.sendall(b"X")
                threading.Event().wait(0.02)


def test_slow_clients_do_not_hold_up_others(server):
    slow = [server.socket() for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(request(server, "POST", "/api/v1/search", "Content-Length: 10"))
        # More of them wait for their bodies than there are places to work at.
        assert server.ask("POST", "/search", json={"query": "x"}).status_code == 200
    finally:
        for connection in slow:
            connection.close()


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_clients_that_vanish_are_not_missed(server):
    body = json.dumps({"query": "x"}).encode()
    head = request(server, "POST", "/api/v1/search", f"Content-Length: {len(body)}",
                   "Content-Type: application/json")  # fmt: skip
    for sent in (head, head + body[:5], head + body, head + body + head):
        for _ in range(20):
            connection = server.socket()
            connection.sendall(sent)
            # Hang up with a reset, as a crashed client would.
            connection.setsockopt(1, 13, struct.pack("ii", 1, 0))
            connection.close()
    assert server.alive()
    assert server.ask("POST", "/search", json={"query": "x"}).status_code == 200


@requirement("SEC-3")
def test_a_caller_who_is_too_fast_is_told_when_to_come_back(tmp_path):
    with serving(tmp_path, REASONBANK_SERVER_RATE=5) as server, server.client() as client:
        answers = [client.get("/memories") for _ in range(10)]
        [*_, last] = [a for a in answers if a.status_code != 200]
        assert (last.status_code, last.json()["error"]) == (429, "TooMany")
        assert int(last.headers["retry-after"]) >= 1


def write(server):
    return server.ask("POST", "/memories", json=LESSON)


def test_a_full_server_says_so_at_once(tmp_path):
    with serving(tmp_path, REASONBANK_SERVER_CONCURRENCY=1) as server:
        # Somebody else writes to the bank, and a call that wants to has to wait.
        other = apsw.Connection(str(tmp_path / "reasonbank" / "bank.db"))
        other.set_busy_timeout(10_000)  # The server may still be writing down that it began.
        other.execute("begin immediate")
        with ThreadPoolExecutor() as pool:
            # The place may be taken for a moment by who looks whether it is.
            waiting = pool.submit(until, lambda: write(server).status_code == 201)
            until(lambda: server.ask("GET", "/memories").status_code == 503)
            answer = server.ask("GET", "/memories")
            assert (answer.json()["error"], answer.headers["retry-after"]) == ("Busy", "1")
            assert server.get("/livez").status_code == 200
            other.execute("rollback")
            other.close()
            waiting.result()
        until(lambda: server.ask("GET", "/memories").status_code == 200)


def test_many_calls_at_once_are_all_answered(server):
    with ThreadPoolExecutor(40) as pool, server.client() as client:
        answers = list(pool.map(lambda _: client.post("/memories", json=LESSON), range(200)))
    assert {a.status_code for a in answers} == {201}
    assert len({a.json()["id"] for a in answers}) == 200


def test_rates_are_kept_for_so_many_callers_only():
    now = [0.0]
    rates = Rates(2.0, clock=lambda: now[0])
    for _ in range(2):
        rates.take("a")
    with pytest.raises(RetryAfter) as caught:
        rates.take("a")
    assert caught.value.seconds == pytest.approx(0.5)
    rates.take("b")
    now[0] += 0.5
    rates.take("a")
    for i in range(2 * CALLERS):
        rates.take(f"caller {i}")
    assert len(rates._buckets) == CALLERS


# Who calls, and whom they mean


@requirement("HTTP-1")
@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/openapi.json", "/api/v1/memories",
                                  "/mcp", "/nowhere"])  # fmt: skip
@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "", "[::2]",
                                  "localhost.attacker.example:8321", "10.0.0.1", "[::1]evil",
                                  "127.0.0.1:8321evil", "127.0.0.1:99999"])  # fmt: skip
def test_another_name_is_not_answered_to(server, path, host):
    raw = server.raw(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    status, told = answered(raw)
    assert (status, told["error"]) == (421, "Misdirected")


@requirement("HTTP-1")
@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1:1",
                                    "http://localhost.attacker.example", ""])  # fmt: skip
@pytest.mark.parametrize("path", ["/api/v1/memories", "/mcp", "/livez", "/"])
def test_pages_of_other_sites_are_refused(server, path, origin):
    answer = httpx2.post(server.address + path, headers={"Origin": origin}, json={})
    assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")


def test_own_pages_and_loopback_names_are_let_in(server):
    for host in (f"127.0.0.1:{server.port}", "localhost", f"[::1]:{server.port}", "LOCALHOST"):
        headers = {"Host": host, "Origin": f"http://{host.lower()}"}
        assert server.get("/livez", headers=headers).status_code == 200
        del headers["Origin"]
        assert server.get("/livez", headers=headers).status_code == 200


def test_settings_name_further_hosts_and_pages(tmp_path):
    with serving(
        tmp_path,
        REASONBANK_SERVER_HOSTS="Memory.example, other.example",
        REASONBANK_SERVER_ORIGINS="https://app.example",
    ) as server:
        for headers in ({"Host": "memory.example"}, {"Host": "other.example:80"},
                        {"Origin": "https://app.example"}):  # fmt: skip
            assert server.get("/livez", headers=headers).status_code == 200
        assert server.get("/livez", headers={"Host": "third.example"}).status_code == 421
    with pytest.raises(InvalidSetting, match=r"server\.origins"):
        AllowedHosts.of("127.0.0.1", ServerSettings(origins="app.example"))


def test_a_body_is_measured_however_it_comes():
    async def receive():
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    async def read():
        return [piece async for piece in pieces({}, receive, most=100, seconds=5)]

    with pytest.raises(TooLarge):
        asyncio.run(read())

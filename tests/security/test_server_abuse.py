"""Clients that mean harm, over real sockets: others are served all the same."""

import json
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, NONE, a_token, command, everything, serving

from reasonbank.access import Caller
from reasonbank.model import Right
from reasonbank.surfaces.cli.shell import as_json
from reasonbank.surfaces.http.connections import Room, Stage

SLOW = 500


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("abused")) as server:
        assert server.ask("POST", "/memories", json=LESSON).status_code == 201
        yield server
        assert server.alive()
    log = (server.folder / "stderr").read_text()
    assert "unexpected" not in log and "Traceback" not in log, log


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A server with room for fewer than there are slow clients."""
    with serving(tmp_path_factory.mktemp("narrow"), REASONBANK_SERVER_CONNECTIONS=50) as server:
        yield server
        assert server.alive()


def head(server, *lines, method="POST", path="/api/v1/search", host=None, token=None):
    token = server.token if token is None else token
    known = [f"Authorization: Bearer {token}"] if token else []
    named = [] if host == "" else [f"Host: {host or f'127.0.0.1:{server.port}'}"]
    all_lines = [f"{method} {path} HTTP/1.1", *named, *known, *lines]
    return "".join(f"{line}\r\n" for line in all_lines).encode("latin-1") + b"\r\n"


def status(raw):
    return int(raw.split()[1]) if raw else None


# How long a request is


BODY = b'{"query": "x"}'
SMUGGLED = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@requirement("SEC-3")
@pytest.mark.parametrize("lengths", [
    ("Content-Length: 14", "Content-Length: 14"),
    ("Content-Length: 14", "Content-Length: 15"),
    ("Content-Length: 14", "content-LENGTH: 0"),
    ("Content-Length: 14, 14",),
    ("Content-Length: 14, 15",),
    ("Content-Length: +14",),
    ("Content-Length: -1",),
    ("Content-Length: 1 4",),
    ("Content-Length: 14 14",),
    ("Content-Length: 0x0e",),
    ("Content-Length: 1_4",),
    ("Content-Length: 14.0",),
    ("Content-Length: 1e1",),
    ("Content-Length:",),
    ("Content-Length: ,",),
    ("Content-Length: 14;",),
    ("Content-Length: \xb2",),
    ("Content-Length: " + "9" * 40,),
    ("Content-Length : 14",),
    (" Content-Length: 14",),
    ("X: y", " Content-Length: 14"),
    ("Content-Length: 14", "\tmore"),
    ("Content-Length:\x0b14",),
    ("Content-Length: 14", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 14"),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked, identity",),
    ("Transfer-Encoding: identity, chunked",),
    ("Transfer-Encoding: gzip, chunked",),
    ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding:\x0bchunked",),
    ("Transfer-Encoding : chunked",),
    ("Transfer-Encoding:", " chunked"),
    ("Transfer-Encoding: ",),
], ids=repr)  # fmt: skip
def test_a_length_that_can_be_read_in_two_ways_ends_the_connection(server, lengths):
    raw = server.raw(head(server, *lengths) + BODY + SMUGGLED)
    assert status(raw) == 400, raw
    assert raw.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in raw.lower()


@requirement("SEC-3")
def test_a_second_request_on_a_connection_is_read_as_strictly(server):
    length = f"Content-Length: {len(BODY)}"
    good = head(server, length, "Content-Type: application/json") + BODY
    bad = head(server, length, length) + BODY
    for first in (good, head(server, length, token=NONE) + BODY):
        raw = server.raw(first + bad + SMUGGLED)
        assert raw.count(b"HTTP/1.1 ") == 2
        assert raw.count(b"HTTP/1.1 400") == 1


def test_a_length_that_is_clear_is_taken(server):
    kind, close = "Content-Type: application/json", "Connection: close"
    assert status(server.raw(head(server, "Content-Length:  14 ", kind, close) + BODY)) == 200
    chunks = b"e\r\n" + BODY + b"\r\n0\r\n\r\n"
    assert (
        status(server.raw(head(server, "Transfer-Encoding: chunked", kind, close) + chunks)) == 200
    )


@requirement("SEC-3")
@pytest.mark.parametrize("chunks", [
    b"zz\r\n" + BODY, b"-1\r\n" + BODY, b"e\r\n" + BODY + b"XX\r\n", b"e" * 100 + b"\r\n",
    b"e;" + b"x" * 100_000 + b"\r\n", b"0x0e\r\n" + BODY + b"\r\n0\r\n\r\n",
])  # fmt: skip
def test_broken_chunks_end_the_connection(server, chunks):
    raw = server.raw(head(server, "Transfer-Encoding: chunked") + chunks)
    assert status(raw) in (400, 408, 413, None)


@requirement("SEC-3")
@pytest.mark.parametrize("start", [
    b"GET\r\n\r\n", b"\r\n\r\n\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\0: x\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", b"\0" * 1000, b"A" * 100_000,
    b"GET / HTTP/1.1\nHost: localhost\nContent-Length: 1\nContent-Length: 1\n\nx",
])  # fmt: skip
def test_what_is_no_request_is_refused(server, start):
    with server.socket() as connection:
        connection.sendall(start)
        connection.shutdown(socket.SHUT_WR)
        assert status(everything(connection)) in (400, 421, None)


# Whom it means


@requirement("HTTP-1")
@requirement("SEC-3")
@pytest.mark.parametrize("host", [
    "[::1]evil", "[::1]evil:80", "[::1]:80evil", "[::1", "::1", "[::1]]", "[[::1]]", "[]", "[::1]:",
    "127.0.0.1:80@evil", "evil@127.0.0.1", "127.0.0.1/evil", "127.0.0.1:1:2", "127.0.0.1:-1",
    "127.0.0.1:99999", "127.0.0.1:", "localhost evil", "localhost,evil", "localhost\tevil",
    "localhost%00", "localhost.", ".localhost", "localhost#evil", "localhost?evil", "local\xadhost",
    "127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "",
])  # fmt: skip
def test_a_malformed_or_foreign_host_is_not_answered_to(server, host):
    raw = server.raw(
        head(server, "Connection: close", method="GET", path="/livez", host=host or " ")
    )
    assert status(raw) in (400, 421), raw


# Who is slow


def slow_heads(server):
    return b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


def slow_bodies(server):
    return head(server, "Content-Length: 100", "Content-Type: application/json") + b"{"


def slow_imports(server):
    return head(server, "Content-Length: 100", path="/api/v1/import") + b"{"


def unwanted_bodies(server):
    return head(server, "Content-Length: 100", token=NONE) + b"{"


def silent(server):
    return b""


def waiting_for_leave(server):
    return head(server, "Content-Length: 100", "Expect: 100-continue")


def idle(server):
    return head(server, method="GET", path="/livez")


@requirement("SEC-3")
@pytest.mark.parametrize("kind", [slow_heads, slow_bodies, slow_imports, unwanted_bodies, silent,
                                  waiting_for_leave, idle])  # fmt: skip
@pytest.mark.parametrize("size", ["server", "narrow"])
def test_five_hundred_slow_clients_hold_up_nobody(request, kind, size):
    server = request.getfixturevalue(size)
    with ExitStack() as stack:
        for _ in range(SLOW):
            connection = stack.enter_context(server.socket())
            connection.sendall(kind(server))
        for number in range(5):
            lesson = LESSON | {"title": f"Written among {kind.__name__} {number}"}
            assert server.ask("POST", "/memories", json=lesson).status_code == 201
            assert server.ask("POST", "/search", json={"query": "uploads"}).status_code == 200
            assert server.get("/livez", NONE).status_code == 200


@requirement("SEC-3")
@pytest.mark.parametrize("kind", [slow_heads, silent, idle])
def test_who_comes_in_a_rush_is_served_all_the_same(narrow, kind):
    """More at once than there is room for, and the server was away for a moment."""
    with ExitStack() as stack:
        narrow.process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(SLOW):
                connection = stack.enter_context(narrow.socket())
                connection.sendall(kind(narrow))
            last = stack.enter_context(narrow.socket())
            last.sendall(head(narrow, "Connection: close", method="GET", path="/api/v1/memories"))
        finally:
            narrow.process.send_signal(signal.SIGCONT)
        assert status(everything(last)) == 200


@requirement("SEC-3")
def test_a_client_that_comes_back_again_and_again_holds_up_nobody(narrow):
    """As fast as they are shown out, they come in again; who is quick to ask is served."""
    with ExitStack() as stack:
        for number in range(4 * SLOW):
            connection = stack.enter_context(narrow.socket())
            connection.sendall(slow_heads(narrow))
            if number % 100 == 0:
                assert narrow.ask("GET", "/memories").status_code == 200


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts sockets in /proc")
@pytest.mark.parametrize("path", ["/api/v1/memories?limit=100", "/api/v1/export"])
def test_clients_that_do_not_read_hold_up_nobody_and_are_shown_out(tmp_path, path):
    with serving(tmp_path, REASONBANK_SERVER_CONCURRENCY=4, REASONBANK_SERVER_PATIENCE=1) as server:
        big = LESSON | {"content": "Lots of text. " * 2200}
        for _ in range(150):
            assert server.ask("POST", "/memories", json=big).status_code == 201
        before = sockets(server)
        with ExitStack() as stack:
            for _ in range(10):
                connection = stack.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(60)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(head(server, "Connection: close", method="GET", path=path))
                # One after the other: so many at once would find no place to work at.
                connection.recv(1)
            assert server.ask("GET", "/memories?limit=1").status_code == 200
            until(lambda: sockets(server) <= before)


def sockets(server):
    found = 0
    for handle in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += handle.readlink().name.startswith("socket:")
    return found


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


@requirement("SEC-3")
@pytest.mark.parametrize("kind", [slow_heads, slow_bodies, slow_imports, unwanted_bodies, silent])
def test_a_slow_client_is_shown_out_though_there_is_room(server, kind):
    raw = server.raw(kind(server))
    assert status(raw) in (None, 401, 408)


class Guest:
    """What a room knows of a connection."""

    def __init__(self, stage, since, address="a"):
        self.stage, self.since, self.address = stage, since, address
        self.gone = self.inside = self.served = False
        self.transport = self

    def abort(self):
        self.gone, self.inside = True, False

    def come_in(self):
        self.inside = True

    def wait_in_line(self):
        assert not self.inside

    def turn_away(self):
        self.abort()


@pytest.mark.parametrize(("guests", "first"), [
    # The one that keeps the server waiting the longest; never one that the server works for.
    ([(Stage.SERVER, 0), (Stage.IDLE, 5), (Stage.IDLE, 3)], 2),
    ([(Stage.SERVER, 0), (Stage.BODY, 3), (Stage.IDLE, 5)], 2),
    ([(Stage.READER, 3), (Stage.BODY, 5), (Stage.SERVER, 0)], 1),
    ([(Stage.LEAVING, 9), (Stage.IDLE, 5), (Stage.IDLE, 3)], 0),
    # A newcomer gets a moment.
    ([(Stage.IDLE, 99.5), (Stage.BODY, 5), (Stage.SERVER, 3)], 1),
    # Of those who are alike, one of the address that has the most.
    ([(Stage.IDLE, 1, "b"), (Stage.IDLE, 3), (Stage.IDLE, 5)], 1),
    ([(Stage.SERVER, 1), (Stage.SERVER, 3), (Stage.SERVER, 5)], None),
])  # fmt: skip
def test_who_has_to_make_room(guests, first):
    room = Room(len(guests), lambda: 100.0)
    inside = [Guest(*guest) for guest in guests]
    for guest in inside:
        room.enter(guest)
    assert all(guest.inside for guest in inside)
    newcomer = Guest(Stage.IDLE, 100.0)
    room.enter(newcomer)
    assert newcomer.inside is (first is not None)
    assert [number for number, guest in enumerate(inside) if guest.gone] == (
        [] if first is None else [first]
    )


def test_who_finds_all_served_waits_in_line():
    room = Room(2, lambda: 100.0)
    served = [Guest(Stage.SERVER, 100.0) for _ in range(2)]
    line = [Guest(Stage.IDLE, 100.0) for _ in range(3)]
    for guest in served + line:
        room.enter(guest)
    assert [guest.gone for guest in line] == [True, False, False]
    served[0].stage, served[0].served = Stage.IDLE, True
    room.admit()
    assert served[0].gone and line[1].inside and not line[2].inside
    line[1].stage = Stage.SERVER
    room.leave(served[1])
    assert line[2].inside and not line[1].gone


# Where projects lie


@requirement("SEC-8")
def test_a_path_is_shown_to_who_administers_the_project_only(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    secrets = {scope: a_token(tmp_path, scope) for scope in Right}
    bound = {scope: a_token(tmp_path, scope, "--workspace", tmp_path / "a") for scope in Right}
    with serving(tmp_path) as server:
        for name in "ab":
            server.ask("POST", "/memories", json=LESSON, workspace=tmp_path / name)

        def paths(token, tool=False):
            if not tool:
                answer = server.ask("GET", "/workspaces", token, workspace=tmp_path / "a")
                return answer.status_code if answer.is_error else places(answer.json())
            answer = server.ask(
                "POST", f"{server.address}/mcp", token, **called("workspace", tmp_path / "a")
            )
            assert str(tmp_path / "b") not in answer.text or token in whole
            return places(answer.json()["result"]["structuredContent"]["workspaces"])

        whole = (server.token, secrets["admin"])
        for token in whole:
            assert {"a", "b"} <= paths(token) and {"a", "b"} <= paths(token, tool=True)
        for scope in ("read", "write"):
            assert paths(secrets[scope]) == 403
            assert paths(secrets[scope], tool=True) == set()
            assert paths(bound[scope]) == paths(bound[scope], tool=True) == set()
        assert paths(bound["admin"]) == paths(bound["admin"], tool=True) == {"a"}


def places(found):
    return {place["path"].rpartition("/")[2] for place in found if place["path"]}


def called(tool, workspace):
    from tests.surfaces.mcp_http import stateless

    return stateless(tool, {"workspace": str(workspace)})


def test_a_caller_on_this_machine_sees_all_paths():
    assert Caller(local=True).sees_path("any")


# What a terminal shows


STEERING = "\x1b[2J\x1b]0;owned\x07 \x7f \x80\x9b31m \u202e\u2066\u200f\u2028\ufeff end"


def unsafe(text):
    return [c for c in text if not c.isprintable() and c != "\n"]


@requirement("SEC-3")
def test_json_has_no_character_that_steers_a_terminal(tmp_path):
    lesson = {name: f"{text} {STEERING}" for name, text in LESSON.items() if name != "outcome"}
    with serving(tmp_path) as server:
        stored = server.ask("POST", "/memories", json=LESSON | lesson, workspace=tmp_path)
        assert stored.status_code == 201, stored.text
    id = stored.json()["id"]
    for arguments in (("show", id), ("list",), ("search", "uploads"), ("history", id),
                      ("undo", id), ("audit",), ("genealogy", id), ("stats",),
                      ("show", STEERING)):  # fmt: skip
        for form in ("--json", None):
            shown = printed(tmp_path, *filter(None, (form, *arguments)))
            assert not unsafe(shown), (arguments, form)
    assert command(tmp_path, "show", id)[1]["content"] == stored.json()["content"]


def printed(folder, *arguments):
    import subprocess
    import sys

    from tests.surfaces.http_server import environment

    done = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", *arguments], cwd=folder,
        env=environment(folder), capture_output=True, check=False,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr
    return (done.stdout + done.stderr).decode()


@requirement("SEC-3")
def test_every_character_survives_the_way_to_a_terminal():
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000)]))
    shown = as_json(text)
    assert json.loads(shown) == text
    for steering in STEERING.replace(" ", ""):
        assert steering.isprintable() or steering not in shown

"""What is new reaches a page that stays open: whoever wrote it, and only who may hear of it."""

from __future__ import annotations

import json
from contextlib import contextmanager

import httpx2
import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, NONE, a_token, command, serving

REMEMBER = ("record", "--content", "Wait longer each time, and resume where it broke.")


class Heard:
    """What a listener was told, as it comes."""

    def __init__(self, answer):
        self.lines = answer.iter_lines()

    def next(self, *names):
        """The next event by one of these names: its name, its number, what it says."""
        event = {}
        for line in self.lines:
            if line:
                name, _, value = line.partition(":")
                event[name] = value.strip()
            elif event.get("event") in names:
                return event["event"], int(event.get("id", 0)), json.loads(event["data"])
            else:
                event = {}
        raise AssertionError(f"it ended before {names}")

    def recorded(self):
        """The subject of the next memory that was recorded."""
        while True:
            _, seq, told = self.next("change")
            if told["what"] == "memory.recorded":
                return seq, told["subject"]


@contextmanager
def listening(server, token=None, **headers):
    with httpx2.stream(
        "GET", f"{server.address}/api/v1/events", headers=server.allowed(token) | headers,
        timeout=30,
    ) as answer:  # fmt: skip
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        heard = Heard(answer)
        heard.hello = heard.next("hello")[2]
        yield heard


def record(server, workspace=None):
    told = server.ask("POST", "/memories", workspace=workspace, json=LESSON)
    assert told.status_code == 201
    return told.json()["id"]


@requirement("WEB-1")
def test_what_the_server_and_what_a_command_writes_is_heard(tmp_path):
    with serving(tmp_path) as server, listening(server) as heard:
        id = record(server)
        assert heard.recorded()[1] == id
        code, told = command(tmp_path, *REMEMBER)
        assert code == 0
        assert heard.recorded()[1] == told["id"]


@requirement("WEB-1")
def test_whoever_was_away_hears_what_they_missed(tmp_path):
    with serving(tmp_path) as server:
        with listening(server) as heard:
            first = record(server)
            seq, subject = heard.recorded()
            assert subject == first
        missed = record(server)
    with serving(tmp_path) as server, listening(server, **{"Last-Event-ID": str(seq)}) as heard:
        assert heard.recorded()[1] == missed


def test_of_very_much_that_was_missed_only_the_count_is_told(tmp_path):
    with serving(tmp_path) as server:
        for _ in range(101):
            record(server)
        with listening(server, **{"Last-Event-ID": "0"}) as heard:
            _, seq, told = heard.next("many")
            assert told["count"] == told["seq"] == seq > 100
            id = record(server)
            assert heard.recorded()[1] == id


def test_with_several_processes_it_does_not_matter_who_writes(tmp_path):
    with serving(tmp_path, "--processes", 2) as server, listening(server) as heard:
        ids = [record(server) for _ in range(4)]  # Each connection is given to either of the two.
        assert [heard.recorded()[1] for _ in ids] == ids


@requirement("SEC-6")
def test_a_token_hears_of_its_own_workspaces_only(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    with serving(tmp_path) as server:
        record(server, here)
        token = a_token(tmp_path, "read", "--workspace", str(here))
        with listening(server, token) as heard:
            record(server, there)
            mine = record(server, here)
            _, _, told = heard.next("change")
            assert told["subject"] == mine
            assert "Retry uploads" not in json.dumps(told)


@requirement("SEC-6")
def test_a_token_that_was_revoked_hears_no_more_of_what_is_written(tmp_path):
    with serving(tmp_path) as server:
        record(server)
        token = a_token(tmp_path, "read")
        [shown] = [one for one in server.ask("GET", "/tokens").json() if one["scope"] == "read"]
        with listening(server, token) as heard:
            assert server.ask("DELETE", f"/tokens/{shown['id']}").status_code == 200
            record(server)
            with pytest.raises((AssertionError, httpx2.RemoteProtocolError)):
                heard.recorded()


@requirement("SEC-6")
@pytest.mark.parametrize("token", [NONE, "rbk_000000000000_" + "0" * 64])
def test_nobody_listens_without_a_token(tmp_path, token):
    with serving(tmp_path) as server:
        assert server.ask("GET", "/events", token).status_code == 401


def test_a_server_that_stops_says_so_to_who_listens(tmp_path):
    with serving(tmp_path) as server, listening(server) as heard:
        server.process.terminate()
        assert heard.next("end")[2]["seq"] >= heard.hello["seq"]
        assert server.process.wait(30) == 0


def test_no_more_listen_than_there_is_room_for(tmp_path):
    with (
        serving(tmp_path, REASONBANK_SERVER_CONNECTIONS=4) as server,
        listening(server) as heard,
    ):
        full = server.ask("GET", "/events")
        assert (full.status_code, full.headers["retry-after"]) == (429, "15")
        id = record(server)
        assert heard.recorded()[1] == id


@pytest.mark.parametrize("after", ["x", "-1", "9" * 30])
def test_what_is_no_number_of_an_event_is_refused(tmp_path, after):
    with serving(tmp_path) as server:
        assert server.ask("GET", "/events", params={"after": after}).status_code == 400

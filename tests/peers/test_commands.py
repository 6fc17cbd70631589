"""Banks of two people who have never seen this code: through the commands, in other processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from tests.agent.player import Player
from tests.agent.served import served
from tests.requirement import requirement
from tests.surfaces.http_server import command, environment, serving
from tests.surfaces.joined_banks import free_port
from tests.surfaces.test_processes import until

from reasonbank.surfaces.cli import main

LESSON = ("--description", "when it is slow", "--outcome", "success", "--scope", "team")


class Desk:
    """Somebody's machine."""

    def __init__(self, folder, name, url=None):
        self.folder = folder / name
        self.folder.mkdir()
        self.settings = {} if url is None else {"REASONBANK_URL": url}
        self("peer", "init", "--listen", f"127.0.0.1:{free_port()}", "--name", name)

    def __call__(self, *arguments, **settings):
        code, told = command(self.folder, *arguments, **self.settings | settings)
        assert code == 0, told
        return told

    def refused(self, *arguments, **settings):
        code, told = command(self.folder, *arguments, **self.settings | settings)
        assert code != 0, told
        return str(told)

    def learns(self, title):
        return self("record", "--title", title, "--content", f"{title}: do it.", *LESSON)["id"]

    def titles(self):
        return {memory["title"] for memory in self("list", "--limit", "100")}

    def serves(self, *options, **settings):
        return serving(self.folder, "--bus", *options, **self.settings | settings)

    @contextmanager
    def invites(self, *options):
        """`peer invite`, which waits; what it printed, and the process."""
        process = subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", "--json", "peer", "invite", *options],
            env=environment(self.folder, **self.settings), cwd=self.folder,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield json.loads(process.stdout.readline())["invitation"], process
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.fixture
def desks(tmp_path):
    return Desk(tmp_path, "anna"), Desk(tmp_path, "bert")


@requirement("BUS-1", "BUS-2", "BUS-4")
def test_joining_two_banks_takes_two_commands_and_one_pasted_token(desks):
    anna, bert = desks
    theirs, ours = anna.learns("Warm the cache"), bert.learns("Pin the node")
    with anna.invites() as (invitation, _):
        told = bert("peer", "join", invitation)
    assert (told["peer"], told["new"]) == ("anna", 2)
    assert anna.titles() == bert.titles() == {"Warm the cache", "Pin the node"}
    assert [each["id"] for each in bert("review")] == [theirs]
    assert bert("show", theirs)["standing"] == "untested"
    [peer] = anna("peer", "list")
    assert (peer["name"], peer["state"]) == ("bert", "on probation")
    assert anna("peer", "id")["key"] == bert("peer", "list")[0]["key"]
    assert bert("review", "accept", theirs)[0]["standing"] == "confirmed"
    assert ours in {each["id"] for each in anna("review")}


def test_projects_of_other_banks_are_listed_as_theirs(desks):
    anna, bert = desks
    anna.learns("Warm the cache")
    bert.learns("Pin the node")
    with anna.invites() as (invitation, _):
        bert("peer", "join", invitation)
    anna("peer", "trust", "bert")
    bert.learns("Drain it first")
    with anna.serves() as server:
        bert("peer", "sync")
        places = [(place["peer"], place["memories"]) for place in anna("workspace", "list")]
        # What it said before it was trusted stays where a stranger's words are.
        assert sorted(places, key=str) == [("bert", 1), ("bert", 1), (None, 1)]
        [here] = server.ask("GET", "/session").json()["workspaces"]
        assert here["path"] == str(anna.folder)


@requirement("BUS-4", "BUS-5")
def test_a_bank_on_a_server_learns_together_with_one_in_a_file(tmp_path, postgres_url):
    anna, bert = Desk(tmp_path, "anna", postgres_url), Desk(tmp_path, "bert")
    theirs, ours = anna.learns("Warm the cache"), bert.learns("Pin the node")
    with anna.serves():
        invitation = anna("peer", "invite", "--no-wait")["invitation"]
        bert("peer", "join", invitation)
        assert anna.titles() == bert.titles() == {"Warm the cache", "Pin the node"}
        assert anna("show", ours)["standing"] == bert("show", theirs)["standing"] == "untested"
        with bert.serves():
            anna("update", theirs, "--content", "Warm it at night.")
            until(lambda: bert("show", theirs)["content"] == "Warm it at night.")
            bert("forget", ours, "--yes")
            until(lambda: anna.titles() == {"Warm the cache"})
    told = bert("peer", "revoke", "anna", "--revert")
    assert len(told["reverted"]["archived"]) == 1


@requirement("BUS-1", "BUS-3")
def test_a_task_that_is_offered_is_done_by_the_other_bank_and_comes_back(desks):
    anna, bert = desks
    with served(Player()) as model, anna.serves():
        invitation = anna("peer", "invite", "--no-wait", "--spend", "1")["invitation"]
        bert("peer", "join", invitation)
        anna("peer", "offer", "Write a function that adds two numbers", "--most", "0.5")
        [offer] = anna("peer", "offers")
        assert (offer["state"], offer["trace"]) == ("open", None)
        with bert.serves("--tasks", **model):
            until(lambda: anna("peer", "offers")[0]["state"] == "done")
    [offer] = anna("peer", "offers")
    assert (offer["peer"], offer["ours"]) == ("bert", True)
    [trace] = anna("trace", "list")
    assert trace["id"] == offer["trace"] and trace["task"].startswith("Write a function")
    assert [(each["ours"], each["state"]) for each in bert("peer", "offers")] == [(False, "done")]
    assert bert("trace", "list") == []  # What strangers want done is not learned from.


@requirement("BUS-2", "BUS-3")
def test_who_is_not_invited_is_refused_and_an_invitation_is_good_for_one(desks, tmp_path):
    anna, bert = desks
    carl = Desk(tmp_path, "carl")
    anna.learns("Warm the cache")
    with anna.invites() as (invitation, _):
        bert("peer", "join", invitation)
    with anna.serves():
        assert "another bank" in carl.refused("peer", "join", invitation)
        assert "not whole" in carl.refused("peer", "join", invitation[:-20])
        late = anna("peer", "invite", "--no-wait", "--expires", "0")["invitation"]
        assert "expired" in carl.refused("peer", "join", late)
        anna("peer", "revoke", "bert")
        assert "cut off" in bert.refused("peer", "sync")
        assert carl.titles() == set()
        good = anna("peer", "invite", "--no-wait")["invitation"]
        assert carl("peer", "join", good)["new"] == 2
    assert carl.titles() == {"Warm the cache"}


@requirement("BUS-2")
def test_who_was_cut_off_comes_back_by_a_new_invitation_and_by_no_old_one(desks):
    anna, bert = desks
    anna.learns("Warm the cache")
    with anna.serves():
        used = anna("peer", "invite", "--no-wait")["invitation"]
        unused = anna("peer", "invite", "--no-wait")["invitation"]
        bert("peer", "join", used)
        anna("peer", "revoke", "bert")
        assert "taken back" in bert.refused("peer", "join", used)
        assert "new invitation" in bert.refused("peer", "join", unused)
        new = anna("peer", "invite", "--no-wait")["invitation"]
        bert("peer", "join", new)
        bert.learns("Pin the node")
        bert("peer", "sync")
    assert anna.titles() == {"Warm the cache", "Pin the node"}
    assert [peer["state"] for peer in anna("peer", "list")] == ["on probation"]


@requirement("BUS-3")
def test_a_second_invitation_shares_a_project_too_while_both_are_served(desks):
    anna, bert = desks
    anna("record", "--title", "Of the shop", "--content", "x", *LESSON[:4])
    with anna.serves(), bert.serves():
        bert("peer", "join", anna("peer", "invite", "--no-wait")["invitation"])
        more = anna("peer", "invite", "--no-wait", "--project", "shop")["invitation"]
        bert("peer", "join", more, "--project", "shop")
        anna.learns("Of the team")
        until(lambda: bert.titles() == {"Of the shop", "Of the team"})
        [peer] = anna("peer", "list")
        assert peer["channels"] == ["project:shop", "team:local/default"]


def test_what_would_break_what_others_read_is_refused_at_the_door(desks):
    anna, _ = desks
    own = anna("peer", "invite", "--no-wait")["invitation"]
    for arguments in (
        ("init", "--name", "n" * 300), ("init", "--name", "a\x1b[31m"),
        ("init", "--listen", "garbage"), ("init", "--address", "h:99999"),
        ("invite", "--no-wait", "--expires", "nan"), ("invite", "--no-wait", "--stays", "inf"),
        ("invite", "--no-wait", "--spend", "-1"), ("narrow", own, "--stays", "-1"),
        ("offer", "x", "--most", "-1"), ("offer", "x", "--most", "nan"),
        ("offer", "x", "--expires", "inf"), ("offer", "x" * 70_000), ("offer", " "),
        ("join", own),
    ):  # fmt: skip
        assert "Traceback" not in anna.refused("peer", *arguments)
    assert anna("peer", "offers") == anna("peer", "list") == []
    assert anna("peer", "status")["name"] == "anna"


@requirement("BUS-3")
def test_an_invitation_that_went_astray_is_taken_back(desks):
    anna, bert = desks
    with anna.serves():
        astray = anna("peer", "invite", "--no-wait", "--name", "carla")["invitation"]
        [shown] = anna("peer", "status")["invitations"]
        assert shown["name"] == "carla"
        assert "only a person" in anna.refused("peer", "revoke", shown["id"][:8], CLAUDECODE="1")
        assert anna("peer", "revoke", shown["id"][:8])["invitation"] == shown["id"]
        assert anna("peer", "status")["invitations"] == []
        assert "taken back" in bert.refused("peer", "join", astray)


@requirement("BUS-3")
def test_an_invitation_is_narrowed_and_handed_on_without_asking_anybody(desks, tmp_path):
    anna, bert, carl = *desks, Desk(tmp_path, "carl")
    anna.learns("Warm the cache")
    whole = anna("peer", "invite", "--no-wait", "--spend", "1", "--share", "team",
                 "--share", "org")["invitation"]  # fmt: skip
    less = bert("peer", "narrow", whole, "--share", "team", "--read-only", "--stays", "3")
    assert less["channels"] == ["team:local/default"]
    assert "it shares only" in bert.refused("peer", "narrow", less["invitation"], "--share", "org")
    with anna.serves():
        bert("peer", "join", whole)
        carl.learns("Pin the node")
        carl("peer", "join", less["invitation"])
        assert carl.titles() == {"Warm the cache", "Pin the node"}
        assert anna.titles() == {"Warm the cache"}
        # What bert holds at anna is his to hand on, too.
        dora = Desk(tmp_path, "dora")
        assert "only a person" in bert.refused("peer", "narrow", "anna", CLAUDECODE="1")
        dora("peer", "join", bert("peer", "narrow", "anna", "--share", "team")["invitation"])
        assert dora.titles() == {"Warm the cache"}
        assert "nothing to hand on" in anna.refused("peer", "narrow", "bert")
        anna("peer", "revoke", "bert")
        assert "taken back" in dora.refused("peer", "sync")


@requirement("BUS-4")
def test_banks_that_are_served_keep_in_touch_through_a_kill_and_a_restart(desks):
    anna, bert = desks
    with anna.invites() as (invitation, _):
        bert("peer", "join", invitation)
    with bert.serves():
        with anna.serves() as server:
            anna.learns("First")
            until(lambda: "First" in bert.titles())
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        bert.learns("Meanwhile")
        with anna.serves():
            until(lambda: "Meanwhile" in anna.titles(), 120)
            anna.learns("Afterwards")
            until(lambda: "Afterwards" in bert.titles())


@requirement("BUS-3")
def test_who_may_only_listen_is_not_heard(desks):
    anna, bert = desks
    anna.learns("Warm the cache")
    bert.learns("Pin the node")
    with anna.invites("--read-only") as (invitation, _):
        bert("peer", "join", invitation)
    assert bert.titles() == {"Warm the cache", "Pin the node"}
    assert anna.titles() == {"Warm the cache"}


@requirement("SEC-1")
def test_what_a_bank_brought_goes_with_it_in_one_batch(desks):
    anna, bert = desks
    bert.learns("Pin the node")
    with anna.invites() as (invitation, _):
        bert("peer", "join", invitation)
    told = anna("peer", "revoke", "bert", "--revert")
    assert len(told["reverted"]["archived"]) == 1
    assert anna("list") == []
    assert anna("review") == []
    anna("undo", told["reverted"]["batch"])
    assert anna.titles() == {"Pin the node"}


@requirement("SEC-1", "BUS-3")
def test_an_agent_in_its_shell_invites_joins_and_trusts_nobody(desks):
    """To join is to tell another bank what the team knows."""
    anna, bert = desks
    anna.learns("Warm the cache")
    bert.learns("Pin the node")
    with bert.serves():
        invitation = bert("peer", "invite", "--no-wait")["invitation"]
        for arguments in (
            ("invite", "--no-wait"), ("revoke", "x"), ("init", "--address", "h:1"),
            ("join", invitation), ("join", invitation, "--project", "shop"), ("trust", "x"),
        ):  # fmt: skip
            assert "only a person" in anna.refused("peer", *arguments, CLAUDECODE="1")
        assert bert.titles() == {"Pin the node"}
        assert anna("peer", "list") == bert("peer", "list") == []


def test_a_project_is_shared_by_name(desks):
    anna, bert = desks
    anna("record", "--title", "Of the shop", "--content", "x", *LESSON[:4])
    with anna.invites("--project", "shop") as (invitation, _):
        assert "--project shop" in bert.refused("peer", "join", invitation)
        bert("peer", "join", invitation, "--project", "shop")
    assert bert.titles() == {"Of the shop"}


@requirement("BUS-3")
def test_the_name_of_a_shared_project_is_never_another_folder_to_who_hears_of_it(desks, tmp_path):
    anna, bert, carl = *desks, Desk(tmp_path, "carl")
    elsewhere = anna.folder / "elsewhere"
    elsewhere.mkdir()
    anna("record", "--title", "Of the shop", "--content", "x", *LESSON[:4])
    anna("record", "--title", "Private", "--content", "x", *LESSON[:4],
         "--workspace", elsewhere)  # fmt: skip
    with anna.invites("--project", "shop") as (invitation, _):
        bert("peer", "join", invitation, "--project", "shop")
    told = anna.refused("peer", "invite", "--project", "shop", "--workspace", elsewhere)
    assert "another name" in told
    # Nor does somebody get what is called like theirs.
    with carl.serves():
        theirs = carl("peer", "invite", "--no-wait", "--project", "shop")["invitation"]
        assert "--project shop" in anna.refused("peer", "join", theirs)
    assert anna("peer", "status")["channels"] == ["project:shop"]
    assert carl.titles() == set()


def test_a_bank_that_cannot_be_reached_says_so_in_a_sentence(desks):
    anna, bert = desks
    gone = anna("peer", "invite", "--no-wait")["invitation"]
    told = bert.refused("peer", "join", gone)
    assert "Traceback" not in told and "127.0.0.1" in told


@pytest.mark.parametrize("words", [
    ("init",), ("id",), ("invite",), ("join", "rbp_x"), ("narrow", "rbp_x"), ("list",),
    ("status",), ("sync",), ("revoke", "x"), ("trust", "x"), ("offer", "x"),
])  # fmt: skip
def test_without_its_libraries_the_bus_says_what_to_install(tmp_path, monkeypatch, words):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("REASONBANK_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reasonbank.peers._NEEDED", ("a_library_that_is_not_here",))
    done = CliRunner().invoke(main, ["peer", *words])
    assert (done.exit_code, "pip install 'reasonbank[bus]'" in done.output) == (4, True)
    assert not (tmp_path / ".local").exists()


def test_where_there_is_no_bank_no_key_is_made_up(tmp_path):
    for words in (("id",), ("init",), ("status",)):
        code, told = command(tmp_path, "peer", *words)
        assert (code, "there is no bank at" in str(told)) == (3, True), told


def test_an_invitation_to_where_nobody_can_listen_is_not_made(desks):
    anna, _ = desks
    anna("peer", "init", "--listen", "192.0.2.1:7433")
    assert "cannot listen at 192.0.2.1:7433" in anna.refused("peer", "invite")
    assert anna("peer", "status")["invitations"] == []


def test_a_place_or_a_project_without_a_name_is_refused(desks):
    anna, _ = desks
    for option in ("--address", "--listen"):
        assert "no place" in anna.refused("peer", "init", option, "127.0.0.1:0")
    assert "project" in anna.refused("peer", "invite", "--no-wait", "--project", "")
    assert anna("peer", "status")["invitations"] == []


def test_who_cannot_be_called_is_named(desks):
    anna, bert = desks
    with anna.invites() as (invitation, _):
        bert("peer", "join", invitation)
    assert "bert calls this bank" in anna.refused("peer", "sync", "bert")
    assert anna("peer", "sync") == []
    bert("peer", "revoke", "anna")
    assert "anna was cut off" in bert.refused("peer", "sync", "anna")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts in /proc")
def test_the_bus_says_where_it_listens_and_that_the_place_is_taken(desks):
    anna, _ = desks
    with anna.serves() as server:
        assert "Other banks reach this one at" in (server.folder / "stderr").read_text()
        code, told = command(anna.folder, "serve", "--bus", "--port", "0")
        assert code == 4, told

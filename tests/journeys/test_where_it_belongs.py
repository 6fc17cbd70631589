"""Where a memory belongs, at the door: commands, servers and agents that stand in some folder."""

import json
import os
import subprocess
import sys

import anyio
import click
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.requirement import requirement
from tests.store.test_projects import folder, id_of, linked, repository
from tests.surfaces.http_server import serving

from reasonbank import Bank, Settings
from reasonbank.settings import Embed
from reasonbank.surfaces.cli.shell import main
from reasonbank.testing import a_memory

HASHED = Settings(embed=Embed(model="hashed"))
LESSON = ("record", "--title", "Retry uploads", "--description", "When an upload fails",
          "--content", "Wait longer each time.", "--outcome", "success")  # fmt: skip


class Machine:
    """A home folder, and commands that are typed in some folder of it."""

    def __init__(self, home):
        self.home = home
        self.environment = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
        } | {"HOME": str(home), "REASONBANK_EMBED_MODEL": "hashed", "COLUMNS": "200"}
        self.bank = home / ".local" / "share" / "reasonbank" / "bank.db"

    def run(self, *words, cwd=None, rc=0, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "reasonbank.surfaces.cli", *words], cwd=cwd or self.home,
            env=self.environment | variables, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert rc is None or done.returncode == rc, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words, cwd=None, rc=0):
        return json.loads(self.run(*words, "--json", cwd=cwd, rc=rc).stdout)

    def found(self, cwd, *words):
        reply = self.json("search", "retry uploads", *words, cwd=cwd)
        return [memory["title"] for memory in reply["memories"]], reply.get("hint")

    def open(self, path):
        """As a program of the time did that made every folder a workspace of its own."""
        bank = Bank.open(str(self.bank), workspace=self.home, settings=HASHED)
        return bank.seen_by(workspace=id_of(path), path=str(path))


@pytest.fixture
def machine(tmp_path):
    return Machine(folder(tmp_path / "home"))


@requirement("WSP-1")
def test_what_is_learned_at_the_root_is_known_in_every_folder_and_worktree(machine):
    root = repository(machine.home / "project")
    tree = linked(root / ".git", machine.home / "tree")
    machine.run(*LESSON, cwd=root)
    for place in (folder(root / "src" / "deep"), tree, folder(tree / "src")):
        assert machine.found(place)[0] == ["Retry uploads"]
    machine.run(*LESSON, "--title", "From below", cwd=root / "src" / "deep")
    assert machine.found(root)[0] == ["Retry uploads", "From below"]
    (place,) = machine.json("workspace", "list")
    assert (place["id"], place["path"], place["memories"]) == (id_of(root), str(root), 2)
    assert machine.found(folder(machine.home / "elsewhere")) == ([], None)


@requirement("WSP-1")
def test_a_folder_that_was_a_workspace_is_told_of_and_merged(machine):
    root = repository(machine.home / "project")
    part = folder(root / "part")
    with machine.open(part) as bank:
        bank.record(a_memory(title="Known in the part"))
    assert machine.found(part)[0] == ["Known in the part"]
    found, hint = machine.found(root)
    assert found == []
    assert f"{part} (1 memory)" in hint and "workspace merge" in hint
    assert str(part) in machine.run("search", "retry uploads", cwd=root).stdout
    machine.run(*LESSON, cwd=root)
    machine.run("workspace", "merge", "part", ".", cwd=root)
    assert sorted(machine.found(part)[0]) == ["Known in the part", "Retry uploads"]
    assert len(machine.json("workspace", "list")) == 1


@requirement("WSP-1")
def test_only_who_may_know_of_others_is_told_of_them(machine, tmp_path):
    root = repository(machine.home / "project")
    part = folder(root / "part")
    url = f"sqlite:///{tmp_path}/served.db"
    with Bank.open(url, workspace=root, settings=HASHED) as bank:
        bank.seen_by(workspace=id_of(part), path=str(part)).record(a_memory())
    asked = {"json": {"query": "retry uploads"}}
    with serving(tmp_path, REASONBANK_URL=url, REASONBANK_EMBED_MODEL="hashed") as server:
        reply = server.ask("POST", "search", workspace=root, **asked).json()
        assert reply["memories"] == [] and str(part) in reply["hint"]
        for wanted in (
            {"scope": "admin", "workspaces": [str(root)]},
            {"scope": "read"},
            {"scope": "write", "workspaces": [str(root), id_of(part)]},
        ):
            token = server.ask("POST", "tokens", json=wanted).json()["token"]
            reply = server.ask("POST", "search", token=token, workspace=root, **asked).json()
            assert reply["memories"] == [] and "hint" not in reply, wanted
        # A header and a parameter are resolved as the command's folder is.
        deep = folder(root / "src")
        lesson = a_memory(title="Over HTTP").to_json()
        told = {name: lesson[name] for name in ("title", "description", "content", "outcome")}
        stored = server.ask("POST", "memories", workspace=deep, json=told).json()
        assert stored["workspace"] == id_of(root)


@requirement("WSP-1")
def test_an_agent_in_a_folder_of_the_project_knows_the_project(machine):
    root = repository(machine.home / "project")
    deep = folder(root / "src")
    other = repository(machine.home / "other")
    machine.run(*LESSON, cwd=root)
    machine.run(*LESSON, "--title", "Of the other", cwd=other)

    async def talk():
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "reasonbank.surfaces.cli", "mcp"], cwd=deep,
            env=machine.environment,
        )  # fmt: skip

        async def titles(client, **place):
            given = {"query": "retry uploads", **place}
            answer = json.loads((await client.call_tool("memory_search", given)).content[0].text)
            return [memory["title"] for memory in answer["memories"]], answer.get("hint")

        async with Client(stdio_client(server)) as client:
            assert await titles(client) == (["Retry uploads"], None)
            there = str(folder(other / "lib"))
            assert await titles(client, workspace=there) == (["Of the other"], None)
            part = folder(machine.home / "other" / "lib" / "part")
            found, hint = await titles(client, workspace=str(machine.home))
            assert found == [] and str(other) in hint
            answer = await client.call_tool("workspace", {"action": "switch", "target": str(part)})
            assert answer.structured_content["workspace"] == str(other)

    anyio.run(talk)


@requirement("WSP-1", "WSP-4")
def test_a_workspace_is_called_by_its_path_also_when_the_folder_is_gone(machine):
    one, other = folder(machine.home / "one"), folder(machine.home / "other")
    for place in (one, other):
        machine.run(*LESSON, cwd=place)
    machine.run("workspace", "name", str(one), "the one")
    machine.run("workspace", "name", ".", "the other", cwd=other)
    refused = machine.run("workspace", "delete", str(folder(one / "sub")), "--yes", rc=3)
    assert f"({one})" in refused.stderr
    (one / "sub").rmdir()
    one.rename(machine.home / "moved")
    moved = machine.json("workspace", "move", str(one), str(machine.home / "moved"))
    assert (moved["name"], moved["path"]) == ("the one", str(machine.home / "moved"))
    assert machine.found(machine.home / "moved")[0] == ["Retry uploads"]
    (machine.home / "moved").rmdir()
    machine.run("workspace", "merge", str(machine.home / "moved"), "../other", cwd=other)
    other.rename(machine.home / "away")
    gone = machine.json("workspace", "delete", str(other), "--yes", cwd=machine.home / "away")
    assert (gone["id"], gone["memories"]) == (id_of(other), 2)
    assert machine.json("workspace", "list") == []
    machine.run("workspace", "delete", str(other), "--yes", rc=3)


@requirement("WSP-4")
def test_who_stands_in_a_folder_that_is_gone_can_delete_its_workspace(machine):
    gone = folder(machine.home / "gone")
    machine.run(*LESSON, cwd=gone)
    command = f'rmdir "$PWD" && exec {sys.executable} -m reasonbank.surfaces.cli "$@"'
    for words in (["list"], ["workspace", "delete", str(gone), "--yes"]):
        folder(gone)
        done = subprocess.run(
            ["sh", "-c", command, "sh", *words, "--json"], cwd=gone,
            env=machine.environment | {"PWD": str(gone)}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["memories"] == 1


@requirement("WSP-1")
def test_a_workspace_is_put_into_a_team_at_the_door(machine):
    one, other = folder(machine.home / "one"), folder(machine.home / "other")
    machine.run(*LESSON, "--scope", "team", cwd=one)
    assert machine.found(other)[0] == ["Retry uploads"]
    assert machine.json("workspace", "join", "--team", "blue", "--org", "acme", cwd=other)["team"]
    assert machine.found(other)[0] == []
    machine.run("workspace", "join", str(one), "--team", "blue", "--org", "acme")
    assert machine.found(other)[0] == ["Retry uploads"]
    machine.run("workspace", "join", rc=2)


# A bank that is not there


CREATING = {
    "record", "remember", "import", "trace store", "distil", "capture", "ticket prepare", "solve",
    "worker", "token create", "workspace join", "mcp", "serve", "mirror", "peer invite",
    "peer join",
}  # fmt: skip
CHOICES = {
    "feedback": ["--helpful"], "outcome": ["--succeeded", "--session", "s"],
    "stability": ["00000000-0000-7000-8000-000000000001", "--kept"],
    "update": ["--title", "Another"], "revert": ["--author", "somebody"],
}  # fmt: skip
NO_BANK = {
    "hook": "never makes one, and ends its process: test_hook_process.py",
    "demo": "has one of its own", "llm check": "asks the model only",
    "install": "writes the configs of agents", "uninstall": "likewise",
    "migrate": "is given two banks by name, and makes the second: test_move_a_bank.py",
}  # fmt: skip


def commands(group=main, prefix=""):
    found = {}
    for name, each in (group.load() if group is main else group.commands).items():
        if isinstance(each, click.Group):
            found |= commands(each, f"{name} ")
        else:
            found[f"{prefix}{name}"] = each
    return found


def words_for(name, command, file):
    """Something for whatever the command needs."""
    words = [*CHOICES.get(name, ())]
    for parameter in command.params:
        if parameter.required and not getattr(parameter, "is_flag", False):
            kind = parameter.type
            value = (
                str(file) if isinstance(kind, click.Path)
                else kind.choices[0] if isinstance(kind, click.Choice)
                else "1" if kind is click.INT
                else "0.5" if kind is click.FLOAT
                else "00000000-0000-7000-8000-000000000001"
            )  # fmt: skip
            option = isinstance(parameter, click.Option)
            words += [parameter.opts[0], value] if option else [value]
    return words


@requirement("CLI-5")
def test_what_only_reads_makes_no_bank_and_says_where_none_is(tmp_path, monkeypatch):
    """Every command there is, in this process: only what is named above may make one."""
    from click.testing import CliRunner

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REASONBANK_EMBED_MODEL", "hashed")
    monkeypatch.delenv("REASONBANK_URL", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.json").write_text("{}")
    reading = {n: c for n, c in commands().items() if n not in CREATING and n not in NO_BANK}
    assert len(reading) > 30 and commands().keys() >= CREATING | NO_BANK.keys()
    for name, each in sorted(reading.items()):
        output = tmp_path / "output"
        words = words_for(name, each, output if "export" in name else tmp_path / "given.json")
        mistyped = tmp_path / "no such folder" / "bank.db"
        done = CliRunner().invoke(main, ["--json", "--bank", str(mistyped), *name.split(), *words])
        assert done.exit_code in (3, 5), (name, done.output)
        assert f"there is no bank at {mistyped}" in done.output, name
        assert not mistyped.parent.exists(), name
        done = CliRunner().invoke(main, [*name.split(), *words])
        assert done.exit_code in (0, 2, 3, 4), (name, done.output)
        assert not (tmp_path / ".local").exists(), name


@requirement("CLI-5")
def test_a_mistyped_bank_is_no_new_bank_and_a_new_one_is_told_of(machine):
    machine.run(*LESSON)
    for named in (
        machine.run("--bank", "typo/bank.db", "list", rc=3),
        machine.run("list", rc=3, REASONBANK_URL="typo/bank.db"),
        machine.run("doctor", "--bank", "typo/bank.db", rc=5),
    ):
        told = " ".join((named.stdout + named.stderr).split())
        assert f"there is no bank at {machine.home}/typo/bank.db" in told
    assert not (machine.home / "typo").exists()
    wrong = machine.run("list", "--json", rc=3, REASONBANK_URL="typo/bank.db")
    assert json.loads(wrong.stdout)["error"] == "NotFound"
    made = machine.run("--bank", "mine/bank.db", *LESSON, "--json")
    assert f"Made a new bank at {machine.home}/mine/bank.db" in made.stderr
    assert json.loads(made.stdout)["title"] == "Retry uploads"
    assert "Made" not in machine.run("--bank", "mine/bank.db", *LESSON).stderr


@pytest.mark.parametrize("url", [":memory:", "sqlite:///:memory:"])
def test_a_bank_in_memory_is_refused_rather_than_a_file_of_that_name(machine, url):
    refused = machine.run("--bank", url, *LESSON, rc=2)
    assert "names no file; use sqlite:///path/to/bank.db" in refused.stderr
    assert not (machine.home / ":memory:").exists()


@requirement("CLI-5")
def test_on_a_fresh_machine_whoever_looks_finds_nothing_and_leaves_nothing(machine):
    assert machine.json("list") == []
    assert machine.json("search", "retry uploads")["memories"] == []
    assert machine.json("stats")["memories"] == 0
    assert machine.json("doctor")["healthy"]
    assert machine.run("show", "00000000-0000-7000-8000-000000000001", rc=3)
    machine.run("demo")
    assert not machine.bank.exists()
    assert machine.run(*LESSON).stderr == ""
    assert machine.bank.exists()
    assert len(machine.json("list")) == 1


def test_a_library_may_ask_for_a_bank_that_is_there(tmp_path):
    from reasonbank import NotFound

    with pytest.raises(NotFound, match="there is no bank"):
        Bank.open(str(tmp_path / "bank.db"), create=False)
    assert not (tmp_path / "bank.db").exists()
    Bank.open(str(tmp_path / "bank.db"), settings=HASHED).close()
    Bank.open(str(tmp_path / "bank.db"), settings=HASHED, create=False).close()

"""A machine on which agents have worked for long, and `reasonbank backfill` on its first day."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import anyio
import pytest
from tests.journeys.test_where_it_belongs import Machine, folder
from tests.learn import transcript_writers as writers
from tests.learn.test_real_transcripts import REAL
from tests.learn.transcript_writers import C, U
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.jobs import reader
from reasonbank.jobs.worker import Worker
from reasonbank.settings import Embed, Settings
from reasonbank.store import working
from reasonbank.store.queue import hand_over

HASHED = Settings(embed=Embed(model="hashed"))
SESSIONS = 40


@pytest.fixture
def machine(tmp_path):
    return Machine(folder(tmp_path / "home"))


def settled(machine):
    """What six agents wrote, where they write it, all in one project."""
    home = machine.home
    project = folder(home / "app")
    places = {
        "claude-code.jsonl": ".claude/projects/-home-me-app/d80a8d80.jsonl",
        "codex.jsonl": ".codex/sessions/2026/11/16/rollout-2026-11-16T07-51-32-01a1e357.jsonl",
        "gemini-cli.jsonl": ".gemini/tmp/app/chats/session-2026-11-16T07-51-46ccc467.jsonl",
        "qwen-code.jsonl": ".qwen/projects/-home-me-app/chats/622f7402.jsonl",
        "copilot-cli.jsonl": ".copilot/session-state/36f1f6d8/events.jsonl",
    }
    for source, place in places.items():
        path = home / place
        path.parent.mkdir(parents=True)
        path.write_text((REAL / source).read_text().replace("/home/me/app", str(project)))
    data = folder(home / ".local" / "share" / "opencode")
    with sqlite3.connect(data / "opencode.db") as db:
        db.executescript((REAL / "opencode.sql").read_text().replace("/home/me/app", str(project)))
    db.close()
    return project


def write(machine, number, steps, project):
    """A session of Claude Code."""
    lines = writers.claude_code(f"s{number}", steps)
    path = folder(machine.home / ".claude" / "projects" / "p") / f"s{number}.jsonl"
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text.replace("/home/me/app", str(project)))
    return path


def mended(number):
    return [
        U(f"Make part {number} build"),
        C(f"make part{number}", 2, f"fatal error: part{number}.h: No such file or directory"),
        C(f"apt-get install part{number}-dev"),
        C(f"make part{number}", 0, "ok"),
    ]


@requirement("DIS-8")
def test_what_six_agents_wrote_down_is_learned_from_once(machine):
    project = settled(machine)
    look = machine.json("backfill", "--dry-run")
    assert look["sessions"] == 6 and look["lessons"] >= 6
    assert look["agents"] == dict.fromkeys(
        ("claude-code", "codex", "copilot-cli", "gemini-cli", "opencode", "qwen-code"), 1
    )
    assert look["projects"] == [{"path": str(project), "sessions": 6, "gone": False}]
    assert look["tokens"] is None and look["cost"] is None
    assert not machine.bank.exists(), "nothing was changed"
    done = machine.json("backfill")
    assert (done["found"], done["new"], done["read"], done["failed"]) == (6, 6, 6, [])
    assert len(machine.json("trace", "list", cwd=project)) == 6
    known = machine.json("list", cwd=project)
    assert len(known) == len(done["memories"]) >= 1
    assert any("greet" in memory["title"] for memory in known)
    again = machine.json("backfill")
    assert (again["new"], again["read"], again["known"]) == (0, 0, 6)
    assert machine.json("list", cwd=project) == known
    assert "6 were read before" in machine.run("backfill").stdout


def test_only_what_has_grown_is_read_again(machine):
    project = folder(machine.home / "app")
    paths = [write(machine, number, mended(number), project) for number in range(3)]
    machine.json("backfill")
    more = [C("pytest -q", 1, "E   ModuleNotFoundError: No module named 'requests'"),
            C("pip install requests"), C("pytest -q", 0, "3 passed in 0.1s")]  # fmt: skip
    write(machine, 1, [*mended(1), *more], project)
    os.utime(paths[2])
    done = machine.json("backfill")
    assert done["known"] == 1 and done["read"] == 2
    assert len(done["memories"]) == 1, "one was only touched"
    assert len(machine.json("trace", "list", cwd=project)) == 3


def test_agents_and_times_can_be_chosen(machine):
    project = settled(machine)
    old = write(machine, 1, mended(1), project)
    os.utime(old, (1_700_000_000, 1_700_000_000))
    for words, sessions in (
        (["--agent", "codex", "--agent", "opencode"], 2), (["--agent", "claude-code"], 2),
        (["--agent", "claude-code", "--since", "2024-01-01"], 1),
        (["--since", "9999d"], 7), (["--since", "2023-11-01"], 7),
    ):  # fmt: skip
        assert machine.json("backfill", "--dry-run", *words)["sessions"] == sessions, words
    assert "30d" in machine.run("backfill", "--since", "soon", rc=2).stderr
    machine.run("backfill", "--agent", "cursor", rc=2)


def test_the_agents_own_variables_say_where_to_look(machine):
    project = settled(machine)
    elsewhere = folder(machine.home / "elsewhere")
    variables = {"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex", "QWEN_HOME": ".qwen",
                 "COPILOT_HOME": ".copilot"}  # fmt: skip
    for name in (*variables.values(), ".gemini"):
        shutil.move(machine.home / name, elsewhere / name)
    shutil.move(machine.home / ".local" / "share", elsewhere / "share")
    assert "No sessions" in machine.run("backfill").stdout
    assert not machine.bank.exists()
    told = {name: str(elsewhere / folder) for name, folder in variables.items()}
    told |= {"GEMINI_CLI_HOME": str(elsewhere), "XDG_DATA_HOME": str(elsewhere / "share")}
    assert "Read 6 sessions" in machine.run("backfill", cwd=project, **told).stdout


def test_a_project_whose_folder_is_gone_is_learned_for_all_the_same(machine):
    gone = machine.home / "gone"
    write(machine, 1, mended(1), gone)
    look = machine.json("backfill", "--dry-run")
    assert look["projects"] == [{"path": str(gone), "sessions": 1, "gone": True}]
    assert "(the folder is gone)" in machine.run("backfill", "--dry-run").stdout
    assert len(machine.json("backfill")["memories"]) == 1
    assert [place["path"] for place in machine.json("workspace", "list")] == [str(gone)]


def test_what_cannot_be_read_is_named_and_the_rest_is_learned(machine):
    project = folder(machine.home / "app")
    good = write(machine, 1, mended(1), project)
    (good.parent / "bad.jsonl").write_text('{"hello": "world"}\n')
    (good.parent / "link.jsonl").symlink_to(good)
    os.mkfifo(good.parent / "pipe.jsonl")
    (good.parent / "agent-1.jsonl").write_text(good.read_text())
    assert len(machine.json("backfill", "--dry-run")["unreadable"]) == 1
    done = machine.json("backfill")
    assert done["found"] == done["new"] == 2
    assert len(done["memories"]) == 1
    [(path, reason)] = done["failed"]
    assert path.endswith("bad.jsonl") and "no transcript" in reason
    assert "is known" in machine.run("queue", "list").stdout


def test_with_a_model_it_says_how_many_tokens_that_takes(machine):
    project = folder(machine.home / "app")
    for number in range(3):
        write(machine, number, mended(number), project)
    words = ("backfill", "--dry-run", "--json")
    model = {"REASONBANK_LLM_PROVIDER": "ollama", "REASONBANK_LLM_MODEL": "none such"}
    told = machine.run(*words, **model).stdout
    assert '"tokens": null' not in told and '"tokens"' in told
    assert "tokens" in machine.run("backfill", "--dry-run", **model).stdout


def test_whoever_works_on_the_bank_learns(machine):
    project = folder(machine.home / "app")
    write(machine, 1, mended(1), project)
    url = f"sqlite:///{machine.bank}"
    folder(machine.bank.parent)
    with Bank.open(url, workspace=project, settings=HASHED, background=True) as bank:
        until(lambda: working.who(bank.context))
        done = machine.json("backfill")
        assert done["by"] and done["read"] == 0 and done["new"] == 1
        until(lambda: [trace for trace in bank.traces() if trace.memories_learned])


def test_what_was_read_and_not_learned_from_yet_is_learned_from(machine):
    project = folder(machine.home / "app")
    path = write(machine, 1, mended(1), project)
    folder(machine.bank.parent)
    url = f"sqlite:///{machine.bank}"
    with Bank.open(url, workspace=machine.home, settings=HASHED) as bank:
        hand_over(bank.context, agent="claude-code", session="", path=str(path))
        anyio.run(lambda: Worker(bank.context, reader.tasks()).run(until_empty=True))
        assert [job.state for job in bank.within(project).jobs()] == ["waiting"]
    done = machine.json("backfill")
    assert (done["new"], done["known"], done["learned_from"]) == (0, 1, 1)
    assert len(done["memories"]) == 1


def test_a_model_that_costs_money_is_not_asked_unasked(machine):
    project = folder(machine.home / "app")
    write(machine, 1, mended(1), project)
    model = {"REASONBANK_LLM_PROVIDER": "openai", "REASONBANK_LLM_MODEL": "some-model"}
    refused = machine.run("backfill", rc=4, **model)
    assert "tokens" in refused.stderr and "--yes" in refused.stderr
    assert not machine.bank.exists()
    rules = model | {"REASONBANK_LEARN_REASONER": "rules"}
    assert "learned 1 memory" in machine.run("backfill", **rules).stdout
    machine.run("backfill", **model)


def until(happened):
    """Looks again and again, and does something else meanwhile."""
    for _ in range(1000):
        if happened():
            return
        subprocess.run([sys.executable, "-c", ""], check=True)
    raise AssertionError("it never happened")


def interrupted(machine, number):
    """Stopped by a signal in the midst of it; what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "backfill"], cwd=machine.home,
        env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_midst_and_begun_again_nothing_is_doubled_or_lost(machine, number):
    project = folder(machine.home / "app")
    sessions, code, out, err = 0, 0, "", ""
    while code == 0:  # It was done before the signal came: there must be more to do.
        assert sessions < 100 * SESSIONS, "the signal does nothing"
        more = max(SESSIONS, sessions)
        for session in range(sessions, sessions + more):
            write(machine, session, mended(session), project)
        sessions += more
        code, out, err = interrupted(machine, number)
    if number is signal.SIGINT:
        assert code == 130 and "goes on from here" in out and "Traceback" not in err
    machine.json("backfill")
    traces = machine.json("trace", "list", "--limit", "10000", cwd=project)
    assert len(traces) == len({trace["metadata"]["session"] for trace in traces}) == sessions
    memories = machine.json("list", "--limit", "10000", cwd=project)
    learned = [id for trace in traces for id in trace["memories_learned"]]
    assert sorted(learned) == sorted(memory["id"] for memory in memories)
    assert all(trace["metadata"]["learned_steps"] == 4 for trace in traces)
    assert machine.json("backfill")["known"] == sessions

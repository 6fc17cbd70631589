"""The command `reasonbank`: its flags, its JSON, its tables, its exit codes."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.requirement import requirement

from reasonbank import Bank, Settings
from reasonbank.embed.minilm import MiniLM
from reasonbank.settings import Embed
from reasonbank.surfaces import cli

COMMAND = str(Path(sys.executable).with_name("reasonbank"))
LESSON = ["--title", "Retry uploads", "--description", "When an upload fails",
          "--content", "Wait longer each time.", "--outcome", "success"]  # fmt: skip
WARNING = ["--title", "Lock rows by id", "--description", "When workers share a table",
           "--content", "Opposite orders wait for each other.", "--outcome", "failure",
           "--error-type", "DeadlockDetected", "--failure-pattern", "rows locked in two orders",
           "--guidance", "sort the ids first"]  # fmt: skip

NOBODY = "01a1dd00-0000-7000-8000-000000000000"


class Shell:
    """Runs commands in this process; every command says in time if it went wrong."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            "REASONBANK_URL": f"sqlite:///{folder}/bank.db",
            "REASONBANK_EMBED_MODEL": "hashed",
            "COLUMNS": "200",
        }

    def __call__(self, *arguments, code=0, input=None, **environment):
        result = CliRunner().invoke(
            cli.main, arguments, input=input, env=self.environment | environment
        )
        unexpected = result.exception and not isinstance(result.exception, SystemExit)
        assert not unexpected, result.exception
        assert result.exit_code == code, (result.output, arguments)
        return result

    def text(self, *arguments, **options):
        return self(*arguments, **options).stdout

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "--json", **options).stdout)

    def record(self, *arguments):
        return self.json("record", *(arguments or LESSON))["id"]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    Bank.open(
        f"sqlite:///{tmp_path}/bank.db", settings=Settings(embed=Embed(model="hashed"))
    ).close()
    return Shell(tmp_path)


@requirement("CLI-1")
def test_record_answers_with_the_memory_as_it_was_stored(shell):
    answer = shell.json("record", *LESSON)
    assert (answer["confidence"], answer["revision"], answer["state"]) == (0.8, 1, "active")
    assert shell.json("show", answer["id"])["title"] == "Retry uploads"


@requirement("CLI-1")
def test_record_takes_every_flag(shell):
    id = shell.record(
        *WARNING, "--tag", "sql", "--tag", "locks", "--scope", "team", "--domain", "databases"
    )
    shown = shell.json("show", id)
    assert shown["tags"] == ["sql", "locks"]
    assert (shown["scope"], shown["domain"]) == ("team", "databases")
    assert shown["outcome"] == "failure"
    assert shown["error_context"]["error_type"] == "DeadlockDetected"
    assert shown["error_context"]["failure_pattern"] == "rows locked in two orders"
    assert shown["error_context"]["corrective_guidance"] == "sort the ids first"


def test_content_can_come_from_standard_input(shell):
    lesson = [*LESSON]
    lesson[lesson.index("--content") + 1] = "-"
    id = shell.json("record", *lesson, input="two\nlines\n")["id"]
    assert shell.json("show", id)["content"] == "two\nlines\n"


@requirement("CLI-1")
def test_search_answers_with_what_scripts_rely_on(shell):
    id = shell.record()
    shell.record(*WARNING)
    answer = shell.json("search", "uploads")
    assert {"memories", "total_found", "tokens_used", "embedder", "degraded"} <= set(answer)
    assert (answer["embedder"], answer["degraded"]) == ("hashed-384", True)
    hit = answer["memories"][0]
    assert hit["id"] == id
    assert {"id", "title", "description", "content", "outcome", "confidence", "usage_count",
            "relevance", "scope", "warning"} <= set(hit)  # fmt: skip
    assert answer["tokens_used"] > 0


@requirement("CLI-1")
def test_search_takes_every_flag(shell):
    id = shell.record(*WARNING, "--tag", "x")
    other = shell.record(*LESSON, "--tag", "y")
    everything = ["search", "rows uploads"]
    both = {m["id"] for m in shell.json(*everything)["memories"]}
    assert both == {id, other}

    def ids(*flags):
        return [m["id"] for m in shell.json(*everything, *flags)["memories"]]

    assert ids("--tag", "x") == ids("--outcome", "failure") == [id]
    assert ids("--error-type", "DeadlockDetected") == [id]
    assert ids("--outcome", "success") == ids("--tag", "y") == [other]
    assert len(ids("--limit", "1")) == 1
    assert ids("--scope", "org") == ids("--state", "archived") == []
    assert ids("--min-confidence", "0.9") == []
    assert set(ids("--scope", "project", "--outcome", "all", "--newer-than", "1")) == both
    assert ids("--older-than", "1") == []
    explained = shell.json(*everything, "--limit", "1", "--explain")
    assert {"cosine", "bm25", "score"} <= set(explained["memories"][0]["parts"])
    assert len(explained["dropped"]) == 1


@requirement("CLI-1")
def test_feedback_and_outcome_answer_with_the_new_confidence(shell):
    id = shell.record()
    after = shell.json("feedback", id, "--helpful", "--comment", "saved my day")["confidence"]
    assert after > 0.8
    assert shell.json("feedback", id, "--unhelpful")["confidence"] < after
    once = shell.json("outcome", id, "--succeeded", "--session", "s")["confidence"]
    assert shell.json("outcome", id, "--succeeded", "--session", "s")["confidence"] == once
    assert shell.json("outcome", id, "--failed")["confidence"] < once
    assert shell.json("show", id)["evidence"][-1]["comment"] == "saved my day"


@requirement("CLI-1")
def test_the_outcome_of_a_session_credits_all_that_it_found(shell):
    id = shell.record()
    shell.json("search", "uploads", "--session", "task-7")
    assert shell.json("outcome", "--succeeded", "--session", "task-7") == {
        "credited": 1,
        "held_out": False,
    }
    assert shell.json("show", id)["confidence"] > 0.8


@requirement("CLI-1")
def test_update_history_undo_archive_restore_and_forget(shell):
    id = shell.record()
    assert shell.json("update", id, "--title", "Better", "--tag", "t")["revision"] == 2
    assert shell.json("undo", id)["title"] == "Retry uploads"
    assert shell.json("undo", id, "--to", "2")["title"] == "Better"
    assert shell.json("archive", id)["state"] == "archived"
    assert shell.json("restore", id)["state"] == "active"
    changes = [entry["change"] for entry in shell.json("history", id)]
    assert changes == ["recorded", "revised", "undone", "undone", "archived", "restored"]
    assert shell.json("history", id)[0]["surface"] == "cli"
    assert shell.json("forget", id, "--yes")["id"] == id
    shell("show", id, code=4)


@requirement("CLI-1")
def test_links_genealogy_recommend_list_stats_and_maintain(shell):
    parent = shell.record()
    child = shell.record(*LESSON, "--parent", parent)
    assert shell.json("link", parent, child, "--type", "causes", "--strength", "0.5")
    assert shell.json("show", child)["links"] == [
        {"source": parent, "target": child, "type": "causes", "strength": 0.5}
    ]
    shell.json("link", parent, child, "--type", "causes", "--remove")
    assert shell.json("show", child)["links"] == []
    assert shell.json("genealogy", parent)["descendants"] == [child]
    assert shell.json("recommend", "retry uploads")["strategy"]["id"] in (parent, child)
    assert [m["id"] for m in shell.json("list", "--limit", "1")] == [child]
    assert shell.json("stability", child, "--kept")["confidence"] > 0.8
    assert shell.json("stats")["memories"] == 2
    assert shell.json("stats", "--all")["workspaces"] == 1
    assert shell.json("maintain", "--rebuild")["pruned"] == []
    assert shell.json("reindex")["embedder"] == "hashed-384"


@requirement("CLI-1")
def test_workspaces_are_listed_named_moved_and_deleted(shell, tmp_path):
    id = shell.record()
    [place] = shell.json("workspace", "list")
    assert place["path"] == os.getcwd()
    assert shell.json("workspace", "name", place["id"], "mine")["name"] == "mine"
    moved = shell.json("workspace", "move", "mine", str(tmp_path / "elsewhere"))
    assert moved["path"] == str(tmp_path / "elsewhere")
    shell("show", id, code=3)
    assert shell.json("show", id, "--workspace", str(tmp_path / "elsewhere"))["id"] == id
    assert shell.json("workspace", "delete", "mine", code=4)["error"] == "ConfirmationNeeded"
    assert shell.json("workspace", "delete", "mine", "--yes")["memories"] == 1
    assert shell.json("workspace", "list") == []


@requirement("CLI-1")
def test_a_bank_goes_out_to_a_file_and_into_another_bank(shell, tmp_path):
    id = shell.record()
    shell.json("feedback", id, "--helpful")
    file = str(tmp_path / "out.jsonl")
    assert shell.json("export", file)["count"] == 3
    other = {"REASONBANK_URL": f"sqlite:///{tmp_path}/other.db"}
    assert shell.json("import", "--trusted", file, **other)["new"] == 3
    assert shell.json("import", "--trusted", file, **other)["new"] == 0
    assert shell.json("show", id, **other) == shell.json("show", id)
    assert shell("export", "-").stdout == Path(file).read_text()
    shell.json("export", str(tmp_path / "out.md"))
    assert (tmp_path / "out.md").read_text().startswith("# Memories")
    piped = {"REASONBANK_URL": f"sqlite:///{tmp_path}/piped.db"}
    told = shell.json("import", "--trusted", "-", input=Path(file).read_text(), **piped)
    assert told["new"] == 3
    assert sorted(p.name for p in tmp_path.glob("*.part")) == []


@requirement("CLI-1")
def test_json_may_be_asked_for_before_or_after_the_command(shell):
    shell.record()
    first = json.loads(shell("--json", "list").stdout)
    assert first == json.loads(shell("list", "--json").stdout)


def test_the_bank_is_the_one_that_was_named_last_of_all_by_the_environment(shell, tmp_path):
    shell.record()
    named = f"sqlite:///{tmp_path}/named.db"
    shell("record", *LESSON, "--bank", named)
    for arguments in (("--bank", named, "stats"), ("stats", "--bank", named)):
        assert shell.json(*arguments)["store"] == named
    assert shell.json("stats")["store"] == shell.environment["REASONBANK_URL"]


def test_the_workspace_is_this_directory_or_the_one_that_is_named(shell, tmp_path):
    id = shell.record()
    assert shell.json("show", id, "--workspace", os.getcwd())
    shell("show", id, "--workspace", str(tmp_path), code=3)
    shell("--workspace", str(tmp_path), "show", id, code=3)


@requirement("CLI-1")
def test_every_command_takes_json():
    groups = cli.main.load()["workspace"].commands
    for command in [*cli.main.load().values(), *groups.values()]:
        if not hasattr(command, "commands"):
            options = {option for param in command.params for option in param.opts}
            # An agent that calls a hook says itself where it works.
            wanted = {"--json", "--bank", *(() if command.name == "hook" else ("--workspace",))}
            assert wanted <= options, command.name
            assert command.help, command.name


@requirement("CLI-1")
def test_traces_are_stored_listed_shown_and_purged(shell, tmp_path):
    file = tmp_path / "trace.json"
    step = {"iteration": 1, "action": "think", "content": "try it"}
    file.write_text(json.dumps({"task": "fix it", "outcome": "success", "trajectory": [step]}))
    id = shell.json("trace", "store", str(file))["id"]
    assert shell.json("trace", "show", id)["trajectory"] == [step]
    assert [t["id"] for t in shell.json("trace", "list")] == [id]
    assert "fix it" in shell.text("trace", "list")
    assert "try it" in shell.text("trace", "show", id)
    assert shell.json("trace", "purge", "--older-than", "1") == {"purged": 0}
    assert shell.json("trace", "purge", "--older-than", "0") == {"purged": 1}
    assert shell.json("trace", "list") == []


# What people see


@requirement("CLI-1")
def test_people_get_tables(shell, tmp_path):
    id = shell.record(*WARNING, "--tag", "sql")
    child = shell.record(*LESSON, "--parent", id)
    shell("feedback", id, "--helpful")
    listed = shell.text("list").splitlines()
    assert re.match(r"id\s+title\s+confidence\s+used\s+scope\s+state\s+tags", listed[0])
    assert listed[1].startswith(child)
    assert "sql" in listed[2]
    assert re.match(r"revision\s+when\s+change", shell.text("history", id))
    found = shell.text("search", "rows locked", "--explain")
    assert "Lock rows by id" in found
    assert "Warning: DeadlockDetected" in found
    assert "bm25" in found
    assert "hashed-384 · degraded" in found
    assert re.search(r"when\s+kind", shell.text("show", id))
    assert "led to" in shell.text("genealogy", id)
    assert re.search(r"memories\s+2", shell.text("stats"))
    assert re.search(r"id\s+name\s+path", shell.text("workspace", "list"))
    assert re.search(r"what\s+found\s+repair", shell.text("doctor"))
    assert "confidence 0.8" in shell.text("outcome", child, "--failed")


def test_stored_text_cannot_steer_the_terminal(shell):
    id = shell.record("--title", "red \x1b[31m", "--description", "\x1b]0;title\x07",
                      "--content", "\x1b[2J gone", "--outcome", "success")  # fmt: skip
    for command in (["search", "red gone"], ["show", id], ["list"], ["history", id]):
        shown = shell.text(*command)
        assert "red" in shown
        assert "\x1b" not in shown


def test_an_empty_bank_says_so(shell):
    assert "No memories here" in shell.text("list")
    assert "Nothing relevant enough" in shell.text("search", "anything")
    assert "No workspaces yet" in shell.text("workspace", "list")


def test_text_that_looks_like_markup_is_shown_as_it_is(shell):
    lesson = [*LESSON]
    lesson[1] = "[bold red]Retry[/] uploads [/nonsense]"
    id = shell.record(*lesson)
    for arguments in (("list",), ("search", "uploads"), ("show", id), ("history", id),
                      ("genealogy", id), ("recommend", "uploads")):  # fmt: skip
        assert "[bold red]Retry[/] uploads [/nonsense]" in shell.text(*arguments), arguments


@requirement("CLI-1")
@requirement("RET-11")
@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (["reindex"], "Embedding"),
        (["export", "{folder}/log.jsonl"], "Exporting"),
        (["export", "{folder}/all.md"], "Exporting"),
        (["import", "{folder}/memories.jsonl"], "Importing"),
        (["maintain", "--rebuild"], "Rebuilding"),
        (["consolidate"], "Merging"),
        (["backup", "{folder}/backup"], "Copying"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_long_work_shows_a_progress_bar_where_somebody_looks(shell, tmp_path, arguments, label):
    shell.record()
    shell.record()
    told = dict(zip(("title", "description", "content", "outcome"), LESSON[1::2], strict=True))
    (tmp_path / "memories.jsonl").write_text(json.dumps(told))
    command = [COMMAND, *(each.format(folder=tmp_path) for each in arguments)]
    far, near = pty.openpty()
    environment = os.environ | shell.environment | {"TERM": "xterm"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=near, check=True
    )  # fmt: skip
    os.close(near)
    drawn = os.read(far, 100_000).decode(errors="replace")
    os.close(far)
    assert label in drawn
    assert "━" in drawn
    assert b"\xe2\x94\x81" not in done.stdout


@requirement("CLI-1")
def test_where_nobody_looks_short_work_is_silent(shell):
    shell.record()
    environment = os.environ | shell.environment
    for arguments in (["reindex"], ["export", "-"], ["maintain", "--rebuild"]):
        quiet = subprocess.run([COMMAND, *arguments], env=environment, capture_output=True,
                               check=True)  # fmt: skip
        assert quiet.stderr == b"", arguments


@requirement("RET-11")
def test_long_work_tells_how_far_it_is_where_its_output_goes_to_a_pipe(shell, tmp_path):
    file = tmp_path / "memories.jsonl"
    told = dict(zip(("title", "description", "content", "outcome"), LESSON[1::2], strict=True))
    lines = [json.dumps(told | {"title": f"Lesson {i}"}) + "\n" for i in range(300)]
    file.write_text("".join(lines))
    log = tmp_path / "log.jsonl"

    def told_by(*arguments, **settings):
        done = subprocess.run(
            [COMMAND, *arguments], env=os.environ | shell.environment | settings,
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        assert "of 300" not in done.stdout
        return done.stderr

    tenths = [30 * tenth for tenth in range(1, 11)]
    first = told_by("import", str(file)).splitlines()
    assert first[:10] == [f"Importing {done} of 300" for done in tenths]
    assert first[-1] == "Embedding 300 of 300"
    assert told_by("import", str(file), "--json") == ""
    other = {"REASONBANK_EMBED_MODEL": "minilm"}
    again = told_by("reindex", **other).splitlines()
    assert again[-1] == "Embedding 300 of 300" and len(again) >= 4
    assert told_by("export", str(log)).splitlines()[-1] == "Exporting 601 of 601"
    assert told_by("maintain", "--rebuild").splitlines()[-1] == "Rebuilding 601 of 601"
    restored = {"REASONBANK_URL": f"sqlite:///{tmp_path}/restored.db"}
    assert "Importing 601 of 601\n" in told_by("import", str(log), "--trusted", **restored)
    file.write_text(lines[0])
    assert told_by("import", str(file)) == "", "a few are done before anybody wonders"


# When it goes wrong


@requirement("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "not-an-id"], 2, "not-an-id"),
        (["show", NOBODY], 3, "there is no memory"),
        (["feedback", NOBODY, "--helpful"], 3, "there is no memory"),
        (["feedback", NOBODY], 2, "--helpful"),
        (["outcome", "--succeeded"], 2, "id"),
        (["record", *LESSON[:-1], "triumph"], 2, "success, failure, mixed"),
        (["record", *LESSON, "--scope", "galaxy"], 2, "project, team, org"),
        (["record", *LESSON, "--error-type", "KeyError"], 2, "failure_pattern"),
        (["record", *LESSON[:4]], 2, "--content"),
        (["record", "--title", " ", *LESSON[2:]], 2, "title"),
        (["record", *LESSON, "--parent", NOBODY], 3, "parents"),
        (["search", "x", "--limit", "0"], 2, "limit"),
        (["search", "x", "--limit", "many"], 2, "--limit"),
        (["search", "x", "--min-confidence", "nan"], 2, "min_confidence"),
        (["search", "x", "--newer-than", "nan"], 2, "newer-than"),
        (["search", "x", "--state", "lost"], 2, "state"),
        (["search", " "], 2, "query"),
        (["update", NOBODY], 2, "nothing to change"),
        (["workspace", "delete", "nowhere", "--yes"], 3, "nowhere"),
        (["import", "/nowhere/file"], 2, "/nowhere/file"),
        (["export", "/nowhere/file"], 2, "/nowhere/file"),
        (["stats", "--bank", "sqlite:////dev/null/bank.db"], 5, "/dev/null"),
        (["stats", "--bank", "mysql://host/bank"], 2, "mysql"),
        (["dance"], 2, "dance"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_goes_wrong_is_said_in_a_line_and_in_the_exit_code(shell, arguments, code, said):
    result = shell(*arguments, code=code)
    assert said in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output


@requirement("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "code", "error", "field"),
    [
        (["show", NOBODY], 3, "NotFound", None),
        (["record", "--title", "", *LESSON[2:]], 2, "InvalidInput", "title"),
        (["stats", "--bank", "mysql://x"], 2, "InvalidSetting", "url"),
        (["search"], 2, "UsageError", None),
        (["search", "x", "--limit", "many"], 2, "UsageError", None),
        (["record"], 2, "UsageError", None),
    ],
)
def test_json_is_printed_for_errors_too(shell, arguments, code, error, field):
    answer = shell.json(*arguments, code=code)
    assert answer["error"] == error
    assert answer.get("field") == field
    assert answer["message"]


@requirement("CLI-1")
def test_what_is_destroyed_for_good_needs_a_yes(shell):
    id = shell.record()
    assert "--yes" in shell("forget", id, code=4).stderr
    assert shell.json("forget", id, code=4)["error"] == "ConfirmationNeeded"
    assert shell.json("show", id)["id"] == id
    shell("forget", id, "--yes")
    assert "forgotten for good" in shell("show", id, code=4).stderr


@requirement("CLI-1")
def test_the_exit_codes_are_documented_where_people_look():
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    for code in range(7):
        assert re.search(rf"^\| {code} \| \w", reference, re.MULTILINE), code


# doctor


@requirement("CLI-4")
@requirement("RET-1")
def test_doctor_finds_a_sound_installation_sound_and_names_the_model(shell):
    report = shell.json("doctor", REASONBANK_EMBED_MODEL="minilm")
    assert report["healthy"]
    assert {check["status"] for check in report["checks"]} == {"ok"}
    found = {check["name"]: check["found"] for check in report["checks"]}
    assert found["embedder"].startswith(f"{MiniLM.name}, offline, run by ")
    assert found["store"] == shell.environment["REASONBANK_URL"]
    numbers = shell.json("stats", REASONBANK_EMBED_MODEL="minilm")
    assert numbers["embedder"] == MiniLM.name


@requirement("CLI-4")
def test_doctor_says_how_to_leave_the_degraded_mode(shell):
    report = shell.json("doctor")
    [check] = [check for check in report["checks"] if check["name"] == "embedder"]
    assert check["status"] == "warn"
    assert "degraded" in check["found"]
    assert "embed.model" in check["repair"]
    assert "reasonbank reindex" in check["repair"]


@requirement("CLI-4")
def test_doctor_sends_vectors_of_another_model_to_reindex_and_that_repairs_it(shell):
    shell.record()
    minilm = {"REASONBANK_EMBED_MODEL": "minilm"}

    def vectors():
        report = shell.json("doctor", **minilm)
        return next(check for check in report["checks"] if check["name"] == "vectors")

    assert vectors()["status"] == "warn"
    assert vectors()["repair"] == "reasonbank reindex"
    shell("reindex", **minilm)
    assert vectors()["status"] == "ok"


@requirement("CLI-4")
@pytest.mark.parametrize(
    ("environment", "name", "said"),
    [
        ({"REASONBANK_SERCH": "1"}, "settings", "serch"),
        ({"REASONBANK_CONFIG": "/nowhere.toml"}, "settings", "/nowhere.toml"),
        ({"REASONBANK_URL": "sqlite:////dev/null/bank.db"}, "store", "/dev/null"),
    ],
)
def test_doctor_names_what_is_broken_and_the_repair(shell, environment, name, said):
    report = shell.json("doctor", code=5, **environment)
    assert not report["healthy"]
    check = report["checks"][-1]
    assert (check["name"], check["status"]) == (name, "fail")
    assert said in check["found"]
    assert check["repair"]


@requirement("CLI-4")
def test_doctor_looks_at_all_there_is_and_says_that_nobody_works(shell):
    shell("remember", "When CI breaks, use npm ci.")
    found = {check["name"]: check for check in shell.json("doctor")["checks"]}
    assert found.keys() >= {
        "settings", "store", "disk", "embedder", "model", "queue", "worker", "clock", "log",
        "vectors", "workspace",
    }  # fmt: skip
    assert found["worker"]["found"].startswith("nobody just now")


@requirement("CLI-4")
def test_doctor_tells_a_file_that_is_no_bank(shell, tmp_path):
    (tmp_path / "bank.db").write_text("a shopping list, not a database " * 100)
    report = shell.json("doctor", code=5)
    assert "not a ReasonBank" in report["checks"][-1]["found"]
    assert (tmp_path / "bank.db").read_text().startswith("a shopping list")


# The real thing


@requirement("CLI-1")
def test_the_installed_command_works_as_a_process(shell, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [COMMAND, *arguments], env=os.environ | shell.environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    assert "reasonbank, version" in run("--version").stdout
    assert run("--help").returncode == 0
    recorded = run("--json", "record", *LESSON)
    id = json.loads(recorded.stdout)["id"]
    found = run("search", "uploads", "--json")
    assert json.loads(found.stdout)["memories"][0]["id"] == id
    assert run("show", NOBODY).returncode == 3
    refused = run("forget", id)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "--yes" in refused.stderr
    assert run("show", id).stderr == ""


@requirement("CLI-4")
def test_the_demo_shows_how_outcomes_change_what_is_answered_first(shell, tmp_path):
    scenes = shell.json("demo", REASONBANK_EMBED_MODEL="minilm", TMPDIR=str(tmp_path))
    told, first, again, mistake, unknown = (s["reply"] for s in scenes if s["reply"])
    learned = scenes[0]["learned"]
    assert len(learned) == 2, "from two sessions that two agents wrote down"
    assert told["memories"][0]["title"] in learned
    assert "docker compose up -d db" in str(told["memories"][0])
    trust = {title: after - before for s in scenes for title, before, after in s["confidence"]}
    assert first["memories"][0]["title"] != again["memories"][0]["title"]
    assert trust[again["memories"][0]["title"]] > 0 > trust[first["memories"][0]["title"]]
    assert mistake["memories"][0]["warning"]
    assert unknown["memories"] == []
    assert not first["degraded"]
    assert shell.json("list") == []
    assert not list(tmp_path.glob("reasonbank-demo-*"))

"""A person at a terminal of 80 columns: what they type, and what they see."""

import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tests.requirement import requirement
from tests.surfaces.terminal import COMMAND, at_a_terminal, too_wide

from reasonbank import Bank, Memory, NotFound, Settings, Trace
from reasonbank.settings import Embed, ProofSettings
from reasonbank.surfaces import cli
from reasonbank.surfaces.cli import overview
from reasonbank.surfaces.show.fitting import clean, columns, shortener, wrapped

TITLES = (
    "Retry uploads with exponential back-off when the object store answers with 503 Slow Down",
    "数据库迁移失败时先检查锁再重新执行迁移脚本,不要在高峰期直接修改大表的结构",
    "👩‍💻 Deploy 🚀 nur freitags vermeiden, sonst ist am Wochenende niemand da 🎉🎉🎉",
    "テストが不安定なときは時計を固定し、乱数の種を記録してから再実行すること",
    "می‌خواهم پیش از استقرار، نسخهٔ پشتیبان بگیرم",
    "test_the_scheduler_starts_no_job_twice is flaky",
    "Install from the lockfile in CI",
)
HASHED = Settings(embed=Embed(model="hashed"))


class Person:
    def __init__(self, folder):
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.url = f"sqlite:///{folder}/bank.db"
        self.environment = {"REASONBANK_URL": self.url, "REASONBANK_EMBED_MODEL": "hashed"}

    def bank(self):
        return Bank.open(self.url, workspace=self.project, settings=HASHED)

    def sees(self, *arguments, code=0, **environment):
        seen, ended = at_a_terminal(arguments, self.environment | environment)
        assert ended == code, seen
        return seen

    def pipes(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | self.environment
        return subprocess.run(
            [COMMAND, *arguments], env=environment, capture_output=True, text=True, check=True
        ).stdout

    def types(self, *arguments, code=0, json=False):
        """In this process, which is quicker."""
        result = CliRunner().invoke(cli.main, arguments, env=self.environment | {"COLUMNS": "80"})
        assert result.exit_code == code, (result.output, result.exception)
        return result


@pytest.fixture
def person(tmp_path, monkeypatch):
    found = Person(tmp_path)
    monkeypatch.chdir(found.project)
    return found


@pytest.fixture
def full(person):
    """With 30 memories of long titles in several scripts, and all that tables show."""
    with person.bank() as bank:
        stored = [
            bank.record(Memory(
                title=f"{TITLES[n % 7]} {n}", description=f"When {TITLES[(n + 1) % 7]}",
                content=f"{TITLES[n % 7]}. {TITLES[(n + 2) % 7] * 2}", outcome="failure",
                tags=("ci", "kubernetes-networking-and-ingress")[: n % 3],
                scope="team" if n % 5 == 0 else "project",
            ))
            for n in range(30)
        ]  # fmt: skip
        bank.link(stored[0].id, stored[1].id, type="contradicts")
        bank.link(stored[0].id, stored[2].id, type="similar")
        bank.search("uploads", session="a task with a rather long name of 2026-03-01")
        bank.feedback(stored[0].id, helpful=True, comment=TITLES[0] * 2, session=TITLES[3])
        bank.update(stored[0].id, title=f"{TITLES[1]}!")
        for title in TITLES[:3]:
            bank.distil(Trace(task=title * 30))
        child = Memory(title="child", description="d", content="c", outcome="success",
                       parents=tuple(each.id for each in stored[:3]))  # fmt: skip
        bank.record(child)
        bank.archive(stored[4].id)
    person.stored = stored
    person.child = child
    return person


def ids_in(table):
    return [line.split()[0] for line in table.splitlines() if re.match(r"[0-9a-f-]{8,36} ", line)]


# Ids and tables


@requirement("CLI-5")
def test_every_table_fits_80_columns_in_every_script(full):
    first, child = full.stored[0].id, full.child.id
    for command in (
        ["list", "--state", "all"], ["search", "uploads slow", "--explain"], ["show", first],
        ["show", child], ["history", first], ["genealogy", child], ["audit"], ["trace", "list"],
        ["queue", "list"], ["gaps"], ["stats"], ["consolidate", "--dry-run"], ["doctor"],
        ["recommend", "uploads"], ["batches"], ["report"], ["--help"],
    ):  # fmt: skip
        seen = full.sees(*command)
        assert seen
        assert not too_wide(seen), command


@requirement("CLI-5")
def test_an_id_is_copied_from_a_table_in_one_piece_and_names_its_memory(full):
    """All were made in the same minute: ids begin alike, and nobody need see that."""
    seen = full.sees("list", "--limit", "100", "--state", "all")
    copied = ids_in(seen)
    assert len(copied) == 31 == len(set(copied))
    known = {memory.id for memory in (*full.stored, full.child)}
    for part in copied:
        shown = json.loads(full.types("show", part, "--json").stdout)["id"]
        assert shown in known
        known.remove(shown)


@requirement("CLI-5")
@pytest.mark.parametrize(
    ("table", "command"),
    [
        (["trace", "list"], ["trace", "show"]),
        (["queue", "list"], ["queue", "retry"]),
    ],
)
def test_ids_of_other_things_are_copied_too(full, table, command):
    for part in ids_in(full.sees(*table)):
        full.types(*command, part)


def test_a_wide_terminal_shows_whole_ids(full):
    seen, _ = at_a_terminal(["list", "--limit", "3"], full.environment, columns=160)
    assert full.child.id in seen
    assert not too_wide(seen, 160)


@requirement("CLI-5")
def test_commands_answer_with_the_whole_id_of_what_was_named_by_a_part(full):
    id, other = full.stored[1].id, full.stored[2].id

    def told(*arguments):
        return json.loads(full.types(*arguments, "--json").stdout)

    assert told("update", id[-8:], "--domain", "x")["id"] == id
    assert told("feedback", id[-8:], "--helpful")["id"] == id
    assert told("outcome", id[-8:], "--failed")["id"] == id
    assert told("stability", id[-8:], "--kept")["id"] == id
    assert told("archive", id[-8:])["id"] == told("restore", id[-8:])["id"] == id
    linked = told("link", id[-8:], other[-8:])
    assert (linked["source"], linked["target"]) == (id, other)
    assert told("link", id[-8:], other[-8:], "--remove")["source"] == id
    made = ["--title", "t", "--description", "d", "--content", "c", "--outcome", "success"]
    assert told("record", *made, "--parent", id[-8:])["parents"] == [id]
    assert told("genealogy", id[-8:])["id"] == id
    assert told("audit", "--memory", id[-8:])[0]["subject"] == id
    assert told("forget", id[-8:], "--yes")["id"] == id


@requirement("CLI-5")
def test_a_part_that_fits_several_is_refused_and_lists_them(full):
    begin = full.stored[0].id[:8]
    seen = full.types("forget", begin, "--yes", code=2).stderr
    assert "several ids" in seen
    assert full.stored[0].id in seen
    assert len(json.loads(full.types("list", "--limit", "99", "--json").stdout)) == 30


def test_as_many_digits_are_shown_as_tell_ids_apart():
    alike = [f"0000000{n}-0000-7000-8000-000000000000" for n in range(3)]
    short = shortener(alike)
    assert [short(id) for id in alike] == [id[7:] for id in alike]
    late = ["019a1234-0000-7000-8000-000000000001", "019a1234-0000-7000-8000-100000000001"]
    assert [shortener(late)(id) for id in late] == [id[-12:] for id in late]
    assert shortener(late[:1])(late[0]) == "00000001"
    assert shortener([])("a session's name") == "a session's name"


@requirement("CLI-5")
def test_a_list_says_how_many_more_there_are(full):
    assert "… and 25 more; --limit 30" in full.sees("list", "--limit", "5")
    assert "more" not in full.sees("list", "--limit", "30")
    assert "… and 4 more; --limit 6" in full.sees("list", "--limit", "2", "--scope", "team")
    assert "… and more; --limit 4" in full.sees("trace", "list", "--limit", "2")
    assert "more" not in full.sees("queue", "list", "--limit", "3")


@requirement("CLI-5")
def test_what_is_piped_has_no_colour_and_no_cut_words_and_fits_too(full):
    for command in (["list"], ["show", full.stored[0].id], ["search", "uploads"], ["history",
                    full.stored[0].id], ["trace", "list"]):  # fmt: skip
        piped = full.pipes(*command)
        assert "\x1b" not in piped
        assert not too_wide(piped), command
        assert all(line == line.rstrip() for line in piped.splitlines() if "│" not in line)
    listed = full.pipes("list", "--limit", "40")
    assert "kubernetes-networking-and-ingress" in listed
    for word in TITLES[0].split():
        assert re.search(rf"(?<!\S){re.escape(word)}(?!\S)", listed), word
    assert "… and 25 more; --limit 30" in full.pipes("list", "--limit", "5")


def test_words_stay_whole_and_wide_signs_count_twice():
    assert [*wrapped("one two three", 7)] == ["one two", "three"]
    assert [*wrapped("  indented code", 10)] == ["  indented", "code"]
    assert [*wrapped("数据库迁移失败", 6)] == ["数据库", "迁移失", "败"]
    assert [*wrapped("", 10)] == [""]
    assert [columns(text) for text in ("abc", "数据", "e\u0301", "🎉")] == [3, 4, 1, 2]


def test_joiners_are_kept_where_a_script_needs_them_and_nowhere_else():
    persian, family = "می‌خواهم", "👩‍💻"
    assert (clean(persian), clean(family)) == (persian, family)
    assert clean("pay\u200dpal") == "pay�pal"
    assert clean("\u202ereversed") == "�reversed"


# What people type


@requirement("CLI-5")
def test_unquoted_words_are_a_question(full):
    quoted = full.types("search", "retry the uploads now", "--json", "--limit", "3").stdout
    for words in (
        ["search", "retry", "the", "uploads", "now", "--json", "--limit", "3"],
        ["search", "--limit", "3", "--json", "retry", "the", "uploads", "now"],
        ["search", "retry", "the", "--limit", "3", "uploads", "--json", "now"],
    ):
        answer, asked = (json.loads(full.types(*words).stdout), json.loads(quoted))
        assert asked["memories"]
        assert [m["id"] for m in answer["memories"]] == [m["id"] for m in asked["memories"]]
    assert "keywords" in full.types("recommend", "how", "do", "I", "retry").stdout
    task = json.loads(full.types("recommend", "retry", "uploads", "--json").stdout)
    assert sorted(task["keywords"]) == ["retry", "uploads"]
    assert full.types("inject", "retry", "uploads", "--max-tokens", "500").exit_code == 0


def test_a_word_that_looks_like_an_option_is_explained(person):
    seen = person.types("search", "git", "push", "-f", code=2).stderr
    assert "put that in quotes" in seen
    assert "Did you mean '--limit'" in person.types("search", "x", "--limt", "3", code=2).stderr


@requirement("CLI-5")
def test_all_that_is_missing_is_said_at_once(person):
    assert "--content" in person.types("record", "--title", "t", code=2).stderr
    seen = person.types("feedback", code=2).stderr
    assert "ID" in seen
    assert "--helpful or --unhelpful" in seen
    told = json.loads(person.types("link", "--json", code=2).stdout)
    assert told["error"] == "UsageError"
    assert "SOURCE" in told["message"]
    assert "TARGET" in told["message"]


def test_a_mistyped_command_is_corrected(person):
    assert "'search'" in person.types("serch", code=2).stderr
    assert "'consolidate'" in person.types("consolidat", code=2).stderr


@requirement("CLI-5")
def test_commands_are_grouped_by_purpose_a_line_each(person):
    seen = person.types("--help").stdout
    assert not too_wide(seen)
    assert "…" not in seen.partition("Ask:")[2]
    titles = re.findall(r"^(\w+):$", seen, re.MULTILINE)
    assert titles == ["Usage", "Options", *overview.GROUPS][1:]
    for name in cli.main.load():
        assert re.search(rf"^  {name} +\w.*$", seen, re.MULTILINE), f"{name} has no group"


# Sessions


@requirement("CLI-5")
def test_the_outcome_of_a_session_that_nobody_knows_is_refused(full):
    seen = full.types("outcome", "--session", "typo", "--succeeded", code=3).stderr
    assert "nothing is known of a session 'typo'" in seen
    known = full.types("outcome", "--session", "a task with a rather long name of 2026-03-01",
                       "--succeeded").stdout  # fmt: skip
    assert re.match(r"Credited \d+ memories", known)


@pytest.mark.parametrize("how", ["asked in vain", "rated", "recorded", "traced", "ended"])
def test_a_session_is_known_by_whatever_was_done_in_it(person, how):
    name = 'tricky "name" \\ with 数据'
    with person.bank() as bank:
        memory = Memory(title="t", description="d", content="c", outcome="success")
        if how == "asked in vain":
            assert not bank.search("nothing like it", session=name).hits
        elif how == "rated":
            bank.feedback(bank.record(memory).id, helpful=True, session=name)
        elif how == "recorded":
            bank.record(Memory.from_json(memory.to_json() | {"source_session": name}))
        elif how == "traced":
            bank.store_trace(Trace(task="t", metadata={"session": name}))
        else:
            bank.credit(name, succeeded=False)
    assert "Noted" in person.types("outcome", "--session", name, "--succeeded").stdout
    person.types("outcome", "--session", name[1:], "--succeeded", code=3)


def test_a_task_that_was_held_out_may_be_reported(person):
    held = Settings(embed=Embed(model="hashed"), proof=ProofSettings(hold_out=1.0))
    with Bank.open(person.url, workspace=person.project, settings=held) as bank:
        assert bank.search("anything", session="held").held_out
    person.types("outcome", "--session", "held", "--failed")


def test_a_text_that_quotes_a_session_does_not_make_it_known(person):
    with person.bank() as bank:
        bank.record(Memory(title='{"session":"typo"}', description="d", outcome="success",
                           content='a log: {"ids":[],"session":"typo"}'))  # fmt: skip
        with pytest.raises(NotFound, match="typo"):
            bank.credit("typo", succeeded=True, must_be_known=True)
        assert bank.credit("typo", succeeded=True) == 0
        assert bank.credit("typo", succeeded=True, must_be_known=True) == 0


# What servers say


@requirement("CLI-5")
def test_a_server_at_a_terminal_speaks_to_people_and_writes_json_for_programs():
    code = (
        "import logging; from reasonbank.settings import load;"
        "from reasonbank.surfaces import logs;"
        "logs.set_up(load()); log = logging.getLogger('reasonbank.jobs');"
        "log.info('learned %s memories', 3); log.warning('the model is busy');"
        "logging.getLogger('uvicorn.error').info('Waiting for application startup.')"
    )
    python = (sys.executable, "-c", code)
    lines = at_a_terminal([], {}, command=python)[0].splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"\d\d:\d\d:\d\d  learned 3 memories", lines[0])
    assert re.fullmatch(r"\d\d:\d\d:\d\d  Warning: the model is busy", lines[1])
    piped = subprocess.run(python, capture_output=True, text=True, check=True).stderr
    assert [json.loads(line)["message"] for line in piped.splitlines()] == [
        "learned 3 memories", "the model is busy", "Waiting for application startup.",
    ]  # fmt: skip
    asked, _ = at_a_terminal([], {"REASONBANK_LOG_FORMAT": "json"}, command=python)
    assert json.loads(asked.splitlines()[0])["message"] == "learned 3 memories"

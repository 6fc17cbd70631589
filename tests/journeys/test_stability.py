"""A lesson led to a commit; a week later git says whether the code was kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import command

from reasonbank import Bank, Settings, Trace
from reasonbank.learn import git, stability
from reasonbank.model import EvidenceKind, Outcome, Step, new_id
from reasonbank.settings import Embed
from reasonbank.store.commits import commits_of, with_commits
from reasonbank.testing.builders import a_memory

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

SETTINGS = Settings(embed=Embed(model="hashed"))
DAY = 86_400
CODE = "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(5))


class Project:
    """A real repository, whose commits are as old as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self("init", "-q", "-b", "main")
        self.commit({"README.md": "a project\n"}, "Begin", days_ago=30)

    def __call__(self, *words: str, days_ago: float = 0) -> str:
        at = f"{int(time.time() - days_ago * DAY)} +0000"
        environment = os.environ | {
            "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
        }  # fmt: skip
        return subprocess.run(
            ["git", *words], cwd=self.folder, env=environment, check=True, capture_output=True,
            text=True,
        ).stdout  # fmt: skip

    def commit(self, files: dict[str, str | None], title: str, *, days_ago: float) -> str:
        """What git prints of it."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        self("add", "-A")
        return self("commit", "-m", title, "--allow-empty", days_ago=days_ago)

    @property
    def head(self) -> str:
        return self("rev-parse", "HEAD").strip()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def bank(project: Project, tmp_path: Path):
    with Bank.open(
        f"sqlite:///{tmp_path}/bank.db", workspace=project.folder, settings=SETTINGS
    ) as bank:
        yield bank


def a_session(printed: str, *used: str, words: str = "git commit -m steps") -> Trace:
    """One that ended with a commit."""
    step = {"iteration": 1, "action": "command", "content": words,
            "feedback": f"exit code 0\n{printed}"}  # fmt: skip
    return Trace.from_json(
        {"task": "write the steps", "outcome": "success", "trajectory": [step],
         "memories_used": [*used]}
    )  # fmt: skip


def told(bank: Bank, id: str) -> list[bool]:
    found = bank.evidence(id)
    return [each.positive for each in found if each.kind is EvidenceKind.STABILITY]


@requirement("CON-2")
def test_code_that_stayed_for_a_week_speaks_for_its_lesson(project: Project, bank: Bank) -> None:
    memory = bank.record(a_memory())
    bank.store_trace(a_session(project.commit({"steps.py": CODE}, "Steps", days_ago=8), memory.id))
    project.commit({"steps.py": CODE + "# more\n"}, "More", days_ago=5)
    before = bank.get(memory.id).confidence
    [seen] = stability.look(bank.context).commits
    assert seen.kept is True and seen.memories == (memory.id,), seen
    assert told(bank, memory.id) == [], "to look changes nothing"
    assert stability.observe(bank.context).observed == 1
    [observed] = [e for e in bank.evidence(memory.id) if e.kind is EvidenceKind.STABILITY]
    assert observed.positive and observed.rater == "git" and observed.comment == seen.reason
    assert bank.get(memory.id).confidence > before
    assert stability.observe(bank.context) == stability.Looked(commits=()), "once for each"
    assert told(bank, memory.id) == [True]


def revert(project: Project) -> None:
    project("revert", "--no-edit", "HEAD", days_ago=4)


def take_most_away(project: Project) -> None:
    project.commit({"steps.py": CODE[-40:]}, "Another way", days_ago=4)


def remove(project: Project) -> None:
    project.commit({"steps.py": None}, "Clean up", days_ago=4)


def throw_away(project: Project) -> None:
    project("reset", "-q", "--hard", "HEAD~1")


def revert_and_revert_that(project: Project) -> None:
    revert(project)
    project("revert", "--no-edit", "HEAD", days_ago=3)


def change_a_little(project: Project) -> None:
    project.commit({"steps.py": CODE.replace("return 4", "return 5")}, "Fix", days_ago=4)


def rename(project: Project) -> None:
    (project.folder / "package").mkdir()
    project("mv", "steps.py", "package/steps.py")
    project.commit({}, "Move", days_ago=4)


def remove_late(project: Project) -> None:
    project.commit({"steps.py": None}, "Clean up after a week", days_ago=1)


@requirement("CON-2")
@pytest.mark.parametrize(
    ("happens", "kept"),
    [
        (revert, False), (take_most_away, False), (remove, False), (throw_away, False),
        (revert_and_revert_that, True), (change_a_little, True), (rename, True),
        (remove_late, True),
    ],
)  # fmt: skip
def test_git_says_whether_it_was_kept(
    project: Project, bank: Bank, happens: object, kept: bool
) -> None:
    memory = bank.record(a_memory())
    bank.store_trace(a_session(project.commit({"steps.py": CODE}, "Steps", days_ago=9), memory.id))
    happens(project)  # type: ignore[operator]
    [seen] = stability.look(bank.context).commits
    assert seen.kept is kept, seen
    assert stability.observe(bank.context).observed == 1
    assert told(bank, memory.id) == [kept]


def test_what_was_only_taken_away_is_kept_as_long_as_it_stays_away(
    project: Project, bank: Bank
) -> None:
    memory = bank.record(a_memory())
    project.commit({"steps.py": CODE}, "Steps", days_ago=20)
    bank.store_trace(
        a_session(project.commit({"steps.py": None}, "No steps", days_ago=9), memory.id)
    )
    assert [each.kept for each in stability.look(bank.context).commits] == [True]
    project.commit({"steps.py": CODE}, "Steps after all", days_ago=8)
    assert [each.kept for each in stability.look(bank.context).commits] == [False]


def test_nothing_is_said_before_a_week_is_over_nor_of_another_branch(
    project: Project, bank: Bank
) -> None:
    memory = bank.record(a_memory())
    bank.store_trace(a_session(project.commit({"new.py": CODE}, "New", days_ago=3), memory.id))
    project("switch", "-q", "-c", "aside")
    bank.store_trace(a_session(project.commit({"aside.py": CODE}, "Aside", days_ago=9), memory.id))
    project("switch", "-q", "main")
    found = stability.observe(bank.context)
    assert [each.kept for each in found.commits] == [None, None] and found.observed == 0
    assert {each.reason for each in found.commits} == {
        "it is not 7 days old yet", "it is on another branch",
    }  # fmt: skip
    assert told(bank, memory.id) == []


@requirement("DIS-3")
@requirement("CON-2")
def test_a_revert_after_the_sessions_end_is_known_at_once(project: Project, bank: Bank) -> None:
    memory = bank.record(a_memory())
    made = project.commit({"steps.py": CODE}, "Steps", days_ago=2)
    session = replace(a_session(made, memory.id), outcome=None)
    passed = {"iteration": 2, "action": "command", "content": "pytest -q",
              "feedback": "exit code 0\n3 passed in 0.1s"}  # fmt: skip
    session = replace(session, trajectory=(*session.trajectory, Step(**passed)))
    bank.distil(session)
    bank.work()
    assert bank.trace(session.id).outcome is Outcome.SUCCESS
    assert stability.observe(bank.context).observed == 0 and told(bank, memory.id) == []
    project("revert", "--no-edit", "HEAD", days_ago=1)
    assert stability.observe(bank.context).observed == 1
    assert told(bank, memory.id) == [False]
    after = bank.trace(session.id)
    assert after.outcome is Outcome.FAILURE
    assert after.metadata["judged"]["by"] == "a git revert"
    assert "reverted it" in after.metadata["judged"]["reason"]
    again = stability.observe(bank.context)
    assert (again.commits, again.observed) == ((), 0)
    bank.store.ledger.write(lambda txn: txn.rebuild())
    assert bank.trace(session.id) == after and told(bank, memory.id) == [False]
    # Nobody used a memory, and it is known all the same.
    alone = replace(session, id=new_id(), memories_used=())
    bank.distil(alone)
    bank.work()
    stability.observe(bank.context)
    assert bank.trace(alone.id).outcome is Outcome.FAILURE


@requirement("DIS-3")
def test_what_the_caller_said_of_a_session_stands_against_a_later_revert(
    project: Project, bank: Bank
) -> None:
    memory = bank.record(a_memory())
    session = a_session(project.commit({"steps.py": CODE}, "Steps", days_ago=2), memory.id)
    bank.distil(session)
    bank.work()
    project("revert", "--no-edit", "HEAD", days_ago=1)
    stability.observe(bank.context)
    assert bank.trace(session.id).outcome is Outcome.SUCCESS
    assert told(bank, memory.id) == [False]


def test_what_was_reverted_and_put_back_within_the_week_was_kept(
    project: Project, tmp_path: Path
) -> None:
    later = [0.0]
    with Bank.open(
        f"sqlite:///{tmp_path}/bank.db", workspace=project.folder, settings=SETTINGS,
        clock=lambda: int((time.time() + later[0] * DAY) * 1e6),
    ) as bank:  # fmt: skip
        memory = bank.record(a_memory())
        made = project.commit({"steps.py": CODE}, "Steps", days_ago=3)
        bank.store_trace(a_session(made, memory.id))
        project("revert", "--no-edit", "HEAD", days_ago=2)
        assert stability.observe(bank.context).observed == 1 and told(bank, memory.id) == [False]
        project("revert", "--no-edit", "HEAD", days_ago=1)
        assert stability.observe(bank.context).observed == 0
        later[0] = 4.5
        assert stability.observe(bank.context).observed == 1 and told(bank, memory.id) == [True]
        assert stability.observe(bank.context).observed == 0


def test_git_tells_of_what_was_given_for_the_commit_and_not_of_other_turns(
    project: Project, bank: Bank
) -> None:
    steps = bank.record(a_memory(title="Write steps as functions", content="One function a step."))
    cake = bank.record(a_memory(title="Bake a cake", content="At 180 degrees in the oven."))
    printed = project.commit({"steps.py": CODE}, "Steps", days_ago=8)

    def now() -> str:
        return datetime.now(UTC).isoformat()

    told_steps: list[dict[str, Any]] = []

    def step(action: str, content: str, feedback: str = "") -> None:
        told_steps.append({"iteration": len(told_steps) + 1, "action": action, "content": content,
                           "feedback": feedback, "at": now()})  # fmt: skip

    step("user", "bake")
    bank.search("bake a cake in the oven", session="s")
    step("edit", "oven.py", "heat = 180")
    step("user", "write the steps")
    bank.search("write steps functions", session="s")
    step("edit", "steps.py", CODE)
    step("command", "git commit -m steps", f"exit code 0\n{printed}")
    bank.store_trace({"task": "bake", "trajectory": told_steps, "metadata": {"session": "s"}})
    assert stability.observe(bank.context).observed == 1
    assert (told(bank, steps.id), told(bank, cake.id)) == ([True], [])


def test_without_a_repository_nothing_is_observed_and_that_is_said(
    project: Project, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = bank.record(a_memory())
    made = project.commit({"steps.py": CODE}, "Steps", days_ago=9)
    bank.store_trace(a_session(made, memory.id))
    with monkeypatch.context() as changed:
        changed.setenv("PATH", "/nowhere")
        assert (
            stability.observe(bank.context).note == "git is not installed; nothing can be observed"
        )
    apart = project.folder.parent / "apart"
    apart.mkdir()
    aside = bank.within(apart)
    mine = aside.record(a_memory())
    aside.store_trace(a_session(made, mine.id))
    found = stability.observe(aside.context)
    assert "no git repository of its own" in str(found.note) and not found.commits
    shutil.move(project.folder / ".git", project.folder.parent / "elsewhere")
    (project.folder / ".git").write_text(f"gitdir: {project.folder.parent / 'elsewhere'}\n")
    assert "elsewhere" in str(stability.observe(bank.context).note)
    shutil.rmtree(project.folder)
    assert "folder is not there" in str(stability.observe(bank.context).note)
    assert told(bank, memory.id) == []


def test_no_program_that_the_repository_names_is_run(
    project: Project, bank: Bank, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    hooks = project.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    memory = bank.record(a_memory())
    made = project.commit({"steps.py": CODE, ".gitattributes": "*.py diff=x filter=x\n"}, "Steps",
                          days_ago=9)  # fmt: skip
    for name in ("core.fsmonitor", "core.pager", "diff.external", "diff.x.textconv",
                 "diff.x.command", "filter.x.smudge", "filter.x.clean", "gpg.program",
                 "core.sshCommand", "core.editor", "uploadpack.packObjectsHook"):  # fmt: skip
        project("config", name, str(program))
    project("config", "log.showSignature", "true")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(program, hooks / hook)
    bank.store_trace(a_session(made, memory.id))
    assert stability.observe(bank.context).observed == 1
    assert not ran.exists()


def test_only_ids_of_commits_reach_git(project: Project) -> None:
    found = git.repository(str(project.folder))
    for id in ("--upload-pack=x", "HEAD", "main", "1234567;ls", "123456", "g" * 40, "", "f" * 40):
        assert found.commit(id) is None
    assert found.commit(project.head[:7]) == project.head


@pytest.mark.parametrize(
    ("words", "printed", "found"),
    [
        ("git commit -m x", "exit code 0\n[main 1a2b3c4] x\n 1 file changed", ["1a2b3c4"]),
        ("git add . && git commit -qam x", "[main (root-commit) 1a2b3c4] x", ["1a2b3c4"]),
        ("git -C . commit -m x", "[detached HEAD 1a2b3c4d5e] x", ["1a2b3c4d5e"]),
        ("git commit -m x", "exit code 1\n[main 1a2b3c4] x", []),
        ("git commit -m x", "nothing to commit", []),
        ("cat log", "[main 1a2b3c4] x", []),
        ("git commit -m x", "[main --option] x", []),
    ],
)
def test_a_session_knows_its_commits(words: str, printed: str, found: list[str]) -> None:
    step = {"iteration": 1, "action": "bash", "content": words, "feedback": printed}
    trace = with_commits(Trace.from_json({"task": "t", "trajectory": [step]}))
    assert commits_of(trace) == found
    assert "commits" in trace.metadata or not found


def test_a_commit_that_was_amended_is_the_later_one_and_a_caller_may_name_one() -> None:
    steps = [
        {"iteration": 1, "action": "bash", "content": "git commit -m x",
         "feedback": "[main 1111111] x"},
        {"iteration": 2, "action": "bash", "content": "git commit --amend -m y",
         "feedback": "[main 2222222] y"},
    ]  # fmt: skip
    trace = Trace.from_json({"task": "t", "trajectory": steps, "metadata": {"commit": "A" * 7}})
    assert commits_of(with_commits(trace)) == ["a" * 7, "2222222"]
    wrong = Trace.from_json({"task": "t", "metadata": {"commits": ["--help", 5, "main"]}})
    assert commits_of(with_commits(wrong)) == []


@requirement("CON-2")
def test_from_a_transcript_to_evidence_with_documented_commands(
    project: Project, tmp_path: Path
) -> None:
    """A session is learned from by rules, a worker takes its daily turn, git has its say."""

    def run(*words: object) -> Any:
        code, told = command(
            tmp_path, "--workspace", project.folder, *words,
            REASONBANK_URL=f"sqlite:///{tmp_path}/bank.db",
        )  # fmt: skip
        assert code == 0, told
        return told

    printed = project.commit({"steps.py": CODE}, "Steps", days_ago=9)
    failure = "E   ModuleNotFoundError: No module named 'steps'\n1 failed in 0.1s"
    told_steps = [("pytest -q", f"exit code 1\n{failure}"),
                  ("pip install -e .", "exit code 0\nSuccessfully installed steps"),
                  ("pytest -q", "exit code 0\n1 passed in 0.1s"),
                  ("git commit -am Steps", f"exit code 0\n{printed}")]  # fmt: skip
    steps = [{"iteration": n, "action": "command", "content": words, "feedback": said}
             for n, (words, said) in enumerate(told_steps, 1)]  # fmt: skip
    file = tmp_path / "session.json"
    file.write_text(json.dumps({"task": "make the steps importable", "trajectory": steps}))
    run("distil", file, "--now")
    [memory] = run("list")
    checked = run("stability", "--check")
    assert [(c["kept"], c["memories"]) for c in checked["commits"]] == [(True, [memory["id"]])]
    assert not [e for e in run("show", memory["id"])["evidence"] if e["kind"] == "stability"]
    run("worker", "--until-empty")
    shown = run("show", memory["id"])
    [seen] = [e for e in shown["evidence"] if e["kind"] == "stability"]
    assert seen["rater"] == "git" and seen["positive"] is True
    [change] = [c for c in run("audit") if c["author"] == "git"]
    assert (change["principal"], change["subject"]) == ("bank", memory["id"])
    assert run("stability", "--observe")["observed"] == 0

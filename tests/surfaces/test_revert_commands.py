"""The command revert, in processes of its own: every step as somebody types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement

COMMAND = Path(sys.executable).with_name("reasonbank")


class Typed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str, by: str = "alice") -> subprocess.CompletedProcess[str]:
        kept = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "REASONBANK_AUTHOR": by}
        return subprocess.run(
            [COMMAND, "--bank", f"sqlite:///{self.folder}/bank.db", *words],
            capture_output=True, text=True, cwd=self.folder, env=kept, check=False,
        )  # fmt: skip

    def json(self, *words: str, by: str = "alice"):
        done = self(*words, "--json", by=by)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def record(self, title: str, by: str = "alice") -> str:
        texts = (
            "--title",
            title,
            "--description",
            f"When {title}",
            "--content",
            f"{title}, always",
        )
        return self.json("record", *texts, "--outcome", "success", by=by)["id"]

    def active(self) -> dict[str, float]:
        return {each["id"]: each["confidence"] for each in self.json("list")}


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


@requirement("SEC-1")
def test_what_somebody_wrote_is_nowhere_after_a_revert_and_back_after_its_undo(typed):
    mine = typed.record("Set timeouts on database queries")
    before = typed.active()
    bad = typed.record("Switch the certificate check off", by="mallory")
    for number in range(3):
        typed.json("outcome", mine, "--failed", "--session", f"s{number}", by="mallory")
    spoilt = typed.active()

    plan = typed("revert", "--author", "mallory", "--dry-run")
    assert (
        "Switch the certificate check off" in plan.stdout and "Nothing was changed" in plan.stdout
    )
    assert typed.active() == spoilt

    told = typed.json("revert", "--author", "mallory")
    assert told["archived"] == [bad] and told["evidence"] == 3
    assert typed.active() == before
    asked = "the certificate check"
    assert bad not in typed("search", asked, "--json").stdout
    assert "certificate" not in typed("inject", asked).stdout
    typed.json("export", "bank.md")
    [section] = [s for s in (typed.folder / "bank.md").read_text().split("## ") if bad in s]
    assert "state: archived" in section

    assert typed.json("revert", "--author", "mallory")["batch"] is None
    again = typed("revert", "--author", "mallory", "--dry-run").stdout
    assert again == "There is nothing to take back.\n"
    assert typed.json("maintain", "--rebuild") and typed.active() == before
    assert typed.json("audit", "verify")["sound"]

    typed.json("undo", told["batch"])
    assert typed.active() == spoilt
    assert typed.json("audit", "verify")["sound"]


def test_an_import_is_taken_back_by_its_file_or_its_batch(typed):
    mine = typed.record("Set timeouts on database queries")
    lesson = {"title": "T", "description": "D", "content": "C", "outcome": "success"}
    (typed.folder / "theirs.jsonl").write_text(json.dumps(lesson) + "\n")
    batch = typed.json("import", "theirs.jsonl")["batch"]
    assert len(typed.active()) == 2
    plans = [typed.json("revert", "--import", what, "--dry-run")["archived"]
             for what in ("theirs.jsonl", batch, batch[-12:])]  # fmt: skip
    assert plans[0] == plans[1] == plans[2] != []
    typed.json("revert", "--import", "theirs.jsonl")
    assert set(typed.active()) == {mine}
    (typed.folder / "other.jsonl").write_text(json.dumps(lesson | {"title": "O"}) + "\n")
    assert "no import into this bank" in typed("revert", "--import", "other.jsonl").stderr


def test_whoever_says_nothing_takes_nothing_back(typed):
    typed.record("Set timeouts on database queries")
    done = typed("revert")
    assert done.returncode == 2 and "--author, --session, --import, --since" in done.stderr

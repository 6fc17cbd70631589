"""Somebody records a fact, later its new value, and asks: by command, one process after another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.requirement import requirement

from reasonbank import Bank


@pytest.fixture
def typed(tmp_path):
    """The command as somebody types it, with the default settings."""

    def run(*words):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("reasonbank")), *words, "--json"],
            cwd=tmp_path, env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path),
                               "REASONBANK_URL": f"sqlite:///{tmp_path}/bank.db"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


FACTS = {
    "On which port does the feature store listen?": (
        "The feature store service listens on port 6566 in all environments.",
        "The feature store service listens on port 6570 in all environments.",
    ),
    "Which tool manages our Python environments?": (
        "Our Python environments are managed with Poetry; run `poetry install`.",
        "Poetry was replaced by uv for all our Python environments; run `uv sync`.",
    ),
}


@requirement("RET-19")
def test_the_newer_value_comes_first_and_no_tidying_states_both(typed, tmp_path):
    ids = {
        question: [typed("record", "--content", said)["id"] for said in values]
        for question, values in FACTS.items()
    }
    other = typed("record", "--content", "The billing service listens on port 8081.")["id"]
    typed("consolidate", "--force", "--threshold", "0.7")
    for question, (old, new) in ids.items():
        found = [memory["id"] for memory in typed("search", question)["memories"]]
        assert found[0] == new and old in found
        with Bank.open(f"sqlite:///{tmp_path}/bank.db", workspace=tmp_path) as bank:
            marks = {hit.memory.id: hit.outdated_by for hit in bank.search(question)}
        assert (marks[old], marks[new], marks.get(other)) == (new, None, None)

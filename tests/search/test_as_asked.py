"""Questions as they really come, at the door: default settings, the packaged model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.requirement import requirement
from tests.search.questions_as_asked import ASKED, GERMAN, LESSONS, PRINTED
from tests.search.test_long_questions import AROUND

from reasonbank import Bank, Memory, Outcome
from reasonbank.settings import Settings


def filled(bank: Bank) -> dict[str, str]:
    """Which lesson each memory is."""
    return {
        bank.record(
            Memory(
                title=title,
                description=title,
                content=content,
                outcome=Outcome.SUCCESS,
            )
        ).id: key
        for key, (title, content) in LESSONS.items()
    }


@pytest.fixture
def lessons(bank: Bank) -> dict[str, str]:
    return filled(bank)


@requirement("RET-17")
@pytest.mark.parametrize("kind", ASKED)
def test_every_lesson_is_found_first_however_it_is_asked_for(bank, lessons, kind):
    first = {
        key: lessons[hits[0].memory.id] if (hits := bank.search(question).hits) else None
        for key, question in ASKED[kind].items()
    }
    assert first == {key: key for key in first}


@requirement("RET-17")
@pytest.mark.parametrize("at", [0, 3, 6])
@pytest.mark.parametrize("asked", [PRINTED, ASKED["by a name"]], ids=["printed", "by a name"])
def test_what_stands_in_a_long_prompt_is_found_wherever_it_stands(bank, lessons, asked, at):
    """A stack trace stays in one piece there."""
    found = {}
    for key, question in asked.items():
        prompt = "\n\n".join((*AROUND[:at], f"{question}", *AROUND[at:]))
        found[key] = [lessons[hit.memory.id] for hit in bank.search(prompt)]
    assert {key for key, keys in found.items() if key not in keys} == set()


@requirement("RET-17")
def test_another_process_finds_them_by_the_documented_command(tmp_path):
    path = tmp_path / "bank.db"
    with Bank.open(str(path), workspace=tmp_path, settings=Settings()) as bank:
        known = filled(bank)
    for key, question in (("heap", PRINTED["heap"]), ("pool", GERMAN["pool"])):
        command = "reasonbank.surfaces.cli", "search", question, "--bank", f"sqlite:///{path}"
        done = subprocess.run(
            [sys.executable, "-m", *command, "--json"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert known[json.loads(done.stdout)["memories"][0]["id"]] == key

"""A fact in the tail of a long memory is found, also in other words than its own."""

import json
import subprocess
import sys

import pytest
from tests.requirement import requirement

from reasonbank import Bank, Memory, Outcome

TAIL = "When two of us are on holiday at once, the pager goes to the platform team for that week."
AROUND = [
    "Deploys are announced in the release channel an hour before they begin.",
    "The staging cluster is rebuilt every Sunday night from the newest backup.",
    "Screenshots of the dashboards belong into the ticket and not into the wiki.",
    "Every service has a page that says who looks after it and where its log is kept.",
    "A flag that has been on for a month is taken out of the code with its tests.",
    "Third-party licences are listed in the notices file, one line for each package.",
]
QUESTION = "who is on call during vacations?"


def long_notes() -> Memory:
    text = "\n".join((*(line for line in AROUND for _ in range(4)), TAIL))
    return Memory(
        title="Notes from the handbook", description="How the team works", content=text,
        outcome=Outcome.SUCCESS,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    bank = Bank.open(str(tmp_path / "bank.db"), workspace=tmp_path)
    notes = bank.record(long_notes())
    for line in AROUND:
        bank.record(
            Memory(title=line[:60], description=line, content=line, outcome=Outcome.SUCCESS)
        )
    bank.close()
    return tmp_path, notes.id


@requirement("RET-17", "RET-1")
def test_what_stands_at_the_end_of_a_long_memory_is_found_by_its_meaning(folder):
    path, id = folder
    command = [sys.executable, "-m", "reasonbank.surfaces.cli", "search", QUESTION, "--json"]
    told = subprocess.run(
        command, cwd=path, capture_output=True, text=True, check=True,
        env={"REASONBANK_URL": f"sqlite:///{path}/bank.db", "HOME": str(path)},
    )  # fmt: skip
    found = json.loads(told.stdout)["memories"]
    assert found[0]["id"] == id
    assert not found[0].get("weak")


def test_who_forgets_it_forgets_its_passages(folder):
    path, id = folder
    bank = Bank.open(str(path / "bank.db"), workspace=path)
    assert bank.store.ledger.read().has_passages()
    bank.forget(id)
    assert not bank.store.ledger.read().has_passages()
    bank.close()


def test_a_revision_has_passages_of_its_own(folder):
    path, id = folder
    bank = Bank.open(str(path / "bank.db"), workspace=path)
    bank.update(id, content=long_notes().content.replace(TAIL, AROUND[0]))
    assert bank.search(QUESTION).sure == ()
    bank.update(id, content=TAIL)
    assert bank.search(QUESTION).hits[0].memory.id == id
    assert not bank.store.ledger.read().has_passages()
    bank.close()


def test_a_hit_says_which_passage_it_was_and_a_card_shows_that(folder):
    path, id = folder
    command = [sys.executable, "-m", "reasonbank.surfaces.cli", "search", QUESTION]
    env = {"REASONBANK_URL": f"sqlite:///{path}/bank.db", "HOME": str(path), "COLUMNS": "80"}
    card = subprocess.run(command, cwd=path, capture_output=True, text=True, check=True, env=env)
    first = card.stdout.split("╰─")[0]
    assert "two of us are on holiday" in first and f"reasonbank show {id}" in first
    assert len(first.splitlines()) < 20
    told = subprocess.run(
        [*command, "--json"], cwd=path, capture_output=True, text=True, check=True, env=env
    )
    [found, *rest] = json.loads(told.stdout)["memories"]
    assert TAIL in found["passage"] and found["content"] == long_notes().content
    assert all("passage" not in other for other in rest)

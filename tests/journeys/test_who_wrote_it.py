"""Who wrote something is weak evidence: one failed task silences nobody, many do, and a person
can see what was hidden and clear it."""

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import command

from reasonbank import Bank
from reasonbank.testing import a_memory

UPLOADS = "uploads fail while clocks drift"
LOGIN = "users are logged out after one minute"
QUEUE = "broker stalls when workers die"


def lesson(about, number=0, **more):
    return a_memory(title=f"{about} {number}", description=about, content=about, **more)


def seen(bank, question):
    return {hit.memory.id for hit in bank.search(question, limit=20)}


def ended(bank, question, *, succeeded, task):
    """A task as README has it: search, then say how it went."""
    bank.search(question, session=task, limit=5)
    bank.credit(task, succeeded=succeeded)


# One person, two projects


@requirement("CON-2")
def test_a_failed_task_in_one_project_hides_nothing_of_it_from_another_of_the_same_person(
    open_bank,
):
    here = open_bank(workspace=open_bank.project("here"))
    there = open_bank(workspace=open_bank.project("there"))
    here.record(lesson(UPLOADS))
    failed = there.record(lesson(LOGIN, scope="org"))
    untried = there.record(lesson(QUEUE, scope="org"))
    for number in range(10):
        ended(here, UPLOADS, succeeded=True, task=f"good {number}")
    ended(there, LOGIN, succeeded=False, task="bad")
    assert untried.id in seen(here, QUEUE)
    assert failed.id in seen(here, LOGIN)


@requirement("CON-2")
def test_the_same_at_the_shell(tmp_path):
    """Two folders, one user, one bank, default settings but for the embedder."""
    here, there = tmp_path / "here", tmp_path / "there"
    home = {"HOME": tmp_path, "XDG_DATA_HOME": tmp_path, "XDG_CONFIG_HOME": tmp_path}

    def run(folder, *words):
        code, told = command(folder, *words, **home)
        assert code == 0, told
        return told

    run(here, "remember", f"Set the clock: {UPLOADS}")
    failed = run(there, "remember", f"Renew the token: {LOGIN}", "--scope", "org")
    untried = run(there, "remember", f"Restart the broker: {QUEUE}", "--scope", "org")
    for number in range(10):
        run(here, "search", UPLOADS, "--session", f"good {number}")
        run(here, "outcome", "--succeeded", "--session", f"good {number}")
    run(there, "search", LOGIN, "--session", "bad")
    run(there, "outcome", "--failed", "--session", "bad")
    for question, memory in ((QUEUE, untried), (LOGIN, failed)):
        found = run(here, "search", question, "--explain")
        assert memory["id"] in [hit["id"] for hit in found["memories"]], found.get("dropped")


# A team


@pytest.fixture
def team(open_bank) -> tuple[Bank, Bank]:
    first = open_bank()
    return first.seen_by(author="ada"), first.seen_by(author="grace")


@requirement("CON-2")
def test_one_failed_task_after_ten_successes_of_a_colleague_silences_nobody(team):
    ada, grace = team
    ada.record(lesson(UPLOADS))
    tried = [grace.record(lesson(LOGIN, number)).id for number in range(5)]
    untried = grace.record(lesson(QUEUE)).id
    for number in range(10):
        ended(ada, UPLOADS, succeeded=True, task=f"good {number}")
    ended(ada, LOGIN, succeeded=False, task="bad")
    assert untried in seen(ada, QUEUE)
    assert set(tried) <= seen(ada, LOGIN)

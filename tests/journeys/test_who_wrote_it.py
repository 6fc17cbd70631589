"""Who wrote something is weak evidence: one failed task silences nobody, many do, and a person
can see what was hidden and clear it."""

import pytest
from tests.conftest import HASHED
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving

from reasonbank import Bank
from reasonbank.testing import a_memory

UPLOADS = "uploads fail while clocks drift"
SLOW = "pages load slowly at night"
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


@requirement("CON-2")
@requirement("SEC-1")
def test_many_failed_tasks_hide_the_untried_which_is_explained_reviewed_and_cleared(team):
    ada, grace = team
    ada.record(lesson(UPLOADS))
    helped = grace.record(lesson(SLOW)).id
    grace.record(lesson(LOGIN))
    untried = grace.record(lesson(QUEUE)).id
    ended(ada, SLOW, succeeded=True, task="once")
    for number in range(20):
        ended(ada, UPLOADS, succeeded=True, task=f"good {number}")
        assert untried in seen(ada, QUEUE) or number >= 8
        ended(ada, LOGIN, succeeded=False, task=f"bad {number}")
    assert untried not in seen(ada, QUEUE)
    assert helped in seen(ada, SLOW), "what has helped itself is judged by that"
    why = dict(ada.search(QUEUE, explain=True).dropped)[untried]
    assert "what grace wrote helped in 1 of" in why and "what others wrote in 20 of 20" in why
    (waiting,) = [hidden for hidden in ada.review() if hidden.id == untried]
    assert (waiting.author, waiting.reason) == ("grace", why)
    assert helped not in [hidden.id for hidden in ada.review()]
    ada.feedback(untried, helpful=True)
    assert untried in seen(ada, QUEUE)
    assert untried not in [hidden.id for hidden in ada.review()]


@requirement("CON-2")
def test_a_task_that_was_given_many_memories_of_one_author_is_one_failure(team):
    ada, grace = team
    ada.record(lesson(UPLOADS))
    for number in range(5):
        grace.record(lesson(LOGIN, number))
    ended(ada, UPLOADS, succeeded=True, task="good")
    ended(ada, LOGIN, succeeded=False, task="bad")
    assert set(ada.store.ledger.read().authors(ada.view).values()) == {(1, 0), (0, 1)}


@requirement("CON-2")
def test_what_is_said_without_a_session_is_one_task_a_day(team, clock):
    ada, grace = team
    memories = [grace.record(lesson(LOGIN, number)).id for number in range(5)]
    for _ in range(2):
        for memory in memories:
            ada.feedback(memory, helpful=False)
        clock.advance(days=1)
    assert set(ada.store.ledger.read().authors(ada.view).values()) == {(0, 2)}


@requirement("CON-5")
def test_what_is_known_of_authors_follows_from_the_log(team):
    ada, grace = team
    ada.record(lesson(UPLOADS))
    gone = grace.record(lesson(LOGIN, 1)).id
    grace.record(lesson(LOGIN, 2))
    for number in range(3):
        ended(ada, UPLOADS, succeeded=True, task=f"good {number}")
        ended(ada, LOGIN, succeeded=number == 1, task=f"other {number}")
    ada.credit("other 0", succeeded=True)
    grace.forget(gone)
    before = ada.store.ledger.read().authors(ada.view)
    assert set(before.values()) == {(3, 0), (2, 1)}
    ada.rebuild()
    assert ada.store.ledger.read().authors(ada.view) == before


@requirement("SEC-1")
def test_an_explanation_names_what_a_flood_would_have_hidden(team):
    """So much of it is by one author that the rest of the bank is searched instead."""
    ada, mallory = team
    good = ada.record(lesson(UPLOADS))
    bad = [mallory.record(lesson(LOGIN, number)).id for number in range(150)]
    for number in range(12):
        ada.outcome(good.id, succeeded=True, session=f"good {number}")
        ada.outcome(bad[number], succeeded=False, session=f"bad {number}")
    reply = ada.search(LOGIN, explain=True, limit=5)
    assert not {hit.memory.id for hit in reply} & set(bad)
    why = dict(reply.dropped)
    assert any("hidden for who wrote it" in why.get(id, "") for id in bad)


@requirement("SEC-1")
def test_review_at_the_shell_and_over_http(tmp_path):
    def run(*words, user="ada"):
        code, told = command(tmp_path, *words, USER=user)
        assert code == 0, told
        return told

    good = run("remember", f"Set the clock: {UPLOADS}")["id"]
    bad = run("remember", f"Renew the token: {LOGIN}", user="grace")["id"]
    url = f"sqlite:///{tmp_path}/reasonbank/bank.db"
    with Bank.open(url, workspace=tmp_path, settings=HASHED) as bank:
        for number in range(12):
            bank.outcome(good, succeeded=True, session=f"good {number}")
            bank.outcome(bad, succeeded=False, session=f"bad {number}")
    untried = run("remember", f"Restart the broker: {QUEUE}", user="grace")["id"]
    found = run("search", QUEUE, "--explain")
    assert untried in [left_out["id"] for left_out in found["dropped"]], found
    assert untried in [hidden["id"] for hidden in run("review")]
    with serving(tmp_path) as server:
        told = server.ask("GET", "/review").json()
        listed = told if isinstance(told, list) else next(iter(told.values()))
        assert untried in [hidden["id"] for hidden in listed]
    run("feedback", untried, "--helpful")
    assert untried not in [hidden["id"] for hidden in run("review")]
    assert untried in [hit["id"] for hit in run("search", QUEUE)["memories"]]

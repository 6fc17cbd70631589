"""What is near but not surely about a question, and what is no longer so: through every way in."""

from __future__ import annotations

import json

import pytest
from tests.requirement import requirement
from tests.surfaces.hook_calls import Machine, payload
from tests.surfaces.http_server import serving
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank
from reasonbank.model import EvidenceKind

LESSONS = (
    "Wait twice as long after each failed upload, and resume where it broke off.",
    "Create a B-tree index on the column of the WHERE clause when a query scans the whole table.",
    "Run pytest with -p no:randomly to see whether the order of tests matters when one is flaky.",
    "Pin the base image by digest, so that a rebuild of the container gives the same packages.",
    "Set the proxy's idle timeout above the load balancer's, or it answers 502 now and then.",
    "Rotate the signing key in two steps: publish the new one, retire the old one after a day.",
    "Use git rebase --onto main to move a feature branch off another branch.",
    "Store money as integer cents; floats lose a cent in sums.",
    "Render the date in the user's time zone, but store it as UTC.",
    "Terraform state is locked in DynamoDB; after a crash run terraform force-unlock with the id.",
    "A leak in the worker came from a global cache without a limit; use lru_cache with maxsize.",
    "npm ci fails when package-lock.json is older than package.json; run npm install once.",
    "Escape user input with html.escape before it is put into a template.",
    "Kafka consumers rebalance when poll takes too long; process in smaller batches.",
)
ABOUT = (
    "an upload breaks off half-way",
    "one of our tests is flaky, it fails only now and then",
    "the query scans the whole table and is slow",
    "now and then the proxy answers 502",
    "terraform says that the state is locked",
    "npm ci fails because of the lock file",
    "move a feature branch off another branch",
)
NEAR = (
    "which database should we choose", "speed up the web page", "deploy to AWS",
    "profile a Python program", "user login fails", "monitor the server", "install a database",
    "schedule a job every night", "backup of the database", "resize a disk", "update node",
    "how do I download a large file quickly", "undo the last commit", "cache HTTP responses",
    "format a number with two decimals", "push the image to a registry", "parse a CSV file",
    "send an e-mail from a script", "encrypt a file with a password", "connect to the VPN",
    "write unit tests for the parser", "delete old branches", "show a form in HTML",
)  # fmt: skip
FOREIGN = (
    "how do I bake sourdough bread", "who won the world cup", "my cat does not eat",
    "a birthday present for my aunt", "tickets for the opera in Vienna",
)  # fmt: skip
OLD = "The staging database listens on port 5432."
NEW = "The staging database listens on port 6543."
PORT = "On which port does the staging database listen?"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def known(bank: Bank) -> Bank:
    for lesson in LESSONS:
        bank.record(lesson)
    return bank


def only_weak(bank: Bank) -> str:
    """A question that finds something near, and nothing that is surely about it."""
    for question in NEAR:
        reply = bank.search(question)
        if reply and not reply.sure:
            return question
    raise AssertionError("of so many questions, one must be near what is known")


def mixed(bank: Bank) -> str:
    """A question that finds both."""
    for question in (*ABOUT, *NEAR):
        reply = bank.search(question)
        if reply.sure and len(reply.sure) < len(reply):
            return question
    raise AssertionError("of so many questions, one must find both")


@requirement("RET-9")
def test_what_is_surely_about_it_comes_first_and_what_is_foreign_finds_nothing_sure(known):
    for question, lesson in zip(ABOUT, (0, 2, 1, 4, 9, 11, 6), strict=True):
        reply = known.search(question)
        assert reply.sure and reply[0].memory.content == LESSONS[lesson], question
    for question in (*ABOUT, *NEAR, *FOREIGN):
        weak = [hit.weak for hit in known.search(question, limit=14)]
        assert weak == sorted(weak)
    assert not [question for question in FOREIGN if known.search(question).sure]


@requirement("RET-9")
def test_whoever_does_not_want_weak_matches_gets_only_the_sure_ones(known):
    for question in (*ABOUT, *NEAR):
        every, sure = known.search(question), known.search(question, include_weak=False)
        assert [hit.memory.id for hit in sure] == [hit.memory.id for hit in every.sure]
        assert sure.total_found <= every.total_found


@requirement("RET-9")
def test_nobody_who_did_not_ask_gets_a_weak_match(known, tmp_path):
    question = only_weak(known)
    assert known.inject(question).prompt == ""
    advice = known.recommend(question)
    assert (advice.strategy, advice.warnings) == (None, ())
    both = mixed(known)
    sure = {hit.memory.id for hit in known.search(both).sure}
    assert {*known.inject(both).memories} == sure


@requirement("RET-9")
@requirement("RET-15")
def test_a_question_that_found_only_weak_matches_is_a_gap_until_it_is_answered(known):
    known.reset_statistics()
    question = only_weak(known)
    assert question in [gap.question for gap in known.gaps(limit=100)]
    counted = known.statistics().searches
    assert counted.weak >= 1 and counted.answered >= counted.weak + counted.empty
    known.record({"title": question, "content": f"{question}: ask Mika, who knows all about it."})
    assert question not in [gap.question for gap in known.gaps(limit=100)]


@requirement("RET-9")
def test_a_task_that_went_well_says_nothing_of_its_weak_matches(known):
    reply = known.search(mixed(known), session="the task")
    assert known.credit("the task", succeeded=True) == len(reply.sure)

    def outcomes(hit):
        found = known.evidence(hit.memory.id)
        return [e for e in found if e.kind is EvidenceKind.OUTCOME and e.session == "the task"]

    assert [len(outcomes(hit)) for hit in reply] == [int(not hit.weak) for hit in reply]
    # Unless somebody says that it was the one that helped.
    faint = next(hit for hit in reply if hit.weak)
    known.outcome(faint.memory.id, succeeded=True, session="the task")
    assert len(outcomes(faint)) == 1


@requirement("RET-9")
def test_weak_matches_share_in_a_task_that_was_given_nothing_else(known):
    reply = known.search(only_weak(known), session="alone")
    assert known.credit("alone", succeeded=True) == len(reply) > 0


@requirement("RET-9")
@requirement("RET-19")
@pytest.mark.anyio
async def test_every_door_says_which_hits_are_weak_and_which_are_outdated(tmp_path):
    machine = Machine(tmp_path)
    for lesson in (*LESSONS, OLD, NEW):
        machine.run("remember", lesson)
    url = f"sqlite:///{machine.bank}"
    with Bank.open(url, workspace=machine.project) as bank:
        question = only_weak(bank)
        told = {text: seen(hit.to_json() for hit in bank.search(text)) for text in (question, PORT)}
        async with connected(bank) as agent:
            for tool in ("memory_search", "retrieve_memories"):
                for text, marks in told.items():
                    assert seen((await agent(tool, query=text))["memories"]) == marks
    assert all(weak for _, weak, _ in told[question])
    [newer, older] = told[PORT][:2]
    assert older[2] == newer[0] and newer[1:] == (False, None)
    for text, marks in told.items():
        assert seen(json.loads(machine.run("search", text, "--json").stdout)["memories"]) == marks
    assert (
        json.loads(machine.run("search", question, "--no-weak", "--json").stdout)["memories"] == []
    )
    same = {"REASONBANK_EMBED_MODEL": "minilm", "REASONBANK_URL": url}
    with serving(tmp_path, **same) as server, server.client(workspace=machine.project) as client:
        for text, marks in told.items():
            answer = client.post("/search", json={"query": text}).json()
            assert seen(answer["memories"]) == marks
        sure = client.post("/search", json={"query": question, "include_weak": False}).json()
        assert sure["memories"] == []
    assert "weak match" in machine.run("search", question).stdout
    assert f"Outdated: newer is {newer[0]}" in machine.run("search", PORT).stdout


def seen(memories):
    return [(m["id"], m.get("weak", False), m.get("outdated_by")) for m in memories]


@requirement("RET-9")
@requirement("RET-19")
def test_a_hook_tells_neither_what_is_weak_nor_what_is_outdated(tmp_path):
    machine = Machine(tmp_path)
    for lesson in (*LESSONS, OLD, NEW):
        machine.run("remember", lesson)
    with Bank.open(f"sqlite:///{machine.bank}", workspace=machine.project) as bank:
        question = only_weak(bank)
    with machine.server():
        assert machine.heard("prompt", prompt=question).text == ""
        told = machine.heard("prompt", prompt=PORT).text
    assert "6543" in told and "5432" not in told


@requirement("RET-19")
def test_a_prompt_gets_the_newer_of_two_values_and_the_older_one_only_where_it_is_alone(bank):
    old, new = bank.record(OLD), bank.record(NEW)
    first, second = bank.search(PORT)
    assert (first.memory.id, second.memory.id, second.outdated_by) == (new.id, old.id, new.id)
    injected = bank.inject(PORT, session="the task")
    assert injected.memories == (new.id,) and "5432" not in injected.prompt
    # What it was not told, it is not credited for.
    assert bank.credit("the task", succeeded=True) == 1
    assert "OUTDATED: " in second.format_for_prompt()
    bank.archive(new.id)
    alone = bank.inject(PORT)
    assert "5432" in alone.prompt and "OUTDATED: " not in alone.prompt


@requirement("RET-19")
def test_what_a_session_was_told_already_is_not_followed_by_what_it_outdates(tmp_path):
    machine = Machine(tmp_path)
    machine.run("remember", OLD)
    machine.run("remember", NEW)
    with machine.server():
        told = machine.heard("prompt", prompt=PORT)
        again = machine.hook(
            "prompt",
            payload("prompt", machine.project, session=told.session, prompt=f"{PORT} Tell me."),
        )
    assert "6543" in told.text and again.text == ""


CHAT = (
    "Yesterday we agreed on the plan for the next quarter, and everybody liked the new logo.",
    "Anna will be on leave until Thursday, so Tom takes the calls of the customers.",
    "The invoice of the caterer has come, and the office needs more chairs.",
    "Please keep answers short, and use British spelling.",
    "Lunch is at half past twelve on the second floor.",
    "The town hall is moved to Friday, bring your questions along.",
)


@requirement("RET-9")
@requirement("RET-17")
def test_a_hook_finds_what_a_long_prompt_is_about_wherever_it_says_so(tmp_path):
    machine = Machine(tmp_path)
    for lesson in LESSONS:
        machine.run("remember", lesson)
    chat = [*CHAT] * 4
    with machine.server():
        for place in (0, 12, 24):
            sentences = [*chat[:place], "One of our tests is flaky, it fails now and then."]
            prompt = " ".join((*sentences, *chat[place:]))
            assert len(prompt) > 1_300
            assert "no:randomly" in machine.heard("prompt", prompt=prompt).text, place
        assert machine.heard("prompt", prompt=" ".join(chat)).text == ""

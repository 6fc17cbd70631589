"""A search remembers what others have read, and never for longer than it is true."""

import random
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.conftest import HASHED
from tests.requirement import requirement

from reasonbank import Filter, LinkType, Scope
from reasonbank.ledger.events import EventType, lesson
from reasonbank.ledger.read_cache import QUIET
from reasonbank.model import new_id
from reasonbank.search.text import terms
from reasonbank.testing import a_memory, a_warning

QUESTIONS = ("retry the upload", "E11000 duplicate key", "parse_config_v2 fails", "timeout")
WORDS = (
    "retry", "upload", "download", "timeout", "network", "key", "duplicate", "config", "parse",
    "E11000", "disk",
)  # fmt: skip


def answers(bank):
    """Which of two that are alike another one repeats is a matter of the last digit."""
    told = [bank.search(question, limit=10, explain=True) for question in QUESTIONS]
    return [
        replace(
            reply, dropped=tuple((id, why.partition(" with ")[0]) for id, why in reply.dropped)
        ).to_json()
        for reply in told
    ]


def warm(bank):
    for _ in range(QUIET + 2):
        answers(bank)
    bank.store.used.clear()


def some_memory(rng):
    words = " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))
    make = a_warning if rng.random() < 0.2 else a_memory
    return make(
        title=words[:80], content=f"parse_config_v2 {words}" if rng.random() < 0.2 else words
    )


def unnoted(bank):
    """A bank that stores what its searches returned only when told to: not in the background."""
    bank.store.indexing.chores = lambda: None
    return bank


@pytest.mark.parametrize(
    ("seed", "model"),
    [*((seed, "contextual") for seed in range(4)), (4, "safla"), (5, "additive")],
)
def test_what_others_write_is_seen_by_the_very_next_search(open_bank, seed, model):
    """Whatever is done through another connection, a bank that has searched a hundred times
    answers as one that was opened a moment ago."""
    rng = random.Random(seed)
    settings = replace(HASHED, belief=replace(HASHED.belief, model=model))
    open_bank = partial(open_bank, settings=settings)
    other, searcher = open_bank(), unnoted(open_bank())
    memories = [other.record(some_memory(rng)) for _ in range(12)]
    warm(searcher)

    def forget():
        other.forget(memories.pop(rng.randrange(len(memories))).id)

    def link():
        one, two = rng.sample(memories, 2)
        other.link(one.id, two.id, type=LinkType.CONTRADICTS)

    def some():
        return rng.choice(memories).id

    deeds = [
        lambda: memories.append(other.record(some_memory(rng))),
        lambda: other.update(some(), title=f"the {rng.choice(WORDS)} story"),
        lambda: other.archive(some()),
        lambda: other.outcome(some(), succeeded=rng.random() < 0.5, session=new_id()),
        lambda: other.feedback(some(), helpful=rng.random() < 0.5),
        lambda: memories.append(other.record(replace(some_memory(rng), scope=Scope.TEAM))),
        lambda: other.restore(some()),
        forget,
        link,
    ]
    for _ in range(24):
        rng.choice(deeds)()
        other.store.flush()
        now = answers(searcher)
        searcher.store.used.clear()
        fresh = unnoted(open_bank())
        assert now == answers(fresh)
        fresh.store.used.clear()
        fresh.close()


@requirement("WSP-2")
def test_what_one_workspace_has_read_is_not_seen_by_another(open_bank):
    here, there = (open_bank(workspace=open_bank.project(name)) for name in ("here", "there"))
    mine, theirs = here.record(a_memory(title="retry here")), there.record(a_memory(title="retry"))
    for _ in range(QUIET + 2):
        assert [hit.memory.id for hit in here.search("retry")] == [mine.id]
        there_too = here.seen_by(workspace=there.view.workspace)
        assert [hit.memory.id for hit in there_too.search("retry")] == [theirs.id]


def test_an_author_is_compared_with_those_in_view_whatever_was_asked_before(open_bank):
    here, there = (open_bank(workspace=open_bank.project(name)) for name in ("here", "there"))
    mine = here.record(a_memory(title="retry the upload here"))
    theirs = there.record(a_memory(title="retry the upload there", scope=Scope.TEAM))
    for number in range(12):
        here.outcome(mine.id, succeeded=number == 0, session=f"task {number}")
        there.outcome(theirs.id, succeeded=True, session=f"task {number}")
    here.store.flush()

    def own(bank):
        """What a search says that looks at nothing but this project."""
        found = bank.search("retry the upload", filter=Filter(scopes=(Scope.PROJECT,)))
        bank.store.used.clear()
        return found.to_json()

    here.search("retry the upload")
    here.store.used.clear()
    assert own(here) == own(open_bank(workspace=open_bank.project("here")))


@requirement("RET-2")
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "beside others"])
def test_full_text_that_is_remembered_scores_as_sqlite_does(open_bank, shared):
    bank = open_bank()
    rng = random.Random(7)

    def write(bank, rows):
        def work(txn):
            bank.context.join(txn)
            for _ in range(rows):
                payload = {"lesson": lesson(some_memory(rng)), "stage": 0}
                bank.context.append(txn, EventType.RECORDED, new_id(), payload)

        bank.context.write(work)

    write(bank, 2_400)
    if shared:
        write(open_bank(workspace=open_bank.project("others")), 300)
    ledger, view = bank.store.ledger, bank.view
    among = np.arange(1, 2_000, 3)
    for _ in range(QUIET + 1):
        ledger.cached_read().words(view, Filter(), ("retry",), 5, None)
    for question in (*QUESTIONS, "retry disk network config E11000", "nothing of the kind"):
        asked = terms(question)
        for limit, only in ((500, None), (20, None), (500, among)):
            nums, scores = ledger.cached_read().words(view, Filter(), asked, limit, only)
            known, wanted = ledger.read().words(view, Filter(), asked, limit, only)
            assert scores.tolist() == pytest.approx(wanted.tolist(), rel=1e-9)
            # Rows of equal score may change places at the end of the list.
            last = wanted[-1] if len(wanted) else 0
            assert set(nums[scores > last + 1e-9]) == set(known[wanted > last + 1e-9])


@requirement("RET-4")
def test_uses_are_stored_though_searches_never_pause(open_bank):
    """Whoever is killed in the middle of a busy day has lost seconds of what was counted."""
    bank = open_bank()
    memory = bank.record(a_memory(title="retry the upload"))
    watcher = open_bank(read_only=True)
    searches = 0
    deadline = time.monotonic() + 60
    while not watcher.get(memory.id).usage_count and time.monotonic() < deadline:
        bank.search("retry the upload")
        searches += 1
    assert 0 < watcher.get(memory.id).usage_count <= searches
    bank.store.flush()
    assert watcher.get(memory.id).usage_count == searches


def test_uses_that_name_no_task_are_told_apart_by_caller_only(open_bank):
    bank = open_bank()
    memory = bank.record(a_memory(title="retry the upload"))
    agent = bank.seen_by(author="agent")
    for _ in range(3):
        bank.search("retry the upload")
    agent.search("retry the upload")
    bank.search("retry the upload", session="task 1")
    bank.store.flush()
    used = [
        event for event in bank.store.ledger.read().events(None) if event.type is EventType.USED
    ]
    told = {(event.author, event.payload["session"]): event.payload.get("times") for event in used}
    assert told == {
        (bank.author, "task 1"): None,
        (bank.author, None): {memory.id: 3},
        ("agent", None): None,
    }
    assert bank.get(memory.id).usage_count == 5

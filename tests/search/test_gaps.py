"""Questions that found nothing: kept, grouped, shown, and gone when they should be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank import Filter, Settings
from reasonbank.errors import NotFound, StorageFull
from reasonbank.settings import Embed, Gaps
from reasonbank.testing import a_memory

STAGING = "How do we deploy to staging?"
PASSWORD = "how to rotate the database password"
NEEDLE = "zyzzyva rotation of the attic"


def asked(bank):
    """Every question that is kept, as it was worded."""
    return [text for gap in bank.gaps(limit=1000) for text in (gap.question, *gap.wordings)]


def on_disk(folder, text=NEEDLE):
    return [f.name for f in folder.iterdir() if f.is_file() and text.encode() in f.read_bytes()]


@requirement("RET-15")
def test_what_was_asked_in_vain_is_shown_by_meaning_the_most_asked_first(bank, clock):
    first = clock.now
    bank.search(PASSWORD)
    for question in (STAGING, STAGING, "deploy to the staging environment"):
        clock.advance(days=1)
        bank.search(question)
    staging, password = bank.gaps()
    assert (staging.question, staging.asked) == (STAGING, 3)
    assert staging.wordings == ("deploy to the staging environment",)
    assert (password.question, password.asked, password.wordings) == (PASSWORD, 1, ())
    assert password.first_asked == password.last_asked
    assert (staging.last_asked - password.first_asked).days == 3
    assert first == clock.now - 3 * 86_400_000_000
    assert bank.gaps(limit=1) == [staging]


@requirement("RET-15")
def test_a_group_never_chains(bank):
    """Each is near its neighbours, and the first is not near the last."""
    chain = [
        "rotate the database password",
        "rotate the database password every month",
        "run a database job every month",
        "run a job every month on the build server",
        "the build server is slow every month",
    ]
    vectors = bank.store.indexing.embedder.embed(chain)
    assert (
        all(vectors[i] @ vectors[i + 1] > 0.5 for i in range(4)) and vectors[0] @ vectors[4] < 0.4
    )
    for question in chain:
        bank.search(question)
    for gap in bank.gaps():
        told = [gap.question, *gap.wordings]
        own = bank.store.indexing.embedder.embed(told)
        assert (own @ own.T).min() > 0.64


@requirement("RET-15")
def test_a_gap_is_filled_by_the_memory_that_answers_it(bank):
    bank.search(STAGING)
    assert asked(bank) == [STAGING]
    bank.record(a_memory(title="Deploying to staging", description="How to deploy to staging",
                         content="Tag the image, then run make deploy."))  # fmt: skip
    assert asked(bank) == []
    assert bank.search(STAGING)


@requirement("RET-15")
def test_only_a_question_that_the_bank_could_have_answered_is_a_gap(open_bank):
    bank = open_bank(settings=Settings())
    memory = bank.record(a_memory(title="Deploying to staging", content="Run make deploy."))
    bank.search(STAGING)
    bank.search(STAGING, max_tokens=1)
    bank.search("quantum chromodynamics", filter=Filter(tags=("physics",)))
    assert bank.statistics().searches.empty == 2
    assert asked(bank) == []
    bank.forget(memory.id)
    assert asked(bank) == []


@requirement("RET-15")
def test_gaps_are_those_of_one_workspace_and_go_with_it(open_bank, clock):
    bank = open_bank()
    other = bank.within(open_bank.project("other"))
    other.record(a_memory())
    other.search(NEEDLE)
    assert asked(bank) == [] and asked(other) == [NEEDLE]
    bank.search(STAGING)
    bank.delete_workspace(other.view.workspace, confirm=True)
    assert asked(other) == [] and asked(bank) == [STAGING]
    assert on_disk(open_bank.folder) == []
    clock.advance(days=1)
    other.search(PASSWORD)
    other.rebuild()
    assert asked(other) == [PASSWORD] and asked(bank) == [STAGING]


@requirement("RET-15")
@requirement("DIS-10")
def test_a_secret_in_a_question_is_not_kept(open_bank):
    bank = open_bank()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    bank.search(f"why is {token} refused?")
    (gap,) = bank.gaps()
    assert gap.question == "why is [secret:github-token] refused?"
    bank.close()
    assert on_disk(open_bank.folder, token) == []


@requirement("RET-15")
def test_what_is_kept_is_bounded_and_can_be_switched_off(open_bank, clock):
    few = Settings(embed=Embed(model="hashed"), gaps=Gaps(keep=3))
    bank = open_bank(settings=few)
    for i in range(5):
        bank.search(f"question number{i} about thing{i}")
        clock.advance(days=1)
        bank.store.flush()
    bank.search("x" * 3000)
    kept = asked(bank)
    assert len(kept) == 3 and max(map(len, kept)) == 500
    assert {q[:17] for q in kept} == {"question number3 ", "question number4 ", "x" * 17}
    for _ in range(2):
        for i in range(5):  # At once, within one commit and one moment of the clock.
            bank.search(f"another question{i}")
        assert len(asked(bank)) == 3
    bank.close()
    off = open_bank(settings=replace(few, gaps=Gaps(keep=0)))
    off.search(NEEDLE)
    assert off.gaps() == []
    clock.advance(days=0.1)
    off.maintain()
    off.close()
    assert open_bank(settings=few).gaps() == []


@requirement("RET-15")
def test_a_question_that_nobody_asks_any_more_is_dropped(open_bank, clock):
    bank = open_bank()
    bank.search(NEEDLE)
    clock.advance(days=80)
    bank.search(STAGING)
    clock.advance(days=11)
    bank.maintain()
    assert asked(bank) == [STAGING]


@requirement("RET-15")
@requirement("MEM-6")
def test_a_forgotten_gap_is_on_no_page_of_any_file(open_bank):
    bank = open_bank()
    for i in range(300):  # Enough that pages were split and moved.
        bank.search(" ".join(f"filler{i}x{n}" for n in range(30)))
    bank.search(NEEDLE)
    bank.search(f"{NEEDLE} again")  # The same gap.
    bank.store.flush()
    assert on_disk(open_bank.folder)
    assert bank.forget_gaps(NEEDLE) == 2
    with pytest.raises(NotFound, match="reasonbank gaps"):
        bank.forget_gaps(NEEDLE)
    assert on_disk(open_bank.folder) == []
    assert len(asked(bank)) == 300
    assert bank.forget_gaps() == 300 and bank.gaps() == [] and bank.forget_gaps() == 0
    assert on_disk(open_bank.folder, "filler") == []
    assert "gaps.forgotten" in {change.what for change in bank.audit()}


@requirement("RET-15")
@requirement("MEM-6")
def test_forgetting_a_memory_takes_the_questions_along_that_quote_it(open_bank, clock):
    bank = open_bank()
    bank.search(f"what about the {NEEDLE} then")
    bank.search(NEEDLE[:20])
    bank.search("something else")
    bank.store.flush()
    memory = bank.record(a_memory(title=NEEDLE))
    bank.forget(memory.id)
    assert asked(bank) == ["something else"]
    assert not bank.search(NEEDLE), "somebody looks whether it is gone"
    assert asked(bank) == ["something else"]
    assert on_disk(open_bank.folder) == []
    clock.advance(days=1)
    bank.search(STAGING)
    assert asked(bank) == [STAGING, "something else"]


@requirement("RET-15")
def test_questions_never_leave_the_bank(open_bank, tmp_path):
    bank = open_bank()
    bank.record(a_memory())
    bank.search(NEEDLE)
    file = tmp_path / "export.jsonl"
    with file.open("w") as out:
        bank.export(out)
    assert NEEDLE not in file.read_text()
    bank.rebuild()
    assert asked(bank) == [NEEDLE]


@requirement("RET-15")
def test_a_search_in_vain_writes_nothing_itself(open_bank, monkeypatch):
    """It is written with the next commit, and a disk that is full costs no answer."""
    bank = open_bank()
    written = bank.store.ledger.write

    def full(work):
        raise StorageFull("the disk is full")

    monkeypatch.setattr(bank.store.ledger, "write", full)
    assert not bank.search(NEEDLE)
    assert bank.gaps() == []
    monkeypatch.setattr(bank.store.ledger, "write", written)
    assert asked(bank) == [NEEDLE]


def test_when_the_embedder_fails_each_question_is_shown_by_itself(open_bank):
    embedder = Fragile()
    bank = open_bank.with_embedder(embedder)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for question in (f"is {token} valid", f"is {token} valid now", STAGING):
        bank.search(question)
    assert len(bank.gaps()) == 2
    embedder.broken = True
    assert len(bank.gaps()) == 3
    assert not bank.search("asked in words only")
    assert len(asked(bank)) == 3, "who knows what meaning would have found"

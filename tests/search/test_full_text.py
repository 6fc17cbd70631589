"""What the full text of a real ledger finds, and what its scores are worth to the ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.requirement import requirement

from reasonbank import Bank, Filter
from reasonbank.embed.calibration import CALIBRATIONS
from reasonbank.search.rank import fuse
from reasonbank.search.text import terms
from reasonbank.testing import a_memory

MINILM = CALIBRATIONS["all-MiniLM-L6-v2"]


def record(bank: Bank, *texts: str) -> list[str]:
    return [bank.record(a_memory(title="-", description="-", content=text)).id for text in texts]


def scores(bank: Bank, query: str) -> dict[str, float]:
    """BM25 by id, best first."""
    reading = bank.store.ledger.read()
    nums, found = reading.words(bank.view, Filter(), terms(query), 100, None)
    rows = {row.num: row.id for row in reading.rows(bank.view, nums.tolist())}
    return {rows[num]: score for num, score in zip(nums.tolist(), found.tolist(), strict=True)}


def relevance(query: str, bm25: float, *, cosine: float, rows: int) -> float:
    fusion = fuse(query, np.array([cosine]), np.array([bm25]), MINILM, rows=rows)
    return float(fusion.relevance[0])


@requirement("RET-2")
@pytest.mark.parametrize(
    "name",
    [
        "parse_config",
        "E0502",
        "ERR_OSSL_EVP_UNSUPPORTED",
        "libssl.so.3",
        "/usr/lib/x86_64-linux-gnu",
        "std::vector",
        "TypeError: 'NoneType' object is not subscriptable",
        "naïve",
        "0x80070005",
    ],
)
def test_an_exact_identifier_is_found_first(plain_bank: Bank, name: str) -> None:
    others = ["parse the config", "a vector of std", "lib usr gnu linux", "so ssl", "E0503"]
    record(plain_bank, *others, *["nothing to see"] * 10)
    (exact,) = record(plain_bank, f"we saw {name} here")
    assert next(iter(scores(plain_bank, f"what to do about {name}?"))) == exact


SPELLINGS = ["parseSchedule", "ParseSchedule", "parse_schedule", "parse-schedule", "PARSE_SCHEDULE"]


@requirement("RET-17")
@pytest.mark.parametrize("stored", SPELLINGS)
@pytest.mark.parametrize("asked", SPELLINGS)
def test_an_identifier_is_found_in_any_spelling(plain_bank: Bank, stored: str, asked: str) -> None:
    others = [f"{verb} {n}" for n in range(3) for verb in ("schedule a release", "parse a date")]
    record(plain_bank, *others, *["nothing to see"] * 10)
    (wanted,) = record(plain_bank, f"{stored} wants a time zone")
    assert next(iter(scores(plain_bank, f"why does {asked} fail"))) == wanted


@requirement("RET-9")
def test_a_rare_identifier_counts_although_its_cosine_is_low(plain_bank: Bank) -> None:
    query = "build fails with ERR_OSSL_EVP_UNSUPPORTED"
    record(plain_bank, *(f"note number {n} about the weather in spring" for n in range(40)))
    (exact,) = record(plain_bank, "raised by ERR_OSSL_EVP_UNSUPPORTED")
    found = scores(plain_bank, query)
    assert found.keys() == {exact}
    assert relevance(query, found[exact], cosine=0.15, rows=41) >= MINILM.sure


@requirement("RET-9")
def test_one_common_word_does_not_make_a_memory_relevant(plain_bank: Bank) -> None:
    query = "test the thermal limits of this turbine blade"
    common = record(plain_bank, *(f"the test number {n} of the garden" for n in range(10)))
    record(plain_bank, *(f"something else {n}" for n in range(20)))
    found = scores(plain_bank, query)
    assert found.keys() == set(common)
    assert relevance(query, max(found.values()), cosine=0.15, rows=30) < MINILM.sure


TITLES = {
    "one common word": [f"Number {n}" for n in range(12)],
    "common words only": [f"{verb} {noun}" for verb in ("Retry", "Cancel", "Resume")
                          for noun in ("uploads", "imports", "exports", "backups")],
    "short": ["Zebra", "npm ci", "Lock", "Pin it", "utf8", "Close sessions"],
}  # fmt: skip


@requirement("RET-2")
@pytest.mark.parametrize("times", [1, 20, 200])
@pytest.mark.parametrize("so_many", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("titles", TITLES.values(), ids=TITLES)
def test_who_types_an_exact_title_finds_it_without_a_model(
    plain_bank: Bank, titles: list[str], so_many: int, times: int
) -> None:
    """However much else it says, and however common the words of its title are in the bank."""
    for title in titles[:so_many]:
        content = "Poll until the port answers; a sleep is too short. " * times
        plain_bank.record(a_memory(title=title, content=content))
    for title in titles[:so_many]:
        assert title in [hit.memory.title for hit in plain_bank.search(title, limit=so_many)]


def test_every_part_of_a_memory_that_its_author_wrote_counts_alike(plain_bank: Bank) -> None:
    """A word in the title is worth what it is worth in the content, and the tags count too."""
    blank = {"title": "-", "description": "-", "content": "-"}
    words = "otter", "badger", "heron", "weasel"
    memories = [a_memory(**blank | {part: word}) for part, word in zip(blank, words, strict=False)]
    memories.append(a_memory(**blank, tags=(words[-1],)))
    ids = [plain_bank.record(memory).id for memory in memories]
    record(plain_bank, *["nothing to see"] * 10)
    found = [scores(plain_bank, word) for word in words]
    assert [list(each) for each in found] == [[id] for id in ids]
    assert len({round(score, 9) for each in found for score in each.values()}) == 1


def test_a_word_is_found_by_its_stem_and_without_its_accents(plain_bank: Bank) -> None:
    (wanted,) = record(plain_bank, "retrying the naïve uploads")
    record(plain_bank, "nothing to see")
    assert all(list(scores(plain_bank, word)) == [wanted] for word in ("retry", "NAIVE", "upload"))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(), max_size=60))
def test_no_text_breaks_the_full_text_search(plain_bank: Bank, text: str) -> None:
    scores(plain_bank, text)


@pytest.mark.parametrize(
    "text",
    ['"', '""', "'", "a\x00b", "\ud800", "NEAR(a b)", "a AND OR NOT", "title:x", "*", "^a", ""],
)
def test_the_syntax_of_the_search_engine_is_not_ours(plain_bank: Bank, text: str) -> None:
    record(plain_bank, "hello world")
    assert not scores(plain_bank, text)

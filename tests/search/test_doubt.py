"""What follows from a hit being weak or outdated."""

from __future__ import annotations

from tests.requirement import requirement

from reasonbank.model import Hit
from reasonbank.search.doubt import for_a_prompt, with_newer_values
from reasonbank.testing import a_memory

OLD, MIDDLE, NEW, OTHER = (a_memory(title=title) for title in ("old", "middle", "new", "other"))


def a_hit(memory, **marks):
    return Hit(memory=memory, relevance=0.5, score=0.5, **marks)


def titles(hits):
    return [hit.memory.title for hit in hits]


@requirement("RET-9")
@requirement("RET-19")
def test_the_newer_of_two_values_is_as_sure_as_the_older():
    hits = [
        a_hit(NEW, weak=True),
        a_hit(MIDDLE, weak=True, outdated_by=NEW.id),
        a_hit(OLD, outdated_by=MIDDLE.id),
        a_hit(OTHER, weak=True),
    ]
    assert [hit.weak for hit in with_newer_values(hits)] == [False, False, False, True]
    assert titles(with_newer_values(hits)) == titles(hits)
    faint = [a_hit(NEW, weak=True), a_hit(OLD, weak=True, outdated_by=NEW.id), a_hit(OTHER)]
    assert with_newer_values(faint) == faint


@requirement("RET-19")
def test_a_prompt_gets_no_value_beside_one_that_is_newer():
    hits = [
        a_hit(NEW),
        a_hit(MIDDLE, outdated_by=NEW.id),
        a_hit(OLD, outdated_by=MIDDLE.id),
        a_hit(OTHER),
    ]
    assert titles(for_a_prompt(hits, frozenset())) == ["new", "other"]
    assert titles(for_a_prompt(hits[1:], frozenset())) == ["middle", "other"]


@requirement("RET-19")
def test_nor_after_one_that_the_session_was_shown_already():
    hits = [a_hit(NEW), a_hit(OLD, outdated_by=NEW.id), a_hit(OTHER)]
    assert titles(for_a_prompt(hits, frozenset({NEW.id}))) == ["other"]
    assert titles(for_a_prompt(hits[1:], frozenset({NEW.id}))) == ["other"]


def test_what_is_withheld_as_suspicious_takes_nothing_away():
    hits = [a_hit(NEW, suspicious=("gives orders",)), a_hit(OLD, outdated_by=NEW.id)]
    assert titles(for_a_prompt(hits, frozenset())) == ["new", "old"]

"""What follows from a hit being weak or outdated."""

from __future__ import annotations

from dataclasses import replace

from tests.requirement import requirement

from reasonbank.model import Hit, Outcome, Source, Standing
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
    assert titles(for_a_prompt(hits, frozenset(), "me")) == ["new", "other"]
    assert titles(for_a_prompt(hits[1:], frozenset(), "me")) == ["middle", "other"]


@requirement("RET-19")
def test_nor_after_one_that_the_session_was_shown_already():
    hits = [a_hit(NEW), a_hit(OLD, outdated_by=NEW.id), a_hit(OTHER)]
    assert titles(for_a_prompt(hits, frozenset({NEW.id}), "me")) == ["other"]
    assert titles(for_a_prompt(hits[1:], frozenset({NEW.id}), "me")) == ["other"]


def test_what_is_withheld_as_suspicious_takes_nothing_away():
    hits = [a_hit(NEW, suspicious=("gives orders",)), a_hit(OLD, outdated_by=NEW.id)]
    assert titles(for_a_prompt(hits, frozenset(), "me")) == ["new", "old"]


@requirement("SEC-1")
def test_beside_what_is_confirmed_only_a_warning_of_what_was_seen_to_fail_needs_no_confirmation():
    known = a_memory(title="known")
    claimed, learned = (
        a_memory(title=title, outcome=outcome, source=source, standing=Standing.UNTESTED)
        for title, outcome, source in (
            ("claimed", Outcome.FAILURE, Source.EXPLICIT),
            ("learned", Outcome.SUCCESS, Source.DISTILLED),
        )
    )
    named = replace(learned, title="named", outcome=Outcome.FAILURE)
    seen = replace(named, title="seen", source_span=(1, 4))
    hits = [a_hit(memory) for memory in (claimed, learned, named, seen, known)]
    assert titles(for_a_prompt(hits, frozenset(), "me")) == ["known", "seen"]
    tried = titles(for_a_prompt(hits, frozenset(), "me", trying=True))
    assert tried == ["known", "seen", "claimed"]
    alone = titles(for_a_prompt(hits[:4], frozenset(), "me"))
    assert alone == ["claimed", "learned", "named", "seen"]

"""What texts say: the same, the opposite, or something new."""

from __future__ import annotations

import pytest

from reasonbank.search.sentences import differ_in_numbers, opposed, sentences, unsaid


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Always squash commits before merging.", "Never squash commits before merging."),
        ("Use connection pooling for Postgres", "Avoid connection pooling for Postgres"),
        ("Enable strict mode in the compiler", "Disable strict mode in the compiler"),
        ("Run the migrations before the deploy", "Run the migrations after the deploy"),
        ("Cache the API responses.", "Don’t cache the API responses."),
        ("It is quick. Retry the upload at once.", "It is slow. Do not retry the upload at once."),
    ],
)
def test_opposite_advice_is_noticed(one, other):
    assert opposed(one, other) and opposed(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Always squash commits before merging.", "Squash commits before merging."),
        ("Never retry without a pause.", "Retry with a pause."),
        ("Avoid global state", "Do not use global state"),
        ("Use connection pooling for Postgres", "Never log secrets of users"),
        ("Set a timeout on queries. No query may hang.", "Set a timeout on queries."),
        ("Enable strict mode", "Enable strict mode in the compiler options"),
        ("", "Never"),
    ],
)
def test_what_agrees_or_is_about_something_else_is_not_opposed(one, other):
    assert not opposed(one, other) and not opposed(other, one)


def test_only_what_nobody_said_is_left():
    told = ["Set a timeout on every query. Use a pool."]
    text = "Set a timeout on each query.\n- Log slow queries.\n- Log the slow queries!"
    assert unsaid(text, told) == ["Log slow queries."]


def test_one_word_that_matters_is_enough_to_be_new():
    told = ["Delete files that were modified less than 60 minutes ago."]
    text = "Delete files that were modified less than 60 days ago."
    assert unsaid(text, told) == [text]


def test_a_block_of_code_is_one_sentence():
    assert (
        sentences("Run this:\n```sh\nmake a; make b\nmake c.\n```\nThen stop.")[1].count("\n") == 3
    )


def test_other_numbers_are_noticed_but_not_those_of_a_list():
    assert differ_in_numbers("files of the last 5 days", "files of the last 7 days")
    assert not differ_in_numbers("wait 5 seconds", "wait a while")
    assert not differ_in_numbers("1. build\n2. test", "3) build\n4) test")

"""How many secrets are found in a corpus of our own, and how much else is taken for one."""

import sys
from collections import Counter

import pytest
from tests.requirement import requirement
from tests.safety.lookalike_corpus import lookalikes
from tests.safety.secret_corpus import corpus

from reasonbank.safety.scrub import clean, scrub


@requirement("DIS-10")
@requirement("SEC-4")
@pytest.mark.parametrize("seed", [0, 1])
def test_at_least_95_of_100_secrets_are_taken_out_of_every_format(seed):
    samples = list(corpus(seed))
    assert len(samples) >= 300 and len({format for format, _, _ in samples}) >= 40
    missed = [(format, text) for format, text, secret in samples if secret in clean(text)]
    assert len(missed) / len(samples) <= 0.05, missed
    all_of = Counter(format for format, _, _ in samples)
    assert not [
        format for format, n in Counter(f for f, _ in missed).items() if n == all_of[format]
    ]


@requirement("DIS-10")
@pytest.mark.parametrize("seed", [0, 1])
def test_at_most_3_of_100_texts_that_only_look_like_secrets_are_changed(seed):
    samples = list(lookalikes(seed))
    assert len(samples) >= 500
    wrong = [(text, clean(text)) for _, text in samples if scrub(text).found]
    assert len(wrong) / len(samples) <= 0.03, wrong


def work(text):
    """How often patterns read the whole text, and how often a piece of it.

    Counted, not timed: each call of the engine says where it begins and how far it may read.
    """
    size, whole, pieces = len(text.encode()), set(), 0

    def watch(frame, event, called):
        nonlocal pieces
        if event == "c_call" and getattr(called, "__name__", "") == "Match":
            read, how = (frame.f_locals.get(name) for name in ("text", "anchor"))
            if how and how.name == "UNANCHORED" and len(read) > size / 2:
                whole.add((id(frame.f_locals["self"]), id(read)))
            pieces += 1

    sys.setprofile(watch)
    try:
        found = scrub(text).found
    finally:
        sys.setprofile(None)
    return len(whole), pieces, sum(found.values())


@requirement("SEC-3")
def test_a_text_full_of_secrets_is_read_at_most_five_times_as_often_as_a_plain_one():
    words = "the test failed because a timeout was too short so the count of it was raised"
    plain = "\n".join(f"step {n}: {words}" for n in range(2_000))
    secrets = [text for _, text, _ in corpus(3)]
    dense = "\n".join(secrets * (len(plain) // len("\n".join(secrets)) + 1))
    plain_reads, _, none = work(plain)
    dense_reads, pieces, found = work(dense)
    assert none == 0 and found > 1_000
    assert dense_reads <= 5 * plain_reads
    assert pieces <= 100 * found


@requirement("SEC-3")
def test_nesting_secrets_does_not_make_the_text_be_read_without_end():
    nested = "password=://a:" * 5_000 + "@b:" * 5_000
    assert work(nested)[0] <= 5 * work("a plain text " * 8_000)[0]

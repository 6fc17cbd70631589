"""What a question is about: by that two memories of one fact are told from two of two things."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from tests.requirement import requirement

from reasonbank.search.asked import Bearing, bearing, read

OLDER = "The cart service listens on port 8081."


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("Which port does the cart service listen on?", {"cart", "service"}),
        ("What is the budget for the team offsite?", {"team", "offsite"}),
        ("What is the session timeout?", {"session"}),
        ("Which compiler builds the firmware?", {"firmware"}),
        ("How long are build artifacts kept?", {"build", "artifacts"}),
        ("Which Chrome versions do we support?", {"chrome"}),
        ("Who approves production access?", {"production", "access"}),
        ("Does Anna prefer tabs or spaces?", {"anna", "prefer"}),
        ("Welche Java-Version braucht der Importdienst?", {"importdienst"}),
        ("Qui gère les abonnements ?", {"abonnements"}),
        ("¿Dónde está el archivo?", {"archivo"}),
    ],
)
def test_what_it_wants_to_know_is_not_what_it_is_about(question, about):
    asked = read(question)
    assert asked is not None
    assert {word for group in asked.about for word in group} == about


def test_a_long_text_is_no_question():
    assert read("word " * 40) is None
    assert bearing("word " * 40, OLDER, OLDER) is Bearing.UNKNOWN


@requirement("RET-19")
@pytest.mark.parametrize(
    ("question", "older", "newer", "expected"),
    [
        # Said otherwise.
        ("Which port does the cart service listen on?", OLDER,
         "Callers reach the cart service under http://cart:9000.", Bearing.SAME),
        ("Who owns the crawler?", "The crawler is owned by team Otter.",
         "Team Lynx looks after the crawler.", Bearing.SAME),
        ("Where should new documentation go?", "New documentation goes to Confluence.",
         "Write docs in the docs folder.", Bearing.SAME),
        ("Welches Format haben die Exportdateien?", "Die Exportdateien sind CSV.",
         "Der Export ist Parquet.", Bearing.SAME),
        ("How long are raw events kept in the lake?", "Raw events are kept 400 days in the lake.",
         "Raw events are deleted after 90 days.", Bearing.PARTLY),
        # Another thing of the kind.
        ("Which port does the cart service listen on?", OLDER,
         "Port 8082 belongs to the wish list service.", Bearing.APART),
        ("When does the shop in Kiel open?", "The shop in Kiel opens at 9.",
         "In Bremen the shop lets customers in from 10.", Bearing.APART),
        ("Which log level do we use in development?", "In development we log at DEBUG.",
         "WARNING is the level in production.", Bearing.APART),
        ("What comes before a deploy?", "Before a deploy, run the smoke tests.",
         "After a deploy, watch the error rate.", Bearing.APART),
        ("How large is the disk of build-1?", "build-1 has a disk of 500 GB.",
         "The disk in build-2 has 2 TB.", Bearing.APART),
        ("When does the certificate of the shop expire?", "The shop's certificate ends in May.",
         "The API has a certificate that is valid until June.", Bearing.APART),
        ("How do I parse dates in read_csv?", "read_csv takes parse_dates for dates.",
         "Give read_csv dtype to keep zeros.", Bearing.APART),
        # Another thing about it.
        ("How long must a password be?", "Passwords need 14 characters.",
         "A password is changed only if it leaked.", Bearing.APART),
    ],
)  # fmt: skip
def test_who_lacks_what_the_question_is_about_is_about_another(question, older, newer, expected):
    assert bearing(question, older, newer) is expected


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_asked_for(question, older, newer):
    assert bearing(question, older, newer) in Bearing
    assert bearing(question, older, older) is not Bearing.PARTLY


@pytest.mark.parametrize("order", ["Append all mp3 files to a playlist", "list files newer than x"])
def test_an_order_is_no_question(order):
    """In a bank of like tasks many read alike, and each is one of its own."""
    assert read(order) is None
    assert read(f"How do I {order[0].lower()}{order[1:]}?") is not None

"""Two values of one fact, and two facts that are both true."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement

from reasonbank.model import Memory, Scope
from reasonbank.search.rivals import Rivalry, differ_in_values, rivalry
from reasonbank.testing.builders import a_memory

ONE_FACT = [
    ("Redis port", "Redis listens on port 6379.", "Redis listens on port 6380."),
    ("Node", "The shop is built with Node 18.19.", "The shop is built with Node 22.11."),
    ("Approval", "Releases are approved by Marta Lindqvist.", "Releases are approved by Tomasz."),
    ("Branch", "The site is deployed from develop.", "The site is deployed from main."),
    ("Indentation", "We indent with tabs.", "We indent with spaces."),
    ("Test command", "Run the tests with `make test`.", "Run the tests with `just test`."),
    ("Checkpoints", "They lie in /data/a on host g-1.", "They lie in /mnt/b on host g-3."),
    ("Branch cut", "The branch is cut on Tuesday.", "The branch is cut on Monday."),
    ("Store", "Orders keeps its data in MySQL.", "Orders keeps its data in Postgres."),
    ("Flag", "The flag new_cart is on for all.", "The flag new_cart is off for all."),
    ("Cache", "Entries live 5 minutes. Log misses.", "Entries live 30 minutes. Log misses."),
]  # fmt: skip
SAID = [
    ("Environments are managed with Poetry.", "Poetry was replaced by uv for all environments."),
    ("Merging is allowed on Fridays.", "From now on nothing is merged on Fridays."),
    ("New components use styled-components.", "We no longer use styled-components for components."),
    (
        "The staging database lives on db-stage-2.internal port 5433.",
        "The staging database moved to db-stage-3.internal port 5433.",
    ),
    ("Pipelines of customers run on Airflow.", "Customer pipelines run on X instead of Airflow."),
]  # fmt: skip
BOTH_TRUE = [
    ("Port", "The billing service has port 8081.", "The search service has port 8085."),
    ("Port", "Redis listens on port 6379.", "Postgres listens on port 5432."),
    ("Database", "Staging uses the database db-s-1.", "Production uses the database db-p-1."),
    ("Host", "In staging the host is db-stage-1.", "In production the host is db-prod-1."),
    ("Flags", "The flag --verbose prints every step.", "The flag --quiet prints nothing."),
    ("Options", "The option max_size defaults to 100.", "The option min_size defaults to 5."),
    ("Hours", "The office in Berlin opens at 8.", "The office in Munich opens at 9."),
    ("Owner", "packages/ui is owned by Dimitri.", "packages/http is owned by Farah."),
    ("Timeouts", "The connect timeout is 5 seconds.", "The read timeout is 30 seconds."),
    ("Limits", "The free plan allows 60 requests.", "The paid plan allows 600 requests."),
    ("Meetings", "The standup is on Monday at 9:30.", "The retro is on Friday at 15:00."),
]  # fmt: skip


def fact(title: str, content: str, **known: object) -> Memory:
    return a_memory(title=title, content=content, **known)


@requirement("RET-19")
@pytest.mark.parametrize(("title", "was", "now"), ONE_FACT)
def test_two_values_of_one_fact_are_rivals(title, was, now):
    assert rivalry(fact(title, was), fact(title, now)) is Rivalry.SURE


@requirement("RET-19")
@pytest.mark.parametrize(("was", "now"), SAID)
def test_a_memory_that_says_what_has_changed_outdates_the_other_but_not_the_reverse(was, now):
    assert rivalry(fact("How it was", was), fact("The news", now)) is Rivalry.SURE
    assert rivalry(fact("The news", now), fact("How it was", was)) is not Rivalry.SURE


@requirement("RET-19")
@pytest.mark.parametrize(("title", "one", "other"), BOTH_TRUE)
def test_facts_about_two_things_are_no_rivals(title, one, other):
    assert rivalry(fact(title, one), fact(title, other)) is Rivalry.NONE
    assert rivalry(fact(title, other), fact(title, one)) is Rivalry.NONE


@requirement("RET-19")
def test_titles_that_name_two_things_settle_it():
    one = fact("Minimum iOS version of the app", "The app needs iOS 15 or later.")
    other = fact("Minimum Android version of the app", "The app needs Android 9 or later.")
    assert rivalry(one, other) is Rivalry.NONE


@requirement("RET-19")
@pytest.mark.parametrize(
    "known", [{"scope": Scope.TEAM}, {"agent": "someone"}, {"domain": "web"}, {"workspace": "w"}]
)
def test_what_is_said_elsewhere_is_no_rival(known):
    older = fact("Redis port", "Redis listens on port 6379.", domain="data")
    newer = fact("Redis port", "Redis listens on port 6380.", **{"domain": "data"} | known)
    assert rivalry(older, newer) is Rivalry.NONE


@requirement("RET-19")
@settings(deadline=None)
@given(one=st.integers(1, 99999), other=st.integers(1, 99999))
def test_another_number_is_another_value_and_the_same_number_is_none(one, other):
    older, newer = (fact("Port", f"The gateway listens on port {port}.") for port in (one, other))
    assert rivalry(older, newer) is (Rivalry.NONE if one == other else Rivalry.SURE)


@settings(deadline=None)
@given(one=st.text(max_size=400), other=st.text(max_size=400))
def test_any_two_texts_can_be_compared_and_none_is_its_own_rival(one, other):
    titled = [fact("A title", text or "x") for text in (one, other)]
    assert rivalry(*titled) in Rivalry
    assert not differ_in_values(one, one)

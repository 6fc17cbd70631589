"""What people see who look for something: also what is nearest where nothing surely fits."""

from dataclasses import replace

from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.search.look import look

QUESTION = "apple pay merchant domain verification"
PAYMENTS = (
    ("Verify webhook signatures over the raw body", "When a provider calls back"),
    ("Pin the API version of the payment provider", "When a response changes its shape"),
    ("Do not retry a charge blindly", "Payments after a timeout"),
    ("Answer a webhook before working on it", "When an endpoint is disabled for being slow"),
)


@requirement("WEB-1")
def test_the_nearest_is_the_nearest_of_all_that_is_known(bank: Bank) -> None:
    for title, when in PAYMENTS:
        bank.record({"title": title, "description": when, "content": title, "outcome": "success"})
    seen = look(bank.context, QUESTION, limit=1, filter=None, min_confidence=None,
                follow_links=False, include_weak=True)  # fmt: skip
    [hit], fits = seen.reply.hits, seen.reply.relevance
    assert seen.dropped and fits[hit.memory.id] == max(fits.values())
    # As in a bank that knows so much else that this is near, but not surely meant.
    doubtful = replace(seen, reply=replace(seen.reply, hits=(replace(hit, weak=True),)))
    assert doubtful.to_json()["nearest"]["title"] == hit.memory.title
    assert seen.to_json()["nearest"] is None

"""Questions that found nothing, on their way into the ledger."""

from __future__ import annotations

from dataclasses import replace

from reasonbank.ledger.port import UnansweredQuestion

LONGEST = 500
"""Characters of a question that are kept."""


def fit_to_keep(entry: UnansweredQuestion, *, scrub: bool) -> UnansweredQuestion:
    """Without secrets, on one line, not too long; what was changed is embedded anew when shown."""
    question = entry.question
    if scrub:
        from reasonbank.safety.scrub import clean

        question = clean(question)
    question = " ".join(question.split())
    if len(question) > LONGEST:
        question = question[: LONGEST - 1] + "…"
    if question == entry.question:
        return entry
    return replace(entry, question=question, model=None, vector=None)

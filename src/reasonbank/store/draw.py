"""The draw: which tasks go without memory, and a note of what they would have been given.

Until something is found, a task that is held out and one that is not are told the same. So tasks
for which anything was found, at whichever of their searches, are alike on both sides, and the
report compares these. What is given says under which share it was drawn: a task of a time when
nobody was held out has no counterpart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.model import JSON
from reasonbank.settings import ProofSettings
from reasonbank.store.context import Context


def held_out(session: str, settings: ProofSettings) -> bool:
    """Whether this task goes without memory: by its name alone, so that asking again agrees."""
    return falls_to(session, str(settings.seed), settings.hold_out)


def falls_to(session: str, lot: str, share: float) -> bool:
    """Whether a task is among this share of them, by its name alone."""
    drawn = hashlib.sha256(f"{lot}\0{session}".encode()).digest()[:8]
    return int.from_bytes(drawn) < share * 2.0**64


def drawn(context: Context) -> JSON:
    """What is noted of the draw beside what a named task is given."""
    return {"drawn": context.settings.proof.hold_out}


def withhold(context: Context, session: str, ids: Sequence[str]) -> None:
    """Note what a task would have been given, at whichever moment; what is known is said once."""

    def work(txn: Writing) -> None:
        known = txn.withheld(context.view, session)
        if known is None or not known.issuperset(ids):
            context.join(txn)
            context.append(txn, EventType.WITHHELD, session, {"ids": [*ids], **drawn(context)})

    context.write(work)

"""What other banks are called where their words stand."""

from __future__ import annotations

from reasonbank.ledger.events import PEERS
from reasonbank.ledger.port import Reading


def named(reading: Reading, hand: str | None) -> str | None:
    """The bank whose hand this is; one that only others know is named by who brought its words."""
    if not (hand or "").startswith(PEERS):
        return None
    digits = str(hand).removeprefix(PEERS)
    book = reading.peers
    for peer in book.all():
        if peer.key.startswith(digits):
            return peer.name
    for log in book.logs():
        if log.key.startswith(digits) and (through := book.peer(log.via)) is not None:
            return f"{log.key[:8]} through {through.name}"
    return None

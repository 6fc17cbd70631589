"""What can be asked of a ledger that is kept in SQL; one module for each subject."""

from __future__ import annotations

from reasonbank.ledger.queries.administration import Administration
from reasonbank.ledger.queries.evidence import EvidenceQueries
from reasonbank.ledger.queries.log import Log
from reasonbank.ledger.queries.memories import Memories
from reasonbank.ledger.queue import Queue
from reasonbank.ledger.unanswered import Misses


class Reader(Memories, EvidenceQueries, Log, Administration):
    """``Reading``, over any ``Database``."""

    @property
    def queue(self) -> Queue:
        return Queue(self.db)

    @property
    def misses(self) -> Misses:
        return Misses(self.db)

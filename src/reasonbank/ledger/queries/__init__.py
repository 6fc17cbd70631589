"""What can be asked of a ledger that is kept in SQL; one module for each subject."""

from __future__ import annotations

from reasonbank.ledger.peers import PeerBook
from reasonbank.ledger.queries.administration import AdministrationQueries
from reasonbank.ledger.queries.evidence import EvidenceQueries
from reasonbank.ledger.queries.ids import IdQueries
from reasonbank.ledger.queries.log import LogQueries
from reasonbank.ledger.queries.memories import MemoryQueries
from reasonbank.ledger.queries.tasks import TaskQueries
from reasonbank.ledger.queue import JobQueue
from reasonbank.ledger.unanswered import UnansweredQuestions


class Reader(
    MemoryQueries, EvidenceQueries, TaskQueries, LogQueries, AdministrationQueries, IdQueries
):  # fmt: skip
    """``Reading``, over any ``Database``."""

    @property
    def queue(self) -> JobQueue:
        return JobQueue(self.db)

    @property
    def unanswered(self) -> UnansweredQuestions:
        return UnansweredQuestions(self.db)

    @property
    def peers(self) -> PeerBook:
        return PeerBook(self.db)

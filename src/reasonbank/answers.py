"""Every type that a bank answers with, by name.

Bank names them for type checkers only, so that it loads quickly; the surfaces make the schemas of
their answers from them.
"""

from reasonbank.agent.solution import Solution
from reasonbank.health import Health
from reasonbank.integrity import Verified
from reasonbank.jobs.service import Worked
from reasonbank.learn.passive import Captured
from reasonbank.learn.tickets import Prepared, Submitted
from reasonbank.model import ForReview
from reasonbank.proof.report import Report
from reasonbank.search.inject import Injection
from reasonbank.search.look import Looked
from reasonbank.search.recommend import Recommendation
from reasonbank.store.backup import BackedUp
from reasonbank.store.batches import Batch, Undone
from reasonbank.store.maintenance import Maintained, Reindexed
from reasonbank.store.revert import Reverted
from reasonbank.store.statistics import Statistics
from reasonbank.store.transfer import Imported
from reasonbank.tidy.consolidate import Result
from reasonbank.tidy.promote import Promotion

__all__ = [
    "BackedUp",
    "Batch",
    "Captured",
    "ForReview",
    "Health",
    "Imported",
    "Injection",
    "Looked",
    "Maintained",
    "Prepared",
    "Promotion",
    "Recommendation",
    "Reindexed",
    "Report",
    "Result",
    "Reverted",
    "Solution",
    "Statistics",
    "Submitted",
    "Undone",
    "Verified",
    "Worked",
]

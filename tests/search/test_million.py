"""A filter that keeps 1 % of a million memories still returns the true best."""

from __future__ import annotations

import numpy as np
import pytest
from tests.requirement import requirement
from tests.search.test_search import Compass, crowd_in, found

from reasonbank.ledger.port import Filter
from reasonbank.model import Outcome

ROWS, FIRST = 1_000_000, 1_000
TAGGED, FAILED = 7, 8  # Of each hundred, these two.
CHANGED = {
    "num": f"{FIRST} + value",
    "id": "'m' || value",
    "outcome": f"iif(value % 100 = {FAILED}, 'failure', 'success')",
    "lesson": "json_set(lesson, '$.title', '' || value)",
}
NUMBERS = (
    "with recursive n(value) as"
    f" (select 0 union all select value + 1 from n where value < {ROWS - 1}) select value from n"
)


def million(bank, stored):
    """Copies of one row, by SQL: through the log they would take minutes."""

    def write(txn):
        model, realm = txn.db.one("select model, realm from vectors limit 1")
        names = [row[1] for row in txn.db.all("pragma table_info(memories)")]
        made = ", ".join(CHANGED.get(name, name) for name in names)
        txn.db.execute(
            f"insert into memories ({', '.join(names)}) select {made}"
            f" from ({NUMBERS}), (select * from memories limit 1)"
        )
        txn.db.execute(
            f"insert into tags select 'in each hundred', {FIRST} + value from ({NUMBERS})"
            f" where value % 100 = {TAGGED}"
        )
        size = stored.shape[1] * 2
        own = f"substr(?, value * {size} + 1, {size})"
        txn.db.execute(
            "insert into vectors (num, model, realm, vector)"
            f" select {FIRST} + value, ?, ?, {own} from ({NUMBERS})",
            (model, realm, stored.tobytes()),
        )

    bank.context.write(write)


@pytest.mark.slow
@requirement("RET-7")
def test_of_a_million_a_filter_that_keeps_one_percent_returns_the_true_best(open_bank):
    bank, compass, _, _ = crowd_in(open_bank, 100)
    random = np.random.default_rng(9)
    vectors = random.normal(size=(ROWS, Compass.dimensions)).astype(np.float32)
    stored = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    million(bank, stored)
    arrow = random.normal(size=Compass.dimensions)
    compass.known["where?"] = arrow / np.linalg.norm(arrow)
    cosines = stored.astype(np.float32) @ compass.known["where?"].astype(np.float32)
    for kept, filter in (
        (TAGGED, Filter(tags=("in each hundred",))),
        (FAILED, Filter(outcomes=(Outcome.FAILURE,))),
    ):
        passing = np.arange(kept, ROWS, 100)
        best = passing[np.argsort(-cosines[passing], kind="stable")[:10]]
        reply = bank.search("where?", limit=10, filter=filter)
        assert found(reply) == [str(row) for row in best]
        assert not reply.degraded

"""Consolidation: what says the same becomes one, and can be taken apart again."""

from __future__ import annotations

import anyio
import pytest
from tests.requirement import requirement

from reasonbank.learn.consolidate import consolidate
from reasonbank.learn.merges import confidence
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Outcome, Source, State
from reasonbank.testing.builders import a_memory

BACKOFF = "Wait 1, 2, 4 seconds between attempts, with jitter."


def run(bank, **options):
    async def all_of_it():
        return await consolidate(bank, **options)

    return anyio.run(all_of_it)


def three_timeouts(bank):
    texts = (
        ("Set timeouts on database queries", "Give every database query a timeout, so that a slow query cannot hang the service."),
        ("Always set timeouts on database queries", "Every database query needs a timeout, so that a slow query cannot hang the service. Log each timeout."),
        ("Database queries need timeouts", "Give each database query a timeout, so that slow queries cannot hang the service."),
    )
    return [
        bank.record(a_memory(title=t, description="When querying a database", content=c, tags=("database",)))
        for t, c in texts
    ]


def test_x(bank):
    sources = three_timeouts(bank)
    other = bank.record(a_memory(title="Bake bread slowly", description="When baking", content="Let the dough rest for a night in the fridge."))
    r = run(bank)
    print(r.to_json())
    assert len(r.created) == 1
    m = bank.get(r.created[0])
    print(m)
    print(bank.links(m.id))
    for s in sources:
        assert bank.get(s.id).state is State.ARCHIVED and bank.get(s.id).merged_into == m.id
    print(bank.undo_batch(r.batch))
    for s in sources:
        assert bank.get(s.id).state is State.ACTIVE
    print(run(bank, force=True, dry_run=True).to_json())

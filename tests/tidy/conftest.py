"""Memories that say the same, and those that do not."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from reasonbank import Bank
from reasonbank.model import Memory
from reasonbank.testing.builders import a_memory
from reasonbank.tidy.consolidate import Result, consolidate

TIMEOUTS = (
    (
        "Set timeouts on database queries",
        "Give every database query a timeout, so that a slow query cannot hang the service.",
    ),
    (
        "Always set timeouts on database queries",
        "Every database query needs a timeout, so that a slow query cannot hang the service. "
        "Log each timeout.",
    ),
    (
        "Database queries need timeouts",
        "Give each database query a timeout, so that slow queries cannot hang the service.",
    ),
)
DOUGH = (
    (
        "Let the dough rest in the fridge",
        "Let bread dough rest in the fridge for a night: it tastes better.",
    ),
    (
        "Rest bread dough in the fridge overnight",
        "Bread dough that rests in the fridge for a night tastes better. Cover the bowl.",
    ),
)


def timeout(number: int, **overrides: Any) -> Memory:
    title, content = TIMEOUTS[number]
    known = {"title": title, "description": "When querying a database", "content": content}
    return a_memory(**known | overrides)


def dough(number: int, **overrides: Any) -> Memory:
    title, content = DOUGH[number]
    known = {"title": title, "description": "When baking bread", "content": content}
    return a_memory(**known | overrides)


def merged(bank: Bank, **options: Any) -> Result:
    async def run() -> Result:
        return await consolidate(bank.context, **options)

    return anyio.run(run)


@pytest.fixture
def timeouts(bank: Bank) -> list[Memory]:
    """Three that say the same."""
    return [bank.record(timeout(number)) for number in range(3)]


@pytest.fixture
def doughs(bank: Bank) -> list[Memory]:
    return [bank.record(dough(number)) for number in range(2)]

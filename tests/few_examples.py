"""A pytest plugin for `make mutants`: property tests try few examples, and always the same."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "few",
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    # One failure is enough; nobody reads it.
    phases=(Phase.explicit, Phase.generate),
    # One process runs the tests many times.
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("few")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # mutmut 3.8 reads it; pytest 9.2 has only `nodeid`.
    item: Any
    for item in items:
        item._nodeid = item.nodeid
        # One process collects the tests many times. pytest 9.2 keeps the ids that it made and
        # escapes them once more: a mutant whose tests are not found would count as killed.
        for mark in item.iter_markers("parametrize"):
            if source := mark._param_ids_from:
                object.__setattr__(source, "_param_ids_generated", None)
    # What was remembered before the mutant came would hide it.
    for name, module in list(sys.modules.items()):
        if name.startswith("reasonbank."):
            for value in vars(module).values():
                getattr(value, "cache_clear", int)()

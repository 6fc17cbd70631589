"""Boxes for tests, and whether this machine has them."""

from __future__ import annotations

import sys
from functools import cache

import anyio
import pytest

from reasonbank.agent.verify import Verifier
from reasonbank.errors import Refused
from reasonbank.settings import Sandbox


@cache
def has_boxes() -> bool:
    try:
        anyio.run(Verifier(name="trial", command=(sys.executable, "-c", "")).check)
    except Refused:
        return False
    return True


needs_a_closed_box = pytest.mark.skipif(
    not has_boxes(), reason="this kernel gives no user namespaces, or no filter of system calls"
)
# Where a box cannot be had, what needs none is still tried.
OPEN = {} if has_boxes() else {"network": "allow"}


def limits(**given: object) -> Sandbox:
    return Sandbox(**{"seconds": 30.0, **OPEN, **given})  # type: ignore[arg-type]

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import MEMORY, open_bank

from reasonbank.bank import Bank


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    """A folder in memory where there is one: most of these tests are not about the disk."""
    folder = tempfile.mkdtemp(prefix="reasonbank-", dir=MEMORY)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def path(memory_disk: Path) -> Path:
    return memory_disk / "bank" / "bank.db"


@pytest.fixture
def bank(path: Path) -> Iterator[Bank]:
    with open_bank(path) as bank:
        yield bank
